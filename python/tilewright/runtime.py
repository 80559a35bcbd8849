# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bindings of libtilewright.so, through its C interface runtime/tilewright.h. An array is any object with the
attributes shape, stride(), data_ptr() and dtype of a PyTorch tensor; this module does not import PyTorch. All functions
raise TilewrightError if the C function reports an error."""

import ctypes
import functools
import os
from typing import NamedTuple, Tuple
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from tilewright import checks

TYPES = {"f64": 0, "f32": 1, "f16": 2, "bf16": 3, "e4m3": 4, "e5m2": 5, "i64": 6, "i32": 7, "i1": 8, "i8": 9}
TORCH_TYPES = {"torch.float64": "f64", "torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16",
               "torch.float8_e4m3fn": "e4m3", "torch.float8_e5m2": "e5m2", "torch.int64": "i64", "torch.int32": "i32",
               "torch.bool": "i1", "torch.int8": "i8"}
CAUSAL = {"none": 0, "top_left": 1, "bottom_right": 2}
KINDS = {"forward": 0, "backward": 1, "decode": 2, "append": 3, "cached": 4}
PLACES = {"slots": 0, "table": 1, "sequences": 2}
NO_TABLE = -1  # for page_rows of AttentionDesc
DETERMINISM = [None, True, False]
CODES = ["ok", "invalid argument", "unsupported", "missing variant", "bad bundle", "no driver", "not prepared",
         "out of memory", "driver", "compile", "io"]


class View(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("type", c_int), ("rank", c_uint32),
                ("extents", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class Argument(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("view", POINTER(View)), ("scalar", c_void_p),
                ("scalar_type", c_int)]


class Param(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class AttentionDesc(ctypes.Structure):
    """What the code of a call of attention depends on: tilewright_attention_desc, whose comments describe the fields. Made
    by `attention_desc`."""
    _fields_ = [("struct_size", c_size_t), ("kind", c_int), ("type", c_int), ("head_dim", c_int64), ("value_dim", c_int64),
                ("entry", c_char_p), ("params", POINTER(Param)), ("num_params", c_size_t), ("causal", c_int),
                ("has_window", c_int), ("packed", c_int), ("list_block_m", c_int64), ("list_block_n", c_int64),
                ("cached", c_int), ("page_rows", c_int64), ("deterministic", c_int), ("ordered", c_int),
                ("score_gradient", c_int), ("capture_gradients", c_int), ("num_splits", c_int32), ("group", c_int64),
                ("max_rows", c_int64), ("places", c_int), ("wide_indices", c_int), ("positions", c_int), ("rotary", c_int64),
                ("rotary_pairs", c_int), ("rotary_first", c_int), ("rotary_type", c_int), ("leftpad", c_int),
                ("cache_type", POINTER(c_int))]


class Target(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("major", c_int), ("minor", c_int), ("shared_bytes", c_int),
                ("multiprocessors", c_int)]


class RunInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_char_p) for name in ("name", "target", "params", "sums", "call")] + [
        ("determinism", c_int), ("workspace_bytes", c_uint64), ("num_launches", c_size_t)]


class LaunchInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_char_p) for name in ("kernel", "entry", "target", "params", "sums")] + [
        ("determinism", c_int), ("is_cubin", c_int), ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
        ("cluster", c_uint32 * 3), ("shared_bytes", c_uint32)]


class ForwardDesc(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("type", c_int), ("causal", c_int), ("head_dim", c_int64),
                ("value_dim", c_int64), ("has_window", c_int), ("entry", c_char_p)]


class BackwardDesc(ctypes.Structure):
    _fields_ = ForwardDesc._fields_[:-1] + [("deterministic", c_int), ("capture_gradients", c_int), ("entry", c_char_p)]


FORWARD_VIEWS = ("q", "k", "v", "o", "lse")
BACKWARD_VIEWS = ("q", "k", "v", "o", "do", "lse", "dlse", "dq", "dk", "dv")


def _attention_arguments(views):
    class Arguments(ctypes.Structure):
        _fields_ = [("struct_size", c_size_t)] + [(name, POINTER(View)) for name in views] + [
            ("scale", c_float), ("window_left", c_int32), ("window_right", c_int32), ("captures", POINTER(Argument)),
            ("num_captures", c_size_t), ("exact_scale", c_double)]
    return Arguments


ForwardArguments, BackwardArguments = _attention_arguments(FORWARD_VIEWS), _attention_arguments(BACKWARD_VIEWS)


class TilewrightError(Exception):
    """An error of the runtime; `code` is one of CODES, or None if the library cannot be loaded."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


