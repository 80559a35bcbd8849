# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed sequences of different lengths: inputs, references and peers of the kernels of attention with
PACKED, which take arrays [1, heads, tokens, dim] in place of [tokens, heads, dim]."""

import inspect
import itertools
import math

import torch

from gpubench import fa4
from gpubench.problems import DEVICE, Attention, Backward, normal, unwritten


def as_batch(values):
    """Views arrays of tokens as a batch of 1, and LSE [heads, tokens] likewise, without a copy."""
    return {name: x[None] if name == "lse" else x.transpose(0, 1)[None] if getattr(x, "ndim", 0) == 3 else x
            for name, x in values.items()}


def as_equal_batch(values, batch):
    """Views arrays of tokens as [batch, heads, rows, dim], and LSE likewise, without a copy, for kernels without
    PACKED."""
    def split(name, x):
        if name == "lse":
            return x.unflatten(1, (batch, -1)).transpose(0, 1)
        return x.unflatten(0, (batch, -1)).transpose(1, 2) if getattr(x, "ndim", 0) == 3 else x
    return {name: split(name, x) for name, x in values.items() if not name.startswith("cu_seqlens")}


class Varlen:
    """Arrays [tokens, heads, dim] of N(0, 1) with consecutive sequences that have as many keys as queries."""

    entries = ("attention_forward",)

    def __init__(self, lengths, heads, kv_heads, dim, causal, dtype, seed=1):
        ends = list(itertools.accumulate(lengths))
        self.slices = [slice(end - length, end) for end, length in zip(ends, lengths)]
        self.longest, self.causal, self.scale = max(lengths), causal, 1 / math.sqrt(dim)
        self.cu_seqlens = torch.tensor([0, *ends], dtype=torch.int32, device=DEVICE)
        # The inputs are one sequence of all tokens; each packed sequence is checked as a separate batch.
        whole = Attention(1, heads, kv_heads, ends[-1], ends[-1], dim, causal, dtype, seed=seed)
        self.q, self.k, self.v = (x[0].transpose(0, 1).contiguous() for x in (whole.q, whole.k, whole.v))

    @classmethod
    def of(cls, case):
        return cls(case.lengths, case.heads, case.heads, case.dim, case.causal, case.dtype)

    def outputs(self):
        """O [tokens, heads, dim] and LSE [heads, tokens], filled with NaN."""
        return (torch.full_like(self.q, math.nan),
                torch.full((self.q.shape[1], self.q.shape[0]), math.nan, device=DEVICE))

    def launches(self, outputs):
        return [as_batch(self._arguments(outputs))]

    def dense_launches(self, outputs):
        """The launches of kernels without PACKED, if all sequences have the same length."""
        if len({rows.stop - rows.start for rows in self.slices}) != 1:
            raise RuntimeError("sequences of different lengths are no dense batch")
        return [as_equal_batch(self._arguments(outputs), len(self.slices))]

    def _arguments(self, outputs):
        o, lse = outputs
        return {"q": self.q, "k": self.k, "v": self.v, "o": o, "lse": lse, "cu_seqlens_q": self.cu_seqlens,
                "cu_seqlens_k": self.cu_seqlens, "scale": self.scale, "window_left": -1, "window_right": -1}

    def judge(self, outputs):
        """{side: None or the reason why it is wrong} from {side: (O, LSE or None)}."""
        verdicts = dict.fromkeys(outputs)
        for rows in self.slices:
            each = Attention.over(*(x[rows].transpose(0, 1)[None] for x in (self.q, self.k, self.v)), self.causal)
            parts = {side: (o[rows].transpose(0, 1)[None], None if lse is None else lse[None, :, rows])
                     for side, (o, lse) in outputs.items()}
            for side, wrong in each.judge(parts).items():
                verdicts[side] = verdicts[side] or wrong
        return verdicts

    def peers(self, names):
        """Functions that return O, by peer."""
        calls = {}
        if "fa4" in names:
            forward = fa4.varlen_forward(self.causal != "none", self.scale)
            calls["fa4"] = lambda: forward(self.q, self.k, self.v, self.cu_seqlens, self.longest)
        if "flash" in names:
            calls["flash"] = self._flash
        return calls

    def _flash(self, *qkv):
        """PyTorch's FlashAttention-2 on the arrays of the case, or on other arrays."""
        from torch.nn.attention.varlen import varlen_attn
        is_causal = self.causal != "none"
        knows_windows = "window_size" in inspect.signature(varlen_attn).parameters
        mask = {"window_size": (-1, 0 if is_causal else -1)} if knows_windows else {"is_causal": is_causal}
        return varlen_attn(*(qkv or (self.q, self.k, self.v)), self.cu_seqlens, self.cu_seqlens, self.longest, self.longest,
                           **mask)

    def of_peer(self, returned):
        return returned, None


class VarlenBackward(Varlen):
    """dQ, dK and dV from O and LSE of the reference; dO is N(0, 1)."""

    entries = ("attention_backward",)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.do = normal(self.q.shape, self.q.dtype, torch.Generator(DEVICE).manual_seed(2))
        self.o = torch.empty_like(self.q)
        self.lse = torch.empty((self.q.shape[1], self.q.shape[0]), device=DEVICE)
        for rows in self.slices:
            for heads, part, ref, lse, _ in self._each(rows, Attention, self.q, self.k, self.v).references():
                here = slice(rows.start + part.start, rows.start + part.stop)
                self.o.transpose(0, 1)[heads, here] = ref.to(self.q.dtype)
                self.lse[heads, here] = lse.float()

    def _each(self, rows, form, *arrays):
        return form.over(*(x[rows].transpose(0, 1)[None] for x in arrays), self.causal)

    def outputs(self):
        """dQ, dK and dV, filled with NaN."""
        return tuple(unwritten(x) for x in (self.q, self.k, self.v))

    def _arguments(self, outputs):
        dq, dk, dv = outputs
        return {"q": self.q, "k": self.k, "v": self.v, "o": self.o, "do": self.do, "lse": self.lse, "dlse": None,
                "dq": dq, "dk": dk, "dv": dv, "cu_seqlens_q": self.cu_seqlens, "cu_seqlens_k": self.cu_seqlens,
                "scale": self.scale, "window_left": -1, "window_right": -1}

    def judge(self, outputs):
        """{side: None or the reason why it is wrong} from {side: (dQ, dK, dV)}."""
        verdicts = dict.fromkeys(outputs)
        for rows in self.slices:
            each = self._each(rows, Backward, self.q, self.k, self.v)
            each.do = self.do[rows].transpose(0, 1)[None]
            parts = {side: tuple(x[rows].transpose(0, 1)[None] for x in gradients)
                     for side, gradients in outputs.items()}
            for side, wrong in each.judge(parts).items():
                verdicts[side] = verdicts[side] or wrong
        return verdicts

    def peers(self, names):
        """Functions that return the gradients, by peer. The first call runs the forward that they need."""
        calls = {}
        for name in names:
            if name not in ("fa4", "flash"):
                continue
            leaves = [x.detach().clone().requires_grad_() for x in (self.q, self.k, self.v)]

            def call(name=name, leaves=leaves, graph=[]):
                if not graph:
                    if name == "fa4":
                        forward = fa4.varlen_forward(self.causal != "none", self.scale)
                        graph.append(forward(*leaves, self.cu_seqlens, self.longest))
                    else:
                        graph.append(self._flash(*leaves))
                return torch.autograd.grad(graph[0], leaves, self.do, retain_graph=True)

            calls[name] = call
        return calls

    def of_peer(self, returned):
        return returned
