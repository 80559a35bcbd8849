# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as an operator of PyTorch, with gradients.

    from tilewright.torch import attention
    o = attention(q, k, v, causal=True)                                          # [batch, heads, rows, width]
    o, lse = attention(q, k, v, window=(255, 0), return_lse=True)
    o = attention(q, k, v, modifier="softcap", captures={"softcap": 30.0})        # kernels/mods, or a file of your own

The operators are tilewright::attention and tilewright::attention_backward; torch.compile traces them, and CUDA graphs
capture them once a first call has compiled and loaded their code (or `prepare` has). They run on the current stream,
with workspace from PyTorch's allocator.
"""

import contextlib
import threading
from typing import List, Tuple

import torch

from tilewright import checks, compiler, places, runtime
from tilewright.runtime import TilewrightError

__all__ = ["attention", "prepare", "load_bundle"]

TYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
REFUSALS = ("invalid argument", "unsupported", "missing variant")


class _Code:
    """Libraries, bundles and plans of this process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.library = None
        self.bundles = {}  # loaded ones by modifier
        self.plans = {}

    def get_library(self):
        if self.library is None:
            self.library = runtime.Library(places.find_library())
        return self.library


_code = _Code()


def load_bundle(path, modifier=None):
    """Takes code from a bundle of tilewrightc before it is compiled here; `modifier` is what was linked to it."""
    with _code.lock:
        bundle = _code.get_library().open(path)
        _code.bundles.setdefault(checks.modifier_text(modifier), []).append(bundle)


@contextlib.contextmanager
def _friendly():
    """Errors as users of PyTorch expect them."""
    try:
        yield
    except compiler.CompileError as error:
        raise ValueError(f"the kernel does not compile: {error}") from None
    except TilewrightError as error:
        raise (ValueError if error.code in REFUSALS else RuntimeError)(str(error)) from None


def _create(backward, bundle, dtype, dim, causal, value_dim, window, deterministic, captured):
    library = _code.get_library()
    if backward:
        return runtime.AttentionBackward(library, bundle, dtype, dim, causal, deterministic, value_dim, window, captured)
    return runtime.AttentionForward(library, bundle, dtype, dim, causal, value_dim, window)


def _plan(backward, dtype, dim, value_dim, causal, window, modifier, deterministic, captured, device):
    """A prepared plan: from a loaded bundle, else compiled. `captured`: of a backward, whether captures get gradients;
    `device` is a number."""
    how = (dtype, dim, causal, value_dim, window, deterministic, captured)
    key = (backward, how, modifier, device)
    plan = _code.plans.get(key)
    if plan is not None:
        return plan
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("the first call of attention for these types and widths must not be captured, since it loads "
                           "code; call it once before, or tilewright.torch.prepare")
    with _friendly(), _code.lock:
        if key in _code.plans:  # another thread has made it meanwhile
            return _code.plans[key]
        for bundle in _code.bundles.get(modifier, []):
            try:
                plan = _create(backward, bundle, *how)
                break
            except TilewrightError as error:
                if error.code != "missing variant":
                    raise
        if plan is None:
            params = {"D": dim, "DV": value_dim, "T": dtype, "CAUSAL": causal, "WINDOW": str(bool(window)).lower()}
            if backward:
                params["DETERMINISTIC"] = str(bool(deterministic)).lower()
                params["CAPTURE_GRADIENTS"] = str(bool(captured)).lower()
            kernel = f"{places.KERNELS}/attention_{'backward' if backward else 'forward'}.mlir"
            data = compiler.compile_bundle(kernel, params, checks.modifier_files(modifier))
            plan = _create(backward, _code.get_library().load(data), *how)
        plan.prepare(device)
        _code.plans[key] = plan
    return plan


def _launch(plan, values, device):
    """On the current stream."""
    with _friendly(), torch.cuda.device(device):
        packed = plan.pack(values)
        size = plan.workspace_size(packed, device.index)
        workspace = torch.empty(size, dtype=torch.uint8, device=device) if size else None
        stream = torch.cuda.current_stream(device).cuda_stream
        plan.run(packed, workspace.data_ptr() if size else None, size, stream)


def _plan_of(backward, q, v, causal, window, modifier, deterministic=False, captured=False):
    return _plan(backward, TYPES[q.dtype], q.shape[3], v.shape[3], causal, window != (-1, -1), modifier, deterministic,
                 captured, q.device.index)


