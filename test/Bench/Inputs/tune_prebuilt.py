# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tune_prebuilt.py TUNE.PY FOLDER OPTION...: runs `tune.py --prebuilt FOLDER` with given times, which were not measured: a
variant with longer blocks is faster, a synchronous one takes 1.5 times as long, and one with 8 warps gives wrong results."""

import importlib.util
import os
import sys

path, folder, *options = sys.argv[1:]
sys.path.insert(0, os.path.dirname(path))
spec = importlib.util.spec_from_file_location("tune", path)
tune = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tune)


def measure(options, group, variants, folder, progress, rounds=None):
    print(f"measure: {len(variants)} variants, {rounds or options.rounds} rounds, bundles are there: "
          f"{all(os.path.exists(v.paths['bundle']) for v in variants if v.error is None)}")
    times = {}
    for variant in variants:
        if variant.warps == "8":
            variant.error = "wrong: NaN in the output"
        elif variant.error is None:
            median = 100 / int(variant.params["BLOCK_N"]) * (1.5 if variant.is_synchronous else 1.0)
            times[variant.setting] = {"median_ms": median, "q1_ms": median, "q3_ms": median}
    return {case.name: times for case in group}


tune.measure = measure
sys.argv = [path, "--prebuilt", folder, *options]
sys.exit(tune.main())
