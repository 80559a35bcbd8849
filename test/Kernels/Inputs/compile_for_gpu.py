# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compiles every kernel, without and with each modifier that it supports, to PTX for sm_80, and 16-bit kernels also for
# sm_90a, with default blocks, and assembles the PTX if there is a ptxas. Also checks 16-bit and 32-bit kernels up to D 128:
# they must fit the shared memory of the smallest chips (99 KB), if necessary without rings, or a bundle must contain
# kernels with smaller blocks. Kernels without a modifier are compiled for another target, too, in turn.
#
# usage: compile_for_gpu.py KERNELS_FOLDER [NAME...]     full tier: all; else a few of each

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

SMALLEST_SHARED_LIMIT = 99 * 1024
OTHER_TARGETS = ("sm_86", "sm_89", "sm_100a", "sm_103a", "sm_120a")  # besides sm_80 and sm_90a
LARGE_TARGETS = ("sm_100a", "sm_103a")  # with more than 99 KB of shared memory, which wide rows may need
SHOW_BUNDLE = os.path.join(os.path.dirname(__file__), "..", "..", "Tools", "Inputs", "show_bundle.py")
# Messages of ptxas about serialized wgmma.
BAD_ADVICE = re.compile(r"C75(08|10|12|14|17)")
# One wait that ptxas adds: for widths of one panel, it does not see that the state, which threads multiply while a product
# with its copy of 16 bits is in flight, is complete. The results are right; that product does not overlap.
KNOWN_ADVICE = re.compile(r"^.*\(C7517\).*in function 'delta_sequence_back'.*$", re.MULTILINE)
# The functions that each modifier replaces.
MODS = {
    "alibi": "score_mod",
    "alibi_aligned": "score_mod",
    "document": "mask_mod",
    "mask": "mask_mod",
    "prefix_lm": "mask_mod",
    "relative_bias": "score_mod",
    "sink_window": "mask_mod",
    "softcap": "score_mod",
    "spans": "mask_mod",
    "t5_bias": "score_mod",
    "tree_bits": "mask_mod",
    "used_lengths": "mask_mod",
    "window_aligned": "mask_mod",
}
PTXAS = shutil.which("ptxas") or (
    "/usr/local/cuda/bin/ptxas" if os.path.exists("/usr/local/cuda/bin/ptxas") else None
)
IS_FULL = os.environ.get("TILEWRIGHT_TEST_TIER") == "full"


