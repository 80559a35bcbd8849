# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which kernel serves a call of attention. The library (runtime/AttentionDesc.h) says which parameters describe it. Does not
need PyTorch."""

from itertools import product
from typing import NamedTuple, Optional, Tuple

from tilewright import checks, places, runtime


class _Described:
    """What the choices have in common: a description, of which the library makes parameters and plans."""

    def entry(self):
        return f"attention_{self.desc_fields()['kind']}"

    def desc(self):
        return runtime.attention_desc(**self.desc_fields())

    def params(self):
        """The parameters of the kernel, for a compiler."""
        return runtime.library_at(places.find_library()).attention_params(self.desc())

    def files(self):
        """Returns the path of the kernel's file, and a list of the files to link."""
        return f"{places.KERNELS}/{self.entry()}.mlir", checks.modifier_files(self.modifier)

    def create(self, library, bundle):
        return runtime.Attention(library, bundle, self.desc())


class _Choice(NamedTuple):
    kernel: str  # forward or backward
    dtype: str
    dim: int
    value_dim: int
    causal: str
    window: bool
    modifier: str  # linked files, in the format of checks.modifier_files
    deterministic: bool = False
    captured: bool = False  # whether captures get gradients
    packed: bool = False
    score_gradient: bool = False  # whether the backward writes d_score, the gradient of a bias
    lists: Tuple[int, ...] = ()  # block sizes of queries and keys, if there is a block mask
    cached: bool = False  # whether keys and values are in a cache; only in a forward
    page_rows: int = 0  # how many rows of a page of the cache one copy takes; 0: no pages
    leftpad: bool = False  # whether the first keys of sequences in the cache are padding
    stored: str = ""  # the type of the cache, if it is another one
    by_token: bool = False  # whether each key and value of the cache has a factor


class Choice(_Described, _Choice):
    """A forward or backward, and its compile options."""

    def desc_fields(self):
        fields = dict(kind=self.kernel, dtype=self.dtype, dim=self.dim, value_dim=self.value_dim, causal=self.causal,
                      has_window=self.window, packed=self.packed)
        fields |= dict(zip(("list_block_m", "list_block_n"), self.lists))
        if self.cached:
            fields |= dict(cached=True, page_rows=self.page_rows or runtime.NO_TABLE, leftpad=self.leftpad,
                           cache_type=self.stored or None, params={"BY_TOKEN": "true"} if self.by_token else None)
        if self.kernel == "backward":
            fields |= dict(deterministic=self.deterministic, capture_gradients=self.captured, score_gradient=self.score_gradient)
        return fields

    def create(self, library, bundle):
        # A description does not name every parameter, and a bundle may have code for shards, too.
        fields = self.desc_fields()
        fields["params"] = {**(fields.get("params") or {}), "SHARD": "false"}
        try:
            return runtime.Attention(library, bundle, runtime.attention_desc(**fields))
        except runtime.TilewrightError as error:
            if error.code != "missing variant":
                raise
        found = super().create(library, bundle)  # of a version without the parameter
        if found.takes("first_row"):
            raise runtime.TilewrightError(f"the bundle must have a variant of '{self.entry()}' for whole sequences, but has those for "
                                          "shards alone; compile it with --param=SHARD=false", "missing variant")
        return found


def may_take_score_gradient(modifier):
    """Whether the kernel can compute the gradient of a bias as the gradient of the scores, which is then summed without
    atomic additions. This requires that no modifier changes the scores before the bias is added."""
    return modifier.split(checks.SEPARATOR)[0] == "bias"


def takes_score_gradient(modifier, deterministic, shape, full):
    """Whether a backward does so: if it can, and several pairs share an element of the bias (`shape` is the shape of the
    bias, `full` that of all pairs) or `deterministic` is set. Otherwise, each pair adds to or stores its own gradient."""
    return may_take_score_gradient(modifier) and shape[3] == full[3] and (
        deterministic or any(n == 1 < all_n for n, all_n in zip(shape, full)))


class _ShardChoice(NamedTuple):
    whole: Choice
    shard: bool  # whether it takes positions in longer sequences
    continued: bool = False  # whether a forward continues the softmax of another
    result: str = ""  # the type of the results, if it is another one


class ShardChoice(_Described, _ShardChoice):
    """A forward or backward of a part of the rows, keys or heads."""

    @property
    def modifier(self):
        return self.whole.modifier

    def desc_fields(self):
        # All of them, since a bundle has more parameters than a description names.
        params = {"SHARD": str(self.shard).lower(), "TO": self.result or self.whole.dtype}
        if self.whole.kernel == "forward":
            params["CONTINUED"] = str(self.continued).lower()
        return self.whole.desc_fields() | {"params": params}


