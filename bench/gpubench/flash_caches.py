# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlashAttention over the pages of cases of bench/serving.py: versions 4 (the package flash-attn-4) and 3 (the module
flash_attn_interface, from its folder `hopper`). Calls are None for what a version does not have."""

SOFTCAP = "softcap"  # a name in kernels/mods


def finite_pages(cache, rows):
    """Keys, values and the table. These libraries read pages whole, so that unused rows must be finite."""
    k, v, table = cache.pages(rows, False)
    return k.nan_to_num(0), v.nan_to_num(0), table


def numbers(torch, case):
    """The lengths of sequences, and where the queries of each begin."""
    lengths = torch.tensor(case.lengths, dtype=torch.int32, device="cuda")
    return lengths, torch.arange(len(case.lengths) + 1, dtype=torch.int32, device="cuda") * case.queries


def fa4_call(torch, case, cache, out):
    if case.modifiers or case.stored != "bf16":
        return None
    from flash_attn.cute.interface import flash_attn_varlen_func
    k, v, table = finite_pages(cache, 64)
    lengths, starts = numbers(torch, case)
    q = cache.q if case.is_packed else cache.q.transpose(1, 2).flatten(0, 1)

    def call():
        result = flash_attn_varlen_func(q, k, v, cu_seqlens_q=starts, seqused_k=lengths, page_table=table,
                                        max_seqlen_q=case.queries, causal=True, window_size=(case.window, None))
        o = result[0] if isinstance(result, tuple) else result
        return o if case.is_packed else o.unflatten(0, (-1, case.queries)).transpose(1, 2)
    return call


def fa3_call(torch, case, cache, out, page_rows=64):
    """The shares of the keys are planned before the call, as an engine does once for all layers, so that its time has none."""
    if set(case.modifiers) - {SOFTCAP} or case.stored != "bf16":
        return None
    from flash_attn_interface import flash_attn_with_kvcache, get_scheduler_metadata
    k, v, table = finite_pages(cache, page_rows)
    lengths, starts = numbers(torch, case)
    window = (-1 if case.window is None else case.window, -1)
    softcap = cache.captures[SOFTCAP]["softcap"] if SOFTCAP in case.modifiers else 0.0
    options = {"causal": True, "window_size": window}
    if case.is_packed:
        q, packed = cache.q, {"cu_seqlens_q": starts, "max_seqlen_q": case.queries}
    else:
        q, packed = cache.q.transpose(1, 2).contiguous(), {}
    metadata = get_scheduler_metadata(
        len(case.lengths), case.queries, table.shape[1] * page_rows, case.heads, case.key_heads, case.dim, lengths, q.dtype,
        headdim_v=case.value_dim, cu_seqlens_q=packed.get("cu_seqlens_q"), page_size=page_rows, has_softcap=softcap != 0.0,
        **options)

    def call():
        o = flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, page_table=table, softcap=softcap, scheduler_metadata=metadata,
                                    **packed, **options)
        return o if case.is_packed else o.transpose(1, 2)
    return call
