# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_shards.py RUN KERNELS [DEVICE]   compares attention of shards with that of the whole: rows from FIRST on of the heads 2 and
#                                        3, with keys in two parts, of which the second launch continues the first
#
# The gradients of the parts are added. Files for masks, modifiers and dropout read positions and heads of the whole.

import subprocess
import sys

import numpy

run, kernels = sys.argv[1:3]
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
ROWS, KEYS, WIDTH, FIRST, CUT = 70, 90, 16, 23, 37
HEADS = slice(2, 4)
SHARD = {"SHARD": "true"}
rng = numpy.random.default_rng(1)
q, do = rng.standard_normal((2, 1, 4, ROWS, WIDTH)).astype(numpy.float32)
k, v = rng.standard_normal((2, 1, 4, KEYS, WIDTH)).astype(numpy.float32)
CAPTURES = {"slopes": numpy.array([0.1, 0.2, 0.4, 0.8], numpy.float32),
            "bias": rng.standard_normal((1, 4, ROWS, KEYS)).astype(numpy.float32),
            "query_document": (numpy.arange(ROWS)[None] // 30).astype(numpy.int32),
            "key_document": (numpy.arange(KEYS)[None] // 50).astype(numpy.int32),
            "dropout_seed": numpy.array([7], numpy.int64), "dropout_offset": numpy.array([3], numpy.int64)}
CASES = [({"CAUSAL": "top_left"}, 0, [], [], {}),
         ({"CAUSAL": "bottom_right", "WINDOW": "true"}, KEYS - ROWS, [], [], {"window_left": 30}),
         ({"CAUSAL": "bottom_right"}, KEYS - ROWS, ["alibi", "bias"], ["slopes", "bias"], {}),
         ({}, 0, ["document", "dropout"], ["query_document", "key_document", "dropout_seed", "dropout_offset"], {"dropout": 0.3})]


def launch(kernel, params, inputs, outputs, mods, captures, scalars):
    """Runs a kernel, and returns its outputs, {name: array}."""
    command = [run, f"{kernels}/attention_{kernel}.mlir", f"--device={device}", f"--param=D={WIDTH}", "--param=T=f32"]
    command += [f"--param={name}={value}" for name, value in params.items()]
    command += [f"--with={kernels}/mods/{name}.mlir" for name in mods]
    command += [f"--scalar={name}={value}" for name, value in scalars.items()]
    for name, x in {**inputs, **{name: CAPTURES[name] for name in captures}}.items():
        numpy.save(f"{name}.npy", x)
        kind = {"float32": "f32", "int32": "i32", "int64": "i64"}[str(x.dtype)]
        command.append(f"--in={name}={name}.npy:{kind}")
    command += [f"--out={name}=out-{name}.npy:f32@{'x'.join(map(str, shape))}" for name, shape in outputs.items()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {name: numpy.load(f"out-{name}.npy") for name in outputs}


def same(name, got, expected):
    finite = numpy.isfinite(expected)
    assert (numpy.isfinite(got) == finite).all(), (name, "infinities")
    worst = abs(got[finite] - expected[finite]).max()
    assert worst < 2e-5, (name, worst)


for params, diagonal, mods, captures, scalars in CASES if device == "cpu" else CASES[:3]:
    scalars = {"scale": 0.25, **scalars}
    forward = launch("forward", params, {"q": q, "k": k, "v": v}, {"o": q.shape, "lse": q.shape[:3]}, mods, captures, scalars)
    saved = {"o": forward["o"], "lse": forward["lse"]}
    backward = launch("backward", params, {"q": q, "k": k, "v": v, "do": do, **saved},
                      {"dq": q.shape, "dk": k.shape, "dv": v.shape}, mods, captures, scalars)

    rows = slice(FIRST, None)
    own = {"q": q[:, HEADS, rows], "do": do[:, HEADS, rows], **{name: x[:, HEADS, rows] for name, x in saved.items()}}
    shape = own["q"].shape
    places = {"first_row": FIRST, "diagonal": diagonal, "first_head": 2, "first_batch": 0}
    state, dq = None, 0
    for keys in (slice(CUT, None), slice(0, CUT)):
        part = {"k": k[:, HEADS, keys], "v": v[:, HEADS, keys]}
        more = {} if state is None else {"o_before": state["o"], "lse_before": state["lse"]}
        at = {**scalars, **places, "first_key": keys.start}
        state = launch("forward", {**params, **SHARD, "CONTINUED": "true" if more else "false"}, {"q": own["q"], **part, **more},
                       {"o": shape, "lse": shape[:3]}, mods, captures, at)
        gradients = launch("backward", {**params, **SHARD}, {**own, **part},
                           {"dq": shape, "dk": part["k"].shape, "dv": part["v"].shape}, mods, captures, at)
        dq = dq + gradients["dq"]
        # Of all rows, but for those before the first, which are a launch of their own.
        before = {name: x[:, HEADS, :FIRST] for name, x in {"q": q, "do": do, **saved}.items()}
        others = launch("backward", {**params, **SHARD}, {**before, **part},
                        {"dq": before["q"].shape, "dk": part["k"].shape, "dv": part["v"].shape}, mods, captures,
                        {**at, "first_row": 0})
        for name in ("dk", "dv"):
            same((params, mods, name), gradients[name] + others[name], backward[name][:, HEADS, keys])
    same((params, mods, "o"), state["o"], saved["o"][:, HEADS, rows])
    same((params, mods, "lse"), state["lse"], saved["lse"][:, HEADS, rows])
    same((params, mods, "dq"), dq, backward["dq"][:, HEADS, rows])
