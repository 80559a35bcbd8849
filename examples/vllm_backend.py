# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An attention backend of vLLM whose attention and cache updates are Tilewright's. docs/serving.md says what it leaves out.

To use it, name register() as an entry point of the group vllm.general_plugins, so that each process of the engine calls it:

    vllm serve MODEL --attention-backend CUSTOM

The interface is that of vLLM's engine v1 as of vLLM 0.33.0 (vllm/v1/attention/backend.py; the shape of caches:
vllm/v1/kv_cache_interface.py; the caller: vllm/model_executor/layers/attention/attention.py), where a cache arrives as
[blocks, key heads, rows, keys and values side by side]. get_kv_cache_shape and get_kv_cache_stride_order are of earlier
versions (the same files at commit 0014ca6b), in which the backend chooses the shape.

Run against stubs of these classes, by python/tests/test_engines.py. It has not run inside the engine."""

import dataclasses
import enum

import torch

import tilewright

try:
    from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder,
                                           MultipleOf)
except ModuleNotFoundError as error:
    if error.name != "vllm":
        raise
    # Without the engine the file can still be imported, and read.
    AttentionBackend = AttentionImpl = AttentionMetadataBuilder = object
    AttentionCGSupport = enum.Enum("AttentionCGSupport", "UNIFORM_BATCH ALWAYS")
    MultipleOf = int

BYTES = ("fp8", "fp8_e4m3")
MOST_QUERIES = 16  # of a sequence, in a decode


class TilewrightBackend(AttentionBackend):
    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16", *BYTES]
    forward_includes_kv_cache_update = False  # the engine calls do_kv_cache_update
    accept_output_buffer = True  # of versions that ask

    @staticmethod
    def get_name():
        return "CUSTOM"  # the engine looks it up among its own names

    @staticmethod
    def get_impl_cls():
        return TilewrightImpl

    @staticmethod
    def get_builder_cls():
        return TilewrightMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [MultipleOf(16)]

    @staticmethod
    def get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str="auto"):
        if block_size % 16:
            raise ValueError(f"block_size must be a multiple of 16, but got {block_size}")
        return num_blocks, 2, block_size, num_kv_heads, head_size

    @staticmethod
    def get_kv_cache_stride_order(include_num_layers_dimension=False):
        from vllm.v1.attention.backends.utils import get_kv_cache_layout
        order = {"NHD": (0, 1, 2, 3, 4), "HND": (0, 1, 3, 2, 4)}[get_kv_cache_layout()]
        # With a dimension of layers in front, a block has those of all layers behind each other: strides are free.
        return (1, 0, *(dim + 1 for dim in order[1:])) if include_num_layers_dimension else order

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 8 == 0 and head_size <= 256

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_device_cpu_query_lens_mismatch(cls):
        return False  # the builder divides a batch by the lengths on the CPU

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major >= 8


@dataclasses.dataclass
class TilewrightMetadata:
    """Of one step, for all layers. The first `decodes` sequences have `queries` new queries each; the others, whose rows of
    the queries begin at `starts` behind these, any number. A place without a sequence has a length of 0."""

    decodes: int
    queries: int
    tokens: int
    starts: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    max_query_len: int
    max_seq_len: int


class TilewrightMetadataBuilder(AttentionMetadataBuilder):
    _cudagraph_support = AttentionCGSupport.ALWAYS
    supports_update_block_table = True

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        # Sequences with few queries come first in a batch: one, or those of a token and its drafts.
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
        self.reorder_batch_threshold = min(self.reorder_batch_threshold, MOST_QUERIES)
        # One graph may serve any mixture of sequences, or there are graphs of decodes alone. The launches of the first must
        # not depend on the mixture at capture.
        mode = vllm_config.compilation_config.cudagraph_mode
        self.is_packed = mode is not None and mode.mixed_mode().name == "FULL"

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        if vllm_config.cache_config.cache_dtype in BYTES:
            return AttentionCGSupport.UNIFORM_BATCH  # chunks of prompts copy the keys, as many as there are now
        return cls._cudagraph_support

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        common, count = common_attn_metadata, common_attn_metadata.num_reqs
        if common.causal is not True:
            raise ValueError(f"causal must be True, but got {common.causal}; Tilewright's backend supports causal layers only")
        starts = common.query_start_loc[:count + 1]
        decodes, queries = (0, 1) if self.is_packed else self._decodes(common.query_start_loc_cpu[:count + 1])
        if decodes:
            starts = starts[decodes:] - decodes * queries
        return TilewrightMetadata(decodes, queries, common.num_actual_tokens, starts, common.seq_lens[:count],
                                  common.block_table_tensor[:count], common.slot_mapping, common.max_query_len,
                                  common.max_seq_len)

    def _decodes(self, starts):
        """How many sequences at the front have the same number of queries, as few as a decode takes; and that number."""
        lengths = starts.diff().tolist()
        queries = lengths[0] if lengths else 0
        if not 1 <= queries <= self.reorder_batch_threshold:
            return 0, 1
        return next((b for b, length in enumerate(lengths) if length != queries), len(lengths)), queries

    def update_block_table(self, metadata, blk_table, slot_mapping):
        return dataclasses.replace(metadata, block_table=blk_table[:len(metadata.seq_lens)], slot_mapping=slot_mapping)


class TilewrightImpl(AttentionImpl):
    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None, sliding_window=None,
                 kv_cache_dtype="auto", logits_soft_cap=None, attn_type="decoder", kv_sharing_target_layer_name=None,
                 sinks=None):
        if attn_type != "decoder":
            raise NotImplementedError(f"attn_type must be decoder, but got {attn_type}")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.alibi_slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32)
        self.window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)  # the engine counts the query's own key
        self.kv_cache_dtype = kv_cache_dtype
        self.logits_soft_cap = logits_soft_cap or 0.0
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks

    def _pages(self, kv_cache):
        """Keys and values as [pages, rows of a page, heads, width], views of either shape of a cache."""
        if kv_cache.dim() == 4:  # [blocks, heads, rows, keys and values]
            pages = kv_cache.transpose(1, 2).split(self.head_size, -1)
        else:  # that of get_kv_cache_shape
            pages = kv_cache.unbind(1)
        return [x.view(torch.float8_e4m3fn) for x in pages] if self.kv_cache_dtype in BYTES else pages

    def _factors(self, layer):
        """One factor of keys and one of values serve all heads, by a stride of 0."""
        if self.kv_cache_dtype not in BYTES:
            return {}
        return {"k_descale": layer._k_scale.expand(self.num_kv_heads), "v_descale": layer._v_scale.expand(self.num_kv_heads)}

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        if self.kv_sharing_target_layer_name is not None:
            return
        rows = slot_mapping.shape[0]  # those of padding, if there are more, have no slot
        tilewright.append_kv(key[:rows], value[:rows], *self._pages(kv_cache), slot_mapping, **self._factors(layer))

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output=None, output_scale=None,
                output_block_scale=None):
        """Writes the attention of query [tokens, heads, width] to output. Keys and values are in the cache already."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("output_scale must be None: there is no quantized output")
        if attn_metadata is None:  # the engine measures the memory that it needs
            return output.fill_(0)
        meta, pages, factors = attn_metadata, self._pages(kv_cache), self._factors(layer)
        if self.alibi_slopes is not None and self.alibi_slopes.device != query.device:
            self.alibi_slopes = self.alibi_slopes.to(query.device)
        options = dict(softmax_scale=self.scale, causal=True, window_size=self.window, softcap=self.logits_soft_cap,
                       alibi_slopes=self.alibi_slopes, sinks=self.sinks)
        decodes, first = meta.decodes, meta.decodes * meta.queries
        if decodes:
            q = query[:first].unflatten(0, (decodes, meta.queries))
            tilewright.flash_attn_with_kvcache(
                q, *pages, cache_seqlens=meta.seq_lens[:decodes], block_table=meta.block_table[:decodes],
                out=output[:first].unflatten(0, (decodes, meta.queries)), **options, **factors)
        if first < meta.tokens:
            table, lengths = meta.block_table[decodes:], meta.seq_lens[decodes:]
            if factors:
                columns = -(-meta.max_seq_len // pages[0].shape[1])
                pages, table = _wide_pages(pages, factors.values(), table[:, :columns], query.dtype)
            tilewright.flash_attn_with_kvcache(
                query[first:meta.tokens], *pages, cache_seqlens=lengths, block_table=table, cu_seqlens_q=meta.starts,
                max_seqlen_q=meta.max_query_len, out=output[first:meta.tokens], **options)
        return output


def _wide_pages(pages, factors, table, dtype):
    """Copies of the pages that a table lists, widened from 8 bits and multiplied by their factors, and the table of the
    copies. Chunks of prompts need caches of the type of their queries."""
    which = table.long().clamp(0, pages[0].shape[0] - 1).flatten()  # behind a sequence's keys a table may hold anything
    wide = [(x.view(torch.uint8)[which].view(x.dtype).float() * factor[:, None]).to(dtype) for x, factor in zip(pages, factors)]
    return wide, torch.arange(table.numel(), dtype=torch.int32, device=table.device).view(table.shape)


def register():
    """Makes the backend known to the engine, as CUSTOM."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    register_backend(AttentionBackendEnum.CUSTOM, f"{__name__}.TilewrightBackend")
