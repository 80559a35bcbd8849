# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels in functions that JAX traces. On a GPU, XLA's custom call "tilewright" runs a call that is registered
by a key (runtime/XlaHandler.h): the code is compiled, and the call registered, when the function is traced. Where
tilewright.interpret says so, tilewright-run computes the results on the host, in a callback."""

import ctypes
import functools
import hashlib
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, NamedTuple, Tuple

import jax
import numpy

from tilewright import compiler, host, places, runtime
from tilewright.runtime import TilewrightError

TARGET = "tilewright"


class Buffer(NamedTuple):
    """An operand or a result, which is row-major, and the argument of the kernel that it is."""
    name: str
    order: Tuple[int, ...] = ()  # dimension i of the argument is order[i] of the buffer; (): the same
    is_pairs: bool = False  # elements are of i64, and those of the buffer their halves, of uint32

    def shape_of(self, shape):
        """The shape of the argument for that of the buffer."""
        shape = tuple(shape[i] for i in self.order) if self.order else tuple(shape)
        return (*shape[:-1], shape[-1] // 2) if self.is_pairs else shape


class Call(NamedTuple):
    """A call of a kernel, without the shapes of its arrays."""
    choice: Any  # of tilewright.choice
    operands: Tuple[Buffer, ...]
    results: Tuple[Buffer, ...]
    scalars: Tuple[Tuple[str, Any], ...]

    def buffers(self):
        return self.operands + self.results


class _Shape:
    """An array of the runtime without data, to ask what a call of these shapes needs."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    def stride(self):
        strides = [1]
        for extent in self.shape[:0:-1]:
            strides.append(strides[-1] * max(extent, 1))
        return tuple(strides[::-1][-len(self.shape):])

    def data_ptr(self):
        return 1 << 20  # as aligned as XLA's buffers


class _CBuffer(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("order", POINTER(c_uint32)), ("rank", c_size_t),
                ("is_pairs", c_int)]


class _CCall(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("operation", c_void_p), ("attention", c_void_p), ("buffers", POINTER(_CBuffer)),
                ("num_buffers", c_size_t), ("scalars", POINTER(runtime.Argument)), ("num_scalars", c_size_t),
                ("has_workspace", c_int)]


def friendly(error):
    """The exception that users expect for an error of compiler or runtime."""
    if isinstance(error, compiler.CompileError):
        return ValueError(f"the kernel does not compile: {error}")
    return (ValueError if error.code in ("invalid argument", "unsupported", "missing variant") else RuntimeError)(str(error))


class _Code:
    """The code and the registered calls of this process."""

    def __init__(self):
        self.lock, self.plans, self.registered, self.kept = threading.Lock(), {}, {}, []

    @functools.cached_property
    def library(self):
        library = runtime.library_at(places.find_library())
        handler = library.functions.tilewright_xla_handler
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform="CUDA")
        return library

    def plan(self, choice, stamps, device, complete):
        """The plan of a choice for all GPUs of this process, of which `device` is one."""
        key = choice, stamps, complete
        if key not in self.plans:
            kernel, files = choice.files()
            capability = tuple(map(int, device.compute_capability.split(".")))
            data = compiler.compile_bundle(kernel, choice.params(), files, device=(*capability, 0), preferred_only=not complete,
                                           entry=getattr(choice, "program", None))
            plan = choice.create(self.library, self.library.load(data))
            for each in jax.local_devices(backend="gpu"):
                plan.prepare(each.local_hardware_id)
            self.plans[key] = plan
        return self.plans[key]

    def register(self, call, shapes):
        """Registers a call, and returns its key and the bytes of its workspace for arrays of these shapes."""
        stamps = compiler.stamps([call.choice.files()[0], *call.choice.files()[1]])
        device = jax.local_devices(backend="gpu")[0]
        arrays = {buffer.name: _Shape(buffer.shape_of(x.shape), "int64" if buffer.is_pairs else x.dtype)
                  for buffer, x in zip(call.buffers(), shapes)}
        with self.lock:
            plan = self.plan(call.choice, stamps, device, False)
            packed = plan.pack({**arrays, **dict(call.scalars)})
            complete = False
            try:
                capability = map(int, device.compute_capability.split("."))
                plan.report(packed, target=(*capability, 0, getattr(device, "core_count", None) or 1))
            except TilewrightError as error:
                if error.code != "unsupported" or "variant" not in str(error):
                    raise
                plan, complete = self.plan(call.choice, stamps, device, True), True
                packed = plan.pack({**arrays, **dict(call.scalars)})
            size = plan.workspace_size(packed, device.local_hardware_id)
            text = repr((call, stamps, complete, size > 0))
            key = f"{call.choice.entry()}:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
            if key not in self.registered:
                self._register(key, call, plan, size > 0)
                self.registered[key] = plan
        return key, size

    def _register(self, key, call, plan, has_workspace):
        buffers = []
        for buffer in call.buffers():
            order = (c_uint32 * len(buffer.order))(*buffer.order) if buffer.order else None
            buffers.append(runtime.sized(_CBuffer, name=buffer.name.encode(), order=order, rank=len(buffer.order),
                                         is_pairs=buffer.is_pairs))
        scalars, kept = runtime.arguments_of(dict(call.scalars), "f64")
        is_attention = isinstance(plan, runtime.Attention)
        described = runtime.sized(_CCall, operation=None if is_attention else plan.handle,
                                  attention=plan.handle if is_attention else None,
                                  buffers=(_CBuffer * len(buffers))(*buffers), num_buffers=len(buffers), scalars=scalars,
                                  num_scalars=len(call.scalars), has_workspace=has_workspace)
        self.library.call("xla_register", key.encode(), ctypes.byref(described))
        del kept  # the library has copies


