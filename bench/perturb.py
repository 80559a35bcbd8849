#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes attention_forward.mlir or attention_backward.mlir otherwise: the same results bit for bit, with other names of values,
functions and kernels, another order of independent operations, and one more operation on every score. No pass may know
a kernel by its looks, so this one must be about as fast (bench/peers.py --perturbed).

    bench/perturb.py kernels/attention_forward.mlir -o perturbed.mlir
"""

import argparse
import re
import sys

CONTRACT = {"q", "k", "v", "o", "lse", "scale", "window_left", "window_right",
            "do", "dlse", "dq", "dk", "dv"}  # callers know these by name
REPLACEABLE = {"score_mod", "mask_mod", "attention_forward", "attention_backward"}


class Forward:
    # What is moved, and what it then follows. They do not depend on each other.
    moves = [("v_tile", "k_tile"), ("cols", "v_tile"), ("sum_block", "p"), ("scales", "log2es"), ("no_o", "masked_out"),
             ("ln2s", "no_sum")]
    # What is added before an operation, which then reads %capped. Scores less their maximum are not above zero, so this
    # changes none; a NaN stays one.
    added = ["%zeros = tile.full %zero : !s", "%capped = arith.minimumf %below, %zeros : !s"]
    before, reads = "p", "%below"


class Backward:
    moves = [("no_dk", "no_dv"), ("dpt", "x"), ("dv_new", "dk_new"), ("pt_rounded", "dpt_centred")]
    # No gradient of a score is above infinity.
    added = ["%infinity = arith.constant 0x7FF0000000000000 : !acc", "%infinities = tile.full %infinity : !st",
             "%capped = arith.minimumf %dst, %infinities : !st"]
    before, reads = "dst_rounded", "%dst "


class PerturbError(Exception):
    pass


def find(lines, name):
    """The first operation of this name."""
    found = [index for index, line in enumerate(lines) if line.lstrip().startswith(f"%{name} = ")]
    if not found:
        raise PerturbError(f"expected an operation %{name} but got none")
    return found[0]


def move(lines, name, after):
    index = find(lines, name)
    line = lines.pop(index)
    lines.insert(find(lines, after) + 1, line)


def perturb(text):
    lines = text.splitlines()
    how = Backward if "@attention_backward" in text else Forward
    for name, after in how.moves:
        move(lines, name, after)
    index = find(lines, how.before)
    indent = lines[index][: len(lines[index]) - len(lines[index].lstrip())]
    lines[index] = lines[index].replace(how.reads, "%capped" + " " * how.reads.endswith(" "))
    lines[index:index] = [indent + line for line in how.added]

    code = "\n".join(line if not line.lstrip().startswith("//") else "" for line in lines)
    fixed = CONTRACT | set(re.findall(r"\bdim\((\w+)", code))  # expressions name arguments without the sign
    values = [name for name in dict.fromkeys(re.findall(r"%([A-Za-z_]\w*)", code)) if name not in fixed]
    functions = re.findall(r"(?:func\.func private|tile\.kernel) @(\w+)", code)
    functions = [name for name in dict.fromkeys(functions) if name not in REPLACEABLE]
    new_values = {name: f"value{len(values) - number}" for number, name in enumerate(values)}
    new_functions = {name: f"helper{number}" for number, name in enumerate(functions)}
    text = re.sub(r"%([A-Za-z_]\w*)", lambda match: "%" + new_values.get(match[1], match[1]), "\n".join(lines))
    return re.sub(r"@(\w+)", lambda match: "@" + new_functions.get(match[1], match[1]), text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    try:
        with open(options.kernel) as file:
            text = perturb(file.read())
        with open(options.output, "w") as file:
            file.write(text)
    except (OSError, PerturbError) as error:
        sys.exit(f"perturb: {error}")


if __name__ == "__main__":
    main()
