# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_large_scores.py RUN KERNELS DEVICE   results and gradients of attention where scores are as large as f32 allows:
#                                            masks of the lowest number, as transformers add them, single scores, sinks

import subprocess
import sys

import numpy as np

run, kernels, device = sys.argv[1:4]
HEADS, QUERIES, KEYS, WIDTH, SCALE = 2, 70, 90, 16, 0.25
generator = np.random.default_rng(0)


def normal(*shape):
    return generator.standard_normal(shape)


def rounded(values, kind):
    """f32 values that the type can hold."""
    values = np.asarray(values, np.float32)
    if kind == "f32":
        return values
    bits = values.view(np.uint32)
    return (bits + ((bits >> 16 & 1) + 0x7FFF) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def execute(kernel, kind, params, modifiers, arrays, scalars, outputs):
    command = [run, f"{kernels}/attention_{kernel}.mlir", f"--param=T={kind}", f"--param=D={WIDTH}",
               f"--device={device}"]
    command += [f"--param={param}" for param in params] + [f"--with={kernels}/mods/{name}.mlir" for name in modifiers]
    command += [f"--scalar={name}={value}" for name, value in scalars.items()]
    for name, values in arrays.items():
        np.save(f"{name}.npy", values.astype(np.float32))
        command.append(f"--in={name}={name}.npy" + ("" if name in ("lse", "sinks") else f":{kind}"))
    command += [f"--out={name}={name}.npy@{'x'.join(map(str, shape))}" for name, shape in outputs.items()]
    subprocess.run(command, check=True)
    return [np.load(f"{name}.npy").astype(np.float64) for name in outputs]


def softmax(s, sinks):
    """P and LSE; the sinks of heads join the sums."""
    with_sinks = np.concatenate([s, np.broadcast_to(np.reshape(sinks, (1, HEADS, 1, 1)), (*s.shape[:3], 1))], -1)
    most = with_sinks.max(-1, keepdims=True)
    finite = np.where(np.isinf(most), 0, most)
    p = np.exp(with_sinks - finite)
    total = p.sum(-1, keepdims=True)
    some = np.where(total > 0, total, 1)
    return (p / some)[..., :-1], np.where(total > 0, np.log(some) + finite, -np.inf)[..., 0]


def compare(what, got, expected, tolerance):
    """The largest difference, in units of the largest result."""
    assert np.isfinite(got).all(), (what, "is not finite")
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert error < tolerance, (what, error)


def check(name, kind, bias=None, sinks=None, tensors=None, tolerance=None):
    tolerance = tolerance or (2e-6 if kind == "f32" else 0.02)
    q, k, v = (rounded(x, kind) for x in tensors or (normal(1, HEADS, QUERIES, WIDTH), normal(1, HEADS, KEYS, WIDTH),
                                                     normal(1, HEADS, KEYS, WIDTH)))
    do = rounded(normal(1, HEADS, QUERIES, WIDTH), kind)
    arrays, modifiers, scalars = {"q": q, "k": k, "v": v}, [], {"scale": SCALE}
    # In f32, as a sum with a very large number has no fraction.
    s = np.float32(SCALE) * (q @ k.swapaxes(-1, -2))
    if bias is not None:
        arrays["bias"] = rounded(bias, kind)
        modifiers.append("bias")
        s = s + arrays["bias"]
    if sinks is not None:
        arrays["sinks"] = np.asarray(sinks, np.float32)
        modifiers.append("sink")
    p, lse = softmax(s.astype(np.float64), np.float32([-np.inf] * HEADS if sinks is None else sinks).astype(np.float64))
    o = p @ v
    shapes = {name: x.shape for name, x in (("o", o), ("lse", lse), ("dq", q), ("dk", k), ("dv", v))}
    got_o, got_lse = execute("forward", kind, [], modifiers, arrays, scalars, {n: shapes[n] for n in ("o", "lse")})
    what = f"{name} {kind} {device} "
    compare(what + "O", got_o, o, tolerance)
    assert np.array_equal(np.isinf(got_lse), np.isinf(lse)), what + "LSE"
    has_keys = np.isfinite(lse)
    errors = np.abs(got_lse[has_keys] - lse[has_keys]) / (1 + np.abs(lse[has_keys]))
    assert (errors <= 1e-6).all(), what + "LSE"

    dp = do.astype(np.float64) @ v.swapaxes(-1, -2)
    of_kernel = rounded(o, kind)
    ds = p * (dp - (do.astype(np.float64) * of_kernel).sum(-1, keepdims=True))
    expected = {"dq": SCALE * ds @ k, "dk": SCALE * ds.swapaxes(-1, -2) @ q, "dv": p.swapaxes(-1, -2) @ do,
                "d_score": ds}
    arrays |= {"o": of_kernel, "do": do, "lse": lse}
    forms = [[], ["DETERMINISTIC=true"]]
    if bias is not None:
        forms.append(["DETERMINISTIC=true", "SCORE_GRADIENT=true"])
    for params in forms:
        names = ["dq", "dk", "dv"] + (["d_score"] if len(params) == 2 else [])
        results = execute("backward", kind, params, modifiers, arrays, scalars,
                          {name: shapes.get(name, (1, HEADS, QUERIES, KEYS)) for name in names})
        for result, got in zip(names, results):
            compare(what + " ".join([result, *params]), got, expected[result], tolerance)


def check_range(kind, size, most):
    """Scores of up to `size`, of which nearly each row has one key: the stated error of P up to 2^20, and beyond its bound
    `most`."""
    factor = np.sqrt(size / 4.5)  # the largest of as many normal numbers is about 4.5
    q, k, v = (rounded(x * f, kind) for x, f in zip([normal(1, HEADS, n, WIDTH) for n in (QUERIES, KEYS, KEYS)], (factor, factor, 1)))
    do = rounded(normal(1, HEADS, QUERIES, WIDTH), kind).astype(np.float64)
    arrays, scalars = {"q": q, "k": k, "v": v}, {"scale": SCALE}
    o, lse = execute("forward", kind, [], [], arrays, scalars, {"o": do.shape, "lse": do.shape[:-1]})
    arrays |= {"o": rounded(o, kind), "do": do, "lse": lse}
    p, _ = softmax(SCALE * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)), np.float64([-np.inf] * HEADS))
    off = np.abs(do @ v.astype(np.float64).swapaxes(-1, -2) - (do * arrays["o"]).sum(-1, keepdims=True))  # |dP - delta|
    limits = {"dq": SCALE * off @ np.abs(k), "dk": SCALE * off.swapaxes(-1, -2) @ np.abs(q), "dv": np.abs(do).sum(-2, keepdims=True)}
    slack = 1 + (1e-5 if kind == "f32" else 0.03)
    for params in [], ["DETERMINISTIC=true"]:
        results = execute("backward", kind, params, [], arrays, scalars, {"dq": q.shape, "dk": k.shape, "dv": v.shape})
        for (name, limit), got in zip(limits.items(), results):
            what = (name, kind, device, f"scores of {size:g}", *params)
            assert np.isfinite(got).all(), (what, "is not finite")
            assert (np.abs(got) <= most * slack * limit + 1e-30).all(), (what, (np.abs(got) / (limit + 1e-30)).max())
        if size <= 2**20:
            error = np.abs(results[2] - p.swapaxes(-1, -2) @ do) / (p.swapaxes(-1, -2) @ np.abs(do) + 1e-3)
            assert error.max() <= most * slack - 1, ("dv", kind, device, size, params, error.max())


