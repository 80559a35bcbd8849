# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# many_operations.py function: a kernel that maps a function of 135,000 operations in a branch that may fail
# many_operations.py barriers: a mapped kernel with 33,000 barriers
# many_operations.py chain: a kernel that computes an index by a chain of 3,000 products
# many_operations.py dimensions, many_operations.py shape: a kernel of a view with 22,000 dimensions, and the options for it

import sys


def function():
    count = 135000
    print("""!v = !tile.view<[64], f32>
func.func private @f(%a: f32, %n: i32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c = arith.cmpf olt, %a, %zero : f32
  %r = scf.if %c -> (f32) {
    %q = arith.divsi %n, %n : i32
    %v0 = arith.sitofp %q : i32 to f32""")
    for i in range(count):
        print(f"    %v{i + 1} = arith.addf %v{i}, %a : f32")
    print(f"""    scf.yield %v{count} : f32
  }} else {{
    scf.yield %a : f32
  }}
  return %r : f32
}}
tile.kernel @k (%x: !v, %y: !v, %n: i32) grid(%i = 1) {{
  %z = tile.load %x[0] : !v -> tensor<64xf32>
  %w = tile.map @f(%z, %n) : (tensor<64xf32>, i32) -> tensor<64xf32>
  tile.store %w, %y[0] : tensor<64xf32>, !v
}}""")


def barriers():
    print('tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {')
    print("  tgpu.sync\n" * 33000 + "}")


def chain():
    print("""!v = !tile.view<[?, 64], f32>
tile.kernel @k (%x: !v, %y: !v, %n: i32) grid(%b = ceildiv(dim(x, 0), 64)) {
  %zero = arith.constant 0 : i32
  %a0 = arith.addi %n, %b : i32""")
    for i in range(3000):
        print(f"  %a{i + 1} = arith.muli %a{i}, %n : i32")
    print("""  %t = tile.load %x[%a3000, %zero] : !v -> tensor<64x64xf32>
  tile.store %t, %y[%b, %zero] : tensor<64x64xf32>, !v
}""")


def dimensions():
    extents, indices = (", ".join([each] * 22000) for each in "?0")
    print(f"""!v = !tile.view<[{extents}], f32>
tile.kernel @k (%x: !v) grid(%i = 1) {{
  tile.store 0, %x[{indices}] : !tile.tile<[1], f32>
}}""")


def shape():
    print("--out x=x.npy@" + "x".join(["1"] * 22000))


if __name__ == "__main__":
    {"function": function, "barriers": barriers, "chain": chain, "dimensions": dimensions, "shape": shape}[sys.argv[1]]()
