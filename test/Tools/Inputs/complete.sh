# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# complete.sh LINE: what bash offers for the last word of a command line, in one line.

source "$(dirname "$0")/../../../tools/completion/tilewright.bash"
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tilewright
echo "${COMPREPLY[@]}"
