#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Unpacks the archive of scripts/make-package.sh and runs its tests; and, without the symbols of glibc that are newer than
# 2.34 (scripts/old-glibc.py), the compiler and what both libraries throw and catch.
#
#   scripts/test-package.sh [ARCHIVE]

set -euo pipefail
cd "$(dirname "$0")/.."
archive=$(realpath "${1:-$(ls tilewright-*-linux-x86_64.tar.xz)}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xf "$archive"
package=$work/$(basename "$archive" .tar.xz)

scripts/old-glibc.py "$work/glibc" --with /usr/bin/python3
old="$work/glibc/ld-linux-x86-64.so.2 --library-path $work/glibc"
$old "$package/bin/tilewrightc" kernels/attention_forward.mlir --param D=64 --param T=f16 --emit=ptx >"$work/attention.ptx"
grep -q '\.entry attention_forward' "$work/attention.ptx"
for interpreter in /usr/bin/python3 "$old $work/glibc/python3"; do
  INTERPRETER=$interpreter $interpreter -B test/Install/Inputs/check_exceptions.py "$package"/lib/libtilewright.so.[0-9] \
    "$package"/lib/libtilewright-compiler.so.[0-9] "$package/bin/tilewright-run" kernels
done

"$package/run-tests.sh"
