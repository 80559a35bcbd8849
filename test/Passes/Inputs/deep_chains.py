# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# deep_chains.py NAME N: a kernel whose values form a chain of N operations, or N levels of operations that each read
# the level below twice, so that there are 2^N paths.
# deep_chains.py run COMMAND...: runs a command with a stack of 512 KiB.

import os
import resource
import sys

folder = os.path.join(os.path.dirname(__file__), "..")


def doubled(n, kind, name="v", indent="    "):
    """N branches, each of which yields the value of the previous one on both sides."""
    types = ", ".join([kind] * (name.count(",") + 1))
    for i in range(n):
        before = ", ".join(f"%{each}{i}" for each in name.split(","))
        after = f"%{name}{i + 1}" if "," not in name else f"%t{i + 1}:{name.count(',') + 1}"
        if "," in name and i > 0:
            before = ", ".join(f"%t{i}#{k}" for k in range(name.count(",") + 1))
        print(f"{indent}{after} = scf.if %c -> ({types}) {{")
        print(f"{indent}  scf.yield {before} : {types}")
        print(f"{indent}}} else {{")
        print(f"{indent}  scf.yield {before} : {types}")
        print(f"{indent}}}")


def replaced(file, line, text):
    """The first kernel of a test, with its schedule and types; `line` replaced by `text`."""
    with open(os.path.join(folder, file)) as source:
        lines = source.read().split("\n}\n")[0].split("\n") + ["}"]
    assert sum(each.strip() == line for each in lines) == 1
    print("\n".join(text if each.strip() == line else each for each in lines if not each.startswith("//")))


def stored(n):
    print("""!acc = tensor<128x128xbf16, #tgpu.wgmma<2>>
!view = !tile.view<[?, ?], bf16>
#schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>
tgpu.kernel @k target "sm_90a" warps 8 (%c: !view, %d: !view) grid(%b = 1) attributes {tgpu.role_schedule = #schedule} {
  tgpu.roles
    role "compute" warps 8 {
      %v0 = tgpu.load %d[%b, 0] : !view -> !acc""")
    for i in range(n):
        print(f"      %v{i + 1} = arith.negf %v{i} : !acc")
    print(f"      tgpu.store %v{n}, %c[%b, 0] : !acc, !view\n    }}\n}}")


def summed(n, is_chain=False):
    print("""!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
!s = tensor<64x32xf32, #tgpu.wgmma<1>>
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32, %c: i1) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !row
  %tile = tile.full %zero : !s
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%old = %none) -> (!row) : i32 {
    %block = tile.reduce add %tile dim 1 : !s -> !row
    %v0 = arith.addf %old, %block fastmath<reassoc> : !row""")
    if is_chain:
        for i in range(n):
            print(f"    %b{i} = tile.reduce add %tile dim 1 : !s -> !row")
            print(f"    %v{i + 1} = arith.addf %v{i}, %b{i} fastmath<reassoc> : !row")
    else:
        doubled(n, "!row")
    print(f"""    scf.yield %v{n} : !row
  }}
  %wide = tile.expand %r dim 1 : !row -> !s
  tgpu.store %wide, %x[0, 0] : !s, !tile.view<[?, ?], f32>
}}""")


def counted(n):
    print("""tgpu.kernel @k target "sm_90a" warps 4 (%n: i32, %c: i1) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "compute" warps 4 {
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x0 = %c0, %y0 = %c1) -> (i32, i32) : i32 {""")
    doubled(n, "i32", name="x,y", indent="        ")
    print(f"        scf.yield %t{n}#0, %t{n}#1 : i32, i32\n      }}\n    }}\n}}")


def nested(n):
    print("""!b = !tgpu.shared<64x64xf16, b128>
!t = tensor<64x64xf16, #tgpu.wgmma<1>>
tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f16
  %tile = tile.full %zero : !t
  %buffer = tgpu.alloc : !b
  %acc = tgpu.wgmma %buffer, %buffer : !b, !b -> tensor<64x64xf32, #tgpu.wgmma<1>>""")
    for i in range(n):
        print(f"  scf.for %i{i} = %c0 to %n step %c1 : i32 {{")
    print("  tgpu.sync\n  tgpu.write %tile, %buffer : !t, !b")
    print("  }\n" * n + "}")


def defaults(n):
    print("tile.kernel @k params(" + "".join(f"P{i}: int = min(P{i + 1}, P{i + 1}), " for i in range(n)) +
          f"P{n}: int) (%x: !tile.view<[?], f32>) grid(%i = 1) {{\n}}")


def parts(n):
    print("""!v = !tile.view<[?], f32>
tgpu.kernel @k target "sm_90a" warps 4 (%v0: !v, %n: i32) grid(%b = 1) {""")
    for i in range(n):
        print(f"  %v{i + 1} = tile.subview %v{i} dim 0 from %n size %n : !v")
    print(f"  %d = tile.dim %v{n}, 0 : !v\n}}")


