#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tile.print and tile.assert on a GPU: what a child process prints, and how it ends.
#
#   debug_on_gpu.py [--run TILEWRIGHT_RUN] [--target TARGET]...
#
# Without --run, tilewright-run of PATH, or else of build/bin. Needs no package of Python. Exits with 77 and says so if
# there is no GPU.

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))

SHOWS = """
!y = !tile.view<[?, 8], f32>
!at = !tile.tile<[4, 8], i32>
tile.kernel @shows (%y: !y) grid(%i = 2) {
  %c0 = arith.constant 0 : i32
  %half = arith.constant 1.5 : f32
  %big = arith.constant 5000000000 : i64
  %tenth = arith.constant 0.1 : f64
  %at = tile.iota %c0 dim 1 : !at
  tile.print "100% of row" %i, %half : i32, f32
  tile.print "mixed" %i, %big, %i, %tenth, %half, %big : i32, i64, i32, f64, f32, i64
  tile.print "columns" %at : !at
  tile.print "some" %at limit 3 : !at
  %m = tile.expr %i * 4 : i32
  tile.store cast(%at), %y[%m, 0] : !tile.tile<[4, 8], f32>
}
"""

FAILS = """
!y = !tile.view<[?, 8], f32>
!at = !tile.tile<[4, 8], i32>
tile.kernel @fails (%y: !y) grid(%i = 2) {
  %c0 = arith.constant 0 : i32
  %at = tile.iota %c0 dim 1 : !at
  %most = tile.constant MOST : !at
  %few = arith.cmpi slt, %at, %most : !at
  tile.assert %few, "columns must be few" : !tile.tile<[4, 8], i1>
  %m = tile.expr %i * 4 : i32
  tile.store cast(%at), %y[%m, 0] : !tile.tile<[4, 8], f32>
}
"""

SCALAR = """
tile.kernel @first (%y: !tile.view<[?, 8], f32>) grid(%i = 2) {
  %c0 = arith.constant 0 : i32
  %ok = arith.cmpi eq, %i, %c0 : i32
  tile.assert %ok, "only the first" : i1
  %m = tile.expr %i * 4 : i32
  tile.store 1, %y[%m, 0] : !tile.tile<[4, 8], f32>
}
"""

# With roles on sm_90a.
PRODUCT = """
!view = !tile.view<[?, 64], bf16>
!c = !tile.view<[?, 64], f32>
!sum = !tile.tile<[64, 64], f32>
tile.kernel @product (%a, %b: !view, %c: !c) grid(%i = ceildiv(dim(a, 0), 64)) {
  %m = tile.expr %i * 64 : i32
  %sum = tile.for %k in (0 to 64) step 16 iter_args(%old = 0 : !sum) {
    %x = tile.load %a[%m, %k] : !view -> !tile.tile<[64, 16], bf16>
    %w = tile.load %b[%k, 0] : !view -> !tile.tile<[16, 64], bf16>
    %new = tile.dot %x, %w, %old : !tile.tile<[64, 16], bf16>, !tile.tile<[16, 64], bf16> -> !sum
    tile.yield %new
  }
  %rows = tile.reduce max %sum dim 1 : !sum
  tile.print "from" %m, %rows limit 2 : i32, !tile.tile<[64], f32>
  %few = tile.expr %rows < full(1000000) : !tile.tile<[64], i1>
  tile.assert %few, "sums are small" : !tile.tile<[64], i1>
  tile.store %sum, %c[%m, 0] : !sum
}
"""


class Failure(Exception):
    pass


def expect(holds, what, result):
    if not holds:
        raise Failure(f"{what}\n--- exit code {result.returncode}, standard output:\n{result.stdout}\n"
                      f"--- standard error:\n{result.stderr}")


def run(tool, target, name, text, *arguments):
    file = name + ".mlir"
    with open(file, "w") as stream:
        stream.write(text.lstrip("\n"))
    command = [tool, file, "--device=cuda", f"--target={target}", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)


