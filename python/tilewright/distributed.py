# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Context parallelism: attention whose rows are distributed over the processes of a group, each with a GPU.

    context = tilewright.context_parallel(mesh["context"])        # or a process group
    q, k, v = (context.shard(x, 2) for x in (q, k, v))            # the rows of this process, [batch, heads, rows, width]
    o = context.attention(q, k, v, causal=True)                   # all arguments of tilewright.attention
    with context, tilewright.use_for_sdpa():
        model(context.shard(tokens, 1))                           # attention of a model: also tilewright.attention and flash_attn's

docs/scale.md compares the methods.
"""

import collections
import types
import weakref
import zlib

import torch
import torch.distributed as dist

from tilewright import checks, context_plan, features, interpreter, launches, parallel, shares
from tilewright import torch as operator
from tilewright.context_cost import Rates
from tilewright.context_choice import Chooser, topology_of
from tilewright.exchange import Group
from tilewright.ops import named_values, sum_type
from tilewright.registration import hidden

__all__ = ["context_parallel"]

METHODS = ("auto", "heads", "ring", "all_gather", "2d")
PIECES = 3  # of an exchange of heads
LAYOUTS = 64  # that a context keeps: packed sequences may have others in each step


HEADS_FIRST, ROWS_FIRST, ANY = range(3)


def _memory_order(x):
    """How [batch, heads, rows, width] is in memory. Strides of ranks with one row, or none, do not say."""
    if x.shape[2] <= 1 or x.shape[0] * x.shape[1] <= 1:
        return ANY
    return ROWS_FIRST if x.permute(2, 0, 1, 3).is_contiguous() else HEADS_FIRST


def _check_blocks(sizes, *spans):
    """Raises ValueError unless all ranks have whole blocks of lists; the last block of all may be short."""
    for name, each, of in zip(("queries", "keys"), sizes, spans):
        total = max((end for own in of for _, end in own), default=0)
        if any(begin % each or end % each and end != total for own in of for begin, end in own):
            raise ValueError(f"the rows of each rank must be whole blocks of block_mask, of {each} {name}, but got {list(of)}; use method "
                             "'heads', or more rows")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, reduced, q, k, v, *tensors):
        o, lse, saved = parallel.forward(call, q, k, v, dict(call.numbers) | dict(zip(call.names, tensors)))
        ctx.call, ctx.reduced, ctx.sizes = call, reduced, [len(piece) for piece in saved]
        ctx.likes = [launches.like(x)[:2] for x in (q, k, v)]
        ctx.save_for_backward(*(x for piece in saved for x in piece), *tensors)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, do, dlse):
        call, tensors = ctx.call, list(ctx.saved_tensors)
        saved = [[tensors.pop(0) for _ in range(size)] for size in ctx.sizes]
        some = saved[0][0]
        likes = [launches.Like(*each, some) for each in ctx.likes]
        wanted = [name for name, needs in zip(call.names, ctx.needs_input_grad[5:]) if needs]
        if do is None:
            do = likes[0].zeros(some.dtype)[..., :1].expand(*likes[0].shape[:3], likes[2].shape[3])
        if call.wants_lse:  # on all ranks alike
            dlse = do.new_zeros(do.shape[:3], dtype=sum_type(do)) if dlse is None else dlse
        else:
            dlse = None
        more = dict(call.numbers) | dict(zip(call.names, tensors))
        dq, dk, dv, captured = parallel.backward(call, do, dlse, saved, more, wanted, likes)
        for name in wanted:
            total = captured.get(name)
            total = torch.zeros_like(more[name], dtype=sum_type(more[name])) if total is None else total
            if ctx.reduced:
                with call.layout.group.errors("add gradients of captures"):
                    dist.all_reduce(total, group=call.layout.group.group)
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
              "ring": keys and values pass from rank to rank, and each rank continues the softmax over them. Any heads; with a window,
              only neighbours exchange. Shares must be whole blocks of a block_mask; not with one of packed sequences
              "all_gather": each rank gets all keys and values that its rows need, in pieces of heads, and computes its rows at once;
              shares as in a ring
              "2d": `heads` ranks next to each other exchange heads, and keys pass between such ranks in a ring
              "auto": what context_plan.plan predicts to be fastest for the shapes of a call and the order of rows. For packed
              sequences and block_mask, "heads" where the heads allow it, else "2d" or "ring"
              a Plan of context_plan.plan, for as many ranks: its method, its heads, and the rows that it gives each rank
    heads     with "2d": how many ranks exchange heads, a divisor of the number of ranks
    order     which rows a rank has: "contiguous", or "zigzag": two ranges, of the beginning and of the end, which is balanced under
              a causal mask. Default: zigzag with "ring", "all_gather" and "2d", else contiguous
    topology, rates, memory, training
              for "auto": a context_cost.Topology and Rates, where the GPUs and links are not those of docs/scale.md; the bytes that
              a rank has for attention; and whether the backward counts. The default topology has the ranks of a node that the
              environment of torchrun says. The same on all ranks
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

    def __init__(self, mesh=None, method="auto", *, heads=None, order=None, topology=None, rates=None, memory=None, training=True,
                 reduce_captures=False, always_check=False, buffers=(), buffer_seq_dims=(), no_restore_buffers=()):
        self.group, self.followed = _group_of(mesh), method if isinstance(method, context_plan.Plan) else None
        if self.followed:
            if method.ranks != self.group.size or heads is not None or order is not None:
                raise ValueError(f"a plan must be for the {self.group.size} ranks, without heads and order, but got one for {method.ranks}"
                                 + (f" with {'heads' if order is None else 'order'}" if heads or order else ""))
            method, heads, order = method.method, method.heads if method.method == "2d" else None, method.shares
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, or a plan, but got {method!r}")
        if order not in (None, *shares.ORDERS) and not self.followed:
            raise ValueError(f"order must be one of {', '.join(shares.ORDERS)} or None, but got {order!r}")
        if (method == "2d") != (heads is not None) or heads is not None and (
                checks.integer_of(heads) is None or heads < 1 or self.group.size % heads):
            raise ValueError(f"heads must be given with method '2d' alone, a divisor of the {self.group.size} ranks, but got "
                             f"{checks.shown(heads)} with {method!r}")
        if len(buffers) != len(buffer_seq_dims):
            raise ValueError(f"buffer_seq_dims must have a dimension for each of {len(buffers)} buffers, but got "
                             f"{len(buffer_seq_dims)}")
        self.method, self.heads, self.reduce_captures, self.always_check = method, heads, bool(reduce_captures), bool(always_check)
        self.inner = self.followed.inner if self.followed else "heads"
        self.order = order or ("contiguous" if method in ("auto", "heads") else "zigzag")
        self.chooser = Chooser(self.group.size, self.order, topology or topology_of(self.group), rates or Rates(), memory, training)
        self.last_plan, self.last_layout = self.followed, None  # of the last call: None where no plan was made
        self._reason = f"{method}, as given"
        self.buffers, self.dims, self.kept = list(buffers), list(buffer_seq_dims), no_restore_buffers
        self._known, self._by_count, self._ambiguous = {}, {}, set()  # numbers of rows
        self._totals, self._wholes, self._previous, self._starts, self._layouts = {}, [], [], {}, collections.OrderedDict()

    def plan(self, lengths, heads, key_heads=None, dim=128, value_dim=None, **options):
        """The context_plan.plan of a call on these ranks, with the topology, rates, memory and training of this context, unless
        `options` have others. With method "auto", a call follows that for its shapes and the order of this context."""
        return self.chooser.plan(lengths, heads, key_heads, dim, value_dim, **options)

    def explain(self):
        """What the last call did, in lines of text: the reason for its method, and what this rank exchanged and computed."""
        if self.last_layout is None:
            return "no call yet"
        return f"{self.last_plan.reason if self.last_plan else self._reason}\n{self.last_layout.describe()}"

    def shares(self, rows):
        """The rows of each rank, of so many: a list of lists of ranges (begin, end)."""
        size, plan = self.group.size, self.followed
        if rows in self._known:
            return self._known[rows]
        if self.order == "balanced":
            ranges = next((each for each in (plan.row_ranges, plan.key_ranges) if sum(b - a for own in each for a, b in own) == rows), None)
            if ranges is None:
                raise ValueError(f"rows must be as many as those of the plan, {sum(b - a for own in plan.row_ranges for a, b in own)}, but "
                                 f"got {rows}")
            parts = [shares.moved([part], own[0][0]) for own in ranges for part in shares.split(own[0][1] - own[0][0], size // plan.ring)]
            spans = [shares.united(part) for part in parts]
        else:
            spans = shares.shares(rows, size, self.order)
        if self.inner == "ring":
            spans = [spans[plan.ring_rank(rank) * plan.heads + plan.head_rank(rank)] for rank in range(size)]
        self._remember(rows, spans)
        return spans

    def _remember(self, rows, spans):
        """Keeps the shares of so many rows. Where a rank has as many rows of two numbers, it cannot tell them apart."""
        self._known[rows] = spans
        for rank, own in enumerate(spans):
            same = self._by_count.setdefault((rank, shares.rows_of(own)), set())
            same.add(rows)
            if len(same) > 1:
                self._ambiguous |= same

    def _is_ambiguous(self, count):
        """Whether all ranks must compare what they have, since some rank may have as many rows of another number; the same on all."""
        return not self._ambiguous.isdisjoint(self._by_count.get((self.group.rank, count), ()))

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
        """The rows and keys of all ranks together, their spans, and whether all ranks have keys with rows first in memory. Compares
        what all ranks call."""
        order = _memory_order(k)
        key = (q.shape[2], k.shape[2], order, about)
        if key not in self._totals or self.always_check or self._is_ambiguous(q.shape[2]) or self._is_ambiguous(k.shape[2]):
            every = self.group.gather([q.shape[2], k.shape[2], order, zlib.crc32(repr(about).encode())], q.device)
            others = [rank for rank, (*_, code) in enumerate(every) if code != every[self.group.rank][3]]
            if others:
                raise ValueError("attention of a context_parallel must have the same arguments on all ranks, but got others on rank "
                                 f"{others[0]} than on {self.group.rank}; q {list(q.shape)}, k {list(k.shape)} of {q.dtype}")
            result = []
            for name, counts in zip(("q", "k"), zip(*(row[:2] for row in every))):
                spans = self.shares(sum(counts))
                self._check_shares(name, list(counts), spans)
                result += [sum(counts), tuple(spans)]
            orders = {row[2] for row in every} - {ANY}
            if len(self._totals) >= LAYOUTS * 4:
                self._totals.clear()  # on all ranks alike
            self._totals[key] = *result, orders == {ROWS_FIRST}
        return self._totals[key]

    def _starts_of(self, name, cu_seqlens):
        """The numbers in cu_seqlens. Those on a GPU are read once, which waits for it, while the tensor lives and is not written."""
        known, version = self._starts.get(id(cu_seqlens)), None if cu_seqlens.is_inference() else cu_seqlens._version
        if version is None or known is None or known[0]() is not cu_seqlens or known[1] != version:
            starts = tuple(cu_seqlens.tolist())
            if starts[0] < 0 or any(end < begin for begin, end in zip(starts, starts[1:])):
                raise ValueError(f"{name} must ascend from a number that is not negative, but got {list(starts[:8])}")
            self._starts = {at: each for at, each in self._starts.items() if each[0]() is not None}
            self._starts[id(cu_seqlens)] = known = weakref.ref(cu_seqlens), version, starts
        return known[2]

    def _choose(self, q, k, v, rows, keys, mode, band):
        """The method of a call of all rows, and how many ranks exchange heads."""
        if self.method != "auto":
            return self._given()
        self.last_plan = self.chooser.choose(q, k, v, rows, keys, mode, band)
        return self.last_plan.method, self.last_plan.heads

    def _given(self):
        return self.method, {"heads": self.group.size, "2d": self.heads}.get(self.method, 1)

    def _choose_by_heads(self, k_heads, q_heads):
        """The same of packed sequences and block_mask: of the former, the plan would depend on their lengths."""
        if self.method != "auto":
            return self._given()
        self.last_plan, size = None, self.group.size
        if k_heads >= size or k_heads and size % k_heads == 0 and q_heads >= size:
            self._reason = f"heads: {k_heads} key heads are a multiple or a divisor of {size} ranks, or more"
            return "heads", size
        fit = max(n for n in range(1, size + 1) if size % n == 0 and k_heads % n == 0)
        self._reason = f"{'2d' if fit > 1 else 'ring'}: {k_heads} key heads are neither a divisor of {size} ranks, nor as many"
        return ("2d", fit) if fit > 1 else ("ring", 1)

    def _layout(self, *key):
        """The layout of calls with these shapes, of which the last ones are kept."""
        found = self._layouts.pop(key, None)
        if found is None:
            method, heads_size, row_spans, key_spans, rows, keys, heads, band, starts, from_corner, fuses, rows_first = key
            documents = [shares.Document((0, rows), (0, keys), band)] if starts is None else shares.documents_of(
                *starts, band.left, band.right, False, from_corner)
            inner = self.inner if method == "2d" else "heads"
            found = launches.Layout(self.group, heads_size, inner, method == "all_gather", PIECES if method == "heads" else 1, row_spans,
                                    key_spans, heads, documents, fuses, rows_first)
        self._layouts[key] = found
        if len(self._layouts) > LAYOUTS:
            self._layouts.popitem(last=False)
        return found

    def call(self, *arguments):
        """Called by tilewright.attention. torch.compile does not trace it."""
        return _call(self, *arguments)

    def _call(self, q, k, v, scale, return_lse, deterministic, packing, options):
        is_packed = packing[0] is not None
        devices = ("cuda",) if interpreter.device() is None else ("cuda", "cpu")
        checks.check_arrays(*(operator._array(name, x) for name, x in zip("qkv", (q, k, v))), is_packed, devices)
        packed = features.packed_of(*packing, q.device)
        by_heads, starts = None, None
        if is_packed or options["block_mask"] is not None:
            by_heads = self._choose_by_heads(k.shape[1], q.shape[1])
        if is_packed:
            q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
            if by_heads[1] != self.group.size:  # the documents that ranks have parts of
                starts = tuple(self._starts_of(name, packed[name]) for name in ("cu_seqlens_q", "cu_seqlens_k"))
        mode, band = checks.causal_mode(options["causal"]), checks.window_of(options["window"])
        about = (q.shape[:2], q.shape[3], k.shape[1], v.shape[3], str(q.dtype), mode, band, self.method, self.heads, self.order,
                 bool(return_lse), is_packed, starts, self.chooser.about,
                 tuple(sorted(name for name, x in options.items() if x is not None)))
        rows, row_spans, keys, key_spans, rows_first = self._totals_of(q, k, about)
        for name, of, count in zip(("cu_seqlens_q", "cu_seqlens_k"), starts or (), (rows, keys)):
            if of[-1] > count:
                raise ValueError(f"{name} must end with at most the {count} rows of all ranks, but got {of[-1]}")
        whole = [types.SimpleNamespace(shape=(*x.shape[:2], n, x.shape[3]), device=q.device) for x, n in ((q, rows), (k, keys))]
        if is_packed:
            whole = [types.SimpleNamespace(shape=(x.shape[2], x.shape[1], x.shape[3]), device=q.device) for x in whole]
        asked, mode, left, right = operator.described(features.Shape(*whole, packed), q.dtype, **options)
        if "dropout_seed" in asked.captures:
            for name in ("dropout_seed", "dropout_offset"):
                self.group.broadcast(asked.captures[name])
        shift = keys - rows if mode == "bottom_right" and not is_packed else 0
        band = shares.band_of(mode != "none", left, right, shift)
        method, heads_size = by_heads or self._choose(q, k, v, rows, keys, mode, (left, right))
        fuses = not asked.arguments()[0] and not asked.lists  # whether positions are nothing but a mask
        if asked.lists and heads_size != self.group.size:
            if is_packed:
                raise ValueError("block_mask of packed sequences must have method 'heads', which computes all rows of a head in one place, "
                                 f"but got {method!r}")
            sizes = asked.lists["LIST_BLOCK_M"], asked.lists["LIST_BLOCK_N"]
            _check_blocks(sizes, row_spans, key_spans)
            band = shares.BlockBand(band, *sizes)
        modifier, tensors, floats, integers, names = asked.arguments()
        more = named_values(tensors, floats, integers, names)
        tensor_names = tuple(name for name in more if isinstance(more[name], torch.Tensor))
        if heads_size != self.group.size and any(more[name].requires_grad for name in tensor_names):
            self._check_sinks(modifier)
        if deterministic is None:
            deterministic = torch.are_deterministic_algorithms_enabled()
        self.last_layout = layout = self._layout(method, heads_size, row_spans, key_spans, rows, keys, (q.shape[1], k.shape[1]), band,
                                                 starts, mode == "bottom_right", fuses, rows_first)
        call = launches.Call(
            layout, mode, left, right, shift, checks.scale_of(scale, q.shape[-1]), modifier, is_packed, tensor_names,
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
