# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Context parallelism: attention whose rows are distributed over the processes of a group, each with a GPU.

    context = tilewright.context_parallel(mesh["context"])        # or a process group
    q, k, v = (context.shard(x, 2) for x in (q, k, v))            # the rows of this process, [batch, heads, rows, width]
    o = context.attention(q, k, v, causal=True)                   # all arguments of tilewright.attention
    with context, tilewright.use_for_sdpa():
        model(context.shard(tokens, 1))                           # attention of a model: also tilewright.attention and flash_attn's

docs/scale.md compares the methods.
"""

import types
import zlib

import torch
import torch.distributed as dist

from tilewright import checks, features, interpreter, parallel, shares
from tilewright import torch as operator
from tilewright.exchange import Group
from tilewright.ops import named_values
from tilewright.registration import hidden

__all__ = ["context_parallel"]

METHODS = ("auto", "heads", "ring", "all_gather", "2d")
PIECES = 3  # of an exchange of heads


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, reduced, q, k, v, *tensors):
        o, lse, saved = parallel.forward(call, q, k, v, dict(call.numbers) | dict(zip(call.names, tensors)))
        ctx.call, ctx.reduced, ctx.sizes = call, reduced, [len(piece) for piece in saved]
        ctx.likes = [parallel.like(x)[:2] for x in (q, k, v)]
        ctx.save_for_backward(*(x for piece in saved for x in piece), *tensors)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, do, dlse):
        call, tensors = ctx.call, list(ctx.saved_tensors)
        saved = [[tensors.pop(0) for _ in range(size)] for size in ctx.sizes]
        some = saved[0][0]
        likes = [parallel.Like(*each, some) for each in ctx.likes]
        wanted = [name for name, needs in zip(call.names, ctx.needs_input_grad[5:]) if needs]
        if do is None:
            do = likes[0].zeros(some.dtype)[..., :1].expand(*likes[0].shape[:3], likes[2].shape[3])
        if call.wants_lse:  # on all ranks alike
            dlse = do.new_zeros(do.shape[:3], dtype=parallel.sum_type(do)) if dlse is None else dlse
        else:
            dlse = None
        more = dict(call.numbers) | dict(zip(call.names, tensors))
        dq, dk, dv, captured = parallel.backward(call, do, dlse, saved, more, wanted, likes)
        for name in wanted:
            total = captured.get(name)
            total = torch.zeros_like(more[name], dtype=parallel.sum_type(more[name])) if total is None else total
            if ctx.reduced:
                with call.group.errors("add gradients of captures"):
                    dist.all_reduce(total, group=call.group.group)
            captured[name] = total.to(more[name].dtype)
        return (None, None, dq, dk, dv, *(captured.get(name) for name in call.names))


def _group_of(mesh):
    if mesh is None or isinstance(mesh, dist.ProcessGroup):
        return Group(mesh)
    if hasattr(mesh, "get_group") and mesh.ndim == 1:
        return Group(mesh.get_group())
    raise ValueError("mesh must be a DeviceMesh of one dimension, a process group or None, but got "
                     f"{f'one of {mesh.ndim} dimensions; flatten it' if hasattr(mesh, 'ndim') else checks.shown(mesh)}")


class context_parallel:
    """Distributes the rows of attention over the processes of a group: each has a share of the rows of q, k and v, as `shard`
    gives it, and gets those of O. Results and gradients are those of one process with all rows, in all features.

    mesh      a DeviceMesh of one dimension, a process group, or None: all processes
    method    "heads": ranks exchange heads for rows, and each computes all rows of some heads. All features; the key heads are a
              multiple or a divisor of the ranks, or more than there are ranks
              "ring": keys and values pass from rank to rank, and each rank merges results over them. Any heads; with a window,
              only neighbours exchange. Not with packed sequences and block_mask
              "all_gather": as "ring", but all exchanges start at once, with memory for all keys that a rank needs
              "2d": `heads` ranks next to each other exchange heads, and keys pass between such ranks in a ring
              "auto": "ring" for windows that are short for the exchange of heads, else "heads" where the heads allow it, else "2d"
              or "ring"
    heads     with "2d": how many ranks exchange heads, a divisor of the number of ranks
    order     which rows a rank has: "contiguous", or "zigzag": two ranges, of the beginning and of the end, which is balanced under
              a causal mask. Default: zigzag with "ring", "all_gather" and "2d", else contiguous
    reduce_captures
              sum the gradients of bias, sinks and other captures over the group. Without it, each process has the terms of its
              rows or heads, as it has for the weights of a model
    always_check
              compare the shapes of all processes in each call, instead of when a process has new ones: an exchange and a
              synchronization more
    buffers, buffer_seq_dims, no_restore_buffers
              as for torch.distributed.tensor.experimental.context_parallel: in the `with` statement, these tensors are their shards

    In a `with` statement, tilewright.attention and what calls it (use_for_sdpa, flash_attn's functions, models of transformers)
    take shards. It applies to the whole process.

    Arguments of attention that are no rows (bias, attn_mask, alibi_slopes, sinks, seqused_q, cu_seqlens_q, captures) are those of
    the whole, on all processes; positions are those in the whole. Dropout uses the generator of rank 0. Errors: ValueError for
    arguments, also for shares that `shard` does not give; RuntimeError if another process is lost."""

    def __init__(self, mesh=None, method="auto", *, heads=None, order=None, reduce_captures=False, always_check=False, buffers=(),
                 buffer_seq_dims=(), no_restore_buffers=()):
        self.group = _group_of(mesh)
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, but got {method!r}")
        if order not in (None, *shares.ORDERS):
            raise ValueError(f"order must be one of {', '.join(shares.ORDERS)} or None, but got {order!r}")
        if (method == "2d") != (heads is not None) or heads is not None and (
                checks.integer_of(heads) is None or heads < 1 or self.group.size % heads):
            raise ValueError(f"heads must be given with method '2d' alone, a divisor of the {self.group.size} ranks, but got "
                             f"{checks.shown(heads)} with {method!r}")
        if len(buffers) != len(buffer_seq_dims):
            raise ValueError(f"buffer_seq_dims must have a dimension for each of {len(buffers)} buffers, but got "
                             f"{len(buffer_seq_dims)}")
        self.method, self.heads, self.reduce_captures, self.always_check = method, heads, bool(reduce_captures), bool(always_check)
        self.order = order or ("contiguous" if method in ("auto", "heads") else "zigzag")
        self.buffers, self.dims, self.kept = list(buffers), list(buffer_seq_dims), no_restore_buffers
        self._totals, self._wholes, self._previous = {}, [], []

    def shares(self, rows):
        """The rows of each rank, of so many: a list of lists of ranges (begin, end)."""
        return shares.shares(rows, self.group.size, self.order)

    def shard(self, x, dim):
        """The rows of this process, along a dimension of a tensor that has all of them."""
        spans = self.shares(x.shape[dim])[self.group.rank]
        parts = [x.narrow(dim, begin, end - begin) for begin, end in spans]
        return torch.cat(parts, dim) if len(parts) > 1 else parts[0].contiguous() if parts else x.narrow(dim, 0, 0)

    def unshard(self, x, dim):
        """The tensor of which `shard` gave this process x, on all processes. Without gradient."""
        counts = [sum(row) for row in self.group.gather([x.shape[dim]], x.device)]
        spans = self.shares(sum(counts))
        self._check_shares("x", counts, spans)
        x = x.detach().movedim(dim, 0)
        every = [x.new_empty((max(counts), *x.shape[1:])) for _ in counts]
        own = torch.cat([x, x.new_empty((max(counts) - len(x), *x.shape[1:]))]).contiguous()
        with self.group.errors("gather shards"):
            dist.all_gather(every, own, group=self.group.group)
        result = x.new_empty((sum(counts), *x.shape[1:]))
        for part, own_spans in zip(every, spans):
            at = 0
            for begin, end in own_spans:
                result[begin:end] = part[at:at + end - begin]
                at += end - begin
        return result.movedim(0, dim)

    def __enter__(self):
        self._previous.append(operator.set_context(self))
        if len(self._previous) == 1:
            self._wholes = [x.detach().clone() for x in self.buffers]
            for x, whole, dim in zip(self.buffers, self._wholes, self.dims):
                self._replace(x, self.shard(whole, dim))
        return self

    def __exit__(self, *error):
        operator.set_context(self._previous.pop())
        if not self._previous:
            for x, whole in zip(self.buffers, self._wholes):
                if not any(x is kept for kept in self.kept):
                    self._replace(x, whole)
            self._wholes = []

    @staticmethod
    @torch.no_grad()
    def _replace(x, content):
        x.resize_(content.shape).copy_(content)

    def attention(self, q, k, v, **options):
        """tilewright.attention, with all its arguments, of the rows of this process."""
        previous = operator.set_context(self)
        try:
            return operator.attention(q, k, v, **options)
        finally:
            operator.set_context(previous)

    def _check_shares(self, name, counts, spans):
        wanted = [shares.rows_of(own) for own in spans]
        if counts != wanted:
            raise ValueError(f"{name} must have the rows that context_parallel.shard gives each rank, {wanted} of {sum(counts)} in "
                             f"the order '{self.order}', but got {counts}")

    def _totals_of(self, q, k, about):
        """The rows and keys of all ranks together, and their spans. Compares what all ranks call."""
        key = (q.shape[2], k.shape[2], about)
        if key not in self._totals or self.always_check:
            every = self.group.gather([q.shape[2], k.shape[2], zlib.crc32(repr(about).encode())], q.device)
            others = [rank for rank, (*_, code) in enumerate(every) if code != every[self.group.rank][2]]
            if others:
                raise ValueError("attention of a context_parallel must have the same arguments on all ranks, but got others on rank "
                                 f"{others[0]} than on {self.group.rank}; q {list(q.shape)}, k {list(k.shape)} of {q.dtype}")
            result = []
            for name, counts in zip(("q", "k"), zip(*(row[:2] for row in every))):
                spans = self.shares(sum(counts))
                self._check_shares(name, list(counts), spans)
                result += [sum(counts), tuple(spans)]
            self._totals[key] = result
        return self._totals[key]

    def _choose(self, q_heads, k_heads, band, keys, needs_heads):
        """The method, and how many ranks exchange heads."""
        size = self.group.size
        if self.method != "auto":
            return self.method, {"heads": size, "2d": self.heads}.get(self.method, 1)
        has_heads = k_heads >= size or k_heads and size % k_heads == 0 and q_heads >= size
        # Beyond a share, keys of the window come from the neighbours; the exchange of heads moves all rows.
        reach = sum(side for side in band if side > 0)
        if not needs_heads and min(band) >= 0 and 2 * reach * size <= keys:
            return "ring", 1
        if has_heads or needs_heads:
            return "heads", size
        fit = max(n for n in range(1, size + 1) if size % n == 0 and k_heads % n == 0)
        return ("2d", fit) if fit > 1 else ("ring", 1)

    def call(self, *arguments):
        """Called by tilewright.attention. torch.compile does not trace it."""
        return _call(self, *arguments)

    def _call(self, q, k, v, scale, return_lse, deterministic, packing, options):
        is_packed = packing[0] is not None
        devices = ("cuda",) if interpreter.device() is None else ("cuda", "cpu")
        checks.check_arrays(*(operator._array(name, x) for name, x in zip("qkv", (q, k, v))), is_packed, devices)
        packed = features.packed_of(*packing, q.device)
        if is_packed:
            q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        mode, band = checks.causal_mode(options["causal"]), checks.window_of(options["window"])
        about = (q.shape[:2], q.shape[3], k.shape[1], v.shape[3], str(q.dtype), mode, band, self.method, self.heads, self.order,
                 bool(return_lse), is_packed, tuple(sorted(name for name, x in options.items() if x is not None)))
        rows, row_spans, keys, key_spans = self._totals_of(q, k, about)
        whole = [types.SimpleNamespace(shape=(*x.shape[:2], n, x.shape[3]), device=q.device) for x, n in ((q, rows), (k, keys))]
        if is_packed:
            whole = [types.SimpleNamespace(shape=(x.shape[2], x.shape[1], x.shape[3]), device=q.device) for x in whole]
        asked, mode, left, right = operator.described(features.Shape(*whole, packed), q.dtype, **options)
        if "dropout_seed" in asked.captures:
            for name in ("dropout_seed", "dropout_offset"):
                self.group.broadcast(asked.captures[name])
        band = shares.band_of(mode != "none", left, right, 0)
        method, heads_size = self._choose(q.shape[1], k.shape[1], band[:2], keys, is_packed or bool(asked.lists))
        if (is_packed or asked.lists) and heads_size != self.group.size:
            raise ValueError(f"{'packed sequences' if is_packed else 'block_mask'} must have method 'heads', which computes all rows "
                             f"of a head in one place, but got {method!r}")
        modifier, tensors, floats, integers, names = asked.arguments()
        more = named_values(tensors, floats, integers, names)
        tensor_names = tuple(name for name in more if isinstance(more[name], torch.Tensor))
        if heads_size != self.group.size and any(more[name].requires_grad for name in tensor_names):
            self._check_sinks(modifier)
        if deterministic is None:
            deterministic = torch.are_deterministic_algorithms_enabled()
        call = parallel.Call(
            self.group, heads_size, method == "all_gather", PIECES if method == "heads" else 1, row_spans, key_spans,
            tuple(shares.head_shares(q.shape[1], k.shape[1], heads_size)), mode, left, right,
            keys - rows if mode == "bottom_right" else 0, checks.scale_of(scale, q.shape[-1]), modifier, is_packed, tensor_names,
            tuple((name, x) for name, x in more.items() if name not in tensor_names), bool(deterministic), bool(return_lse))
        o, lse = _Attention.apply(call, self.reduce_captures, q, k, v, *(more[name] for name in tensor_names))
        if is_packed:
            o, lse = o[0].transpose(0, 1), lse[0]
        return (o, lse) if return_lse else o

    def _check_sinks(self, modifier):
        """In a ring, each launch would add the gradient of a sink; that of mods/sink.mlir is computed once."""
        for file in checks.modifier_files(modifier):
            if not file.endswith("mods/sink.mlir"):
                with open(file, encoding="utf-8") as text:
                    if "@sink(" in text.read():
                        raise ValueError(f"a modifier that replaces @sink must have method 'heads' where captures require gradients, but "
                                         f"got {file} with {self.method!r}; use the argument sinks, or detach the captures")


_call = hidden(context_parallel._call)
