#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a variant of attention_forward.mlir or attention_backward.mlir with bitwise equal results. The variant has other
names of values, functions and kernels, and another order of independent operations and loop-carried values. It has an
additional operation on every score, one between the products and, in the forward, an additional loop-carried row. No
pass may depend on the exact form of a kernel, so the variant must be about as fast (bench/peers.py --perturbed).

    bench/perturb.py kernels/attention_forward.mlir -o perturbed.mlir
"""

import argparse
import os
import re
import sys

CONTRACT = {"q", "k", "v", "o", "lse", "scale", "window_left", "window_right",
            "first_row", "first_key", "diagonal", "first_head", "first_batch",
            "do", "dlse", "dq", "dk", "dv"}  # callers use these names
LINK = r'tile\.link "[^"]+"(?:,\s*"[^"]+")*'
FUNCTION = r"(?:func\.func private|tile\.function)"
REPLACEABLE = {"score_mod", "mask_mod", "weight_mod", "sink", "attention_forward", "attention_backward"}


class Forward:
    # Operations to move, and the independent operations that they then follow.
    moves = [("k_tile", "v_tile"), ("modified_rows", "modified_queries"), ("sum_block", "p"), ("scales", "s"),
             ("sink_weight", "octave")]
    # Operations added before an operation, which then reads %capped. A minimum with infinity changes no score, and keeps
    # NaN. LLVM also removes it: the benchmark measures how the passes handle a different kernel, not the cost of more work.
    added = ["%infinity = arith.constant 0x7FF0000000000000 : !acc", "%infinities = tile.full %infinity : !s",
             "%capped = arith.minimumf %below, %infinities : !s"]
    before, reads = "p", "%below"
    # Weights are at least 0. The peak repeats the maximum.
    edits = [
        ("map @weight_mod(%p, %b, %h, %rows,", "map @weight_mod(abs(%p), %b, %h, %rows,"),
        ("%max, %sum, %acc = tile.for_blocks", "%acc, %peak, %max, %sum = tile.for_blocks"),
        ("iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o)",
         "iter_args(%acc_old = %no_o : !o, %peak_old = %no_max : !row, %max_old = %no_max : !row,\n"
         "                %sum_old = %no_sum : !row)"),
        ("tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o",
         "%peak_new = arith.maximumf %peak_old, %max_new : !row\n"
         "    tile.yield %acc_new, %peak_new, %max_new, %sum_new : !o, !row, !row, !row"),
        ("@lse_of_head(%at_h, %max, %sum)", "@lse_of_head(%at_h, %peak, %sum)"),
    ]


class Backward:
    moves = [("no_dk", "no_dv"), ("dv_new", "dk_new"), ("i", "j"), ("row_0", "key_0")]
    # Gradients of scores are at most infinity.
    added = ["%infinity = arith.constant 0x7FF0000000000000 : !acc", "%infinities = tile.full %infinity : !pair",
             "%capped = arith.minimumf %ds, %infinities : !pair"]
    before, reads = "ds_rounded", "%ds "
    edits = [
        ("cast(map @weight_mod(%p,", "cast(map @weight_mod(min(%p, inf),"),
        ("%dk_head, %dv_head = tile.for_blocks", "%dv_head, %dk_head = tile.for_blocks"),
        ("iter_args(%dk_old = %dk_heads : !sum_k, %dv_old = %dv_heads : !sum_v)",
         "iter_args(%dv_old = %dv_heads : !sum_v, %dk_old = %dk_heads : !sum_k)"),
        ("tile.yield %dk_new, %dv_new : !sum_k, !sum_v", "tile.yield %dv_new, %dk_new : !sum_v, !sum_k"),
    ]


class PerturbError(Exception):
    pass


def find(lines, name):
    """The index of the first operation that defines this name."""
    found = [index for index, line in enumerate(lines) if line.lstrip().startswith(f"%{name} = ")]
    if not found:
        raise PerturbError(f"expected an operation %{name} but got none")
    return found[0]


def find_end(lines, index):
    """The index after an operation and its regions."""
    depth = 0
    while True:
        line = lines[index].strip()
        depth += line.endswith("{") - line.startswith("}")
        index += 1
        if depth == 0:
            return index


def move(lines, name, after):
    index = find(lines, name)
    end = find_end(lines, index)
    moved = lines[index:end]
    del lines[index:end]
    place = find_end(lines, find(lines, after))
    lines[place:place] = moved


def drop_unused(text):
    """The text without programs and kernels of libraries that the entry does not reach: they would be entries, too."""
    while True:
        mentioned = set(re.findall(r"tile\.(?:call|launch) @(\w+)", text)) | REPLACEABLE
        unused = [name for name in re.findall(r"^tile\.(?:program|kernel) @(\w+)", text, re.MULTILINE)
                  if name not in mentioned]
        if not unused:
            return text
        text = re.sub(rf"^tile\.(?:program|kernel) @{unused[0]}\b.*?\n}}\n", "", text, flags=re.MULTILINE | re.DOTALL)


def perturb(text):
    text = drop_unused(text)
    how = Backward if "@attention_backward" in text else Forward
    for old, new in how.edits:
        if text.count(old) != 1:
            raise PerturbError(f"expected '{old}' once but got it {text.count(old)} times")
        text = text.replace(old, new)
    lines = text.splitlines()
    for name, after in how.moves:
        move(lines, name, after)
    index = find(lines, how.before)
    indent = lines[index][: len(lines[index]) - len(lines[index].lstrip())]
    lines[index] = lines[index].replace(how.reads, "%capped" + " " * how.reads.endswith(" "))
    lines[index:index] = [indent + line for line in how.added]

    code = "\n".join(line if not line.lstrip().startswith("//") else "" for line in lines)
    # Expressions name arguments without %.
    fixed = CONTRACT | set(re.findall(r"\bdim\((\w+)", code))
    fixed |= {name for pair in re.findall(r"\bsame_dims\((\w+), (\w+)", code) for name in pair}
    fixed |= {name for call in re.findall(r"tile\.(?:call|launch) @\w+\(([^)]*)\)", code) for name in re.findall(r"(\w+) =", call)}
    values = [name for name in dict.fromkeys(re.findall(r"%([A-Za-z_]\w*)", code)) if name not in fixed]
    functions = re.findall(rf"(?:{FUNCTION}|tile\.kernel) @(\w+)", code)
    functions = [name for name in dict.fromkeys(functions) if name not in REPLACEABLE]
    new_values = {name: f"value{len(values) - number}" for number, name in enumerate(values)}
    new_functions = {name: f"helper{number}" for number, name in enumerate(functions)}
    text = re.sub(r"%([A-Za-z_]\w*)", lambda match: "%" + new_values.get(match[1], match[1]), "\n".join(lines))
    return re.sub(r"@(\w+)", lambda match: "@" + new_functions.get(match[1], match[1]), text) + "\n"


def include(text, folder, included):
    """The text followed by the files that its tile.link operations name, so that names change in both. Aliases are the
    same in all files."""
    links = re.findall(LINK, text, re.MULTILINE)
    for name in re.findall(r'"([^"]+)"', "".join(links)):
        path = os.path.normpath(os.path.join(folder, name))
        if path not in included:
            included.append(path)
            with open(path) as file:
                part = include(file.read(), os.path.dirname(path), included)
            known = set(re.findall(r"^!(\w+) *=", text, re.MULTILINE))
            for own in re.findall(rf"^{FUNCTION} (@\w+)\(\s*%", text, re.MULTILINE):  # instead of the library's
                part = re.sub(rf"^{FUNCTION} {own}\(\s*%.*?\n(?=\n|\Z)", "", part, flags=re.MULTILINE | re.DOTALL)
            part = re.sub(r"^//.*\n", "", part, flags=re.MULTILINE)
            # Aliases precede their uses.
            alias = r"^!(\w+) *=.*\n"
            aliases = [found[0] for found in re.finditer(alias, part, re.MULTILINE) if found[1] not in known]
            text = "".join(aliases) + text + re.sub(alias, "", part, flags=re.MULTILINE)
    declaration = r"func\.func private @\w+\([^%{]*?\)\s*->\s*(?:\([^)]*\)|\S+)"
    return re.sub(rf"^({LINK}|{declaration})\n", "", text, flags=re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    try:
        with open(options.kernel) as file:
            text = perturb(include(file.read(), os.path.dirname(options.kernel), []))
        with open(options.output, "w") as file:
            file.write(text)
    except (OSError, PerturbError) as error:
        sys.exit(f"perturb: {error}")


if __name__ == "__main__":
    main()
