#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts the ptxas with which the limits of registers were measured (passes/Tgpu/Analysis/RegisterLimits.h) into BUILD/ptxas, from
# NVIDIA's package on PyPI: a download of about 40 MB, of which one file is kept. Tests need it to see spills. Does nothing
# if the machine has a ptxas, or TILEWRIGHT_PTXAS is set. Never fails: without ptxas, CTest shows the entry `ptxas` as
# skipped. After a failed attempt it tries again an hour later.
#
#   scripts/install-ptxas.sh BUILD

set -uo pipefail

VERSION=13.0.88
build=$1
folder=$build/ptxas

if [ -n "${TILEWRIGHT_PTXAS:-}" ] || command -v ptxas >/dev/null || [ -x /usr/local/cuda/bin/ptxas ]; then
  exit 0
fi
if [ -x "$folder/ptxas" ] || [ -n "$(find "$folder/failed" -mmin -60 2>/dev/null)" ]; then
  exit 0
fi
give_up() {
  echo "install-ptxas.sh: $1; tests of spills are skipped" >&2
  mkdir -p "$folder" && touch "$folder/failed"
  exit 0
}

[ "$(uname -m)" = x86_64 ] || give_up "there is no ptxas for this machine"
python=
for each in python3 /usr/bin/python3; do
  if "$each" -m pip --version >/dev/null 2>&1; then
    python=$each
    break
  fi
done
[ -n "$python" ] || give_up "no pip to fetch ptxas with (Debian's package: python3-pip)"

work=$(mktemp -d) || give_up "no temporary folder"
trap 'rm -rf "$work"' EXIT
echo "Fetching ptxas $VERSION (40 MB)"
timeout 300 "$python" -m pip download -q --no-deps --disable-pip-version-check --retries 1 --timeout 15 \
  --platform manylinux2014_x86_64 --only-binary :all: -d "$work" "nvidia-cuda-nvcc==$VERSION" >"$work/log" 2>&1 ||
  give_up "pip cannot fetch nvidia-cuda-nvcc $VERSION: $(tail -n 1 "$work/log")"
"$python" - "$work" <<'END' || give_up "the package has no ptxas"
import glob, os, sys, zipfile

work = sys.argv[1]
with zipfile.ZipFile(glob.glob(os.path.join(work, "*.whl"))[0]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith("/bin/ptxas"))
    with open(os.path.join(work, "ptxas"), "wb") as file:
        file.write(wheel.read(name))
END
chmod +x "$work/ptxas"
"$work/ptxas" --version >/dev/null 2>&1 || give_up "ptxas does not run here"
mkdir -p "$folder" && mv "$work/ptxas" "$folder/ptxas" && rm -f "$folder/failed"
