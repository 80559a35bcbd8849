#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Unpacks the archive of scripts/make-package.sh and runs its tests.
#
#   scripts/test-package.sh [ARCHIVE]

set -euo pipefail
cd "$(dirname "$0")/.."
archive=$(realpath "${1:-$(ls tilewright-*-linux-x86_64.tar.xz)}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xf "$archive"
"$work/$(basename "$archive" .tar.xz)/run-tests.sh"
