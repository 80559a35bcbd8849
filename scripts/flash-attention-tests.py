#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs FlashAttention's own tests of caches on Tilewright's functions.

  scripts/flash-attention-tests.py CHECKOUT                 tests/test_flash_attn.py (version 2)
  scripts/flash-attention-tests.py CHECKOUT --version 3     hopper/test_flash_attn.py, or what --file names
  scripts/flash-attention-tests.py CHECKOUT --sample 0      all combinations of parameters, of which there are many
  scripts/flash-attention-tests.py CHECKOUT --pairs         combinations in which any two values of two parameters meet
  scripts/flash-attention-tests.py CHECKOUT --device cpu --pairs --set "seqlen_q,seqlen_k=(1, 128), (3, 96), (33, 256)"
                                                            without a GPU, on Tilewright's interpreter: some 10 minutes

CHECKOUT is a clone of github.com/Dao-AILab/flash-attention, which need not be built; pytest, einops and PyTorch must be
installed. The names that tests import are mapped: flash_attn and flash_attn_interface give Tilewright's functions, and
flash_attn.layers.rotary a rotation in plain PyTorch; helpers such as bert_padding are those of the checkout.

Of the product of all parameters a random sample runs, the same in each run, or those of --pairs, none of which a test skips.
--set replaces the values of parameters, also by ones that a test has in a comment. For each test it prints one of

  passed    as FlashAttention's test decides
  refused   Tilewright raised ValueError; the summary counts reasons
  differs   a test of behaviour that Tilewright has not, with the reason (DIFFERS below)
  skipped   by the test itself
  failed    all else

