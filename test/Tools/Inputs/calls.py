# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# calls.py N: prints a kernel that applies the first of N functions, each of which calls the next.

import sys

count = int(sys.argv[1])
print("""tile.kernel @k (%x: !tile.view<[?], i32>) grid(%i = 1) {
  %a = tile.load %x[0] : !tile.view<[?], i32> -> !tile.tile<[4], i32>
  %b = tile.map @f0(%a) : (!tile.tile<[4], i32>) -> !tile.tile<[4], i32>
  tile.store %b, %x[0] : !tile.tile<[4], i32>, !tile.view<[?], i32>
}""")
for i in range(count - 1):
    print(f"func.func private @f{i}(%x: i32) -> i32 {{")
    print(f"  %y = func.call @f{i + 1}(%x) : (i32) -> i32")
    print("  return %y : i32\n}")
print(f"func.func private @f{count - 1}(%x: i32) -> i32 {{\n  return %x : i32\n}}")
