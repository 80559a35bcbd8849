#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the self-contained package, checks its dependencies, and writes tilewright-VERSION-linux-x86_64.tar.xz.
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
for component in runtime compiler runtime-cpp tools package; do
  cmake --install $build --prefix "$stage" --component $component >/dev/null
done

# At run time, the package may need only glibc, and no symbol that is newer than 2.34.
scripts/check-binaries.py "$stage"

# The tools contain mostly the same code. With a dictionary larger than all tools together, xz stores that code once.
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$build/stage" -cf - "$name" |
  xz -T1 --lzma2=preset=9,dict=192MiB >"$name.tar.xz"
size=$(stat -c %s "$name.tar.xz")
echo "$name.tar.xz: $((size / 1000)) kB, $(du -sk "$stage" | cut -f1) KiB unpacked"
if [ "$size" -gt $limit ]; then
  echo "make-package: larger than the $limit bytes it may have" >&2
  exit 1
fi