The exit status is 1 if a test failed, or none passed.
"""

import argparse
import ast
import collections
import contextlib
import functools
import io
import itertools
import json
import os
import random
import re
import shutil
import sys
import tempfile
import types

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FILES = {"2": ["tests/test_flash_attn.py"], "3": ["hopper/test_flash_attn_kvcache.py", "hopper/test_flash_attn.py"]}
DIFFERS = {
    "test_flash_attn_kvcache_paged_block_table_bounds":
        "lengths beyond the table are clamped on the device, not read on the host; checked indices report them",
}


class Refused(Exception):
    """Tilewright refused a call, with the reason."""


def refusing(function):
    """The function, whose ValueError is a refusal."""
    @functools.wraps(function)
    def call(*arguments, **options):
        try:
            return function(*arguments, **options)
        except (ValueError, NotImplementedError) as error:
            raise Refused(str(error)) from None
    return call


def refused(name):
    def call(*arguments, **options):
        raise Refused(f"{name} is no function of Tilewright")
    return call


def module_of(name, path=None, **values):
    """A module that stands for one of flash_attn; names that it does not have are functions that refuse."""
    module = types.ModuleType(name)
    module.__dict__.update(values)
    if path is not None:
        module.__path__ = path
    else:
        def missing(attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return refused(f"{name}.{attribute}")
        module.__getattr__ = missing
    sys.modules[name] = module
    return module


def rotary(torch):
    def apply_rotary_emb(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, cu_seqlens=None, max_seqlen=None):
        """x [B, S, H, D], of which the first columns are rotated by the rows seqlen_offsets + i of cos and sin."""
        if inplace or cu_seqlens is not None:
            raise NotImplementedError("apply_rotary_emb in place, or of packed rows")
        half, offsets = cos.shape[1], torch.as_tensor(seqlen_offsets, device=x.device).reshape(-1, 1)
        at = (offsets + torch.arange(x.shape[1], device=x.device)).long()
        c, s = (t[at].float().unsqueeze(2) for t in (cos, sin))
        wide, rest = x[..., :2 * half].float(), x[..., 2 * half:]
        x1, x2 = (wide[..., 0::2], wide[..., 1::2]) if interleaved else wide.chunk(2, -1)
        y1, y2 = x1 * c - x2 * s, x2 * c + x1 * s
        y = torch.stack((y1, y2), -1).flatten(-2) if interleaved else torch.cat((y1, y2), -1)
        return torch.cat((y.to(x.dtype), rest), -1)
    return apply_rotary_emb


def map_imports(checkout, torch, tilewright):
    """Makes flash_attn and flash_attn_interface those of Tilewright."""
    names = [name for name in dir(tilewright) if name.startswith("flash_attn") or name == "get_scheduler_metadata"]
    functions = {name: refusing(getattr(tilewright, name)) for name in names}
    module_of("flash_attn", [os.path.join(checkout, "flash_attn")], __version__="tilewright", **functions)
    module_of("flash_attn.flash_attn_interface", USE_TRITON_ROCM=False, _get_block_size_n=lambda *arguments: 128, **functions)
    module_of("flash_attn.layers", [])
    module_of("flash_attn.layers.rotary", apply_rotary_emb=rotary(torch))
    module_of("flash_attn_interface", **functions)
    sys.path.insert(0, os.path.join(checkout, "hopper"))


def on_cpu(torch):
    """A mode in which arguments that name the device "cuda" name the CPU."""
    def on_host(x):
        return "cpu" if isinstance(x, (str, torch.device)) and str(x).startswith("cuda") else x

    class OnCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, kinds, arguments=(), options=None):
            options = {name: on_host(x) for name, x in (options or {}).items()}
            return function(*map(on_host, arguments), **options)
    torch.cuda.get_device_capability = lambda *arguments: (9, 0)
    torch.cuda.synchronize = lambda *arguments: None
    return OnCpu()


def covering(lists, is_skipped):
    """Rows of one value of each list, such that any two values of two lists are in a row. Rows that are skipped are not
    among them; two values for which no other row is found are left out."""
    choose, rows = random.Random(0), []
    places = [[(which, i) for i in range(len(values))] for which, values in enumerate(lists)]
    left = [pair for one, other in itertools.combinations(places, 2) for pair in itertools.product(one, other)]
    left = left if len(lists) > 1 else [(value,) for value in places[0]]
    while left:
        found = []
        for _ in range(200):
            row = [choose.randrange(len(values)) for values in lists]
            for which, i in left[0]:
                row[which] = i
            if len(found) < 40 and not is_skipped([values[i] for values, i in zip(lists, row)]):
                found.append(row)
        if not found:
            del left[0]
            continue
        missing = [[pair for pair in left if any(row[which] != i for which, i in pair)] for row in found]
        left, row = min(zip(missing, found), key=lambda each: len(each[0]))
        rows.append([values[i] for values, i in zip(lists, row)])
    return rows


def is_skipped(torch, function, values):
    """Whether a test skips itself with these values, before it calls PyTorch."""
    import pytest

    class Began(Exception):
        """The test called PyTorch."""

    class Stop(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, *arguments):
            raise Began

    with contextlib.redirect_stdout(io.StringIO()), Stop():
        try:
            function(**values)
        except pytest.skip.Exception:
            return True
        except Exception:
            return False
    return False


class Combinations:
    """Chooses combinations of the parameters of tests, instead of all."""

    def __init__(self, options, torch):
        self.sample, self.only = options.sample, dict(text.split("=", 1) for text in options.only)
        self.values = {names.replace(" ", ""): ast.literal_eval(f"[{text}]") for names, _, text in
                       (each.partition("=") for each in options.set)}
        self.pairs, self.torch = options.pairs, torch
        self.chosen = {}  # of each test, how many of how many

    def pytest_pycollect_makeitem(self, collector, name, obj):
        if not name.startswith("test"):
            return
        marks = [mark for mark in getattr(obj, "pytestmark", []) if mark.name == "parametrize"]
        if not marks or hasattr(obj, "_is_chosen"):
            return
        names, lists = [], []
        for mark in marks:
            own = [each.strip() for each in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
            values = [value if len(own) > 1 else (value,) for value in self.values.get(",".join(own), mark.args[1])]
            names.append(own)
            lists.append([value for value in values
                          if all(self.only.get(n, self.text(x)) == self.text(x) for n, x in zip(own, value))])
        total = 1
        for values in lists:
            total *= len(values)
        flat = [name for own in names for name in own]
        if self.pairs and total:
            rows = [tuple(itertools.chain(*row)) for row in covering(
                lists, lambda row: is_skipped(self.torch, obj, dict(zip(flat, itertools.chain(*row)))))]
            count = len(rows)
        else:
            count = min(self.sample or total, total)
            chosen = range(total) if count == total else sorted(random.Random(0).sample(range(total), count))
            rows = [tuple(self.row(lists, number)) for number in chosen]
        import pytest
        ids = ["-".join(f"{n}={self.text(x)}" for n, x in zip(flat, row)) for row in rows]
        others = [mark for mark in obj.pytestmark if mark.name != "parametrize"]
        obj.pytestmark = [*others, pytest.mark.parametrize(flat, rows, ids=ids).mark]
        obj._is_chosen = True
        self.chosen[name] = count, total

    @staticmethod
    def row(lists, number):
        for values in lists:
            number, which = divmod(number, len(values))
            yield from values[which]

    @staticmethod
    def text(value):
        return str(value).replace("torch.", "")


class Outcomes:
    """What became of each test."""

    def __init__(self, mode):
        self.results, self.mode = {}, mode

    def pytest_runtest_call(self, item):
        if self.mode is not None:
            self.mode.__enter__()

    def pytest_runtest_teardown(self, item):
        if self.mode is not None and getattr(item, "_ran", False):
            self.mode.__exit__(None, None, None)

    def pytest_runtest_makereport(self, item, call):
        if call.when == "call":
            item._ran = True
        if call.when == "teardown" and call.excinfo is None:
            return
        if call.when == "setup" and call.excinfo is None:
            return
        self.results[item.nodeid.rpartition("::")[2]] = self.outcome_of(item, call)

    @staticmethod
    def outcome_of(item, call):
        import pytest
        if call.excinfo is None:
            return "passed", ""
        if call.excinfo.errisinstance(pytest.skip.Exception):
            return "skipped", ""
        name = getattr(item, "originalname", None) or item.name
        if name in DIFFERS:
            return "differs", DIFFERS[name]
        text = str(call.excinfo.value)
        if call.excinfo.errisinstance(Refused):
            return "refused", text
        lines = text.strip().splitlines() or [""]
        return "failed", f"{call.excinfo.typename}: {lines[0][:300]}"


def report(results, path):
    counts = collections.Counter(kind for kind, _ in results.values())
    print()
    for kind in ("refused", "differs"):
        reasons = collections.Counter(re.sub(r"\d+", "N", text) for own, text in results.values() if own == kind)
        for reason, count in reasons.most_common():
            print(f"{kind} {count}: {reason}")
    for name, (kind, text) in results.items():
        if kind == "failed":
            print(f"failed: {name}: {text}")
    print(", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "refused", "differs", "skipped", "failed")))
    if path:
        with open(path, "w") as file:
            json.dump({name: {"outcome": kind, "reason": text} for name, (kind, text) in results.items()}, file, indent=1)
    return 1 if counts["failed"] or not counts["passed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--version", choices=sorted(FILES), default="2")
    parser.add_argument("--file", help="the file of tests, relative to the checkout")
    parser.add_argument("-k", dest="names", default="kvcache", help="which tests, an expression of pytest")
    parser.add_argument("--sample", type=int, default=400, help="combinations of each test; 0: all")
    parser.add_argument("--only", action="append", default=[], metavar="NAME=VALUE", help="only combinations with this value")
    parser.add_argument("--pairs", action="store_true", help="as few combinations as have any two values of two parameters")
    parser.add_argument("--set", action="append", default=[], metavar="NAMES=VALUES",
                        help="other values of the parameters of one decorator, separated by commas")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", help="a file for the outcome of each test")
    options = parser.parse_args()
    checkout = os.path.abspath(options.checkout)
    files = [options.file] if options.file else FILES[options.version]
    found = [path for path in (os.path.join(checkout, file) for file in files) if os.path.isfile(path)]
    if not found:
        sys.exit(f"flash-attention-tests: {checkout} has none of {', '.join(files)}")
    sys.path.insert(0, os.path.join(ROOT, "python"))
    try:
        import pytest
        import torch
    except ImportError as error:
        sys.exit(f"flash-attention-tests: {error}; install pytest, einops and torch")
    import tilewright
    mode = None
    if options.device == "cpu":
        tilewright.interpret().__enter__()
        mode = on_cpu(torch)
    elif not torch.cuda.is_available():
        sys.exit("flash-attention-tests: there is no GPU; --device cpu runs on the interpreter")
    map_imports(checkout, torch, tilewright)
    outcomes = Outcomes(mode)
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(found[0], folder)
        arguments = [path, "-k", options.names, "-q", "--no-header", "--tb=line", "-rN", "-p", "no:cacheprovider", f"--rootdir={folder}"]
        combinations = Combinations(options, torch)
        status = pytest.main(arguments, plugins=[combinations, outcomes])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"flash-attention-tests: pytest ended with status {int(status)}; no test ran, or collecting failed")
    for name in {name.partition("[")[0] for name in outcomes.results} & set(combinations.chosen):
        print("{}: {} of {} combinations".format(name, *combinations.chosen[name]))
    sys.exit(report(outcomes.results, options.json))


if __name__ == "__main__":
    main()
