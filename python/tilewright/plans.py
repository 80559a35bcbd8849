# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of kernels on a device: compiles it, or takes it from bundles, and keeps it for later calls. Threads compile
different kernels at the same time."""

import contextlib
import functools
import re
import threading

import torch

from tilewright import checks, compiler, interpreter, performance, places, progress, runtime
from tilewright.runtime import TilewrightError

TYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
INPUT_ERRORS = ("invalid argument", "unsupported", "missing variant")


class _Code:
    """The libraries, bundles and plans of this process."""

    def __init__(self):
        self.lock = threading.Lock()  # held for short times only
        self.library = None
        self.bundles = {}  # loaded bundles, by modifier
        self.plans = {}
        self.jobs = {}  # compilations, by what determines their code
        self.making = {}  # locks of plans that are being made

    def get_library(self):
        if self.library is None:
            self.library = runtime.library_at(places.find_library())
        return self.library

    def get_job(self, choice, files, device, complete):
        with self.lock:
            return self.jobs.setdefault((choice, files, device, complete), _Job(choice, device, complete))


class _Job:
    """The compilation of a choice, by the first thread that needs it."""

    def __init__(self, choice, device, complete):
        self.choice, self.device, self.complete = choice, device, complete
        self.lock, self.bundle = threading.Lock(), None

    def get(self, shown=True):
        """Returns the bundle, which the plans of all devices of a kind share."""
        with self.lock:
            if self.bundle is None:
                kernel, files = self.choice.files()
                device, preferred_only = (None, False) if self.complete else (self.device, True)
                with progress.shown(f"compiling {self.choice.entry()}") if shown else contextlib.nullcontext():
                    data = compiler.compile_bundle(kernel, self.choice.params(), files, device=device,
                                                   preferred_only=preferred_only, entry=getattr(self.choice, "program", None))
                self.bundle = _code.get_library().load(data)
            return self.bundle

    def begin(self):
        """Compiles in a thread. Does not touch the device, whose calls could disturb the capture of a graph."""
        def run():
            with contextlib.suppress(compiler.CompileError, TilewrightError, ValueError, OSError):
                self.get(shown=False)  # the call that needs the result repeats an error
        threading.Thread(target=run, name="tilewright-compile").start()


_code = _Code()


def load_bundle(path, modifier=None):
    """Makes attention use the code of a bundle file that tilewrightc wrote, where it contains the required variant,
    instead of compiling kernels in this process. `modifier` is the modifier that was linked to the kernels of the
    bundle. Raises runtime.TilewrightError if the file is not a valid bundle."""
    with _code.lock:
        bundle = _code.get_library().open(path)
        _code.bundles.setdefault(checks.modifier_text(modifier), []).append(bundle)


@contextlib.contextmanager
def friendly():
    """Converts errors to the exceptions that PyTorch users expect."""
    try:
        yield
    except compiler.CompileError as error:
        raise ValueError(f"the kernel does not compile: {error}") from None
    except TilewrightError as error:
        raise (ValueError if error.code in INPUT_ERRORS else RuntimeError)(str(error)) from None


def compile_choice(choice, targets=()):
    """Compiles the choice for targets (none: the default ones), and returns a plan that is not prepared for a device."""
    kernel, files = choice.files()
    data = compiler.compile_bundle(kernel, choice.params(), files, targets)
    library = _code.get_library()
    return choice.create(library, library.load(data))


@functools.lru_cache(maxsize=None)
def describe(index):
    """The compute capability of a CUDA device, and the shared memory that a block may have."""
    properties = torch.cuda.get_device_properties(index)
    return properties.major, properties.minor, getattr(properties, "shared_memory_per_block_optin", 0)


def _subject(of):
    """What a choice or a plan computes, in texts."""
    return getattr(of, "subject", "attention")


def _check_capture(choice):
    if torch.cuda.is_current_stream_capturing():
        subject = _subject(choice)
        first, remedy = ("attention for these types and widths", "tilewright.torch.prepare") if subject == "attention" else (
            subject, "its method prepare()")
        raise RuntimeError(f"the first call of {first} must not be captured, since it loads code; call it once before, or {remedy}")


def _stamps(choice):
    """The state of the files of a choice's modifier."""
    return compiler.stamps(checks.modifier_files(choice.modifier)) if choice.modifier else ()