def check_prints(tool, target):
    y = "--out=y=/dev/null@8x8"
    result = run(tool, target, "shows", SHOWS, y, "--debug-ops")
    expect(result.returncode == 0, "a kernel with prints must run", result)
    wanted = []
    for i in range(2):
        wanted.append(f"@shows i = {i}: 100% of row {i} 1.5")
        wanted.append(f"@shows i = {i}: mixed {i} 5000000000 {i} 0.10000000000000001 1.5 5000000000")
        wanted += [f"@shows i = {i}: columns [{r}, {c}] {c}" for r in range(4) for c in range(8)]
        wanted += [f"@shows i = {i}: some [0, {c}] {c}" for c in range(3)]
    got = [line for line in result.stdout.splitlines() if line.startswith("@")]
    expect(sorted(got) == sorted(wanted), "each element and scalar must be printed once", result)

    result = run(tool, target, "shows", SHOWS, y)
    expect(result.returncode == 0 and "@shows" not in result.stdout, "without --debug-ops nothing is printed", result)
    expect("'tile.print' is left out of code for GPUs" in result.stderr, "there must be a warning", result)


def check_failure(tool, target, name, text, message, line, place):
    result = run(tool, target, name, text, "--out=y=/dev/null@8x8", "--debug-ops")
    expect(result.returncode == 1, "a failed assertion must be an error, and no crash", result)
    expect(f"Assertion `{message}` failed" in result.stderr, "CUDA must say which assertion", result)
    expect(f"{name}.mlir:{line}" in result.stderr, "CUDA must name the line", result)
    expect("CUDA_ERROR_ASSERT" in result.stderr and "an assertion (tile.assert) of a kernel" in result.stderr,
           "the error must say that an assertion failed", result)
    pattern = rf"@{name} i = (\d): assertion fails: {message}{place} \({name}\.mlir:{line}\)"
    expect(re.search(pattern, result.stdout), f"a line must match {pattern}", result)
    result = run(tool, target, name, text, "--out=y=/dev/null@8x8")
    expect(result.returncode == 0, "without --debug-ops nothing is checked", result)


def check_assertions(tool, target):
    check_failure(tool, target, "fails", FAILS.replace("MOST", "5"), "columns must be few", 8,
                  r"; the first element of a thread that is false is \[[0-3], [567]\]")
    check_failure(tool, target, "first", SCALAR, "only the first", 4, "")
    result = run(tool, target, "fails", FAILS.replace("MOST", "8"), "--out=y=/dev/null@8x8", "--debug-ops")
    expect(result.returncode == 0 and not result.stdout, "an assertion that holds must not show", result)


def check_product(tool, target):
    arrays = ["--in=a=random@130x64", "--in=b=random@64x64", "--out=c=/dev/null@130x64"]
    result = run(tool, target, "product", PRODUCT, *arrays, "--debug-ops")
    expect(result.returncode == 0, "a kernel with roles must run", result)
    got = sorted(re.sub(r"\] \S+$", "]", line) for line in result.stdout.splitlines() if line.startswith("@"))
    wanted = [f"@product i = {i}: from {64 * i}" for i in range(3)]
    wanted += [f"@product i = {i}: from #1 [{r}]" for i in range(3) for r in range(2)]
    expect(got == sorted(wanted), "each role that computes must print its own, once", result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", help="the path of tilewright-run")
    parser.add_argument("--target", action="append", help="by default sm_80, and sm_90a on a GPU of that kind")
    options = parser.parse_args()
    tool = options.run or shutil.which("tilewright-run") or os.path.join(ROOT, "build", "bin", "tilewright-run")
    tool = os.path.abspath(tool)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        first = run(tool, "sm_80", "shows", SHOWS, "--out=y=/dev/null@8x8")
        if first.returncode and re.search(r"libcuda|NO_DEVICE|driver", first.stderr):
            print(f"SKIPPED: there is no GPU: {first.stderr.strip().splitlines()[-1]}")
            return 77
        targets = options.target
        if not targets:
            has_roles = run(tool, "sm_90a", "shows", SHOWS, "--out=y=/dev/null@8x8").returncode == 0
            targets = ["sm_80"] + ["sm_90a"] * has_roles
        for target in targets:
            for check in (check_prints, check_assertions, check_product):
                try:
                    check(tool, target)
                    passed += 1
                    print(f"passed: {check.__name__} {target}")
                except Failure as failure:
                    failed += 1
                    print(f"FAILED: {check.__name__} {target}: {failure}")
        os.chdir(ROOT)
    print(f"{passed} checks passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
