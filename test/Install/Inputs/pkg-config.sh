# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# pkg-config.sh PREFIX CC SOURCE OUTPUT: compiles a program in C by what pkg-config says of an installation.

set -euo pipefail
export PKG_CONFIG_PATH=$1/lib/pkgconfig
flags=$(pkg-config --cflags --libs tilewright tilewright-compiler)
echo "$(pkg-config --modversion tilewright):" $flags
"$2" -std=c11 -Wall -Wextra -Werror "$3" -o "$4" $flags -Wl,-rpath,"$1/lib"
