# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bindings of libtilewright.so of the package in python/."""

from gpubench import places  # noqa: F401: makes the package importable

from tilewright.runtime import (CAUSAL, TYPES, AttentionBackward, AttentionForward, Library, Operation,  # noqa: F401
                                TilewrightError)