class _DecodeChoice(NamedTuple):
    dtype: str
    dim: int
    value_dim: int
    group: int
    rows: int  # queries of a sequence at most
    causal: str
    window: bool
    page_rows: int
    splits: int
    modifier: str
    leftpad: bool = False
    packed: bool = False
    stored: str = ""  # the type of the cache, if it is another one
    listed: int = 0  # keys of a block, if queries attend listed blocks
    ranks: int = 0  # of how many ranks the cache is one, of `rank_keys` keys in turn; 0: it has all keys
    rank_keys: int = 1
    by_token: bool = False  # whether each key and value of the cache has a factor


class DecodeChoice(_Described, _DecodeChoice):
    """The same for attention_decode."""

    def desc_fields(self):
        more = {"SHARD": "true", "RANKS": str(self.ranks), "RANK_KEYS": str(self.rank_keys)} if self.ranks else {}
        more |= {"BY_TOKEN": "true"} if self.by_token else {}
        return dict(kind="decode", dtype=self.dtype, dim=self.dim, value_dim=self.value_dim, causal=self.causal,
                    has_window=self.window, group=self.group, max_rows=self.rows, num_splits=self.splits,
                    page_rows=self.page_rows or runtime.NO_TABLE, leftpad=self.leftpad, packed=self.packed,
                    cache_type=self.stored or None, list_block_m=self.rows if self.listed else 0, list_block_n=self.listed,
                    params=more)


class _AppendChoice(NamedTuple):
    dtype: str
    dim: int
    value_dim: int
    places: str
    indices: str = "i32"
    packed: bool = False
    positions: bool = False
    rotary: int = 0
    pairs: bool = False
    q_first: bool = False
    angles: str = ""  # the type of cos and sin, if there are any
    stored: str = ""  # the type of the cache, if it is another one
    by_token: bool = False  # whether each key and value of the cache has a factor
    modifier: str = ""


class AppendChoice(_Described, _AppendChoice):
    """The same for attention_append."""

    def desc_fields(self):
        return dict(kind="append", dtype=self.dtype, dim=self.dim, value_dim=self.value_dim, places=self.places,
                    wide_indices=self.indices == "i64", packed=self.packed, positions=self.positions, rotary=self.rotary,
                    rotary_pairs=self.pairs, rotary_first=self.q_first, rotary_type=self.angles or self.dtype,
                    cache_type=self.stored or None, params={"BY_TOKEN": "true"} if self.by_token else None)


class _MlaDecodeChoice(NamedTuple):
    dtype: str
    dim: int
    value_dim: int
    heads: int
    causal: str
    page_rows: int
    splits: int
    stored: str = ""  # the type of the latent columns, if it is another one
    modifier: str = ""


class MlaDecodeChoice(_MlaDecodeChoice):
    """The same for attention_mla_decode, of which the library has no description: an operation."""

    @property
    def program(self):
        return "attention_mla_decode_bytes" if self.stored else "attention_mla_decode"

    def entry(self):
        return self.program

    def params(self):
        params = dict(T=self.dtype, D=self.dim, DV=self.value_dim, GROUP=self.heads, CAUSAL=self.causal,
                      PAGE_ROWS=self.page_rows, SPLITS=self.splits)
        return params | ({"CACHE": self.stored} if self.stored else {})

    def files(self):
        return f"{places.KERNELS}/{self.program}.mlir", []

    def create(self, library, bundle):
        return runtime.Operation(library, bundle, self.program, self.params())


class MergeChoice(NamedTuple):
    """The same for attention_merge, which no description has."""
    dtype: str  # of parts
    dim: int
    result: str
    other: bool = False
    base2: bool = False
    modifier: str = ""

    def entry(self):
        return "attention_merge"

    def params(self):
        return {"D": self.dim, "T": self.dtype, "TO": self.result, "OTHER": str(self.other).lower(),
                "BASE2": str(self.base2).lower()}

    def files(self):
        return f"{places.KERNELS}/{self.entry()}.mlir", []

    def create(self, library, bundle):
        return runtime.Operation(library, bundle, self.entry(), self.params())


class KernelChoice(NamedTuple):
    """The same for a kernel or program of the user's."""
    file: str
    linked: Tuple[str, ...]
    program: Optional[str]  # the name of the kernel or program in the file, if there are several
    name: str
    texts: Tuple[Tuple[str, str], ...]  # parameters

    @property
    def modifier(self):  # files whose changes make other code
        return checks.SEPARATOR.join((self.file, *self.linked))

    @property
    def subject(self):
        return f"kernel '{self.name}'"

    def entry(self):
        return self.name

    def params(self):
        return dict(self.texts)

    def files(self):
        return self.file, list(self.linked)

    def create(self, library, bundle):
        return runtime.Operation(library, bundle, self.name, self.params())


def common_choices():
    """The choices whose code comes with the wheel."""
    return [Choice(kernel, dtype, dim, dim, causal, False, "") for kernel, dtype, dim, causal in product(
        ("forward", "backward"), ("f16", "bf16"), (64, 128), ("none", "top_left"))]
