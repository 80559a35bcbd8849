# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs, references, the accuracy rule and the peers of each case, in PyTorch on the GPU.

The rule is that of test/Reference/Accuracy.h without its model of expected roundoff. `ref` is the result of the formula
in f64. `lowp` is the result of the same formula with products in f32, where S, P, O, dP and dS are rounded to the element
type. The result `out` of a side is correct if, for every tile of 128 rows of a head,

  max |out - ref| <= 2 max |lowp - ref| + slack,  mean |out - ref| <= 1.5 mean |lowp - ref| + slack,
  slack = 2 max |ref + 0.3 - 0.3 - ref| in the element type;
  LSE: |out - ref| <= 1e-4 (1 + |ref|).
"""

import functools
import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpubench import fa4
from gpubench.modifiers import MODIFIERS

DEVICE = "cuda"
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
RULE = ("for each 128 rows of a head: max |out - ref| <= 2 max |lowp - ref| + slack and mean |out - ref| <= 1.5 mean "
        "|lowp - ref| + slack, ref in f64")
SDPA = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION}
TILE_ROWS = 128
CHUNK_BYTES = 1 << 30


def normal(shape, dtype, generator):
    return torch.randn(shape, device=DEVICE, generator=generator).to(dtype)


def unwritten(like):
    return torch.full_like(like, math.nan)


def judge(out, ref, lowp, dtype):
    """None if [heads, rows, columns] satisfies the rule, else the reason."""
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
    """Arrays [batch, heads, rows, dim] of N(0, 1) and the forward over them; the base class of the other directions."""

    entries = ("attention_forward",)

    def __init__(self, batch, heads, kv_heads, rows, keys, dim, causal, dtype, mod="", window=0, value_dim=0, seed=1):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        self.dtype, self.causal, self.scale = DTYPES[dtype], causal, 1 / math.sqrt(dim)
        self.mod_name, self.window = mod, window
        self.mod = MODIFIERS[mod](heads, rows, keys, self.dtype, DEVICE)
        self.q = normal((batch, heads, rows, dim), self.dtype, generator)
        self.k = normal((batch, kv_heads, keys, dim), self.dtype, generator)
        self.v = normal((batch, kv_heads, keys, value_dim or dim), self.dtype, generator)

    @property
    def is_random(self):
        """Whether peers draw their own random numbers, so that their results cannot be compared."""
        return self.mod.dropout_p > 0

    @classmethod
    def of(cls, case):
        return cls(case.batch, case.heads, case.kv_heads, case.seq, case.seq, case.dim, case.causal, case.dtype,
                   case.mod, case.window, case.value_dim)

    @classmethod
    def over(cls, q, k, v, causal):
        """The problem over existing arrays."""
        self = cls(0, q.shape[1], k.shape[1], 0, 0, q.shape[3], causal,
                   next(name for name, dtype in DTYPES.items() if dtype == q.dtype))
        self.q, self.k, self.v = q, k, v
        return self

    def outputs(self):
        """O and LSE, filled with NaN."""
        o = torch.empty((*self.q.shape[:3], self.v.shape[3]), dtype=self.dtype, device=DEVICE)
        return unwritten(o), torch.full(self.q.shape[:3], math.nan, device=DEVICE)

    def arguments(self, o, lse):
        """The arguments of kernels/attention_forward.mlir."""
        return {"q": self.q, "k": self.k, "v": self.v, "o": o, "lse": lse, **self._scalars()}

    def launches(self, outputs):
        """The arguments of each of `entries`."""
        return [self.arguments(*outputs)]

    def _scalars(self):
        left = self.window or -1
        return {"scale": self.scale, "window_left": left, "window_right": left if self.causal == "none" else -1,
                **self.mod.captures}

    def _by_head(self):
        """q, k and v as [batch x heads of q, rows, dim]."""
        group = self.q.shape[1] // self.k.shape[1]
        return self.q.flatten(0, 1), *(x.repeat_interleave(group, 1).flatten(0, 1) for x in (self.k, self.v))

    def chunks(self):
        """Yields (heads, rows, scores): slices of batch x heads and of rows, and a function of a type that returns the
        masked and modified scores there; in f32, scores are rounded to the element type."""
        q, k, _ = self._by_head()
        heads, rows, keys = q.shape[0], q.shape[1], k.shape[1]
        row_step = max(TILE_ROWS, min(rows, CHUNK_BYTES // (8 * max(1, keys))) // TILE_ROWS * TILE_ROWS)
        head_step = max(1, CHUNK_BYTES // (8 * max(1, keys) * max(1, min(rows, row_step))))
        shift = keys - rows if self.causal == "bottom_right" else 0
        j = torch.arange(keys, device=DEVICE)
        for head in range(0, heads, head_step):
            h = slice(head, min(heads, head + head_step))
            for row in range(0, rows, row_step):
                r = slice(row, min(rows, row + row_step))
                i = torch.arange(r.start, r.stop, device=DEVICE)

                def scores(kind, h=h, r=r, i=i):
                    s = q[h, r].to(kind) @ k[h].to(kind).mT * self.scale
                    if kind == torch.float32:
                        s = s.to(self.dtype).float()
                    s = self.mod.apply(s, torch.arange(h.start, h.stop, device=DEVICE), i, j)
                    ahead = j[None] - i[:, None] - shift
                    if self.causal != "none":
                        s.masked_fill_(ahead > 0, -math.inf)
                    if self.window:
                        s.masked_fill_((ahead if self.causal == "none" else -ahead).abs() > self.window, -math.inf)
                    return s

                yield h, r, scores

    def references(self):
        """Yields (heads, rows, ref, LSE, lowp): slices of batch x heads and of rows, and the references there."""
        v = self._by_head()[2]
        for h, r, scores in self.chunks():
            s = scores(torch.float64)
            lse, weights = s.logsumexp(-1), self._weights(h, r)
            if (sinks := self.mod.sinks(torch.arange(h.start, h.stop, device=DEVICE))) is not None:
                of_keys, lse = lse, torch.logaddexp(lse, sinks.double()[:, None])
                weights = weights * (of_keys - lse).exp()[:, :, None]  # the share of the keys
            ref = (torch.softmax(s, -1).nan_to_num_(0.0) * weights) @ v[h].double()
            del s
            p = (torch.softmax(scores(torch.float32), -1).nan_to_num_(0.0) * weights).to(self.dtype).float()
            yield h, r, ref, lse, (p @ v[h].float()).to(self.dtype)

    def _weights(self, heads, rows):
        """The factors by which the modifier multiplies the weights of all keys, for slices of batch x heads and of
        rows."""
        h, i, j = (torch.arange(*bounds, device=DEVICE) for bounds in (
            (heads.start, heads.stop), (rows.start, rows.stop), (0, self.k.shape[2])))
        weights = self.mod.weights(h, i, j)
        return 1 if weights is None else weights

    def judge(self, outputs):
        """{side: None or the reason why it is wrong} from {side: (O, LSE or None)}."""
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

    def _forwards(self, names):
        """Yields (name, function of q, k and v) for the peers that support this case."""
        def with_backend(backend):
            def call(*qkv):
                with sdpa_kernel(backend):
                    return self.sdpa(*qkv)
            return call

        is_said = self.mod.is_said_by_sdpa and (
            self.mod.flex is None or (self.mod.attn_mask is not None and self.causal == "none"))
        if is_said and not self.window:
            yield from ((name, with_backend(SDPA[name])) for name in names if name in SDPA)
        if "fa4" in names:
            forward = fa4.forward(self.causal != "none", self.scale, self.mod_name, self.window)
            if forward:
                yield "fa4", forward
        if "flex" in names:
            yield "flex", self._flex()
        if "flex_setup" in names and self.mod.flex_keeps:
            yield "flex_setup", self._flex(with_setup=True)

    @staticmethod
    def _arranged(name, *arrays):
        """The arrays in the memory order of the peer."""
        return [fa4.arrange(array) if name == "fa4" else array for array in arrays]

    def peers(self, names):
        """Functions that return O, by peer."""
        calls = {name: functools.partial(forward, *self._arranged(name, self.q, self.k, self.v))
                 for name, forward in self._forwards(names)}
        is_plain = not self.mod_name and not self.window and self.q.shape[1] == self.k.shape[1]
        if "triton" in names and is_plain:
            from gpubench import triton_attention
            calls["triton"] = lambda: triton_attention.attention(self.q, self.k, self.v, self.causal != "none")
        return calls

    def of_peer(self, returned):
        """Converts the result of a peer's call to what `judge` takes."""
        return returned, None

    def sdpa(self, *qkv):
        """Calls SDPA on the arrays of the case, or on other arrays."""
        return torch.nn.functional.scaled_dot_product_attention(
            *(qkv or (self.q, self.k, self.v)), attn_mask=self.mod.attn_mask, dropout_p=self.mod.dropout_p,
            is_causal=self.causal != "none", enable_gqa=self.q.shape[1] != self.k.shape[1])

    def _flex(self, with_setup=False):
        """Compiled flex_attention of q, k and v; with_setup: each call also makes its block mask, in compiled code."""
        import torch._functorch.config
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        torch._functorch.config.donated_buffer = False  # would prevent a second call of backward
        compiled = torch.compile(flex_attention, dynamic=False)
        rows, keys, causal, window = self.q.shape[2], self.k.shape[2], self.causal != "none", self.window
        mask, grouped, of_mod = None, self.q.shape[1] != self.k.shape[1], self.mod.flex_keeps

        def keeps_by_position(b, h, i, j):
            if causal and window:
                return (j <= i) & (i - j <= window)
            return j <= i if causal else (i - j).abs() <= window

        def keeps_both(b, h, i, j):
            return keeps_by_position(b, h, i, j) & of_mod(b, h, i, j)

        positional = causal or window
        keeps = keeps_both if positional and of_mod else of_mod or keeps_by_position
        if with_setup:
            make = torch.compile(create_block_mask, dynamic=False)
            return lambda q, k, v: compiled(q, k, v, score_mod=self.mod.flex, enable_gqa=grouped,
                                            block_mask=make(keeps, None, None, rows, keys, device=DEVICE))
        if positional or of_mod:
            mask = create_block_mask(keeps, None, None, rows, keys, device=DEVICE)
        return lambda q, k, v: compiled(q, k, v, score_mod=self.mod.flex, block_mask=mask, enable_gqa=grouped)


