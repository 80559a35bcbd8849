#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Executes the straight-line code at the head of each kernel of convert-tgpu-to-nvvm-draws.mlir for all threads of some
blocks, and compares the decisions of @keep with the definition of tile.random.

    run_lanes.py FILE       the output of convert-tgpu-to-nvvm

A decision is a comparison by "ult" with the threshold 20000 * 2^16 or 10000 * 2^16. Those of a thread are in the order
of its registers. Fails if one is wrong, or if there are not as many as a tile has elements.
"""

import re
import sys

import numpy as np

THREADS, SEED, OFFSET, HEAD = 128, 81985529216486895, 12884901893, 5


def philox(key, counter, rounds):
    """The words of a block, after Salmon et al."""
    key, x = list(key), list(counter)
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [product1 >> 32 ^ x[1] ^ key[0], product1 & 0xFFFFFFFF, product0 >> 32 ^ x[3] ^ key[1],
             product0 & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return x


def number(key, query, seed):
    """The 16 random bits of @keep."""
    c0 = (key & ~15) << 1 | (key & 6) << 2 | (query & 8) >> 1 | (key & 8) >> 2 | key & 1
    words = philox((seed & 0xFFFFFFFF, seed >> 32 ^ OFFSET >> 32),
                   (c0 >> 3, query & ~8, HEAD, OFFSET & 0xFFFFFFFF), 7)
    return words[c0 >> 1 & 3] >> 16 * (c0 & 1) & 0xFFFF


def permute_bytes(x, y, selector):
    pool, result = x | y << np.uint64(32), np.zeros(THREADS, np.uint64)
    for place in range(4):
        digit = selector >> np.uint64(4 * place) & np.uint64(7)
        result |= (pool >> digit * np.uint64(8) & np.uint64(255)) << np.uint64(8 * place)
    return result


def execute(lines, block):
    """The results of the comparisons by "ult", with their right-hand sides."""
    values, comparisons = {}, []
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
              "xor": np.bitwise_xor, "shl": np.left_shift, "lshr": np.right_shift, "udiv": np.floor_divide,
              "urem": np.remainder}
    for line in lines:
        match = re.match(r'\s*(%\d+) = (?:llvm\.|nvvm\.)([\w.]+)(.*)', line)
        if not match:
            continue
        name, op, rest = match.groups()
        operands = [values.get(used) for used in re.findall(r"%\w+", rest)]
        width = int(types[-1]) if (types := re.findall(r"\bi(\d+)\b", rest)) else 64
        if op == "mlir.constant":
            constant = re.match(r"\((-?\d+|true|false)", rest)
            result = None
            if constant:
                text = {"true": "1", "false": "0"}.get(constant[1], constant[1])
                result = np.full(THREADS, int(text) % 2**64, np.uint64)
        elif op == "read.ptx.sreg.tid.x":
            result = np.arange(THREADS, dtype=np.uint64)
        elif op == "read.ptx.sreg.ctaid.x":
            result = np.full(THREADS, block, np.uint64)
        elif any(operand is None for operand in operands):
            continue
        elif op in binary:
            result = binary[op](*operands)
        elif op in ("trunc", "zext"):
            result = operands[0]
        elif op == "select":
            result = np.where(operands[0] != 0, operands[1], operands[2])
        elif op == "icmp":
            compare = {'"ult"': np.less, '"eq"': np.equal, '"ne"': np.not_equal}.get(rest.split()[0])
            if not compare:
                continue
            result = compare(*operands).astype(np.uint64)
            if compare is np.less:
                comparisons.append((result, int(operands[1][0])))
        elif op == "call_intrinsic" and "nvvm.prmt" in rest:
            result = permute_bytes(*operands)
        elif op == "call_intrinsic" and "nvvm.shfl.sync.bfly" in rest:
            result = operands[1][np.arange(THREADS) ^ int(operands[2][0])]
        else:
            continue
        values[name] = None if result is None else result & np.uint64(2**width - 1)
    return comparisons


def main():
    failed = False
    kernels = re.split(r"llvm\.func @", open(sys.argv[1]).read())[1:]
    for text in kernels:
        name = text.split("(")[0]
        if name == "whole_number":
            continue
        columns = 48 if name == "rows_of_three" else 64
        checked = wrong = 0
        for block in (0, 2, 7, 13):
            row, column = block % 4 * 64, block // 4 * columns
            if name == "unknown_start":
                row = block % 4 + 64
            found = [(kept, limit >> 16) for kept, limit in execute(text.splitlines(), block)
                     if limit in (20000 << 16, 10000 << 16)]
            if name == "used_twice":
                assert [limit for _, limit in found] == [20000] * 32 + [10000] * 32, "the second map is missing"
                found = found[32:] if block % 2 else found[:32]
            assert len(found) == columns // 2, f"{name}: {len(found)} decisions of a thread"
            for reg, (dropped, limit) in enumerate(found):
                for thread in range(THREADS):
                    warp, lane = divmod(thread, 32)
                    i = row + 16 * warp + lane // 4 + 8 * (reg >> 1 & 1)
                    j = column + 8 * (reg >> 2) + 2 * (lane % 4) + (reg & 1)
                    key, query = (j, i) if name == "half_in_register" else (i, j)
                    seed = SEED + query if name == "own_key" else SEED
                    wrong += int(dropped[thread]) != (number(key, query, seed) < limit)
                    checked += 1
        if wrong:
            print(f"run_lanes.py: {name}: {wrong} of {checked} decisions are wrong", file=sys.stderr)
            failed = True
        else:
            print(f"{name}: {checked} decisions, 0 wrong")
    sys.exit(failed)


if __name__ == "__main__":
    main()
