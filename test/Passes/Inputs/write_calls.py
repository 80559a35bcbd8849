# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A kernel that maps the last of functions @f0, @f1, ..., each of which calls the one before it, once
# (chain) or twice (double): write_calls.py chain|double COUNT
#
# Or a function with a factor, a captured number that is doubled COUNT times by adding it to itself; and a kernel with a
# map of the function and its gradient: write_calls.py uniform COUNT

import sys

if sys.argv[1] == "uniform":
    count = int(sys.argv[2])
    print("tile.capture @cap : f32\nfunc.func private @f(%s: f32) -> f32 {\n  %u0 = tile.at @cap : f32")
    for i in range(count):
        print(f"  %u{i + 1} = arith.addf %u{i}, %u{i} : f32")
    print(f"  %x = arith.mulf %s, %u{count} fastmath<reassoc> : f32")
    print("  %y = math.tanh %x : f32\n  return %y : f32\n}")
    print(
        """tile.kernel @k(%x: !tile.view<[?], f32>) grid(%b = 1) {
  %t = tile.load %x[%b] : !tile.view<[?], f32> -> tensor<8xf32>
  %m = tile.map @f(%t) : (tensor<8xf32>) -> tensor<8xf32>
  %g = tile.map_gradient @f(%m) wrt 0 seed %t : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  tile.store %g, %x[%b] : tensor<8xf32>, !tile.view<[?], f32>
}"""
    )
    sys.exit()
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
