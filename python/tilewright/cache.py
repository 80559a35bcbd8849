# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cache on disk, in which compiled kernels are kept for later processes."""

import ctypes
from ctypes import byref, c_char_p, c_size_t, c_uint64
from typing import NamedTuple, Optional

from tilewright import places, runtime


class CacheInfo(NamedTuple):
    """The state of the cache."""
    folder: str  # empty if the cache is disabled
    unused: Optional[str]  # why the folder is not used, or None
    entries: int  # files
    bytes: int  # of all files
    limit_bytes: int  # beyond it, entries that were used least recently are removed


class _Cache(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("folder", c_char_p), ("unused", c_char_p), ("entries", c_uint64),
                ("bytes", c_uint64), ("limit_bytes", c_uint64)]


def _call(name):
    cache = runtime.sized(_Cache)
    runtime.Library(places.find_library()).call(name, byref(cache))
    return CacheInfo(cache.folder.decode(), cache.unused.decode() if cache.unused else None, cache.entries, cache.bytes,
                     cache.limit_bytes)


def cache_info():
    """Returns the folder of the cache, the number and size of its entries, and its limit, as a CacheInfo. The environment
    variables TILEWRIGHT_CACHE_DIR (empty: no cache) and TILEWRIGHT_CACHE_SIZE (in MiB) set folder and limit."""
    return _call("cache_query")


def clear_cache():
    """Removes all entries of the cache, and returns what is left as a CacheInfo. Raises runtime.TilewrightError if the
    folder belongs to another user, or others may write it."""
    return _call("cache_clear")