def _dense_rows(x):
    """Kernels read rows whose elements are side by side; all other strides are free."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _captures(tensors, tensor_names, scalars, scalar_names):
    """By name; a scalar whose name ends in :i32 is an integer."""
    values = dict(zip(filter(None, tensor_names.split(",")), tensors))
    for name, value in zip(filter(None, scalar_names.split(",")), scalars):
        name, _, kind = name.partition(":")
        values[name] = int(value) if kind else float(value)
    return values


def _sum_type(x):
    """Of LSE and of the gradients of captures."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@torch.library.custom_op("tilewright::attention", mutates_args=())
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: List[torch.Tensor], tensor_names: str,
               scalars: List[float], scalar_names: str, causal: str, window_left: int, window_right: int, scale: float,
               modifier: str, deterministic: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    o = q.new_empty((*q.shape[:3], v.shape[3]))
    lse = q.new_empty(q.shape[:3], dtype=_sum_type(q))
    plan = _plan_of(False, q, v, causal, (window_left, window_right), modifier)
    values = {"q": _dense_rows(q), "k": _dense_rows(k), "v": _dense_rows(v), "o": o, "lse": lse, "scale": scale,
              "window_left": window_left, "window_right": window_right,
              **_captures(tensors, tensor_names, scalars, scalar_names)}
    _launch(plan, values, q.device)
    return o, lse


@_attention.register_fake
def _attention_fake(q, k, v, tensors, tensor_names, scalars, scalar_names, causal, window_left, window_right, scale,
                    modifier, deterministic):
    return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty(q.shape[:3], dtype=_sum_type(q))


@torch.library.custom_op("tilewright::attention_backward", mutates_args=())
def _attention_backward(do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                        o: torch.Tensor, lse: torch.Tensor, tensors: List[torch.Tensor], tensor_names: str,
                        wanted_names: str, scalars: List[float], scalar_names: str, causal: str, window_left: int,
                        window_right: int, scale: float, modifier: str, deterministic: bool,
                        ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, List[torch.Tensor]]:
    plan = _plan_of(True, q, v, causal, (window_left, window_right), modifier, deterministic, bool(wanted_names))
    captures = _captures(tensors, tensor_names, scalars, scalar_names)
    gradients = {}
    for name in filter(None, wanted_names.split(",")):
        if f"d_{name}" not in plan.captures():
            raise ValueError(f"the gradient of capture '{name}' must be one that the kernel computes, but this backward "
                             "has none; detach the tensor")
        capture = captures[name]
        gradients[name] = capture.new_empty(capture.shape, dtype=_sum_type(capture))
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    values = {"q": _dense_rows(q), "k": _dense_rows(k), "v": _dense_rows(v), "o": o, "do": _dense_rows(do), "lse": lse,
              "dlse": dlse, "dq": dq, "dk": dk, "dv": dv, "scale": scale, "window_left": window_left,
              "window_right": window_right, **captures, **{f"d_{name}": x for name, x in gradients.items()}}
    _launch(plan, values, q.device)
    return dq, dk, dv, [x.to(captures[name].dtype) for name, x in gradients.items()]


@_attention_backward.register_fake
def _attention_backward_fake(do, dlse, q, k, v, o, lse, tensors, tensor_names, wanted_names, scalars, scalar_names,
                             causal, window_left, window_right, scale, modifier, deterministic):
    by_name = dict(zip(filter(None, tensor_names.split(",")), tensors))
    wanted = [by_name[name] for name in filter(None, wanted_names.split(","))]
    return (*(x.new_empty(x.shape) for x in (q, k, v)), [x.new_empty(x.shape) for x in wanted])


def _setup_context(ctx, inputs, output):
    q, k, v, tensors, tensor_names, *ctx.rest = inputs
    o, lse = output
    ctx.save_for_backward(q, k, v, o, lse, *tensors)
    ctx.set_materialize_grads(False)
    ctx.tensor_names = tensor_names
    wanted = [name for name, x in zip(filter(None, tensor_names.split(",")), tensors) if x.requires_grad]
    ctx.wanted_names = ",".join(wanted)


