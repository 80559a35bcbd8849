# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs, references, the accuracy rule and the peers of each case, in PyTorch on the GPU.

The rule, which is that of test/Reference/Accuracy.h without its model of expected roundoff: for every tile of 128 rows of a
head, with ref in f64 and lowp the same formula with products in f32 that rounds S, P and O to the element type,

  max |out - ref| <= 2 max |lowp - ref| + slack,  mean |out - ref| <= 1.5 mean |lowp - ref| + slack,
  slack = 2 max |ref + 0.3 - 0.3 - ref| in the element type;
  LSE: |out - ref| <= 1e-4 (1 + |ref|).
"""

import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
RULE = ("for each 128 rows of a head: max |out - ref| <= 2 max |lowp - ref| + slack and mean |out - ref| <= 1.5 mean "
        "|lowp - ref| + slack, ref in f64")
SDPA = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION}
TILE_ROWS = 128
CHUNK_BYTES = 1 << 30


def normal(shape, dtype, generator):
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def judge(out, ref, lowp, dtype):
    """None if [heads, rows, columns] is right by the rule, else why not."""
    if out.isnan().any():
        return "NaN in the output"
    pad = -ref.shape[1] % TILE_ROWS

    def tiles(x):
        return torch.nn.functional.pad(x, (0, 0, 0, pad)).unflatten(1, (-1, TILE_ROWS)).flatten(2)

    slack_each = (ref.to(dtype) + 0.3 - 0.3).double() - ref.to(dtype).double()
    slack = 2 * tiles(slack_each.abs()).amax(-1)
    error, expected = tiles((out.double() - ref).abs()), tiles((lowp.double() - ref).abs())
    over = error.amax(-1) - (2 * expected.amax(-1) + slack)
    if over.max() > 0:
        return f"maximum error {error.amax(-1).flatten()[over.argmax()].item():.2e}, {over.max().item():.1e} more than allowed"
    over = error.mean(-1) - (1.5 * expected.mean(-1) + slack)
    if over.max() > 0:
        return f"mean error {error.mean(-1).flatten()[over.argmax()].item():.2e}, {over.max().item():.1e} more than allowed"
    return None


class Attention:
    """One forward: arrays [batch, heads, rows, dim] of N(0, 1)."""

    def __init__(self, batch, heads, kv_heads, rows, keys, dim, causal, dtype, seed=1):
        generator = torch.Generator("cuda").manual_seed(seed)
        self.dtype, self.causal, self.scale = DTYPES[dtype], causal, 1 / math.sqrt(dim)
        self.q = normal((batch, heads, rows, dim), self.dtype, generator)
        self.k = normal((batch, kv_heads, keys, dim), self.dtype, generator)
        self.v = normal((batch, kv_heads, keys, dim), self.dtype, generator)

    @staticmethod
    def of(case):
        return Attention(case.batch, case.heads, case.heads, case.seq, case.seq, case.dim, case.causal, case.dtype)

    def outputs(self):
        """O and LSE, all NaN."""
        return (torch.full_like(self.q, math.nan), torch.full(self.q.shape[:3], math.nan, device="cuda"))

    def arguments(self, o, lse):
        """Of kernels/attention_forward.mlir."""
        return {"q": self.q, "k": self.k, "v": self.v, "o": o, "lse": lse, "scale": self.scale, "window_left": -1,
                "window_right": -1}

    def references(self):
        """Chunks of (heads, rows, ref, LSE, lowp): slices of batch x heads and of rows, and what belongs there."""
        q, k, v = self.q.flatten(0, 1), self.k, self.v
        group = self.q.shape[1] // self.k.shape[1]
        k, v = (x.repeat_interleave(group, 1).flatten(0, 1) for x in (k, v))
        heads, rows, keys = q.shape[0], q.shape[1], k.shape[1]
        row_step = max(TILE_ROWS, min(rows, CHUNK_BYTES // (8 * max(1, keys))) // TILE_ROWS * TILE_ROWS)
        head_step = max(1, CHUNK_BYTES // (8 * max(1, keys) * min(rows, row_step)))
        shift = keys - rows if self.causal == "bottom_right" else 0
        for head in range(0, heads, head_step):
            h = slice(head, head + head_step)
            for row in range(0, rows, row_step):
                r = slice(row, min(rows, row + row_step))
                hidden = None
                if self.causal != "none":
                    ahead = (torch.arange(keys, device="cuda")[None] -
                             torch.arange(r.start, r.stop, device="cuda")[:, None])
                    hidden = ahead > shift
                yield (h, r) + self._formula(q[h, r], k[h], v[h], hidden)

    def _formula(self, q, k, v, hidden):
        scores = q.double() @ k.double().mT * self.scale
        if hidden is not None:
            scores.masked_fill_(hidden, -math.inf)
        lse = scores.logsumexp(-1)
        ref = torch.softmax(scores, -1).nan_to_num_(0.0) @ v.double()
        del scores
        scores = (q.float() @ k.float().mT * self.scale).to(self.dtype).float()
        if hidden is not None:
            scores.masked_fill_(hidden, -math.inf)
        p = torch.softmax(scores, -1).nan_to_num_(0.0).to(self.dtype).float()
        return ref, lse, (p @ v.float()).to(self.dtype)

    def judge(self, outputs):
        """{side: None or why it is wrong} of {side: (O, LSE or None)}."""
        verdicts = dict.fromkeys(outputs)
        for heads, rows, ref, lse, lowp in self.references():
            for side, (o, lse_out) in outputs.items():
                if verdicts[side] is None:
                    verdicts[side] = judge(o.flatten(0, 1)[heads, rows], ref, lowp, self.dtype)
                if verdicts[side] is None and lse_out is not None:
                    got, empty = lse_out.flatten(0, 1)[heads, rows].double(), lse == -math.inf
                    off = ((got - lse).abs() / (1 + lse.abs()))[~empty]
                    if got.isnan().any() or not bool((got[empty] == -math.inf).all()) or (off > 1e-4).any():
                        verdicts[side] = "LSE differs by more than 1e-4 (1 + |LSE|)"
        return verdicts

    def peers(self, names):
        """Calls that return O."""
        def with_backend(backend):
            def call():
                with sdpa_kernel(backend):
                    return self.sdpa()
            return call

        calls = {name: with_backend(SDPA[name]) for name in names if name in SDPA}
        if "flex" in names:
            calls["flex"] = self._flex()
        if "triton" in names:
            from gpubench import triton_attention
            calls["triton"] = lambda: triton_attention.attention(self.q, self.k, self.v, self.causal != "none")
        return calls

    def sdpa(self):
        return torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.causal != "none")

    def _flex(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        compiled = torch.compile(flex_attention, dynamic=False)
        rows, keys = self.q.shape[2], self.k.shape[2]
        mask = None
        if self.causal != "none":
            mask = create_block_mask(lambda b, h, i, j: j <= i, None, None, rows, keys, device="cuda")
        return lambda: compiled(self.q, self.k, self.v, block_mask=mask)


class Matmul:
    """C = A B, square, row-major; N(0, 1)."""

    def __init__(self, rows, columns, depth, dtype, seed=1):
        generator = torch.Generator("cuda").manual_seed(seed)
        self.dtype = DTYPES[dtype]
        self.a = normal((rows, depth), self.dtype, generator)
        self.b = normal((depth, columns), self.dtype, generator)

    @staticmethod
    def of(case):
        return Matmul(case.size, case.size, case.size, case.dtype)

    def outputs(self):
        return torch.full((self.a.shape[0], self.b.shape[1]), math.nan, dtype=self.dtype, device="cuda"), None

    def arguments(self, c, _=None):
        """Of kernels/matmul.mlir."""
        return {"a": self.a, "b": self.b, "bias": None, "c": c, "alpha": 1.0}

    def judge(self, outputs):
        ref = (self.a.double() @ self.b.double())[None]
        lowp = (self.a.float() @ self.b.float()).to(self.dtype)[None]
        return {side: judge(c[None], ref, lowp, self.dtype) for side, (c, _) in outputs.items()}

    def peers(self, names):
        return {"torch": lambda: torch.matmul(self.a, self.b)}


PROBLEMS = {"attention": Attention, "matmul": Matmul}
RAGGED_ATTENTION = [(2, 4, 2, 256, 256), (1, 3, 3, 113, 203), (2, 2, 1, 300, 140), (1, 2, 2, 1, 64)]  # B Hq Hkv Sq Skv
RAGGED_MATMUL = [(256, 128, 64), (129, 72, 200), (300, 264, 8)]  # rows columns depth


def ragged(case):
    """Small problems with rows, keys and heads that fit no tile."""
    if case.operation == "matmul":
        return [Matmul(*shape, case.dtype) for shape in RAGGED_MATMUL]
    return [Attention(*shape, case.dim, case.causal, case.dtype) for shape in RAGGED_ATTENTION]
