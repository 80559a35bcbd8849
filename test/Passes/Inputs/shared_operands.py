# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# shared_operands.py loop|capture doubled|chain: sums, each of which reads the previous one twice (doubled) or once (chain).
# From the last of 60 doubled sums to the first, there are 2^60 paths; recursion along a chain of 50,000 sums would overflow
# the stack.

import sys

kind, form = sys.argv[1:]
count = 60 if form == "doubled" else 50000


def sums(first, other, indent):
    return "".join(f"{indent}%s{i + 1} = arith.addi %s{i}, %{f's{i}' if form == 'doubled' else other} : i32\n"
                   for i in range(count)).replace("%s0", first)


if kind == "loop":
    print("""tgpu.kernel @k target "sm_90a" warps 8 (%rounds: i32, %n: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
""" + sums("%n", "n", " " * 8) + f"""        %condition = arith.cmpi sgt, %s{count}, %c0 : i32
        %y = scf.if %condition -> (i32) {{
          scf.yield %c1 : i32
        }} else {{
          scf.yield %x : i32
        }}
        scf.yield %y : i32
      }} {{tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}}
    }}
}}""")
else:
    print("""tile.capture @bias : !tile.view<[?, ?], f32>
func.func private @read(%s: f32, %i: i32, %j: i32) -> f32 {
""" + sums("%j", "i", "  ") + f"""  %x = tile.at @bias[%i, %s{count}] : f32
  return %x : f32
}}
func.func @blocks(%a: tensor<64x32xf32>, %m: i32, %n: i32) -> tensor<64x32xf32> {{
  %i = tile.iota %m dim 0 : tensor<64x32xi32>
  %j = tile.iota %n dim 1 : tensor<64x32xi32>
  %b = tile.map @read(%a, %i, %j) : (tensor<64x32xf32>, tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}}""")
