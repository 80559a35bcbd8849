# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maps the optional arguments of attention (bias, softcap, dropout, ...) to files of kernels/mods and their captures."""

import torch

from tilewright import checks
from tilewright.checks import shown
from tilewright.links import Links, check_bias_type, check_heads, missing_dims
from tilewright.tensors import check_dense, check_device, check_integers


class Shape:
    """The sizes of a call: batches (or packed sequences), heads, queries and keys. For packed sequences, the numbers of
    queries and keys are None."""

    def __init__(self, q, k, packed):
        self.is_packed = packed is not None
        self.batch = packed["cu_seqlens_q"].shape[0] - 1 if self.is_packed else q.shape[0]
        self.heads = q.shape[-2] if self.is_packed else q.shape[1]
        self.queries, self.keys = (None, None) if self.is_packed else (q.shape[2], k.shape[2])
        self.packed = packed
        self.device = q.device
        self.used = None  # (queries, keys), i32 for each batch, if not all rows are used

    def has_shift(self):
        """Whether a sequence may have different numbers of queries and keys, so that the diagonal from its bottom right
        corner is not the diagonal from its top left corner."""
        if self.used:
            return self.used[0] is not self.used[1]
        if self.is_packed:
            return self.packed["cu_seqlens_q"] is not self.packed["cu_seqlens_k"]
        return self.keys != self.queries

    def shift(self):
        """Returns the number of keys minus the number of queries of each batch, a tensor [batch] of int32."""
        if self.used or self.is_packed:
            queries, keys = self.used or (self.rows("q"), self.rows("k"))
            return keys - queries
        return self._same_for_all(self.keys - self.queries)

    def no_shift(self):
        """Returns zeros in the form of the result of `shift`."""
        return self._same_for_all(0)

    def rows(self, of):
        """Returns the number of queries ("q") or keys ("k") of each batch, a tensor [batch] of int32."""
        if self.is_packed:
            return self.packed[f"cu_seqlens_{of}"].diff()
        return self._same_for_all(self.queries if of == "q" else self.keys)

    def key_heads_of_lists(self):
        """Returns how many heads keys have, if lists of blocks may be theirs; else None."""
        return None

    def _same_for_all(self, number):
        return torch.full((1,), number, dtype=torch.int32, device=self.device).expand(self.batch)


def is_length(x):
    """Whether x is an integer. A tensor is not read, so that one on a device costs nothing."""
    if isinstance(x, torch.Tensor):
        return x.dim() == 0 and not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    return isinstance(x, torch.SymInt) or checks.integer_of(x) is not None


