#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts PyTorch into BUILD/pytorch, for the tests of the Python package: a download of 2.5 GB from PyPI, whose package for x86-64
# has the libraries of CUDA, too; tests compute on the CPU. CTest adds the folder to PYTHONPATH. Does nothing if python3 can import
# PyTorch. Never fails: without PyTorch, CTest shows the entries python-torch_... as skipped. After a failed attempt it tries again
# an hour later.
#
#   scripts/install-pytorch.sh BUILD

set -uo pipefail

VERSION=2.15.0
NEEDED_MB=9000 # the packages, and what pip unpacks meanwhile
build=$1
folder=$build/pytorch
python=/usr/bin/python3 # which CTest runs
[ -x "$python" ] || python=python3

if [ -f "$folder/torch/__init__.py" ] || "$python" -c 'import torch' 2>/dev/null; then
  exit 0
fi
give_up() {
  echo "install-pytorch.sh: $1; tests with PyTorch are skipped" >&2
  rm -rf "$folder" "$folder.new"
  mkdir -p "$build" && touch "$build/pytorch-failed"
  exit 0
}
if [ -n "$(find "$build/pytorch-failed" -mmin -60 2>/dev/null)" ]; then
  echo "install-pytorch.sh: PyTorch could not be installed less than an hour ago; tests with PyTorch are skipped" >&2
  exit 0
fi

mkdir -p "$build" || give_up "there is no folder $build"
free=$(df -Pm "$build" | awk 'NR == 2 { print $4 }')
[ "${free:-0}" -ge "$NEEDED_MB" ] || give_up "$build has $free MB, and PyTorch needs $NEEDED_MB"
pip=()
for each in "$python" python3; do
  if "$each" -m pip --version >/dev/null 2>&1; then
    pip=("$each" -m pip --python "$python")
    break
  fi
done
[ ${#pip[@]} -gt 0 ] || give_up "no pip to install PyTorch with (Debian's package: python3-pip)"

echo "Installing PyTorch $VERSION for the tests (2.5 GB)"
rm -rf "$folder.new"
log=$(timeout 900 "${pip[@]}" install -q --no-compile --no-cache-dir --disable-pip-version-check --only-binary :all: --retries 1 \
  --target "$folder.new" "torch==$VERSION" 2>&1) ||
  give_up "pip cannot install torch $VERSION: $(tail -n 1 <<<"$log")"
PYTHONPATH=$folder.new "$python" -c 'import torch; torch.ones(2).sum()' 2>/dev/null || give_up "torch $VERSION does not run here"
mv "$folder.new" "$folder" && rm -f "$build/pytorch-failed"
