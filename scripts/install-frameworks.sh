#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Puts PyTorch into BUILD/pytorch and JAX into BUILD/jax, for the tests of the Python package: downloads of 2.5 GB (whose package
# for x86-64 has the libraries of CUDA, too) and 0.1 GB from PyPI; tests compute on the CPU. CTest adds the folders to PYTHONPATH.
# Does nothing for what python3 can import. Never fails: without them, CTest shows the entries python-torch_... and python-jax as
# skipped. After a failed attempt it tries again an hour later.
#
#   scripts/install-frameworks.sh BUILD

set -uo pipefail

build=$1
python=/usr/bin/python3 # which CTest runs
[ -x "$python" ] || python=python3

say() { echo "install-frameworks.sh: $1" >&2; }

# install FOLDER NAME MODULE VERSION MB TEST: MB are those of the packages, and of what pip unpacks meanwhile.
install() {
  local folder=$build/$1 name=$2 module=$3 version=$4 needed=$5 test=$6 failed=$build/$1-failed
  if [ -f "$folder/$module/__init__.py" ] || "$python" -c "import $module" 2>/dev/null; then
    return
  fi
  if [ -n "$(find "$failed" -mmin -60 2>/dev/null)" ]; then
    say "$name could not be installed less than an hour ago; tests with $name are skipped"
    return
  fi
  local reason
  reason=$(attempt "$folder" "$name" "$module" "$version" "$needed" "$test") && rm -f "$failed" && return
  say "$reason; tests with $name are skipped"
  rm -rf "$folder" "$folder.new"
  mkdir -p "$build" && touch "$failed"
}

# Prints why it fails.
attempt() {
  local folder=$1 name=$2 module=$3 version=$4 needed=$5 test=$6 free log each pip=()
  mkdir -p "$build" || { echo "there is no folder $build"; return 1; }
  free=$(df -Pm "$build" | awk 'NR == 2 { print $4 }')
  [ "${free:-0}" -ge "$needed" ] || { echo "$build has $free MB, and $name needs $needed"; return 1; }
  for each in "$python" python3; do
    if "$each" -m pip --version >/dev/null 2>&1; then
      pip=("$each" -m pip --python "$python")
      break
    fi
  done
  [ ${#pip[@]} -gt 0 ] || { echo "no pip to install $name with (Debian's package: python3-pip)"; return 1; }
  say "installing $name $version for the tests"
  rm -rf "$folder.new"
  log=$(timeout 900 "${pip[@]}" install -q --no-compile --no-cache-dir --disable-pip-version-check --only-binary :all: --retries 1 \
    --target "$folder.new" "$module==$version" 2>&1) ||
    { echo "pip cannot install $module $version: $(tail -n 1 <<<"$log")"; return 1; }
  PYTHONPATH=$folder.new "$python" -c "$test" 2>/dev/null || { echo "$name $version does not run here"; return 1; }
  mv "$folder.new" "$folder"
}

install pytorch PyTorch torch 2.15.0 9000 'import torch; torch.ones(2).sum()'
install jax JAX jax 0.10.2 2000 'import jax; jax.numpy.ones(2).sum().block_until_ready()'
exit 0
