# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators tilewright::attention and tilewright::attention_backward: they select a kernel, and launch its plan
(tilewright.plans). Kernel arguments that do not have a parameter of their own are passed in `tensors`, `floats` and
`integers`; `names` lists their names in this order, separated by commas. Floats and integers end with an unnamed
element, since autograd mistakes an empty list for a list of tensors. If q, k and v have three dimensions, they hold
packed sequences."""

import torch

from tilewright.choice import Choice, takes_score_gradient
from tilewright.plans import TYPES, launch, plan, start
from tilewright.registration import operator

LIST_SIZES = ("LIST_BLOCK_M", "LIST_BLOCK_N")


def dense_rows(x):
    """Returns x, or a copy if the elements of a row are not contiguous. Kernels require contiguous rows; other strides
    are arbitrary."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _empty_like(x, width):
    """Returns an uninitialized tensor with the shape of x, except for the width. If x is stored as
    [batch, rows, heads, width], so is the result, so that transpose(1, 2) of it is dense."""
    if x.dim() == 4 and 0 < x.stride(1) < x.stride(2):
        return x.new_empty((x.shape[0], x.shape[2], x.shape[1], width)).transpose(1, 2)
    return x.new_empty((*x.shape[:-1], width))


def sum_type(x):
    """The type of LSE and of the gradients of captures."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def new_lse(q):
    """Uninitialized LSE."""
    return q.new_empty(q.shape[:3] if q.dim() == 4 else (q.shape[1], q.shape[0]), dtype=sum_type(q))


def new_results(q, v):
    """Uninitialized O and LSE."""
    return _empty_like(q, v.shape[-1]), new_lse(q)


def _names(text):
    return [name for name in text.split(",") if name]


def named_values(tensors, floats, integers, names):
    return dict(zip(_names(names), [*tensors, *map(float, floats[:-1]), *map(int, integers[:-1])]))


def _choice(kernel, q, v, causal, window, modifier, **more):
    return Choice(kernel, TYPES[q.dtype], q.shape[-1], v.shape[-1], causal, window != (-1, -1), modifier,
                  packed=q.dim() == 3, **more)


def lists_from(more):
    """Removes the block sizes of lists from the named values: they are parameters, not arguments."""
    return tuple(more.pop(name) for name in LIST_SIZES if name in more)


def as_batch(values):
    """Returns views of packed sequences in the layout of the kernels, with a batch of 1: [rows, heads, width] as
    [1, heads, rows, width], and LSE [heads, rows] as [1, heads, rows]."""
    rows, lse = ("q", "k", "v", "o", "do", "dq", "dk", "dv"), ("lse", "dlse")
    return {name: x if x is None else x.transpose(0, 1)[None] if name in rows else x[None] if name in lse else x
            for name, x in values.items()}


@operator("attention(Tensor q, Tensor k, Tensor v, Tensor[] tensors, float[] floats, SymInt[] integers, str names, "
          "str causal, SymInt window_left, SymInt window_right, float scale, str modifier, bool deterministic) "
          "-> (Tensor, Tensor)")
def attention(q, k, v, tensors, floats, integers, names, causal, window_left, window_right, scale, modifier, deterministic):
    o, lse = new_results(q, v)
    more = named_values(tensors, floats, integers, names)
    choice = _choice("forward", q, v, causal, (window_left, window_right), modifier, lists=lists_from(more))
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": o, "lse": lse, "scale": scale,
              "window_left": window_left, "window_right": window_right, **more}
    launch(plan(choice, q.device), as_batch(values) if choice.packed else values, ("o", "lse"), q.device)
    return o, lse


@torch.library.register_fake("tilewright::attention")
def _attention_fake(q, k, v, tensors, floats, integers, names, causal, window_left, window_right, scale, modifier,
                    deterministic):
    return new_results(q, v)


def _backward_choice(q, k, v, wanted, more, causal, window, modifier, deterministic):
    """The choice for a backward, and the names of the captures whose gradients it computes. Removes the block sizes of
    lists from `more`, the named values; `wanted` lists the tensors of them that get gradients."""
    lists = lists_from(more)
    of_scores = "bias" in wanted and q.dim() == 4 and not lists and takes_score_gradient(
        modifier, deterministic, more["bias"].shape, (*q.shape[:3], k.shape[2]))
    captured = [name for name in wanted if not (of_scores and name == "bias")]
    return _choice("backward", q, v, causal, window, modifier, deterministic=deterministic, captured=bool(captured),
                   score_gradient=of_scores, lists=lists), captured


@operator("attention_backward(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, str wanted, "
          "Tensor[] tensors, float[] floats, SymInt[] integers, str names, str causal, SymInt window_left, "
          "SymInt window_right, float scale, str modifier, bool deterministic) -> (Tensor, Tensor, Tensor, Tensor[])")
def attention_backward(do, dlse, q, k, v, o, lse, wanted, tensors, floats, integers, names, causal, window_left,
                       window_right, scale, modifier, deterministic):
    more, wanted = named_values(tensors, floats, integers, names), _names(wanted)
    choice, captured = _backward_choice(q, k, v, wanted, more, causal, (window_left, window_right), modifier, deterministic)
    found = plan(choice, q.device)
    gradients = {}
    for name in wanted:
        if name in captured and not found.takes(f"d_{name}"):
            raise ValueError(f"the gradient of capture '{name}' must be one that the kernel computes, but this backward "
                             "has none; detach the tensor")
        argument = f"d_{name}" if name in captured else "d_score"
        gradients[argument] = more[name].new_empty(more[name].shape, dtype=sum_type(more[name]))
    dq, dk, dv = (_empty_like(x, x.shape[-1]) for x in (q, k, v))
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": o, "do": dense_rows(do), "lse": lse,
              "dlse": dlse, "dq": dq, "dk": dk, "dv": dv, "scale": scale, "window_left": window_left,
              "window_right": window_right, **more, **gradients}
    launch(found, as_batch(values) if choice.packed else values, ("dq", "dk", "dv", *gradients), q.device)
    return dq, dk, dv, [x.to(more[name].dtype) for name, x in zip(wanted, gradients.values())]


@torch.library.register_fake("tilewright::attention_backward")
def _attention_backward_fake(do, dlse, q, k, v, o, lse, wanted, tensors, floats, integers, names, causal, window_left,
                             window_right, scale, modifier, deterministic):
    by_name = dict(zip(_names(names), tensors))
    return (*(_empty_like(x, x.shape[-1]) for x in (q, k, v)),
            [by_name[name].new_empty(by_name[name].shape) for name in _names(wanted)])


def _setup_context(ctx, inputs, output):
    q, k, v, tensors, *ctx.rest = inputs
    o, lse = output
    ctx.save_for_backward(q, k, v, o, lse, *tensors)
    ctx.set_materialize_grads(False)
    ctx.tensor_names = _names(ctx.rest[2])[:len(tensors)]
    ctx.wanted = ",".join(name for name, x in zip(ctx.tensor_names, tensors) if x.requires_grad)
    if type(q) in (torch.Tensor, torch.nn.Parameter):  # not while a graph is traced
        floats, integers, names, causal, left, right, _, modifier, deterministic = ctx.rest
        more = named_values(tensors, floats, integers, names)
        start(_backward_choice(q, k, v, _names(ctx.wanted), more, causal, (left, right), modifier, deterministic)[0], q.device)


def _autograd(ctx, do, dlse):
    q, k, v, o, lse, *tensors = ctx.saved_tensors
    gradients, by_name = (None, None, None), {}
    if do is not None or dlse is not None:
        do = torch.zeros_like(o) if do is None else do
        dlse = dlse.to(lse.dtype) if dlse is not None else None
        *gradients, captured = attention_backward(do, dlse, q, k, v, o, lse, ctx.wanted, tensors, *ctx.rest)
        by_name = dict(zip(_names(ctx.wanted), captured))
    return (*gradients, [by_name.get(name) for name in ctx.tensor_names], *([None] * 9))


torch.library.register_autograd("tilewright::attention", _autograd, setup_context=_setup_context)


def _no_second(ctx, *gradients):
    raise NotImplementedError("attention must not be differentiated twice: its backward has no gradient of its own; "
                              "call backward() without create_graph, or use PyTorch's math backend there")


torch.library.register_autograd("tilewright::attention_backward", _no_second)
