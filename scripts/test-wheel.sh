#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs a wheel into a fresh environment, without PyTorch, and uses it as in docs/pytorch.md, from a folder that contains
# only the tests of the source tree. If a Python with PyTorch exists, also installs the wheel into a second environment with
# that PyTorch, and runs tests of the operator there, on the CPU. Also loads and runs it without the symbols of glibc that
# are newer than 2.34 (scripts/old-glibc.py).
#
#   scripts/test-wheel.sh [WHEEL]
#
# TORCH_PYTHON names the Python that has PyTorch; otherwise it is the first of python3 and /usr/bin/python3 that imports it.

set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:-$(ls dist/tilewright-*.whl)}")
imports_torch() { "$1" -c 'import torch' 2>/dev/null; }
torch_python=${TORCH_PYTHON:-}
for python in python3 /usr/bin/python3; do
  if [ -z "$torch_python" ] && imports_torch "$python"; then torch_python=$python; fi
done
if [ -n "$torch_python" ] && ! imports_torch "$torch_python"; then
  echo "test-wheel: TORCH_PYTHON must import PyTorch, but $torch_python does not" >&2
  exit 1
fi
torch_python=${torch_python:+$(command -v "$torch_python")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r python/tests "$work/tests"
cp scripts/old-glibc.py test/Install/Inputs/check_exceptions.py "$work"
cd "$work"
for variable in $(env | sed -n 's/^\(TILEWRIGHT[A-Z_]*\)=.*/\1/p') PYTHONPATH; do unset "$variable"; done

/usr/bin/python3 -m venv environment
environment/bin/pip install --quiet --no-index --disable-pip-version-check "$wheel"
export PATH=$work/environment/bin:/usr/bin:/bin

# All files are found in the wheel, and a missing PyTorch is reported by name.
cat >use.py <<'EOF'
import os, sys
import tilewright
from tilewright import compiler, places, runtime
inside = os.path.join(sys.argv[1], "environment")
for place in (places.KERNELS, places.find_library(), places.find_compiler(), places.find_tool(), places.find_run()):
    assert os.path.exists(place) and place.startswith(inside), place
try:
    tilewright.attention
except ModuleNotFoundError as error:
    assert error.name == "torch", error
else:
    raise AssertionError("this environment must not have PyTorch")

# From a kernel of the wheel to a plan, through both C interfaces.
params = {"D": 64, "T": "bf16", "CAUSAL": "top_left"}
bytes = compiler.compile_bundle(os.path.join(places.KERNELS, "attention_forward.mlir"), params,
                                [os.path.join(places.KERNELS, "mods", "softcap.mlir")])
library = runtime.Library(places.find_library())
plan = runtime.AttentionForward(library, library.load(bytes), "bf16", 64, "top_left")
assert plan.takes("softcap"), plan.captures()
print(f"test-wheel: a bundle of {len(bytes)} bytes and its plan")
EOF
python use.py "$work"

# The same by the symbols of glibc 2.34 alone; and what both libraries throw, they catch, by either glibc.
read -r packages library compiler run kernels < <(python -c '
import sysconfig
from tilewright import places
print(sysconfig.get_path("purelib"), places.find_library(), places.find_compiler(), places.find_run(), places.KERNELS)')
/usr/bin/python3 old-glibc.py glibc --with /usr/bin/python3
old="$work/glibc/ld-linux-x86-64.so.2 --library-path $work/glibc"
PYTHONPATH=$packages $old glibc/python3 -B use.py "$work"
$old "$packages/tilewright/bin/tilewright-demo" --kernels="$kernels" | tail -1 | tee log
grep -qE '^([0-9]+) of \1 cases are right' log
/usr/bin/python3 -B check_exceptions.py "$library" "$compiler" "$run" "$kernels"
INTERPRETER="$old $work/glibc/python3" $old glibc/python3 -B check_exceptions.py "$library" "$compiler" "$run" "$kernels"

# The run fails if a test is skipped, except for those that compare with files of the source tree.
run_tests() {
  for test in "$@"; do
    python -B tests/run.py "$test" 2>&1 | tee log | tail -1
    grep -qE '^OK( |$)' log
    if grep " skipped '" log | grep -v 'this is not a source tree'; then return 1; fi
  done
}
run_tests test_checks.py test_runtime.py # which need no PyTorch

# Tools: compile a kernel to PTX, compute attention on the CPU, and compare the result with the reference.
kernels=$(python -c 'from tilewright import places; print(places.KERNELS)')
tilewrightc "$kernels/attention_forward.mlir" --param D=64 --param T=f16 --emit=ptx -o attention.ptx
grep -q '\.entry attention_forward' attention.ptx
tilewright-demo | tail -1 | tee log
grep -qE '^([0-9]+) of \1 cases are right' log

# PyTorch is outside the environment: a .pth file adds its path after that of the wheel.
if [ -n "$torch_python" ]; then
  "$torch_python" -m venv environment-torch
  environment-torch/bin/pip install --quiet --no-index --disable-pip-version-check "$wheel"
  folder=$(environment-torch/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$torch_python" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' >"$folder/torch.pth"
  export PATH=$work/environment-torch/bin:/usr/bin:/bin
  python - "$work" <<'EOF'
import os, sys
import tilewright, torch
from tilewright import places
inside = os.path.join(sys.argv[1], "environment-torch")
for place in (tilewright.__file__, places.KERNELS, places.find_library(), places.find_compiler(), places.find_run()):
    assert place.startswith(inside), place
assert callable(tilewright.attention)
print(f"test-wheel: beside PyTorch {torch.__version__}")
EOF
  run_tests test_torch_cpu.py test_torch_sdpa.py
else
  echo "test-wheel: SKIPPED beside PyTorch: neither python3 nor /usr/bin/python3 imports it; TORCH_PYTHON can name another"
fi
echo "test-wheel: $(basename "$wheel") works"
