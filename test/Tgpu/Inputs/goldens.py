# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the goldens of attention with the code that the compiler generates for attention_forward and, for dK and dV
# of D 256, attention_backward.
#
#   goldens.py loops SCRATCH ROOT     the main loops of the forward: whether both have the same products, waits, barriers
#                                     and turns in the same order, and which has more PTX instructions
#   goldens.py backward SCRATCH ROOT  the same of the backward
#   goldens.py spills SCRATCH ROOT    the spills of each golden, and whether its roles request no more registers than
#                                     the block has at its launch: they would wait for them forever

import os
import re
import shutil
import subprocess
import sys

# Width, mask, and the blocks of the golden if they are not those of the compiler's table without lengths.
GOLDENS = [(64, "none", ""), (64, "top_left", ""), (128, "none", ""), (128, "top_left", ""), (128, "none", "128x128"),
           (256, "none", ""), (256, "top_left", "")]
# The main loop of square blocks is the same with a causal mask, so the golden without one stands for it.
LOOPS = GOLDENS + [(128, "top_left", "128x128")]
ENTRY = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads", re.DOTALL)
# A select that masks scores; each iteration also has one select for the maximum of a row.
MASK = re.compile(r"tile\.select .*: (!s_i1|tensor<\d+x\d+xi1)")
# Operations that do not matter for the order of an iteration: names of buffers, and register operations of a thread.
LOCAL = ("tgpu.slot", "tgpu.columns", "tgpu.convert", "tgpu.thread_sum")


