# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention and other kernels on arrays of JAX.

    from tilewright.jax import attention, dot_product_attention, kernel
    o = attention(q, k, v, causal=True, softcap=30.0)               # [batch, heads, rows, width]
    o = attention(q, k, v, window=(255, 0), layout="BSHD")          # [batch, rows, heads, width]
    o = dot_product_attention(query, key, value, is_causal=True)    # as jax.nn.dot_product_attention
    y = kernel("rms_norm.mlir", C=1024, T="f16")(x)

They run inside jax.jit, jax.grad, jax.vmap, jax.checkpoint and jax.shard_map, on NVIDIA GPUs (tilewright.jax_calls).
Without shard_map, XLA does not know how to divide them over devices, and gathers their arrays."""

import functools
import os
from typing import Any, NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy

from tilewright import checks, compiler, jax_calls, links, places
from tilewright.choice import Choice, KernelChoice, takes_score_gradient
from tilewright.jax_calls import Buffer, Call
from tilewright.runtime import TilewrightError, type_of
from tilewright.signature import shapes_of, signature_of

__all__ = ["attention", "dot_product_attention", "kernel"]

LAYOUTS = {"BHSD": (), "BSHD": (0, 2, 1, 3)}


class _Static(NamedTuple):
    """What a call of attention is, without its arrays. Hashable, as nondiff_argnums requires."""
    choice: Choice
    order: Tuple[int, ...]  # of the dimensions of q, k, v, o and their gradients
    scalars: Tuple[Tuple[str, Any], ...]
    captures: Tuple[str, ...]  # names of the arrays that follow q, k and v
    returns_lse: bool
    deterministic: bool

    def buffers(self, *names):
        rows = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
        return tuple(Buffer(name, self.order if name in rows else (), name in ("dropout_seed", "dropout_offset")) for name in names)


class _Wanted:
    """Names of the arrays that get gradients: a part of the residuals that JAX does not trace."""

    def __init__(self, names):
        self.names = names


jax.tree_util.register_pytree_node(_Wanted, lambda wanted: ((), wanted.names), lambda names, _: _Wanted(names))


def _sum_type(x):
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def _extents(static, x):
    """[batch, heads, rows, width] of an array."""
    return Buffer("", static.order).shape_of(x.shape)


def _compute(static, q, k, v, captures):
    batch, heads, rows, _ = _extents(static, q)
    o = jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = jax.ShapeDtypeStruct((batch, heads, rows), _sum_type(q))
    call = Call(static.choice, static.buffers("q", "k", "v", *static.captures), static.buffers("o", "lse"), static.scalars)
    return jax_calls.execute(call, (q, k, v, *captures), (o, lse))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(static, q, k, v, captures):
    o, lse = _compute(static, q, k, v, captures)
    return (o, lse) if static.returns_lse else o


def _attention_forward(static, q, k, v, captures):
    named = dict(zip(("q", "k", "v", *static.captures), (q, k, v, *captures)))
    wanted = _Wanted(tuple(name for name, x in named.items() if x.perturbed))
    q, k, v, *captures = (x.value for x in named.values())
    o, lse = _compute(static, q, k, v, tuple(captures))
    return ((o, lse) if static.returns_lse else o), (wanted, q, k, v, tuple(captures), o, lse)


def _is_zero(cotangent):
    return isinstance(cotangent, jax.custom_derivatives.SymbolicZero)


def _attention_backward(static, residuals, cotangents):
    wanted, q, k, v, captures, o, lse = residuals
    do, dlse = cotangents if static.returns_lse else (cotangents, None)
    if _is_zero(do) and (dlse is None or _is_zero(dlse)):
        return None, None, None, (None,) * len(captures)
    by_name = dict(zip(static.captures, captures))
    learned = [name for name in static.captures if name in wanted.names and jnp.issubdtype(by_name[name].dtype, jnp.floating)]
    do = jnp.zeros_like(o) if _is_zero(do) else do.astype(o.dtype)
    operands = {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse}
    if dlse is not None and not _is_zero(dlse):
        operands["dlse"] = dlse.astype(lse.dtype)
    operands |= by_name
    full = (*_extents(static, q)[:3], _extents(static, k)[2])
    of_scores = "bias" in learned and takes_score_gradient(static.choice.modifier, static.deterministic, by_name["bias"].shape,
                                                           full)
    arguments = {name: "d_score" if of_scores and name == "bias" else f"d_{name}" for name in learned}
    choice = static.choice._replace(kernel="backward", deterministic=static.deterministic, score_gradient=of_scores,
                                    captured=any(name.startswith("d_") and name != "d_score" for name in arguments.values()))
    results = {"dq": q, "dk": k, "dv": v, **{arguments[name]: by_name[name] for name in learned}}
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype if name in ("dq", "dk", "dv") else _sum_type(x))
                   for name, x in results.items())
    call = Call(choice, static.buffers(*operands), static.buffers(*results), static.scalars)
    dq, dk, dv, *gradients = jax_calls.execute(call, tuple(operands.values()), shapes)
    of_captures = dict(zip(learned, gradients))
    return dq, dk, dv, tuple(of_captures[name].astype(by_name[name].dtype) if name in of_captures else None
                             for name in static.captures)


_attention.defvjp(_attention_forward, _attention_backward, symbolic_zeros=True)


class _Shape:
    """The sizes of a call, for links.Links."""

    def __init__(self, batch, heads, queries, keys):
        self.batch, self.heads, self.queries, self.keys = batch, heads, queries, keys
        self.used = None

    def same_for_all(self, number):
        return jnp.full((self.batch,), number, jnp.int32)

    def has_shift(self):
        return self.used is not None or self.queries != self.keys

    def shift(self):
        return self.used[1] - self.used[0] if self.used else self.same_for_all(self.keys - self.queries)

    def no_shift(self):
        return self.same_for_all(0)


class _Features(links.Links):
    """The files that a call links, in order, and the values of their captures: arrays, integers and floats."""

    def for_all(self, per_head):
        return jnp.broadcast_to(per_head, (self.shape.batch, self.shape.heads))

    def capture_of(self, name, value):
        return value if getattr(value, "ndim", 0) else checks.capture_of(name, value, None, None)

    def pairs_of(self, name, x):
        return x[(None,) * links.missing_dims(name, x.shape, (self.shape.batch, self.shape.heads, self.shape.queries,
                                                              self.shape.keys))]

    def per_head(self, name, x):
        links.check_heads(name, jnp.shape(x), self.shape)
        return jnp.asarray(x, jnp.float32)


def _lengths(name, x, batch):
    if jnp.shape(x) != (batch,) or not jnp.issubdtype(jnp.result_type(x), jnp.integer):
        raise ValueError(f"{name} must be [{batch}] integers, but got {list(jnp.shape(x))} of {jnp.result_type(x)}")
    return jnp.asarray(x, jnp.int32)


def _features(shape, dtype, mode, left, right, align, softcap, bias, mask, alibi_slopes, sinks, query_lengths, key_lengths,
              dropout_p, dropout_key, modifier, captures):
    asked = _Features(_Shape(*shape))
    from_corner = align == "bottom_right"
    asked.add_softcap(softcap)
    if bias is not None:
        links.check_bias_type("bias", jnp.result_type(bias), dtype, "astype")
        asked.link_bias(asked.pairs_of("bias", bias))
    if mask is not None:
        if mask.dtype != jnp.bool_:
            raise ValueError(f"mask must be of bool, but got {mask.dtype}; add floats to the scores by bias")
        asked.link_mask(asked.pairs_of("mask", mask))
    if query_lengths is not None or key_lengths is not None:
        asked.link_used_lengths(*(asked.shape.same_for_all(rows) if x is None else _lengths(name, x, shape[0]) for name, x, rows in (
            ("query_seq_lengths", query_lengths, asked.shape.queries), ("key_value_seq_lengths", key_lengths, asked.shape.keys))))
    if alibi_slopes is not None:
        asked.link_alibi(asked.per_head("alibi_slopes", alibi_slopes), from_corner)
    if from_corner:
        mode, left, right = asked.align_to_corner(mode, left, right)
    p = checks.dropout_of(dropout_p)
    if p > 0:
        if dropout_key is None:
            raise ValueError("dropout_key must be a key of jax.random where dropout_p is positive, but got none")
        bits = jax.random.bits(dropout_key, (2, 2), jnp.uint32) >> jnp.uint32(2)
        asked.link_dropout(p, bits[0], bits[1])
    if sinks is not None:
        asked.link_sinks(asked.per_head("sinks", sinks))
    asked.add_files(modifier, captures)
    return asked, mode, left, right


def attention(q, k, v, *, causal=False, window=None, align=None, scale=None, softcap=None, bias=None, mask=None,
              alibi_slopes=None, sinks=None, query_seq_lengths=None, key_value_seq_lengths=None, dropout_p=0.0,
              dropout_key=None, modifier=None, captures=None, return_lse=False, deterministic=False, layout="BHSD"):
    """Computes softmax(scale Q K^T) V for q [B, Hq, Sq, D], k [B, Hkv, Skv, D] and v [B, Hkv, Skv, DV], where Hq is a
    multiple of Hkv, and D and DV are from 1 to 512, all f16, bf16, f32 or f64. Returns O [B, Hq, Sq, DV], or with
    return_lse (O, LSE), where LSE [B, Hq, Sq] is f32 (f64 if q is f64). Both have gradients, as have bias, alibi_slopes,
    sinks and arrays of floats among captures. All arguments can be combined.

    causal         True or "top_left" keeps j <= i, "bottom_right" j <= i + Skv - Sq
    window         (left, right): the number of keys kept on each side of the diagonal; -1 is unlimited
    align          corner of the diagonal of window and alibi_slopes, "top_left" or "bottom_right"; default: as causal
    scale          a number; by default 1 / sqrt(D)
    softcap        a number c: scores become c tanh(score / c); None or 0: off
    bias           [B, Hq, Sq, Skv] of the type of q, each extent may be 1: added to the scores
    mask           the same of bool: False removes a pair
    alibi_slopes   [Hq]: slope * |i - j| is subtracted from the scores
    sinks          [Hq]: a score of each row that takes part in the softmax without a value
    query_seq_lengths, key_value_seq_lengths
                   [B]: rows and keys in use; the others count as padding
    dropout_p, dropout_key
                   the probability with which an element of P is dropped, and a key of jax.random
    modifier, captures
                   names of kernels/mods or paths of .mlir files, and {name: array or number} for what they read
    deterministic  gradients of two runs have the same bits
    layout         "BHSD", or "BSHD" for arrays [batch, rows, heads, width]

    A row without keys gives O = 0 and LSE = -inf, or the sink. Raises ValueError for invalid arguments."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, but got {layout!r}")
    order = LAYOUTS[layout]
    shapes = {}
    for name, x in ("q", q), ("k", k), ("v", v):
        shape = tuple(x.shape)
        shapes[name] = tuple(shape[i] for i in order) if order and len(shape) == 4 else shape
    checks.check_arrays(*(checks.Array(name, shapes[name], type_of(x.dtype) or str(x.dtype), "cuda")
                          for name, x in (("q", q), ("k", k), ("v", v))))
    mode, (left, right) = checks.causal_mode(causal), checks.window_of(window)
    align = checks.align_of(align, mode)
    asked, mode, left, right = _features((*shapes["q"][:3], shapes["k"][2]), q.dtype, mode, left, right, align, softcap, bias,
                                         mask, alibi_slopes, sinks, query_seq_lengths, key_value_seq_lengths, dropout_p,
                                         dropout_key, modifier, captures)
    arrays = {name: x for name, x in asked.captures.items() if getattr(x, "ndim", 0)}
    numbers = {name: x for name, x in asked.captures.items() if name not in arrays}
    choice = Choice("forward", type_of(q.dtype), shapes["q"][3], shapes["v"][3], mode, (left, right) != (-1, -1),
                    checks.SEPARATOR.join(asked.files))
    scalars = {"scale": checks.scale_of(scale, shapes["q"][3]), "window_left": left, "window_right": right, **numbers}
    static = _Static(choice, order, tuple(scalars.items()), tuple(arrays), bool(return_lse), bool(deterministic))
    return _attention(static, q, k, v, tuple(arrays.values()))