class Backward(Attention):
    """dQ, dK and dV from O and LSE of the reference; dO is N(0, 1). Sinks are not supported."""

    entries = ("attention_backward",)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        shape = (*self.q.shape[:3], self.v.shape[3])
        self.do = normal(shape, self.dtype, torch.Generator(DEVICE).manual_seed(2))
        self.o, self.lse = torch.empty_like(self.do), torch.empty(self.q.shape[:3], device=DEVICE)
        for heads, rows, ref, lse, _ in Attention.references(self):
            self.o.flatten(0, 1)[heads, rows] = ref.to(self.dtype)
            self.lse.flatten(0, 1)[heads, rows] = lse.float()

    def outputs(self):
        """dQ, dK and dV, filled with NaN."""
        return tuple(unwritten(x) for x in (self.q, self.k, self.v))

    def arguments(self, dq, dk, dv, o=None, lse=None):
        """The arguments of kernels/attention_backward.mlir."""
        return {"q": self.q, "k": self.k, "v": self.v, "o": self.o if o is None else o, "do": self.do,
                "lse": self.lse if lse is None else lse, "dlse": None, "dq": dq, "dk": dk, "dv": dv, **self._scalars()}

    def gradients(self, kind):
        """[dQ, dK, dV] as [batch x heads, rows, dim], in f64, or in f32 with the roundings of lowp."""
        def rounded(x):
            return x.to(self.dtype).float() if kind == torch.float32 else x

        q, k, v = self._by_head()
        do = self.do.flatten(0, 1)
        dq, dk, dv = (torch.zeros(x.shape, dtype=kind, device=DEVICE) for x in (q, k, v))
        for h, r, scores in self.chunks():
            s, do_here = scores(kind), do[h, r].to(kind)
            slope = self.mod.slope(s)
            if slope is not None:
                slope.nan_to_num_(0.0, 0.0, 0.0)  # where a pair is masked
            exact, weights = torch.softmax(s, -1).nan_to_num_(0.0), self._weights(h, r)
            del s
            p, weighted = rounded(exact), rounded((exact * weights).to(kind))
            del exact
            delta = (rounded(weighted @ v[h].to(kind)) * do_here).sum(-1, keepdim=True)
            dv[h] += weighted.mT @ do_here
            dp = (rounded(do_here @ v[h].to(kind).mT) * weights).to(kind)
            ds = rounded(p * (dp - delta) * (1 if slope is None else slope))
            dq[h, r] = ds @ k[h].to(kind) * self.scale
            dk[h] += ds.mT @ q[h, r].to(kind) * self.scale
        batch, kv_heads = self.k.shape[:2]

        def summed(x):
            return x.unflatten(0, (batch, kv_heads, -1)).sum(2).flatten(0, 1)

        return [rounded(x) for x in (dq, summed(dk), summed(dv))]

    def judge(self, outputs):
        """{side: None or the reason why it is wrong} from {side: (dQ, dK, dV)}."""
        verdicts = dict.fromkeys(outputs)
        references = zip(("dQ", "dK", "dV"), self.gradients(torch.float64), self.gradients(torch.float32))
        for place, (name, ref, lowp) in enumerate(references):
            for side, gradients in outputs.items():
                wrong = judge(gradients[place].flatten(0, 1), ref, lowp, self.dtype)
                if wrong and verdicts[side] is None:
                    verdicts[side] = f"{name}: {wrong}"
        return verdicts

    def peers(self, names):
        """Functions that return the gradients, by peer. This call runs the forward that they need."""
        calls = {}
        for name, forward in self._forwards(names):
            *qkv, do = self._arranged(name, self.q, self.k, self.v, self.do)
            leaves = [x.detach().requires_grad_() for x in qkv]

            def call(forward=forward, leaves=leaves, do=do, graph=[]):
                if not graph:  # in the first call, where its errors are caught
                    graph.append(forward(*leaves))
                return torch.autograd.grad(graph[0], leaves, do, retain_graph=True)

            calls[name] = call
        return calls

    def of_peer(self, returned):
        return returned


