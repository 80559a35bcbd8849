# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/flash-attention-tests.py on a small checkout in the place of FlashAttention's: what it maps, and each outcome. Runs
on the interpreter: needs PyTorch, pytest and tilewright-run, but no GPU."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import interpret_module  # noqa: E402

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "flash-attention-tests.py")

VERSION_2 = """
    import pytest
    import torch
    from flash_attn import flash_attn_func, flash_attn_with_kvcache
    from flash_attn.bert_padding import helper
    from flash_attn.flash_attn_interface import USE_TRITON_ROCM, _get_block_size_n
    from flash_attn.layers.rotary import apply_rotary_emb

    is_sm90 = torch.cuda.get_device_capability("cuda") == (9, 0)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("seqlen_q,seqlen_k", [(1, 33), (2, 40)])
    @pytest.mark.parametrize("kind", ["right", "wrong", "refused", "skipped"])
    def test_kvcache(kind, seqlen_q, seqlen_k, dtype):
        assert is_sm90 and not USE_TRITON_ROCM and helper() == 7
        if kind == "skipped":
            pytest.skip()
        q = torch.randn(2, seqlen_q, 2, 32, device="cuda", dtype=dtype)
        k, v = (torch.randn(2, seqlen_k, 2, 32, device="cuda", dtype=dtype) for _ in range(2))
        lengths = torch.full((2,), seqlen_k, dtype=torch.int32, device="cuda")
        out = flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, softcap=-1.0 if kind == "refused" else 0.0)
        scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * 32 ** -0.5
        expected = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v.float())
        assert (out.float() - expected).abs().max() < 0.02 - (1 if kind == "wrong" else 0)

    def test_kvcache_of_another_function():
        _get_block_size_n()
        from flash_attn.flash_attn_interface import some_function
        some_function()

    def test_others():
        assert False
"""

VERSION_3 = """
    import torch
    from flash_attn.layers.rotary import apply_rotary_emb
    import flash_attn_interface
    from flash_attn_interface import flash_attn_with_kvcache, get_scheduler_metadata
    from test_util import helper

    def test_flash_attn_kvcache():
        assert helper() == 8 and flash_attn_interface.flash_attn_with_kvcache is flash_attn_with_kvcache
        torch.cuda.synchronize()
        for chunk in 10, 0:  # of 10 keys, all are in the first chunk
            q, cache, new = (torch.randn(2, n, 2, 32, device="cuda") for n in (1, 40, 1))
            lengths = torch.tensor([9, 0], dtype=torch.int32, device="cuda")
            angle = torch.rand(40, 8).to("cuda")
            before, expected = cache.clone(), apply_rotary_emb(new, angle.cos(), angle.sin(), seqlen_offsets=lengths, interleaved=True)
            metadata = get_scheduler_metadata(2, 1, 40, 2, 2, 32, lengths)
            out, lse, *rest = flash_attn_with_kvcache(q, cache, cache.clone(), new, new, rotary_cos=angle.cos(), rotary_sin=angle.sin(),
                                                      cache_seqlens=lengths, attention_chunk=chunk, scheduler_metadata=metadata,
                                                      return_softmax_lse=True)
            assert list(lse.shape) == [2, 2, 1] and not rest
            assert torch.allclose(cache[torch.arange(2), lengths.long()], expected[:, 0], atol=1e-5)
            assert torch.equal(cache[0, :9], before[0, :9])
"""


