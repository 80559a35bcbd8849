# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright doctor: finds the parts that attention needs, runs it once, and says what is missing."""

import argparse
import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shutil
import warnings
from typing import NamedTuple, Optional, Tuple

from tilewright import cache, compiler, places, runtime

# As the compiler's table: code for one chip alone, and code that later chips run, too.
EXACT = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a"}
FORWARD = {(8, 0): "sm_80", (8, 6): "sm_86", (8, 9): "sm_89"}
MIN_TORCH = (2, 4)


class Gpu(NamedTuple):
    """A GPU as the driver describes it."""
    name: str
    major: int
    minor: int

    def target(self):
        """The target of its code, or None."""
        capability = (self.major, self.minor)
        forward = [name for least, name in FORWARD.items() if least <= capability]
        return EXACT.get(capability) or (forward[-1] if forward else None)


class Facts(NamedTuple):
    """What was found. A text that begins with "!" says why there is none."""
    version: str
    package: str
    driver: str
    gpus: Tuple[Gpu, ...]
    library: str
    compiler: str
    tool: str
    kernels: str
    ptxas: str
    cache: str
    torch: str
    torch_gpus: int  # that PyTorch finds
    others: str
    trial: Optional[str] = None  # why attention on the first GPU failed; "" if it did not; None if it was not tried


def _version():
    try:
        return importlib.metadata.version("tilewright")
    except importlib.metadata.PackageNotFoundError:
        return "of a source tree"