class Training(Backward):
    """A forward, followed by the backward with the resulting O and LSE."""

    entries = ("attention_forward", "attention_backward")

    def outputs(self):
        return Attention.outputs(self) + Backward.outputs(self)

    def launches(self, outputs):
        o, lse, *gradients = outputs
        return [Attention.arguments(self, o, lse), Backward.arguments(self, *gradients, o, lse)]

    def judge(self, outputs):
        forward = Attention.judge(self, {side: values[:2] for side, values in outputs.items()})
        backward = Backward.judge(self, {side: values[2:] for side, values in outputs.items()})
        return {side: forward[side] or backward[side] for side in outputs}

    def peers(self, names):
        """Functions that return O and the gradients, by peer."""
        calls = {}
        for name, forward in self._forwards(names):
            *qkv, do = self._arranged(name, self.q, self.k, self.v, self.do)
            leaves = [x.detach().requires_grad_() for x in qkv]

            def call(forward=forward, leaves=leaves, do=do):
                o = forward(*leaves)
                return o.detach(), *torch.autograd.grad(o, leaves, do)

            calls[name] = call
        return calls

    def of_peer(self, returned):
        o, *gradients = returned
        return o, None, *gradients


class Matmul:
    """C = A B with square, row-major matrices of N(0, 1)."""

    entries = ("matmul",)

    def __init__(self, rows, columns, depth, dtype, seed=1):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        self.dtype = DTYPES[dtype]
        self.a = normal((rows, depth), self.dtype, generator)
        self.b = normal((depth, columns), self.dtype, generator)

    @staticmethod
    def of(case):
        return Matmul(case.size, case.size, case.size, case.dtype)

    def outputs(self):
        return torch.full((self.a.shape[0], self.b.shape[1]), math.nan, dtype=self.dtype, device=DEVICE), None

    def arguments(self, c, _=None):
        """The arguments of kernels/matmul.mlir."""
        return {"a": self.a, "b": self.b, "bias": None, "c": c, "alpha": 1.0}

    def launches(self, outputs):
        return [self.arguments(*outputs)]

    def of_peer(self, returned):
        return returned, None

    def judge(self, outputs):
        ref = (self.a.double() @ self.b.double())[None]
        lowp = (self.a.float() @ self.b.float()).to(self.dtype)[None]
        return {side: judge(c[None], ref, lowp, self.dtype) for side, (c, _) in outputs.items()}

    def peers(self, names):
        return {"torch": lambda: torch.matmul(self.a, self.b)}