def setUpModule():
    if not os.path.exists(SCRIPT):
        raise unittest.SkipTest(f"there is no {os.path.basename(SCRIPT)}: it is a part of the source tree")
    if importlib.util.find_spec("pytest") is None:
        raise unittest.SkipTest("pytest is not installed")
    interpret_module()


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = folder.name
        for name, text in (("tests/test_flash_attn.py", VERSION_2), ("hopper/test_flash_attn.py", VERSION_3),
                           ("flash_attn/bert_padding.py", "def helper():\n    return 7\n"),
                           ("flash_attn/__init__.py", "raise ImportError('the mapped package is not this one')\n"),
                           ("hopper/test_util.py", "def helper():\n    return 8\n")):
            os.makedirs(os.path.dirname(os.path.join(self.checkout, name)), exist_ok=True)
            with open(os.path.join(self.checkout, name), "w") as file:
                file.write(textwrap.dedent(text))

    def run_script(self, *options, device="cpu"):
        command = [sys.executable, "-B", SCRIPT, self.checkout, "--device", device, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def test_each_outcome(self):
        results = os.path.join(self.checkout, "results.json")
        status, text = self.run_script("--json", results, "--only", "dtype=float16")
        self.assertEqual(status, 1, text)
        self.assertIn("2 passed, 3 refused, 0 differs, 2 skipped, 2 failed", text)
        self.assertIn("refused 2: softcap must be positive", text)
        self.assertIn("refused 1: flash_attn.flash_attn_interface.some_function is no function of Tilewright", text)
        self.assertIn("test_kvcache: 8 of 8 combinations", text)
        self.assertIn("failed: test_kvcache[", text)
        with open(results) as file:
            outcomes = json.load(file)
        self.assertEqual(len(outcomes), 9)
        self.assertTrue(all(("kind=wrong" in name) == (each["outcome"] == "failed") for name, each in outcomes.items()), outcomes)

    def test_sample(self):
        status, text = self.run_script("--sample", "2", "--only", "kind=right")
        self.assertEqual(status, 0, text)
        self.assertIn("test_kvcache: 2 of 4 combinations", text)
        self.assertIn("2 passed, 1 refused, 0 differs, 0 skipped, 0 failed", text)

    def test_pairs(self):
        """Any two values of two parameters meet, and no test skips itself."""
        results = os.path.join(self.checkout, "results.json")
        status, text = self.run_script("--json", results, "--pairs", "--set", "seqlen_q, seqlen_k=(3, 41), (1, 20), (2, 33)", "-k",
                                       "test_kvcache and not another")
        self.assertEqual(status, 1, text)
        with open(results) as file:
            names = list(json.load(file))
        values = [dict(each.split("=") for each in name[len("test_kvcache["):-1].split("-")) for name in names]
        for one, other, wanted in (("kind", "seqlen_q", 9), ("kind", "dtype", 6), ("seqlen_q", "dtype", 6)):
            self.assertEqual(len({(row[one], row[other]) for row in values}), wanted, names)
        self.assertEqual({(row["seqlen_q"], row["seqlen_k"]) for row in values}, {("3", "41"), ("1", "20"), ("2", "33")})
        self.assertLess(len(values), 18)  # the product
        self.assertIn("0 skipped", text)

    def test_behaviour_that_differs(self):
        with open(os.path.join(self.checkout, "tests", "test_flash_attn.py"), "a") as file:
            file.write(textwrap.dedent("""
                @pytest.mark.parametrize("append_knew", [False, True])
                def test_flash_attn_kvcache_paged_block_table_bounds(append_knew):
                    flash_attn_with_kvcache(None, None, None)
            """))
        status, text = self.run_script("-k", "bounds", "--pairs")  # of one parameter, all values
        self.assertEqual(status, 1, text)  # none passed
        self.assertIn("differs 2: lengths beyond the table are clamped on the device", text)

    def test_version_3(self):
        status, text = self.run_script("--version", "3")
        self.assertEqual(status, 0, text)
        self.assertIn("1 passed, 0 refused", text)

    def test_what_is_missing(self):
        status, text = self.run_script("--file", "tests/other.py")
        self.assertEqual((status, text), (1, f"flash-attention-tests: {self.checkout} has none of tests/other.py\n"))
        status, text = self.run_script("-k", "none_such")
        self.assertEqual(status, 1, text)
        self.assertIn("no test ran, or collecting failed", text)


if __name__ == "__main__":
    unittest.main()