def int32_of(value, name):
    """Returns an integer that the C interface takes in 32 bits; ctypes would cut others in silence. Raises ValueError for
    anything else; `name` says what it is."""
    number = checks.integer_of(value)
    if number is None or not -2**31 <= number < 2**31:
        raise ValueError(f"{name} must be an integer of 32 bits, but got {checks.shown(value)}")
    return number


def flag_of(value, name):
    """Returns a flag as 0 or 1. Raises ValueError unless it is True, False, 0 or 1: ctypes would cut 2**32 to False."""
    flag = checks.flag_of(value)
    number = checks.integer_of(value) if flag is None else int(flag)
    if number not in (0, 1):
        raise ValueError(f"{name} must be True or False, but got {checks.shown(value)}")
    return number


def address_of(value, name):
    """Returns an address or a size, an integer from 0, or None. Raises ValueError for anything else."""
    number = checks.integer_of(value)
    if value is not None and (number is None or not 0 <= number < 2**64):
        raise ValueError(f"{name} must be an integer of 64 bits from 0, or None, but got {checks.shown(value)}")
    return number


def sized(struct, **fields):
    """Returns an instance of a ctypes struct with these fields and its struct_size."""
    return struct(struct_size=ctypes.sizeof(struct), **fields)


def type_of(dtype):
    """The type of elements, of TYPES, for a dtype of PyTorch or NumPy; None for others."""
    text = str(dtype)
    return TORCH_TYPES.get(text if text.startswith("torch.") else f"torch.{text}")


def view_of(tensor):
    """Returns a View of a tensor. It keeps its extents and strides alive, but not the tensor."""
    rank, kind = len(tensor.shape), type_of(tensor.dtype)
    if kind is None:
        raise TilewrightError(f"elements must be of one of {', '.join(TORCH_TYPES)}, but got {tensor.dtype}", CODES[1])
    shape, strides = (c_int64 * rank)(*tensor.shape), (c_int64 * rank)(*tensor.stride())
    return sized(View, data=tensor.data_ptr(), type=TYPES[kind], rank=rank, extents=shape,
                 strides=strides)


def arguments_of(values, float_type="f32"):
    """Returns an array of Argument for {name: tensor, number or None}, and a list of objects that must live as long as
    the array. Python floats are passed as `float_type`, f32 or f64, and integers as i32. Raises ValueError for values of
    other types, and for integers that need more bits."""
    array, kept = (Argument * len(values))(), []
    for place, (name, value) in zip(array, values.items()):
        place.struct_size, place.name = ctypes.sizeof(Argument), name.encode()
        if value is not None and not hasattr(value, "data_ptr"):
            number = value if isinstance(value, float) else checks.integer_of(value)
            number = checks.float_of(value) if number is None else number
            if number is None:
                raise ValueError(f"argument '{name}' must be an array, a number or None, but got {value!r}")
            kind = float_type if isinstance(number, float) else "i32"
            number = number if isinstance(number, float) else int32_of(number, f"argument '{name}'")
            kept.append({"f32": c_float, "f64": c_double, "i32": c_int32}[kind](number))
            place.scalar = ctypes.cast(byref(kept[-1]), c_void_p)
            place.scalar_type = TYPES[kind]
        elif value is not None:
            kept += [view_of(value), value]
            place.view = ctypes.pointer(kept[-2])
    return array, kept


class Launch(NamedTuple):
    """A launch of a report; `grid` counts thread blocks, `block` threads."""
    kernel: str
    entry: str
    target: str
    params: dict
    sums: Tuple[str, ...]
    deterministic: object
    is_cubin: bool
    grid: Tuple[int, int, int]
    block: Tuple[int, int, int]
    cluster: Tuple[int, int, int]
    shared_bytes: int