class Differential:
    """Two attentions over the same V, the second with one weight per head; inputs are N(0, 1)."""

    entries = ("differential_attention",)

    def __init__(self, batch, heads, kv_heads, rows, keys, dim, v_dim, causal, dtype, seed=1):
        self.both = [Attention(batch, heads, kv_heads, rows, keys, dim, causal, dtype, seed=seed + i) for i in range(2)]
        generator = torch.Generator(DEVICE).manual_seed(seed + 2)
        self.dtype = DTYPES[dtype]
        self.v = normal((batch, kv_heads, keys, v_dim), self.dtype, generator)
        self.weights = torch.rand(heads, device=DEVICE, generator=generator)
        for each in self.both:
            each.v = self.v

    @classmethod
    def of(cls, case):
        return cls(case.batch, case.heads, case.heads, case.seq, case.seq, case.dim, case.v_dim, case.causal, case.dtype)

    @classmethod
    def ragged(cls, case):
        return [cls(*shape, case.dim, case.v_dim, case.causal, case.dtype) for shape in RAGGED_ATTENTION]

    def outputs(self):
        q = self.both[0].q
        return torch.full((*q.shape[:3], self.v.shape[3]), math.nan, dtype=self.dtype, device=DEVICE), None

    def arguments(self, o, _=None):
        first, second = self.both
        return {"q1": first.q, "q2": second.q, "k1": first.k, "k2": second.k, "v": self.v, "lambda": self.weights,
                "o": o, "scale": first.scale}

    def judge(self, outputs):
        verdicts = dict.fromkeys(outputs)
        weights = self.weights.repeat(self.both[0].q.shape[0])[:, None, None]
        for (h, r, ref1, _, lowp1), (_, _, ref2, _, lowp2) in zip(*(each.references() for each in self.both)):
            ref = ref1 - weights[h].double() * ref2
            lowp = (lowp1.float() - weights[h] * lowp2.float()).to(self.dtype)
            for side, (o, _) in outputs.items():
                verdicts[side] = verdicts[side] or judge(o.flatten(0, 1)[h, r], ref, lowp, self.dtype)
        return verdicts

    def peers(self, names):
        return {}


