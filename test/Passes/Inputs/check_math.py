# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks the generated code for elementary functions and for conversions of 8-bit floats against
# Python's math module and the definitions of the formats. The operands are constants: LLVM folds
# the arithmetic, and the result is a literal in the LLVM IR of a store. Code with approximate
# instructions of the GPU cannot be folded, and is not checked.

import decimal
import math
import random
import re
import struct
import subprocess
import sys

FORMATS = {"f64": ("d", "Q", 64), "f32": ("f", "I", 32), "f16": ("e", "H", 16)}
NAN, INF = math.nan, math.inf
decimal.getcontext().prec = 60


def to_bits(value, element):
    float_code, int_code, _ = FORMATS[element]
    return struct.unpack("<" + int_code, struct.pack("<" + float_code, value))[0]


def from_bits(bits, element):
    float_code, int_code, width = FORMATS[element]
    return struct.unpack(
        "<" + float_code, struct.pack("<" + int_code, bits & ((1 << width) - 1))
    )[0]


def compute(lines, result_type, count):
    """Returns the bits of the results of the `count` values %y0, %y1, ..."""
    layout = "#tgpu.blocked<1, lanes 32, warps 1, 1>"
    tile = f"tensor<32x{result_type}, {layout}>"
    view = f"!tile.view<[?], {result_type}>"
    text = [f'tgpu.kernel @k target "sm_80" warps 1 (%x: {view}) grid(%i = 1) {{'] + lines
    for i in range(count):
        text.append(f"%t{i} = tile.full %y{i} : {tile}")
        text.append(f"tgpu.store %t{i}, %x[{32 * i}] : {tile}, {view}")
    text.append("}")
    done = subprocess.run(
        ["tilewrightc", "--target=sm_80", "--emit=llvm", "-"],
        input="\n".join(text),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    stored = re.findall(r'st\.global\.b\d+ \[\$0\], \$1;".*?, i\d+ (-?\d+), i1', done.stdout)
    if len(stored) != count:
        sys.exit(f"{len(stored)} of {count} values are literals: {lines[:3]}")
    return [int(bits) for bits in stored]


def apply(function, element, inputs):
    lines = []
    for i, arguments in enumerate(inputs):
        for j, value in enumerate(arguments):
            digits = FORMATS[element][2] // 4
            bits = to_bits(value, element)
            lines.append(f"%c{i}_{j} = arith.constant 0x{bits:0{digits}X} : {element}")
        names = ", ".join(f"%c{i}_{j}" for j in range(len(arguments)))
        lines.append(f"%y{i} = math.{function} {names} : {element}")
    return [from_bits(bits, element) for bits in compute(lines, element, len(inputs))]


def ulp(value, element):
    digits, least = {"f64": (53, -1074), "f32": (24, -149), "f16": (11, -24)}[element]
    return 2.0 ** max(math.frexp(value)[1] - digits, least)


problems = []


def compare(function, element, reference, inputs, allowed):
    # Skip numbers that the element type cannot represent.
    def fits(x):
        return not math.isfinite(x) or abs(x) <= largest(element)

    inputs = [xs for xs in inputs if all(fits(x) for x in xs)]
    inputs = [tuple(from_bits(to_bits(x, element), element) for x in xs) for xs in inputs]
    for arguments, got in zip(inputs, apply(function, element, inputs)):
        expected = reference(*arguments)
        # Infinity is correct for numbers beyond the range of the element type.
        if abs(expected) >= largest(element) + ulp(largest(element), element) / 2:
            expected = math.copysign(INF, expected)
        if math.isnan(expected) or math.isinf(expected):
            ok = got == expected or (math.isnan(got) and math.isnan(expected))
        else:
            ok = abs(got - expected) <= allowed * ulp(expected, element)
        if not ok:
            problems.append(f"{element} {function}{arguments}: {got}, not {expected}")


def guarded(function, special):
    """Returns the function extended by the limits where Python's function raises an exception."""
    return lambda *x: special[x] if x in special else function(*x)


def hyperbolic(function, odd):
    def result(x):
        try:
            return function(x)
        except OverflowError:
            return -INF if odd and x < 0 else INF
    return result


def cube_root(x):
    """A correctly rounded cube root; that of the C library is not."""
    if x == 0 or not math.isfinite(x):
        return x
    return math.copysign(float(decimal.Decimal(abs(x)) ** (1 / decimal.Decimal(3))), x)


def largest(element):
    return {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0}[element]


def check_functions():
    random.seed(1)
    near = [(s * 10 ** random.uniform(-8, 0),) for s in (1, -1) for _ in range(12)]
    far = [(random.uniform(-20, 20),) for _ in range(12)]
    wide = [(random.uniform(-600, 600),) for _ in range(12)]
    positive = [(10 ** random.uniform(-300, 300),) for _ in range(12)] + [(0.9,), (1.0,), (1.1,)]
    # Beyond 1, the root of a negative number, which LLVM does not fold.
    unit_ends = near + [(s * x,) for s in (1, -1) for x in (0.5, 0.5000001, 0.9, 0.999999, 1)]
    unit_ends += [(random.uniform(-1, 1),) for _ in range(60)] + [(0.0,), (-0.0,), (NAN,)]
    ends = [(s * x,) for s in (1, -1) for x in (1, 0.99999, 88.9, 89.3, 91, 710, 710.4, 711, INF)]
    ends += [(random.uniform(-3, 3),) for _ in range(40)] + [(0.0,), (-0.0,), (NAN,)]
    signed = [(-x[0],) for x in positive] + positive + [(0.0,), (-0.0,), (1.7e308,), (3.4e38,)]
    tiny_cubes = [(s * 10 ** random.uniform(-320, -290),) for s in (1, -1) for _ in range(6)]
    tiny_cubes += [(s * 10 ** random.uniform(-44, -29),) for s in (1, -1) for _ in range(6)]
    tails = [(random.uniform(-6, 10.5),) for _ in range(80)] + [(random.uniform(8, 28),) for _ in range(40)]
    f64 = [
        ("exp2", lambda x: INF if x > 1030 else 2.0**x, far + wide + [(INF,), (-INF,), (2000.0,)]),
        ("exp", lambda x: INF if x > 710 else math.exp(x), far + wide + [(INF,), (-INF,), (NAN,)]),
        ("expm1", lambda x: INF if x > 710 else math.expm1(x), near + far + wide + [(-INF,)]),
        ("log", guarded(math.log, {(0.0,): -INF, (-1.0,): NAN}), positive + [(0.0,), (-1.0,), (INF,)]),
        ("log2", math.log2, positive),
        ("log10", math.log10, positive),
        ("log1p", guarded(math.log1p, {(-1.0,): -INF}), [x for x in near if x[0] > -1] + [(-1.0,)]),
        ("tanh", math.tanh, near + far + [(INF,), (NAN,)]),
        ("erf", math.erf, near + far + [(random.uniform(-6, 6),) for _ in range(30)] + [(INF,)]),
        ("sin", math.sin, near + far + wide),
        ("cos", math.cos, near + far + wide),
        ("tan", math.tan, near + far),
        ("atan", math.atan, near + far + wide + [(INF,), (-INF,)]),
        ("rsqrt", lambda x: 1 / math.sqrt(x), positive),
        ("asin", math.asin, unit_ends),
        ("acos", math.acos, unit_ends),
        ("sinh", hyperbolic(math.sinh, odd=True), near + far + ends),
        ("cosh", hyperbolic(math.cosh, odd=False), near + far + ends),
        ("cbrt", cube_root, near + far + signed + tiny_cubes + [(INF,), (-INF,), (NAN,)]),
        ("erfc", math.erfc, near + far + tails + [(INF,), (-INF,), (NAN,)]),
    ]
    pairs = [(random.uniform(-3, 3), random.uniform(-3, 3)) for _ in range(20)]
    pairs += [(0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (INF, INF), (NAN, 1.0)]
    powers = [(abs(x) * 4, y * 9) for x, y in pairs[:20]] + [(-2.0, 3.0), (-2.0, 4.0)]
    powers += [(0.0, 2.0), (0.0, 0.0), (1.0, NAN), (NAN, 0.0), (2.0, INF), (-0.0, 3.0)]
    for name, reference, inputs in f64:
        compare(name, "f64", reference, inputs, 4)
    # The exponentials of softmax have an error of less than one ulp, also for subnormal results.
    unit = [(random.uniform(-1, 1),) for _ in range(400)]
    tiny = [(random.uniform(-1076, -1020),) for _ in range(60)] + [(-1074.0,), (-1080.0,), (1023.5,)]
    compare("exp2", "f64", lambda x: 2.0**x, unit + far + wide + tiny, 1)
    compare("exp", "f64", math.exp, unit + far + wide + [(x * math.log(2),) for x, in tiny], 1)
    compare("atan2", "f64", math.atan2, pairs, 4)
    compare("powf", "f64", math.pow, powers, 200)
    for name, reference, inputs in f64:
        if name in ("log1p", "sin", "cos", "tan", "atan"):
            compare(name, "f32", reference, inputs, 3)
        if name in ("asin", "acos", "sinh", "cosh", "erfc"):
            compare(name, "f32", reference, inputs, 4)
        if name == "cbrt":
            compare(name, "f32", reference, inputs, 1)
            compare(name, "f64", reference, inputs, 1)
        if name in ("asin", "acos", "sinh", "cosh", "cbrt", "erfc"):
            # Rounded once from f32 to 16 bits.
            compare(name, "f16", reference, inputs, 0.51)
    compare("atan2", "f32", math.atan2, pairs, 3)
    compare("powf", "f32", math.pow, powers, 1)


def decode(bits, name):
    sign, magnitude = (-1 if bits & 0x80 else 1), bits & 0x7F
    fraction_bits, bias = (3, 7) if name == "f8E4M3FN" else (2, 15)
    exponent, fraction = magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1)
    if name == "f8E4M3FN" and magnitude == 0x7F:
        return NAN
    if name == "f8E5M2" and exponent == 31:
        return NAN if fraction else sign * INF
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


def encode(value, name):
    """Rounds to nearest, ties to even; returns None for a NaN."""
    largest = 0x7E if name == "f8E4M3FN" else 0x7B
    if math.isnan(value):
        return None
    steps = [decode(code, name) for code in range(largest + 1)]
    steps.append(2 * steps[-1] - steps[-2])  # the first infinity or NaN
    magnitude = min(abs(value), steps[-1])
    best = min(range(len(steps)), key=lambda code: (abs(steps[code] - magnitude), code % 2))
    if best > largest and name == "f8E4M3FN":
        return None
    return best | (0x80 if math.copysign(1, value) < 0 else 0)


def check_casts():
    random.seed(2)
    for name in ("f8E4M3FN", "f8E5M2"):
        lines = []
        for i in range(256):
            lines.append(f"%c{i} = arith.constant 0x{i:02X} : {name}")
            lines.append(f"%y{i} = tile.cast %c{i} : {name} -> f32")
        for i, bits in enumerate(compute(lines, "f32", 256)):
            got, expected = from_bits(bits, "f32"), decode(i, name)
            if not (got == expected or (math.isnan(got) and math.isnan(expected))):
                problems.append(f"{name} 0x{i:02X}: {got}, not {expected}")
        values = [s * 2 ** random.uniform(-19, 15) for s in (1, -1) for _ in range(60)]
        # Ties, and the neighbors of the largest number.
        values += [(decode(i, name) + decode(i + 1, name)) / 2 for i in range(0x7B)]
        values += [0.0, -0.0, INF, -INF, NAN, 463.9, 464.0, 464.5, 61439.0, 61440.0]
        for element in ("f32", "f16"):
            chosen = [from_bits(to_bits(x, element), element) for x in values]
            lines = []
            for i, x in enumerate(chosen):
                digits = FORMATS[element][2] // 4
                lines.append(f"%c{i} = arith.constant 0x{to_bits(x, element):0{digits}X} : {element}")
                lines.append(f"%y{i} = tile.cast %c{i} : {element} -> {name}")
            for x, bits in zip(chosen, compute(lines, name, len(chosen))):
                expected = encode(x, name)
                is_same = bits & 0xFF == expected
                if not (is_same or (expected is None and math.isnan(decode(bits & 0xFF, name)))):
                    problems.append(f"{element} {x} to {name}: 0x{bits & 0xFF:02X}, not {expected}")


check_functions()
check_casts()
print("\n".join(problems) or "all functions are as accurate as they should be")
sys.exit(1 if problems else 0)
