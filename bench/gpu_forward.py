# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the PTX of kernels/attention_forward.mlir on a GPU, beside PyTorch's FLASH back end, in one process.

For a machine with PyTorch and a GPU but without LLVM: compile where LLVM is, carry the PTX, run here. One variant:

    tilewrightc kernels/attention_forward.mlir --param D=64 --param T=f16 --param CAUSAL=top_left \\
        --param BLOCK_M=128 --param BLOCK_N=64 --target=sm_80 --emit=ptx -o forward.ptx
    python3 bench/gpu_forward.py forward.ptx --dim 64 --dtype f16 --causal top_left --block-m 128 --shared 32768

--shared is `shared_bytes` of --emit=tgpu. Outputs are first compared, on small ragged shapes with grouped heads, with a
reference in f64; a kernel that fails is not timed. Times are medians of interleaved rounds.
"""

import argparse
import ctypes
import math
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
SHAPES = [(2, 4, 2, 256, 256), (1, 3, 3, 113, 203), (2, 2, 1, 300, 140), (1, 2, 2, 1, 64)]  # B, Hq, Hkv, Sq, Skv
THREADS = 128


class Kernel:
    """An entry of a PTX file, launched on PyTorch's current stream; arguments as runtime/KernelAbi.h lays them out."""

    def __init__(self, path, entry, shared):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.shared = shared
        torch.zeros(1, device="cuda")  # makes the context current
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(path, "rb") as file:
            self.check(self.driver.cuModuleLoadData(ctypes.byref(module), file.read() + b"\0"), "loading the PTX")
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, entry.encode()), "the entry")
        max_dynamic_shared_size = 8
        self.check(self.driver.cuFuncSetAttribute(self.function, max_dynamic_shared_size, shared), "shared memory")

    @staticmethod
    def check(status, what):
        if status:
            sys.exit(f"gpu_forward: {what}: the driver answered {status}")

    def launch(self, blocks, values):
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.driver.cuLaunchKernel(self.function, blocks, 1, 1, THREADS, 1, 1, self.shared, stream, pointers,
                                              None), "the launch")


def view(tensor):
    return ([ctypes.c_uint64(tensor.data_ptr())] + [ctypes.c_int32(n) for n in tensor.shape] +
            [ctypes.c_int64(n) for n in tensor.stride()])


def reference(q, k, v, causal):
    """O and LSE in f64; 0 and -inf for a row without keys."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    rows, keys = scores.shape[-2:]
    if causal != "none":
        shift = keys - rows if causal == "bottom_right" else 0
        ahead = torch.arange(keys, device="cuda")[None] - torch.arange(rows, device="cuda")[:, None]
        scores = scores.masked_fill(ahead > shift, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v, torch.logsumexp(scores, -1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ptx")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--dtype", choices=DTYPES, required=True)
    parser.add_argument("--causal", choices=["none", "top_left", "bottom_right"], default="none")
    parser.add_argument("--block-m", type=int, required=True)
    parser.add_argument("--shared", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    dtype, dim = DTYPES[options.dtype], options.dim
    kernel = Kernel(options.ptx, "attention_forward", options.shared)

    def call(q, k, v, o, lse):
        blocks = -(-q.shape[2] // options.block_m) * q.shape[1] * q.shape[0]
        scalars = [ctypes.c_float(1 / math.sqrt(dim)), ctypes.c_int32(-1), ctypes.c_int32(-1)]
        kernel.launch(blocks, view(q) + view(k) + view(v) + view(o) + view(lse) + scalars)

    def normal(*shape):
        return torch.randn(*shape, device="cuda").to(dtype)

    torch.manual_seed(1)
    for batch, q_heads, k_heads, rows, keys in SHAPES:
        q, k, v = normal(batch, q_heads, rows, dim), normal(batch, k_heads, keys, dim), normal(batch, k_heads, keys, dim)
        o, lse = torch.full_like(q, math.nan), torch.full(q.shape[:3], math.nan, device="cuda")
        call(q, k, v, o, lse)
        expected_o, expected_lse = reference(q, k, v, options.causal)
        lowp = torch.finfo(dtype).eps * max(1.0, expected_o.abs().max().item())
        error = (o.double() - expected_o).abs().max().item()
        empty = expected_lse == -math.inf
        lse_error = (lse.double() - expected_lse)[~empty].abs().max().item()
        right = error <= 4 * lowp and lse_error <= 1e-3 and bool((lse[empty] == -math.inf).all())
        print(f"{batch}x{q_heads}/{k_heads}x{rows}x{keys}x{dim}: max error {error:.1e}, LSE {lse_error:.1e}",
              "ok" if right else "WRONG")
        if not right:
            sys.exit(1)

    if dtype == torch.float32:
        return
    rows, heads = 4096, 2048 // dim
    q, k, v = (normal(4, heads, rows, dim) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(4, heads, rows, device="cuda")

    def flash():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=options.causal != "none")

    sides = {"tilewright": lambda: call(q, k, v, o, lse), "torch FLASH": flash}
    times = {name: [] for name in sides}
    for _ in range(options.rounds + 2):
        for name, side in sides.items():
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            side()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
    flops = 4 * 4 * heads * rows * rows * dim * (0.5 if options.causal != "none" else 1)
    medians = {name: statistics.median(values[2:]) for name, values in times.items()}
    for name, milliseconds in medians.items():
        print(f"{name:12} {milliseconds:.3f} ms, {flops / milliseconds / 1e9:.0f} TFLOP/s")
    print(f"ratio {medians['torch FLASH'] / medians['tilewright']:.2f}")


if __name__ == "__main__":
    main()
