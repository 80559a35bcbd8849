# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the package in python/ importable, and locates the compiler, the runtime, ptxas and the GPU's architecture."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from tilewright.places import find_library, find_tool  # noqa: E402, F401


def find_arch(target):
    """The architecture of this machine's GPU, for ptxas; a target with suffix `a` runs only on its own architecture."""
    if target.endswith("a"):
        return target
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        return "sm_" + found.splitlines()[0].strip().replace(".", "")
    except (OSError, subprocess.CalledProcessError, IndexError):
        return target


def find_ptxas():
    return shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
