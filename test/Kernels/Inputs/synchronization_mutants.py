# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes mutants of mapped kernels: one synchronizing operation is deleted, duplicated, moved past another operation of
# tgpu, or gets another barrier, scope or number; or an allocation gets another place. The verifier of the dialect and
# tgpu-verify-sync must refuse a mutant if it has a fault. What they accept is run by the simulator; if that finds a
# fault, the mutant was missed. Prints a table by kind, each missed mutant, and what the harmless ones change, with the
# reason why that is no fault. Fails if less than 99.5 percent of the mutants that have a fault are refused, or if a
# harmless one has no reason.
#
#   synchronization_mutants.py SCRATCH KERNELS [--dump NAME] [--kind KIND] [--each N] [--seed N] [--jobs N] [--opt TOOL]
#
# --each: the number of mutants of a dump, chosen by the seed; 0: all. By default 4, in the full tier all. --kind: only
# these.

import argparse
import collections
import concurrent.futures
import os
import random
import re
import subprocess
import sys

import numpy as np

BAR = 99.5  # percent
SECONDS = 600  # after which a run counts as endless
IS_FULL = os.environ.get("TILEWRIGHT_TEST_TIER") == "full"
DROPPABLE = re.compile(
    r"^\s*tgpu\.(sync|signal|wait|acquire|arrive|expect|fence_async|copy_commit|copy_wait|bulk_commit|bulk_wait|"
    r"wgmma_commit|take_turn|pass_turn|await_turn|end_turn)\b"
)
ALLOCATION = re.compile(r"^\s*%\w+ = tgpu\.(alloc|alloc_ring|alloc_barriers)\b.* at (\d+) :")
NUMBERED = re.compile(r"^\s*%\w+ = tgpu\.(named_barrier|turns)\b.* id (\d+)")
OPERATION = re.compile(r"^\s*(%\S+ = )?tgpu\.(?!slot\b|turns\b|named_barrier\b|alloc)")
FORWARD, BACKWARD = "attention_forward", "attention_backward"
HALF = {"T": "bf16"}
PACKED, WINDOW, LISTED = {"PACKED": "true"}, {"WINDOW": "true"}, {"LISTED": "true"}
ORDERED = {"DETERMINISTIC": "true"}


def causal(mask, **more):
    return {"CAUSAL": mask, **more}


# name: target, kernel, parameters, modifiers
DUMPS = {
    "plain": ("sm_90a", FORWARD, {"D": "128"}, ()),
    "causal": ("sm_90a", FORWARD, {"D": "128", **causal("top_left")}, ()),
    "bottom_right": ("sm_90a", FORWARD, {"D": "64", **causal("bottom_right")}, ()),
    "packed": ("sm_90a", FORWARD, {"D": "128", **causal("bottom_right"), **PACKED}, ()),
    "window": ("sm_90a", FORWARD, {"D": "64", **WINDOW}, ()),
    "listed": ("sm_90a", FORWARD, {"D": "64", **LISTED}, ()),
    "modified": ("sm_90a", FORWARD, {"D": "128"}, ("softcap", "alibi")),
    "wide": ("sm_90a", FORWARD, {"D": "256", **causal("top_left")}, ()),
    "backward": ("sm_90a", BACKWARD, {"D": "64"}, ()),
    "backward_causal": ("sm_90a", BACKWARD, {"D": "128", **causal("top_left")}, ()),
    "backward_packed": ("sm_90a", BACKWARD, {"D": "64", **causal("bottom_right"), **PACKED}, ()),
    "backward_ordered": ("sm_90a", BACKWARD, {"D": "64", **causal("top_left"), **ORDERED}, ()),
    "backward_wide": ("sm_90a", BACKWARD, {"D": "256"}, ()),
    "plain_80": ("sm_80", FORWARD, {"D": "64"}, ()),
    "packed_80": ("sm_80", FORWARD, {"D": "128", **causal("bottom_right"), **PACKED}, ()),
    "window_80": ("sm_80", FORWARD, {"D": "128", **WINDOW}, ()),
    "backward_80": ("sm_80", BACKWARD, {"D": "64", **causal("top_left")}, ()),
    "backward_bottom_right_80": ("sm_80", BACKWARD, {"D": "128", **causal("bottom_right")}, ()),
}
# Changes that are no fault where neither checker finds one, with the reason. Others, such as an arrival or a turn that
# is left out, have none.
REASONS = [
    (r"duplicate (sync|wait|acquire|any|\w+_wait)", "to wait twice for the same is to wait once"),
    (r"duplicate \w+_commit", "the second group is empty, and ends with the first"),
    (r"delete \w+_commit", "the next commit closes both groups, before the wait"),
    (r"delete (sync|copy_wait|fence_async|wait|acquire)", "others order the same accesses, or there are none in this launch"),
    (r"scope (arrive|expect) per (warp|role)", "the role has one warp, so both make one arrival"),
    (r"move \w+_commit .*", "a group may close anywhere behind its operations and before its wait"),
    (r"move expect behind (tma|bulk)_load", "bytes may come before they are announced: the arrival is still missing"),
    (r"move fence_async behind (sync|wait|acquire|arrive|signal)", "a proxy fence may be behind the barrier"),
    (r"move (sync|signal|wait|acquire|\w+_wait|fence_async) .*", "no access that it orders is passed"),
    (r"move (arrive|expect) .*", "the accesses that it publishes stay before it, and it is not late for others"),
    (r"move (take_turn|pass_turn|await_turn|end_turn) .*", "what is passed is not part of the turn"),
    (r"wrong barrier wait", "what completes the other barrier comes behind what completes this one, or nothing is read"),
    (r"wrong barrier (sync|signal)|id named_barrier at \d+", "a barrier for the same warps, with no meeting under way"),
]
# Queries, keys, heads of queries and of keys of each launch: several rounds in each part of a loop, more and fewer keys
# than queries, one block, and no keys.
LAUNCHES = [(600, 280, 2, 1), (280, 600, 2, 2), (600, 536, 1, 1), (40, 90, 2, 1), (136, 0, 1, 1)]


