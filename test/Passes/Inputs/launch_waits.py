# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""launch_waits.py FILE.ptx

For each kernel that waits for the previous launch, follows all branches of its code from the entry up to the first
griddepcontrol.wait, and prints how many instructions access global memory on the way, and the first of them. The exit
status is 1 if there is one, or if no kernel waits."""

import re
import sys

ACCESS = re.compile(r"^(ld|st|atom|red|cp|multimem|prefetch)\b(?!.*\.(shared|param|const|local)\b(?!.*\.global))")


def instructions_of(body):
    """Labels, and instructions without the predicate and the braces of inline assembly."""
    for line in body.split("\n"):
        line = line.split("//")[0].strip()
        if label := re.match(r"(\$[\w$]+):", line):
            yield label.group(0)
            continue
        for text in line.strip("{} ").split(";"):
            predicate, instruction = re.match(r"(@!?[%\w]+)?\s*(.*)", text.strip()).groups()
            if instruction and not instruction.startswith("."):
                yield f"{predicate} {instruction}" if predicate and instruction.startswith(("bra", "ret")) else instruction


def find_accesses(body):
    code = list(instructions_of(body))
    places = {text[:-1]: i for i, text in enumerate(code) if text.endswith(":")}
    found, pending, seen = [], [0], set()
    while pending:
        i = pending.pop()
        while i < len(code) and i not in seen:
            seen.add(i)
            text = code[i]
            if text == "griddepcontrol.wait":
                break
            if ACCESS.match(text) or text.startswith("call"):
                found.append(text)
            branch = re.match(r"(@\S+ )?(bra(?:\.uni)?|ret)\b\s*(\$[\w$]+)?", text)
            if branch and branch.group(3):
                pending.append(places[branch.group(3)])
            if branch and not branch.group(1) or text.startswith(("exit", "trap", "brx")):
                assert not text.startswith("brx"), "an indirect branch"
                break
            i += 1
    return found


with open(sys.argv[1]) as file:
    kernels = re.split(r"\.entry (\w+)\(", file.read())[1:]
waiting = [(name, body) for name, body in zip(kernels[::2], kernels[1::2]) if "griddepcontrol.wait" in body]
total = 0
for name, body in waiting:
    accesses = find_accesses(body[body.index("{"):])
    total += len(accesses)
    print(f"{name}: {body.count('griddepcontrol.wait')} waits, {len(accesses)} accesses before them", *accesses[:1])
sys.exit(total > 0 or not waiting)
