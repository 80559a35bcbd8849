# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a kernel through tilewright-run on NumPy arrays and compares arrays.

import os
import subprocess
import tempfile

import numpy as np

KERNELS = os.environ.get(
    "TILEWRIGHT_KERNELS",
    os.path.join(os.path.dirname(__file__), "..", "..", "..", "kernels"),
)

# Modifiers that only tests use.
MODIFIERS = os.path.join(os.path.dirname(__file__), "..", "..", "Acceptance", "Inputs")

# Maximum difference relative to 1 + the largest magnitude: a few hundred roundings in f64 and f32, four units in the
# last place in f16 and bf16, whose results are rounded once.
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 4 * 2.0**-11, "bf16": 4 * 2.0**-8}

# --device of tilewright-run; default: cpu.
DEVICE = os.environ.get("TILEWRIGHT_TEST_DEVICE")

_checks = 0


def round_to(x, kind):
    """Returns the nearest value of the element type, as float64."""
    x = np.asarray(x, dtype=np.float64)
    if kind == "f64":
        return x
    if kind == "f32":
        return x.astype(np.float32).astype(np.float64)
    if kind == "f16":
        return x.astype(np.float16).astype(np.float64)
    # mantissa bits, smallest exponent, largest value
    bits, low, top = {
        "bf16": (7, -126, 3.3895313892515355e38),
        "e4m3": (3, -6, 448.0),
        "e5m2": (2, -14, 57344.0),
    }[kind]
    exponent = np.maximum(np.floor(np.log2(np.where(x == 0, 1, np.abs(x)))), low)
    step = 2.0 ** (exponent - bits)
    rounded = np.clip(np.round(x / step) * step, -top, top)
    return np.where(np.isfinite(x), rounded, x)


def normal(seed, shape, kind):
    return round_to(np.random.default_rng(seed).standard_normal(shape), kind)


def run(file, params, inputs, outputs, scalars=None, entry=None, with_files=(), kinds=None,
        extra=()):
    """Runs kernels/FILE.mlir. Inputs by name; outputs: name -> (shape, kind); kinds: name -> element
    type of an input (None: the type that the kernel declares; not needed for integers). Returns the
    outputs by name as float64."""
    kinds = kinds or {}
    with tempfile.TemporaryDirectory() as folder:
        command = ["tilewright-run", os.path.join(KERNELS, file + ".mlir")]
        entry_kind, entry_name = entry or ("kernel", file)
        command += [f"--{entry_kind}", entry_name, *extra]
        if DEVICE:
            command += ["--device", DEVICE]
        for name in with_files:
            shipped = os.path.join(KERNELS, "mods", name + ".mlir")
            command += ["--with", shipped if os.path.exists(shipped) else
                        os.path.join(MODIFIERS, name + ".mlir")]
        for name, value in params.items():
            command += ["--param", f"{name}={value}"]
        for name, value in (scalars or {}).items():
            command += ["--scalar", f"{name}={value}"]
        for name, array in inputs.items():
            path = os.path.join(folder, name + ".npy")
            array = np.ascontiguousarray(array)
            kind = kinds.get(name, params.get("T", "f32"))
            if array.dtype == np.int32 or array.dtype == np.int64:
                kind = f"i{8 * array.itemsize}"
            np.save(path, array)
            command += ["--in", f"{name}={path}:{kind}" if kind else f"{name}={path}"]
        for name, (shape, kind) in outputs.items():
            path = os.path.join(folder, name + ".out.npy")
            dims = "x".join(str(extent) for extent in shape)
            suffix = f":{kind}" if kind else ""
            command += ["--out", f"{name}={path}{suffix}@{dims}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stderr}")
        return {
            name: np.load(os.path.join(folder, name + ".out.npy")).astype(np.float64)
            for name in outputs
        }


def compare(what, got, wanted, kind, allowed=None):
    """Fails if the difference exceeds the tolerance, infinities differ, or a value is NaN."""
    global _checks
    _checks += 1
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        raise SystemExit(f"{what}: shape {got.shape}, expected {wanted.shape}")
    if got.size == 0:
        return
    infinite = np.isinf(wanted)
    if not np.array_equal(np.where(infinite, got, 0), np.where(infinite, wanted, 0)):
        raise SystemExit(f"{what}: infinities differ")
    finite = np.where(infinite, 0, wanted)
    if allowed is None:
        allowed = TOLERANCE[kind] * (1 + np.max(np.abs(finite)))
    difference = np.abs(np.where(infinite, 0, got) - finite)
    if not np.all(difference <= allowed):
        at = np.unravel_index(np.argmax(difference - allowed), difference.shape)
        raise SystemExit(
            f"{what}: differs by {difference[at]:.3g} at {tuple(map(int, at))}: got {got[at]:.9g}, "
            f"expected {wanted[at]:.9g}, allowed {np.max(allowed):.3g}"
        )


def finish(name):
    if _checks == 0:
        raise SystemExit(f"{name}: nothing was compared")
    print(f"{name}: {_checks} arrays agree")
