# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators tilewright::attention and tilewright::attention_backward: they select a kernel, compile or load its
code, and launch it. Kernel arguments that do not have a parameter of their own are passed in `tensors`, `floats` and
`integers`; `names` lists their names in this order, separated by commas. Floats and integers end with an unnamed
element, since autograd mistakes an empty list for a list of tensors. If q, k and v have three dimensions, they hold
packed sequences."""

import contextlib
import threading
from typing import List, NamedTuple, Tuple

import torch

from tilewright import checks, compiler, interpreter, places, runtime
from tilewright.runtime import TilewrightError

TYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
LIST_SIZES = ("LIST_BLOCK_M", "LIST_BLOCK_N")
INPUT_ERRORS = ("invalid argument", "unsupported", "missing variant")


class Choice(NamedTuple):
    """A kernel or program and its compile options: attention_KERNEL in kernels/attention_KERNEL.mlir, where KERNEL is
    `kernel`."""
    kernel: str
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

    def entry(self):
        return f"attention_{self.kernel}"

    def params(self):
        params = {"D": str(self.dim), "DV": str(self.value_dim), "T": self.dtype, "CAUSAL": self.causal}
        params |= {"WINDOW": str(self.window).lower(), "PACKED": str(self.packed).lower(),
                   "LISTED": str(bool(self.lists)).lower()}
        params |= {name: str(size) for name, size in zip(LIST_SIZES, self.lists)}
        if self.kernel == "backward":
            params |= {"DETERMINISTIC": str(self.deterministic).lower(), "CAPTURE_GRADIENTS": str(self.captured).lower(),
                       "SCORE_GRADIENT": str(self.score_gradient).lower()}
        return params

    def files(self):
        """Returns the path of the kernel's file, and a list of the files to link."""
        return f"{places.KERNELS}/{self.entry()}.mlir", checks.modifier_files(self.modifier)

    def create(self, library, bundle):
        if self.kernel == "forward" and not self.packed and not self.lists:
            return runtime.AttentionForward(library, bundle, self.dtype, self.dim, self.causal, self.value_dim, self.window)
        if self.kernel == "backward" and not (self.packed or self.score_gradient or self.lists):
            return runtime.AttentionBackward(library, bundle, self.dtype, self.dim, self.causal, self.deterministic,
                                             self.value_dim, self.window, self.captured)
        return runtime.Operation(library, bundle, self.entry(), self.params())


