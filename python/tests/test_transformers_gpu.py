# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn_implementation="tilewright" in Hugging Face transformers on a GPU, in bf16, against "eager" in f32. The tests are
skipped, with a message, if there is no GPU or no transformers."""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from transformers_models import (DECODERS, ENCODERS, bert, gemma2, generated, gpt_oss, llama, mistral, padded, register,  # noqa: E402
                                 run, tokens, torch)

if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")

from torch.profiler import ProfilerActivity, profile  # noqa: E402

WIDE = dict(hidden_size=256, head_dim=64, max_position_embeddings=1024, sliding_window=48)


def setUpModule():
    register()


def wide(make):
    names = {"llama": ("head_dim",), "mistral": ("head_dim", "sliding_window"), "qwen2": ("sliding_window",),
             "gemma2": ("head_dim", "sliding_window"), "gpt_oss": ("head_dim", "sliding_window")}.get(make.__name__, ())
    options = {name: WIDE[name] for name in ("hidden_size", "max_position_embeddings", *names)}
    return make(initializer_range=0.08, **options).cuda()


class ModelTest(unittest.TestCase):
    def beside_eager(self, make, inputs, kept=None):
        """Asserts that the error in bf16 is at most twice that of eager in bf16, and a small slack."""
        exact, inputs = wide(make), {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}
        half = copy.deepcopy(exact).bfloat16()
        exact.load_state_dict(half.state_dict())  # both have the rounded weights
        kept = None if kept is None else kept.cuda()
        wanted = run(exact, "eager", inputs, kept)
        peer, got = (run(half, each, inputs, kept) for each in ("eager", "tilewright"))
        largest = max(want.abs().max() for want in wanted[1:])
        for x, y, want in zip(got, peer, wanted):
            if want.abs().max() < 1e-4 * largest:  # that of a bias of keys, which moves all scores of a row, is 0 but for rounding
                continue
            error, allowed = ((each.float() - want).abs() for each in (x, y))
            unit = torch.finfo(torch.bfloat16).eps * want.abs().max()
            self.assertFalse(x.isnan().any())
            self.assertLessEqual(error.mean(), 2 * allowed.mean() + unit / 4)
            self.assertLessEqual(error.max(), 4 * allowed.max() + 2 * unit)

    def test_models(self):
        for name, make in {**DECODERS, **ENCODERS}.items():
            with self.subTest(name):
                self.beside_eager(make, {"input_ids": tokens(2, 150)})

    def test_padding(self):
        for make in (llama, gemma2, gpt_oss, bert):
            for left in (False, True):
                with self.subTest(make.__name__, left=left):
                    mask = padded(150, 150, 70, left=left)
                    self.beside_eager(make, {"input_ids": tokens(2, 150), "attention_mask": mask}, mask)

    def test_packed(self):
        positions = torch.cat([torch.arange(n) for n in (40, 1, 109)]).expand(2, -1)
        for make in (llama, mistral, gemma2):
            with self.subTest(make.__name__):
                self.beside_eager(make, {"input_ids": tokens(2, 150), "position_ids": positions, "use_cache": False})

    def test_compiled(self):
        """Inductor's code gives what eager code gives, with spans in place of offsets. In f32: Inductor rounds to bf16 in other
        places, and a rounded router of gpt-oss may choose other experts."""
        for make in (gemma2, gpt_oss):
            model, inputs = wide(make), {"input_ids": tokens(2, 150).cuda(), "use_cache": False}
            wanted = run(model, "tilewright", inputs)
            torch.compiler.reset()
            model.forward = torch.compile(model.forward)
            for x, y in zip(run(model, "tilewright", inputs), wanted):
                torch.testing.assert_close(x, y, rtol=2e-3, atol=2e-4 * (1 + y.abs().max().item()))

    def test_generation(self):
        """In f32, in which tokens do not depend on rounding; a static cache makes transformers compile and capture."""
        ids = tokens(2, 70).cuda()
        for make in (llama, mistral, gemma2, gpt_oss):
            model = wide(make)
            for mask in (torch.ones_like(ids), padded(70, 70, 30, left=True).cuda()):
                for cache in ("dynamic", "static"):
                    with self.subTest(make.__name__, cache=cache):
                        options = {"attention_mask": mask, "cache_implementation": cache}
                        got, wanted = (generated(model, each, ids, **options) for each in ("tilewright", "eager"))
                        self.assertTrue(torch.equal(got, wanted))

    def test_no_other_attention_runs(self):
        model, inputs = wide(llama).bfloat16(), {"input_ids": tokens(2, 150).cuda()}
        run(model, "tilewright", inputs)
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            run(model, "tilewright", inputs)
        names = [event.key for event in profiled.key_averages()]
        self.assertTrue(any("attention_forward" in name for name in names), names)
        self.assertTrue(any("pairs_of_keys" in name for name in names), names)
        self.assertFalse(any("softmax" in name for name in names), names)


if __name__ == "__main__":
    unittest.main()
