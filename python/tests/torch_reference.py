# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in plain PyTorch for the tests: the formulas, with gradients by autograd, and the feature combinations
tested on every device."""

import math

import torch


def _modified(scores, modifier, captures, i, j):
    """The effect of the files of kernels/mods, by name: changed scores, and the pairs that are kept."""
    captures = captures or {}
    kept = torch.ones_like(scores, dtype=torch.bool)
    for name in [modifier] if isinstance(modifier, str) else modifier or []:
        if name == "softcap":
            scores = torch.tanh(scores / captures["softcap"]) * captures["softcap"]
        elif name == "alibi":
            slopes = captures["slopes"].to(scores.dtype)
            scores = scores - slopes[:, None, None] * (i[:, None] - j[None]).abs()
        elif name == "relative_bias":
            radius = captures["relative_radius"]
            near = (j[None] - i[:, None]).clamp(-radius, radius) + radius
            scores = scores + captures["relative_bias"].to(scores.dtype)[:, near]
        elif name == "prefix_lm":
            prefix = captures["prefix_length"][:, None, None, None]
            kept = kept & ((j < prefix) | (j[None] <= i[:, None]))
        elif name == "document":
            kept = kept & (captures["query_document"][:, None, :, None] == captures["key_document"][:, None, None])
        else:
            raise KeyError(name)
    return scores, kept


def _listed(block_mask, i, j, heads):
    """The pairs that lists of blocks keep, [B or 1, Hq, Sq, Skv]."""
    counts, indices, (queries, keys) = block_mask
    counts, indices = (x.expand(-1, heads, *x.shape[2:]) for x in (counts, indices))
    valid = torch.arange(indices.shape[-1], device=i.device) < counts[..., None]
    own = indices[..., None] == j // keys  # [B or 1, Hq, Mb, L, Skv]
    return (own & valid[..., None]).any(3)[:, :, i // queries]


def reference(q, k, v, causal=False, window=None, align=None, scale=None, softcap=None, bias=None, attn_mask=None,
              alibi_slopes=None, sinks=None, factors=None, modifier=None, captures=None, seqused_q=None, seqused_k=None,
              block_mask=None):
    """O and LSE of tilewright.attention in the type of q; `factors` are the dropout factors. A row without keys gives O
    = 0, and LSE = -inf or the sink."""
    group = q.shape[1] // max(1, k.shape[1])
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    causal = {False: "none", None: "none", True: "top_left"}.get(causal, causal)
    i, j = (torch.arange(n, device=q.device) for n in (q.shape[2], k.shape[2]))
    used_q, used_k = (torch.tensor(n) if used is None else used[:, None, None, None].to(i.device)
                      for n, used in ((len(i), seqused_q), (len(j), seqused_k)))
    shift = used_k - used_q if "bottom_right" in (causal, align) else 0
    ahead = j[None] - i[:, None] - shift

    scores = q @ k.mT * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    kept = torch.ones_like(scores, dtype=torch.bool)
    for x in (bias, attn_mask):
        if x is not None and x.dtype == torch.bool:
            kept = kept & x
        elif x is not None:
            scores = scores + x.to(scores.dtype)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.to(scores.dtype)[..., None, None] * ahead.abs()
    scores, allowed = _modified(scores, modifier, captures, i, j)
    kept = kept & allowed & (i[:, None] < used_q) & (j < used_k)
    if block_mask is not None:
        kept = kept & _listed(block_mask, i, j, q.shape[1])
    if causal != "none":
        kept = kept & (ahead <= 0)
    left, right = window or (-1, -1)
    if left >= 0:
        kept = kept & (ahead >= -left)
    if right >= 0:
        kept = kept & (ahead <= right)

    if sinks is not None:  # an additional key that every row attends, without a value
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
        scores, kept = torch.cat([scores, column], -1), torch.nn.functional.pad(kept, (0, 1), value=True)
    kept = kept & (scores > -math.inf)
    empty = ~kept.any(-1)
    scores = scores.masked_fill(~kept, -math.inf).masked_fill(empty[..., None], 0)
    lse = scores.logsumexp(-1).masked_fill(empty, -math.inf)
    p = torch.softmax(scores, -1).masked_fill(empty[..., None], 0)[..., :k.shape[2]]
    return (p if factors is None else p * factors) @ v, lse


def packed_reference(q, k, v, starts_q, starts_k, slices=None, **options):
    """The reference for packed sequences [rows, heads, width], stored one after the other. `slices(b, n)` returns the
    options that differ for sequence b; n is its number of queries and keys."""
    outputs = []
    for b, (q0, q1, k0, k1) in enumerate(zip(starts_q, starts_q[1:], starts_k, starts_k[1:])):
        one = [x[None].transpose(1, 2) for x in (q[q0:q1], k[k0:k1], v[k0:k1])]
        more = slices(b, (q1 - q0, k1 - k0)) if slices else {}
        outputs.append(reference(*one, **(options | more)))
    o, lse = zip(*outputs)
    return torch.cat([x[0].transpose(0, 1) for x in o]), torch.cat([x[0] for x in lse], 1)


def slices_of(given):
    """The `slices` of packed_reference: each sequence reads its own batch of the options, and the first rows and
    columns of a table."""
    def one(b, n):
        own = {}
        for name in {"bias", "attn_mask"} & set(given):
            x = given[name][(None,) * (4 - given[name].dim())]
            x = x[b:b + 1] if x.shape[0] > 1 else x
            x = x[:, :, :n[0]] if x.shape[2] > 1 else x
            own[name] = x[..., :n[1]] if x.shape[3] > 1 else x
        if "alibi_slopes" in given and given["alibi_slopes"].dim() == 2:
            own["alibi_slopes"] = given["alibi_slopes"][b:b + 1]
        if "block_mask" in given:
            *lists, sizes = given["block_mask"]
            own["block_mask"] = (*(x[b:b + 1] if x.shape[0] > 1 else x for x in lists), sizes)
        own |= {name: given[name][b:b + 1] for name in {"seqused_q", "seqused_k"} & set(given)}
        if "prefix_length" in given.get("captures", {}):
            own["captures"] = {"prefix_length": given["captures"]["prefix_length"][b:b + 1]}
        return own

    return one


def packed_features():
    """FEATURES for packed sequences, without `document`, which would repeat the sequences."""
    for options in FEATURES:
        if "query_document" in options.get("captures", {}):
            options = {"modifier": "prefix_lm", "captures": {"prefix_length": "?prefix"}, "sinks": "?sinks"}
        yield {name: x for name, x in options.items() if name != "rows"}


# Combinations of features; `rows` and `keys` change the inputs, `fill` replaces "?" by a tensor.
FEATURES = [
    {},
    {"causal": True},
    {"causal": "bottom_right", "scale": 0.3, "rows": 9},
    {"causal": "bottom_right", "rows": 12},  # rows without keys
    {"window": (2, 1)},
    {"window": (2, 3), "align": "bottom_right"},
    {"window": (-1, 2), "align": "bottom_right", "rows": 13},
    {"causal": "bottom_right", "window": (3, -1)},
    {"softcap": 1.5},
    {"bias": "?pairs"},
    {"bias": "?pairs", "causal": True},
    {"bias": "?keys", "softcap": 2.0},
    {"bias": "?batch"},
    {"attn_mask": "?mask"},
    {"attn_mask": "?padding", "causal": True},
    {"attn_mask": "?float"},
    {"attn_mask": "?mask", "bias": "?heads", "softcap": 1.5},
    {"alibi_slopes": "?slopes", "causal": True},
    {"alibi_slopes": "?slopes", "causal": "bottom_right"},
    {"alibi_slopes": "?slopes", "align": "bottom_right", "window": (4, 2)},
    {"alibi_slopes": "?batch_slopes"},
    {"sinks": "?sinks"},
    {"sinks": "?sinks", "causal": "bottom_right", "rows": 12},  # rows with only a sink
    {"sinks": "?sinks", "bias": "?heads", "window": (3, 2), "attn_mask": "?padding"},
    {"seqused_q": "?used_q", "seqused_k": "?used_k", "rows": 9},
    {"seqused_q": "?used_q", "causal": True, "attn_mask": "?padding"},
    {"seqused_k": "?used_k", "causal": "bottom_right", "rows": 9},
    {"seqused_q": "?used_q", "seqused_k": "?used_k", "window": (3, 2), "align": "bottom_right", "sinks": "?sinks"},
    {"seqused_q": "?used_q", "seqused_k": "?used_k", "causal": "bottom_right", "window": (4, -1), "softcap": 2.0,
     "bias": "?pairs", "alibi_slopes": "?slopes", "rows": 7},
    {"block_mask": "?lists"},
    {"block_mask": "?shared_lists", "causal": "bottom_right", "bias": "?keys", "sinks": "?sinks", "rows": 9},
    {"block_mask": "?lists", "window": (4, 2), "softcap": 2.0, "bias": "?pairs", "attn_mask": "?mask",
     "alibi_slopes": "?slopes", "seqused_k": "?used_k", "modifier": "prefix_lm", "captures": {"prefix_length": "?prefix"}},
    {"modifier": "relative_bias", "captures": {"relative_bias": "?table", "relative_radius": 3}, "softcap": 2.0},
    {"modifier": ["prefix_lm", "document"], "captures": {"prefix_length": "?prefix", "query_document": "?of_query",
                                                         "key_document": "?of_key"}, "sinks": "?sinks"},
    {"causal": "bottom_right", "window": (5, -1), "softcap": 2.0, "bias": "?pairs", "attn_mask": "?mask",
     "alibi_slopes": "?slopes", "sinks": "?sinks", "modifier": "relative_bias",
     "captures": {"relative_bias": "?table", "relative_radius": 3}},
]


def fill(options, make, batch, heads, rows, keys, dtype, device, starts=None):
    """The options with tensors in place of "?name", and the tensors that require gradients. `make` returns normal
    numbers of a shape and type; captures whose kernels take f32 are f32. `starts`: the starts of packed queries and
    keys."""
    generator = torch.Generator().manual_seed(rows + keys)

    def uniform(*shape):
        return torch.rand(shape, generator=generator).to(device)

    def integers(top, *shape):
        return torch.randint(0, top, shape, generator=generator, dtype=torch.int32).to(device)

    def used(top, of):
        lengths = integers(top + 1, batch)
        return lengths if starts is None else torch.minimum(lengths, torch.tensor(starts[of]).diff().to(lengths))

    def mask():
        chosen = uniform(batch, 1, rows, keys) < 0.6
        chosen[:, :, 1] = False  # a row without keys
        return chosen

    def lists(*shape):
        size = (4, 2) if device == "cpu" else (32, 16)
        blocks = [-(-n // of) for n, of in zip((rows, keys), size)]
        order = uniform(*shape, *blocks).argsort(-1)
        return integers(blocks[1] + 1, *shape, blocks[0]), order.to(torch.int32), size

    def floats():
        return make(rows, keys, dtype=dtype).detach().masked_fill(~mask(), -math.inf).requires_grad_()

    makers = {"pairs": lambda: make(batch, heads, rows, keys, dtype=dtype), "keys": lambda: make(keys, dtype=dtype),
              "batch": lambda: make(batch, 1, rows, 1, dtype=dtype), "heads": lambda: make(heads, 1, keys, dtype=dtype),
              "mask": mask, "lists": lambda: lists(batch, heads),
              "shared_lists": lambda: lists(1, 1), "padding": lambda: uniform(batch, 1, 1, keys) < 0.7, "float": floats,
              "slopes": lambda: make(heads, dtype=torch.float32),
              "batch_slopes": lambda: make(batch, heads, dtype=torch.float32),
              "sinks": lambda: make(heads, dtype=torch.float32), "table": lambda: make(heads, 7, dtype=torch.float32),
              "used_q": lambda: used(rows, 0), "used_k": lambda: used(keys, 1),
              "prefix": lambda: integers(keys, batch), "of_query": lambda: integers(2, batch, rows),
              "of_key": lambda: integers(2, batch, keys)}
    learned = []

    def filled(value):
        if isinstance(value, dict):
            return {name: filled(x) for name, x in value.items()}
        if not isinstance(value, str) or not value.startswith("?"):
            return value
        x = makers[value[1:]]()
        if isinstance(x, torch.Tensor) and x.requires_grad:
            learned.append(x)
        return x

    return filled(options), learned


def replaced(options, old, new):
    """The options with the tensors of `old` replaced by those of `new`."""
    if isinstance(options, dict):
        return {name: replaced(x, old, new) for name, x in options.items()}
    return next((y for x, y in zip(old, new) if x is options), options)