class _Code:
    """The libraries, bundles and plans of this process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.library = None
        self.bundles = {}  # loaded bundles, by modifier
        self.plans = {}

    def get_library(self):
        if self.library is None:
            self.library = runtime.Library(places.find_library())
        return self.library


_code = _Code()


def load_bundle(path, modifier=None):
    """Makes attention use the code of a bundle file that tilewrightc wrote, where it contains the required variant,
    instead of compiling kernels in this process. `modifier` is the modifier that was linked to the kernels of the
    bundle. Raises runtime.TilewrightError if the file is not a valid bundle."""
    with _code.lock:
        bundle = _code.get_library().open(path)
        _code.bundles.setdefault(checks.modifier_text(modifier), []).append(bundle)


@contextlib.contextmanager
def _friendly():
    """Converts errors to the exceptions that PyTorch users expect."""
    try:
        yield
    except compiler.CompileError as error:
        raise ValueError(f"the kernel does not compile: {error}") from None
    except TilewrightError as error:
        raise (ValueError if error.code in INPUT_ERRORS else RuntimeError)(str(error)) from None


def compile_choice(choice, targets=()):
    """Compiles the choice in this process, and returns a plan that is not yet prepared for a device."""
    kernel, files = choice.files()
    data = compiler.compile_bundle(kernel, choice.params(), files, targets)
    library = _code.get_library()
    return choice.create(library, library.load(data))


def plan(choice, device):
    """Returns a plan that is prepared for a device, from a loaded bundle if one contains the choice; else compiles it."""
    interpreted = interpreter.device() if device.type == "cpu" else None
    key = (choice, interpreted, device.index)
    found = _code.plans.get(key)
    if found is not None:
        return found
    if device.type == "cpu":
        if interpreted is None:
            raise ValueError("tensors must be on a CUDA device where tilewright.interpret does not say otherwise, also in "
                             "the backward, but got cpu")
        kernel, files = choice.files()
        return _code.plans.setdefault(key, interpreter.Plan(kernel, choice.params(), files, interpreted))
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("the first call of attention for these types and widths must not be captured, since it loads "
                           "code; call it once before, or tilewright.torch.prepare")
    with _friendly(), _code.lock:
        if key in _code.plans:  # another thread has made it in the meantime
            return _code.plans[key]
        for bundle in _code.bundles.get(choice.modifier, []):
            try:
                found = choice.create(_code.get_library(), bundle)
                break
            except TilewrightError as error:
                if error.code != "missing variant":
                    raise
        if found is None:
            found = compile_choice(choice)
        found.prepare(device.index)
        _code.plans[key] = found
    return found


def launch(plan, values, outputs, device):
    """Launches the plan on the current stream of the device; `outputs` names the arrays that it writes."""
    if device.type == "cpu":
        with _friendly():
            return plan.run(values, outputs)
    with _friendly(), torch.cuda.device(device):
        packed = plan.pack(values)
        size = plan.workspace_size(packed, device.index)
        workspace = torch.empty(size, dtype=torch.uint8, device=device) if size else None
        stream = torch.cuda.current_stream(device).cuda_stream
        plan.run(packed, workspace.data_ptr() if size else None, size, stream)


def _dense_rows(x):
    """Returns x, or a copy if the elements of a row are not contiguous. Kernels require contiguous rows; other strides
    are arbitrary."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _empty_like(x, width):
    """Returns an uninitialized tensor with the shape of x, except for the width. If x is stored as
    [batch, rows, heads, width], so is the result, so that transpose(1, 2) of it is dense."""
    if x.dim() == 4 and 0 < x.stride(1) < x.stride(2):
        return x.new_empty((x.shape[0], x.shape[2], x.shape[1], width)).transpose(1, 2)
    return x.new_empty((*x.shape[:-1], width))