_code = _Code()


class _HostPlan(host.Plan):
    """The plan of a kernel for arrays of NumPy."""

    def kind_of(self, array):
        return runtime.type_of(array.dtype)

    def write(self, path, array, kind):
        numpy.save(path, numpy.ascontiguousarray(array if kind in host.FILE_TYPES else array.astype(numpy.float32)))

    def read(self, path, array, kind):
        array[...] = numpy.load(path).astype(array.dtype)


def _run_on_host(call, device, results, *arrays):
    kernel, files = call.choice.files()
    plan = _HostPlan(kernel, call.choice.params(), files, device, getattr(call.choice, "program", None))
    values, outputs = dict(call.scalars), {}
    for buffer, x in zip(call.operands, arrays):
        x = numpy.asarray(x)
        x = x.view(numpy.int64) if buffer.is_pairs else x
        values[buffer.name] = x.transpose(buffer.order) if buffer.order else x
    for buffer, x in zip(call.results, results):
        outputs[buffer.name] = numpy.zeros(buffer.shape_of(x.shape), x.dtype)
    try:
        plan.run({**values, **outputs}, tuple(outputs))
    except TilewrightError as error:
        raise friendly(error) from None
    return tuple(outputs[buffer.name].transpose(numpy.argsort(buffer.order)) if buffer.order else outputs[buffer.name]
                 for buffer in call.results)


def _axes_of(x):
    """The axes of a shard_map over which an array varies; JAX has had two names for them."""
    kind = jax.typeof(x) if hasattr(jax, "typeof") else None
    return frozenset(getattr(getattr(kind, "manual_axis_type", None), "varying", getattr(kind, "vma", ())))


def _varying_as(arrays, results):
    """The results as arrays that vary over all axes over which one of the arrays does, since they depend on all."""
    axes = frozenset().union(*map(_axes_of, arrays))

    def varying(x):
        missing = tuple(sorted(axes - _axes_of(x)))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return tuple(map(varying, results))


def execute(call, arrays, results):
    """Traces a call with these arrays, whose results have the shapes and types `results`, and returns these. Raises
    ValueError if there is no GPU, or if the kernel does not take the arguments."""
    device = host.device()
    if device is not None:
        run = functools.partial(_run_on_host, call, device, results)
        return _varying_as(arrays, jax.pure_callback(run, tuple(results), *arrays, vmap_method="sequential"))
    if jax.default_backend() not in ("gpu", "cuda"):
        raise ValueError(f"attention must run on an NVIDIA GPU, but JAX's backend is {jax.default_backend()}; see "
                         "tilewright.interpret for tests on the host")
    try:
        key, size = _code.register(call, [*arrays, *results])
    except (compiler.CompileError, TilewrightError) as error:
        raise friendly(error) from None
    wanted = (*results, jax.ShapeDtypeStruct((size,), "uint8")) if size else tuple(results)
    found = jax.ffi.ffi_call(TARGET, wanted, vmap_method="sequential")(*arrays, call=key)
    return _varying_as(arrays, found[:len(results)])
