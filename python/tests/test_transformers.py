# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn_implementation="tilewright" in Hugging Face transformers, against "eager": logits, gradients and generated tokens of
small random models. Runs on the interpreter: needs PyTorch, transformers and tilewright-run, but no GPU."""

import os
import re
import subprocess
import sys
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import interpret_module, torch  # noqa: E402
from transformers_models import (DECODERS, ENCODERS, bart, bert, cache_name, deepseek_v3, gemma2, generated, gpt_oss,  # noqa: E402
                                 llama, llama4, mistral, padded, qwen2, register, run, t5, tokens, transformers)

import tilewright  # noqa: E402
from tilewright import cached, ops, performance, places  # noqa: E402
from tilewright.transformers import attention_forward  # noqa: E402
from tilewright.transformers_masks import Mask, check_meanings, mask as make_mask, pattern_of  # noqa: E402
from transformers import masking_utils  # noqa: E402

PYTHON = os.path.dirname(places.PACKAGE)


def setUpModule():
    interpret_module()
    register()


class Watched:
    """The arguments of the launches in a `with`."""

    def __enter__(self):
        self.calls, launch = [], ops.launch

        def watch(plan, values, *more):
            self.calls.append(values)
            return launch(plan, values, *more)

        self.patches = [mock.patch.object(module, "launch", watch) for module in (ops, cached)]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *error):
        for patch in self.patches:
            patch.stop()

    def names(self):
        return set().union(*self.calls)


class ModelTest(unittest.TestCase):
    def beside_eager(self, model, inputs, kept=None, learned=True):
        """Asserts that the results equal those of eager, and returns the launches."""
        wanted = run(model, "eager", inputs, kept, learned)
        with Watched() as launches:
            got = run(model, "tilewright", inputs, kept, learned)
        self.assertEqual(len(got), len(wanted))
        self.assertGreater(len(launches.calls), 1)
        for x, y in zip(got, wanted):
            self.assertFalse(y.isnan().any())
            torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5 * (1 + y.abs().max().item()))
        return launches

    def test_decoders(self):
        for name, make in DECODERS.items():
            with self.subTest(name):
                launches = self.beside_eager(make(), {"input_ids": tokens(2, 9)})
                self.assertEqual(len(launches.calls), 4)  # forward and backward of two layers
                self.assertNotIn("mask", launches.names())
                self.assertEqual(launches.calls[0]["k"].shape[1], 2)  # heads are not repeated

    def test_the_features_matter(self):
        """Otherwise the tests above would compare models that do not use them."""
        ids = {"input_ids": tokens(2, 9)}
        for make, other in ((mistral, {"sliding_window": 64}), (gemma2, {"attn_logit_softcapping": None}),
                            (qwen2, {"layer_types": ["full_attention"] * 2})):
            one, two = (run(make(**options), "tilewright", ids, learned=False)[0] for options in ({}, other))
            self.assertGreater((one - two).abs().max(), 0.1)
        model = gpt_oss()
        one = run(model, "tilewright", ids, learned=False)[0]
        for layer in model.model.layers:
            layer.self_attn.sinks.data.fill_(-30.0)
        self.assertGreater((one - run(model, "tilewright", ids, learned=False)[0]).abs().max(), 0.1)

    def test_padding(self):
        for name, make in DECODERS.items():
            for left in (False, True):
                with self.subTest(name, left=left):
                    mask = padded(9, 9, 5, left=left)
                    launches = self.beside_eager(make(), {"input_ids": tokens(2, 9), "attention_mask": mask}, mask)
                    self.assertEqual(tuple(launches.calls[0]["mask"].shape), (2, 1, 1, 9))  # not of all pairs
                    self.assertEqual(launches.calls[0]["seqused_k"].tolist(), [9, 9] if left else [9, 5])

    def test_holes_in_padding(self):
        mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 0, 0]])
        self.beside_eager(llama(), {"input_ids": tokens(1, 9), "attention_mask": mask}, mask)

    def test_packed_by_positions(self):
        positions = torch.tensor([[*range(4), *range(1), *range(5)], [*range(3), *range(7)]])
        for name, make in DECODERS.items():
            if make is gpt_oss:  # whose masks do not know of positions
                continue
            with self.subTest(name):
                launches = self.beside_eager(make(), {"input_ids": tokens(2, 10), "position_ids": positions, "use_cache": False})
                self.assertEqual(launches.calls[0]["cu_seqlens_q"].tolist(), [0, 4, 5, 10, 13, 20])
                self.assertEqual(launches.calls[0]["q"].shape[0], 1)

    def test_packed_in_a_model_whose_masks_do_not_say_so(self):
        """gpt-oss: eager attends over the ends of sequences, flash_attention_2 and this implementation read position_ids."""
        model, ids, positions = gpt_oss(), tokens(2, 7), torch.tensor([[*range(4), *range(3)]])
        both = {"input_ids": ids, "position_ids": positions.expand(2, -1), "use_cache": False}
        with Watched() as launches:
            got = run(model, "tilewright", both, learned=False)[0].reshape(2, 7, -1)
        self.assertEqual([call["cu_seqlens_q"].tolist() for call in launches.calls], [[0, 4, 7, 11, 14]] * 2)
        alone = [run(model, "eager", {"input_ids": ids[:, a:b]}, learned=False)[0].reshape(2, b - a, -1) for a, b in ((0, 4), (4, 7))]
        torch.testing.assert_close(got, torch.cat(alone, 1), rtol=2e-4, atol=2e-4)
        self.assertGreater((got - run(model, "eager", both, learned=False)[0].reshape(2, 7, -1)).abs().max(), 1e-2)

    def test_packed_by_the_collator(self):
        collator = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)
        parts = [tokens(n).tolist() for n in (4, 1, 5)]
        batch = dict(collator([{"input_ids": part} for part in parts]))
        batch.pop("labels")
        for make in (llama, qwen2):
            launches = self.beside_eager(make(), {**batch, "use_cache": False})
            self.assertEqual(launches.calls[0]["cu_seqlens_q"].tolist(), [0, 4, 5, 10])
            # Each sequence is as if it were alone.
            model = make()
            together = run(model, "tilewright", {**batch, "use_cache": False}, learned=False)[0]
            alone = [run(model, "tilewright", {"input_ids": torch.tensor([part])}, learned=False)[0] for part in parts]
            torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-4)
            # Without position_ids the offsets say it: rotary positions then run on, which a shift of all does not change.
            del batch["position_ids"]
            torch.testing.assert_close(run(model, "tilewright", {**batch, "use_cache": False}, learned=False)[0], together,
                                       rtol=1e-3, atol=1e-3)
            batch["position_ids"] = torch.cat([torch.arange(len(part)) for part in parts])[None]

    def test_encoders(self):
        for name, make in ENCODERS.items():
            with self.subTest(name):
                self.beside_eager(make(), {"input_ids": tokens(2, 9)})
                mask = padded(9, 6, 9)
                launches = self.beside_eager(make(), {"input_ids": tokens(2, 9), "attention_mask": mask}, mask)
                self.assertEqual(launches.calls[0]["seqused_k"].tolist(), [6, 9])

    def test_cross_attention(self):
        inputs = {"input_ids": tokens(2, 7), "attention_mask": padded(7, 7, 4), "decoder_input_ids": tokens(2, 5)}
        self.beside_eager(bart(), inputs)
        model = bart()
        tokens_of = [generated(model, each, inputs["input_ids"], attention_mask=inputs["attention_mask"], num_beams=1)
                     for each in ("eager", "tilewright")]
        self.assertTrue(torch.equal(*tokens_of))

    def test_other_models(self):
        """A learned bias, values of another width, and a mask that is not known."""
        inputs = {"input_ids": tokens(2, 7), "attention_mask": padded(7, 7, 4), "decoder_input_ids": tokens(2, 5)}
        self.assertIn("bias", self.beside_eager(t5(), inputs).names())
        mask = padded(9, 9, 5)
        launches = self.beside_eager(deepseek_v3(), {"input_ids": tokens(2, 9), "attention_mask": mask}, mask)
        self.assertEqual((launches.calls[0]["q"].shape[-1], launches.calls[0]["v"].shape[-1]), (12, 6))
        launches = self.beside_eager(llama4(), {"input_ids": tokens(2, 9), "attention_mask": mask}, mask)
        self.assertEqual(tuple(launches.calls[0]["mask"].shape), (2, 1, 9, 9))

    def test_masks_of_the_caller(self):
        """Masks of four dimensions are what they are, as for eager: of bool for this implementation, or floats."""
        kept = (torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(3)) < 0.5) | torch.eye(9, dtype=torch.bool)
        floats = torch.zeros(2, 1, 9, 9).masked_fill(~kept, torch.finfo(torch.float32).min)
        model, ids = llama(), tokens(2, 9)
        wanted = run(model, "eager", {"input_ids": ids, "attention_mask": floats})
        for each in (kept, floats):
            for x, y in zip(run(model, "tilewright", {"input_ids": ids, "attention_mask": each}), wanted):
                torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5 * (1 + y.abs().max().item()))

    def test_dense_masks(self):
        register(dense_masks=True)
        self.addCleanup(register)
        mask = padded(9, 9, 5)
        launches = self.beside_eager(qwen2(), {"input_ids": tokens(2, 9), "attention_mask": mask}, mask)
        self.assertEqual(tuple(launches.calls[0]["mask"].shape), (2, 1, 9, 9))

    def test_dropout(self):
        model, ids = llama(attention_dropout=0.5), {"input_ids": tokens(2, 9)}
        evaluated = run(model, "tilewright", ids, learned=False)[0]
        torch.testing.assert_close(evaluated, run(model, "eager", ids, learned=False)[0], rtol=1e-4, atol=1e-4)
        model.train()
        results = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            results.append(run(model, "tilewright", ids))
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(*results[:2])))
        self.assertGreater((results[0][0] - results[2][0]).abs().max(), 1e-2)
        self.assertGreater((results[0][0].reshape(evaluated.shape) - evaluated).abs().max(), 1e-2)

    def test_checkpointing(self):
        model, inputs = gemma2(), {"input_ids": tokens(2, 9), "attention_mask": padded(9, 9, 5), "use_cache": False}
        wanted = run(model, "tilewright", inputs, inputs["attention_mask"])
        model.train()
        for reentrant in (False, True):
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
            model.zero_grad()
            logits = model(**inputs).logits[inputs["attention_mask"].bool()]
            logits.backward(torch.cos(torch.arange(logits.numel()).reshape(logits.shape) * 0.37))
            got = [p.grad for p in model.parameters() if p.grad is not None]
            for x, y in zip([logits, *got], wanted):
                torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5 * (1 + y.abs().max().item()))

    def test_compiled(self):
        """The Mask passes through traced code, in which positions are not read, so that there are spans of tokens; with an
        attention_mask, transformers takes no sequences for packed."""
        mask, positions = padded(9, 9, 5), torch.tensor([[*range(4), *range(5)]])
        for make, inputs in ((llama, {}), (gemma2, {"attention_mask": mask}), (mistral, {"position_ids": positions.expand(2, -1)})):
            model, kept = make(), inputs.get("attention_mask")
            inputs = {"input_ids": tokens(2, 9), "use_cache": False, **inputs}
            wanted = run(model, "eager", inputs, kept)
            torch.compiler.reset()
            forward, model.forward = model.forward, torch.compile(model.forward, backend="aot_eager", fullgraph=True)
            with Watched() as launches:
                got = run(model, "tilewright", inputs, kept)
            model.forward = forward
            for x, y in zip(got, wanted):
                torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5 * (1 + y.abs().max().item()))
            if kept is None:
                self.assertNotIn("mask", launches.names())
                ends = [4] * 4 + [9] * 5 if "position_ids" in inputs else [9] * 9
                self.assertEqual(launches.calls[0]["key_end"].tolist(), [ends] * len(inputs["input_ids"]))
            else:
                self.assertEqual(tuple(launches.calls[0]["mask"].shape), (2, 1, 1, 9))


class GenerationTest(unittest.TestCase):
    def test_greedy(self):
        ids = tokens(2, 5)
        for name, make in DECODERS.items():
            model = make()
            for mask in (None, padded(5, 5, 2, left=True)):
                for cache in ("dynamic", "static"):
                    with self.subTest(name, cache=cache, padded=mask is not None):
                        options = {"attention_mask": torch.ones_like(ids) if mask is None else mask, "cache_implementation": cache}
                        with Watched() as launches:
                            got = generated(model, "tilewright", ids, **options)
                        self.assertTrue(torch.equal(got, generated(model, "eager", ids, **options)))
                        self.assertIn("k_pages", launches.names())  # decoded by the kernel that divides keys
                        if mask is not None and cache == "dynamic":
                            self.assertIn("leftpad", launches.names())

    def test_beams(self):
        model, ids = qwen2(), tokens(2, 5)
        options = {"attention_mask": padded(5, 5, 3, left=True), "num_beams": 3}
        self.assertTrue(torch.equal(*(generated(model, each, ids, **options) for each in ("tilewright", "eager"))))

    def test_chunks(self):
        """Several new queries at a time, over what a cache holds."""
        ids = tokens(2, 24)
        for name, make in DECODERS.items():
            for mask in (None, padded(24, 24, 15, left=True)):
                with self.subTest(name, padded=mask is not None):
                    model = make()
                    kept = torch.ones_like(ids) if mask is None else mask
                    wanted = run(model, "eager", {"input_ids": ids, "attention_mask": kept}, learned=False)[0]
                    wanted = wanted.reshape(2, 24, -1)
                    model.set_attn_implementation("tilewright")
                    cache, got = transformers.DynamicCache(config=model.config), []
                    for start, end in ((0, 3), (3, 7), (7, 8), (8, 24)):
                        more = {} if mask is None else {"attention_mask": mask[:, :end],
                                                        "position_ids": torch.arange(start, end).expand(2, -1)}
                        with torch.no_grad():
                            got.append(model(ids[:, start:end], **{cache_name(model): cache}, **more).logits)
                    torch.testing.assert_close(torch.cat(got, 1)[kept.bool()], wanted[kept.bool()], rtol=1e-3, atol=1e-3)

    def test_a_cache_with_gradients(self):
        """Prefix tuning: the keys of a cache, and queries over it, get gradients."""
        model, ids = llama(), tokens(2, 6)
        results = []
        for implementation in ("eager", "tilewright"):
            model.set_attn_implementation(implementation)
            cache = transformers.DynamicCache(config=model.config)
            prefix = [torch.randn(2, 2, 3, 8, generator=torch.Generator().manual_seed(n)).requires_grad_() for n in range(4)]
            for layer in range(2):
                cache.update(prefix[2 * layer], prefix[2 * layer + 1], layer)
            logits = model(ids, **{cache_name(model): cache}).logits
            results.append([logits.detach(), *torch.autograd.grad(logits.sin().sum(), prefix)])
        for x, y in zip(*results):
            torch.testing.assert_close(x, y, rtol=2e-4, atol=1e-4)


class Module(torch.nn.Module):
    is_causal, sliding_window = True, None


class FunctionTest(unittest.TestCase):
    """The function itself: what modules and models may give."""

    def setUp(self):
        generator = torch.Generator().manual_seed(1)
        self.q = torch.randn(2, 4, 6, 8, generator=generator)
        self.k, self.v = (torch.randn(2, 2, 6, 8, generator=generator) for _ in range(2))

    def call(self, mask=None, module=None, **options):
        return attention_forward(module or Module(), self.q, self.k, self.v, mask, **options)[0]

    def plain(self, **options):
        return tilewright.attention(self.q, self.k, self.v, **options).transpose(1, 2)

    def same(self, got, **options):
        torch.testing.assert_close(got, self.plain(**options), rtol=1e-5, atol=1e-5)

    def test_without_a_mask(self):
        """Modules that are called on their own, and models that make no mask."""
        self.same(self.call(), causal=True)
        self.same(self.call(is_causal=False))
        self.same(self.call(scaling=0.3), causal=True, scale=0.3)
        self.same(self.call(sliding_window=3), causal=True, window=(2, -1))
        self.same(self.call(is_causal=False, sliding_window=3), window=(2, 2))
        module = Module()
        module.sliding_window, module.sinks = 2, torch.nn.Parameter(torch.tensor([0.5, 1.0, -1.0, 2.0]))
        self.same(self.call(module=module), causal=True, window=(1, -1), sinks=module.sinks)
        self.same(self.call(s_aux=torch.ones(4).bfloat16(), softcap=2.0), causal=True, sinks=torch.ones(4), softcap=2.0)
        module = Module()
        module.is_causal = False
        self.same(self.call(module=module))

    def test_masks_of_tokens(self):
        tokens_of = padded(6, 6, 4)
        self.same(self.call(tokens_of), causal=True, attn_mask=tokens_of[:, None, None].bool())
        self.same(self.call(tokens_of.bool(), is_causal=False), attn_mask=tokens_of[:, None, None].bool())
        self.q = self.q[:, :, :4]
        self.same(self.call(tokens_of), causal="bottom_right", attn_mask=tokens_of[:, None, None].bool())
        self.same(self.call(tokens_of[:, :4]), causal="top_left", attn_mask=torch.arange(6) < 4)  # a static cache
        self.q = self.q[:, :, :1]
        self.same(self.call(tokens_of[:, :4]), attn_mask=torch.arange(6) < 4)

    def test_a_static_cache_that_is_padded(self):
        """Many queries over a cache of which a part is empty: the kernels do not visit that part."""
        generator = torch.Generator().manual_seed(4)
        self.q = torch.randn(2, 4, 20, 8, generator=generator)
        self.k, self.v = (torch.randn(2, 2, 40, 8, generator=generator) for _ in range(2))
        mask = torch.ones(20, 40, dtype=torch.bool).tril().expand(2, 1, 20, 40).clone()
        mask[0, :, :, :5] = False
        with Watched() as launches:
            got = self.call(mask)
        self.same(got, attn_mask=mask)
        self.assertEqual(launches.calls[0]["seqused_k"].tolist(), [20, 20])

    def test_masks_of_few_queries(self):
        """These are decoded; a mask that all keys share has no length."""
        self.q = self.q[:, :, :2]
        for mask in (torch.tensor([[[[True], [False]]]]), torch.rand(2, 4, 2, 6) < 0.5, torch.rand(1, 1, 1, 6) < 0.5):
            self.same(self.call(mask), attn_mask=mask)

    def test_the_mask_says_more_than_the_module(self):
        """As for eager and sdpa; flash_attention_2 would apply the window of the module."""
        full = torch.ones(1, 1, 6, 6, dtype=torch.bool)
        self.same(self.call(full, sliding_window=2))
        self.same(self.call(Mask(True, (-1, -1), False, None), sliding_window=2), causal=True)

    def test_biases(self):
        bias = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(2)).requires_grad_()
        self.same(self.call(position_bias=bias), causal=True, bias=bias)
        floats = torch.zeros(2, 1, 6, 6).masked_fill(torch.rand(2, 1, 6, 6) < 0.3, torch.finfo(torch.float32).min)
        self.same(self.call(floats.double(), position_bias=bias), bias=bias + floats)
        kept = floats == 0
        self.same(self.call(kept, position_bias=bias), bias=bias, attn_mask=kept)
        got, wanted = (torch.autograd.grad(o.sin().sum(), bias)[0] for o in (
            self.call(position_bias=bias), self.plain(causal=True, bias=bias)))
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)

    def test_offsets(self):
        """A vision tower gives offsets of 64 bits, no mask, and is not causal."""
        self.q, self.k, self.v = self.q[:1], self.k[:1], self.v[:1]
        starts = torch.tensor([0, 2, 6])
        got = self.call(cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=4, max_length_k=4, is_causal=False)
        wanted = torch.cat([tilewright.attention(*(x[:, :, a:b] for x in (self.q, self.k, self.v))) for a, b in ((0, 2), (2, 6))], 2)
        torch.testing.assert_close(got, wanted.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_layout(self):
        self.assertTrue(self.call().is_contiguous())
        self.assertEqual(self.call().shape, (2, 6, 4, 8))
        self.assertIsNone(attention_forward(Module(), self.q, self.k, self.v, None)[1])

    def rejects(self, text, *mask, **options):
        with self.assertRaises(ValueError) as caught:
            self.call(*mask, **options)
        self.assertEqual(str(caught.exception), text)

    def test_rejects(self):
        self.rejects("head_mask must be None with the attention implementation 'tilewright', but got a tensor of torch.float32 and "
                     "shape [4]; use attn_implementation='eager'", head_mask=torch.ones(4))
        self.rejects("block_table must be None with the attention implementation 'tilewright', but got 3; generate_batch has 'sdpa' "
                     "and 'flash_attention_2'; generate works, or tilewright.flash_attn_with_kvcache", block_table=3)
        self.rejects("block_indices must be None with the attention implementation 'tilewright', but got 3; use an implementation "
                     "that the model's documentation names for sparse attention", block_indices=3)
        self.rejects("output_attentions must be False with the attention implementation 'tilewright', whose kernels do not write "
                     "probabilities; use attn_implementation='eager'", output_attentions=True)
        self.rejects("sinks must be a tensor with one logit for each head, but got a tensor of torch.float32 and shape [2, 4, 6, 1]; "
                     "use attn_implementation='eager'", sinks=torch.ones(2, 4, 6, 1))
        self.rejects("attention_mask must have 2 dimensions [batch, keys] or 4 [batch, heads, queries, keys], but got shape [2, 6, 6]",
                     torch.ones(2, 6, 6))
        self.rejects("attention_mask of 2 dimensions must be of bool or integers, for at most 6 keys, but got a tensor of torch.int64 "
                     "and shape [2, 7]", torch.ones(2, 7, dtype=torch.long))
        self.rejects("attention_mask of 2 dimensions must be of bool or integers, for at most 6 keys, but got a tensor of "
                     "torch.float32 and shape [2, 6]", torch.ones(2, 6))
        self.rejects("attention_mask of 2 dimensions must be of bool or integers, for at most 6 keys, but got a tensor of torch.int64 "
                     "and shape [2, 5]", torch.ones(2, 5, dtype=torch.long))  # where would the diagonal begin?
        self.rejects("attn_mask must have extents of [2, 4, 6, 6] or 1, but got shape [2, 1, 6, 7]",
                     torch.ones(2, 1, 6, 7, dtype=torch.bool))
        self.rejects("attention_mask of 4 dimensions must be of bool or floats, but got torch.int64; convert it",
                     torch.ones(2, 1, 6, 6, dtype=torch.long))
        self.rejects("attention_mask must be None, a tensor, or a mask that the implementation 'tilewright' made, but got str; do not "
                     "change the implementation between a mask and its use", "causal")
        starts = torch.tensor([0, 6, 12])
        self.rejects("attention_mask must be None where sequences are packed by cu_seq_lens_q or position_ids; packed sequences need "
                     "no padding", padded(6, 6, 4), cu_seq_lens_q=starts)
        self.rejects("position_bias must be None where sequences are packed by cu_seq_lens_q or position_ids; packed sequences need "
                     "no padding", cu_seq_lens_q=starts, position_bias=torch.zeros(1, 4, 6, 6))
        with tilewright.interpret(None):
            self.rejects("q must be on a CUDA device, but got cpu; move it with .cuda(), or see tilewright.interpret")

    def test_unknown_arguments_are_named(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                self.call(new_feature=1, position_ids=torch.arange(6))
        self.assertEqual([str(each.message) for each in caught],
                         ["the attention implementation 'tilewright' does not know the argument 'new_feature' of an attention, and "
                          "ignores it, as 'sdpa' does"])


class MaskTest(unittest.TestCase):
    def mask(self, function=masking_utils.causal_mask_function, **options):
        return make_mask(batch_size=2, **{"q_length": 6, "kv_length": 6, **options}, mask_function=function)

    def test_what_is_known(self):
        window = masking_utils.sliding_window_causal_mask_function(4)
        both = masking_utils.sliding_window_bidirectional_mask_function(4)
        self.assertEqual(self.mask(), Mask(True, (-1, -1), False, None))
        self.assertEqual(self.mask(window), Mask(True, (3, -1), False, None))
        self.assertEqual(self.mask(window, q_length=2, q_offset=4), Mask(True, (3, -1), True, None))
        self.assertEqual(self.mask(window, q_length=2, kv_length=4, q_offset=9, kv_offset=7), Mask(True, (3, -1), True, None))
        self.assertEqual(self.mask(window, kv_length=9), Mask(True, (3, -1), False, None))
        self.assertEqual(self.mask(both, allow_is_bidirectional_skip=True, allow_is_causal_skip=False),
                         Mask(False, (4, 4), False, None))
        found = self.mask(attention_mask=torch.tensor([[1, 1], [0, 1]]).bool(), q_length=1, kv_length=3, q_offset=3, kv_offset=1)
        self.assertEqual(found.padding.tolist(), [[True, False, False]] * 2)

    def test_meanings_are_checked(self):
        """A version in which a window counts one key more would give other results without a word."""
        check_meanings()

        def sliding_window_overlay(sliding_window):
            def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
                return kv_idx >= q_idx - sliding_window
            inner_mask.__module__, inner_mask.__qualname__ = masking_utils.__name__, "sliding_window_overlay.<locals>.inner_mask"
            return inner_mask

        with mock.patch.object(masking_utils, "sliding_window_overlay", sliding_window_overlay), self.assertRaisesRegex(
                ImportError, "^the masks of this version of transformers mean something else"):
            tilewright.register_for_transformers()

    def test_what_is_not_known_is_a_mask_of_all_pairs(self):
        """And equals that of transformers."""
        chunks = masking_utils.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.long))
        own = masking_utils.or_masks(masking_utils.causal_mask_function, lambda b, h, i, j: j == i + 1)
        for function, options in ((chunks, {}), (own, {}), (masking_utils.causal_mask_function, {"q_offset": 2}),
                                  (masking_utils.causal_mask_function, {"allow_is_causal_skip": False}),
                                  (masking_utils.sliding_window_bidirectional_mask_function(2), {"allow_is_causal_skip": False})):
            performance._given.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = self.mask(function, **options)
            self.assertIsNone(None if len(caught) <= 1 else caught)
            wanted = masking_utils.sdpa_mask(batch_size=2, q_length=6, kv_length=6, mask_function=function,
                                             **{"allow_is_causal_skip": False, **options})
            self.assertTrue(torch.equal(found, wanted))
            if function in (chunks, own):
                self.assertIsNone(pattern_of(function))
                self.assertRegex(str(caught[0].message), "a model composes its mask in a way that tilewright does not know")

    def test_a_model_that_computes_with_its_mask_is_told(self):
        for attribute in ("shape", "dtype", "to"):
            with self.assertRaises(AttributeError) as caught:
                getattr(self.mask(), attribute)
            self.assertEqual(str(caught.exception),
                             f"a mask of the attention implementation 'tilewright' is no tensor, and has no '{attribute}'; call "
                             "tilewright.register_for_transformers(dense_masks=True), for models that compute with masks themselves")


class ExampleTest(unittest.TestCase):
    def test_it_trains_tiny_models_without_a_gpu(self):
        example = os.path.join(os.path.dirname(PYTHON), "examples", "train_transformers.py")
        if torch.cuda.is_available() or not os.path.isfile(example):
            self.skipTest(f"there is a GPU, or no {example}")
        done = subprocess.run([sys.executable, "-B", example, "--rows", "9"], env={**os.environ, "PYTHONPATH": PYTHON},
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("There is no GPU: tiny models, 9 tokens, f32, on tilewright-run.", done.stdout)
        for model in ("gemma2", "gpt_oss"):  # the losses are those of eager
            losses = re.findall(rf"{model} +(?:tilewright|eager) +[0-9.]+ ms a step, loss ([0-9.]+)", done.stdout)
            self.assertEqual(len(losses), 2, done.stdout)
            self.assertEqual(*losses)
            self.assertRegex(done.stdout, rf"{model} +sdpa +does not run: ValueError")


class RegisterTest(unittest.TestCase):
    def test_names(self):
        tilewright.register_for_transformers("ours")
        self.addCleanup(transformers.AttentionInterface._global_mapping.pop, "ours")
        self.addCleanup(masking_utils.AttentionMaskInterface._global_mapping.pop, "ours")
        model, ids = bert(), {"input_ids": tokens(2, 5)}
        one, two = (run(model, name, ids, learned=False)[0] for name in ("ours", "tilewright"))
        self.assertTrue(torch.equal(one, two))
        for taken in ("sdpa", "eager", "flash_attention_2"):
            with self.assertRaisesRegex(ValueError, "name must be a name that no other attention implementation of transformers has, but "
                                                    f"got '{taken}'"):
                tilewright.register_for_transformers(taken)

    def test_says_what_is_missing(self):
        with mock.patch.dict(sys.modules, {"transformers": None}), self.assertRaisesRegex(
                ImportError, "register_for_transformers needs transformers, of version 5: pip install transformers"):
            tilewright.register_for_transformers()
        with mock.patch.object(masking_utils, "sdpa_mask", lambda cache_position: None), self.assertRaisesRegex(
                ImportError, "register_for_transformers needs masks with q_length and q_offset, which version"):
            tilewright.register_for_transformers()

    def test_the_package_does_not_import_transformers(self):
        code = "import sys, tilewright, tilewright.torch, tilewright.sdpa; tilewright.register_for_transformers; " \
               "sys.exit('transformers' in sys.modules)"
        done = subprocess.run([sys.executable, "-B", "-c", code], env={**os.environ, "PYTHONPATH": PYTHON})
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