def _sum_type(x):
    """The type of LSE and of the gradients of captures."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _results(q, v):
    """Uninitialized O and LSE."""
    rows = q.shape[:3] if q.dim() == 4 else (q.shape[1], q.shape[0])
    return _empty_like(q, v.shape[-1]), q.new_empty(rows, dtype=_sum_type(q))


def _names(text):
    return [name for name in text.split(",") if name]


def _by_name(tensors, floats, integers, names):
    return dict(zip(_names(names), [*tensors, *map(float, floats[:-1]), *map(int, integers[:-1])]))


def _choice(kernel, q, v, causal, window, modifier, **more):
    return Choice(kernel, TYPES[q.dtype], q.shape[-1], v.shape[-1], causal, window != (-1, -1), modifier,
                  packed=q.dim() == 3, **more)


def _lists(more):
    """Removes the block sizes of lists from the named values: they are parameters, not arguments."""
    return tuple(more.pop(name) for name in LIST_SIZES if name in more)


def _as_batch(values):
    """Returns views of packed sequences in the layout of the kernels, with a batch of 1: [rows, heads, width] as
    [1, heads, rows, width], and LSE [heads, rows] as [1, heads, rows]."""
    rows, lse = ("q", "k", "v", "o", "do", "dq", "dk", "dv"), ("lse", "dlse")
    return {name: x if x is None else x.transpose(0, 1)[None] if name in rows else x[None] if name in lse else x
            for name, x in values.items()}


@torch.library.custom_op("tilewright::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tensors: List[torch.Tensor], floats: List[float],
              integers: List[int], names: str, causal: str, window_left: int, window_right: int, scale: float,
              modifier: str, deterministic: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    o, lse = _results(q, v)
    more = _by_name(tensors, floats, integers, names)
    choice = _choice("forward", q, v, causal, (window_left, window_right), modifier, lists=_lists(more))
    values = {"q": _dense_rows(q), "k": _dense_rows(k), "v": _dense_rows(v), "o": o, "lse": lse, "scale": scale,
              "window_left": window_left, "window_right": window_right, **more}
    launch(plan(choice, q.device), _as_batch(values) if choice.packed else values, ("o", "lse"), q.device)
    return o, lse


@attention.register_fake
def _attention_fake(q, k, v, tensors, floats, integers, names, causal, window_left, window_right, scale, modifier,
                    deterministic):
    return _results(q, v)


def takes_score_gradient(modifier, deterministic, shape=None, full=None):
    """Whether the kernel computes the gradient of a bias as the gradient of the scores, which is then summed without
    atomic additions. This requires that no modifier changes the scores before the bias is added. It is done if several
    pairs share an element of the bias (`shape` is the shape of the bias, `full` that of all pairs), or if `deterministic`
    is set. Otherwise, each pair adds to or stores its own gradient. Without `shape`, no element is taken to be shared."""
    if modifier.split(checks.SEPARATOR)[0] != "bias":
        return False
    if shape is None:
        return deterministic
    return shape[3] == full[3] and (deterministic or any(n == 1 < all_n for n, all_n in zip(shape, full)))


@torch.library.custom_op("tilewright::attention_backward", mutates_args=())
def attention_backward(do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                       o: torch.Tensor, lse: torch.Tensor, wanted: str, tensors: List[torch.Tensor], floats: List[float],
                       integers: List[int], names: str, causal: str, window_left: int, window_right: int, scale: float,
                       modifier: str, deterministic: bool,
                       ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, List[torch.Tensor]]:
    more, wanted = _by_name(tensors, floats, integers, names), _names(wanted)
    lists = _lists(more)
    of_scores = "bias" in wanted and q.dim() == 4 and not lists and takes_score_gradient(
        modifier, deterministic, more["bias"].shape, (*q.shape[:3], k.shape[2]))
    captured = [name for name in wanted if not (of_scores and name == "bias")]
    choice = _choice("backward", q, v, causal, (window_left, window_right), modifier, deterministic=deterministic,
                     captured=bool(captured), score_gradient=of_scores, lists=lists)
    found = plan(choice, q.device)
    gradients = {}
    for name in wanted:
        if name in captured and not found.takes(f"d_{name}"):
            raise ValueError(f"the gradient of capture '{name}' must be one that the kernel computes, but this backward "
                             "has none; detach the tensor")
        argument = f"d_{name}" if name in captured else "d_score"
        gradients[argument] = more[name].new_empty(more[name].shape, dtype=_sum_type(more[name]))
    dq, dk, dv = (_empty_like(x, x.shape[-1]) for x in (q, k, v))
    values = {"q": _dense_rows(q), "k": _dense_rows(k), "v": _dense_rows(v), "o": o, "do": _dense_rows(do), "lse": lse,
              "dlse": dlse, "dq": dq, "dk": dk, "dv": dv, "scale": scale, "window_left": window_left,
              "window_right": window_right, **more, **gradients}
    launch(found, _as_batch(values) if choice.packed else values, ("dq", "dk", "dv", *gradients), q.device)
    return dq, dk, dv, [x.to(more[name].dtype) for name, x in zip(wanted, gradients.values())]


@attention_backward.register_fake
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


def _autograd(ctx, do, dlse):
    q, k, v, o, lse, *tensors = ctx.saved_tensors
    gradients, by_name = (None, None, None), {}
    if do is not None or dlse is not None:
        do = torch.zeros_like(o) if do is None else do
        dlse = dlse.to(lse.dtype) if dlse is not None else None
        *gradients, captured = attention_backward(do, dlse, q, k, v, o, lse, ctx.wanted, tensors, *ctx.rest)
        by_name = dict(zip(_names(ctx.wanted), captured))
    return (*gradients, [by_name.get(name) for name in ctx.tensor_names], *([None] * 9))


attention.register_autograd(_autograd, setup_context=_setup_context)


def _no_second(ctx, *gradients):
    raise NotImplementedError("attention must not be differentiated twice: its backward has no gradient of its own; "
                              "call backward() without create_graph, or use PyTorch's math backend there")


attention_backward.register_autograd(_no_second)
