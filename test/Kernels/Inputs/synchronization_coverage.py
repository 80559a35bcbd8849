# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Maps the shipped kernels with their default blocks, and asks tgpu-verify-sync what it does not check: synchronization
# that no launch reaches, and operations that it does not follow. Prints each place, and how many bindings have such
# places; fails if one has.
#
#   synchronization_coverage.py SCRATCH KERNELS [--every N] [--match TEXT] [--jobs N] [--opt TOOL] [--no-check]
#
# --every: one binding of N; 40 by default, in the full tier 1. --no-check: only prints.

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

IS_FULL = os.environ.get("TILEWRIGHT_TEST_TIER") == "full"
ATTENTION = ["attention_forward", "attention_backward"]
MASKED = ATTENTION + ["differential_attention", "attention_forward_saved_probs", "tanh_attention",
                      "tanh_attention_backward", "differential_attention_backward"]
OTHERS = ["attention_decode", "attention_backward_saved_probs", "linear_attention",
          "gated_delta_rule", "gated_delta_rule_backward"]
WITHOUT_DEPTH = ["matmul", "grouped_matmul", "swiglu", "layer_norm", "rms_norm", "row_softmax",
                 "int4_matmul"]
MASKS = ["none", "top_left", "bottom_right"]
WINDOW, PACKED = {"WINDOW": "true"}, {"PACKED": "true"}
LISTED, IN_SEQUENCE = {"LISTED": "true"}, {"DETERMINISTIC": "true"}
IN_PAGES = [{"PAGE_ROWS": "16", **PACKED}, {"PAGE_ROWS": "64", **WINDOW}, {"PAGE_ROWS": "1"}, {"CACHED": "true"},
            {"PAGE_ROWS": "64", **PACKED, **LISTED}]
PLACE = re.compile(r":(\d+):\d+: (?:warning|remark): ([^\n]*(?:is not checked|was not reached|is not followed)[^\n]*)")


def list_bindings(kernels):
    """Yields (kernel, target, parameters, modifiers)."""
    mods = sorted(name[:-5] for name in os.listdir(os.path.join(kernels, "mods")) if name.endswith(".mlir"))
    for target in ("sm_80", "sm_90a"):
        types = ["bf16"] if target == "sm_90a" else ["bf16", "f32"]
        for kernel in MASKED + OTHERS:
            for element in types + (["e4m3"] if kernel == "attention_forward" and target == "sm_80" else []):
                for depth in ("64", "96", "128", "192", "256"):
                    params = {"D": depth, "T": element}
                    if kernel == "attention_decode":
                        params |= {"GROUP": "4", "ROWS": "4"}
                    for mask in MASKS if kernel in MASKED else [None]:
                        bound = {**params, **({"CAUSAL": mask} if mask else {})}
                        yield kernel, target, bound, ()
                        # No launch reaches all loops of other masks, nor lists of three blocks for a part of several rows,
                        # which the mutation test simulates.
                        if kernel == "attention_decode":
                            for more in ({"PAGE_ROWS": "16"}, {"PAGE_ROWS": "64", "ROWS": "1"}, {"PAGE_ROWS": "16", **PACKED},
                                         {"PAGE_ROWS": "64", **WINDOW}, {"PAGE_ROWS": "64", "ROWS": "1", **LISTED}):
                                # A window is relative to the last keys.
                                if "WINDOW" not in more:
                                    yield kernel, target, {**bound, **more}, ()
                                yield kernel, target, {**bound, **more, "CAUSAL": "bottom_right"}, ()
                        if kernel not in ATTENTION:
                            continue
                        more = [PACKED, WINDOW]
                        if element == "bf16":
                            more += [LISTED, {**PACKED, **WINDOW}]
                            if kernel == "attention_forward":
                                more += IN_PAGES
                            if kernel == "attention_backward":
                                more += [IN_SEQUENCE, {**IN_SEQUENCE, **PACKED}]
                        for params_of_more in more:
                            yield kernel, target, {**bound, **params_of_more}, ()
                        if element == "bf16" and depth in ("64", "128", "256"):
                            for mod in mods:
                                yield kernel, target, bound, (mod,)
                            yield kernel, target, bound, ("softcap", "document")
                            yield kernel, target, {**bound, **PACKED}, ("bias",)
                            if kernel == "attention_forward":
                                yield kernel, target, {**bound, **IN_PAGES[0]}, ("softcap", "document")
                            if target == "sm_90a":
                                yield kernel, target, {**bound, **LISTED}, ("bias", "spans", "softcap")
        for kernel in WITHOUT_DEPTH:
            if kernel == "int4_matmul":
                yield kernel, target, {"T": "bf16"}, ()
                continue
            is_product = kernel in ("matmul", "grouped_matmul")
            for element in types + (["e4m3"] if is_product and target == "sm_80" else []):
                params = {"T": element}
                if kernel in ("layer_norm", "rms_norm"):
                    params["N"] = "1000"
                if is_product and element == "e4m3":
                    params["TC"] = "f16"
                yield kernel, target, params, ()
                if kernel in ("swiglu", "grouped_matmul"):
                    yield kernel, target, {**params, "TRANSPOSED": "true"}, ()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def check(options, number, binding):
    """Returns the label and the messages."""
    kernel, target, params, mods = binding
    words = [kernel, target] + [f"{name}={value}" for name, value in params.items()] + list(mods)
    path = os.path.join(options.scratch, f"{number}.mlir")
    command = ["tilewrightc", os.path.join(options.kernels, kernel + ".mlir"), f"--target={target}", "--emit=tgpu"]
    command += [f"--param={name}={value}" for name, value in params.items()]
    command += [f"--with={os.path.join(options.kernels, 'mods', mod + '.mlir')}" for mod in mods]
    mapped = run(*command, "-o", path)
    if mapped.returncode:
        return " ".join(words), [mapped.stderr.strip()]
    checked = run(options.opt, path, "--tgpu-verify-sync=report-unreached", "-o", os.devnull)
    os.remove(path)
    if checked.returncode:
        return " ".join(words), [checked.stderr.strip()]
    return " ".join(words), [f"line {line}: {text}" for line, text in PLACE.findall(checked.stderr)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scratch")
    parser.add_argument("kernels")
    parser.add_argument("--every", type=int, default=1 if IS_FULL else 40)
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--opt", default="tilewright-opt")
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.scratch, exist_ok=True)
    bindings = [b for b in list_bindings(options.kernels) if options.match in " ".join(map(str, b))][:: options.every]
    with_places, beside = 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for label, messages in pool.map(lambda job: check(options, *job), enumerate(bindings)):
            with_places += bool(messages)
            beside += any("is not checked" in message for message in messages)
            if messages:
                print(f"{label}: " + "; ".join(messages))
    print(f"{len(bindings)} bindings, {with_places} with synchronization that is not checked, in {beside} beside a "
          "product")
    sys.exit(not options.no_check and (with_places != 0 or not bindings))


main()
