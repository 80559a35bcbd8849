# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.jax against the formulas, on the interpreter: needs JAX and tilewright-run, but no GPU. And the declarations of
XLA's interface (runtime/XlaFfiAbi.h) against the header of the installed JAX."""

import ctypes
import os
import re
import sys
import unittest

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"  # for shard_map
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jax_reference import CASES, TOLERANCE, arguments_of, difference, jax, jnp, normal, numpy, operands, reference  # noqa: E402

import tilewright.jax  # noqa: E402
from tilewright import host, jax_calls, places  # noqa: E402
from tilewright.jax import attention, dot_product_attention  # noqa: E402


def setUpModule():
    host.interpret("cpu")


def tearDownModule():
    host.interpret(None)


class Attention(unittest.TestCase):
    def test_every_case_has_results_and_gradients(self):
        dtype = "float32"
        q, k, v = operands(dtype)
        for case in CASES:
            with self.subTest(case):
                more = arguments_of(case, dtype)
                learned = [name for name in ("bias", "alibi_slopes", "sinks") if name in more]

                def loss(q, k, v, arrays, f):
                    o, lse = f(q, k, v, **{**more, **arrays})
                    return (o.astype(jnp.float32) * weights).sum() + (jnp.where(jnp.isfinite(lse), lse, 0) * of_lse).sum(), (o, lse)

                weights, of_lse = normal(2, 4, 13, 24, seed=3), normal(2, 4, 13, seed=4)
                arrays = {name: more[name] for name in learned}

                def ours(*args, **named):
                    return attention(*args, return_lse=True, **named)

                gradient = jax.grad(loss, (0, 1, 2, 3), has_aux=True)
                got, (o, lse) = gradient(q, k, v, arrays, ours)
                wanted, (wanted_o, wanted_lse) = gradient(q, k, v, arrays, reference)
                self.assertLess(difference(o, wanted_o), TOLERANCE[dtype])
                numpy.testing.assert_allclose(lse, wanted_lse, rtol=1e-4, atol=1e-4)
                for x, y in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(wanted)):
                    self.assertEqual(x.dtype, y.dtype)
                    self.assertLess(difference(x, y), 1e-4)

    def test_types_and_layouts(self):
        for dtype in ("float16", "bfloat16"):
            q, k, v = operands(dtype)
            o = attention(q, k, v, causal=True)
            self.assertEqual(o.dtype, q.dtype)
            self.assertLess(difference(o, reference(q, k, v, causal="top_left")[0]), TOLERANCE[dtype])
            turned = attention(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v)), causal=True, layout="BSHD")
            numpy.testing.assert_array_equal(jnp.swapaxes(turned, 1, 2), o)

    def test_the_example_of_the_documents(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.path.join(root, "docs", "jax.md")
        if not os.path.exists(path):
            self.skipTest("the documents are not here")
        with open(path, encoding="utf-8") as file:
            block = re.search(r"```python\n(.*?)```", file.read(), re.DOTALL)[1]
        q, k, v = operands("float32")
        sinks, x = normal(q.shape[1], seed=6), normal(5, 70, seed=7)
        named = {"q": q, "k": k, "v": v, "sinks": sinks, "x": x}
        named |= {name: jnp.swapaxes(each, 1, 2) for name, each in (("query", q), ("key", k), ("value", v))}
        exec(block, named)
        wanted = jax.grad(lambda *a: reference(*a[:3], causal="top_left", softcap=30.0, sinks=a[3])[0].sum(), (0, 1, 2, 3))
        for got, each in zip(named["gradients"], wanted(q, k, v, sinks)):
            self.assertLess(difference(got, each), 1e-4)
        self.assertLess(difference(jnp.swapaxes(named["o"], 1, 2), reference(q, k, v, causal="top_left")[0]), 2e-5)
        self.assertLess(difference(named["y"], jax.nn.softmax(x, 1)), 1e-5)

    def test_jit_vmap_and_checkpoint(self):
        q, k, v = operands("float32")
        f = jax.jit(lambda q, k, v: attention(q, k, v, causal=True).sum())
        self.assertAlmostEqual(float(f(q, k, v)), float(reference(q, k, v, causal="top_left")[0].sum()), places=3)
        both = jax.vmap(lambda q: attention(q, k, v))(jnp.stack([q, 2 * q]))
        self.assertLess(difference(both[1], reference(2 * q, k, v)[0]), 2e-5)
        kept = jax.grad(jax.checkpoint(lambda q: attention(q, k, v).sum()))(q)
        self.assertLess(difference(kept, jax.grad(lambda q: reference(q, k, v)[0].sum())(q)), 1e-4)

    def test_shard_map(self):
        """Each of two devices has a part of the batch; gradients, too."""
        q, k, v = operands("float32")
        mesh = jax.sharding.Mesh(numpy.array(jax.devices()[:2]), ("parts",))
        spec = jax.sharding.PartitionSpec("parts")
        f = jax.shard_map(lambda q, k, v: attention(q, k, v, causal=True), mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
        numpy.testing.assert_array_equal(jax.jit(f)(q, k, v), attention(q, k, v, causal=True))
        for got, wanted in zip(jax.grad(lambda *x: f(*x).sum(), (0, 1, 2))(q, k, v),
                               jax.grad(lambda *x: attention(*x, causal=True).sum(), (0, 1, 2))(q, k, v)):
            numpy.testing.assert_array_equal(got, wanted)

    def test_used_lengths(self):
        q, k, v = operands("float32")
        lengths = jnp.array([13, 4]), jnp.array([7, 19])
        o = attention(q, k, v, query_seq_lengths=lengths[0], key_value_seq_lengths=lengths[1])
        self.assertLess(difference(o, reference(q, k, v, lengths=lengths)[0]), 2e-5)

    def test_dropout_depends_on_its_key(self):
        q, k, v = operands("float32")
        one, again, other = (attention(q, k, v, dropout_p=0.5, dropout_key=jax.random.key(n)) for n in (1, 1, 2))
        numpy.testing.assert_array_equal(one, again)
        self.assertGreater(difference(one, other), 0.1)
        mean = sum(attention(q, k, v, dropout_p=0.25, dropout_key=jax.random.key(n)) for n in range(24)) / 24
        self.assertLess(difference(mean, reference(q, k, v)[0]), 0.35)

    def test_unused_results_and_arrays_without_gradients(self):
        q, k, v = operands("float32")
        bias = normal(1, 1, 13, 19, seed=5)
        found = jax.grad(lambda k: attention(q, k, v, bias=bias, return_lse=True)[0].sum())(k)
        self.assertLess(difference(found, jax.grad(lambda k: reference(q, k, v, bias=bias)[0].sum())(k)), 1e-4)

    def test_a_modifier_and_its_captures(self):
        q, k, v = operands("float32")
        length = jnp.array([4, 9], jnp.int32)
        o = attention(q, k, v, modifier="prefix_lm", captures={"prefix_length": length})
        keep = (jnp.arange(19) <= jnp.arange(13)[:, None]) | (jnp.arange(19) < length[:, None, None])
        self.assertLess(difference(o, reference(q, k, v, mask=keep[:, None])[0]), 2e-5)

    def test_as_jax_nn(self):
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in operands("float32"))
        v = v[..., :16]
        for more in (dict(is_causal=True), dict(local_window_size=3), dict(scale=0.2, mask=normal(2, 1, 13, 19) > -1)):
            wanted = jax.nn.dot_product_attention(q, k, v, **more)
            self.assertLess(difference(dot_product_attention(q, k, v, **more), wanted), 2e-5, more)
        o, lse = dot_product_attention(q[0], k[0], v[0], return_residual=True)
        self.assertEqual((o.shape, lse.shape), ((13, 4, 16), (13, 4)))


class Refusals(unittest.TestCase):
    def expect(self, text, *args, **named):
        with self.assertRaisesRegex(ValueError, re.escape(text)):
            attention(*args, **named)

    def test_arguments(self):
        q, k, v = operands("float32")
        self.expect("layout must be one of BHSD, BSHD, but got 'BSH'", q, k, v, layout="BSH")
        self.expect("k must have the width of q, 16, but got 24", q, v, v)
        self.expect("k must have the type of q, f32, but got f16", q, k.astype("float16"), v)
        self.expect("bias must have the type of q, float32, but got float16", q, k, v, bias=normal(1, 1, 1, 19, dtype="float16"))
        self.expect("bias must have extents of [2, 4, 13, 19] or 1, but got shape [1, 1, 1, 5]", q, k, v, bias=normal(5))
        self.expect("mask must be of bool, but got float32", q, k, v, mask=normal(13, 19))
        self.expect("sinks must have shape [4], but got [3]", q, k, v, sinks=normal(3))
        self.expect("query_seq_lengths must be [2] integers, but got [3] of int32", q, k, v, query_seq_lengths=jnp.arange(3))
        self.expect("dropout_key must be a key of jax.random where dropout_p is positive", q, k, v, dropout_p=0.1)
        self.expect("captures must belong to a modifier, but got x without one", q, k, v, captures={"x": 1})
        self.expect("modifier must not name 'softcap'", q, k, v, softcap=2.0, modifier="softcap")
        with self.assertRaisesRegex(ValueError, "implementation must be None or 'tilewright', but got 'cudnn'"):
            dot_product_attention(q, k, v, implementation="cudnn")

    def test_the_host_without_interpret(self):
        host.interpret(None)
        try:
            self.expect("attention must run on an NVIDIA GPU, but JAX's backend is cpu", *operands("float32"))
        finally:
            host.interpret("cpu")


class Kernels(unittest.TestCase):
    def test_a_shipped_kernel(self):
        softmax = tilewright.jax.kernel("row_softmax", T="f32")
        x = normal(6, 40)
        self.assertLess(difference(jax.jit(lambda x: softmax(x, scale=1.0))(x), jax.nn.softmax(x)), 1e-5)
        with self.assertRaisesRegex(ValueError, r"x must be f32 of shape \[\?, \?\], as the parameters of 'row_softmax' say, but got"):
            softmax(normal(6, 41, 2), scale=1.0)
        with self.assertRaisesRegex(TypeError, "'row_softmax' needs argument 'scale'"):
            softmax(x)
        with self.assertRaisesRegex(TypeError, "'row_softmax' has no argument 'z'; its arguments are x, scale"):
            softmax(x, z=1.0)
        with self.assertRaisesRegex(ValueError, "outputs must name arguments that 'row_softmax' writes, y, but got 'x'"):
            tilewright.jax.kernel("row_softmax", T="f32", outputs={"x": (1, 1)})
        with self.assertRaisesRegex(ValueError, "the kernel does not compile: .*parameter 'T'"):
            tilewright.jax.kernel("row_softmax", T="f31")


class Interface(unittest.TestCase):
    """runtime/XlaFfiAbi.h and the handler, against the installed JAX."""

    def fields(self, text, struct):
        """The number of bytes that each field of a struct takes, in order."""
        body = re.search(rf"struct {struct} \{{(.*?)\n\}}", text, re.S)[1]
        body = re.sub(r"//[^\n]*", "", body)
        return [each.strip() for each in body.replace("\n", " ").split(";") if each.strip()]

    def test_declarations(self):
        with open(os.path.join(places.ROOT, "runtime", "XlaFfiAbi.h"), encoding="utf-8") as file:
            ours = file.read()
        with open(os.path.join(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h"), encoding="utf-8") as file:
            theirs = file.read()
        names = {"ExtensionBase": "XLA_FFI_Extension_Base", "ApiVersion": "XLA_FFI_Api_Version", "ByteSpan": "XLA_FFI_ByteSpan",
                 "Buffer": "XLA_FFI_Buffer", "Values": "XLA_FFI_Args", "Attributes": "XLA_FFI_Attrs",
                 "ErrorCreateArguments": "XLA_FFI_Error_Create_Args", "StreamGetArguments": "XLA_FFI_Stream_Get_Args"}
        for own, other in names.items():
            mine, wanted = self.fields(ours, own), self.fields(theirs, other)
            mine = [f"{each.partition(',')[0]}" for each in mine for _ in range(each.count(",") + 1)]
            self.assertEqual([x.count("*") for x in mine], [x.count("*") for x in wanted], own)
        numbers = dict(re.findall(r"XLA_FFI_DataType_(\w+) = (\d+)", theirs))
        for name, number in re.findall(r"^  (\w+) = (\d+),$", re.search(r"enum DataType.*?\};", ours, re.S)[0], re.M):
            self.assertEqual(numbers[name.upper()], number, name)
        order = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", theirs)
        self.assertEqual(order[:5], ["XLA_FFI_Error_Create", "XLA_FFI_Error_GetMessage", "XLA_FFI_Error_Destroy",
                                     "XLA_FFI_Handler_Register", "XLA_FFI_Stream_Get"])

    def test_xla_calls_the_handler(self):
        """XLA accepts the handler, for the host here, finds the attribute, and gets its errors."""
        library = ctypes.CDLL(places.find_library())
        jax.ffi.register_ffi_target("tilewright_on_host", jax.ffi.pycapsule(library.tilewright_xla_handler), platform="cpu")
        call = jax.ffi.ffi_call("tilewright_on_host", jax.ShapeDtypeStruct((3,), jnp.float32))
        with self.assertRaisesRegex(Exception, "the call 'of nothing' must be registered in this process"):
            jax.jit(lambda x: call(x, call="of nothing"))(jnp.ones(3)).block_until_ready()
        with self.assertRaisesRegex(Exception, "must have an attribute 'call', a string, but got none"):
            jax.jit(lambda x: call(x, other=numpy.int32(1)))(jnp.ones(3)).block_until_ready()

    def test_a_key_depends_on_what_is_called(self):
        q, k, v = operands("float32")
        seen = []
        original = jax_calls.execute
        jax_calls.execute = lambda call, arrays, results: seen.append(call) or original(call, arrays, results)
        try:
            for more in ({}, {"scale": 0.5}, {"layout": "BHSD"}):
                attention(q, k, v, **more)
        finally:
            jax_calls.execute = original
        self.assertNotEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        self.assertEqual(repr(seen[0]), repr(seen[2]))


if __name__ == "__main__":
    unittest.main()
