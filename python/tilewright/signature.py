# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arguments of a compiled kernel or program, as its bundle describes them (runtime/Bundle.h, runtime/Manifest.h), and the
shapes of results that follow from its conditions. Does not need PyTorch."""

import json
import struct
from difflib import get_close_matches
from typing import NamedTuple, Optional, Tuple


class Argument(NamedTuple):
    """An argument: a view, or a scalar."""
    name: str
    type: str  # of runtime.TYPES
    extents: Optional[Tuple[int, ...]]  # of a view, -1: any; None for a scalar
    is_written: bool = False
    may_be_absent: bool = False  # an optional view, or a scalar with a default

    def shown(self):
        """The shape of a view in a text: [?, 64]."""
        return f"[{', '.join('?' if extent < 0 else str(extent) for extent in self.extents)}]"


class Signature(NamedTuple):
    """The arguments of a kernel or program, in order, and its conditions, expressions in the form of the manifest."""
    name: str
    is_program: bool
    arguments: Tuple[Argument, ...]
    conditions: tuple

    def names(self):
        return [argument.name for argument in self.arguments]

    def written(self):
        """The arguments that it writes."""
        return [argument for argument in self.arguments if argument.is_written]

    def check_output(self, name):
        """Raises ValueError if the name in `outputs` is not that of an argument that it writes."""
        names = [argument.name for argument in self.written()]
        if name not in names:
            raise ValueError(f"outputs must name arguments that '{self.name}' writes, {', '.join(names)}, but got {name!r}")

    def bind(self, positional, named, names):
        """The values of a call by name; `names` are those of the arguments that it may have, in order. Raises TypeError."""
        if len(positional) > len(names):
            raise TypeError(f"'{self.name}' has {len(names)} arguments, {', '.join(names)}, but got {len(positional)}")
        values = dict(zip(names, positional))
        for name, value in named.items():
            if name not in names:
                close = get_close_matches(name, names, 1)
                raise TypeError(f"'{self.name}' has no argument '{name}'"
                                + (f"; did you mean '{close[0]}'?" if close else f"; its arguments are {', '.join(names)}"))
            if name in values:
                raise TypeError(f"'{self.name}' got argument '{name}' twice, by position and by name")
            values[name] = value
        return values

    def reject_missing(self, argument):
        raise TypeError(f"'{self.name}' needs argument '{argument.name}'")


def _argument(item):
    extents = tuple(-1 if extent is None else extent for extent in item["extents"]) if item["kind"] == "view" else None
    return Argument(item["name"], item["type"], extents, item.get("written", False), item.get("optional", False) or "default" in item)


def signature_of(data, name=None):
    """The Signature of the program or, if there is none, of the kernel in the bytes of a bundle; with `name` of that one.
    Raises ValueError for other data."""
    if data[:8] != b"TWBUNDLE" or struct.unpack_from("<I", data, 8) != (1,):
        raise ValueError("the data must be a bundle of version 1")
    size, blobs = struct.unpack_from("<QI", data, 32)
    begin = 48 + 8 * blobs
    manifest = json.loads(data[begin:begin + size])
    for is_program, items in (True, manifest["programs"]), (False, manifest["kernels"]):
        for item in items:
            if name in (None, item["name"]):
                return Signature(item["name"], is_program, tuple(map(_argument, item["arguments"])), _frozen(item.get("when", [])))
    raise ValueError(f"the bundle has no kernel or program '{name}'")


def _frozen(x):
    return tuple(map(_frozen, x)) if isinstance(x, list) else x


_OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
               "ceildiv": lambda a, b: -(-a // b), "min": min, "max": max}


def _value(expression, known):
    """The value of an expression of extents and integers, or None if it is not known."""
    if isinstance(expression, bool) or not isinstance(expression, tuple):
        return expression if isinstance(expression, int) and not isinstance(expression, bool) else None
    if expression[0] == "dim":
        return known.get((expression[1], expression[2]))
    if expression[0] == "name":
        return known.get(expression[1])
    if expression[0] not in _OPERATIONS or len(expression) != 3:
        return None
    both = [_value(each, known) for each in expression[1:]]
    return None if None in both else _OPERATIONS[expression[0]](*both)


def shapes_of(signature, values, wanted):
    """The shapes of the results `wanted`, {name: tuple}, as far as the conditions of the form dim(y, 0) == ... say: `values`
    holds the other arguments, {name: shape or integer}. An extent that they do not say is None."""
    known = {}
    for name, value in values.items():
        if isinstance(value, (tuple, list)) or hasattr(value, "numel"):
            known.update({(name, i): extent for i, extent in enumerate(value)})
        else:
            known[name] = value
    shapes = [argument for argument in signature.arguments if argument.name in wanted and argument.extents is not None]
    for argument in shapes:
        known.update({(argument.name, i): extent for i, extent in enumerate(argument.extents) if extent >= 0})
    found = True
    while found:
        found = False
        for condition in signature.conditions:
            if not isinstance(condition, tuple) or len(condition) != 3 or condition[0] != "==":
                continue
            for one, other in (condition[1:], condition[:0:-1]):
                if isinstance(one, tuple) and one[0] == "dim" and one[1:] not in known and one[1] in wanted:
                    extent = _value(other, known)
                    if extent is not None:
                        known[one[1:]] = extent
                        found = True
    return {argument.name: tuple(known.get((argument.name, i)) for i in range(len(argument.extents))) for argument in shapes}
