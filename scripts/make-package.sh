#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the self-contained package, proves that it is one, and writes tilewright-VERSION-linux-x86_64.tar.xz.
#
#   scripts/make-package.sh [JOBS]

set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
build=build-package
limit=$((40 * 1000 * 1000))

[ -f $build/build.ninja ] || cmake --preset package
cmake --build $build --parallel "$jobs"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' $build/CMakeCache.txt)
name=tilewright-$version-linux-x86_64
stage=$build/stage/$name
rm -rf "$build/stage"
cmake --install $build --prefix "$stage" >/dev/null
# It tests libtilewright.so, which the package does not hold.
rm -f "$stage/test/RuntimeSharedTest"

# Nothing but glibc at run time, and no symbol of a glibc newer than that of Debian 12.
failed=0
for binary in "$stage"/bin/* "$stage"/test/*; do
  [ -x "$binary" ] && [ "$(head -c 4 "$binary" | tail -c 3)" = ELF ] || continue
  needed=$(objdump -p "$binary" | awk '$1 == "NEEDED" { print $2 }' |
           grep -vE '^(libc|libm|libpthread|libdl|librt)\.so\.[0-9]$|^ld-linux-x86-64\.so\.2$' || true)
  if [ -n "$needed" ]; then
    echo "make-package: $(basename "$binary") needs" $needed >&2
    failed=1
  fi
  newest=$(objdump -T "$binary" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -1)
  if [ "$(printf '%s\n' "$newest" GLIBC_2.36 | sort -V | tail -1)" != GLIBC_2.36 ]; then
    echo "make-package: $(basename "$binary") needs $newest, newer than 2.36" >&2
    failed=1
  fi
done
[ $failed = 0 ]

# The tools share most of their code: a dictionary larger than all of them together stores it once.
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$build/stage" -cf - "$name" |
  xz -T1 --lzma2=preset=9,dict=192MiB >"$name.tar.xz"
size=$(stat -c %s "$name.tar.xz")
echo "$name.tar.xz: $((size / 1000)) kB, $(du -sk "$stage" | cut -f1) KiB unpacked"
if [ "$size" -gt $limit ]; then
  echo "make-package: larger than the $limit bytes it may have" >&2
  exit 1
fi
