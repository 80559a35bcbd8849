# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the plans for a GPU: every kernel that attention selects compiles, and the runtime accepts its arguments.
Needs PyTorch and the built libraries, but no GPU."""

import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import interpret_module, make, qkv, torch  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ops, places, plans, runtime  # noqa: E402
from tilewright.torch import attention  # noqa: E402
from torch_reference import fill  # noqa: E402


def setUpModule():
    if not os.path.exists(places.find_library()):
        raise unittest.SkipTest(f"there is no {places.find_library()}")
    interpret_module()


class PlansTest(unittest.TestCase):
    """Runs the interpreter; before each run, the plan for a GPU checks names, types and shapes."""

    def setUp(self):
        self.made, self.checked, plan, launch = {}, [], ops.plan, ops.launch

        def both(choice, device):
            if choice not in self.made:
                self.made[choice] = plans.compile_choice(choice, ["sm_80"])
                self.made[choice].check_support(8, 0)
            found = plan(choice, device)
            found.choice = choice
            return found

        def check(plan, values, outputs, device):
            other = self.made[plan.choice]
            for name in outputs:
                self.assertTrue(name in ("o", "lse", "dq", "dk", "dv") or other.takes(name), name)
            size = other.workspace_size(other.pack(values))
            self.checked.append((plan.choice.kernel, size))
            launch(plan, values, outputs, device)

        for name, replacement in ("plan", both), ("launch", check):
            patch = mock.patch.object(ops, name, replacement)
            patch.start()
            self.addCleanup(patch.stop)

    def run_through(self, kernels, inputs, learned=(), **options):
        self.checked.clear()
        o = attention(*inputs, **options)
        torch.autograd.grad(o.sum(), [x for x in (*inputs, *learned) if x.requires_grad])
        self.assertEqual([kernel for kernel, _ in self.checked], kernels)

    def everything(self, batch, rows, keys, dtype):
        return fill({"causal": "bottom_right", "window": (5, -1), "softcap": 2.0, "bias": "?pairs", "attn_mask": "?mask",
                     "alibi_slopes": "?slopes", "sinks": "?sinks", "modifier": "relative_bias",
                     "captures": {"relative_bias": "?table", "relative_radius": 3}}, make, batch, 4, rows, keys, dtype, "cpu")

    def test_dense(self):
        inputs = qkv(rows=5, keys=9, width=16, value_width=16, dtype=torch.bfloat16)
        self.run_through(["forward", "backward"], inputs, causal=True)
        bias = make(5, 9, dtype=torch.bfloat16)
        self.run_through(["forward", "backward"], inputs, [bias], bias=bias)
        options, learned = self.everything(2, 5, 9, torch.bfloat16)
        self.run_through(["forward", "backward"], inputs, learned, dropout_p=0.1, deterministic=True, **options)
        self.run_through(["forward", "backward"], inputs, window=(3, 2), align="bottom_right", attn_mask=bias > 0)
        self.run_through(["forward", "backward"], inputs, causal="bottom_right",
                         seqused_k=torch.tensor([2, 9], dtype=torch.int32))
        swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
        self.run_through(["forward", "backward"], swapped, causal=True)

    def test_packed(self):
        inputs = [make(12, 4, 16, dtype=torch.float16), *(make(15, 2, 16, dtype=torch.float16) for _ in range(2))]
        starts_q, starts_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 3, 3, 12], [0, 4, 6, 15]))
        options, learned = self.everything(3, 9, 9, torch.float16)
        self.run_through(["forward", "backward"], inputs, learned, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k,
                         max_seqlen_q=9, max_seqlen_k=9, dropout_p=0.1, deterministic=True, **options)
        self.run_through(["forward", "backward"], inputs, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k,
                         max_seqlen_q=9, max_seqlen_k=9)

    def test_bundles_hold_what_attention_asks_for(self):
        """A bundle without the required entry or variant is skipped."""
        library = plans._code.get_library()
        choice = ops.Choice("forward", "f16", 16, 16, "none", False, "", packed=True)
        kernel, files = choice.files()
        bundle = library.load(tilewright.compiler.compile_bundle(kernel, choice.params(), files, ["sm_80"]))
        choice.create(library, bundle)
        for other in (choice._replace(kernel="backward"), choice._replace(packed=False), choice._replace(dim=32),
                      choice._replace(window=True)):
            with self.assertRaises(runtime.TilewrightError) as caught:
                other.create(library, bundle)
            self.assertEqual(caught.exception.code, "missing variant")


if __name__ == "__main__":
    unittest.main()
