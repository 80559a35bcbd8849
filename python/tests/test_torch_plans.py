# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the plans for a GPU: every kernel that attention selects compiles, and the runtime accepts its arguments.
Needs PyTorch and the built libraries, but no GPU."""

import contextlib
import os
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import interpret_module, make, qkv, torch  # noqa: E402

import tilewright  # noqa: E402
from tilewright import compiler, merge, ops, performance, places, plans, prefix, runtime  # noqa: E402
from tilewright.choice import AppendChoice, Choice, DecodeChoice, ShardChoice  # noqa: E402
from tilewright.torch import attention  # noqa: E402
from torch_reference import fill  # noqa: E402


def setUpModule():
    if not os.path.exists(places.find_library()):
        raise unittest.SkipTest(f"there is no {places.find_library()}")
    interpret_module()


class ShardsTest(unittest.TestCase):
    def test_bundles_of_shards(self):
        """A call on whole sequences takes no code for shards, which has further arguments, in whatever order bundles are loaded."""
        library = runtime.library_at(places.find_library())
        for kernel in ("forward", "backward"):
            whole = Choice(kernel, "bf16", 16, 16, "top_left", False, "")
            shard = ShardChoice(whole, True, result="f32")
            loaded = []
            for choice in (shard, whole):
                file, files = choice.files()
                loaded.append(library.load(compiler.compile_bundle(file, choice.params(), files, ["sm_80"])))
            with mock.patch.dict(plans._code.bundles, {"": loaded}), mock.patch.object(runtime.Attention, "prepare"):
                self.assertFalse(plans._make(whole, (), torch.device("cuda", 0), False).takes("first_row"))
                self.assertTrue(plans._make(shard, (), torch.device("cuda", 0), False).takes("first_row"))
            with self.assertRaisesRegex(runtime.TilewrightError, f"must have a variant of 'attention_{kernel}' for whole sequences, but has "
                                                                 "those for shards alone") as caught:
                whole.create(library, loaded[0])
            self.assertEqual(caught.exception.code, "missing variant")


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

    def test_cascade(self):
        """Tiles of queries of several sequences, with and without a rest, and the merge of parts outside of rows."""
        checked = []

        def keep(choice, device, plan=plans.plan):
            found = plan(choice, device)
            found.choice = choice
            return found

        def check(plan, values, outputs, device, launch=plans.launch):
            other = plans.compile_choice(plan.choice, ["sm_80"])
            other.check_support(8, 0)
            checked.append((plan.choice.entry(), other.workspace_size(other.pack(values)) > 0))
            launch(plan, values, outputs, device)
        for module in prefix, merge:
            for name, replacement in (("plan", keep), ("launch", check)):
                patch = mock.patch.object(module, name, replacement)
                patch.start()
                self.addCleanup(patch.stop)
        lengths, table = torch.full((16,), 9, dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32)
        pages = make(3, 16, 2, 16, dtype=torch.float16).detach()
        for batch in 16, 5:
            q = make(batch, 1, 4, 16, dtype=torch.float16).detach()
            tilewright.cascade(q, pages, pages, 20, shared_table=table, block_table=table[:1].expand(batch, 1),
                               cache_seqlens=lengths[:batch])
        self.assertEqual([entry for entry, _ in checked], 2 * ["attention_decode", "attention_decode", "attention_merge"])
        o, lse = make(2, 3, 2, 16, dtype=torch.float16).detach(), torch.ones(2, 3, 2)
        tilewright.merge_state(o[0], lse[0], o[1], lse[1])
        self.assertEqual(checked[-1], ("attention_merge", False))

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


    def test_all_kinds_are_described(self):
        """Each is a plan of the library, and None is an argument that is absent: a prefill of a cache without a table failed
        with "there is no argument 'block_table'"."""
        library = plans._code.get_library()
        q, pages, lengths = make(3, 4, 5, 16, dtype=torch.float16), make(3, 32, 2, 16, dtype=torch.float16), \
            torch.tensor([3, 9, 32], dtype=torch.int32)
        prefill = {"q": q, "k": pages, "v": pages, "o": q, "lse": None, "block_table": None, "seq_lens": lengths, "scale": 0.25}
        decode = {"q": q[:, :, :1], "k_pages": pages, "v_pages": pages, "o": q[:, :, :1], "block_table": None,
                  "seq_lens": lengths, "scale": 0.25, "window_left": -1, "window_right": -1}
        new = {"k": pages[:, 0], "v": pages[:, 0], "k_pages": pages, "v_pages": pages, "seq_lens": lengths}
        for choice, values, signature in (
                (ops.Choice("forward", "f16", 16, 16, "none", False, "", cached=True), prefill,
                 "attention_forward D=16,DV=16,T=f16,CACHED=true,PAGE_ROWS=0"),
                (DecodeChoice("f16", 16, 16, 2, 1, "bottom_right", False, 0, 0, ""), decode,
                 "attention_decode D=16,DV=16,T=f16,CAUSAL=bottom_right,GROUP=2,PAGE_ROWS=0"),
                (AppendChoice("f16", 16, 16, "sequences"), new, "attention_append D=16,DV=16,T=f16,PLACES=sequences")):
            plan = plans.compile_choice(choice, ["sm_80"])
            self.assertIsInstance(plan, runtime.Attention)
            self.assertEqual(library.attention_text("signature", choice.desc()), signature)
            report = plan.report(plan.pack(values), target=(8, 0, 166912, 108))
            self.assertTrue(report.call.startswith(signature + (",SHARD=false " if choice.entry() == "attention_forward" else " ")),
                            report.call)
            self.assertTrue(report.deterministic)


class FilesTest(unittest.TestCase):
    """Plans are known by the contents of the files of a modifier."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.made = folder.name, []
        patches = (mock.patch.object(plans, "_make", lambda *arguments: self.made.append(arguments) or object()),
                   mock.patch.object(plans._code, "plans", {}),
                   mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def plan(self, modifier):
        choice = ops.Choice("forward", "f16", 16, 16, "none", False, modifier)
        return plans.plan(choice, torch.device("cuda", 0))

    def test_an_edited_file_gets_another_plan(self):
        path = self.write("a.mlir", "// one\n")
        first = self.plan(path)
        self.assertIs(self.plan(path), first)
        self.write("a.mlir", "// two\n")  # as long as before
        second = self.plan(path)
        self.assertIsNot(second, first)
        self.assertIs(self.plan(path), second)
        self.assertEqual(len(self.made), 2)

    def test_an_edited_link_gets_another_plan(self):
        path = self.write("a.mlir", 'tile.link "lib/b.mlir"\n')
        first = self.plan(path)
        self.write("lib/b.mlir", 'tile.link "c.mlir"\n')
        second = self.plan(path)
        self.assertIsNot(second, first)
        self.write("lib/c.mlir", "// one\n")
        third = self.plan(path)
        self.assertIsNot(third, second)
        self.write("lib/c.mlir", "// two\n")
        self.assertIsNot(self.plan(path), third)
        self.write("other.mlir", "")
        self.assertEqual(len(self.made), 4)

    def test_a_relative_path_means_the_file_of_the_folder(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        for name in "xy":
            self.write(f"{name}/a.mlir", "// the same\n")
        found = []
        for name in "xyx":
            os.chdir(os.path.join(self.folder, name))
            found.append(self.plan("a.mlir"))
        self.assertIsNot(found[0], found[1])
        self.assertIs(found[0], found[2])

    def test_threads_make_a_plan_once(self):
        with mock.patch.object(plans, "_make", lambda *arguments: self.made.append(arguments) or time.sleep(0.05) or object()):
            threads = [threading.Thread(target=lambda: self.plan("")) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(self.made), 1)


class JobsTest(unittest.TestCase):
    """Compilations for a device, which need no device."""

    def setUp(self):
        self.calls, self.running, self.most = [], 0, 0
        self.lock = threading.Lock()
        patches = (mock.patch.object(plans.compiler, "compile_bundle", self.compile),
                   mock.patch.object(plans._code, "library", mock.Mock(load=lambda data: data)),
                   mock.patch.object(plans._code, "jobs", {}), mock.patch.object(plans._code, "plans", {}),
                   mock.patch.object(plans, "describe", lambda index: (9, 0, 232448)),
                   mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def compile(self, kernel, params, files, *, device, preferred_only, entry):
        with self.lock:
            self.calls.append((os.path.basename(kernel), device, preferred_only))
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.1)
        with self.lock:
            self.running -= 1
        if params["D"] == "7":
            raise compiler.CompileError("no")
        return params["D"].encode()

    def job(self, dim, kernel="forward", complete=False):
        choice = ops.Choice(kernel, "f16", dim, dim, "none", False, "")
        return plans._code.get_job(choice, (), (9, 0, 232448), complete)

    def test_different_kernels_compile_at_the_same_time(self):
        results = []
        threads = [threading.Thread(target=lambda dim=dim: results.append(self.job(dim).get())) for dim in (8, 16, 8, 32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(results), [b"16", b"32", b"8", b"8"])
        self.assertEqual(len(self.calls), 3)
        self.assertGreater(self.most, 1)

    def test_complete_code_is_for_all_devices(self):
        self.job(8).get()
        self.job(8, complete=True).get()
        self.assertEqual(self.calls, [("attention_forward.mlir", (9, 0, 232448), True), ("attention_forward.mlir", None, False)])

    def test_a_start_is_one_compilation(self):
        choice = ops.Choice("backward", "f16", 8, 8, "none", False, "")
        for _ in range(3):
            plans.start(choice, torch.device("cuda", 0))
        self.assertEqual(self.job(8, "backward").get(), b"8")
        self.assertEqual(len(self.calls), 1)

    def test_an_error_of_a_start_is_that_of_the_call(self):
        plans.start(ops.Choice("backward", "f16", 7, 7, "none", False, ""), torch.device("cuda", 0))
        with self.assertRaisesRegex(compiler.CompileError, "no"):
            self.job(7, "backward").get()

    def test_the_backward_starts_with_the_forward(self):
        started = []
        with mock.patch.object(ops, "start", lambda choice, device: started.append(choice)):
            with torch.no_grad():
                attention(*qkv())
            self.assertEqual(started, [])
            attention(*qkv(), causal=True, dropout_p=0.5)
        self.assertEqual([(choice.kernel, choice.causal) for choice in started], [("backward", "top_left")])


class FallbackTest(unittest.TestCase):
    """A run that the preferred forms of kernels do not accept is that of the complete plan."""

    class Plan:
        def __init__(self, error=None):
            self.error, self.runs = error, 0

        def pack(self, values):
            return values

        def workspace_size(self, packed, device):
            return 0

        def run(self, packed, workspace, size, stream):
            self.runs += 1
            if self.error:
                raise self.error

    def launch(self, plan):
        with mock.patch.object(torch.cuda, "device", lambda device: contextlib.nullcontext()), \
                mock.patch.object(torch.cuda, "current_stream", lambda device: mock.Mock(cuda_stream=0)):
            plans.launch(plan, {}, (), torch.device("cuda", 0))

    def test_unsupported_arguments(self):
        complete, plan = self.Plan(), self.Plan(runtime.TilewrightError("no variant takes these arguments", "unsupported"))
        with self.assertRaisesRegex(ValueError, "no variant"):
            self.launch(plan)
        plan.get_complete = lambda: complete
        with self.warnings():
            self.launch(plan)
        self.assertEqual((plan.runs, complete.runs), (2, 1))

    @contextlib.contextmanager
    def warnings(self):
        with mock.patch.object(performance, "_given", set()), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught

    def test_warns_of_a_slower_kernel(self):
        """Once for each reason, with the remedy; of whatever number. It was silent."""
        def launch(reason, complete=None):
            plan = self.Plan(runtime.TilewrightError(f"no variant of kernel 'k' takes these arguments: {reason}", "unsupported"))
            plan.get_complete = lambda: complete or self.Plan()
            self.launch(plan)

        remedy = "; give arrays whose addresses, rows and strides are multiples of 16 bytes"
        with self.warnings() as caught:
            launch("'q' must be aligned to 16 bytes")
            launch("'q' must be aligned to 16 bytes")
            for stride in (65, 67):
                launch(f"the stride {stride} along dimension 0 of 'k' must be a multiple of 16 bytes")
            with self.assertRaisesRegex(ValueError, "finite"):  # no kernel takes the arguments
                launch("its condition 'finite(scale)' does not hold", self.Plan(runtime.TilewrightError("finite", "invalid argument")))
        self.assertEqual({each.category for each in caught}, {tilewright.PerformanceWarning})
        self.assertEqual([str(each.message) for each in caught], [
            "attention is slower than it need be, by a kernel for any view: 'q' must be aligned to 16 bytes" + remedy,
            "attention is slower than it need be, by a kernel for any view: the stride 65 along dimension 0 of 'k' must be a multiple "
            "of 16 bytes" + remedy])

    def test_warns_of_a_kernel_without_roles(self):
        """On a chip that has them."""
        choice, device = ops.Choice("forward", "bf16", 64, 64, "none", False, "", lists=(16, 16)), torch.device("cuda", 0)
        remark = "kernel 'attention_forward' has no code for sm_90a: the warps must be a multiple of 4, and at most 28, but there " \
                 "are 2; use tiles of 64 rows or more"
        for major, wanted in ((9, [f"attention is slower than it need be: {remark}"]), (8, [])):
            with mock.patch.object(plans, "describe", lambda index, major=major: (major, 0, 232448 if major == 9 else 166912)), \
                    mock.patch.object(plans._code, "jobs", {}), mock.patch.object(runtime.Attention, "prepare"), \
                    self.warnings() as caught:
                for _ in range(2):
                    plans._make(choice, (), device, complete=False)
            self.assertEqual([str(each.message) for each in caught if each.category is tilewright.PerformanceWarning], wanted)

    def test_errors_after_the_choice_of_variants(self):
        plan = self.Plan(runtime.TilewrightError("the grid has too many blocks", "unsupported"))
        plan.get_complete = lambda: self.fail("must not be asked")
        with self.assertRaisesRegex(ValueError, "too many blocks"):
            self.launch(plan)

    def test_prepare_keeps_a_plan(self):
        """Graphs may have captured its code."""
        choice, device = ops.Choice("forward", "f16", 16, 16, "none", False, ""), torch.device("cuda", 0)
        with mock.patch.object(plans, "_make", lambda *arguments: object()), mock.patch.object(plans._code, "plans", {}), \
                mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False):
            before = plans.plan(choice, device)
            plans.prepare(choice, device)
            self.assertIs(plans.plan(choice, device), before)
            self.assertIsNot(plans.plan(choice, device, complete=True), before)

    def test_other_errors(self):
        plan = self.Plan(runtime.TilewrightError("out of memory", "out of memory"))
        plan.get_complete = lambda: self.fail("must not be asked")
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            self.launch(plan)


if __name__ == "__main__":
    unittest.main()
