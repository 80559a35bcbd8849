# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The launch interface of a kernel (arguments, grid, block size, shared memory), parsed from the output of `tilewrightc
--emit=tgpu`."""

import re


class ContractError(Exception):
    pass


def _closing(text, start):
    """The position of the bracket that matches the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += text[position] in "([{<"
        depth -= text[position] in ")]}>" and text[position - 1] != "-"
        if depth == 0:
            return position
    raise ContractError("unbalanced brackets")


def _split(text):
    """Splits the text at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += character in "([{<"
        depth -= character in ")]}>"
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return parts + [text[start:].strip()] if text.strip() else []


class Argument:
    """A view (rank is a number) or a scalar (rank is None) of an element type."""

    def __init__(self, text):
        name, _, kind = text.partition(":")
        self.name = name.strip().lstrip("%")
        kind = kind.partition(" = ")[0].strip()  # drop the default value of a scalar
        self.optional = kind.startswith("optional ")
        view = re.search(r"!tile\.view<\[(.*?)\]\s*,\s*(\w+)>", kind)
        self.rank = len(_split(view.group(1))) if view else None
        self.type = view.group(2) if view else kind


class Contract:
    """The launch interface of the only kernel of a tgpu module."""

    def __init__(self, text):
        headers = list(re.finditer(r'tgpu\.kernel @(\S+) target "(\w+)" warps (\d+)\s*', text))
        if len(headers) != 1:
            raise ContractError(f"expected one tgpu.kernel but got {len(headers)}")
        header = headers[0]
        self.entry, self.target, self.warps = header.group(1), header.group(2), int(header.group(3))
        begin = header.end()
        requirements = re.compile(r"require\s*(?=\()").match(text, begin)
        if requirements:
            begin = re.compile(r"\s*").match(text, _closing(text, requirements.end()) + 1).end()
        end = _closing(text, begin)
        self.arguments = [Argument(part) for part in _split(text[begin + 1:end])]
        grid = re.compile(r"\s*grid\s*(?=\()").match(text, end + 1)
        if not grid:
            raise ContractError("expected a grid after the arguments")
        grid_end = _closing(text, grid.end())
        self.grid = [part.partition("=")[2].strip() for part in _split(text[grid.end() + 1:grid_end])]
        attributes = text[grid_end:text.find("\n", grid_end)]
        shared = re.search(r"shared_bytes = (\d+)", attributes)
        self.shared_bytes = int(shared.group(1)) if shared else 0
        self.tensor_maps = "tgpu.tma" in text or "tensor_map" in text

    @property
    def threads(self):
        return 32 * self.warps

    def count_blocks(self, shapes, sm_count):
        """The number of blocks; `shapes` has the extents of each view by argument name."""
        functions = {
            "ceildiv": lambda a, b: -(-a // b), "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
            "min": min, "max": max, "select": lambda c, a, b: a if c else b, "sm_count": lambda: sm_count,
            "dim": lambda name, position: shapes[name][position],
        }
        blocks = 1
        for extent in self.grid:
            quoted = re.sub(r"dim\((\w+)\s*,", r"dim('\1',", extent)
            try:
                blocks *= int(eval(quoted, {"__builtins__": {}}, functions))
            except (NameError, KeyError, SyntaxError) as error:
                raise ContractError(f"cannot evaluate the grid's '{extent}': {error}") from error
        return blocks