def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False, query_seq_lengths=None,
                          key_value_seq_lengths=None, local_window_size=None, implementation=None, return_residual=False):
    """jax.nn.dot_product_attention, whose arguments it has: query [B, T, N, H], key and value [B, S, K, H], or without B;
    returns [B, T, N, H], and with return_residual also LSE [B, T, N]. Rows without keys give 0. `implementation` is None or
    "tilewright". Raises ValueError for invalid arguments."""
    if implementation not in (None, "tilewright"):
        raise ValueError(f"implementation must be None or 'tilewright', but got {implementation!r}; jax.nn has the others")
    is_single = jnp.ndim(query) == 3
    if is_single:
        query, key, value = query[None], key[None], value[None]
    window = None
    if local_window_size is not None:
        size = checks.integer_of(local_window_size)
        window = (size, size) if size is not None else tuple(local_window_size)
    o, lse = attention(query, key, value, causal=is_causal, window=window, scale=scale,
                       bias=None if bias is None else bias.astype(query.dtype), mask=mask,
                       query_seq_lengths=query_seq_lengths, key_value_seq_lengths=key_value_seq_lengths, return_lse=True,
                       layout="BSHD")
    lse = jnp.swapaxes(lse, 1, 2)
    o, lse = (o[0], lse[0]) if is_single else (o, lse)
    return (o, lse) if return_residual else o


