# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statistics, tables and plots of timings, which `python -m tilewright bench` shares."""

from gpubench import places  # noqa: F401: makes the package importable

from tilewright.reports import (best_peers, geometric_mean, markdown_table, ratios, ratios_to_best, speed_row,  # noqa: F401
                                summarize, summary_rows, svg_curves, svg_plot, tflops)