class Report(NamedTuple):
    """What a run launches. `sums` are the types in which products are summed; `deterministic` is True, False, or None for
    bundles that do not say; `call` is equal for calls that launch the same code in the same way."""
    name: str
    target: str
    params: dict
    sums: Tuple[str, ...]
    deterministic: object
    workspace_bytes: int
    call: str
    launches: Tuple[Launch, ...]


def _params_of(text):
    return dict(param.split("=", 1) for param in text.decode().split(",") if param)


def _words_of(text):
    return tuple(word for word in text.decode().split(",") if word)


@functools.lru_cache(maxsize=None)
def library_at(path):
    """The Library of a path, which is loaded once."""
    return Library(path)


class Library:
    """The loaded library, through which bundles and plans call its functions."""

    def __init__(self, path):
        try:
            self.functions = ctypes.CDLL(os.fspath(path))
        except OSError as error:
            raise TilewrightError(f"cannot load {path}: {error}") from None
        for name in ("last_error", "bundle_remarks", "operation_argument_name", "attention_argument_name",
                     "attention_forward_capture_name",
                     "attention_backward_capture_name"):
            getattr(self.functions, "tilewright_" + name).restype = c_char_p
        for name in ("operation_num_arguments", "attention_num_arguments", "attention_forward_num_captures",
                     "attention_backward_num_captures"):
            getattr(self.functions, "tilewright_" + name).restype = c_size_t

    def call(self, name, *arguments):
        """Calls tilewright_NAME, and raises TilewrightError unless it returns 0."""
        self.check(getattr(self.functions, "tilewright_" + name)(*arguments))

    def check(self, code):
        if code:
            raise TilewrightError(self.functions.tilewright_last_error().decode(), CODES[code])

    def open(self, path):
        """Opens a bundle file, and returns its handle. Bundles are not closed before the process ends."""
        bundle = c_void_p()
        self.call("bundle_open", os.fsencode(path), byref(bundle))
        return bundle

    def load(self, data):
        """Loads a bundle from bytes, which are copied, and returns its handle."""
        bundle = c_void_p()
        self.call("bundle_load", data, c_size_t(len(data)), byref(bundle))
        return bundle

    def remarks(self, bundle):
        """Returns a list of the reasons why kernels of a bundle are slower than the chip allows."""
        return self.functions.tilewright_bundle_remarks(bundle).decode().splitlines()

    def attention_text(self, what, desc):
        """Returns the signature or the params of a description, as text."""
        text = c_char_p()
        self.call(f"attention_{what}", byref(desc), byref(text))
        return text.value.decode()

    def attention_describe(self, desc, values):
        """Sets the fields of a description that follow from the arguments of a call, {name: array, number or None}, as
        tilewright_attention_describe says, and returns it."""
        values = {name: value for name, value in values.items() if value is not None}
        array, _kept = arguments_of(values)
        self.call("attention_describe", byref(desc), array, c_size_t(len(values)))
        return desc

    def attention_params(self, desc):
        """Returns all parameters of the kernel for a description, {name: text}, as a compiler takes them."""
        return _params_of(self.attention_text("params", desc).encode())

    def write_timeline(self, bundle, timeline, path):
        """Writes a trace for Perfetto to `path`; `timeline` holds the bytes of the array `timeline` after the launches."""
        words = (c_uint64 * (len(timeline) // 8)).from_buffer_copy(timeline)  # aligned
        self.call("timeline_write", bundle, words, c_size_t(ctypes.sizeof(words)), os.fsencode(path))


class _Plan:
    """The common part of Operation and of the plans of attention; `prefix` is the prefix of their C functions."""

    def __init__(self, library, prefix):
        self.library, self.prefix, self.handle = library, prefix, c_void_p()
        self._run = getattr(library.functions, f"tilewright_{prefix}_run")
        self._workspace_size = getattr(library.functions, f"tilewright_{prefix}_workspace_size")

    def __del__(self):
        if self.handle:
            getattr(self.library.functions, f"tilewright_{self.prefix}_destroy")(self.handle)

    def check_support(self, major, minor, shared_bytes=0):
        """Raises TilewrightError if the bundle has no code for a device of compute capability major.minor with
        `shared_bytes` of shared memory for each thread block (0: any amount). Needs no GPU."""
        numbers = {"major": major, "minor": minor, "shared_bytes": shared_bytes}
        self.library.call(f"{self.prefix}_check_support", self.handle,
                          *(c_int(int32_of(value, name)) for name, value in numbers.items()))

    def prepare(self, device=0):
        """Loads the code for the device with this index; required once, before `run`."""
        self.library.call(f"{self.prefix}_prepare", self.handle, c_int(int32_of(device, "device")))

    def check_indices(self, wanted=True):
        """Sets whether a run checks the kernel's constraints on the elements of index arrays and raises an error if one
        is violated. A run with the check waits for its stream and cannot be captured. TILEWRIGHT_CHECK_INDICES=1
        enables the check for new plans."""
        self.library.call(f"{self.prefix}_check_indices", self.handle, c_int(flag_of(wanted, "wanted")))

    def overlap_previous(self, wanted=True):
        """Sets whether a run may start before the previous launch of its stream has ended, as it may by default, unless
        TILEWRIGHT_OVERLAP_PREVIOUS=0. Its first kernel then waits for that launch before it accesses memory, if it can (those of
        decodes and appends, on GPUs from compute capability 9.0 on), and so must all kernels of the stream that are launched in
        this way, also those of other libraries."""
        self.library.call(f"{self.prefix}_overlap_previous", self.handle, c_int(flag_of(wanted, "wanted")))

    def workspace_size(self, packed, device=0):
        """Returns the size of the workspace in bytes; `packed` is a result of `pack`. The device must exist; without a
        driver, any number from 0 to 63 is taken."""
        size = c_uint64()
        device = c_int(int32_of(device, "device"))
        self.library.check(self._workspace_size(self.handle, *packed[0], device, byref(size)))
        return size.value

    def run(self, packed, workspace, workspace_bytes, stream):
        """Enqueues the launches on a stream. `packed` is a result of `pack`; `workspace` and `stream` are addresses,
        integers or None."""
        workspace, stream = address_of(workspace, "workspace"), address_of(stream, "stream")
        size = c_uint64(address_of(workspace_bytes, "workspace_bytes") or 0)
        self.library.check(self._run(self.handle, *packed[0], c_void_p(workspace), size, c_void_p(stream)))

    def bind(self, values, allocate, stream, device=0):
        """Returns a function without parameters that enqueues the launches. `allocate` returns an array of the given
        number of bytes, for the workspace; `stream` returns the stream of each call."""
        packed = self.pack(values)
        size = self.workspace_size(packed, device)
        workspace = allocate(size) if size else None
        address, size = c_void_p(workspace.data_ptr() if size else None), c_uint64(size)
        run, handle, check, arguments = self._run, self.handle, self.library.check, packed[0]
        first, *more = arguments

        def launch(packed=packed, values=values, workspace=workspace, plan=self):  # alive as long as the call
            code = run(handle, first, address, size, stream())
            if code:
                check(code)

        def launch_list(packed=packed, values=values, workspace=workspace, plan=self):
            code = run(handle, first, *more, address, size, stream())
            if code:
                check(code)

        return launch_list if more else launch


class _Attention(_Plan):
    def captures(self):
        """Returns the names of the kernel's captures, and of its optional arguments that `views` does not contain."""
        functions, prefix = self.library.functions, f"tilewright_{self.prefix}"
        count = getattr(functions, prefix + "_num_captures")(self.handle)
        return [getattr(functions, prefix + "_capture_name")(self.handle, c_size_t(i)).decode() for i in range(count)]

    def takes(self, name):
        """Whether there is a capture or an additional argument of this name."""
        return name in self.captures()

    def pack(self, values):
        """Packs `values`, {name: array or number}, for the C function; returns a tuple that `run` takes. Views that are
        absent are None. Names other than `views`, scale, window_left and window_right are captures. An omitted window
        is unlimited. Raises ValueError if a view or the scale is missing."""
        rest = dict(values)
        missing = [name for name in (*self.views, "scale") if name not in rest]
        if missing:
            raise ValueError(f"values must hold {', '.join((*self.views, 'scale'))}, None for a view that is absent, but got "
                             f"none for {', '.join(missing)}")
        given = {name: rest.pop(name) for name in self.views}
        views = {name: view_of(tensor) for name, tensor in given.items() if tensor is not None}
        scalars = {name: int32_of(rest.pop(name, -1), name) for name in ("window_left", "window_right")}
        scalars["scale"] = checks.float_of(rest["scale"])
        if scalars["scale"] is None:
            raise ValueError(f"scale must be a number, but got {checks.shown(rest['scale'])}")
        del rest["scale"]
        captures, kept = arguments_of(rest)
        arguments = sized(self.struct, captures=captures, num_captures=len(rest), exact_scale=scalars["scale"], **scalars,
                          **{name: ctypes.pointer(view) for name, view in views.items()})
        return (byref(arguments),), (arguments, captures, kept, views)

    def _create(self, bundle, desc):
        self.library.call(f"{self.prefix}_create", bundle, byref(desc), byref(self.handle))


def _number_of(table, name, key):
    if not isinstance(key, str) or key not in table:
        raise ValueError(f"{name} must be one of {', '.join(table)}, but got {key!r}")
    return table[key]


def _desc(struct, dtype, dim, causal, value_dim, has_window, entry, **more):
    dims = {"dim": dim, "value_dim": value_dim}
    for name, value in dims.items():
        dims[name] = checks.integer_of(value)
        if dims[name] is None:
            raise ValueError(f"{name} must be an integer, but got {value!r}")
    flags = {name: flag_of(value, name) for name, value in {"has_window": has_window, **more}.items()}
    return sized(struct, type=_number_of(TYPES, "dtype", dtype), causal=_number_of(CAUSAL, "causal", causal),
                 head_dim=dims["dim"], value_dim=dims["value_dim"],
                 entry=entry.encode() if entry else None, **flags)


class AttentionForward(_Attention):
    """The forward of attention: code of a bundle for a type (`dtype`, of TYPES), a head width `dim`, a causal mask (of
    CAUSAL), a width of V (0: `dim`), and a window or none. `entry` is the name of the kernel, None for the default."""

    views, struct = FORWARD_VIEWS, ForwardArguments

    def __init__(self, library, bundle, dtype, dim, causal, value_dim=0, has_window=False, entry=None):
        super().__init__(library, "attention_forward")
        self._create(bundle, _desc(ForwardDesc, dtype, dim, causal, value_dim, has_window, entry))


class AttentionBackward(_Attention):
    """The backward of attention; the arguments are those of AttentionForward, and whether the gradients are
    deterministic, and whether captures get gradients."""

    views, struct = BACKWARD_VIEWS, BackwardArguments

    def __init__(self, library, bundle, dtype, dim, causal, deterministic=False, value_dim=0, has_window=False,
                 capture_gradients=False, entry=None):
        super().__init__(library, "attention_backward")
        self._create(bundle, _desc(BackwardDesc, dtype, dim, causal, value_dim, has_window, entry,
                                   deterministic=deterministic, capture_gradients=capture_gradients))


class _Named(_Plan):
    """The common part of plans that take their arguments by name."""

    def arguments(self):
        """Returns the names of the arguments, with captures last."""
        functions, prefix = self.library.functions, f"tilewright_{self.prefix}"
        count = getattr(functions, prefix + "_num_arguments")(self.handle)
        return [getattr(functions, prefix + "_argument_name")(self.handle, c_size_t(i)).decode() for i in range(count)]

    def takes(self, name):
        return name in self.arguments()

    def pack(self, values):
        """Packs `values`, {name: array, number or None}, for the C function; returns a tuple that `run` takes. None is left
        out, as are scalars that are to have their default. The runtime rounds a float to f32 where the kernel takes it in
        f32."""
        values = {name: value for name, value in values.items() if value is not None}
        array, kept = arguments_of(values, "f64")
        return (array, c_size_t(len(values))), (array, kept)

    def report(self, packed, device=0, target=None):
        """Returns a Report of what a run with these arguments, a result of `pack`, launches: on a device that is prepared,
        or for a `target`, (major, minor, shared_bytes, multiprocessors), which needs no GPU."""
        wanted = None if target is None else sized(Target, **dict(zip(("major", "minor", "shared_bytes", "multiprocessors"),
                                                                      (int32_of(x, "target") for x in target))))
        handle, functions = c_void_p(), self.library.functions
        self.library.call(f"{self.prefix}_report", self.handle, *packed[0], c_int(int32_of(device, "device")),
                          None if wanted is None else byref(wanted), byref(handle))
        try:
            run, launches = sized(RunInfo), []
            self.library.call("report_run", handle, byref(run))
            for i in range(run.num_launches):
                info = sized(LaunchInfo)
                self.library.call("report_launch", handle, c_size_t(i), byref(info))
                launches.append(Launch(info.kernel.decode(), info.entry.decode(), info.target.decode(), _params_of(info.params),
                                       _words_of(info.sums), DETERMINISM[info.determinism], bool(info.is_cubin),
                                       tuple(info.grid), tuple(info.block), tuple(info.cluster), info.shared_bytes))
            return Report(run.name.decode(), run.target.decode(), _params_of(run.params), _words_of(run.sums),
                          DETERMINISM[run.determinism], run.workspace_bytes, run.call.decode(), tuple(launches))
        finally:
            functions.tilewright_report_destroy(handle)


def attention_desc(kind, dtype, dim, value_dim=0, causal="none", entry=None, params=None, **more):
    """Returns an AttentionDesc: `kind` is one of KINDS, `dtype` of TYPES, `causal` of CAUSAL, `params` further parameters of
    the kernel, {name: text}, and `more` its other fields; `places` is one of PLACES, `rotary_type` of TYPES, and
    `cache_type`, if it is not `dtype`, too."""
    stored = more.pop("cache_type", None)
    cache_type = None if stored in (None, dtype) else POINTER(c_int)(c_int(_number_of(TYPES, "cache_type", stored)))
    tables = {"places": PLACES, "rotary_type": TYPES}
    known = [name for name, *_ in AttentionDesc._fields_]
    for name in more:
        if name not in known:
            raise ValueError(f"an AttentionDesc has no field '{name}'; its fields are {', '.join(known)}")
    fields = {"head_dim": dim, "value_dim": value_dim}
    for name, value in more.items():
        fields[name] = _number_of(tables[name], name, value) if name in tables else value
    for name, value in fields.items():
        flag = checks.flag_of(value)
        fields[name] = int32_of(value, name) if flag is None else int(flag)
    array = (Param * len(params or ()))(*[Param(key.encode(), text.encode()) for key, text in (params or {}).items()])
    return sized(AttentionDesc, kind=_number_of(KINDS, "kind", kind), type=_number_of(TYPES, "dtype", dtype),
                 causal=_number_of(CAUSAL, "causal", causal), entry=entry.encode() if entry else None, params=array,
                 num_params=len(array), cache_type=cache_type, **fields)


class Attention(_Named):
    """A call of attention, of any kind: code of a bundle for a description, a result of `attention_desc`. The arguments are
    those of the kernel, by name."""

    def __init__(self, library, bundle, desc):
        super().__init__(library, "attention")
        library.call("attention_create", bundle, byref(desc), byref(self.handle))


class Operation(_Named):
    """Any kernel or program of a bundle, by its name and its compile-time parameters, {name: text, integer or flag}. Raises
    ValueError for other values."""

    def __init__(self, library, bundle, name, params):
        super().__init__(library, "operation")
        for key, value in params.items():
            if checks.param_text(value) is None:
                raise ValueError(f"parameter '{key}' must be text, an integer or a flag, but got {value!r}")
        texts = {key: checks.param_text(value) for key, value in params.items()}
        array = (Param * len(params))(*[Param(key.encode(), text.encode()) for key, text in texts.items()])
        library.call("operation_create", bundle, name.encode(), array, c_size_t(len(params)), byref(self.handle))
