# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers operators of PyTorch.

torch.library.custom_op imports torch._dynamo at the first call of an operator, which takes seconds, since it hides the
implementation from torch.compile. Here it is hidden without that import: the process of a user who compiles nothing need
not pay for it."""

import sys

import torch

_LIBRARY = torch.library.Library("tilewright", "DEF")


def _skips(code):
    """Tells the evaluation of frames, which is a part of PyTorch's core, not to trace a function; returns whether it can."""
    try:
        evaluation = torch._C._dynamo.eval_frame
        if hasattr(evaluation, "set_code_exec_strategy"):
            skip, default = evaluation._FrameAction.SKIP, evaluation._FrameAction.DEFAULT
            evaluation.set_code_exec_strategy(code, evaluation._FrameExecStrategy(skip, default))
        else:
            evaluation.skip_code(code)
    except (AttributeError, TypeError):
        return False
    return True


def hidden(function):
    """The function as torch.compiler.disable returns it, if torch._dynamo is loaded by the time of the call."""
    hidden = []

    def call(*arguments):
        if not hidden:
            disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
            if disable is None:
                return function(*arguments)
            hidden.append(disable(function))
        return hidden[0](*arguments)

    return call if _skips(call.__code__) else torch.compiler.disable(function)


def operator(schema):
    """Defines the operator tilewright::NAME; `schema` is its schema in PyTorch's syntax, "NAME(Tensor x) -> Tensor". The
    decorated function is its implementation on all devices, and the result is the operator."""
    name = f"tilewright::{schema.partition('(')[0]}"

    def define(function):
        # As custom_op: Inductor passes arrays with the strides that they have without compilation.
        strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, strides))
        _LIBRARY.impl(name, hidden(function), "CompositeExplicitAutograd")
        return getattr(torch.ops.tilewright, name.partition("::")[2]).default

    return define