def find_driver():
    """The text for the driver, and the Gpus."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "!there is no libcuda.so.1", ()
    status, number, count = driver.cuInit(0), ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(number))
    text = f"for CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", file.readline())
            text = f"{found.group(1)}, {text}" if found else text
    except OSError:
        pass
    if status:
        name = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(name))
        return f"!the driver ({text}) answers {(name.value or b'?').decode()} ({status})", ()
    driver.cuDeviceGetCount(ctypes.byref(count))
    gpus = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        numbers = [ctypes.c_int(), ctypes.c_int()]
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(name, len(name), device)
        for value, attribute in zip(numbers, (75, 76)):  # compute capability, major and minor
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        gpus.append(Gpu(name.value.decode(), *(value.value for value in numbers)))
    return text, tuple(gpus)


def _library():
    path = places.find_library()
    try:
        runtime.library_at(path)
    except runtime.TilewrightError as error:
        return f"!{error}"
    return path


def _compiler():
    """Where the compiler is, after it has compiled a small kernel."""
    path = places.find_compiler()
    kernel = os.path.join(places.KERNELS, "row_softmax.mlir")
    if not path and not shutil.which(places.find_tool()):
        return "!there is neither a libtilewright-compiler.so nor a tilewrightc"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cache has a line of its own
            compiler.compile_bundle(kernel, {"T": "f32"}, targets=("sm_80",))
    except (compiler.CompileError, OSError) as error:
        return f"!{path or places.find_tool()} does not compile: {str(error).splitlines()[0]}"
    return f"{path}, in this process" if path else shutil.which(places.find_tool())


def _kernels():
    files = [name for name in os.listdir(places.KERNELS) if name.endswith(".mlir")] if os.path.isdir(places.KERNELS) else []
    return f"{places.KERNELS}, {len(files)} files" if files else f"!there is no {places.KERNELS}"


def _ptxas():
    path = places.find_ptxas()
    if path and not os.access(path, os.X_OK):
        return f"none: TILEWRIGHT_PTXAS must be the path of an executable file, but is '{path}'"
    return path or "none: the driver assembles kernels, one after the other, which takes longer"


def _may_write(folder):
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK)


def _cache():
    try:
        info = cache.cache_info()
    except runtime.TilewrightError:
        return "not known without the library"
    if not info.folder:
        return "off, since TILEWRIGHT_CACHE_DIR is empty"
    if info.unused:
        return f"!{info.unused}"
    text = f"{info.folder}, {info.entries} files, {info.bytes / 2**20:.1f} of {info.limit_bytes / 2**20:.0f} MiB"
    return f"{text}, writable" if _may_write(info.folder) else f"!{text}, not writable"


def _torch():
    """The text for PyTorch, and how many GPUs it finds."""
    if importlib.util.find_spec("torch") is None:
        return "!PyTorch is not installed", 0
    try:
        import torch
    except Exception as error:  # of any of its libraries
        return f"!PyTorch cannot be imported: {(str(error).splitlines() or [''])[0]}", 0
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < MIN_TORCH:
        return f"!PyTorch {torch.__version__} is older than {'.'.join(map(str, MIN_TORCH))}", 0
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "!built without CUDA"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return (f"{torch.__version__}, {built}" if built[0] != "!" else f"!PyTorch {torch.__version__} is built without CUDA"), count


def _others():
    found = []
    for name in ("transformers", "triton", "flash_attn", "numpy"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(found) or "none of transformers, triton, flash_attn and numpy"


def try_attention(device="cuda"):
    """Runs attention with its gradients on a device, beside the formula. Returns why it failed, or ""."""
    import torch

    import tilewright
    try:
        q, k, v = (torch.randn(1, 2, 128, 64, device=device, dtype=torch.float16, requires_grad=True) for _ in range(3))
        exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
        scores = exact[0] @ exact[1].mT / 8
        hidden = torch.ones(128, 128, dtype=torch.bool, device=device).triu(1)
        wanted = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ exact[2]
        got = tilewright.attention(q, k, v, causal=True)
        pairs = [(got, wanted), *zip(torch.autograd.grad(got.sum(), (q, k, v)), torch.autograd.grad(wanted.sum(), exact))]
        for name, (x, y) in zip(("O", "dQ", "dK", "dV"), pairs):
            error = ((x.float() - y).norm() / y.norm()).item()
            if not error < 0.01:
                return f"{name} is wrong: relative error {error:.3g}"
    except Exception as error:  # whatever keeps it from running is what the user asks for
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return ""


def gather():
    """Finds all parts; with a GPU for which there is everything, also tries attention."""
    driver, gpus = find_driver()
    torch, torch_gpus = _torch()
    facts = Facts(_version(), places.PACKAGE, driver, gpus, _library(), _compiler(), places.find_run(), _kernels(),
                  _ptxas(), _cache(), torch, torch_gpus, _others())
    first = next((index for index, gpu in enumerate(gpus) if gpu.target()), 0)
    return facts if _missing(facts) else facts._replace(trial=try_attention(f"cuda:{first}"))


def _missing(facts):
    """What keeps attention from running, and what to do: [(what, remedy)]."""
    missing = []
    if facts.driver.startswith("!"):
        missing.append((facts.driver[1:], "install NVIDIA's driver, or run on a machine with a GPU; in a container, start it with "
                        "--gpus all"))
    elif not facts.gpus:
        missing.append(("the driver finds no GPU", "unset CUDA_VISIBLE_DEVICES, or give the container a GPU"))
    elif not any(gpu.target() for gpu in facts.gpus):
        missing.append(("no GPU has compute capability 8.0 or more", "use an A100, a GPU of the series 30, or a later one"))
    if facts.library.startswith("!"):
        missing.append((facts.library[1:], "install the wheel, build the source tree (make tools), or set TILEWRIGHT_LIBRARY"))
    if facts.kernels.startswith("!"):
        missing.append((facts.kernels[1:], "install the wheel, or use the package from its source tree"))
    if facts.compiler.startswith("!"):
        missing.append((facts.compiler[1:], "install the wheel, build the source tree (make tools), or set TILEWRIGHT_COMPILER"))
    if facts.torch.startswith("!"):
        missing.append((facts.torch[1:], "pip install torch, of version 2.4 or later, for CUDA"))
    elif facts.gpus and not facts.torch_gpus:
        missing.append(("PyTorch finds no GPU, though the driver does", "install a PyTorch for this driver: "
                        "python -c 'import torch; torch.cuda.init()' says why"))
    return missing


def _shown(text):
    return "none: " + text[1:] if text.startswith("!") else text


def report(facts):
    """The lines of the report, and whether attention can run."""
    lines = [("tilewright", f"{facts.version}, {facts.package}"), ("driver", _shown(facts.driver))]
    for index, gpu in enumerate(facts.gpus):
        target = gpu.target()
        code = f"code for {target}" if target else "too old: 8.0 is needed"
        lines.append((f"GPU {index}", f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}, {code}"))
    lines += [("library", _shown(facts.library)), ("compiler", _shown(facts.compiler)), ("kernels", _shown(facts.kernels)),
              ("ptxas", facts.ptxas), ("cache", facts.cache.lstrip("!")),
              ("PyTorch", _shown(facts.torch)), ("also", facts.others),
              ("without a GPU", f"{facts.tool}, for tilewright.interpret()" if shutil.which(facts.tool) else
               "there is no tilewright-run for tilewright.interpret(); set TILEWRIGHT_RUN")]
    missing = _missing(facts)
    if facts.trial:
        missing.append((f"attention on the GPU fails: {facts.trial}", "report it with this text"))
    advice = [(f"the cache is not used: {facts.cache[1:]}", "each process compiles again; set TILEWRIGHT_CACHE_DIR to a folder that "
               "you own")] if facts.cache.startswith("!") else []
    texts = [f"{name:14}{text}" for name, text in lines] + [""]
    for what, remedy in missing:
        texts += [f"missing: {what}", f"         {remedy}"]
    for what, remedy in advice:
        texts += [f"slower:  {what}", f"         {remedy}"]
    can_run = not missing and facts.trial == ""
    texts.append("Attention runs: its results and gradients on the GPU are right." if can_run else "Attention cannot run.")
    return texts, can_run


def main(arguments):
    """Prints the report. Returns the exit status: 0 if attention ran, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tilewright doctor", description="Says whether attention can run on this "
                                     "machine, and what is missing. Exits with 0 only if it ran, with gradients, on the GPU.")
    parser.parse_args(arguments)
    lines, can_run = report(gather())
    print("\n".join(lines))
    return 0 if can_run else 1