def values_of(dim, name):
    """The columns of a latent row that are a value; those of 8 bits are not all."""
    return str(min((int(dim) - 1) // 64 * 64 if "bytes" in name else int(dim) // 32 * 32, 512))


def list_cases(folder, names):
    """Returns (kernel, parameters, modifier or None) of each case."""
    cases = []
    for name in names:
        with open(os.path.join(folder, name + ".mlir")) as file:
            text = file.read()
        types = ["f16", "bf16", "f32", "f64"]
        if "fp8" in name:
            types = ["e4m3", "e5m2"]
        elif name in ("matmul", "grouped_matmul"):
            types += ["e4m3", "e5m2"]
        if allowed := re.search(r"\bT: type in \[([^]]*)\]", text):
            types = [each for each in types if each in allowed[1].split(", ")]
        is_latent = "mla" in name
        dims = ["64", "80", "128", "256"] if "D: int" in text else [None]
        if is_latent:
            dims = ["96", "192", "320", "576"]
        for type_index, element in enumerate(types):
            for dim_index, dim in enumerate(dims):
                # The smoke tier has each type and each width once.
                if not IS_FULL and (type_index + dim_index) % max(len(types), len(dims)) != 0:
                    continue
                params = {"T": element}
                if dim:
                    params["D"] = dim
                if name == "attention_decode":
                    params |= {"GROUP": "6" if dim == "80" else "4", "PAGE_ROWS": "64" if element != "f64" else "16"}
                if is_latent:
                    params.update(GROUP="16" if dim == "96" else "64", DV=values_of(dim, name))
                if name in ("layer_norm", "rms_norm"):
                    params["N"] = "1000"
                if name in ("matmul", "grouped_matmul") and element in ("e4m3", "e5m2"):
                    params["TC"] = "f16"
                cases.append((name, params, None))
        # A block of keys is 3 boxes of 32 rows at D 80, 8 of 16 at D 64.
        if name == "attention_forward":
            for dim, rows in zip(dims, ("16", "128", "64", "32")):
                if IS_FULL or dim == "80":
                    cases.append((name, {"T": "f16", "D": dim, "CAUSAL": "bottom_right", "PAGE_ROWS": rows}, None))
        # Widths without a matrix instruction.
        if dims[0]:
            for element, dim in zip(types, ("8", "40", "7", "100")):
                params = {"T": element, "D": dim, "GROUP": "4"}
                if is_latent:
                    dim = params["D"] = str(int(dim) + (64 if "bytes" in name else 32))
                    params["DV"] = values_of(dim, name)
                cases.append((name, {key: params[key] for key in params if f"{key}: int" in text or key == "T"}, None))
        for mod, function in MODS.items():
            if re.search(rf"func\.func private @{function}\b", text):
                cases.append((name, {"T": "f16", "D": "64"}, mod))
    return cases


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def find_shared(mapped):
    return [int(bytes) for bytes in re.findall(r"shared_bytes = (\d+)", mapped.stdout)]


def find_shared_of_bundle(command):
    """Returns the shared memory of the smallest form of each kernel of a bundle; 0 without a bundle."""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "kernels.twb")
        if run(*command, "--emit=bundle", "-o", path).returncode:
            return 0
        shown = run(sys.executable, SHOW_BUNDLE, path).stdout
    least = {}
    for name, planned, own in re.findall(r"^kernel (\w+):.*?shared (\d+)(?: and static (\d+))?$", shown, re.M | re.S):
        least[name] = min(least.get(name, sys.maxsize), int(planned) + int(own or 0))
    return max(least.values(), default=0)


def assemble(label, ptx, chip, level):
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "kernel.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        assembled = run(PTXAS, level, f"-arch={chip}", path, "-o", os.path.join(work, "out"))
    log = KNOWN_ADVICE.sub("", assembled.stdout + assembled.stderr)
    return [f"{label}: ptxas for {chip}: {log.strip()}"] if assembled.returncode or BAD_ADVICE.search(log) else []


def check_other(label, command, target):
    """A message for each error of a case for one of OTHER_TARGETS; the compiler rejects blocks that do not fit there."""
    ptx = run(*[f"--target={target}" if word == "--target=sm_80" else word for word in command], "--emit=ptx")
    if ptx.returncode:
        return [f"{label} for {target}: {ptx.stderr.strip()}"]
    if f".target {target}\n" not in ptx.stdout:
        return [f"{label}: the PTX is not for {target}"]
    return assemble(label, ptx.stdout, target, "-O3" if IS_FULL else "-O0") if PTXAS else []


def check(folder, index, case):
    """Returns a message for each error."""
    name, params, mod = case
    label = " ".join([name] + [f"{k}={v}" for k, v in params.items()] + ([mod] if mod else []))
    command = ["tilewrightc", "--target=sm_80", os.path.join(folder, name + ".mlir")]
    command += [f"--param={key}={value}" for key, value in params.items()]
    if mod:
        command.append("--with=" + os.path.join(folder, "mods", mod + ".mlir"))
    mapped = run(*command, "--emit=tgpu")
    if mapped.returncode:
        return [f"{label}: {mapped.stderr.strip()}"]
    problems = []
    if params["T"] in ("f16", "bf16"):
        hopper = run(*["--target=sm_90a" if word == "--target=sm_80" else word for word in command], "--emit=ptx")
        if hopper.returncode:
            problems.append(f"{label} for sm_90a: {hopper.stderr.strip()}")
        elif PTXAS and (IS_FULL or params["T"] == "f16"):
            problems += assemble(label, hopper.stdout, "sm_90a", "-O3")
    is_wide = params["T"] == "f64" or params.get("D") == "256"
    if not mod:
        others = LARGE_TARGETS if is_wide else OTHER_TARGETS
        for target in others if IS_FULL else [others[index % len(others)]]:
            problems += check_other(label, command, target)
    shared = find_shared(mapped)
    if not shared:
        problems.append(f"{label}: no kernel says how much shared memory it takes")
    elif max(shared) > SMALLEST_SHARED_LIMIT and not is_wide:
        least = max(find_shared(run(*command, "--emit=tgpu", "--schedule=stages=1")), default=0)
        if least > SMALLEST_SHARED_LIMIT:
            least = find_shared_of_bundle(command)
        if not 0 < least <= SMALLEST_SHARED_LIMIT:
            problems.append(f"{label}: takes {least} bytes of shared memory")
    ptx = run(*command, "--emit=ptx")
    if ptx.returncode:
        return problems + [f"{label}: {ptx.stderr.strip()}"]
    entries = re.findall(r"^\.visible \.entry (\w+)", ptx.stdout, re.M)
    # Some kernels have a second form, for aligned views.
    if len([entry for entry in entries if not entry.endswith("_aligned")]) != len(shared):
        problems.append(f"{label}: not every kernel has an entry in the PTX")
    if not PTXAS or not (IS_FULL or params["T"] in ("f16", "e4m3")):
        return problems
    for chip in ("sm_80", "sm_90") if IS_FULL else ("sm_80",):
        # Spills are not checked here, so optimization is not needed.
        problems += assemble(label, ptx.stdout, chip, "-O3" if IS_FULL else "-O1")
    return problems


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    names = names or sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".mlir"))
    cases = list_cases(folder, names)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for found in pool.map(lambda c: check(folder, *c), enumerate(cases)) for p in found]
    for problem in problems:
        print(problem)
    assembled = "assembled" if PTXAS else "not assembled: there is no ptxas"
    print(f"{len(cases)} cases compiled, {len(problems)} problems; {assembled}")
    sys.exit(1 if problems or not cases else 0)


main()
