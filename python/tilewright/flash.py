# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with the names, layouts and conventions of the package flash_attn, version 2. Arrays are
[batch, rows, heads, width], or [rows, heads, width] for packed sequences; no copy is made to change the layout. Masks,
windows and ALiBi are aligned to the bottom right corner. A side of window_size is a number of keys, or -1 for all; other
negative numbers, which that package takes for -1, are an error. Arguments of version 3 are accepted by name."""

from tilewright import cached, checks
from tilewright.features import packed_of
from tilewright.tensors import check_dense, check_integers
from tilewright.torch import attention

__all__ = ["flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_qkvpacked_func", "flash_attn_varlen_kvpacked_func"]


def _check_names_of_3(q_descale, *others):
    """Checks further arguments of version 3. Returns attention_chunk."""
    if q_descale is not None:
        raise ValueError("q_descale must be None: q has 16 bits or more here; flash_attn_with_kvcache, to which cu_seqlens_q may be "
                         "given, converts q of 8 bits")
    chunk, _ = cached.check_names_of_3(
        *others, "torch.cat((q, qv), -1) and torch.cat((k, v), -1), of a width up to 512, have these scores")
    return chunk


def _check_is_not_of_pages(attention_chunk, **factors):
    for name, x in factors.items():
        if x is not None:
            raise ValueError(f"{name} must be None where there is no block_table: only pages of 8 bits have factors")
    if attention_chunk:
        raise ValueError(f"attention_chunk must be 0 where there is no block_table, but got {attention_chunk}; for as many queries as "
                         "keys, flash_attn_varlen_func with each chunk as a sequence computes this")


def _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs):
    dropout_p = checks.dropout_of(dropout_p)
    if return_attn_probs and dropout_p > 0:
        raise ValueError("return_attn_probs must be False where there is dropout: the kernels do not write probabilities; "
                         "for LSE call it without dropout, or tilewright.attention with return_lse")
    return {"dropout_p": dropout_p, "scale": softmax_scale, "causal": "bottom_right" if causal else False,
            "window": window_size, "align": "bottom_right", "softcap": softcap, "alibi_slopes": alibi_slopes,
            "deterministic": deterministic or None, "return_lse": True}


def _check_layout(q, k, v):
    """Checks what the rules of `attention`, whose arrays have another order of dimensions, would say in its terms."""
    for name, x in ("q", q), ("k", k), ("v", v):
        check_dense(name, x)
        if x.dim() != 4:
            hint = "; flash_attn_varlen_func takes packed sequences" if x.dim() == 3 else ""
            raise ValueError(f"{name} must have the four dimensions [batch, rows, heads, width], but got shape "
                             f"{list(x.shape)}{hint}")
    if v.shape[1:3] != k.shape[1:3]:
        raise ValueError(f"v must have the rows and heads of k, {list(k.shape[1:3])}, but got {list(v.shape[1:3])}")
    if q.shape[2] > 0 and (k.shape[2] == 0 or q.shape[2] % k.shape[2] != 0):
        raise ValueError(f"the heads of q must be a multiple of those of k, but got {q.shape[2]} and {k.shape[2]}; arrays are "
                         "[batch, rows, heads, width]: use transpose(1, 2) on [batch, heads, rows, width]")


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False, *, qv=None, q_descale=None,
                    k_descale=None, v_descale=None, attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0):
    """Computes O [B, Sq, Hq, DV] from q [B, Sq, Hq, D], k [B, Skv, Hkv, D] and v [B, Skv, Hkv, DV]. With
    return_attn_probs, returns (O, LSE [B, Hq, Sq], None); LSE of a row without keys is -inf.

    Further arguments, by name alone, are those of FlashAttention 3. num_splits, pack_gqa and sm_margin are not used: keys are
    not divided. The factors, qv and attention_chunk are refused. Raises ValueError for invalid arguments, and for
    return_attn_probs with dropout."""
    attention_chunk = _check_names_of_3(q_descale, qv, attention_chunk, num_splits, pack_gqa, sm_margin)
    _check_is_not_of_pages(attention_chunk, k_descale=k_descale, v_descale=v_descale)
    options = _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    _check_layout(q, k, v)
    o, lse = attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
    o = o.transpose(1, 2)
    return (o, lse, None) if return_attn_probs else o


def _unpacked(name, x, count, dims):
    """The `count` arrays that x holds side by side along its third dimension from the end, as views."""
    check_dense(name, x)
    if x.dim() != dims or x.shape[-3] != count:
        raise ValueError(f"{name} must have {dims} dimensions, of which the third from the end is {count}, but got shape "
                         f"{list(x.shape)}")
    return x.unbind(-3)


def flash_attn_qkvpacked_func(qkv, *args, **kwargs):
    """flash_attn_func of qkv [B, S, 3, H, D], which holds q, k and v; further arguments are those of flash_attn_func after
    v. The gradient has the layout of qkv."""
    return flash_attn_func(*_unpacked("qkv", qkv, 3, 5), *args, **kwargs)


def flash_attn_kvpacked_func(q, kv, *args, **kwargs):
    """flash_attn_func of q and kv [B, Skv, 2, Hkv, D], which holds k and v; further arguments are those of flash_attn_func
    after v. The gradient has the layout of kv."""
    return flash_attn_func(q, *_unpacked("kv", kv, 2, 5), *args, **kwargs)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *args, **kwargs):
    """flash_attn_varlen_func of qkv [rows, 3, H, D], which holds q, k and v with the same offsets; further arguments are
    those of flash_attn_varlen_func after max_seqlen_k."""
    return flash_attn_varlen_func(*_unpacked("qkv", qkv, 3, 4), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args,
                                  **kwargs)


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *args, **kwargs):
    """flash_attn_varlen_func of q and kv [keys, 2, Hkv, D], which holds k and v; further arguments are those of
    flash_attn_varlen_func."""
    return flash_attn_varlen_func(q, *_unpacked("kv", kv, 2, 4), cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                                  *args, **kwargs)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None, seqused_q=None,
                           seqused_k=None, block_mask=None, k_descale=None, v_descale=None, *, qv=None, q_descale=None,
                           attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0):
    """Computes O [rows, Hq, DV] from q [rows, Hq, D], k [keys, Hkv, D] and v [keys, Hkv, DV]. With return_attn_probs,
    returns (O, LSE [Hq, rows], None). Rows of no sequence give O = 0 and LSE = -inf. seqused_q and seqused_k,
    [sequences] of int32 as in version 3, limit the rows of each sequence: unused rows give O = 0, and the bottom right
    corner is that of the used rows. block_mask is that of tilewright.attention; over pages, its lists may also be those of
    the Hkv key heads.

    With block_table [sequences, L], int32, k and v are pages [pages, rows of a page, Hkv, D] and [..., DV] of any strides:
    key j of sequence b is row j mod rows of page block_table[b, j // rows]. A sequence has seqused_k[b] keys; without
    seqused_k, cu_seqlens_k[b + 1] - cu_seqlens_k[b]. Rows behind the end of a sequence are not read. There are no
    gradients then: backward raises RuntimeError. The pages may be of float8_e4m3fn, float8_e5m2 or int8, with q of another type;
    k_descale and v_descale, float32 [Hkv] or [sequences, Hkv], are factors of what they hold, 1 by default, or as [pages,
    rows, Hkv] of each key and value.

    Further arguments, by name alone, are those of FlashAttention 3. num_splits, pack_gqa and sm_margin are not used: keys are
    not divided. attention_chunk, that of flash_attn_with_kvcache, is for pages. q_descale and qv are refused. Raises ValueError for invalid arguments."""
    attention_chunk = _check_names_of_3(q_descale, qv, attention_chunk, num_splits, pack_gqa, sm_margin)
    options = _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    if block_table is not None:
        o, lse = _of_pages(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, block_table, seqused_q, seqused_k, k_descale, v_descale, causal=causal,
                           window_size=window_size, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p,
                           softmax_scale=softmax_scale, block_mask=block_mask, attention_chunk=attention_chunk)
        return (o, lse, None) if return_attn_probs else o
    _check_is_not_of_pages(attention_chunk, k_descale=k_descale, v_descale=v_descale)
    o, lse = attention(q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q,
                       max_seqlen_k=max_seqlen_k, seqused_q=seqused_q, seqused_k=seqused_k, block_mask=block_mask,
                       **options)
    return (o, lse, None) if return_attn_probs else o


def _of_pages(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, block_table, seqused_q, seqused_k, k_descale, v_descale,
              **options):
    function = "flash_attn_varlen_func with a block_table"
    cached.check_caches(function, q, 3, [("k", k), ("v", v)], may_require_grad=True, may_have_bytes=True)
    check_integers("cu_seqlens_q", cu_seqlens_q, q.device, ("sequences + 1",))
    packed_of(cu_seqlens_q, cu_seqlens_q, max_seqlen_q, max_seqlen_q, q.device)
    batch = cu_seqlens_q.shape[0] - 1
    cached.check_table(block_table, k, batch, q.device)
    if seqused_k is None:
        check_integers("cu_seqlens_k", cu_seqlens_k, q.device, (batch + 1,))
        seqused_k = cu_seqlens_k.diff()
    check_integers("seqused_k", seqused_k, q.device, (batch,))
    k_descale = cached.factors_of("k_descale", k_descale, k, q.device, batch)
    v_descale = cached.factors_of("v_descale", v_descale, v, q.device, batch)
    inputs = tuple(x.detach() for x in (q, k, v))
    results = cached.attend(*inputs, block_table, seqused_k, cu_seqlens_q=cu_seqlens_q, seqused_q=seqused_q,
                            k_descale=k_descale, v_descale=v_descale, **options)
    return cached.without_gradient(function, results, q, k, v)