class _Kernel:
    """A kernel or program of a file on arrays of JAX: the result of `kernel`."""

    def __init__(self, choice, outputs):
        data = compiler.compile_bundle(choice.file, choice.params(), choice.linked, ("sm_80",), entry=choice.program)
        self.signature = signature_of(data, choice.program)
        self._choice = choice._replace(name=self.signature.name)
        self._outputs = {name: tuple(shape) for name, shape in (outputs or {}).items()}
        written = self.signature.written()
        self._results = [each for each in written if not each.may_be_absent or each.name in self._outputs]
        for name in self._outputs:
            self.signature.check_output(name)

    def __call__(self, *positional, **named):
        inputs = [argument for argument in self.signature.arguments if not argument.is_written]
        values = self.signature.bind(positional, named, [argument.name for argument in inputs])
        arrays, scalars = {}, {}
        for argument in inputs:
            value = values.get(argument.name)
            if value is None:
                if not argument.may_be_absent:
                    self.signature.reject_missing(argument)
            elif argument.extents is None:
                scalars[argument.name] = checks.capture_of(argument.name, value, None, None)
            else:
                x = jnp.asarray(value)
                if type_of(x.dtype) != argument.type or x.ndim != len(argument.extents) or any(
                        n not in (-1, own) for n, own in zip(argument.extents, x.shape)):
                    raise ValueError(f"{argument.name} must be {argument.type} of shape {argument.shown()}, as the parameters of "
                                     f"'{self.signature.name}' say, but got {x.dtype} {list(x.shape)}")
                arrays[argument.name] = x
        shapes = self._shapes(arrays, scalars)
        results = tuple(jax.ShapeDtypeStruct(shapes[each.name], _dtype_of(each.type)) for each in self._results)
        call = Call(self._choice, tuple(map(Buffer, arrays)), tuple(Buffer(each.name) for each in self._results),
                    tuple(scalars.items()))
        found = jax_calls.execute(call, tuple(arrays.values()), results)
        return found[0] if len(found) == 1 else found

    def _shapes(self, arrays, scalars):
        known = {**{name: x.shape for name, x in arrays.items()}, **scalars, **self._outputs}
        wanted = [each.name for each in self._results if each.name not in self._outputs]
        shapes = {**shapes_of(self.signature, known, wanted), **self._outputs}
        for name in wanted:
            if None in shapes[name]:
                raise ValueError(f"the shape of '{name}' must follow from conditions of '{self.signature.name}', such as "
                                 f"require(same_dims(...)), but is {shapes[name]}; give it in outputs")
        return shapes