def run(*command):
    """Runs a command and returns its standard error; on failure exits with it."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stderr


def read(path):
    with open(path) as file:
        return file.read()


def label(dim, causal, blocks):
    return " ".join(filter(None, [f"D {dim}", causal, blocks]))


def planned(path, scratch):
    """Returns the path of the golden, with offsets assigned to its buffers."""
    run("tilewright-opt", path, "--tgpu-plan-shared-memory", "-o", f"{scratch}.golden.mlir")
    return f"{scratch}.golden.mlir"


def golden(root, dim, causal, blocks, scratch):
    suffix = "_n128" if blocks else "_causal" if causal == "top_left" else ""
    return planned(f"{root}/test/Tgpu/attention_forward_sm90_d{dim}{suffix}.mlir", scratch)


def golden_of_keys(root, scratch):
    return planned(f"{root}/test/Tgpu/attention_backward_sm90_d256_keys.mlir", scratch)


def generated(root, kernel, scratch, **params):
    path = f"{scratch}.generated.mlir"
    run("tilewrightc", f"{root}/kernels/{kernel}.mlir",
        *(f"--param={name}={value}" for name, value in params.items()), "--target=sm_90a", "--emit=tgpu", "-o", path)
    return path


def innermost_loops(text):
    """Returns (lines of the body, last line) of each scf.for with products and without inner loops."""
    lines = text.splitlines()
    for begin, line in enumerate(lines):
        if "= scf.for " not in line:
            continue
        indent = line[:len(line) - len(line.lstrip())]
        end = next(i for i in range(begin + 1, len(lines)) if lines[i].startswith(indent + "}"))
        body = lines[begin + 1:end]
        if any("tgpu.wgmma " in each for each in body) and not any("scf.for" in each for each in body):
            yield body, lines[end]


def main_loops(text, kernel):
    """Returns the tgpu operations, without value names, of the loops of the kernel that neither mask nor are for rare
    cases: one of each role that multiplies."""
    text = re.search(rf"^( *)tgpu\.kernel @{kernel} .*?^\1}}", text, re.DOTALL | re.MULTILINE)[0]
    loops = [body for body, end in innermost_loops(text) if "tgpu.general" not in end and "tgpu.rare" not in end]
    bodies = [body for body in loops if not any(MASK.search(line) or "scf.if" in line for line in body)]
    found = []
    for body in bodies:
        ops = [re.sub(r"%[\w#]+", "%", line.strip()) for line in body]
        ops = [re.sub(r'^% = |\s(?=\s)|\s{tgpu.redundant = "[^"]*"}', "", op) for op in ops]
        found.append([op for op in ops if op.startswith("tgpu.") and not op.startswith(LOCAL)])
    return found


def blocks_of(ptx):
    """Returns (instructions, numbers of the successors) of each basic block."""
    blocks, labels = [[]], {}
    for line in map(str.strip, ptx.splitlines()):
        if label := re.fullmatch(r"(\$\w+):.*", line):
            blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif line and not line.startswith((".", "//")):
            blocks[-1].append(line)
            if re.search(r"\bbra\b|^ret;", line):
                blocks.append([])
    follow = []
    for number, block in enumerate(blocks):
        last = block[-1] if block else ""
        target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", last)
        follows = [labels[target[1]]] if target else []
        if not last.startswith(("bra", "ret")) and number + 1 < len(blocks):
            follows.append(number + 1)
        follow.append(follows)
    return blocks, follow


def leads(follow, inside, first, last):
    """Returns true if a path inside leads from one block to the other: otherwise a backward jump makes no loop."""
    found, reached = [first], {first}
    while found:
        for after in follow[found.pop()]:
            if after in inside and after not in reached:
                reached.add(after)
                found.append(after)
    return last in reached


def ptx_of_main_loops(path, kernel, scratch):
    """Returns the PTX instructions of the shortest loop of each role that waits for one of two products: masks add to
    it. Only one role of a kernel exponentiates, and it is the first."""
    run("tilewrightc", path, "--target=sm_90a", "--emit=ptx", "-o", f"{scratch}.ptx")
    entries = re.split(r"(?=\.visible \.entry )", read(f"{scratch}.ptx"))
    blocks, follow = blocks_of(next(entry for entry in entries if f".entry {kernel}(" in entry))
    counts = {}
    for last, follows in enumerate(follow):
        for first in follows:
            # Blocks that are reached only from the loop and lead only back into it belong to it.
            loop, known = set(range(first, last + 1)), 0
            while known < len(loop):
                known = len(loop)
                reached = {after for number in loop for after in follow[number]}
                loop |= {number for number in reached if follow[number] and loop.issuperset(follow[number])}
            lines = [line for number in loop for line in blocks[number]]
            if "wgmma.wait_group.sync.aligned 1;" in lines and leads(follow, loop, first, last):
                role = not any(line.startswith("ex2.") for line in lines)
                counts[role] = min(len(lines), counts.get(role, len(lines)))
    return [counts[role] for role in sorted(counts)]


def compare(labels, kernel, ours, theirs, scratch):
    """Prints for each main loop of the kernel, of which labels are the names, how it compares."""
    rounds = [main_loops(read(path), kernel) for path in (ours, theirs)]
    if any(len(found) != len(labels) for found in rounds):
        sys.exit(f"expected {len(labels)} main loops but found {len(rounds[0])} and {len(rounds[1])}")
    counts = None
    if rounds[0] == rounds[1]:
        counts = [ptx_of_main_loops(path, kernel, scratch) for path in (ours, theirs)]
    for number, name in enumerate(labels):
        golden_ops, generated_ops = rounds[0][number], rounds[1][number]
        print(f"{name}: {len(golden_ops)} operations of a round, "
              f"{'the same' if golden_ops == generated_ops else 'others'} in the generated loop")
        if golden_ops != generated_ops:
            print("\n".join(["golden:", *golden_ops, "generated:", *generated_ops]))
        if counts:
            mine, other = counts[0][number], counts[1][number]
            print(f"  {'no more' if mine <= other else 'more'} instructions than generated: {mine}, {other}")


def loops(scratch, root):
    for dim, causal, blocks in LOOPS:
        sizes = {f"BLOCK_{name}": size for name, size in zip("MN", blocks.split("x"))} if blocks else {}
        compare([label(dim, causal, blocks)], "attention_forward", golden(root, dim, causal, blocks, scratch),
                generated(root, "attention_forward", scratch, D=dim, T="bf16", CAUSAL=causal, **sizes), scratch)


def backward(scratch, root):
    compare(["D 256 S, P, dV", "D 256 dP, dS, dK"], "pairs_of_keys", golden_of_keys(root, scratch),
            generated(root, "attention_backward", scratch, D=256, T="bf16"), scratch)


def spills(scratch, root):
    for each in GOLDENS:
        print_spills(label(*each), golden(root, *each, scratch), scratch)
    print_spills("D 256 dK, dV", golden_of_keys(root, scratch), scratch)


def print_spills(name, path, scratch):
    assembler, ptx = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas", f"{scratch}.ptx"
    run("tilewrightc", path, "--target=sm_90a", "--emit=ptx", "-o", ptx)
    report = run(assembler, "-v", "-arch=sm_90a", ptx, "-o", os.devnull)
    entries = ENTRY.findall(report)
    spilled = sum(int(stored) + int(loaded) for _, stored, loaded in entries)
    # ptxas prints this if it serializes products.
    serialized = " and serializes products" if "serializ" in report else ""
    roles = [tuple(map(int, role)) for role in re.findall(r'role "\w+" warps (\d+) registers (\d+)', read(path))]
    launched = int(re.search(r"Used (\d+) registers", report)[1]) * sum(warps for warps, _ in roles)
    asked = sum(warps * registers for warps, registers in roles)
    short = "" if asked <= launched else f", roles ask for {asked} registers a lane of {launched}"
    print(f"{name}: {len(entries)} entry spills {spilled} bytes{serialized}{short}")


if __name__ == "__main__":
    {"loops": loops, "backward": backward, "spills": spills}[sys.argv[1]](*sys.argv[2:])
