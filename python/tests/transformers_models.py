# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small random models of Hugging Face transformers, and their results with two implementations of attention. Importing it
skips the test file if there is no PyTorch or no transformers. Does not need a GPU."""

import inspect
import unittest
import warnings

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
try:
    import transformers
    import transformers.masking_utils
except ImportError:
    raise unittest.SkipTest("transformers is not installed, or of a version before 5") from None

import tilewright

transformers.utils.logging.set_verbosity_error()
VOCABULARY = 61
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.4, pad_token_id=0, bos_token_id=1,
             eos_token_id=VOCABULARY - 1)
ENCODER = {name: value for name, value in SIZES.items() if name not in ("num_key_value_heads", "bos_token_id", "eos_token_id")}


def register(dense_masks=False):
    """Registers the implementation, or skips where this version of transformers is too old."""
    if "q_offset" not in inspect.signature(transformers.masking_utils.sdpa_mask).parameters:
        raise unittest.SkipTest(f"the masks of transformers {transformers.__version__} have no q_offset")
    tilewright.register_for_transformers(dense_masks=dense_masks)


def _make(name, model=None, **config):
    if not hasattr(transformers, name + "Config"):
        raise unittest.SkipTest(f"transformers {transformers.__version__} has no {name}Config")
    model = model or next(name + kind for kind in ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")
                          if hasattr(transformers, name + kind))
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(transformers, model)(getattr(transformers, name + "Config")(**config)).eval()


def llama(**config):
    return _make("Llama", **SIZES | config)


def mistral(**config):
    return _make("Mistral", **SIZES | dict(sliding_window=4) | config)


def qwen2(**config):
    """A layer with a window, and one without."""
    return _make("Qwen2", **SIZES | dict(use_sliding_window=True, sliding_window=3,
                                         layer_types=["sliding_attention", "full_attention"]) | config)


def gemma2(**config):
    return _make("Gemma2", **SIZES | dict(head_dim=8, query_pre_attn_scalar=4, sliding_window=4, attn_logit_softcapping=1.5,
                                          layer_types=["sliding_attention", "full_attention"]) | config)


def gpt_oss(**config):
    return _make("GptOss", **SIZES | dict(head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1,
                                          layer_types=["sliding_attention", "full_attention"]) | config)


def bert(**config):
    return _make("Bert", **ENCODER | dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0) | config)


def modern_bert(**config):
    """An encoder with windows on both sides in one layer."""
    return _make("ModernBert", **ENCODER | dict(local_attention=4, global_attn_every_n_layers=2, attention_dropout=0.0,
                                                initializer_cutoff_factor=2.0, reference_compile=False, cls_token_id=1,
                                                sep_token_id=2, bos_token_id=1, eos_token_id=2) | config)


def bart(**config):
    """An encoder and a decoder, which attends the encoder's rows."""
    return _make("Bart", vocab_size=VOCABULARY, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                 decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, init_std=0.4,
                 dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                 forced_eos_token_id=None, **config)


def t5(**config):
    """A learned bias of positions; an encoder and a decoder."""
    return _make("T5", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, dropout_rate=0.0,
                 decoder_start_token_id=0, initializer_factor=2.0, **config)


def deepseek_v3(**config):
    """Values of another width than keys."""
    return _make("DeepseekV3", **SIZES | dict(num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4,
                                              qk_nope_head_dim=8, v_head_dim=6, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
                                              topk_group=1, first_k_dense_replace=2, moe_intermediate_size=16) | config)


def llama4(**config):
    """A layer that attends within chunks, by a mask of all pairs."""
    return _make("Llama4Text", "Llama4ForCausalLM", **SIZES | dict(
        head_dim=8, attention_chunk_size=4, num_local_experts=2, intermediate_size_mlp=48, bos_token_id=1) | config)


DECODERS = {"llama": llama, "mistral": mistral, "qwen2": qwen2, "gemma2": gemma2, "gpt_oss": gpt_oss}
ENCODERS = {"bert": bert, "modern_bert": modern_bert}


def tokens(*shape, seed=1):
    return torch.randint(3, VOCABULARY - 1, shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def padded(rows, *lengths, left=False):
    """A mask of tokens [B, rows]: those of each sequence are at its start, or at its end."""
    j = torch.arange(rows)
    return torch.stack([(j >= rows - n) if left else (j < n) for n in lengths]).long()


def cache_name(model):
    """The name of the argument for a cache, which it had before and has since version 5.2x."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


def run(model, implementation, inputs, kept=None, learned=True):
    """Logits, and gradients of all parameters for fixed seeds, of the rows that `kept` [B, rows] has."""
    model.set_attn_implementation(implementation)
    with torch.set_grad_enabled(learned):
        logits = model(**inputs).logits
        kept = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device) if kept is None else kept.bool()
        logits = logits[kept]
    if not learned:
        return [logits]
    seeds = torch.cos(torch.arange(logits.numel(), device=logits.device).reshape(logits.shape) * 0.37)
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(logits, parameters, seeds.to(logits), allow_unused=True)
    return [logits.detach(), *(x for x in found if x is not None)]


def generated(model, implementation, ids, **options):
    model.set_attn_implementation(implementation)
    return model.generate(ids, do_sample=False, max_new_tokens=6, **options)