def packed_of(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, device):
    """Returns the kernel arguments for packed sequences, {name: tensor}, or None if the call has no packed sequences.
    Arguments for keys may be omitted if they equal those for queries. The types of the maximum lengths are checked, but
    the kernels do not use the lengths. Raises ValueError for invalid arguments."""
    given = {"cu_seqlens_k": cu_seqlens_k, "max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
    if cu_seqlens_q is None:
        extra = [name for name, x in given.items() if x is not None]
        if extra:
            raise ValueError(f"cu_seqlens_q must be given with {', '.join(extra)}")
        return None
    if cu_seqlens_k is None:
        cu_seqlens_k = cu_seqlens_q
        max_seqlen_k = max_seqlen_q if max_seqlen_k is None else max_seqlen_k
    for name, x in ("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k):
        check_integers(name, x, device, ("sequences + 1",))
    if cu_seqlens_q.shape[0] < 1 or cu_seqlens_k.shape[0] != cu_seqlens_q.shape[0]:
        raise ValueError("cu_seqlens_q and cu_seqlens_k must have one element more than there are sequences, but got "
                         f"{cu_seqlens_q.shape[0]} and {cu_seqlens_k.shape[0]}")
    for name, x in ("max_seqlen_q", max_seqlen_q), ("max_seqlen_k", max_seqlen_k):
        if not is_length(x):
            raise ValueError(f"{name} must be an integer, the length of the longest sequence or more, but got {shown(x)}")
    return {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}


def _pairs_of(name, x, shape):
    """Returns x as a tensor with the four dimensions [B, Hq, Sq, Skv], of which each may have the extent 1."""
    return x[(None,) * missing_dims(name, x.shape, (shape.batch, shape.heads, shape.queries, shape.keys))]


def _per_head(name, x, shape, rank):
    """Returns x, a tensor [Hq] or, if `rank` is 2, also [B, Hq], converted to f32. Raises ValueError for other shapes."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        raise ValueError(f"{name} must be a tensor of floats, one for each head, but got {shown(x)}")
    check_dense(name, x)
    check_device(name, x, shape.device)
    check_heads(name, x.shape, shape, rank)
    return x.float()


def _joined(counts, indices, more_counts, more_indices):
    """Concatenates two lists of blocks for each block of queries. The valid entries of the first list come first, then
    those of the second, then the unused entries."""
    def valid(counts, indices):
        return torch.arange(indices.shape[-1], device=indices.device) < counts[..., None]

    order = torch.cat([valid(counts, indices), valid(more_counts, more_indices)], -1).to(torch.uint8)
    order = order.argsort(dim=-1, descending=True, stable=True)
    return counts + more_counts, torch.cat([indices, more_indices], -1).gather(-1, order)


def _lists_of(mask):
    """Returns the counts, indices and block sizes of a block mask: a BlockMask of FlexAttention, or a tuple."""
    if hasattr(mask, "kv_num_blocks") and hasattr(mask, "kv_indices"):
        modifier = getattr(mask, "mask_mod", None)
        name = getattr(modifier, "__name__", str(modifier))
        remedy = ("set its mask_mod to torch.nn.attention.flex_attention.noop_mask, and give the mask within blocks by causal, "
                  "window, attn_mask or modifier")
        if name == "_sliced_mask_mod_error":
            raise ValueError("block_mask must not be a slice of a BlockMask as it is, whose mask_mod PyTorch replaces by one that "
                             f"raises: its lists are right; {remedy}, where there is one")
        if modifier is not None and name != "noop_mask":
            raise ValueError(f"block_mask must not have a mask_mod, which no kernel can apply, but got {name!r}; {remedy}")
        lists = mask.kv_num_blocks, mask.kv_indices
        if getattr(mask, "full_kv_num_blocks", None) is not None:
            lists = _joined(*lists, mask.full_kv_num_blocks, mask.full_kv_indices)
        return *lists, checks.sizes_of(mask.BLOCK_SIZE)
    if not isinstance(mask, (tuple, list)) or len(mask) not in (2, 3):
        raise ValueError("block_mask must be a BlockMask of FlexAttention, or (kv_num_blocks, kv_indices), or "
                         f"(kv_num_blocks, kv_indices, block size), but got {shown(mask)}")
    return mask[0], mask[1], checks.sizes_of(mask[2] if len(mask) == 3 else 128)


class Features(Links):
    """The modifier files that a call of attention links, in link order, and the values of their captures."""

    def __init__(self, shape, dtype):
        super().__init__(shape)
        self.dtype = dtype
        self.lists = {}  # lists of blocks: kernel arguments by name, and block sizes

    def for_all(self, per_head):
        return per_head.expand(self.shape.batch, self.shape.heads)

    def capture_of(self, name, value):
        device = None
        if isinstance(value, torch.Tensor):
            check_dense(f"capture '{name}'", value)
            device = str(value.device)
        return checks.capture_of(name, value, device, str(self.shape.device))

    def add_bias(self, name, bias):
        check_dense(name, bias)
        check_bias_type(name, bias.dtype, self.dtype, "to")
        check_device(name, bias, self.shape.device)
        self.link_bias(_pairs_of(name, bias, self.shape))

    def add_mask(self, mask):
        """Adds attn_mask with PyTorch's semantics: True keeps a pair, floats are added to the scores."""
        check_dense("attn_mask", mask)
        if mask.dtype == torch.bool:
            check_device("attn_mask", mask, self.shape.device)
            self.link_mask(_pairs_of("attn_mask", mask, self.shape))
        elif "bias" in self.captures:
            raise ValueError("attn_mask must be of bool where there is a bias, but got "
                             f"{shown(mask)}; add the two")
        else:
            self.add_bias("attn_mask", mask)

    def add_tree_bits(self, bits):
        """Bits of which of the last keys, as many as queries, a query attends; all before them are."""
        queries = self.shape.queries
        check_integers("tree_bits", bits, self.shape.device, (self.shape.batch, queries, "words"))
        if 32 * bits.shape[2] < queries:
            raise ValueError(f"tree_bits must have a bit for each of the {queries} queries, in words of 32, but got {bits.shape[2]}")
        self.link("tree_bits", tree_bits=bits, tree_begin=self.shape.shift())

    def add_chunks(self, size, queries, leftpad):
        """Keeps pairs in one chunk of `size` positions, of which the last query has that of the last key. Positions count from key
        leftpad [B], or 0. For calls without a backward, of at most so many queries of a sequence."""
        size = min(size, 2**30)  # positions are of i32
        first = 0 if leftpad is None else leftpad[:, None]
        positions = torch.arange(queries, dtype=torch.int32, device=self.shape.device) + self.shape.shift()[:, None] - first
        begin = positions - positions.remainder(size) + first
        unused = begin.new_zeros(1, 1).expand(begin.shape[0], 1)  # the inverse, which a forward does not read
        self.link("spans", key_begin=begin, key_end=begin + size, query_begin=unused, query_end=unused)

    def add_alibi(self, slopes, from_corner):
        self.link_alibi(_per_head("alibi_slopes", slopes, self.shape, 2), from_corner)

    def add_used_lengths(self, seqused_q, seqused_k):
        """Adds seqused_q, seqused_k, or both; if one is None, all rows of that side are used. Call it before add_alibi
        and add_window, since used lengths move the bottom right corner."""
        for name, x in ("seqused_q", seqused_q), ("seqused_k", seqused_k):
            if x is not None:
                check_integers(name, x, self.shape.device, (self.shape.batch,))
        given = seqused_q, seqused_k
        self.link_used_lengths(*(self.shape.rows(of) if x is None else x for of, x in zip("qk", given)))

    def add_dropout(self, p, generator):
        """Draws the seed and the offset as tensors on the device of q. A replayed CUDA graph then draws new ones, and the
        backward reads those of its forward."""
        if generator is not None and not isinstance(generator, torch.Generator):
            raise ValueError(f"generator must be a torch.Generator, but got {shown(generator)}")
        if generator is not None and generator.device.type != self.shape.device.type:
            raise ValueError(f"generator must be on the device of q, {self.shape.device}, but got {generator.device}")
        drawn = torch.randint(0, 2**62, (2,), dtype=torch.int64, device=self.shape.device, generator=generator)
        self.link_dropout(p, drawn[:1], drawn[1:])

    def add_block_mask(self, mask):
        counts, indices, sizes = _lists_of(mask)
        extents = ("batch", "heads", "blocks of queries", "blocks of keys")
        check_integers("kv_num_blocks of block_mask", counts, self.shape.device, extents[:3])
        check_integers("kv_indices of block_mask", indices, self.shape.device, extents)
        rows = counts.shape[2] if self.shape.is_packed else -(-self.shape.queries // sizes[0])
        wanted = (self.shape.batch, self.shape.heads, rows)
        key_heads = self.shape.key_heads_of_lists()
        if counts.shape[2] != rows or counts.shape[0] not in (1, wanted[0]) or counts.shape[1] not in (1, wanted[1], key_heads):
            raise ValueError(f"kv_num_blocks of block_mask must have extents of {list(wanted)}, or 1 for batches and heads, "
                             + (f"or {key_heads} for heads, " if key_heads else "")
                             + f"with blocks of {sizes[0]} queries, but got shape {list(counts.shape)}")
        if indices.shape[:3] != counts.shape:
            raise ValueError("kv_indices of block_mask must have the shape of kv_num_blocks and a dimension more, but got "
                             f"{list(indices.shape)} and {list(counts.shape)}")
        self.lists = {"kv_indices": indices, "kv_num_blocks": counts, "LIST_BLOCK_M": sizes[0], "LIST_BLOCK_N": sizes[1]}

    def add_sinks(self, sinks):
        self.link_sinks(_per_head("sinks", sinks, self.shape, 1))

    def arguments(self):
        """The modifier, tensors, floats, integers and names that the operators of tilewright.ops take."""
        by_kind = {"tensors": {}, "floats": {}, "integers": {}}
        for name, value in {**self.captures, **(self.shape.packed or {}), **self.lists}.items():
            kind = "tensors" if isinstance(value, torch.Tensor) else "floats" if isinstance(value, float) else "integers"
            by_kind[kind][name] = value
        tensors, floats, integers = by_kind.values()
        names = ",".join([*tensors, *floats, *integers])
        return (checks.SEPARATOR.join(self.files), list(tensors.values()), [*floats.values(), 0.0], [*integers.values(), 0],
                names)
