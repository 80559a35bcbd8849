# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The masks of models of Hugging Face transformers: what a model asks for, as the few numbers and arrays that the kernels
take. transformers describes a mask by a function of indices, which it composes of functions of its module masking_utils. A
composition that is known here becomes a Mask; any other one an array of all pairs, which every model may ask for."""

from typing import NamedTuple, Optional, Tuple

import torch
from transformers import masking_utils

from tilewright import performance

REMEDY = "call tilewright.register_for_transformers(dense_masks=True), for models that compute with masks themselves"


class _Mask(NamedTuple):
    causal: bool  # key j only if j <= i, from the diagonal
    window: Tuple[int, int]  # keys on each side of the diagonal, -1: all
    from_end: bool  # whether the diagonal ends at the last key; otherwise it begins at the first
    padding: Optional[torch.Tensor]  # [B, Skv], bool: the keys that are tokens
    starts: Optional[torch.Tensor] = None  # of packed sequences in [B * S] rows, int32, with the end of the last
    spans: Optional[Tuple[torch.Tensor, torch.Tensor]] = None  # the same for each token: begin and end of its sequence, [B, S]


class Mask(_Mask):
    """A mask that is not written down for all pairs. It takes the way of a tensor through a model. A tuple, so that what
    moves or saves the arguments of layers finds its tensors."""

    ndim = 4  # not 2: transformers gives a mask that was made outside of the model to `mask` again

    def __getattr__(self, name):
        raise AttributeError(f"a mask of the attention implementation 'tilewright' is no tensor, and has no '{name}'; {REMEDY}")


class _Pattern(NamedTuple):
    """What a function of indices keeps."""
    causal: bool = False
    full: bool = False  # whether it keeps all pairs
    window: Tuple[int, int] = (-1, -1)
    packed: Optional[torch.Tensor] = None  # [B, S]: the number of the sequence of each token


def _variables(function):
    """The variables that a function of masking_utils closes over, and the name of the function that made it; ({}, "") for
    other functions."""
    if getattr(function, "__module__", "") != masking_utils.__name__ or not getattr(function, "__closure__", None):
        return {}, ""
    values = [cell.cell_contents for cell in function.__closure__]
    return dict(zip(function.__code__.co_freevars, values)), function.__qualname__.partition(".")[0]


def _intersection(patterns):
    windows = [p.window for p in patterns if p.window != (-1, -1)]
    packed = [p.packed for p in patterns if p.packed is not None]
    if len(windows) > 1 or len(packed) > 1:
        return None
    return _Pattern(any(p.causal for p in patterns), all(p.full for p in patterns), (windows or [(-1, -1)])[0],
                    (packed or [None])[0])


def pattern_of(function):
    """The _Pattern of a function of indices, or None if it is not known."""
    if function is masking_utils.causal_mask_function:
        return _Pattern(causal=True)
    if function is masking_utils.bidirectional_mask_function:
        return _Pattern(full=True)
    values, maker = _variables(function)
    if maker == "and_masks" and "mask_functions" in values:
        patterns = [pattern_of(each) for each in values["mask_functions"]]
        return None if None in patterns else _intersection(patterns)
    if maker == "sliding_window_overlay" and "sliding_window" in values:
        return _Pattern(window=(values["sliding_window"] - 1, -1))
    if maker == "sliding_window_bidirectional_overlay" and "sliding_window" in values:
        return _Pattern(window=(values["sliding_window"],) * 2)
    if maker == "packed_sequence_mask_function" and "packed_sequence_mask" in values:
        return _Pattern(packed=values["packed_sequence_mask"])
    # Within a sequence positions differ as rows do, so this changes nothing, if an intersection keeps to sequences.
    if maker == "remap_positions_for_packed_sequence" and "mask_function" in values:
        inner = pattern_of(values["mask_function"])
        return None if inner is None or inner.packed is not None else inner
    return None


def _meaning(pattern, rows):
    """The pairs [rows, rows] that a pattern keeps."""
    ahead = torch.arange(rows) - torch.arange(rows)[:, None]
    left, right = pattern.window
    kept = (ahead <= 0) if pattern.causal else torch.ones_like(ahead, dtype=torch.bool)
    kept = kept & ((ahead >= -left) if left >= 0 else True) & ((ahead <= right) if right >= 0 else True)
    return kept if pattern.packed is None else kept & (pattern.packed[0] == pattern.packed[0, :, None])


def check_meanings():
    """Raises ImportError if functions of this version of transformers keep other pairs than pattern_of says."""
    rows, positions = 8, torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    packed = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    window = masking_utils.sliding_window_causal_mask_function(3)
    functions = [masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function, window,
                 masking_utils.sliding_window_bidirectional_mask_function(2)]
    # Earlier versions compare the rows of the whole batch, which gives the same pairs within a sequence.
    remap = getattr(masking_utils, "remap_positions_for_packed_sequence", lambda each, _: each)
    functions += [masking_utils.and_masks(remap(each, positions), masking_utils.packed_sequence_mask_function(packed))
                  for each in (functions[0], window)]
    b = h = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    i, j = torch.arange(rows)[:, None], torch.arange(rows)[None]
    for function in functions:
        pattern = pattern_of(function)
        if pattern is not None and not torch.equal(function(b, h, i, j).expand(1, 1, rows, rows)[0, 0], _meaning(pattern, rows)):
            raise ImportError(f"the masks of this version of transformers mean something else ({_variables(function)[1] or function}); "
                              "use a version that tilewright is tested with, 5.24")


def _has_unsplit_positions(function):
    """Whether positions are those of packed sequences, but nothing separates the sequences."""
    values, maker = _variables(function)
    if maker == "and_masks":
        inner = [_variables(each)[1] for each in values.get("mask_functions", ())]
        return "remap_positions_for_packed_sequence" in inner and "packed_sequence_mask_function" not in inner
    return maker == "remap_positions_for_packed_sequence"


def starts_of(packed):
    """The starts of the sequences of all rows of a batch, one after the other, and the end of the last."""
    first = torch.ones_like(packed[:, :1], dtype=torch.bool)
    starts = torch.cat([first, packed.diff(dim=1) != 0], 1).flatten().nonzero().flatten().to(torch.int32)
    return torch.cat([starts, starts.new_full((1,), packed.numel())])


def _spans_of(packed):
    """The begin and the end of the sequence of each token, in its row of the batch. Needs no extent that data decides."""
    rows = packed.shape[1]
    index = torch.arange(rows, dtype=torch.int32, device=packed.device).expand(packed.shape)
    edges = torch.nn.functional.pad(packed.diff(dim=1) != 0, (1, 1), value=True)
    begin = torch.where(edges[:, :-1], index, 0).cummax(1).values
    end = torch.where(edges[:, 1:], index + 1, rows).flip(1).cummin(1).values.flip(1)
    return begin.contiguous(), end.contiguous()


def _padding_of(attention_mask, kv_length, kv_offset):
    """[B, kv_length], bool: the part of a mask of tokens for these keys, False beyond its end; None if all are True, which
    is not read in a traced graph."""
    if attention_mask is None:
        return None
    missing = kv_length + kv_offset - attention_mask.shape[-1]
    padding = torch.nn.functional.pad(attention_mask, (0, missing)) if missing > 0 else attention_mask
    padding = padding[:, kv_offset:kv_offset + kv_length].bool()
    return None if not torch.compiler.is_compiling() and bool(padding.all()) else padding


def dense_mask(*, allow_is_causal_skip=True, allow_is_bidirectional_skip=False, **arguments):
    """transformers' mask for PyTorch's attention: bool [B, 1, Sq, Skv], or None where `is_causal` of the module says it."""
    return masking_utils.sdpa_mask(allow_is_causal_skip=allow_is_causal_skip,
                                   allow_is_bidirectional_skip=allow_is_bidirectional_skip, **arguments)


def mask(*, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=masking_utils.causal_mask_function, attention_mask=None,
         allow_is_causal_skip=True, allow_is_bidirectional_skip=False, **more):
    """The mask of a model, as AttentionMaskInterface asks for it: a Mask, or what dense_mask returns. That it returns for
    static caches, whose offsets are on the device."""
    if isinstance(attention_mask, Mask):
        return attention_mask
    arguments = dict(q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                     mask_function=mask_function, attention_mask=attention_mask, **more)
    if isinstance(q_offset, torch.Tensor) or isinstance(kv_offset, torch.Tensor):
        return dense_mask(allow_is_causal_skip=allow_is_causal_skip, allow_is_bidirectional_skip=allow_is_bidirectional_skip,
                          **arguments)
    pattern = pattern_of(mask_function)
    if pattern is not None:
        is_packed = pattern.packed is not None
        may_omit = allow_is_bidirectional_skip if not pattern.causal else allow_is_causal_skip or is_packed
        if not may_omit:  # the model computes with it
            return dense_mask(allow_is_causal_skip=False, **arguments)
        shift, from_end = q_offset - kv_offset, kv_length - q_offset + kv_offset == q_length
        has_diagonal = pattern.causal or pattern.window != (-1, -1)
        if not (is_packed and (attention_mask is not None or q_length != kv_length)) \
                and not _has_unsplit_positions(mask_function) and (from_end or shift == 0 or not has_diagonal):
            traced = torch.compiler.is_compiling()  # then the number of sequences cannot be read
            return Mask(pattern.causal, pattern.window, from_end and shift != 0,
                        _padding_of(attention_mask, kv_length, kv_offset),
                        starts_of(pattern.packed) if is_packed and not traced else None,
                        _spans_of(pattern.packed) if is_packed and traced else None)
    if not torch.compiler.is_compiling():
        performance.warn("dense mask of transformers", "attention is slower than it need be: a model composes its mask in a way that "
                         "tilewright does not know, so that a mask of all pairs is read, and no block is left out")
    return dense_mask(allow_is_causal_skip=False, **arguments)
