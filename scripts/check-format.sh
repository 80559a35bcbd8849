#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Fails where a C++ file is not as `make format` leaves it, and names the files. Exit code 77 where there is no
# clang-format-22: other versions format differently.
#
#   scripts/check-format.sh [ROOT]

set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
command -v clang-format-22 >/dev/null || { echo "check-format: there is no clang-format-22" >&2; exit 77; }

# Copies of the tree without its history have no build folders either.
files() {
  git ls-files -z '*.h' '*.cpp' 2>/dev/null || find . -name .git -prune -o \( -name '*.h' -o -name '*.cpp' \) -print0
}
wrong=$(files | xargs -0 clang-format-22 --dry-run 2>&1 |
        sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
[ -z "$wrong" ] && exit 0
echo "check-format: run make format; not formatted:" >&2
echo "$wrong" >&2
exit 1
