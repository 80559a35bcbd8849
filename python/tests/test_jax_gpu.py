# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.jax on a GPU, against the formulas. Needs JAX and an NVIDIA GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jax_reference import CASES, TOLERANCE, arguments_of, difference, jax, jnp, normal, operands, reference  # noqa: E402

if jax.default_backend() not in ("gpu", "cuda"):
    raise unittest.SkipTest("JAX has no GPU")

import tilewright.jax  # noqa: E402
from tilewright.jax import attention  # noqa: E402


class OnGpu(unittest.TestCase):
    def check(self, case, dtype, arrays):
        q, k, v = arrays
        more = arguments_of(case, dtype)
        learned = {name: more[name] for name in ("bias", "alibi_slopes", "sinks") if name in more}
        weights = normal(*q.shape[:3], v.shape[3], seed=3)

        def loss(q, k, v, learned, f):
            o = f(q, k, v, **{**more, **learned})
            o = o[0] if isinstance(o, tuple) else o
            return (o.astype(jnp.float32) * weights).sum(), o

        def gradients(f, *args):
            return jax.jit(jax.grad(lambda *args: loss(*args, f), (0, 1, 2, 3), has_aux=True))(*args)

        with jax.default_matmul_precision("highest"):
            got, o = gradients(attention, q, k, v, learned)
            wanted, wanted_o = gradients(reference, q, k, v, learned)
        self.assertLess(difference(o, wanted_o), TOLERANCE[dtype])
        for x, y in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(wanted)):
            self.assertLess(difference(x, y), 3 * TOLERANCE[dtype])

    def test_every_case_has_results_and_gradients(self):
        for case in CASES:
            for dtype in ("bfloat16", "float32") if case == "causal" else ("bfloat16",):
                with self.subTest(case, dtype=dtype):
                    self.check(case, dtype, operands(dtype))

    def test_many_tiles(self):
        arrays = [normal(2, 4, 640, 128, seed=n, dtype="bfloat16") for n in range(3)]
        self.check("causal", "bfloat16", arrays)

    def test_layout_and_repeated_calls(self):
        q, k, v = (normal(2, 300, 4, 64, seed=n, dtype="bfloat16") for n in range(3))
        f = jax.jit(lambda q, k, v: attention(attention(q, k, v, causal=True, layout="BSHD"), k, v, layout="BSHD"))
        turned = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
        wanted = reference(reference(*turned, causal="top_left")[0].astype("bfloat16"), *turned[1:])[0]
        for _ in range(3):
            self.assertLess(difference(jnp.swapaxes(f(q, k, v), 1, 2), wanted), TOLERANCE["bfloat16"])

    def test_dropout(self):
        q, k, v = operands("bfloat16")
        mean = sum(attention(q, k, v, dropout_p=0.25, dropout_key=jax.random.key(n)).astype("float32") for n in range(64)) / 64
        self.assertLess(difference(mean, reference(q, k, v)[0]), 0.25)

    def test_a_shipped_kernel(self):
        softmax = tilewright.jax.kernel("row_softmax", T="f32")
        x = normal(64, 1000)
        self.assertLess(difference(jax.jit(lambda x: softmax(x, scale=1.0))(x), jax.nn.softmax(x)), 1e-5)


if __name__ == "__main__":
    unittest.main()