def _dtype_of(kind):
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
             "e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i1": "bool"}
    return jnp.dtype(names[kind])


def _type_name(value):
    """The name of a type among the parameters of a kernel, or None if the value is none."""
    try:
        return None if isinstance(value, (str, bool, int)) else type_of(numpy.dtype(value))
    except TypeError:
        return None


def kernel(file, program=None, with_=None, *, outputs=None, **params):
    """Compiles a kernel or program, and returns a function of arrays and numbers, in the order of the file or by name, that
    returns the arrays that it writes: one, or a tuple.

    file      the path of an .mlir file, or the name of one of kernels/, such as "row_softmax"
    program   the name of the kernel or program in the file, where there are several
    with_     a path or a list of them, whose functions replace those of `file`, or names of kernels/mods
    outputs   {name: shape} of results whose shapes the kernel's conditions do not say
    params    values of the parameters: integers, bools, strings, or dtypes for types

    Raises ValueError for invalid arguments, and with the compiler's diagnostic if the kernel does not compile. Gradients:
    combine two kernels by jax.custom_vjp."""
    path = places.kernel_file(file)
    linked = tuple(map(os.path.abspath, checks.modifier_files(checks.modifier_text(with_))))
    texts = {name: checks.kernel_param(name, value, _type_name(value), "a dtype") for name, value in params.items()}
    choice = KernelChoice(path, linked, program, program or "", tuple(sorted(texts.items())))
    try:
        return _Kernel(choice, outputs)
    except (compiler.CompileError, TilewrightError) as error:
        raise jax_calls.friendly(error) from None
