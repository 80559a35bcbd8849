# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of models of Hugging Face transformers.

    tilewright.register_for_transformers()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="tilewright")
"""

import functools
import warnings
import weakref

import torch

from tilewright import cached, checks
from tilewright.torch import attention

__all__ = ["register_for_transformers"]

DECODED_ROWS = 16  # queries of a sequence over a cache that tilewright.cached has kernels for
_REJECTED = {  # arguments that change the result, and what to use for them
    "head_mask": "use attn_implementation='eager'",
    "indices": "use an implementation that the model's documentation names for sparse attention",
    "block_indices": "use an implementation that the model's documentation names for sparse attention",
    "block_table": "generate_batch has 'sdpa' and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache",
    "k_cache": "generate_batch has 'sdpa' and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache",
    "v_cache": "generate_batch has 'sdpa' and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache",
    "read_index": "generate_batch has 'sdpa' and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache",
    "write_index": "generate_batch has 'sdpa' and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache",
}
# Arguments that reach an attention through **kwargs, and do not change its result.
_KNOWN = {"position_ids", "cache_position", "use_cache", "output_hidden_states", "output_router_logits", "return_dict",
          "num_items_in_batch", "logits_to_keep", "target_dtype", "position_embeddings", "cache", "past_key_values",
          "past_key_value", "output_attentions", "deterministic", "max_seqlen", "seq_idx", "token_type_ids", "mm_token_type_ids",
          "labels", "encoder_hidden_states", "encoder_attention_mask", "layer_idx", "input_ids", "inputs_embeds",
          "total_length", "is_first_iteration", "attention_implementation"}


def _check_others(others):
    """Raises ValueError for arguments that the kernels do not have, and warns once of each that is not known."""
    for name, remedy in _REJECTED.items():
        if others.get(name) is not None:
            raise ValueError(f"{name} must be None with the attention implementation 'tilewright', but got "
                             f"{checks.shown(others[name])}; {remedy}")
    if others.get("output_attentions"):
        raise ValueError("output_attentions must be False with the attention implementation 'tilewright', whose kernels do not "
                         "write probabilities; use attn_implementation='eager'")
    if torch.compiler.is_compiling():
        return
    for name, value in others.items():
        if value is not None and name not in _KNOWN and name not in _REJECTED:
            _warn_of(name)


@functools.lru_cache(maxsize=None)
def _warn_of(name):
    warnings.warn(f"the attention implementation 'tilewright' does not know the argument '{name}' of an attention, and ignores it, "
                  "as 'sdpa' does", UserWarning, stacklevel=4)


def _sinks_of(module, s_aux, sinks):
    """Learned logits [Hq], or None."""
    for name, value in (("s_aux", s_aux), ("sinks", sinks), ("sinks of the module", getattr(module, "sinks", None))):
        if value is None:
            continue
        if not isinstance(value, torch.Tensor) or value.numel() != max(value.shape, default=1):
            raise ValueError(f"{name} must be a tensor with one logit for each head, but got {checks.shown(value)}; use "
                             "attn_implementation='eager'")
        return value.reshape(-1)
    return None


def _added(bias, position_bias, like):
    """The sum of two biases, of the type of q, or None."""
    both = [x for x in (bias, position_bias) if x is not None]
    return None if not both else sum(both[1:], both[0]).to(like.dtype)


def _lengths_of(keep):
    """How many keys there are up to the last that `keep` [B, ..., Skv] has, int32 [B]."""
    keep = keep.flatten(1, -2).any(1) if keep.dim() > 2 else keep
    ends = torch.arange(1, keep.shape[-1] + 1, dtype=torch.int32, device=keep.device)
    return (keep * ends).amax(-1)


def _padding_before(padding):
    """How many keys of each sequence are before the first token, int32 [B]."""
    return (padding.cumsum(-1) == 0).sum(-1, dtype=torch.int32)


class _Positions:
    """The starts of packed sequences by position_ids, which are read once for all layers."""

    def __init__(self):
        self.known = None, 0, None  # a reference to the tensor, its version, starts

    def starts(self, positions, batch, rows):
        """As _starts_of, or None if no sequence begins within a row of the batch."""
        if not isinstance(positions, torch.Tensor) or tuple(positions.shape[-2:]) not in ((batch, rows), (1, rows)) \
                or positions.dim() != 2:
            return None
        reference, version, starts = self.known
        if reference is None or reference() is not positions or version != positions._version:
            begins = positions.diff(dim=1) != 1
            packed = torch.nn.functional.pad(begins.cumsum(1), (1, 0)).expand(batch, rows)
            starts = _starts_of(packed) if bool(begins.any()) else None
            self.known = weakref.ref(positions), positions._version, starts
        return starts


_positions = _Positions()


def _starts_of(packed):
    from tilewright.transformers_masks import starts_of
    return starts_of(packed)


class _Asked:
    """What a call asks for: the options of attention, and a mask of pairs or of keys."""

    def __init__(self, mask, query, key, causal, sliding_window):
        self.causal, self.window, self.from_end, self.padding, self.starts, self.spans = False, (-1, -1), False, None, None, None
        self.pairs = self.bias = None
        if mask is None or (isinstance(mask, torch.Tensor) and mask.dim() == 2):  # the module says the rest
            self.causal = bool(causal) and query.shape[2] > 1
            # As flash_attn has it where keys are padded; without a mask, the diagonal is that of PyTorch's attention.
            self.from_end = mask is not None and mask.shape[1] != query.shape[2]
            if sliding_window is not None and (self.causal or not causal):
                self.window = (sliding_window - 1, -1 if causal else sliding_window - 1)
            self.padding = None if mask is None else _keys_of(mask, query, key)
        elif not isinstance(mask, torch.Tensor):
            if not hasattr(mask, "from_end"):
                raise ValueError("attention_mask must be None, a tensor, or a mask that the implementation 'tilewright' made, but got "
                                 f"{type(mask).__name__}; do not change the implementation between a mask and its use")
            self.causal, self.window, self.from_end, self.padding, self.starts, self.spans = mask
        elif mask.dim() != 4:
            raise ValueError("attention_mask must have 2 dimensions [batch, keys] or 4 [batch, heads, queries, keys], but got "
                             f"shape {list(mask.shape)}")
        elif mask.is_floating_point():
            self.bias = mask
        elif mask.dtype == torch.bool:
            self.pairs = mask
        else:
            raise ValueError(f"attention_mask of 4 dimensions must be of bool or floats, but got {mask.dtype}; convert it")

    def has_diagonal(self):
        return self.causal or self.window != (-1, -1)

    def is_plain(self):
        """Whether the mask may be of packed sequences without saying so."""
        return self.causal and self.padding is None and self.starts is None and self.spans is None

    def options(self):
        mode = False if not self.causal else "bottom_right" if self.from_end else "top_left"
        return {"causal": mode, "window": self.window, "align": "bottom_right" if self.from_end else "top_left"}


def _keys_of(mask, query, key):
    """A mask of tokens [B, Skv], bool; keys beyond its end are none."""
    missing = key.shape[2] - mask.shape[1]
    if mask.is_floating_point() or missing < 0 or (missing and query.shape[2] not in (1, mask.shape[1])):
        raise ValueError(f"attention_mask of 2 dimensions must be of bool or integers, for at most {key.shape[2]} keys, but got "
                         f"{checks.shown(mask)}")
    return torch.nn.functional.pad(mask != 0, (0, missing)) if missing else mask != 0


def _decoded(asked, query, key, value, common):
    """O of a few queries over a cache, by the kernels that divide the keys of a sequence."""
    batch, keys = query.shape[0], key.shape[2]
    leftpad, mask = None, asked.pairs
    lengths = torch.full((batch,), keys, dtype=torch.int32, device=query.device)
    if asked.pairs is not None and asked.pairs.shape[-1] == keys:  # of static caches, most of which may be empty
        lengths = _lengths_of(asked.pairs).expand(batch).contiguous()
    elif asked.padding is not None:
        mask, leftpad = asked.padding[:, None, None], _padding_before(asked.padding)
    o, _ = cached.attend(query, key.transpose(1, 2), value.transpose(1, 2), None, lengths, leftpad=leftpad, causal=asked.causal,
                         window_size=asked.window, mask=mask, **common)
    return o


def _packed(asked, query, key, value, starts_q, starts_k, longest_q, longest_k, options):
    """O of packed sequences, whose rows are those of the whole batch."""
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
    starts_q, starts_k = (x.to(torch.int32) for x in (starts_q, starts_q if starts_k is None else starts_k))
    longest_q, longest_k = (rows.shape[0] if n is None else n for n, rows in ((longest_q, q), (longest_k, k)))
    same = starts_k is starts_q or (q.shape[0] == k.shape[0] and asked.starts is not None)
    o = attention(q, k, v, cu_seqlens_q=starts_q, cu_seqlens_k=None if same else starts_k, max_seqlen_q=longest_q,
                  max_seqlen_k=None if same else longest_k, **options)
    return o.view(query.shape[0], query.shape[2], *o.shape[1:]).transpose(1, 2)


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, sliding_window=None,
                      softcap=None, s_aux=None, sinks=None, position_bias=None, cu_seq_lens_q=None, cu_seq_lens_k=None,
                      max_length_q=None, max_length_k=None, **others):
    """The function that transformers calls: O [B, Sq, Hq, DV] and None, from query [B, Hq, Sq, D], key [B, Hkv, Skv, D] and
    value [B, Hkv, Skv, DV]. The mask, where there is one, says which pairs are kept, as for 'eager' and 'sdpa'; otherwise
    is_causal (by default that of the module) and sliding_window do. Raises ValueError for what the kernels cannot do."""
    _check_others(others)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if sliding_window is None and attention_mask is None:
        sliding_window = getattr(module, "sliding_window", None)
    asked = _Asked(attention_mask, query, key, causal, sliding_window)
    sinks = _sinks_of(module, s_aux, sinks)
    dropout = dropout if getattr(module, "training", False) else 0.0
    bias = _added(asked.bias, position_bias, query)
    common = {"softcap": softcap, "sinks": sinks, "dropout_p": dropout}
    options = {**common, **asked.options(), "scale": scaling, "deterministic": others.get("deterministic") or None}
    if asked.is_plain() and cu_seq_lens_q is None and query.shape[2] == key.shape[2] > 1 and bias is None \
            and not torch.compiler.is_compiling():  # models that make their masks without position_ids
        asked.starts = _positions.starts(others.get("position_ids"), query.shape[0], query.shape[2])
    packs = asked.starts if cu_seq_lens_q is None or asked.pairs is not None or asked.bias is not None else cu_seq_lens_q
    inputs = [query, key, value, sinks]
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    widest = max(query.shape[-1], value.shape[-1])
    if packs is not None:
        if asked.padding is not None or bias is not None:
            raise ValueError(f"{'attention_mask' if bias is None else 'position_bias'} must be None where sequences are packed by "
                             "cu_seq_lens_q or position_ids; packed sequences need no padding")
        if packs is asked.starts:
            cu_seq_lens_k = max_length_q = max_length_k = None
        o = _packed(asked, query, key, value, packs, cu_seq_lens_k, max_length_q, max_length_k, options)
    elif not learns and bias is None and query.shape[2] <= DECODED_ROWS and query.shape[2] < key.shape[2] \
            and widest <= cached.MAX_DIM and (asked.from_end or not asked.has_diagonal()):
        o = _decoded(asked, query, key, value, {**common, "softmax_scale": scaling})
    else:
        mask = asked.pairs
        if asked.spans is not None:
            begin, end = asked.spans
            options |= {"modifier": "spans", "captures": {"key_begin": begin, "key_end": end, "query_begin": begin, "query_end": end}}
        if asked.padding is not None:
            mask = asked.padding[:, None, None]
            if not asked.from_end:  # the last keys that are no tokens are left out
                options["seqused_k"] = _lengths_of(asked.padding)
        elif mask is not None and query.shape[2] < key.shape[2] == mask.shape[-1]:  # the part of a static cache that is empty
            options["seqused_k"] = _lengths_of(mask).expand(query.shape[0]).contiguous()
        o = attention(query, key, value, attn_mask=mask, bias=bias, **options)
    return o.transpose(1, 2).contiguous(), None


def register_for_transformers(name="tilewright", *, dense_masks=False):
    """Makes attn_implementation=NAME work in Hugging Face transformers: for models that are loaded afterwards, and for
    model.set_attn_implementation(NAME). Can be called again, also with other arguments.

    name         the name of the implementation; it must not be one that transformers has
    dense_masks  whether masks are tensors of all pairs, as those of 'sdpa' are, instead of lengths and windows from which
                 kernels know what to leave out: for models that compute with their masks

    Raises ImportError if there is no transformers, or one whose masks are described in another way or mean something else,
    and ValueError for a name that is taken."""
    try:
        import transformers
        from transformers import AttentionInterface, masking_utils
    except ImportError as error:
        raise ImportError("register_for_transformers needs transformers, of version 5: pip install transformers "
                          f"({error})") from None
    import inspect
    if "q_offset" not in inspect.signature(getattr(masking_utils, "sdpa_mask", lambda: None)).parameters:
        raise ImportError(f"register_for_transformers needs masks with q_length and q_offset, which version {transformers.__version__} "
                          "of transformers does not have; 5.24 does: pip install --upgrade transformers")
    from tilewright import transformers_masks
    transformers_masks.check_meanings()
    taken = AttentionInterface._global_mapping.get(name)
    if not isinstance(name, str) or name == "eager" or (taken is not None and taken is not attention_forward):
        raise ValueError(f"name must be a name that no other attention implementation of transformers has, but got {name!r}")
    AttentionInterface.register(name, attention_forward)
    masking_utils.AttentionMaskInterface.register(
        name, transformers_masks.dense_mask if dense_masks else transformers_masks.mask)