for kind, lowest in ("f32", -3.4028234663852886e38), ("bf16", -3.3895313892515355e38):
    mask = np.where(normal(1, HEADS, QUERIES, KEYS) < 0, lowest, 0)
    mask[:, :, :10] = 0
    mask[:, :, [5, 20, QUERIES - 1]] = lowest  # whole rows
    check("lowest", kind, mask)
    large = np.zeros((1, HEADS, QUERIES, KEYS))
    large[:, :, 3, 7] = 2.4e38
    large[:, :, 30] = -2.5e38
    large[:, :, 30, 40:] = -3e38
    large[:, :, 40, 5:7] = 3e38, 2.6e38
    large[:, :, 41, 5:7] = 3e38  # two maxima
    large[:, :, 42, 5] = 1e6
    large[:, :, 50] = -np.inf
    check("large", kind, large)
    check("sinks", kind, None, [3e38, -3e38])
    check("sinks of rows without keys", kind, np.where(normal(1, 1, QUERIES, 1) < 0, -np.inf, 0), [3e38, -3e38])
    check("sinks and lowest", kind, mask, [3e38, -1.5])
# The limits without a bias: products and scores in base 2 are finite, and for gradients |S| 2^-22 is small beside 1,
# since S is rounded.
tensors = [normal(1, HEADS, n, WIDTH) for n in (QUERIES, KEYS, KEYS)]
tensors[0][:, :, 9] = [2.3e38 / 2**66] + [0] * (WIDTH - 1)
tensors[1][:, :, 11, 0] = 2**66
got, = execute("forward", "f32", [], [], dict(zip("qkv", tensors)), {"scale": 1}, {"o": tensors[0].shape})
assert np.allclose(got[:, :, 9], tensors[2][:, :, 11], rtol=1e-6), "a score of 2.3e38"
check("scores of 1000", "f32", None, None, [16 * normal(1, HEADS, n, WIDTH) for n in (QUERIES, KEYS, KEYS)], 2**-9)
# The range of gradients (attention_backward.mlir).
for kind in "f32", "bf16", "f16":
    check_range(kind, 2**20, np.exp(2**-2))
    if kind == "f16":  # q and k are at most 65504
        continue
    if kind == "f32" or device == "cpu":
        for size in 2**24, 3e8, 4e10, 1e30:
            check_range(kind, size, 1)
    else:
        check_range(kind, 2**24, np.exp(2**2))