def run(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"error: does not end within {SECONDS} seconds")


class Dump:
    """A mapped kernel as text, and its launches."""

    def __init__(self, name, scratch, kernels):
        self.name, self.scratch = name, scratch
        self.target, self.kernel, self.params, self.mods = DUMPS[name]
        self.path = os.path.join(scratch, f"{name}.mlir")
        command = ["tilewrightc", os.path.join(kernels, self.kernel + ".mlir"), f"--target={self.target}", "--emit=tgpu"]
        command += [f"--param={key}={value}" for key, value in {**HALF, **self.params}.items()]
        command += [f"--with={os.path.join(kernels, 'mods', mod + '.mlir')}" for mod in self.mods]
        made = run(*command, "-o", self.path)
        if made.returncode:
            sys.exit(f"{name} does not compile: {made.stderr}")
        self.lines = open(self.path).read().split("\n")

    def launch(self, path, which):
        """Returns the error of a launch on the simulator, or None."""
        queries, keys, heads, key_heads = LAUNCHES[which]
        if self.kernel == BACKWARD and not self.params.get("DETERMINISTIC") and which == 2:
            heads = key_heads = 2
        depth = self.params["D"]
        inputs = {"q": (heads, queries), "k": (key_heads, keys), "v": (key_heads, keys)}
        outputs = {"o": (heads, queries)}
        if self.kernel == BACKWARD:
            inputs.update(o=(heads, queries), do=(heads, queries))
            outputs = {"dq": (heads, queries), "dk": (key_heads, keys), "dv": (key_heads, keys)}
        command = ["tilewright-run", path, f"--device=sim:{self.target}", f"--seed={which + 1}", "--scalar=scale=0.1"]
        if self.kernel == BACKWARD:
            command += [f"--program={BACKWARD}", f"--in=lse=random:f32@1x{heads}x{queries}"]
        command += [f"--in={name}=random:bf16@1x{h}x{rows}x{depth}" for name, (h, rows) in inputs.items()]
        base = path[:-5] + f".{which}"
        command += [f"--out={name}={base}.{name}.npy:bf16@1x{h}x{rows}x{depth}" for name, (h, rows) in outputs.items()]
        if "WINDOW" in self.params:
            command += [f"--scalar=window_left={(200, 20)[which % 2]}", "--scalar=window_right=150"]
        arrays = {}
        if "PACKED" in self.params:
            for name, rows in (("cu_seqlens_q", queries), ("cu_seqlens_k", keys)):
                arrays[name] = np.array([0, rows * 2 // 3, rows * 2 // 3, rows], np.int32)
        if "LISTED" in self.params:
            blocks, all_keys = -(-queries // 128), max(-(-keys // 128), 1)
            arrays["kv_indices"] = np.tile(np.arange(all_keys, dtype=np.int32)[::-1], (1, 1, blocks, 1))
            arrays["kv_num_blocks"] = np.full((1, 1, blocks), -(-keys // 128), np.int32)
        if "softcap" in self.mods:
            command.append("--scalar=softcap=5")
        if "alibi" in self.mods:
            arrays["slopes"] = np.full(heads, 0.1, np.float32)
        for name, array in arrays.items():
            np.save(f"{base}.{name}.npy", array)
            command.append(f"--in={name}={base}.{name}.npy")
        done = run(*command)
        for name in list(outputs) + list(arrays):
            if os.path.exists(f"{base}.{name}.npy"):
                os.remove(f"{base}.{name}.npy")
        return done.stderr.strip().split("\n")[0] if done.returncode else None

    def mutants(self):
        """Yields (kind, line number, description, lines)."""
        yield from self.mutants_of_steps()
        yield from self.mutants_of_resources()

    def replace(self, number, line):
        return self.lines[:number] + [line] + self.lines[number + 1 :]

    def mutants_of_resources(self):
        """An allocation at the place of the next one, or outside; a hardware barrier with the id of another."""
        for pattern, kind in ((ALLOCATION, "allocation"), (NUMBERED, "id")):
            found = [(number, match) for number, line in enumerate(self.lines) if (match := pattern.match(line))]
            for (number, match), (other_number, other) in zip(found, found[1:] + found[:1]):
                line = self.lines[number]
                same_kernel = not any(
                    text.startswith("  tgpu.kernel") for text in self.lines[number:other_number]
                ) and number < other_number
                values = [other[2]] if same_kernel and other[2] != match[2] else []
                values += ["300032", "-1024"] if kind == "allocation" else ["0", "16"]
                for value in values:
                    changed = line[: match.start(2)] + value + line[match.end(2) :]
                    yield kind, number, f"at {value}", self.replace(number, changed)
        for number, line in enumerate(self.lines):
            if found := re.search(r"shared_bytes = (\d+) : i64", line):
                for value in sorted({"0", "-5", "999999999", str(int(found[1]) - 8)} - {found[1]}):
                    changed = line[: found.start(1)] + value + line[found.end(1) :]
                    yield "allocation", number, f"in {value} bytes", self.replace(number, changed)

    def mutants_of_steps(self):
        barriers = collections.defaultdict(list)
        for number, line in enumerate(self.lines):
            if line.startswith("  tgpu.kernel"):
                barriers.clear()
            if found := re.match(r"\s*(%\w+) = tgpu\.alloc_barriers .*: (!tgpu\.barriers<\d+>)", line):
                barriers[found[2]].append(found[1])
            if found := re.match(r"\s*(%\w+) = tgpu\.named_barrier warps (\d+)( per +warpgroup)?", line):
                barriers["on"].append(found[1])
            if not DROPPABLE.match(line):
                continue
            lines = self.lines
            yield "delete", number, "deleted", lines[:number] + lines[number + 1 :]
            if re.match(r"\s*tgpu\.(arrive|expect|signal|sync|wait|copy_commit|bulk_commit|wgmma_commit)\b", line):
                yield "duplicate", number, "twice", lines[:number] + [line] + lines[number:]
            if found := re.search(r" per +(thread|warp|warpgroup|role) ", line):
                for scope in ("thread", "warp", "warpgroup", "role"):
                    if scope != found[1]:
                        changed = line[: found.start(1)] + scope + line[found.end(1) :]
                        yield "scope", number, f"per {scope}", self.replace(number, changed)
            if found := re.search(r"tgpu\.expect .* bytes (\d+)", line):
                for more in (16, -16):
                    changed = line[: found.start(1)] + str(int(found[1]) + more) + line[found.end(1) :]
                    yield "bytes", number, f"{more:+}", self.replace(number, changed)
            for step, name in ((1, "later"), (-1, "earlier")):
                other = self.find_neighbor(number, step)
                if other is None:
                    continue
                rest = lines[:number] + lines[number + 1 :]
                yield "move", number, f"moved {name}, past line {other + 1}", rest[:other] + [line] + rest[other:]
            used = re.search(r"(%\w+)\[", line) or re.search(r"\bon (%\w+)", line)
            type_ = re.search(r"!tgpu\.barriers<\d+>", line)
            if not used:
                continue
            for wrong in barriers[type_[0] if type_ else "on"]:
                if wrong != used[1]:
                    changed = line[: used.start(1)] + wrong + line[used.end(1) :]
                    yield "wrong barrier", number, f"with {wrong}", lines[:number] + [changed] + lines[number + 1 :]

    def find_neighbor(self, number, step):
        """The next operation of tgpu in the same block, without a region between; None if there is none."""
        indent = len(self.lines[number]) - len(self.lines[number].lstrip())
        at = number + step
        while 0 <= at < len(self.lines):
            line = self.lines[at]
            if len(line) - len(line.lstrip()) != indent or line.rstrip().endswith("{") or line.lstrip()[0] in "}^":
                return None
            if re.match(r"\s*scf\.(yield|condition)\b", line):
                return None
            if OPERATION.match(line):
                return at
            at += step
        return None


def name_of(line):
    found = re.match(r"\s*(?:%\S+ = )?tgpu\.(\w+)", line)
    return found[1] if found else line.strip()


def describe_harmless(dump, kind, number, what):
    """The operation, and what it was moved past."""
    text = name_of(dump.lines[number]) if "shared_bytes" not in dump.lines[number] else "shared_bytes"
    if found := re.match(r"moved (\w+), past line (\d+)", what):
        return f"{kind} {text} {'behind' if found[1] == 'later' else 'before'} {name_of(dump.lines[int(found[2]) - 1])}"
    return f"{kind} {text}" + (f" {what}" if kind in ("scope", "allocation", "id") else "")


def reason_of(change):
    """Why a change is no fault, or None."""
    for pattern, reason in REASONS:
        if re.fullmatch(pattern, change):
            return reason
    return None


def try_mutant(options, dump, index, kind, number, what, lines):
    """Returns the outcome, and a description of a missed mutant, or what a harmless one changes."""
    path = os.path.join(dump.scratch, f"{dump.name}.{index}.mlir")
    with open(path, "w") as file:
        file.write("\n".join(lines))
    try:
        checked = run(options.opt, path, "--tgpu-verify-sync", "-o", os.devnull)
        if checked.returncode < 0:
            return "crashed", f"{dump.name}:{number + 1}: {what}: {checked.stderr[-300:]}"
        if checked.returncode:
            is_text = kind not in ("allocation", "id") and run(options.opt, path, "-o", os.devnull).returncode
            return ("invalid" if is_text else "refused"), None
        for which in range(len(LAUNCHES)):
            if fault := dump.launch(path, which):
                text = dump.lines[number].strip()
                return "missed", f"{dump.name}:{number + 1}: {what}: {text}\n    launch {which}: {fault}"
        return "harmless", describe_harmless(dump, kind, number, what)
    finally:
        os.remove(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scratch")
    parser.add_argument("kernels")
    parser.add_argument("--dump", action="append")
    parser.add_argument("--kind", action="append")
    parser.add_argument("--each", type=int, default=0 if IS_FULL else 4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--opt", default="tilewright-opt")
    options = parser.parse_args()
    os.makedirs(options.scratch, exist_ok=True)
    counts = collections.defaultdict(collections.Counter)
    problems = []
    changes = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = []
        for name in options.dump or DUMPS:
            dump = Dump(name, options.scratch, options.kernels)
            for which in range(len(LAUNCHES)):
                if fault := dump.launch(dump.path, which):
                    sys.exit(f"{name}: launch {which} of the kernel itself fails: {fault}")
            mutants = [mutant for mutant in dump.mutants() if not options.kind or mutant[0] in options.kind]
            if options.each:
                mutants = random.Random(f"{options.seed} {name}").sample(mutants, min(options.each, len(mutants)))
            for index, mutant in enumerate(mutants):
                jobs.append((mutant[0], pool.submit(try_mutant, options, dump, index, *mutant)))
        for kind, job in jobs:
            outcome, problem = job.result()
            counts[kind][outcome] += 1
            if outcome == "harmless":
                changes[problem] += 1
            elif problem:
                problems.append(f"{outcome}: {problem}")
    print("\n".join(problems))
    outcomes = ["refused", "missed", "harmless", "invalid", "crashed"]
    print(f"{'':14}" + "".join(f"{outcome:>10}" for outcome in outcomes))
    total = collections.Counter()
    for kind, found in sorted(counts.items()):
        total += found
        print(f"{kind:14}" + "".join(f"{found[outcome]:>10}" for outcome in outcomes))
    reasons, unknown = collections.Counter(), []
    for change, count in sorted(changes.items()):
        reason = reason_of(change)
        if reason:
            reasons[reason] += count
        else:
            unknown.append(f"{count} harmless without a reason: {change}")
    print("\n".join(f"{count:6} harmless: {reason}" for reason, count in reasons.most_common()))
    print("\n".join(unknown))
    faulty = total["refused"] + total["missed"]
    rate = 100 * total["refused"] / max(faulty, 1)
    print(f"{len(options.dump or DUMPS)} dumps, {total.total()} mutants, {rate:.2f} percent of the faulty ones refused")
    sys.exit(1 if rate < BAR or total["crashed"] or not total["refused"] or unknown else 0)


main()