def _autograd(ctx, do, dlse):
    q, k, v, o, lse, *tensors = ctx.saved_tensors
    gradients, by_name = (None, None, None), {}
    if do is not None or dlse is not None:
        do = torch.zeros_like(o) if do is None else do
        dlse = dlse.to(lse.dtype) if dlse is not None else None
        *gradients, captured = _attention_backward(do, dlse, q, k, v, o, lse, tensors, ctx.tensor_names,
                                                   ctx.wanted_names, *ctx.rest)
        by_name = dict(zip(filter(None, ctx.wanted_names.split(",")), captured))
    names = filter(None, ctx.tensor_names.split(","))
    return (*gradients, [by_name.get(name) for name in names], *([None] * 9))


_attention.register_autograd(_autograd, setup_context=_setup_context)


def _split_captures(captures, device):
    """Tensors, their names, numbers and their names, as _captures reads them. `device`: that of q."""
    tensors, names, scalars, scalar_names = [], [], [], []
    for name, value in (captures or {}).items():
        is_tensor = isinstance(value, torch.Tensor)
        checks.check_capture(name, value, str(value.device) if is_tensor else None, str(device))
        if is_tensor:
            tensors.append(value)
            names.append(name)
        else:
            scalars.append(value * 1.0)
            scalar_names.append(name if isinstance(value, float) else f"{name}:i32")
    scalars.append(0.0)  # autograd takes a list for one that has no tensors, unless it is empty
    return tensors, ",".join(names), scalars, ",".join(scalar_names)


def _array(name, x):
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be a tensor, but got {type(x).__name__}")
    return checks.Array(name, x.shape, TYPES.get(x.dtype, str(x.dtype)), str(x.device))


def attention(q, k, v, *, causal=False, window=None, scale=None, modifier=None, captures=None, return_lse=False,
              deterministic=None):
    """softmax(scale Q K^T) V for q [B, Hq, Sq, D], k [B, Hkv, Skv, D] and v [B, Hkv, Skv, DV], Hq a multiple of Hkv, of any
    strides (rows that are not dense are copied). Gives O [B, Hq, Sq, DV] and, with return_lse, LSE [B, Hq, Sq] in f32 (f64
    for f64), both with gradients.

    causal         True or "top_left" keeps j <= i, "bottom_right" j <= i + Skv - Sq
    window         (left, right): keeps keys so far on either side of the diagonal, -1 is open
    scale          a number; by default 1 / sqrt(D)
    modifier       a name of kernels/mods (softcap, alibi, ...), the path of an .mlir file, or a list of them
    captures       {name: tensor or number} of the modifier: an int where it wants i32, a float where it wants f32.
                   A tensor that requires a gradient gets one where the backward kernel computes it
    deterministic  the backward's gradients are the same bits in every run; by default what
                   torch.use_deterministic_algorithms says

    A row without keys gives O = 0 and LSE = -inf. ValueError where arguments are refused."""
    checks.check_arrays(_array("q", q), _array("k", k), _array("v", v))
    mode, (left, right) = checks.causal_mode(causal), checks.window_of(window)
    scale = checks.scale_of(scale, q.shape[3])
    if captures and modifier is None:
        raise ValueError(f"captures must belong to a modifier, but got {', '.join(captures)} without one")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    o, lse = _attention(q, k, v, *_split_captures(captures, q.device), mode, left, right, scale, checks.modifier_text(modifier),
                        bool(deterministic))
    return (o, lse) if return_lse else o


def prepare(device, dtype, width, *, value_width=None, causal=False, window=False, modifier=None, backward=True,
            deterministic=False, capture_gradients=False):
    """Compiles and loads what attention will need, so that its first call may be captured into a graph. `window` says
    whether there will be one, `capture_gradients` whether captures require gradients."""
    device, mode, text = torch.device(device), checks.causal_mode(causal), checks.modifier_text(modifier)
    if device.type != "cuda":
        raise ValueError(f"device must be a CUDA device, but got {device}")
    if dtype not in TYPES:
        raise ValueError(f"dtype must be float16, bfloat16, float32 or float64, but got {dtype}")
    index = torch.cuda.current_device() if device.index is None else device.index
    for is_backward in (False, True)[:1 + backward]:
        _plan(is_backward, TYPES[dtype], width, value_width or width, mode, bool(window), text,
              is_backward and deterministic, is_backward and capture_gradients, index)
