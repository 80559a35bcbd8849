# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend classes of examples/vllm_backend.py and examples/sglang_backend.py against the formulas, with stand-ins for the
engines. Runs on the interpreter: needs PyTorch and tilewright-run, but no GPU and no engine."""

import contextlib
import os
import sys
import types
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402
from torch_reference import reference  # noqa: E402

import engine_stubs as engines  # noqa: E402
import tilewright  # noqa: E402

setUpModule = interpret_module
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
HEADS, KEY_HEADS, DIM, ROWS, COLUMNS = 4, 2, 16, 16, 4  # a sequence has at most 64 keys
SLOPES = [0.5, 0.25, 0.125, 1.0]


def normal(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def starts_of(lengths):
    return torch.nn.functional.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()


class Step:
    """New tokens of sequences, `queries[b]` of `lengths[b]`: the last ones. Keys and values are those of one layer."""

    def __init__(self, queries, lengths, seed):
        self.queries, self.lengths = queries, lengths
        self.q = normal(sum(queries), HEADS, DIM, seed=seed)
        self.k, self.v = ([normal(n, KEY_HEADS, DIM, seed=seed + first + b) for b, n in enumerate(lengths)] for first in (100, 200))

    def new(self, rows):
        """The rows of new tokens, [tokens, heads, width]."""
        return torch.cat([x[len(x) - n:] for x, n in zip(rows, self.queries)])

    def expected(self, factors=(None, None), stored=torch.float8_e4m3fn, **options):
        """O [tokens, heads, width], by the formulas. With `factors`, keys and values are what a cache of the type `stored` has."""
        rounded = [[x if by is None else (x / by).to(stored).float() * by for x in rows]
                   for rows, by in zip((self.k, self.v), factors)]
        parts = []
        for q, k, v in zip(self.q.split(self.queries), *rounded):
            o, _ = reference(*(x.double().transpose(0, 1)[None] for x in (q, k, v)), causal="bottom_right",
                             align="bottom_right", **options)
            parts.append(o[0].transpose(0, 1))
        return torch.cat(parts)


@contextlib.contextmanager
def launches():
    """Counts the calls of the functions that attend, by name; those of packed queries over a cache as "packed"."""
    counts, names = {}, ("flash_attn_with_kvcache", "flash_attn_varlen_func", "flash_mla_with_kvcache")
    with contextlib.ExitStack() as stack:
        for name in names:
            def counting(*arguments, of=getattr(tilewright, name), name=name, **options):
                name = "packed" if options.get("cu_seqlens_q") is not None else name
                counts[name] = counts.get(name, 0) + 1
                return of(*arguments, **options)
            stack.enter_context(unittest.mock.patch.object(tilewright, name, counting, create=True))
        yield counts


class VllmTest(TorchTest):
    """Places of a batch: sequences with one new token first, as the engine orders them, then chunks of prompts, then padding,
    which has no queries and a length of 0."""

    @classmethod
    def setUpClass(cls):
        cls.example = engines.vllm_example()

    def setUp(self):
        order = torch.randperm(32, generator=torch.Generator().manual_seed(4))
        self.table = order[:7 * COLUMNS].view(7, COLUMNS).int()

    def builder(self, **config):
        return self.example.TilewrightMetadataBuilder(types.SimpleNamespace(), ["layer"], engines.vllm_config(**config), "cpu")

    def cache(self, packed=True, heads_outside=False, dtype=torch.float32):
        """An empty cache, of 32 blocks: [blocks, heads, rows, 2 * width] as vLLM 0.33 has it, or of get_kv_cache_shape."""
        if packed:
            shape = (32, KEY_HEADS, ROWS, 2 * DIM) if heads_outside else (32, ROWS, KEY_HEADS, 2 * DIM)
            cache = torch.full(shape, torch.nan).to(dtype)
            return cache if heads_outside else cache.transpose(1, 2)
        shape = self.example.TilewrightBackend.get_kv_cache_shape(32, ROWS, KEY_HEADS, DIM)
        with unittest.mock.patch.dict(sys.modules, self.example.stubs):
            order = self.example.TilewrightBackend.get_kv_cache_stride_order()
        memory = torch.full([shape[dim] for dim in order], torch.nan).to(dtype)
        return memory.permute([order.index(dim) for dim in range(5)])

    def common(self, queries, lengths, tokens=None):
        """The metadata of the engine, with slots for the new tokens; slots of padding are -1."""
        slots = torch.full((tokens or sum(queries),), -1, dtype=torch.int64)
        at = 0
        for b, (n, length) in enumerate(zip(queries, lengths)):
            j = torch.arange(length - n, length)
            slots[at:at + n] = self.table[b, j // ROWS] * ROWS + j % ROWS
            at += n
        starts = starts_of(queries)
        return engines.CommonAttentionMetadata(starts.clone(), starts, int32(*lengths), len(queries), len(slots), max(queries),
                                               max(lengths), self.table[:len(queries)].clone(), slots)

    def earlier(self, cache, layer, impl, step):
        """Writes the keys that earlier steps wrote: all but the new ones."""
        for b, (n, length) in enumerate(zip(step.queries, step.lengths)):
            j = torch.arange(length - n)
            if len(j):
                impl.do_kv_cache_update(layer, step.k[b][:length - n], step.v[b][:length - n], cache,
                                        self.table[b, j // ROWS].long() * ROWS + j % ROWS)

    def layer(self, factors=(1.0, 1.0)):
        return types.SimpleNamespace(_k_scale=torch.tensor(factors[0]), _v_scale=torch.tensor(factors[1]))

    def impl(self, scale=0.25, alibi_slopes=None, sliding_window=None, kv_cache_dtype="auto", logits_soft_cap=None, **more):
        return self.example.TilewrightBackend.get_impl_cls()(HEADS, DIM, scale, KEY_HEADS, alibi_slopes, sliding_window,
                                                             kv_cache_dtype, logits_soft_cap, "decoder", None, **more)

    def run_layer(self, impl, layer, step, cache, common, metadata):
        """What the engine does: it updates the cache, then attends, both with rows for padding, of NaN."""
        tokens = common.num_actual_tokens
        padded = [torch.cat([x, torch.full((tokens - len(x), *x.shape[1:]), torch.nan)])
                  for x in (step.q, step.new(step.k), step.new(step.v))]
        impl.do_kv_cache_update(layer, *padded[1:], cache, common.slot_mapping)
        output = torch.full_like(padded[0], torch.nan)
        self.assertIs(impl.forward(layer, *padded, cache, metadata, output), output)
        return output

    def check(self, queries, lengths, caches, options, wanted, counts, tokens=None, config=None, factors=(None, None), loose=None):
        """Layers of the `options`, over `caches`, all with one metadata. Returns what the engine gave to the builder, and the
        metadata."""
        builder = self.builder(**(config or {}))
        common = self.common(queries, lengths, tokens)
        metadata = builder.build(0, common)
        layer = self.layer([x or 1.0 for x in factors])
        for n, (cache, given, expects) in enumerate(zip(caches, options, wanted)):
            with self.subTest(layer=n, **{name: x for name, x in given.items() if name != "sinks"}):
                step, impl = Step(queries, lengths, seed=10 * n), self.impl(**given)
                self.earlier(cache, layer, impl, step)
                with launches() as called:
                    got = self.run_layer(impl, layer, step, cache, common, metadata)
                self.assertEqual(called, counts)
                count = sum(queries)
                self.assertFalse(got[count:].any() or got.isnan().any())
                expected = step.expected(factors, **expects)
                if loose:
                    self.assertLess((got[:count].double() - expected).norm(), loose * expected.norm())
                else:
                    self.assert_same([got[:count]], [expected], **TOLERANCE)
        return common, metadata

    def test_mixed_batch(self):
        """Decodes and chunks of prompts, a fresh one among them, in layers of all features, in caches of all layouts."""
        sinks, slopes = normal(HEADS, seed=7), torch.tensor(SLOPES)
        options = [{}, {"sliding_window": 9, "logits_soft_cap": 3.0, "sinks": sinks}, {"alibi_slopes": SLOPES, "scale": 0.5}]
        wanted = [{}, {"window": (8, 0), "softcap": 3.0, "sinks": sinks}, {"alibi_slopes": slopes, "scale": 0.5}]
        caches = [self.cache(), self.cache(heads_outside=True), self.cache(packed=False)]
        queries, lengths = [1, 1, 1, 5, 20, 0, 0], [33, 1, 64, 5, 37, 0, 0]
        _, metadata = self.check(queries, lengths, caches, options, wanted,
                                 {"flash_attn_with_kvcache": 1, "packed": 1}, tokens=30)
        self.assertEqual((metadata.decodes, metadata.queries, metadata.starts.tolist()), (3, 1, [0, 5, 25, 25, 25]))

    def test_graph_of_decodes(self):
        """Each place has a row; those of padding have a length of 0. A replay runs the launches of the capture on what the
        arrays then hold."""
        queries, lengths = [1] * 5, [33, 17, 64, 1, 2]
        common, metadata = self.check(queries, lengths, [self.cache()], [{"sinks": torch.zeros(HEADS)}],
                                      [{"sinks": torch.zeros(HEADS)}], {"flash_attn_with_kvcache": 1})
        step, cache, impl, layer = Step([1, 1, 0, 0, 0], [20, 48, 0, 0, 0], 50), self.cache(), self.impl(), self.layer()
        common.block_table_tensor.copy_(self.table[[3, 0, 1, 2, 4]])
        self.table = common.block_table_tensor
        common.seq_lens.copy_(int32(*step.lengths))
        common.slot_mapping.copy_(self.common(step.queries, step.lengths, 5).slot_mapping)
        self.earlier(cache, layer, impl, step)
        got = self.run_layer(impl, layer, step, cache, common, metadata)
        self.assert_same([got[:2]], [step.expected()], **TOLERANCE)
        self.assertTrue(torch.equal(got[2:], torch.zeros(3, HEADS, DIM)))

    def test_graph_of_any_batch(self):
        """cudagraph_mode FULL: one packed launch, whose arrays are the engine's own, so a replay may have another mixture."""
        config = {"mode": engines.CUDAGraphMode.FULL}
        common, metadata = self.check([1] * 6, [33, 17, 64, 1, 2, 5], [self.cache()], [{}], [{}], {"packed": 1},
                                      config=config)
        self.assertEqual((metadata.starts.data_ptr(), metadata.seq_lens.data_ptr(), metadata.block_table.data_ptr()),
                         (common.query_start_loc.data_ptr(), common.seq_lens.data_ptr(), common.block_table_tensor.data_ptr()))
        step, cache, impl, layer = Step([1, 3, 1, 0, 0, 0], [20, 41, 3, 0, 0, 0], 60), self.cache(), self.impl(), self.layer()
        common.query_start_loc.copy_(starts_of(step.queries))
        common.seq_lens.copy_(int32(*step.lengths))
        common.slot_mapping.copy_(self.common(step.queries, step.lengths, 6).slot_mapping)
        self.earlier(cache, layer, impl, step)
        got = self.run_layer(impl, layer, step, cache, common, metadata)
        self.assert_same([got[:5]], [step.expected()], **TOLERANCE)
        self.assertFalse(got[5:].any())

    def test_drafted_tokens(self):
        """A token and three drafts of each sequence are a decode; a batch that is not uniform is divided."""
        config = {"drafts": 3}
        sinks = {"sinks": normal(HEADS, seed=7)}
        self.check([4, 4], [33, 20], [self.cache()], [sinks], [sinks], {"flash_attn_with_kvcache": 1}, config=config)
        _, metadata = self.check([4, 4, 2, 7], [33, 20, 2, 30], [self.cache()], [{"sliding_window": 6}], [{"window": (5, 0)}],
                                 {"flash_attn_with_kvcache": 1, "packed": 1}, config=config)
        self.assertEqual((metadata.decodes, metadata.queries), (2, 4))
        self.assertEqual(self.builder(drafts=40).reorder_batch_threshold, 16)

    def test_caches_of_8_bits(self):
        """The engine's type of them is uint8. Decodes read them; chunks of prompts read widened copies of their pages."""
        caches = [self.cache(heads_outside=True, dtype=torch.float8_e4m3fn).view(torch.uint8)]
        options = [{"kv_cache_dtype": "fp8", "sliding_window": 30}]
        for queries, lengths, counts in (([1, 1, 0], [33, 64, 0], {"flash_attn_with_kvcache": 1}),
                                         ([1, 12], [33, 40], {"flash_attn_with_kvcache": 1, "packed": 1})):
            self.check(queries, lengths, caches, options, [{"window": (29, 0)}], counts, factors=(0.5, 2.0), loose=0.005)

    def test_declares(self):
        backend, support = self.example.TilewrightBackend, engines.AttentionCGSupport
        self.assertEqual([backend.supports_block_size(n) for n in (8, 16, 48, 64, 1024)], [False, True, True, True, True])
        self.assertEqual([backend.supports_head_size(n) for n in (64, 128, 256, 264, 100)], [True, True, True, False, False])
        self.assertEqual(backend.get_kv_cache_shape(40, 32, 8, 128), (40, 2, 32, 8, 128))
        with self.assertRaisesRegex(ValueError, "block_size must be a multiple of 16, but got 24"):
            backend.get_kv_cache_shape(40, 24, 8, 128)
        for layout, order, layered in (("NHD", (0, 1, 2, 3, 4), (1, 0, 2, 3, 4, 5)), ("HND", (0, 1, 3, 2, 4), (1, 0, 2, 4, 3, 5))):
            of_layout = engines.vllm_example(layout)
            with unittest.mock.patch.dict(sys.modules, of_layout.stubs):
                got = of_layout.TilewrightBackend.get_kv_cache_stride_order
                self.assertEqual((got(), got(True)), (order, layered))
        builder = backend.get_builder_cls()
        for dtype, wanted in (("auto", support.ALWAYS), ("fp8", support.UNIFORM_BATCH)):
            self.assertEqual(builder.get_cudagraph_support(engines.vllm_config(cache_dtype=dtype), None), wanted)
        self.assertTrue(backend.supports_sink() and backend.supports_sliding_window())
        self.assertFalse(backend.supports_device_cpu_query_lens_mismatch())
        with unittest.mock.patch.dict(sys.modules, self.example.stubs):
            self.example.register()
        [(member, path)] = self.example.registered
        self.assertEqual((member.name, backend.get_name(), path), ("CUSTOM", "CUSTOM", "vllm_backend.TilewrightBackend"))

    def test_other_calls(self):
        impl, output = self.impl(), torch.ones(3, HEADS, DIM)
        self.assertFalse(impl.forward(self.layer(), output, None, None, None, None, output).any())
        with self.assertRaisesRegex(NotImplementedError, "output_scale must be None: there is no quantized output"):
            impl.forward(self.layer(), output, None, None, None, None, output, output_scale=torch.ones(1))
        with self.assertRaisesRegex(NotImplementedError, "attn_type must be decoder, but got encoder_only"):
            self.example.TilewrightImpl(HEADS, DIM, 0.25, attn_type="encoder_only")
        common = self.common([1], [3])
        builder = self.builder()
        table, slots = self.table[5:], torch.tensor([7])
        metadata = builder.update_block_table(builder.build(0, common), table, slots)
        self.assertTrue(torch.equal(metadata.block_table, table[:1]) and metadata.slot_mapping is slots)
        common.causal = False
        with self.assertRaisesRegex(ValueError, "causal must be True, but got False"):
            builder.build(0, common)
        shared, cache = self.example.TilewrightImpl(HEADS, DIM, 0.25, KEY_HEADS, kv_sharing_target_layer_name="0"), self.cache()
        shared.do_kv_cache_update(self.layer(), normal(1, KEY_HEADS, DIM), normal(1, KEY_HEADS, DIM), cache, torch.tensor([3]))
        self.assertTrue(cache.isnan().all())


