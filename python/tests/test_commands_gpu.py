# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright doctor and bench on a GPU. The tests are skipped, with a message, if there is no GPU."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")

from tilewright import places  # noqa: E402


def run(*arguments):
    return subprocess.run([sys.executable, "-B", "-m", "tilewright", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, "PYTHONPATH": os.path.dirname(places.PACKAGE)})


class CommandsTest(unittest.TestCase):
    def test_doctor(self):
        done = run("doctor")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"GPU 0         {torch.cuda.get_device_name(0)}, compute capability ", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "Attention runs: its results and gradients on the GPU are right.")

    def test_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            svg, data = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
            done = run("bench", "--dims", "64", "--lengths", "1024", "--cases", "D64 causal", "decode * B16", "--rounds", "5", "--plot",
                       svg, "--json", data)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(data, encoding="utf-8") as file:
                cases = json.load(file)["cases"]
            self.assertTrue(os.path.getsize(svg))
        self.assertEqual(list(cases), ["forward D64 causal S1024", "backward D64 causal S1024", "decode D128 B16 S8192"])
        for name, sides in cases.items():
            self.assertGreater(sides["tilewright"]["tflops"], 0, done.stdout)
            self.assertGreater(len(sides), 1, done.stdout)  # a peer of PyTorch ran, too
            self.assertLessEqual(sides["tilewright"]["q1_ms"], sides["tilewright"]["q3_ms"])
            self.assertTrue(re.search(rf"\| {re.escape(name)} \| [0-9.]+ \(IQR ", done.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main()
