# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches kernels on PyTorch's current stream (from PTX or cubin through the driver), and times interleaved calls."""

import ctypes
import time

import torch

from gpubench import places  # noqa: F401: makes the package importable

from tilewright.timing import time_interleaved  # noqa: F401

SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
           "i1": ctypes.c_uint8}


class DeviceError(Exception):
    pass


def check(status, what):
    """Raises DeviceError if a driver call failed."""
    if status:
        name = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(status, ctypes.byref(name))
        raise DeviceError(f"{what}: the driver answered {(name.value or b'?').decode()} ({status})")


def current_stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class PtxKernel:
    """The entry of a PTX file or cubin; parameters are laid out as in base/Abi/KernelAbi.h."""

    def __init__(self, path, contract):
        if contract.tensor_maps:
            raise DeviceError("the kernel takes tensor maps, which only the runtime builds: use a bundle")
        self.contract = contract
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.zeros(1, device="cuda")  # makes the context current
        self.sm_count = torch.cuda.get_device_properties(0).multi_processor_count
        with open(path, "rb") as file:
            image = file.read() + b"\0"
        log = ctypes.create_string_buffer(8192)
        error_log_buffer, error_log_size = 5, 6
        options = (ctypes.c_int * 2)(error_log_buffer, error_log_size)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), len(log))
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.driver.cuModuleLoadDataEx(ctypes.byref(module), image, 2, options, values)
        check(status, "loading the code" + (f" ({log.value.decode().strip()})" if log.value else ""))
        # PyTorch's new arrays are aligned, so the runtime would select the form for aligned views.
        for entry in (contract.entry + "_aligned", contract.entry):
            status = self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, entry.encode())
            if status == 0:
                break
        check(status, f"finding the entry {contract.entry}")
        max_dynamic_shared_size = 8
        check(self.driver.cuFuncSetAttribute(self.function, max_dynamic_shared_size, contract.shared_bytes),
              f"asking for {contract.shared_bytes} bytes of shared memory")
        self.registers, self.local_bytes = self._attribute(4), self._attribute(3)
        blocks = ctypes.c_int()
        check(self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(blocks), self.function, contract.threads, ctypes.c_size_t(contract.shared_bytes)), "occupancy")
        self.blocks_per_sm = blocks.value

    def _attribute(self, which):
        value = ctypes.c_int()
        check(self.driver.cuFuncGetAttribute(ctypes.byref(value), which, self.function), "a function attribute")
        return value.value

    def bind(self, arguments):
        """Returns a function without parameters that launches the kernel; `arguments` are tensors and numbers by name,
        None where absent."""
        values, shapes = [], {}
        for argument in self.contract.arguments:
            value = arguments[argument.name]
            if argument.rank is None:
                values.append(SCALARS[argument.type](value))
                continue
            shape, strides = [0] * argument.rank, [0] * argument.rank
            if value is not None:
                shape, strides = list(value.shape), list(value.stride())
            shapes[argument.name] = shape
            values.append(ctypes.c_uint64(0 if value is None else value.data_ptr()))
            values += [ctypes.c_int32(n) for n in shape] + [ctypes.c_int64(n) for n in strides]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        blocks = self.contract.count_blocks(shapes, self.sm_count)
        threads, shared = self.contract.threads, self.contract.shared_bytes
        tensors = list(arguments.values())

        def launch(values=values, tensors=tensors):  # the defaults keep the memory behind the pointers alive
            if blocks == 0:
                return
            check(self.driver.cuLaunchKernel(self.function, blocks, 1, 1, threads, 1, 1, shared, current_stream(),
                                             pointers, None), "the launch")

        return launch


class BundleKernel:
    """A kernel or program of a bundle, launched by the runtime, which also builds tensor maps and workspaces."""

    registers = local_bytes = blocks_per_sm = None  # not available from the runtime

    def __init__(self, runtime, path, entry):
        from gpubench import library

        torch.zeros(1, device="cuda")  # makes the context current
        self.plan = library.Operation(runtime, runtime.open(path), entry, {})
        self.plan.prepare()

    def bind(self, arguments):
        return self.plan.bind(arguments, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                              current_stream)


def host_microseconds(call, calls=200):
    """Median host time of a call that only enqueues work, with the GPU idle before each call."""
    samples = []
    for _ in range(calls):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        call()
        samples.append((time.perf_counter_ns() - start) / 1e3)
    torch.cuda.synchronize()
    return sorted(samples[calls // 10:])[(calls - calls // 10) // 2]


def kernel_microseconds(call, calls=5):
    """Mean time of each kernel of a call, {name: us}, measured by the profiler. The L2 is not flushed between
    kernels."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    return {event.key: event.device_time_total / calls for event in profile.key_averages() if event.device_time_total}
