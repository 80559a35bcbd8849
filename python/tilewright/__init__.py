# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tilewright from Python: compiled attention kernels through the C interface, with ctypes.

    tilewright.attention               attention as an operator of PyTorch, with gradients (tilewright.torch)
    tilewright.sdpa_compatible         attention with the arguments of PyTorch's scaled_dot_product_attention;
                                       tilewright.use_for_sdpa makes PyTorch call it (tilewright.sdpa)
    tilewright.flash_attn_func         attention with the arguments of flash_attn's function (tilewright.flash)
    tilewright.flash_attn_with_kvcache queries of each sequence over a cache, in pages or not (tilewright.decode)
    tilewright.paged_decode            the same with FlashInfer's layouts and conventions (tilewright.paged)
    tilewright.flash_mla_with_kvcache  the same over a cache of latent rows (tilewright.mla)
    tilewright.register_for_transformers
                                       attn_implementation="tilewright" in Hugging Face transformers (tilewright.transformers)
    tilewright.kernel                  your own kernel or program on tensors, with gradients (tilewright.functions)
    tilewright.cascade                 the same where sequences share their first keys (tilewright.prefix)
    tilewright.context_parallel        attention whose rows are distributed over processes, each with a GPU (tilewright.distributed)
    tilewright.merge_states            merges results over parts of the keys (tilewright.merge)
    tilewright.append_kv               new keys and values into a cache, rotated or not (tilewright.append)
    tilewright.PerformanceWarning      the category of warnings of calls that are slower than they need be
    tilewright.cache_info              the cache on disk, in which compiled kernels are kept (tilewright.cache)
    tilewright.jax                     attention and your own kernels on arrays of JAX, with gradients
    tilewright.compiler                compiles kernels (.mlir) to bundles
    tilewright.runtime                 bundles, plans and operations, on arrays of any library

The package is pure Python. PyTorch is imported at the first access to a function that takes its tensors.
`python -m tilewright doctor` says what is missing on a machine, `python -m tilewright bench` how fast attention is there.
"""

import importlib

_FROM = {"attention": "torch", "prepare": "torch", "load_bundle": "torch", "interpret": "host", "sdpa_compatible": "sdpa",
         "use_for_sdpa": "sdpa", "why_not_sdpa": "sdpa", "sdpa_fallbacks": "sdpa", "flash_attn_func": "flash",
         "flash_attn_qkvpacked_func": "flash", "flash_attn_kvpacked_func": "flash", "flash_attn_varlen_func": "flash",
         "flash_attn_varlen_qkvpacked_func": "flash", "flash_attn_varlen_kvpacked_func": "flash",
         "flash_attn_with_kvcache": "decode", "get_scheduler_metadata": "decode", "paged_decode": "paged", "block_tables_of": "paged",
         "flash_mla_with_kvcache": "mla", "get_mla_metadata": "mla",
         "append_kv": "append", "cascade": "prefix", "merge_state": "merge", "merge_states": "merge",
         "context_parallel": "distributed",
         "cache_info": "cache", "clear_cache": "cache",
         "PerformanceWarning": "performance", "register_for_transformers": "transformers",
         "kernel": "functions", "Kernel": "functions"}


def __getattr__(name):
    if name not in _FROM:
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
    return getattr(importlib.import_module(f"tilewright.{_FROM[name]}"), name)


def __dir__():
    return sorted([*globals(), *_FROM])