class SglangTest(TorchTest):
    """Requests whose tokens have slots in a pool, pages in random order; slot 0 is that of padding."""

    REQUESTS, SLOTS = 6, 512

    @classmethod
    def setUpClass(cls):
        cls.example = engines.sglang_example()

    def backend(self, page_size, layers=1, dtype=torch.float32, latent=None, context=64):
        heads, dim, value_dim = (1, *latent) if latent else (KEY_HEADS, DIM, DIM)
        pages = torch.randperm(self.SLOTS // page_size - 1, generator=torch.Generator().manual_seed(6)) + 1
        slots = (pages[:, None] * page_size + torch.arange(page_size)).flatten()
        self.req_to_token = slots[:self.REQUESTS * context].view(self.REQUESTS, context).int()
        self.pool = engines.Pool(self.SLOTS, layers, heads, dim, value_dim, dtype)
        return self.example.TilewrightAttnBackend(types.SimpleNamespace(
            device="cpu", page_size=page_size, req_to_token_pool=types.SimpleNamespace(req_to_token=self.req_to_token),
            token_to_kv_pool=self.pool, model_config=types.SimpleNamespace(context_len=context), use_mla_backend=latent is not None))

    def layer(self, **options):
        options = {"scaling": 0.25, "layer_id": 0, **options}
        return engines.RadixAttention(HEADS, KEY_HEADS, DIM, DIM, **options)

    def batch(self, mode, requests, step, places=None):
        """`places` of a graph: those behind the requests have request 0, a length of 0, and slot 0."""
        rest = (places or len(requests)) - len(requests)
        slots = [self.req_to_token[r, n - m:n] for r, m, n in zip(requests, step.queries, step.lengths)]
        lengths = torch.tensor(step.lengths + [0] * rest)
        extends = {} if mode.is_decode_or_idle() else {"extend_seq_lens": torch.tensor(step.queries),
                                                       "extend_seq_lens_cpu": step.queries}
        return engines.ForwardBatch(mode, len(lengths), torch.tensor(requests + [0] * rest), lengths,
                                    torch.cat(slots + [torch.zeros(rest, dtype=torch.int32)]).long(), lengths.clone(), **extends)

    def run_layer(self, backend, layer, requests, step, batch, **more):
        for r, k, v, n in zip(requests, step.k, step.v, step.queries):
            self.pool.set_kv_buffer(layer, self.req_to_token[r, :len(k) - n], k, v, layer.k_scale, layer.v_scale)
        rest = len(batch.out_cache_loc) - len(step.q)
        new = [torch.cat([x, torch.zeros(rest, *x.shape[1:])]) for x in (step.q, step.new(step.k), step.new(step.v))]
        got = backend.forward(new[0].flatten(1), *new[1:], layer, batch, **more)
        self.assertEqual(got.shape, (len(batch.out_cache_loc), HEADS * DIM))
        self.assertFalse(got[len(step.q):].any())
        return got[:len(step.q)].unflatten(1, (HEADS, DIM))

    def test_steps(self):
        """Chunks of prompts, a batch mixed with decodes, and decodes, for layers of several features with one metadata."""
        sinks, requests = normal(HEADS, seed=7), [4, 1, 5]
        layers = [({}, {}, {}), ({"sliding_window_size": 8, "logit_cap": 3.0}, {"sinks": sinks},
                                 {"window": (8, 0), "softcap": 3.0, "sinks": sinks})]
        for page_size in (1, 16):
            for mode, queries, lengths, function in (
                    (engines.ForwardMode.EXTEND, [5, 20, 40], [5, 37, 64], "flash_attn_varlen_func"),
                    (engines.ForwardMode.MIXED, [7, 1, 1], [30, 17, 64], "flash_attn_varlen_func"),
                    (engines.ForwardMode.DECODE, [1, 1, 1], [33, 1, 64], "flash_attn_with_kvcache")):
                backend = self.backend(page_size, layers=2)
                first = Step(queries, lengths, 0)
                batch = self.batch(mode, requests, first)
                backend.init_forward_metadata(batch)
                for n, (options, more, wanted) in enumerate(layers):
                    with self.subTest(page_size=page_size, mode=mode, layer=n), launches() as called:
                        step = Step(queries, lengths, 10 * n)
                        got = self.run_layer(backend, self.layer(layer_id=n, **options), requests, step, batch, **more)
                        self.assert_same([got], [step.expected(**wanted)], **TOLERANCE)
                        self.assertEqual(called, {function: 1})

    def test_graph(self):
        """A capture with all places, then replays with fewer requests, by the interface of now and by the one before."""
        for page_size in (1, 16):
            backend, layer = self.backend(page_size), self.layer()
            self.assertEqual(backend.get_cuda_graph_seq_len_fill_value(), 0)
            backend.init_cuda_graph_state(5, 5)
            batch = engines.ForwardBatch(engines.ForwardMode.DECODE, 4, torch.zeros(4, dtype=torch.int64),
                                         torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64))
            backend.init_forward_metadata_out_graph(batch, in_capture=True)
            backend.init_forward_metadata_in_graph(batch)
            captured = backend.forward_metadata
            for seed, requests, lengths in ((1, [3, 0, 5], [33, 16, 64]), (2, [2, 4], [7, 41]), (3, [1], [1])):
                step = Step([1] * len(requests), lengths, seed)
                batch = self.batch(engines.ForwardMode.DECODE, requests, step, places=4)
                if seed == 2:
                    backend.init_forward_metadata_replay_cuda_graph(4, batch.req_pool_indices, batch.seq_lens, 48, None,
                                                                    batch.forward_mode, None, batch.seq_lens_cpu)
                else:
                    backend.init_forward_metadata_out_graph(batch)
                backend.forward_metadata = captured  # a replay runs the launches of the capture
                with self.subTest(page_size=page_size, seed=seed):
                    got = self.run_layer(backend, layer, requests, step, batch)
                    self.assert_same([got], [step.expected()], **TOLERANCE)

    def test_caches_of_8_bits(self):
        layer = self.layer(k_scale=torch.tensor(0.5), v_scale=torch.tensor(2.0))
        for mode, queries, stored, loose in ((engines.ForwardMode.DECODE, [1, 1], torch.float8_e4m3fn, 0.005),
                                             (engines.ForwardMode.DECODE, [1, 1], torch.float8_e5m2, 0.005),
                                             (engines.ForwardMode.EXTEND, [9, 20], torch.float8_e4m3fn, 1e-5)):
            backend, step = self.backend(16, dtype=stored), Step(queries, [33, 40], 3)
            batch = self.batch(mode, [2, 0], step)
            backend.init_forward_metadata(batch)
            got, expected = self.run_layer(backend, layer, [2, 0], step, batch).double(), step.expected((0.5, 2.0), stored)
            self.assertLess((got - expected).norm(), loose * expected.norm())
        layer.k_scale = layer.v_scale = None
        backend.init_forward_metadata(batch)
        expected = step.expected((1.0, 1.0))
        self.assertLess((self.run_layer(backend, layer, [2, 0], step, batch).double() - expected).norm(), 1e-5 * expected.norm())

    def test_latent_decode(self):
        """Queries and rows of a cache as a model gives them: what is rotated apart, or not."""
        dim, value_dim, heads, lengths = 96, 64, 4, [33, 1, 48]
        layer = engines.RadixAttention(heads, 1, dim, value_dim, 0, dim ** -0.5)
        for page_size in (1, 16):
            for apart in (True, False):
                backend = self.backend(page_size, latent=(dim, value_dim))
                rows, q = [normal(n, 1, dim, seed=b) for b, n in enumerate(lengths)], normal(3, heads, dim, seed=9)
                batch = self.batch(engines.ForwardMode.DECODE, [2, 5, 0], Step([1] * 3, lengths, 0))
                for r, x in zip((2, 5, 0), rows):
                    self.pool.set_kv_buffer(layer, self.req_to_token[r, :len(x) - 1], x, x[..., :value_dim])
                new = torch.stack([x[-1] for x in rows])
                backend.init_forward_metadata(batch)
                with launches() as called:
                    if apart:
                        got = backend.forward(q[..., :value_dim].flatten(1), new[..., :value_dim], new[..., :value_dim], layer,
                                              batch, q_rope=q[..., value_dim:], k_rope=new[..., value_dim:])
                    else:
                        got = backend.forward(q.flatten(1), new, new[..., :value_dim], layer, batch)
                self.assertEqual(called, {"flash_mla_with_kvcache": 1})
                expected = torch.stack([torch.softmax(q[b].double() @ x[:, 0].double().T * dim ** -0.5, -1)
                                        @ x[:, 0, :value_dim].double() for b, x in enumerate(rows)])
                self.assert_same([got.unflatten(1, (heads, value_dim))], [expected], **TOLERANCE)
        batch = self.batch(engines.ForwardMode.EXTEND, [2], Step([1], [3], 0))
        backend.init_forward_metadata(batch)
        with self.assertRaisesRegex(NotImplementedError, "only decodes with latent attention; choose another one"):
            backend.forward(q, new, None, layer, batch)

    def test_refusals(self):
        backend, step = self.backend(16), Step([1], [3], 0)
        batch = self.batch(engines.ForwardMode.DECODE, [0], step)
        for name, value in (("spec_info", object()), ("encoder_lens", torch.ones(1))):
            setattr(batch, name, value)
            for start in (backend.init_forward_metadata, backend.init_forward_metadata_out_graph):
                with self.assertRaisesRegex(NotImplementedError, f"{name} must be None"):
                    start(batch)
            setattr(batch, name, None)
        with self.assertRaisesRegex(NotImplementedError, "are of decodes, without drafts and encoders"):
            backend.init_forward_metadata_capture_cuda_graph(1, 1, batch.req_pool_indices, batch.seq_lens, None,
                                                             engines.ForwardMode.EXTEND, None)
        backend.init_forward_metadata(batch)
        layer = self.layer(attn_type=engines.AttentionType.ENCODER_ONLY)
        with self.assertRaisesRegex(NotImplementedError, "attn_type must be decoder"):
            backend.forward(step.q.flatten(1), step.k[0][-1:], step.v[0][-1:], layer, batch)
        with unittest.mock.patch.object(engines.Pool, "requires_physical_write_loc", True, create=True):
            with self.assertRaisesRegex(NotImplementedError, "has indices to translate, .* use a pool that is not unified"):
                self.backend(16)
        idle = engines.ForwardBatch(engines.ForwardMode.IDLE, 0, *[torch.empty(0, dtype=torch.int64)] * 4)
        backend.init_forward_metadata(idle)
        self.assertEqual(backend.forward(torch.empty(0, HEADS * DIM), None, None, self.layer(), idle).shape, (0, HEADS * DIM))

    def test_registers(self):
        with unittest.mock.patch.dict(sys.modules, self.example.stubs):
            self.example.register()
        self.assertEqual(self.example.registered, {"tilewright": self.example.TilewrightAttnBackend, "choices": ["tilewright"]})


class WithoutEnginesTest(unittest.TestCase):
    def test_files_can_be_imported(self):
        class Nothing:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name in ("vllm", "sglang"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        with unittest.mock.patch.object(sys, "meta_path", [Nothing, *sys.meta_path]):
            for name in "vllm_backend", "sglang_backend":
                self.assertTrue(callable(engines.example(name, {}).register))

    def test_another_interface_is_an_error(self):
        """What an engine of another version lacks is not taken for its absence."""
        for name, module in (("vllm_backend", "vllm.v1"), ("sglang_backend", "sglang.srt")):
            with self.assertRaises(ImportError):
                engines.example(name, {module: {}})


if __name__ == "__main__":
    unittest.main()