class Linear:
    """Causal linear attention; inputs are N(0, 1)."""

    entries = ("linear_attention",)

    def __init__(self, batch, heads, rows, dim, v_dim, dtype, seed=1):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        self.dtype, self.scale = DTYPES[dtype], 1 / math.sqrt(dim)
        self.q, self.k = (normal((batch, heads, rows, dim), self.dtype, generator) for _ in range(2))
        self.v = normal((batch, heads, rows, v_dim), self.dtype, generator)

    @classmethod
    def of(cls, case):
        return cls(case.batch, case.heads, case.seq, case.dim, case.v_dim, case.dtype)

    @classmethod
    def ragged(cls, case):
        return [cls(*shape, case.dim, case.v_dim, case.dtype) for shape in RAGGED_LINEAR]

    def outputs(self):
        return unwritten(self.v), None

    def arguments(self, o, _=None):
        return {"q": self.q, "k": self.k, "v": self.v, "o": o, "state_in": None, "state_out": None,
                "scale": self.scale}

    def evaluate(self, kind):
        """O in f64, or in f32 with P and the state rounded as in the kernels, computed in chunks."""
        def rounded(x):
            return x.to(self.dtype).float() if kind == torch.float32 else x

        q, k, v = (x.flatten(0, 1) for x in (self.q, self.k, self.v))
        state = torch.zeros(q.shape[0], q.shape[2], v.shape[2], dtype=kind, device=DEVICE)
        out = torch.empty(v.shape, dtype=kind, device=DEVICE)
        for begin in range(0, q.shape[1], TILE_ROWS):
            rows = slice(begin, begin + TILE_ROWS)
            q_here, k_here, v_here = (x[:, rows].to(kind) for x in (q, k, v))
            p = rounded((q_here @ k_here.mT).tril())
            out[:, rows] = self.scale * (q_here @ rounded(state) + p @ v_here)
            state += k_here.mT @ v_here
        return rounded(out)

    def judge(self, outputs):
        ref, lowp = self.evaluate(torch.float64), self.evaluate(torch.float32)
        return {side: judge(o.flatten(0, 1), ref, lowp, self.dtype) for side, (o, _) in outputs.items()}

    def peers(self, names):
        return {}


