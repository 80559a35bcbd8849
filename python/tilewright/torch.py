# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as an operator of PyTorch, with gradients.

    from tilewright.torch import attention
    o = attention(q, k, v, causal=True)                                          # [batch, heads, rows, width]
    o, lse = attention(q, k, v, window=(255, 0), return_lse=True)
    o = attention(q, k, v, softcap=30.0, bias=bias, sinks=sinks, dropout_p=0.1)   # features can be combined
    o = attention(q, k, v, cu_seqlens_q=starts, max_seqlen_q=longest)             # packed: [rows, heads, width]
    o = attention(q, k, v, modifier="prefix_lm", captures={"prefix_length": n})   # kernels/mods, or a file of your own

tilewright.sdpa offers attention with the arguments of PyTorch's scaled_dot_product_attention, tilewright.flash with those
of flash_attn.

The operators are tilewright::attention and tilewright::attention_backward (tilewright.ops). torch.compile traces them.
CUDA graphs can capture them once a call, or `prepare`, has compiled and loaded their code. They run on the current
stream, with workspaces from PyTorch's allocator.
"""

import torch

from tilewright import checks, features, interpreter, ops, plans
from tilewright.choice import may_take_score_gradient
from tilewright.interpreter import interpret
from tilewright.plans import load_bundle
from tilewright.tensors import check_dense
from tilewright.transforms import check_transforms

__all__ = ["attention", "prepare", "load_bundle", "interpret"]


def autocast(*operands):
    """Converts the operands of a product as torch.autocast does. If autocast is enabled on the device of the first
    operand, tensors of floats other than f64 are converted to the type of autocast; other operands are unchanged."""
    kind = operands[0].device.type if isinstance(operands[0], torch.Tensor) else "meta"
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return operands
    dtype = torch.get_autocast_dtype(kind)
    return tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in operands)


def _array(name, x):
    check_dense(name, x)
    return checks.Array(name, x.shape, ops.TYPES.get(x.dtype, str(x.dtype)), str(x.device))


def described(shape, dtype, *, causal=False, window=None, align=None, softcap=None, bias=None, attn_mask=None, alibi_slopes=None,
              dropout_p=0.0, generator=None, sinks=None, seqused_q=None, seqused_k=None, block_mask=None, modifier=None,
              captures=None):
    """The features that the arguments of attention ask for, a features.Features, and the causal mode and the window of the
    kernel, for a call of the given features.Shape. Raises ValueError for invalid arguments."""
    mode, (left, right) = checks.causal_mode(causal), checks.window_of(window)
    from_corner = checks.align_of(align, mode) == "bottom_right"
    asked = features.Features(shape, dtype)
    asked.add_softcap(softcap)
    if bias is not None:
        asked.add_bias("bias", bias)
    if attn_mask is not None:
        asked.add_mask(attn_mask)
    if seqused_q is not None or seqused_k is not None:
        asked.add_used_lengths(seqused_q, seqused_k)
    if alibi_slopes is not None:
        asked.add_alibi(alibi_slopes, from_corner)
    if from_corner:
        mode, left, right = asked.align_to_corner(mode, left, right)
    dropout_p = checks.dropout_of(dropout_p)
    if dropout_p > 0:
        asked.add_dropout(dropout_p, generator)
    if sinks is not None:
        asked.add_sinks(sinks)
    if block_mask is not None:
        asked.add_block_mask(block_mask)
    asked.add_files(modifier, captures)
    return asked, mode, left, right


_context = None  # the context_parallel whose `with` statement is active


def set_context(context):
    """Makes attention compute calls with a context_parallel, or with None as usual. Returns the previous one."""
    global _context
    previous, _context = _context, context
    return previous


def attention(q, k, v, *, causal=False, window=None, align=None, scale=None, softcap=None, bias=None, attn_mask=None,
              alibi_slopes=None, dropout_p=0.0, generator=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None,
              max_seqlen_q=None, max_seqlen_k=None, seqused_q=None, seqused_k=None, block_mask=None, modifier=None,
              captures=None, return_lse=False, deterministic=None):
    """Computes softmax(scale Q K^T) V for q [B, Hq, Sq, D], k [B, Hkv, Skv, D] and v [B, Hkv, Skv, DV], where Hq is a
    multiple of Hkv, and D and DV are from 1 to 512. The arrays are all f16, bf16, f32 or f64. Strides are arbitrary; an
    array is copied if its last dimension is not contiguous. Returns O [B, Hq, Sq, DV], or with return_lse (O, LSE), where
    LSE [B, Hq, Sq] is f32 (f64 if q is f64). Both have gradients. All of the following arguments can be combined. Inside a `with`
    statement of tilewright.context_parallel, q, k and v are the rows of this process.

    causal         True or "top_left" keeps j <= i, "bottom_right" j <= i + Skv - Sq
    window         (left, right): the number of keys kept on each side of the diagonal; -1 is unlimited
    align          corner of the diagonal of window and alibi_slopes, "top_left" or "bottom_right"; default: as causal
    scale          a number; by default 1 / sqrt(D)
    softcap        a number c: scores become c tanh(score / c); None or 0: off
    bias           added to scores, of shape [B, Hq, Sq, Skv] or broadcastable to it, of the type of q
    attn_mask      bool: True attends; floats: a bias
    alibi_slopes   [Hq] or [B, Hq]: slope * distance from the diagonal is subtracted from the scores
    dropout_p      pairs are dropped with this probability, the others are scaled by 1 / (1 - dropout_p)
    generator      the generator that draws the seed of dropout; by default that of the device
    sinks          [Hq], logits that join the softmax sum of each row, without a row of V
    cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k
                   packed sequences: q [rows, Hq, D], k [keys, Hkv, D] and v [keys, Hkv, DV] contain sequences that start at
                   the rows cu_seqlens, int32; the last element is the end of the last sequence. LSE is [Hq, rows].
                   Positions count from the start of a sequence. The arguments for keys may be omitted if they equal those
                   for queries
    seqused_q, seqused_k
                   [B], int32: the number of used rows of each batch or packed sequence; if one is omitted, all its rows are
                   used. "bottom_right" is the corner of the used rows. Unused rows give O = 0 and LSE = -inf, or the sink,
                   and get zero gradients; they must be finite (in q and k only if there is a backward)
    block_mask     which blocks of keys each block of queries attends, in addition to other masks: a BlockMask of FlexAttention
                   without a mask_mod; or (kv_num_blocks [B, Hq, Mb], kv_indices [B, Hq, Mb, L]) of int32, where the extents
                   of batches and heads may be 1, optionally followed by the block size, a number or (queries, keys);
                   default 128. In packed sequences, blocks are counted per sequence
    modifier       a name of kernels/mods (prefix_lm, ...), the path of an .mlir file, or a list of them; they apply after
                   softcap, bias and alibi_slopes, in this order
    captures       values of the modifier's captures, {name: tensor or number}; an int is passed as i32, a float as f32. A
                   tensor that requires a gradient gets one if the backward kernel computes it
    deterministic  the backward's gradients are bitwise equal in every run; by default as set by
                   torch.use_deterministic_algorithms

    bias, attn_mask of floats, alibi_slopes and sinks get gradients. A row without keys gives O = 0 and LSE = -inf, or the
    sink. Autocast converts q, k, v, bias and attn_mask. Raises ValueError for invalid arguments, and NotImplementedError
    for tensors of a transform: forward-mode differentiation, vmap and others of torch.func."""
    check_transforms({**(captures if isinstance(captures, dict) else {}), "q": q, "k": k, "v": v, "bias": bias,
                      "attn_mask": attn_mask, "alibi_slopes": alibi_slopes, "sinks": sinks})
    q, k, v, bias, attn_mask = autocast(q, k, v, bias, attn_mask)
    options = dict(causal=causal, window=window, align=align, softcap=softcap, bias=bias, attn_mask=attn_mask,
                   alibi_slopes=alibi_slopes, dropout_p=dropout_p, generator=generator, sinks=sinks, seqused_q=seqused_q,
                   seqused_k=seqused_k, block_mask=block_mask, modifier=modifier, captures=captures)
    if _context is not None:
        return _context.call(q, k, v, scale, return_lse, deterministic, (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k),
                             options)
    is_packed = cu_seqlens_q is not None
    devices = ("cuda", "meta") if interpreter.device() is None else ("cuda", "meta", "cpu")
    checks.check_arrays(_array("q", q), _array("k", k), _array("v", v), is_packed, devices)
    packed = features.packed_of(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, q.device)
    asked, mode, left, right = described(features.Shape(q, k, packed), q.dtype, **options)
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    files, *arguments = asked.arguments()
    o, lse = ops.attention(q, k, v, *arguments, mode, left, right, checks.scale_of(scale, q.shape[-1]), files,
                           bool(deterministic))
    return (o, lse) if return_lse else o


def _width(name, x):
    width = checks.integer_of(x)
    if width is None or not 1 <= width <= checks.MAX_DIM:
        raise ValueError(f"{name} must be a number from 1 to {checks.MAX_DIM}, but got {checks.shown(x)}")
    return width


def prepare(device, dtype, width, *, value_width=None, causal=False, window=False, modifier=None, backward=True,
            deterministic=False, capture_gradients=False, packed=False, block_mask=None):
    """Compiles and loads the code for calls of attention, so that a CUDA graph can capture the first call. The arguments
    describe these calls:

    device, dtype  a CUDA device, and the type of q, k and v
    width          the width of a head, D; value_width, if it differs, is that of V
    causal         as in attention
    window         whether there is a window
    modifier       all linked files, in this order: softcap, bias, mask, used_lengths, alibi or alibi_aligned,
                   window_aligned, dropout and sink where the arguments of attention link them, then the caller's files
    backward       whether to prepare the backward, too
    deterministic  whether the gradients are deterministic
    capture_gradients
                   whether tensors other than q, k and v require gradients
    packed         whether sequences are packed
    block_mask     the block size of the block mask, a number or (queries, keys), if there is one

    Raises ValueError for invalid arguments."""
    device, mode, text = torch.device(device), checks.causal_mode(causal), checks.modifier_text(modifier)
    if device.type != "cuda":
        raise ValueError(f"device must be a CUDA device, but got {device}")
    if dtype not in ops.TYPES:
        raise ValueError(f"dtype must be float16, bfloat16, float32 or float64, but got {dtype}")
    lists = () if block_mask is None else checks.sizes_of(block_mask)
    width, value_width = (_width(name, x) for name, x in (("width", width), ("value_width", value_width or width)))
    index = torch.cuda.current_device() if device.index is None else device.index
    for kernel in ("forward", "backward")[:1 + backward]:
        is_backward = kernel.endswith("backward")
        how = ops.Choice(kernel, ops.TYPES[dtype], width, value_width, mode, bool(window), text,
                         is_backward and deterministic, is_backward and capture_gradients, bool(packed), False, lists)
        choices = [how]
        # The shape of a bias decides whether its gradient is that of the scores.
        if is_backward and capture_gradients and not packed and not lists and may_take_score_gradient(text):
            choices.append(how._replace(captured=text != "bias", score_gradient=True))
        for choice in choices:
            plans.prepare(choice, torch.device("cuda", index))
