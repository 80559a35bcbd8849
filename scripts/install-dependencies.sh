#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs missing build dependencies from Debian's packages. Takes a second if nothing is missing. The arguments add the
# dependencies of the make targets of these names.
#
#   scripts/install-dependencies.sh [fuzz] [coverage] [package] [wheel]

set -euo pipefail

packages=(
  g++ cmake ninja-build ccache
  llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools
  lld-22                                          # links in a fraction of the time of GNU ld
  libzstd-dev zlib1g-dev libxml2-dev libedit-dev  # named by LLVM's CMake files
  libeigen3-dev libgtest-dev
  clang-format-22                                 # make format, and its test
  pkg-config                                      # the test of the installation
  python3 python3-numpy                           # lit, and .npy files in the tests of the tools
  mkdocs                                          # make site, and its test; with its dependencies a download of 10 MB
)
for word in "$@"; do
  case "$word" in
    fuzz | coverage) packages+=(clang-22 libclang-rt-22-dev) ;;
    package) packages+=(xz-utils binutils) ;;
    wheel) packages+=(binutils python3-wheel python3-venv) ;;
    *) echo "install-dependencies.sh: unknown word '$word'" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install-dependencies.sh: this is not a Debian system; please install the equivalents of:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

missing=()
installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p')
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

echo "Missing Debian packages: ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  run=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
  run=(sudo)
else
  echo "Installing them needs root. As root, run:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi

install() {
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" </dev/null
}

# Package lists are fetched only if the existing ones do not contain the packages.
if ! apt-get install -s "${missing[@]}" >/dev/null 2>&1; then
  "${run[@]}" apt-get update </dev/null
elif install; then
  exit 0
else
  "${run[@]}" apt-get update </dev/null
fi
if ! install; then
  echo "install-dependencies.sh: apt-get could not install: ${missing[*]}" >&2
  echo "Debian 12 has LLVM 22 in bookworm-security; check that /etc/apt/sources.list names it." >&2
  exit 1
fi
