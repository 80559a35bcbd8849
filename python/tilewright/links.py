# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which file of kernels/mods an argument of attention links, for arrays of any library: only the values of captures differ."""

from tilewright import checks


def missing_dims(name, extents, wanted):
    """How many dimensions of 1 go before those of an array for it to have the four [B, Hq, Sq, Skv], of which each may have
    the extent 1. `wanted` are these, None where any is right. Raises ValueError if it cannot be broadcast to them."""
    extents = list(extents)
    missing = 4 - len(extents)
    if missing < 0:
        raise ValueError(f"{name} must have at most the four dimensions [batch, heads, queries, keys], but got shape {extents}")
    if any(full is not None and extent not in (1, full) for extent, full in zip([1] * missing + extents, wanted)):
        raise ValueError(f"{name} must have extents of {list(wanted)} or 1, but got shape {[1] * missing + extents}")
    return missing


def check_heads(name, extents, shape, rank=1):
    """Raises ValueError if the extents are not those of an array [Hq] or, if `rank` is 2, also [B, Hq]."""
    allowed = [(shape.heads,), (shape.batch, shape.heads)][:rank]
    if tuple(extents) not in allowed:
        raise ValueError(f"{name} must have shape {' or '.join(str(list(s)) for s in allowed)}, but got {list(extents)}")


def check_bias_type(name, kind, wanted, method):
    if kind != wanted:
        raise ValueError(f"{name} must have the type of q, {wanted}, but got {kind}; convert it with .{method}()")


class Links:
    """The files that a call of attention links, in link order, and the values of their captures. `shape` has the numbers
    `batch`, `heads`, `queries` and `keys`, the lengths `used` of queries and keys or None, and the methods has_shift, shift
    and no_shift of features.Shape."""

    def __init__(self, shape):
        self.shape, self.files, self.captures = shape, [], {}

    def for_all(self, per_head):
        """An array [Hq] or [B, Hq] as one [B, Hq]."""
        raise NotImplementedError

    def capture_of(self, name, value):
        """The value of a capture that the caller gives; raises ValueError if it cannot be one."""
        raise NotImplementedError

    def link(self, file, **captures):
        self.files.append(file)
        self.captures.update(captures)

    def add_softcap(self, softcap):
        cap = checks.softcap_of(softcap)
        if cap is not None:
            self.link("softcap", softcap=cap)

    def link_bias(self, bias):
        self.link("bias", bias=bias)

    def link_mask(self, mask):
        self.link("mask", mask=mask)

    def link_used_lengths(self, queries, keys):
        """Before alibi and windows, since used lengths move the bottom right corner."""
        self.shape.used = queries, keys
        self.link("used_lengths", seqused_q=queries, seqused_k=keys)

    def link_alibi(self, slopes, from_corner):
        shifted = from_corner and self.shape.has_shift()
        if len(slopes.shape) == 1 and not shifted:
            self.link("alibi", slopes=slopes)
        else:
            shift = self.shape.shift() if shifted else self.shape.no_shift()
            self.link("alibi_aligned", alibi_slopes=self.for_all(slopes), alibi_shift=shift)

    def align_to_corner(self, mode, left, right):
        """Aligns a causal mask and a window to the bottom right corner, by files where the kernel uses a different one.
        Returns the causal mode and the window of the kernel."""
        if self.shape.used and mode != "none":
            mode, right = ("none", 0) if self.shape.has_shift() else ("top_left", right)
        if mode == "none" and (left, right) != (-1, -1) and self.shape.has_shift():
            self.add_window(left, right)
            left = right = -1
        return mode, left, right

    def add_window(self, left, right):
        """Adds a window aligned to the bottom right corner, for calls where the window of the kernel starts at the top
        left corner."""
        self.link("window_aligned", window_shift=self.shape.shift(), aligned_left=left, aligned_right=right)

    def link_dropout(self, p, seed, offset):
        self.link("dropout", dropout=p, dropout_seed=seed, dropout_offset=offset)

    def link_sinks(self, sinks):
        self.link("sink", sinks=sinks)

    def add_files(self, modifier, captures):
        """Adds the caller's files after those of keyword arguments."""
        text = checks.modifier_text(modifier)
        names = text.split(checks.SEPARATOR) if text else []
        twice = [name for name in names if name in self.files]
        if twice:
            raise ValueError(f"modifier must not name '{twice[0]}', which an argument of attention links already")
        if captures is not None and not isinstance(captures, dict):
            raise ValueError(f"captures must be a dict of values by name, but got {type(captures).__name__}")
        if captures and not names:
            raise ValueError(f"captures must belong to a modifier, but got {', '.join(captures)} without one")
        for name, value in (captures or {}).items():
            if name in self.captures:
                raise ValueError(f"captures must not hold '{name}', which an argument of attention gives already")
            self.captures[name] = self.capture_of(name, value)
        self.files += names
