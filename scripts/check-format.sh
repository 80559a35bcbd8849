#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Fails, and names the files, if a C++ file is not formatted as by `make format`, or if a line is too long (clang-format
# does not break long comments and literals). Exits with 77 if no line is too long but clang-format-22 is missing; other
# versions format differently.
#
# A line has at most 100 columns in C and C++, and 120 in .td files and in the .mlir files of kernels/. The .mlir files
# of test/ are exempt: a RUN line, and a line that FileCheck looks for, cannot be broken.
#
#   scripts/check-format.sh [ROOT]

set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# files PATTERN...: NUL-separated names. A copy of the tree without its history may have build folders.
files() {
  git ls-files -z "$@" 2>/dev/null || for pattern in "$@"; do
    find . \( -name .git -o -path './build*' \) -prune -o -path "./$pattern" -type f -print0
  done
}
# too_long COLUMNS PATTERN...
too_long() {
  local columns=$1
  shift
  files "$@" | LC_ALL=C.UTF-8 xargs -0 python3 -c '
import sys
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if len(line.rstrip("\n")) > int(sys.argv[1]):
                print(f"{name}:{number}")' "$columns"
}
long=$(too_long 100 '*.h' '*.c' '*.cpp'; too_long 120 '*.td' 'kernels/*.mlir')
if [ -n "$long" ]; then
  echo "check-format: lines over 100 columns in C and C++, or over 120 in .td and .mlir files:" >&2
  echo "$long" >&2
  exit 1
fi

command -v clang-format-22 >/dev/null || { echo "check-format: there is no clang-format-22" >&2; exit 77; }
wrong=$(files '*.h' '*.cpp' | xargs -0 clang-format-22 --dry-run 2>&1 |
        sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
[ -z "$wrong" ] && exit 0
echo "check-format: run make format; not formatted:" >&2
echo "$wrong" >&2
exit 1
