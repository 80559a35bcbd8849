# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warnings of calls that are slower than they need be. Does not need PyTorch."""

import sys
import warnings

_given = set()


class PerformanceWarning(UserWarning):
    """A call is right, but slower than it need be; the text has the reason and the remedy. Each reason is reported once in a
    process."""


def _depth_of_user():
    """How many frames above `warn` the first is that belongs neither to this package nor to PyTorch."""
    frame, depth = sys._getframe(2), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("tilewright", "torch"):
        frame, depth = frame.f_back, depth + 1
    return depth


def warn(reason, text):
    """Warns with `text`, unless there was a warning for `reason`, any value, before."""
    if reason not in _given:
        _given.add(reason)
        warnings.warn(text, PerformanceWarning, stacklevel=_depth_of_user())
