# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stand-ins for what examples/vllm_backend.py and examples/sglang_backend.py import from the engines and get from them: the
names, arguments and abstract methods are those of vLLM 0.33.0 and SGLang 0.5.23, the bodies only what a test needs."""

import abc
import dataclasses
import enum
import importlib.util
import os
import sys
import types
import unittest.mock

import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def example(name, modules):
    """The module examples/NAME.py, imported where `modules`, {name: {attribute: value}}, and their parents exist."""
    stubs = {}
    for path, attributes in modules.items():
        parts = path.split(".")
        for n in range(1, len(parts) + 1):
            stubs.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n]))).__path__ = []
        vars(stubs[path]).update(attributes)
    path = os.path.join(EXAMPLES, name + ".py")
    if not os.path.exists(path):
        raise unittest.SkipTest(f"there is no {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(sys.modules, {**stubs, name: module}):
        spec.loader.exec_module(module)
    module.stubs = stubs
    return module


# vLLM

class VllmAttentionBackend(abc.ABC):
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]
    forward_includes_kv_cache_update = True

    @staticmethod
    @abc.abstractmethod
    def get_name():
        raise NotImplementedError

    @staticmethod
    @abc.abstractmethod
    def get_impl_cls():
        raise NotImplementedError

    @staticmethod
    @abc.abstractmethod
    def get_builder_cls():
        raise NotImplementedError

    @classmethod
    def supports_block_size(cls, block_size):
        return any(block_size % size.base == 0 for size in cls.get_supported_kernel_block_sizes())


class AttentionCGSupport(enum.Enum):
    ALWAYS = 3
    UNIFORM_BATCH = 2
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    NEVER = 0


@dataclasses.dataclass(frozen=True)
class MultipleOf:
    base: int


class AttentionMetadataBuilder(abc.ABC):
    _cudagraph_support = AttentionCGSupport.NEVER
    reorder_batch_threshold = None
    supports_update_block_table = False

    @abc.abstractmethod
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.kv_cache_spec, self.layer_names, self.vllm_config, self.device = kv_cache_spec, layer_names, vllm_config, device

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return cls._cudagraph_support

    def _init_reorder_batch_threshold(self, reorder_batch_threshold=1, supports_spec_as_decode=False):
        drafts = self.vllm_config.num_speculative_tokens if supports_spec_as_decode else 0
        self.reorder_batch_threshold = max(reorder_batch_threshold, 1 + drafts)

    @abc.abstractmethod
    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        raise NotImplementedError

    def build_for_cudagraph_capture(self, common_attn_metadata):
        return self.build(common_prefix_len=0, common_attn_metadata=common_attn_metadata)


class AttentionImpl(abc.ABC):
    @abc.abstractmethod
    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None, sliding_window=None,
                 kv_cache_dtype="auto", logits_soft_cap=None, attn_type="decoder", kv_sharing_target_layer_name=None):
        raise NotImplementedError

    @abc.abstractmethod
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None):
        raise NotImplementedError


@dataclasses.dataclass
class CommonAttentionMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor
    causal: bool | torch.Tensor = True


class CUDAGraphMode(enum.Enum):
    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_AND_PIECEWISE = (2, 1)

    def mixed_mode(self):
        return CUDAGraphMode(self.value[1]) if isinstance(self.value, tuple) else self


def vllm_config(mode=CUDAGraphMode.FULL_AND_PIECEWISE, cache_dtype="auto", drafts=0):
    return types.SimpleNamespace(compilation_config=types.SimpleNamespace(cudagraph_mode=mode), num_speculative_tokens=drafts,
                                 cache_config=types.SimpleNamespace(cache_dtype=cache_dtype))


def vllm_example(layout="NHD"):
    """examples/vllm_backend.py; `registered` of it is what register_backend was called with."""
    registered = []
    backends = enum.Enum("AttentionBackendEnum", "FLASH_ATTN CUSTOM")
    module = example("vllm_backend", {
        "vllm.v1.attention.backend": {"AttentionBackend": VllmAttentionBackend, "AttentionCGSupport": AttentionCGSupport,
                                      "AttentionImpl": AttentionImpl, "AttentionMetadataBuilder": AttentionMetadataBuilder,
                                      "MultipleOf": MultipleOf},
        "vllm.v1.attention.backends.utils": {"get_kv_cache_layout": lambda: layout},
        "vllm.v1.attention.backends.registry": {"AttentionBackendEnum": backends,
                                                "register_backend": lambda *given: registered.append(given)}})
    module.registered = registered
    return module


# SGLang

class SglangAttentionBackend(abc.ABC):
    def init_forward_metadata(self, forward_batch):
        self.init_forward_metadata_out_graph(forward_batch)
        self.init_forward_metadata_in_graph(forward_batch)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        pass

    def init_forward_metadata_in_graph(self, forward_batch):
        pass

    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if forward_batch.forward_mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        run = self.forward_decode if forward_batch.forward_mode.is_decode() else self.forward_extend
        return run(q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs)


class ForwardMode(enum.Enum):
    EXTEND = 1
    DECODE = 2
    MIXED = 3
    IDLE = 4

    def is_decode(self):
        return self == ForwardMode.DECODE

    def is_idle(self):
        return self == ForwardMode.IDLE

    def is_decode_or_idle(self):
        return self.is_decode() or self.is_idle()


class AttentionType(enum.Enum):
    DECODER = "decoder"
    ENCODER_ONLY = "encoder_only"


@dataclasses.dataclass
class RadixAttention:
    tp_q_head_num: int
    tp_k_head_num: int
    head_dim: int
    v_head_dim: int
    layer_id: int
    scaling: float
    logit_cap: float = 0.0
    sliding_window_size: int = -1
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    is_cross_attention: bool = False
    attn_type: AttentionType = AttentionType.DECODER


@dataclasses.dataclass
class ForwardBatch:
    forward_mode: ForwardMode
    batch_size: int
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    seq_lens_cpu: torch.Tensor | None = None
    extend_seq_lens: torch.Tensor | None = None
    extend_seq_lens_cpu: list | None = None
    encoder_lens: torch.Tensor | None = None
    spec_info: object = None


class Pool:
    """Slots of tokens: keys [slots, heads, width] and values of each layer, or rows of latent attention."""

    def __init__(self, slots, layers, heads, dim, value_dim, dtype):
        self.keys, self.values = ([torch.full((slots, heads, width), torch.nan).to(dtype) for _ in range(layers)]
                                  for width in (dim, value_dim))

    def get_key_buffer(self, layer_id):
        return self.keys[layer_id]

    def get_value_buffer(self, layer_id):
        return self.values[layer_id]

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None):
        for rows, new, scale in ((self.keys, cache_k, k_scale), (self.values, cache_v, v_scale)):
            rows = rows[layer.layer_id]
            if new.dtype != rows.dtype:
                new = (new if scale is None else new / scale).to(rows.dtype)
            for slot, row in zip(loc_info.tolist(), new):
                rows[slot] = row

    def set_mla_kv_buffer(self, layer, loc_info, cache_k_nope, cache_k_rope):
        for slot, row in zip(loc_info.tolist(), torch.cat([cache_k_nope, cache_k_rope], -1)):
            self.keys[layer.layer_id][slot] = row


def sglang_example():
    """examples/sglang_backend.py; `registered` of it has what register() gave to the engine."""
    registered = {}

    def register_attention_backend(name):
        return lambda made: registered.__setitem__(name, made)

    module = example("sglang_backend", {
        "sglang.srt.layers.attention.base_attn_backend": {"AttentionBackend": SglangAttentionBackend},
        "sglang.srt.layers.attention.attention_registry": {"register_attention_backend": register_attention_backend},
        "sglang.srt.server_args": {"add_attention_backend_choices": lambda names: registered.__setitem__("choices", names)}})
    module.registered = registered
    return module
