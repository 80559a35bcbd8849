# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Your own kernels and programs on tensors of PyTorch.

    rms_norm = tilewright.kernel("rms_norm.mlir", C=1024, T="f16")
    y = rms_norm(x)                       # or rms_norm(x, epsilon=1e-6), or rms_norm(x, y), which writes to y
"""

import hashlib
import os
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from tilewright import checks, compiler, interpreter, places, plans, runtime
from tilewright.choice import KernelChoice
from tilewright.ops import dense_rows, named_values
from tilewright.registration import operator
from tilewright.signature import Argument, Signature, shapes_of, signature_of
from tilewright.tensors import check_dense
from tilewright.transforms import transform_of

__all__ = ["kernel", "Kernel"]

Path = Union[str, "os.PathLike[str]"]
Rule = Union[str, Tuple[int, ...], Callable[[Dict[str, Any]], Sequence[int]]]

_DTYPES = {kind: getattr(torch, name.partition(".")[2]) for name, kind in runtime.TORCH_TYPES.items()
           if hasattr(torch, name.partition(".")[2])}
_kernels: Dict[str, "Kernel"] = {}  # by their names in graphs


def _text_of(name, value):
    kind = runtime.TORCH_TYPES.get(str(value), str(value)) if isinstance(value, torch.dtype) else None
    return checks.kernel_param(name, value, kind, "a torch.dtype")


def _signature(code: KernelChoice) -> Signature:
    device = None
    if torch.cuda.is_available():
        device = plans.describe(torch.cuda.current_device())  # what a call compiles, so that it is in the cache then
    with plans.friendly():
        data = compiler.compile_bundle(code.file, code.params(), code.linked, () if device else ("sm_80",), device=device,
                                       preferred_only=True, entry=code.program)
    return signature_of(data, code.program)


class _Gradients(NamedTuple):
    """How the arguments of a backward kernel belong to those of its forward."""
    kernel: "Kernel"
    saved: Tuple[Tuple[str, str], ...]  # (argument of the backward, argument of the forward)
    incoming: Tuple[Tuple[str, str], ...]  # gradients of results
    results: Tuple[Tuple[str, str], ...]  # gradients of inputs


def _gradients_of(forward: Signature, kernel: "Kernel", names: Mapping[str, str]) -> _Gradients:
    of_forward = {argument.name: argument for argument in forward.arguments}
    backward = kernel.signature
    for name in names:
        if name not in backward.names():
            raise ValueError(f"backward_names must name arguments of '{backward.name}', {', '.join(backward.names())}, but got "
                             f"{name!r}")
    saved, incoming, results = [], [], []
    for argument in backward.arguments:
        source = names.get(argument.name, argument.name)
        of = next((source[len(prefix):] for prefix in ("d_", "d") if source.startswith(prefix)
                   and source[len(prefix):] in of_forward), None)
        if source in of_forward:
            saved.append((argument.name, source))
            if argument.is_written:
                raise ValueError(f"argument '{argument.name}' of the backward '{backward.name}' must not be written, since it is "
                                 f"'{source}' of the forward; name it d_{source} if it is the gradient")
        elif of is not None:
            (incoming if of_forward[of].is_written else results).append((argument.name, of))
            if argument.is_written == of_forward[of].is_written:
                raise ValueError(f"argument '{argument.name}' of the backward '{backward.name}' must "
                                 f"{'not be written' if argument.is_written else 'be written'}, since '{of}' of the forward is "
                                 f"{'a result' if argument.is_written else 'an input'}")
        elif not argument.may_be_absent:
            raise ValueError(f"argument '{argument.name}' of the backward '{backward.name}' must have the name of an argument of "
                             f"the forward, {', '.join(of_forward)}, or d_ and such a name; say in backward_names which it is")
    return _Gradients(kernel, tuple(saved), tuple(incoming), tuple(results))


class Kernel:
    """A kernel or program of a file, with values for its parameters: the result of tilewright.kernel. Calls take its
    arguments in the order of the file, or by name, and return its results.

    signature   the arguments: name, type, extents (-1: any), and whether they are written or may be absent"""

    def __init__(self, code: KernelChoice, outputs, backward, backward_names):
        self.signature = _signature(code)
        self._code = code._replace(name=self.signature.name)
        self._arguments = {argument.name: argument for argument in self.signature.arguments}
        self._rules, self._wanted = self._rules_of(outputs)
        self._gradients = None
        if backward is not None:
            self._gradients = _gradients_of(self.signature, backward, backward_names or {})
        elif backward_names:
            raise ValueError("backward_names must belong to a backward, but got none")
        about = repr((self._code, sorted((name, rule) for name, rule in self._rules.items() if not callable(rule)), self._wanted,
                      backward and (backward.key, sorted((backward_names or {}).items()))))
        self.key = f"{self.signature.name}:{hashlib.sha256(about.encode()).hexdigest()[:16]}"
        if any(map(callable, self._rules.values())):  # which have no text
            self.key += f":{len(_kernels)}"
        _kernels[self.key] = self

    def __repr__(self):
        arguments = ", ".join(f"{each.name}: {each.type}{'' if each.extents is None else each.shown()}" for each in
                              self.signature.arguments)
        return f"<tilewright.Kernel {self.signature.name}({arguments})>"

    def _rules_of(self, outputs):
        """The shape rules, {name: rule}, and the names of the arguments that a call allocates if it does not get them."""
        written = [argument.name for argument in self.signature.written()]
        wanted = [name for name in written if not self._arguments[name].may_be_absent]
        if outputs is None:
            return {}, tuple(wanted)
        rules = dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys((outputs,) if isinstance(outputs, str) else outputs)
        for name, rule in rules.items():
            self.signature.check_output(name)
            if not (rule is None or callable(rule) or (isinstance(rule, str) and rule in self._arguments)
                    or (isinstance(rule, (tuple, list)) and all(checks.integer_of(n) is not None for n in rule))):
                raise ValueError(f"the shape of '{name}' in outputs must be a tuple of integers, the name of an argument with this "
                                 f"shape, or a function of the arguments, but got {rule!r}")
        return ({name: tuple(rule) if isinstance(rule, list) else rule for name, rule in rules.items() if rule is not None},
                tuple(name for name in written if name in wanted or name in rules))

    def _named(self, positional, named):
        """The values that are given, {name: value}, without those that are None."""
        values = self.signature.bind(positional, named, self.signature.names())
        return {name: value for name, value in values.items() if value is not None}

    def _check_view(self, argument: Argument, x, first):
        check_dense(argument.name, x)
        transform = transform_of(x)
        if transform is not None:
            raise NotImplementedError(f"{argument.name} must not be a tensor of {transform}, which kernels do not support")
        if runtime.TORCH_TYPES.get(str(x.dtype)) != argument.type:
            raise ValueError(f"{argument.name} must be of {_DTYPES.get(argument.type, argument.type)}, as the parameters of "
                             f"'{self.signature.name}' say, but got {x.dtype}; convert it with .to(), or give other parameters")
        if x.dim() != len(argument.extents) or any(n not in (-1, own) for n, own in zip(argument.extents, x.shape)):
            raise ValueError(f"{argument.name} must have shape {argument.shown()}, as the parameters of '{self.signature.name}' say, "
                             f"but got {list(x.shape)}")
        if x.device.type not in ("cuda", "meta") and not (x.device.type == "cpu" and interpreter.device()):
            raise ValueError(f"{argument.name} must be on a CUDA device, but got {x.device}; move it with .cuda(), or see "
                             "tilewright.interpret")
        if first is not None and x.device != first[1].device:
            raise ValueError(f"{argument.name} must be on the device of {first[0]}, {first[1].device}, but got {x.device}; move it "
                             "with .to()")

    def _number(self, argument: Argument, value):
        is_float = argument.type.startswith(("f", "bf"))
        number = checks.float_of(value) if is_float else checks.integer_of(value)
        if argument.type == "i1":
            flag = checks.flag_of(value)
            number = None if flag is None else int(flag)
        if number is None:
            kind = "a number" if is_float else "True or False" if argument.type == "i1" else "an integer"
            raise ValueError(f"{argument.name} must be {kind}, for the kernel's {argument.type}, but got {checks.shown(value)}")
        if argument.type == "i32" and not isinstance(number, torch.SymInt) and not -2**31 <= number < 2**31:
            raise ValueError(f"{argument.name} must be an integer of 32 bits, but got {checks.shown(value)}")
        return number

    def _checked(self, values):
        """The given values as the operators take them; raises for wrong ones."""
        checked, first = {}, None
        for argument in self.signature.arguments:
            value = values.get(argument.name)
            if value is None:
                if not argument.may_be_absent and argument.name not in self._wanted:
                    self.signature.reject_missing(argument)
            elif argument.extents is None:
                checked[argument.name] = self._number(argument, value)
            else:
                self._check_view(argument, value, first)
                first = first or (argument.name, value)
                checked[argument.name] = value
        if first is None:
            raise ValueError(f"'{self.signature.name}' must get at least one tensor, whose device it runs on")
        return checked

    def _check_gradients(self, values, written):
        """Raises ValueError if a tensor requires a gradient that it cannot get."""
        if not torch.is_grad_enabled():
            return
        learned = [name for name, x in values.items() if isinstance(x, torch.Tensor) and x.requires_grad]
        for name in learned:
            if name in written:
                raise ValueError(f"{name} must not require a gradient, since '{self.signature.name}' writes to it; use "
                                 "torch.no_grad(), or leave it out")
            if written:
                raise ValueError(f"{', '.join(written)} must be left out where {name} requires a gradient, since results that are "
                                 "given have none; use torch.no_grad() otherwise")
            if self._gradients is not None and name not in [of for _, of in self._gradients.results]:
                raise ValueError(f"{name} must not require a gradient, which the backward '{self._gradients.kernel.signature.name}' "
                                 f"does not compute: it has no argument d_{name}; detach it")

    def __call__(self, *arguments: Any, **named: Any) -> Union[torch.Tensor, Tuple[torch.Tensor, ...], None]:
        """Runs the kernel on the current stream of the device of its tensors. Arguments are tensors of the type and shape
        that the file says, of any strides, and numbers; None leaves an optional one out, or is the default of a scalar.
        A tensor that the kernel writes is written in place if it is given; otherwise it is allocated, uninitialized, with
        the shape that `outputs` or the kernel's conditions say. Returns the arguments that the kernel writes, in order: one
        tensor, a tuple of several, or None if there is none. Raises TypeError for arguments that the kernel does not have,
        or lacks, and ValueError for wrong ones; the text names the argument."""
        values = self._checked(self._named(arguments, named))
        written = [name for name, x in values.items() if self._arguments[name].is_written]
        self._check_gradients(values, written)
        wanted = [name for name in self._wanted if name not in values]
        made = dict(zip(wanted, self._run(values, written, wanted)))
        results = [values.get(each.name, made.get(each.name)) for each in self.signature.arguments if each.is_written]
        results = tuple(x for x in results if x is not None)
        return results[0] if len(results) == 1 else results or None

    def _run(self, values, written, wanted):
        """The results `wanted`."""
        packed = _packed({name: x for name, x in values.items() if name not in written})
        if not written:
            return kernel_op(self.key, *packed, ",".join(wanted), [0])
        made = self.results(values, wanted)
        kernel_into_op(self.key, *packed, [*(values[name] for name in written), *made], ",".join([*written, *wanted]))
        return made

    def shapes(self, values: Dict[str, Any], wanted: Iterable[str]) -> Dict[str, Tuple[int, ...]]:
        """The shapes of results that a call with these arguments, {name: tensor or number}, allocates. Raises ValueError
        for one that neither `outputs` nor the conditions of the kernel say."""
        wanted, shapes = list(wanted), {}
        for name in wanted:
            rule = self._rules.get(name)
            if isinstance(rule, str) and isinstance(values.get(rule), torch.Tensor):
                shapes[name] = tuple(values[rule].shape)
            elif rule is not None and not isinstance(rule, str):
                shapes[name] = tuple(rule(dict(values)) if callable(rule) else rule)
        given = {name: tuple(x.shape) if isinstance(x, torch.Tensor) else x for name, x in values.items()}
        derived = shapes_of(self.signature, {**given, **shapes}, [name for name in wanted if name not in shapes])
        for name in wanted:
            shape = shapes.get(name, derived.get(name))
            if None in shape:
                raise ValueError(f"{name} must be given, or its shape in outputs: the conditions of '{self.signature.name}' do not say "
                                 f"its extent {shape.index(None)}")
            argument = self._arguments[name]
            if len(shape) != len(argument.extents) or any(n not in (-1, own) for n, own in zip(argument.extents, shape)):
                raise ValueError(f"outputs must give {name} the shape {argument.shown()}, as the parameters of "
                                 f"'{self.signature.name}' say, but got {list(shape)}")
            shapes[name] = shape
        return shapes

    def results(self, values, wanted):
        """Uninitialized tensors for the results `wanted`."""
        like = next(x for x in values.values() if isinstance(x, torch.Tensor))
        shapes = self.shapes(values, wanted)
        return [like.new_empty(shapes[name], dtype=_DTYPES[self._arguments[name].type]) for name in wanted]

    def launch(self, values, outputs, updates=()):
        """Runs the plan for the device of the values."""
        device = next(x.device for x in values.values() if isinstance(x, torch.Tensor))
        values = {name: dense_rows(x) if isinstance(x, torch.Tensor) and x.dim() and name not in updates else x
                  for name, x in values.items()}
        plans.launch(plans.plan(self._code, device), values, outputs, device, updates=updates)

    def prepare(self, device: Union[str, torch.device] = "cuda") -> None:
        """Compiles and loads the code for all tensors on a CUDA device, also that of the backward, so that a CUDA graph can
        capture the first call. Raises ValueError for another device."""
        device = torch.device(device)
        if device.type != "cuda":
            raise ValueError(f"device must be a CUDA device, but got {device}")
        index = torch.cuda.current_device() if device.index is None else device.index
        plans.prepare(self._code, torch.device("cuda", index))
        if self._gradients is not None:
            self._gradients.kernel.prepare(device)

    def backward(self, values, results, incoming, learned):
        """The gradients {name: tensor} of the inputs that `learned` names; `values` and `results` are the inputs and results
        of the forward, `incoming` gradients of results, None where there is none."""
        if self._gradients is None:
            raise NotImplementedError(f"'{self.signature.name}' has no gradient; give a kernel for it by backward=, detach its inputs, "
                                      "or use torch.no_grad()")
        kernel, saved, in_names, out_names = self._gradients
        known = {**values, **results}
        given = {name: known.get(of) for name, of in saved}
        for name, of in in_names:
            x = incoming.get(of)
            if x is None and of in results and not kernel._arguments[name].may_be_absent:
                x = torch.zeros_like(results[of])
            given[name] = x
        given = {name: x for name, x in given.items() if x is not None}
        # One that is not wanted is computed if it must be.
        wanted = {name: of for name, of in out_names if of in learned or not kernel._arguments[name].may_be_absent}
        checked = kernel._checked(given)
        wanted = {name: of for name, of in wanted.items() if of in known}
        shapes = {name: tuple(known[of].shape) for name, of in wanted.items()}
        extents = [n for name in wanted for n in (len(shapes[name]), *shapes[name])]
        made = kernel_op(kernel.key, *_packed(checked), ",".join(wanted), [*extents, 0])
        return {of: x.to(known[of].dtype) for (name, of), x in zip(wanted.items(), made) if of in learned}


def _packed(values):
    """Values in the form of the operators: tensors, floats, integers and names; as those of tilewright.ops."""
    tensors = {name: x for name, x in values.items() if isinstance(x, torch.Tensor)}
    floats = {name: x for name, x in values.items() if isinstance(x, (float, torch.SymFloat))}
    integers = {name: x for name, x in values.items() if name not in tensors and name not in floats}
    return (list(tensors.values()), [*floats.values(), 0.0], [*integers.values(), 0], ",".join([*tensors, *floats, *integers]))


def _words(text):
    return [name for name in text.split(",") if name]


def _kernel_of(key):
    found = _kernels.get(key)
    if found is None:
        raise RuntimeError(f"there is no kernel '{key}' in this process, for which a graph was made; call tilewright.kernel with the "
                           "same arguments before")
    return found


def _made(key, values, wanted, extents):
    """The kernel, and results of a call; `extents` holds a rank and as many extents for each, instead of the rules of the
    kernel, or nothing, and then 0, since autograd mistakes an empty list for a list of tensors."""
    kernel = _kernel_of(key)
    if len(extents) <= 1:
        return kernel, kernel.results(values, wanted)
    like, shapes, extents = next(x for x in values.values() if isinstance(x, torch.Tensor)), [], list(extents)
    for _ in wanted:
        shapes.append(extents[1:1 + extents[0]])
        del extents[:1 + extents[0]]
    return kernel, [like.new_empty(shape, dtype=_DTYPES[kernel._arguments[name].type]) for name, shape in zip(wanted, shapes)]


@operator("kernel(str key, Tensor[] tensors, float[] floats, SymInt[] integers, str names, str wanted, SymInt[] extents) "
          "-> Tensor[]")
def kernel_op(key, tensors, floats, integers, names, wanted, extents):
    values, wanted = named_values(tensors, floats, integers, names), _words(wanted)
    kernel, made = _made(key, values, wanted, extents)
    kernel.launch({**values, **dict(zip(wanted, made))}, wanted)
    return made


@torch.library.register_fake("tilewright::kernel")
def _kernel_fake(key, tensors, floats, integers, names, wanted, extents):
    return _made(key, dict(zip(_words(names), [*tensors, *floats[:-1], *integers[:-1]])), _words(wanted), extents)[1]


@operator("kernel_into(str key, Tensor[] tensors, float[] floats, SymInt[] integers, str names, Tensor(a!)[] written, "
          "str written_names) -> ()")
def kernel_into_op(key, tensors, floats, integers, names, written, written_names):
    values, written_by_name = named_values(tensors, floats, integers, names), dict(zip(_words(written_names), written))
    _kernel_of(key).launch({**values, **written_by_name}, (), tuple(written_by_name))
    for x in written:
        if x.device.type != "cpu":  # the interpreter's copies count themselves
            torch.autograd.graph.increment_version(x)


@torch.library.register_fake("tilewright::kernel_into")
def _kernel_into_fake(key, tensors, floats, integers, names, written, written_names):
    return None


def _setup_context(ctx, inputs, output):
    key, tensors, floats, integers, names, wanted, *_ = inputs
    ctx.key, ctx.floats, ctx.integers, ctx.names, ctx.wanted, ctx.count = key, floats, integers, names, wanted, len(tensors)
    ctx.learned = [name for name, x in zip(_words(names), tensors) if x.requires_grad]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def _autograd(ctx, gradients):
    saved = ctx.saved_tensors
    values = dict(zip(_words(ctx.names), [*saved[:ctx.count], *ctx.floats[:-1], *ctx.integers[:-1]]))
    results = dict(zip(_words(ctx.wanted), saved[ctx.count:]))
    incoming = {name: x for name, x in zip(results, gradients) if x is not None}
    found = _kernel_of(ctx.key).backward(values, results, incoming, ctx.learned) if incoming else {}
    return None, [found.get(name) for name in _words(ctx.names)[:ctx.count]], None, None, None, None, None


torch.library.register_autograd("tilewright::kernel", _autograd, setup_context=_setup_context)


def kernel(file: Path, program: Optional[str] = None, with_: Union[Path, Sequence[Path], None] = None, *,
           outputs: Union[Mapping[str, Rule], Iterable[str], None] = None, backward: Union["Kernel", Path, None] = None,
           backward_names: Optional[Mapping[str, str]] = None, **params: Any) -> Kernel:
    """Compiles a kernel or program, and returns it as a function of tensors and numbers (Kernel.__call__). It is compiled
    again, and loaded, at its first call on each device, and when a file has changed; its arguments must not change then.

    file       the path of an .mlir file, or the name of one of kernels/, such as "row_softmax"
    program    the name of the kernel or program in the file, where there are several that no program launches
    with_      the path of a file, or a list of them, whose functions replace those of `file`, or names of kernels/mods
    outputs    the results that a call allocates, {name: shape}: a tuple of integers, the name of an argument that has the
               same shape, or a function of the other arguments, {name: tensor or number}, which returns the shape. A list of
               names, where the kernel's conditions say the shapes, as require(same_dims(y, x, 0, 1)) does. By default all
               that are written and not optional
    backward   a Kernel that computes gradients, or a file, which gets the same `params`. Its arguments have the names of
               those of the forward, whose values they get: inputs, numbers and results; and d_NAME or dNAME for the gradient
               of a result, which they get, and that of an input, which they write
    backward_names
               {argument of the backward: such a name}, for arguments with other names
    params     values of the parameters: integers, bools, strings, or a torch.dtype for a type

    Raises ValueError for invalid arguments, and with the compiler's diagnostic if the kernel does not compile."""
    path = places.kernel_file(file)
    linked = tuple(map(os.path.abspath, checks.modifier_files(checks.modifier_text(with_))))
    texts = tuple(sorted((name, _text_of(name, value)) for name, value in params.items()))
    if program is not None and not isinstance(program, str):
        raise ValueError(f"program must be the name of a kernel or program, or None, but got {program!r}")
    if backward is not None and not isinstance(backward, Kernel):
        if not isinstance(backward, (str, os.PathLike)):
            raise ValueError(f"backward must be a kernel of tilewright.kernel, or the path of a file, but got {type(backward).__name__}")
        backward = kernel(backward, **params)
    return Kernel(KernelChoice(path, linked, program, program or "", texts), outputs, backward, backward_names)
