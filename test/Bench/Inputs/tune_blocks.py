# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tune_blocks.py TUNE.PY KERNEL: prints the rows that bench/tune.py writes for three lengths with given times, which were
not measured."""
import importlib.util
import json
import os
import sys

sys.path.insert(0, os.path.dirname(sys.argv[1]))
spec = importlib.util.spec_from_file_location("tune", sys.argv[1])
tune = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tune)

options = tune.parse(["--kernel", sys.argv[2], "--tilewrightc", "tilewrightc", "--target", "sm_90a", "--dims", "128", "--causal", "none",
                      "--seqs", "512,1024,8192", "--grid", "BLOCK_M=128", "BLOCK_N=default,96,64", "--warps", "default,8"])
cases = options.groups[0]
variants = tune.make_variants(options, cases[0].params())


def times(fastest):
    """The setting with warps is faster still, but a row has no place for that."""
    return {v.setting: {"median_ms": 0.5 if v.warps else 1 if v.setting == fastest else 2} for v in variants} | {"flash": {"median_ms": 0.1}}


results = {case.name: times({512: "BLOCK_M=128 BLOCK_N=64", 1024: "BLOCK_M=128 BLOCK_N=96", 8192: "BLOCK_M=128"}[case.seq])
           for case in cases}
for row in tune.block_rows(options, cases, variants, results):
    print(json.dumps(row))