class Swiglu:
    """silu(X W_gate) * (X W_up) with X of N(0, 1); the weights are scaled so that the products have variance 1."""

    entries = ("swiglu",)

    def __init__(self, rows, columns, depth, transposed, dtype, seed=1):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        self.dtype, self.transposed = DTYPES[dtype], transposed
        self.x = normal((rows, depth), self.dtype, generator)
        shape = (columns, depth) if transposed else (depth, columns)
        self.w_gate, self.w_up = (normal(shape, self.dtype, generator) / math.sqrt(depth) for _ in range(2))

    @classmethod
    def of(cls, case):
        return cls(case.seq, case.v_dim, case.dim, case.transposed, case.dtype)

    @classmethod
    def ragged(cls, case):
        return [cls(*shape, case.transposed, case.dtype) for shape in RAGGED_MATMUL]

    def outputs(self):
        columns = self.w_gate.shape[0 if self.transposed else 1]
        return torch.full((self.x.shape[0], columns), math.nan, dtype=self.dtype, device=DEVICE), None

    def arguments(self, y, _=None):
        """The arguments of kernels/swiglu.mlir."""
        return {"x": self.x, "w_gate": self.w_gate, "w_up": self.w_up, "y": y}

    def evaluate(self, kind):
        x, gate, up = (a.to(kind) for a in (self.x, self.w_gate, self.w_up))
        if self.transposed:
            gate, up = gate.mT, up.mT
        return torch.nn.functional.silu(x @ gate) * (x @ up)

    def judge(self, outputs):
        ref, lowp = self.evaluate(torch.float64)[None], self.evaluate(torch.float32).to(self.dtype)[None]
        return {side: judge(y[None], ref, lowp, self.dtype) for side, (y, _) in outputs.items()}

    def peers(self, names):
        """Two products and the elementwise operations, executed one after the other."""
        return {"torch": lambda: self.evaluate(self.dtype)} if "torch" in names else {}


PROBLEMS = {"forward": Attention, "backward": Backward, "both": Training, "matmul": Matmul,
            "differential": Differential, "linear": Linear, "swiglu": Swiglu}
RAGGED_ATTENTION = [(2, 4, 2, 256, 256), (1, 3, 3, 113, 203), (2, 2, 1, 300, 140), (1, 2, 2, 1, 64)]  # B Hq Hkv Sq Skv
RAGGED_MATMUL = [(256, 128, 64), (129, 72, 200), (300, 264, 8)]  # rows columns depth
RAGGED_LINEAR = [(2, 3, 256), (1, 2, 333), (1, 1, 1)]  # B H S


def ragged(case):
    """Small problems whose rows, keys and heads are not multiples of any tile."""
    if case.operation == "matmul":
        return [Matmul(*shape, case.dtype) for shape in RAGGED_MATMUL]
    if case.operation in ("differential", "linear", "swiglu"):
        return PROBLEMS[case.form].ragged(case)
    return [PROBLEMS[case.form](*shape, case.dim, case.causal, case.dtype, case.mod, case.window)
            for shape in RAGGED_ATTENTION]