def products(n):
    print("""!view = !tile.view<[?, ?], f32>
!t = !tile.tile<[R, R], f32>
tile.kernel @k params(R: int = block()) (%x: !view, %n: i32) grid(%i = ceildiv(dim(x, 0), R)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !t
  %rows = tile.param R : i32
  %r = scf.for %j = %c0 to %n step %rows iter_args(%sum = %none) -> (!t) : i32 {
    %s = tile.load %x[%j, 0] : !view -> !t
    %p0 = tile.dot %s, %s : !t, !t -> !t
    %q0 = arith.negf %p0 : !t""")
    for i in range(1, n):
        print(f"    %p{i} = tile.dot %q{i - 1}, %q{i - 1} : !t, !t -> !t")
        print(f"    %q{i} = arith.addf %q{i - 1}, %p{i} : !t")
    print(f"""    %new = arith.addf %sum, %p{n - 1} : !t
    scf.yield %new : !t
  }}
  tile.store %r, %x[0, 0] : !t, !view
}}""")


def factors(n):
    print("func.func private @f(%s: f32) -> f32 {\n  %v0 = arith.negf %s : f32")
    for i in range(n):
        print(f"  %v{i + 1} = arith.negf %v{i} : f32")
    print(f"""  %r = arith.mulf %s, %v{n} : f32
  return %r : f32
}}
func.func @g(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}""")


def casts(n):
    print("""!x = !tile.view<[?, 24], f16>
!t = tensor<64x24xf16>
tile.kernel @k (%x: !x, %y: !tile.view<[?, 64], f32>) grid(%b = 1) {
  %t = tile.load %x[0, 0] : !x -> !t
  %v0 = tile.cast %t : !t -> tensor<64x24xbf16>""")
    kinds = ["bf16", "f16"]
    for i in range(n):
        print(f"  %v{i + 1} = tile.cast %v{i} : tensor<64x24x{kinds[i % 2]}> -> tensor<64x24x{kinds[(i + 1) % 2]}>")
    t = f"tensor<64x24x{kinds[n % 2]}>"
    print(f"""  %p = tile.dot %v{n}, %v{n} transpose_b : {t}, {t} -> tensor<64x64xf32>
  tile.store %p, %y[0, 0] : tensor<64x64xf32>, !tile.view<[?, 64], f32>
}}""")


def softmax(*replacements):
    """The first kernel of tile-to-tgpu-first-rounds.mlir, with texts replaced."""
    with open(os.path.join(folder, "tile-to-tgpu-first-rounds.mlir")) as source:
        text = source.read().split("\n}\n\n// Each iteration")[0] + "\n}\n"
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    print(text)


def begun(n):
    """The initial maximum is a maximum of maxima of -inf."""
    chain = "".join(f"  %m{i + 1} = arith.maximumf %m{i}, %m{i} : !row\n" for i in range(n))
    softmax(("  %no_max = tile.full %lowest : !row\n", "  %m0 = tile.full %infinite : !row\n" + chain),
            ("%no_max", f"%m{n}"))


def risen(n):
    """The carried maximum is the result of a chain of selects."""
    chain = "    %yes = arith.constant true\n    %flags = tile.full %yes : tensor<128xi1>\n"
    chain += "    %m0 = arith.maximumf %max, %most : !row\n"
    chain += "".join(f"    %m{i + 1} = tile.select %flags, %m{i}, %m{i} : tensor<128xi1>, !row\n" for i in range(n))
    softmax(("    tile.yield %all,", chain + f"    tile.yield %m{n},"))


def applied(n):
    """A recursive function."""
    softmax(("  %h = arith.constant 0.5 : f32\n", "  %t = tile.full %p : tensor<8xf32>\n"
             "  %u = tile.map @half(%t) : (tensor<8xf32>) -> tensor<8xf32>\n  %h = arith.constant 0.5 : f32\n"))


def called(n, times=1):
    """A kernel with a chain of functions, each of which calls the next."""
    calls = "".join(f"  %y{i} = func.call @f{{next}}(%x) : (f32) -> f32\n" for i in range(times))
    print("func.func private @f0(%x: f32) -> f32 {\n  return %x : f32\n}")
    for i in range(1, n + 1):
        print(f"func.func private @f{i}(%x: f32) -> f32 {{\n" + calls.format(next=i - 1) + "  return %y0 : f32\n}")
    print('tgpu.kernel @k target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %s: f32) grid(%i = 1) {')
    print(f"  %y = func.call @f{n}(%s) : (f32) -> f32\n}}")


def slots(n, file):
    text = "        %u0 = arith.addi %use_k, %c1 : i32\n"
    text += "".join(f"        %u{i + 1} = arith.addi %u{i}, %c1 : i32\n" for i in range(n))
    replaced(file, "%k = tgpu.slot %k_ring[%use_k] : !ring", text + f"        %k = tgpu.slot %k_ring[%u{n}] : !ring")


def exponentials(n, file):
    text = "        %e0 = math.exp2 %s : !s\n"
    text += "".join(f"        %e{i + 1} = math.exp2 %e{i} : !s\n" for i in range(n))
    replaced(file, "%p = math.exp2 %s : !s", text + f"        %p = math.exp2 %e{n} : !s")


def main(name, *args):
    if name == "run":
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 19, 1 << 19))
        os.execvp(args[0], args)
    n = int(args[0])
    {"stored": stored, "summed": summed, "summed-chain": lambda n: summed(n, is_chain=True), "counted": counted,
     "nested": nested, "defaults": defaults, "parts": parts, "products": products, "factors": factors, "casts": casts,
     "begun": begun, "risen": risen, "applied": applied, "called": called, "called-twice": lambda n: called(n, times=2),
     "overlapped": lambda n: slots(n, "tgpu-plan-stages.mlir"),
     "ordered": lambda n: exponentials(n, "tgpu-plan-stages-in-order.mlir")}[name](n)


main(*sys.argv[1:])