def plan(choice, device, complete=False):
    """Returns a plan that is prepared for a device, from a loaded bundle if one contains the choice; else compiles it.
    Unless it must be `complete`, a compiled plan has only the preferred forms of kernels, which need not accept views of
    any alignment; `launch` takes the complete plan where they do not. Plans are known by the contents of the files of
    their modifier."""
    interpreted = interpreter.device() if device.type == "cpu" else None
    files = _stamps(choice)
    key = (choice, files, interpreted, device.index, complete)
    found = _code.plans.get(key)
    if found is not None:
        return found
    if device.type == "cpu":
        if interpreted is None:
            raise ValueError("tensors must be on a CUDA device where tilewright.interpret does not say otherwise, also in "
                             "the backward, but got cpu")
        kernel, linked = choice.files()
        with friendly():
            return _code.plans.setdefault(key, interpreter.Plan(kernel, choice.params(), linked, interpreted,
                                                                   getattr(choice, "program", None)))
    _check_capture(choice)
    with _code.lock:
        making = _code.making.setdefault(key, threading.Lock())
    with friendly(), making:
        if key not in _code.plans:  # another thread may have made it in the meantime
            _code.plans[key] = _make(choice, files, device, complete)
        return _code.plans[key]


def prepare(choice, device):
    """Makes a complete plan, which later calls then find: they may be captured."""
    found = plan(choice, device, complete=True)
    # A plan that exists stays, since graphs may have captured its code.
    _code.plans.setdefault((choice, _stamps(choice), None, device.index, False), found)


def _make(choice, files, device, complete):
    library = _code.get_library()
    for bundle in _code.bundles.get(choice.modifier, []):
        try:
            found = choice.create(library, bundle)
        except TilewrightError as error:
            if error.code != "missing variant":
                raise
        else:
            found.prepare(device.index)
            return found
    described = describe(device.index)
    job = _code.get_job(choice, files, described, complete)
    found = choice.create(library, job.get())
    if described[0] == 9:  # the remarks are about its roles
        for remark in library.remarks(job.get()):
            performance.warn(remark, f"{_subject(choice)} is slower than it need be: {remark}")
    found.prepare(device.index)
    found.subject = _subject(choice)
    if not complete:
        found.get_complete = functools.partial(plan, choice, device, complete=True)
    return found


def start(choice, device):
    """Begins to compile a choice that will be needed soon, unless there is code for it."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing() or _code.bundles.get(choice.modifier):
        return
    files = _stamps(choice)
    if (choice, files, None, device.index, False) in _code.plans:
        return
    described = describe(device.index)
    with _code.lock:
        known = (choice, files, described, False) in _code.jobs
    if not known:
        _code.get_job(choice, files, described, False).begin()


def launch(plan, values, outputs, device, updates=()):
    """Launches the plan on the current stream of the device; `outputs` names the arrays that it writes, and `updates`
    those of which it writes a part."""
    if device.type == "cpu":
        with friendly():
            return plan.run(values, outputs, updates)
    with friendly(), torch.cuda.device(device):
        try:
            _enqueue(plan, values, device)
        except TilewrightError as error:
            get_complete = getattr(plan, "get_complete", None)
            # Nothing was launched if a kernel has no variant for the arguments.
            if error.code != "unsupported" or "variant" not in str(error) or get_complete is None:
                raise
            _enqueue(get_complete(), values, device)
            reason = str(error).partition("takes these arguments: ")[2] or str(error)
            performance.warn(re.sub(r"\d+", "", reason), f"{_subject(plan)} is slower than it need be, by a kernel for any view: {reason}; "
                             "give arrays whose addresses, rows and strides are multiples of 16 bytes")


def _enqueue(plan, values, device):
    packed = plan.pack(values)
    size = plan.workspace_size(packed, device.index)
    workspace = torch.empty(size, dtype=torch.uint8, device=device) if size else None
    stream = torch.cuda.current_stream(device).cuda_stream
    plan.run(packed, workspace.data_ptr() if size else None, size, stream)
