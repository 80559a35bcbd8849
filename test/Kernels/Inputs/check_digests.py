# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Changes the text of a mapped program, and prints for each change which digests of digests.py it changes. Each kind of
# change is made in up to 20 of the places that permit it, one at a time, of which none or all must change a digest.
#
#   check_digests.py MAPPED.mlir

import random
import re
import sys

from digests import SYMBOL, VALUE, Module, get_digest, split, split_brackets


def get_digests(text):
    return [get_digest(lines) for _, lines in Module(text).normalize()]


def drop_unused_functions(text):
    """The text without functions that no other part of it mentions: they are no code of a kernel."""
    for name in re.findall(r"^  func\.func private @(\w+)", text, re.M):
        if len(re.findall(rf"@{name}\b", text)) == 1:
            return drop_unused_functions(re.sub(rf"^  func\.func private @{name}\b.*?\n  }}\n", "", text, flags=re.M | re.S))
    return text


def rename(text, of_values, of_symbols):
    """Renames values and symbols, also where expressions name arguments without %, but not arguments of the program."""
    parts = re.split(r"^(?=  \S)", text, flags=re.M)
    for at, part in enumerate(parts):
        if part.startswith("  tile.program"):
            interface = set(VALUE.findall(part[: part.index("attributes")]))
            part = VALUE.sub(lambda found: found[0] if found[1] in interface else of_values(found[1]), part)
        else:
            arguments = set(VALUE.findall(part.split("{")[0]))
            part = VALUE.sub(lambda found: of_values(found[1]), part)
            part = re.sub(
                r"\bdim\((\w+),", lambda found: f"dim({of_values(found[1])[1:]}," if found[1] in arguments else found[0],
                part,
            )
        parts[at] = SYMBOL.sub(lambda found: "@" + of_symbols(found[1]), part)
    return "".join(parts)


def reorder_arguments(text):
    """Reverses the arguments of each kernel, and the operands of its launches."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("    (%") and "tgpu.kernel" in "".join(lines[at - 2 : at]):
            inside, rest = split_brackets(line, 4)
            lines[at] = f"    ({', '.join(reversed(split(inside)))}){rest}"
        elif line.lstrip().startswith("tile.launch"):
            begin = line.index("(")
            inside, rest = split_brackets(line, begin)
            lines[at] = f"{line[:begin]}({', '.join(reversed(split(inside)))}){rest}"
    return "\n".join(lines)


def reverse_constants(text):
    """Reverses each sequence of constants."""
    return re.sub(
        r"(?:^    %\S+ = arith\.constant [^\n]*\n)+",
        lambda found: "".join(reversed(found[0].splitlines(keepends=True))), text, flags=re.M,
    )


def replace_each(pattern, by, text):
    """One text for each place of the pattern."""
    for found in re.finditer(pattern, text, re.M):
        yield text[: found.start()] + found.expand(by) + text[found.end() :]


def swap_each(text):
    """One text for each pair of adjacent operations of the same block that use different values."""
    lines = text.split("\n")
    for at in range(len(lines) - 1):
        one, two = lines[at : at + 2]
        if not all(re.match(r" {4,}(%\S+ = )?(tgpu|arith|tile|math)\.(?!launch)", line) for line in (one, two)):
            continue
        indents = [len(line) - len(line.lstrip()) for line in (one, two)]
        if one == two or indents[0] != indents[1] or one.endswith("{") or two.endswith("{") or "constant" in one + two:
            continue
        if one.split(" = ")[0].strip() not in two:
            yield "\n".join(lines[:at] + [two, one] + lines[at + 2 :])


# What must change no digest, everywhere at once.
SAME = {
    "names": lambda text: rename(text, lambda name: f"%of_{name}", lambda name: f"{name}_renamed"),
    "arguments in another order": reorder_arguments,
    "an argument that nothing uses": lambda text: re.sub(
        r"(tgpu\.kernel .*\n(?:    require.*\n)?    \()", r"\1%unused: !tile.view<[?, ?], f16>, ",
        re.sub(r"(tile\.launch @\w+\()", r"\1%q, ", text),
    ),
    "constants in another order": reverse_constants,
    "parameters": lambda text: re.sub(r"\bD = (\d+) : i64", r"D = \1 : i64, WIDTH = \1 : i64", text),
    "locations": lambda text: re.sub(r"^( {4,}[%t].*[^{,])$", r'\1 loc("kernel.mlir":7:3)', text, flags=re.M),
}
# What must change a digest, and one text for each place.
OTHER = {
    "a constant": lambda text: replace_each(r"arith\.constant (-?)(\d)", r"arith.constant \g<1>1\2", text),
    "an operation": lambda text: replace_each(r"arith\.(addi|subi|muli|addf|subf|mulf)\b", "arith.other", text),
    "an operation less": lambda text: replace_each(r"^ {4,}tgpu\.(?!roles|kernel).*[^{]\n", "", text),
    "order of operations": swap_each,
    "a layout": lambda text: replace_each(r"#tgpu\.(\w+)<(\d)", r"#tgpu.\1<1\2", text),
    "a type": lambda text: replace_each(r"tensor<(\d+)x", r"tensor<1\1x", text),
    "a place in shared memory": lambda text: replace_each(r" at (\d+) :", r" at 1\1 :", text),
    "an attribute": lambda text: replace_each(r"(shared_bytes|_registers|_stages|group) = (\d)", r"\1 = 1\2", text),
    "registers of a role": lambda text: replace_each(r'(role "\w+" warps \d+ registers) (\d)', r"\1 1\2", text),
    "warps": lambda text: replace_each(r'(target "\w+" warps) (\d)', r"\1 1\2", text),
    "extents of the grid": lambda text: replace_each(r"(grid\(%\w+ = .*\bdim\(\w+, )(\d)", r"\1 1\2", text),
    "a called function": lambda text: replace_each(r"return %\w+ :", "return %arg0 :", text),
    "a workspace": lambda text: replace_each(r"(tile\.workspace \[.*dim\(\w+, )(\d)", r"\g<1>1\2", text),
    "a condition of a launch": lambda text: replace_each(r"(tile\.launch .* when \(.*dim\(\w+, )(\d)", r"\g<1>1\2", text),
    "an array of a launch": lambda text: replace_each(r"(tile\.launch @\w+\()(%\w+), (%\w+)", r"\1\3, \2", text),
    "lengths of variants": lambda text: replace_each(r"shorter = \[(\d)", r"shorter = [1\1", text),
}


def main():
    with open(sys.argv[1]) as file:
        text = drop_unused_functions(file.read())
    before = get_digests(text)
    for name, change in SAME.items():
        changed = change(text)
        print(f"{name}: " + ("nothing to change" if changed == text else "equal" if get_digests(changed) == before else "differ"))
    chosen = random.Random(1)
    for name, list_changed in OTHER.items():
        texts = list(list_changed(text))
        texts = chosen.sample(texts, min(len(texts), 20))
        equal = sum(get_digests(changed) == before for changed in texts)
        print(f"{name}: " + (f"{equal} equal" if equal else "differ" if texts else "nothing to change"))


main()
