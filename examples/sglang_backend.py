# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An attention backend of SGLang whose attention is Tilewright's. docs/serving.md says what it leaves out.

To use it, name register() as an entry point of the group sglang.srt.plugins, so that each process of the engine calls it:

    python -m sglang.launch_server --model-path MODEL --attention-backend tilewright --page-size 16

For latent attention it decodes: --decode-attention-backend tilewright, with another --prefill-attention-backend.

The interface is that of SGLang 0.5.23 (python/sglang/srt/layers/attention/base_attn_backend.py, with the pools of
mem_cache/memory_pool.py and the layers of layers/radix_attention.py): init_forward_metadata_out_graph prepares a capture
and each replay. Earlier versions (the first file at commit 43681aaa) call two functions of other arguments instead.

Run against stubs of these classes, by python/tests/test_engines.py. It has not run inside the engine."""

import dataclasses

import torch

import tilewright

try:
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
except ModuleNotFoundError as error:
    if error.name != "sglang":
        raise
    AttentionBackend = object  # without the engine the file can still be imported, and read


@dataclasses.dataclass
class Metadata:
    """Of one step, for all layers: lengths with the new tokens, and pages of each sequence. A step that extends sequences
    has starts of their rows among the queries."""

    seq_lens: torch.Tensor
    table: torch.Tensor
    starts: torch.Tensor | None = None
    longest_q: int = 1
    longest_k: int = 1


class TilewrightAttnBackend(AttentionBackend):
    def __init__(self, model_runner, skip_prefill=False):
        super().__init__()
        self.device, self.page_size = model_runner.device, model_runner.page_size or 1
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.pool = model_runner.token_to_kv_pool
        self.context = model_runner.model_config.context_len
        self.is_latent = model_runner.use_mla_backend
        for name, remedy in (("translate_loc_from_full_to_swa", "--disable-hybrid-swa-memory"),
                             ("requires_physical_write_loc", "a pool that is not unified")):
            if getattr(self.pool, name, False):
                raise NotImplementedError(f"{type(self.pool).__name__} has indices to translate, which Tilewright's backend does "
                                          f"not do; use {remedy}")
        self.forward_metadata = None

    # What a step has: once for all layers.

    def init_forward_metadata(self, forward_batch):
        self._check(forward_batch)
        batch, lengths = forward_batch, forward_batch.seq_lens
        longest = self._longest(batch.seq_lens_cpu)
        meta = Metadata(lengths.to(torch.int32), self._pages_of(batch.req_pool_indices, longest), longest_k=longest)
        if not batch.forward_mode.is_decode_or_idle():
            meta.starts = torch.nn.functional.pad(batch.extend_seq_lens.cumsum(0), (1, 0)).to(torch.int32)
            meta.longest_q = max(batch.extend_seq_lens_cpu or [self.context])
        self.forward_metadata = meta

    def _check(self, forward_batch):
        if getattr(forward_batch, "spec_info", None) is not None:
            raise NotImplementedError("spec_info must be None: Tilewright's backend does not verify drafted tokens")
        if getattr(forward_batch, "encoder_lens", None) is not None:
            raise NotImplementedError("encoder_lens must be None: Tilewright's backend has no cross attention")

    def _longest(self, seq_lens_cpu):
        if seq_lens_cpu is None or len(seq_lens_cpu) == 0:
            return self.context
        return max(int(seq_lens_cpu.max()), 1)

    def _pages_of(self, requests, longest):
        """[sequences, pages] from the slots of each request's tokens: a page is page_size slots that follow each other."""
        return (self.req_to_token[:, :longest:self.page_size][requests] // self.page_size).to(torch.int32)

    # Graphs, of decodes. Their arrays stay where they are; each replay refills them.

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        self.graph_lens = torch.zeros(max_bs, dtype=torch.int32, device=self.device)
        self.graph_table = torch.zeros(max_bs, -(-self.context // self.page_size), dtype=torch.int32, device=self.device)

    def get_cuda_graph_seq_len_fill_value(self):
        return 0  # a place without a sequence: nothing is read, and its result is 0

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        self._check(forward_batch)
        self._fill_graph(forward_batch.batch_size, forward_batch.req_pool_indices, forward_batch.seq_lens,
                         forward_batch.forward_mode, getattr(forward_batch, "seq_lens_cpu", None))

    def init_forward_metadata_capture_cuda_graph(self, bs, num_tokens, req_pool_indices, seq_lens, encoder_lens, forward_mode,
                                                 spec_info):
        self._fill_graph(bs, req_pool_indices, seq_lens, forward_mode, None, encoder_lens, spec_info)

    def init_forward_metadata_replay_cuda_graph(self, bs, req_pool_indices, seq_lens, seq_lens_sum, encoder_lens, forward_mode,
                                                spec_info, seq_lens_cpu, out_cache_loc=None):
        self._fill_graph(bs, req_pool_indices, seq_lens, forward_mode, seq_lens_cpu, encoder_lens, spec_info)

    def _fill_graph(self, bs, requests, seq_lens, forward_mode, seq_lens_cpu, encoder_lens=None, spec_info=None):
        if not forward_mode.is_decode_or_idle() or encoder_lens is not None or spec_info is not None:
            raise NotImplementedError("graphs of Tilewright's backend are of decodes, without drafts and encoders")
        pages = self._pages_of(requests[:bs], self._longest(None if seq_lens_cpu is None else seq_lens_cpu[:bs]))
        self.graph_lens[:bs].copy_(seq_lens[:bs])
        self.graph_table[:bs, :pages.shape[1]].copy_(pages)  # columns behind these are not read
        self.forward_metadata = Metadata(self.graph_lens[:bs], self.graph_table[:bs], longest_k=self.context)

    # A layer.

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, sinks=None, q_rope=None, k_rope=None):
        options = self._options(layer)
        meta = self.forward_metadata
        if self.is_latent:
            return self._decode_latent(q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope)
        self._save(k, v, layer, forward_batch, save_kv_cache)
        q = q.view(-1, 1, layer.tp_q_head_num, layer.head_dim)
        pages, factors = self._cache(layer)
        o, lse = tilewright.flash_attn_with_kvcache(q, *pages, cache_seqlens=meta.seq_lens, block_table=meta.table,
                                                    return_softmax_lse=True, **options, **factors)
        return self._result(o[:, 0], lse[..., 0], sinks)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, sinks=None, q_rope=None, k_rope=None):
        if self.is_latent:
            raise NotImplementedError("Tilewright's backend only decodes with latent attention; choose another one with "
                                      "--prefill-attention-backend")
        options = self._options(layer)
        meta = self.forward_metadata
        self._save(k, v, layer, forward_batch, save_kv_cache)
        q = q.view(-1, layer.tp_q_head_num, layer.head_dim)
        (pages, factors), table = self._cache(layer), meta.table
        if factors:
            pages, table = _wide_pages(pages, factors.values(), table, q.dtype)
        o, lse, _ = tilewright.flash_attn_varlen_func(q, *pages, meta.starts, None, meta.longest_q, meta.longest_k,
                                                      return_attn_probs=True, block_table=table, seqused_k=meta.seq_lens,
                                                      **options)
        return self._result(o, lse.transpose(0, 1), sinks)

    def _decode_latent(self, q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope):
        if k is not None and save_kv_cache:
            if k_rope is None:
                self._save(k, v, layer, forward_batch, True)
            else:
                self.pool.set_mla_kv_buffer(layer, forward_batch.out_cache_loc, k, k_rope)
        heads, meta = layer.tp_q_head_num, self.forward_metadata
        if q_rope is None:
            q = q.view(-1, heads, layer.head_dim)
        else:
            q = torch.cat([q.view(-1, heads, layer.v_head_dim), q_rope.view(q.shape[0], heads, -1)], -1)
        rows = self.pool.get_key_buffer(layer.layer_id)
        o, _ = tilewright.flash_mla_with_kvcache(q[:, None], rows.view(-1, self.page_size, 1, rows.shape[-1]), meta.table,
                                                 meta.seq_lens, layer.v_head_dim, softmax_scale=layer.scaling, causal=True)
        return o.flatten(1)

    def _options(self, layer):
        if layer.is_cross_attention or layer.attn_type.value != "decoder":
            raise NotImplementedError(f"attn_type must be decoder, but got {layer.attn_type}")
        window = layer.sliding_window_size
        return {"softmax_scale": layer.scaling, "causal": True, "softcap": layer.logit_cap or 0.0,
                "window_size": (-1, -1) if window is None or window < 0 else (window, 0)}  # without the query's own key

    def _save(self, k, v, layer, forward_batch, save_kv_cache):
        """The pool knows its types and factors, and that slot 0 takes the rows of padding."""
        if k is not None and save_kv_cache:
            self.pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v, layer.k_scale, layer.v_scale)

    def _cache(self, layer):
        """Keys and values as [pages, rows of a page, heads, width], and factors of those of 8 bits."""
        buffers = self.pool.get_key_buffer(layer.layer_id), self.pool.get_value_buffer(layer.layer_id)
        pages = [x.view(-1, self.page_size, *x.shape[1:]) for x in buffers]
        if pages[0].dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
            return pages, {}
        one = torch.ones(1, device=pages[0].device)
        scales = (("k_descale", layer.k_scale), ("v_descale", layer.v_scale))
        return pages, {name: (one if scale is None else scale).expand(layer.tp_k_head_num) for name, scale in scales}

    def _result(self, o, lse, sinks):
        """o [rows, heads, width] as [rows, heads * width]. A sink is a key without a value: it takes its share of each row's
        weight, by lse [rows, heads]."""
        if sinks is not None:
            o = (o * torch.sigmoid(lse - sinks.float())[..., None]).to(o.dtype)
        return o.flatten(1)


def _wide_pages(pages, factors, table, dtype):
    """Copies of the pages that a table lists, widened from 8 bits and multiplied by their factors, and the table of the
    copies. Chunks of prompts need caches of the type of their queries."""
    which = table.long().clamp(0, pages[0].shape[0] - 1).flatten()  # behind a sequence's keys a table may hold anything
    wide = [(x.view(torch.uint8)[which].view(x.dtype).float() * factor[:, None]).to(dtype) for x, factor in zip(pages, factors)]
    return wide, torch.arange(table.numel(), dtype=torch.int32, device=table.device).view(table.shape)


def register():
    """Makes the backend known to the engine, as tilewright."""
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    from sglang.srt.server_args import add_attention_backend_choices
    register_attention_backend("tilewright")(TilewrightAttnBackend)
    add_attention_backend_choices(["tilewright"])
