# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks tile-analyze-masks by brute force: for random masks and random rectangles, every pair is evaluated. The text of
# the derived functions is interpreted, so that operations that would trap are also detected.
#
#   check_mask_ranges.py SEED MASKS [--periods | --kept]      needs tilewright-opt on PATH
#
# With --periods, masks use only the remainder, and some the quotient, of the row's position by a constant. With --kept,
# the limits of tile.kept_range are compared with those that the pairs have, for the masks that are tight in all launches.

import random
import re
import subprocess
import sys

COMPARE = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}
COMPARE_UNSIGNED = {"ult": "slt", "ule": "sle", "ugt": "sgt", "uge": "sge"}


def compare(predicate, a, b, bits):
    if predicate in COMPARE:
        return COMPARE[predicate](a, b)
    mask = (1 << bits) - 1
    return COMPARE[COMPARE_UNSIGNED[predicate]](a & mask, b & mask)


def wrap(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def truncating(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


class Undefined(Exception):
    pass


def divide(name, a, b, bits):
    if b == 0 or (b == -1 and a == -(1 << (bits - 1))):
        raise Undefined
    return {
        "arith.divsi": lambda: truncating(a, b), "arith.floordivsi": lambda: a // b,
        "arith.ceildivsi": lambda: -(-a // b), "arith.remsi": lambda: a - b * truncating(a, b),
    }[name]()


def kept_promise(x, bits):
    if wrap(x, bits) != x:
        raise Undefined
    return x


class Mask:
    """A random function (i32 i, i32 x, i32 j, i32 y, i1 p) -> i1 as MLIR text and as a list of steps."""

    def __init__(self, rng, name, has_period, promises):
        self.rng, self.name, self.lines, self.steps = rng, name, [], []
        self.promises = promises  # the share of operations that promise no wrap
        rows = ["%i", "%i"]
        if has_period:
            period = self.constant(rng.choice([2, 3, 4, 6]), 32)
            rows = [self.quotient(name, "%i", period, 32) for name in rng.choice(
                [("arith.remsi", ), ("arith.remsi", ), ("arith.remsi", "arith.divsi"), ("arith.divsi", )])]
        self.ints = {32: [rows[0], "%j", rows[-1], "%j", "%x", "%y"], 64: []}
        self.bools = ["%p"]
        for _ in range(rng.randrange(1, 9)):
            self.add_int()
        for _ in range(rng.randrange(1, 4)):
            self.add_compare()
        for _ in range(rng.randrange(0, 6)):
            self.add_bool()
        self.result = self.bools[-1]

    def add(self, text, step):
        name = f"%v{len(self.steps)}"
        self.lines.append(f"  {name} = {text}")
        self.steps.append((name, step))
        return name

    def constant(self, value, bits):
        return self.add(f"arith.constant {value} : i{bits}", lambda env: value)

    def quotient(self, op, a, d, bits):
        return self.add(f"{op} {a}, {d} : i{bits}", lambda e: wrap(divide(op, e[a], e[d], bits), bits))

    def add_int(self):
        rng = self.rng
        bits = 64 if self.ints[64] and rng.random() < 0.5 else 32
        a, b = rng.choice(self.ints[bits]), rng.choice(self.ints[bits])
        kind = rng.choice(["add", "sub", "sub", "add", "min", "max", "scale", "divide", "select", "cast"])
        ty = f"i{bits}"
        # Some operations have flags that promise no wrap.
        promise = rng.random() < self.promises if kind in ("add", "sub") else False
        flag, result = (" overflow<nsw>", kept_promise) if promise else ("", wrap)
        if kind == "add":
            v = self.add(f"arith.addi {a}, {b}{flag} : {ty}", lambda e: result(e[a] + e[b], bits))
        elif kind == "sub":
            v = self.add(f"arith.subi {a}, {b}{flag} : {ty}", lambda e: result(e[a] - e[b], bits))
        elif kind in ("min", "max"):
            fn = min if kind == "min" else max
            v = self.add(f"arith.{kind}si {a}, {b} : {ty}", lambda e: fn(e[a], e[b]))
        elif kind == "scale":
            factor = rng.choice([-3, -1, 0, 1, 2, 5, 70000])
            c = self.constant(factor, bits)
            v = self.add(f"arith.muli {a}, {c} : {ty}", lambda e: wrap(e[a] * factor, bits))
        elif kind == "divide":
            op = rng.choice(["arith.divsi", "arith.floordivsi", "arith.ceildivsi", "arith.remsi"])
            d = "%x" if bits == 32 and rng.random() < 0.5 else self.constant(rng.choice([1, 2, 3, -2]), bits)
            v = self.quotient(op, a, d, bits)
        elif kind == "select":
            p = rng.choice(self.bools)
            v = self.add(f"arith.select {p}, {a}, {b} : {ty}", lambda e: e[a] if e[p] else e[b])
        elif bits == 32:
            v, bits = self.add(f"arith.extsi {a} : i32 to i64", lambda e: e[a]), 64
        else:
            v, bits = self.add(f"tile.cast {a} : i64 -> i32", lambda e: wrap(e[a], 32)), 32
        self.ints[bits].append(v)

    def add_compare(self):
        rng = self.rng
        bits = 64 if self.ints[64] and rng.random() < 0.5 else 32
        a, b = self.ints[bits][-1], rng.choice(self.ints[bits])
        if rng.random() < 0.5:
            a, b = b, a
        predicate = rng.choice(list(COMPARE) + list(COMPARE_UNSIGNED))
        text = f"arith.cmpi {predicate}, {a}, {b} : i{bits}"
        self.bools.append(self.add(text, lambda e: compare(predicate, e[a], e[b], bits)))

    def add_bool(self):
        rng = self.rng
        a, b, c = self.bools[-1], rng.choice(self.bools), rng.choice(self.bools)
        kind = rng.choice(["and", "or", "xor", "not", "select", "if", "eq", "call", "and", "or"])
        if kind == "and":
            v = self.add(f"arith.andi {a}, {b} : i1", lambda e: e[a] and e[b])
        elif kind == "or":
            v = self.add(f"arith.ori {a}, {b} : i1", lambda e: e[a] or e[b])
        elif kind == "xor":
            v = self.add(f"arith.xori {a}, {b} : i1", lambda e: e[a] != e[b])
        elif kind == "not":
            t = self.add("arith.constant true", lambda e: True)
            v = self.add(f"arith.xori {a}, {t} : i1", lambda e: not e[a])
        elif kind == "select":
            v = self.add(f"arith.select {c}, {a}, {b} : i1", lambda e: e[a] if e[c] else e[b])
        elif kind == "if":
            v = self.add(f"scf.if {c} -> i1 {{ scf.yield {a} : i1 }} else {{ scf.yield {b} : i1 }}",
                         lambda e: e[a] if e[c] else e[b])
        elif kind == "eq":
            v = self.add(f"arith.cmpi ne, {a}, {b} : i1", lambda e: e[a] != e[b])
        else:
            i, j = rng.choice(self.ints[32]), rng.choice(self.ints[32])
            v = self.add(f"func.call @before(%j, {i}, {j}) : (i32, i32, i32) -> i1",
                         lambda e: e["%j"] <= wrap(e[i] + e[j], 32))
        self.bools.append(v)

    def text(self):
        body = "\n".join(self.lines)
        return (f"func.func private @{self.name}(%i: i32, %x: i32, %j: i32, %y: i32, %p: i1) -> i1 {{\n"
                f"{body}\n  return {self.result} : i1\n}}\n")

    def keeps(self, i, j, x, y, p):
        env = {"%i": i, "%j": j, "%x": x, "%y": y, "%p": p}
        for name, step in self.steps:
            env[name] = step(env)
        return env[self.result]


class Band(Mask):
    """A conjunction of comparisons of positions and their sums, of which any may be open where a number is negative."""

    def __init__(self, rng, name):
        super().__init__(rng, name, False, 1)
        self.lines, self.steps, self.bools = [], [], []
        self.result = None
        zero = self.constant(0, 32)
        for _ in range(rng.randrange(1, 4)):
            side = self.comparison()
            if rng.random() < 0.5:
                number = rng.choice(["%x", "%y"])
                test = self.add(f"arith.cmpi slt, {number}, {zero} : i32", lambda e, n=number: e[n] < 0)
                side = self.add(f"arith.ori {test}, {side} : i1", lambda e, a=test, b=side: e[a] or e[b])
            before = self.result
            self.result = side if not before else self.add(
                f"arith.andi {before}, {side} : i1", lambda e, a=before, b=side: e[a] and e[b])

    def comparison(self):
        rng = self.rng

        def binary(op, a, b):
            sign = 1 if op == "add" else -1
            return self.add(f"arith.{op}i {a}, {b} overflow<nsw> : i32",
                            lambda e: kept_promise(e[a] + sign * e[b], 32))

        i, number = "%i", rng.choice(["%x", "%y", self.constant(rng.choice([0, 0, 1, 5, -3, 100]), 32)])
        if rng.random() < 0.6:
            i = binary(rng.choice(["add", "sub"]), i, rng.choice(["%x", "%y"]))
        a, b = [(i, "%j"), (binary("sub", "%j", i), number), (binary("sub", i, "%j"), number),
                (binary("sub", "%j", number), i), ("%j", number), ("%i", number)][rng.randrange(6)]
        if rng.random() < 0.5:
            a, b = b, a
        predicate = rng.choice(["sle", "slt", "sge", "sgt", "eq"])
        return self.add(f"arith.cmpi {predicate}, {a}, {b} : i32", lambda e: compare(predicate, e[a], e[b], 32))


class Derived:
    """A derived function, from its text: straight-line arith on i1, i32 and i64."""

    def __init__(self, arguments, results, body):
        self.arguments = re.findall(r"%\w+", arguments)
        edge = re.search(r"tile\.row_edge = array<i64(?:: ([\d, ]*))?>", results)
        self.shifts = [int(number) for number in (edge[1] or "").split(", ") if number] if edge else None
        self.ends_at_upper = "tile.ends_at_upper" in results
        *lines, last = [line.strip().replace(" overflow<nsw>", "") for line in body.splitlines()]
        self.returned = re.findall(r"%[\w-]+", last)
        operation = re.compile(r"(%\S+) = (\S+) (.*?)(?: : (?:i\d+ (?:to|->) )?i(\d+))?$")
        self.lines = [operation.match(line).groups() for line in lines]
        self.bits = max((int(bits or 1) for *_, bits in self.lines), default=1)

    def is_tight(self):
        """Whether the flag is a constant."""
        return any((name, op, text) == (self.returned[4], "arith.constant", "true") for name, op, text, _ in self.lines)

    def check_ends(self, values, may, must):
        """Checks the statements of the result attributes; returns a message if one is wrong."""
        _, end, lower, upper = values[:4]
        top = max(lower, upper)
        if self.ends_at_upper and any(begin < stop != top for begin, stop in (may, must)):
            return "an interval does not end with upper"
        if self.shifts is None:
            return None
        shift = sum(values[number] for number in self.shifts)
        for (begin, stop), wanted in ((may, end + shift), (must, values[0] + 1 + shift)):
            if begin < stop and stop != max(lower, min(top, wanted)):
                return "an interval does not end with the row"
        return None

    def __call__(self, values):
        env = dict(zip(self.arguments, values))
        for name, op, text, bits in self.lines:
            env[name] = self.evaluate(op, text.split(", "), int(bits or 1), env)
        return [env[name] for name in self.returned]

    def evaluate(self, op, words, bits, env):
        if op == "arith.constant":
            return words[0] == "true" if words[0] in ("true", "false") else int(words[0])
        predicate = words.pop(0) if op == "arith.cmpi" else None
        v = [env[word] for word in words]
        if predicate:
            return compare(predicate, v[0], v[1], bits)
        if op in ("arith.divsi", "arith.floordivsi", "arith.ceildivsi", "arith.remsi"):
            return divide(op, v[0], v[1], bits)
        if op == "arith.select":
            return v[1] if v[0] else v[2]
        if bits == 1:
            return {"arith.andi": v[0] and v[-1], "arith.ori": v[0] or v[-1], "arith.xori": v[0] != v[-1]}[op]
        return wrap({"arith.addi": lambda: v[0] + v[1], "arith.subi": lambda: v[0] - v[1],
                     "arith.muli": lambda: v[0] * v[1], "arith.maxsi": lambda: max(v), "arith.minsi": lambda: min(v),
                     "arith.minui": lambda: min(x & ((1 << bits) - 1) for x in v),
                     "arith.maxui": lambda: max(x & ((1 << bits) - 1) for x in v),
                     "arith.extsi": lambda: v[0], "arith.trunci": lambda: v[0], "tile.cast": lambda: v[0]}[op](), bits)


def random_case(rng):
    base = rng.choice([0, 0, 0, 0, 5, -7, 2**31 - 20, -(2**31)])
    other = rng.choice([base, 0, 0])
    begin, lower = base + rng.randrange(8), other + rng.randrange(8)
    end = begin + rng.choice([0, 1, 1, 4, 7])
    upper = max(lower + rng.choice([0, 1, 6, 12, 12, -3]), -(2**31))
    return (begin, end, lower, upper, rng.choice([0, 1, 2, 3, -1, -4, 9, 2**31 - 1]),
            rng.choice([0, 1, 3, -5, 12, -(2**31)]), rng.random() < 0.5)


def analyze(masks, use):
    """The derived functions, by the names of their masks; `use` makes an operation of a clause."""
    text = """func.func private @before(%j: i32, %a: i32, %b: i32) -> i1 {
  %last = arith.addi %a, %b : i32
  %keep = arith.cmpi sle, %j, %last : i32
  return %keep : i1
}
"""
    text += "".join(mask.text() for mask in masks)
    text += "tile.kernel @k(%n: i32, %x: i32, %y: i32, %p: i32) grid(%i = 1) {\n  %t = arith.constant true\n"
    text += "  %zero = arith.constant 0 : i32\n  %four = arith.constant 4 : i32\n"
    for mask in masks:
        text += f"  {use(mask, f'where @{mask.name}(against, %x, block, %y, %t : i32, i32, i1)')}\n"
    text += "}\n"
    analyzed = subprocess.run(["tilewright-opt", "--tile-analyze-masks"], input=text, text=True,
                              check=True, stdout=subprocess.PIPE).stdout
    return {name: Derived(arguments, results, body) for name, arguments, results, body in re.findall(
        r"func\.func private @(mask\d+)_(?:ranges|kept)\((.*?)\) -> \((.*?)\) \{\n(.*?)\n  \}", analyzed, re.S)}


def loop(_, where):
    return f"tile.for_blocks %b in (%n to %n) against (%n to %n) {where} keep %keep : tensor<4x4xi1> {{ tile.yield }}"


def kept_range(mask, where):
    """What is known of the intervals makes the function shorter: a constant lower bound, and rows that exist."""
    first, end = f"%first_{mask.name}", f"%end_{mask.name}"
    lower = "%zero" if mask.has_zero else "%n"
    if not mask.has_rows:
        return f"{first}, {end} = tile.kept_range in ({lower} to %n) against (%n to %n) {where}"
    return f"""tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1> {{
    %behind = arith.addi %b, %four overflow<nsw> : i32
    %limit = arith.minsi %behind, %n : i32
    {first}, {end} = tile.kept_range in ({lower} to %n) against (%b to %limit) {where}
  }}"""


def check_kept(rng, masks):
    """Compares the limits with those that the pairs have."""
    masks += [Band(rng, f"mask{len(masks) + n}") for n in range(len(masks))]
    ranges = analyze(masks, loop)
    masks = [mask for mask in masks if ranges[mask.name].is_tight()]
    for mask in masks:
        mask.has_zero, mask.has_rows = rng.random() < 0.5, rng.random() < 0.3
    functions = analyze(masks, kept_range)
    empty, inside, failures = 0, 0, 0
    cases = [(mask, random_case(rng)) for mask in masks for _ in range(60)]
    for mask, case in cases:
        begin, end, lower, upper, x, y, p = case
        if mask.has_rows and begin >= end:
            continue
        if mask.has_zero:
            lower, upper = 0, upper - lower
            case = (begin, end, lower, upper, x, y, p)
        try:
            kept = [c for c in range(lower, upper) if any([mask.keeps(r, c, x, y, p) for r in range(begin, end)])]
        except Undefined:
            continue
        first, last = functions[mask.name](case)
        is_right = (first, last) == (kept[0], kept[-1] + 1) if kept else last <= first
        empty += not kept
        inside += bool(kept) and (kept[0] > lower or kept[-1] + 1 < upper)
        if not is_right or not lower <= first <= max(lower, upper) or last > max(lower, upper):
            failures += 1
            print(f"[{first}, {last}) for {kept}, case {case}")
            print(mask.text())
    narrow = sum(function.bits == 32 for function in functions.values())
    print(f"{len(masks)} tight masks, {narrow} in 32 bits; {len(cases)} rectangles: {empty} keep nothing, {inside} keep a "
          f"part, {failures} wrong")
    return failures != 0


def main():
    rng = random.Random(int(sys.argv[1]))
    kept = "--kept" in sys.argv
    masks = [Mask(rng, f"mask{n}", "--periods" in sys.argv, 0.95 if kept else 0.3) for n in range(int(sys.argv[2]))]
    if kept:
        return check_kept(rng, masks)
    functions = analyze(masks, loop)

    skipping, promising, tight_ones, known_ends, failures = 0, 0, 0, 0, 0
    cases = [(mask, random_case(rng)) for mask in masks for _ in range(24)]
    for mask, case in cases:
        begin, end, lower, upper, x, y, p = case
        may_begin, may_end, must_begin, must_end, tight = functions[mask.name](case)
        top = max(lower, upper)
        problem = None
        if not (lower <= may_begin <= may_end <= top and lower <= must_begin <= must_end <= top):
            problem = "an interval leaves [lower, upper)"
        derived = functions[mask.name]
        ends = derived.check_ends(case, (may_begin, may_end), (must_begin, must_end))
        try:
            # The ranges of one row of a tight mask are exactly the pairs that the row keeps.
            rows = {r: functions[mask.name]((r, r + 1, *case[2:])) for r in range(begin, end) if tight and r < 2**31 - 1}
            for c in range(lower, upper):
                some = False
                for r in range(begin, end):
                    keeps = mask.keeps(r, c, x, y, p)
                    some |= keeps
                    if r in rows and keeps != (rows[r][0] <= c < rows[r][1]):
                        problem = f"({r}, {c}) is kept or not, against the range of its row {rows[r][:2]}"
                    if keeps and not may_begin <= c < may_end:
                        problem = f"({r}, {c}) is kept outside of may"
                    if not keeps and must_begin <= c < must_end:
                        problem = f"({r}, {c}) is not kept inside of must"
                if tight and begin < end and may_begin <= c < may_end and not some:
                    problem = f"{c} is kept for no row, inside of a tight may"
        except Undefined:
            continue
        problem = problem or ends
        if begin < end and lower < upper:
            known_ends += derived.ends_at_upper or derived.shifts is not None
            skipping += may_end - may_begin < upper - lower
            promising += must_end > must_begin
            tight_ones += tight and may_begin < may_end
        if problem:
            failures += 1
            print(f"{problem}: may [{may_begin}, {may_end}), must [{must_begin}, {must_end}), "
                  f"tight {tight}, case {case}")
            print(mask.text())
    print(f"{len(cases)} rectangles: {skipping} skip blocks, {promising} promise full ones, "
          f"{tight_ones} are tight, {known_ends} have ends that are known, {failures} wrong")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
