#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The CTest entry `ptxas`: is skipped, which CTest shows, if there is no ptxas. lit then skips the tests that need it, such
# as no-spills.test, which check the limits in passes/Tgpu/Analysis/RegisterLimits.h, and says nothing.
#
#   scripts/check-ptxas.sh BUILD

cd "$(dirname "$0")/.." || exit 1
if PATH=$PATH:$1/ptxas:/usr/local/cuda/bin command -v ptxas; then
  exit 0
fi
echo "There is no ptxas (scripts/install-ptxas.sh fetches it). Not tested, or only in part:"
grep -rl --include='*.test' --include='*.mlir' -e 'REQUIRES:.*ptxas' -e '%if ptxas' test | sort | sed 's/^/  /'
exit 77
