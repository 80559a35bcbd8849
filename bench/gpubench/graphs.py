# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times calls as CUDA graphs, as `python -m tilewright bench` does."""

from gpubench import places  # noqa: F401: makes the package importable

from tilewright.timing import graph_of, time_graphs  # noqa: F401
