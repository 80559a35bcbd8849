# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A kernel that maps the last of functions @f0, @f1, ..., each of which calls the one before it, once
# (chain) or twice (double): write_calls.py chain|double COUNT

import sys

calls = {"chain": 1, "double": 2}[sys.argv[1]]
count = int(sys.argv[2])
print("func.func private @f0(%x0: f32) -> f32 {\n  %y = math.sin %x0 : f32\n  return %y : f32\n}")
for i in range(1, count + 1):
    print(f"func.func private @f{i}(%x0: f32) -> f32 {{")
    for j in range(calls):
        print(f"  %x{j + 1} = func.call @f{i - 1}(%x{j}) : (f32) -> f32")
    print(f"  %y = math.sin %x{calls} : f32\n  return %y : f32\n}}")
print(
    f"""tile.kernel @k(%x: !tile.view<[?], f32>) grid(%b = 1) {{
  %t = tile.load %x[%b] : !tile.view<[?], f32> -> tensor<8xf32>
  %m = tile.map @f{count}(%t) : (tensor<8xf32>) -> tensor<8xf32>
  tile.store %m, %x[%b] : tensor<8xf32>, !tile.view<[?], f32>
}}"""
)
