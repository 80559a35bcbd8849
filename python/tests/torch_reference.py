# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in plain PyTorch for the tests, and a stand-in for plans that computes it on the CPU."""

import concurrent.futures
import math

import torch


def softcap(scores, captures, i, j):
    return torch.tanh(scores / captures["softcap"]) * captures["softcap"]


def alibi(scores, captures, i, j):
    slopes = captures["slopes"].to(scores.dtype)
    return scores - slopes[:, None, None] * (i[:, None] - j[None]).abs()


def relative_bias(scores, captures, i, j):
    radius = captures["relative_radius"]
    return scores + captures["relative_bias"].to(scores.dtype)[:, (j[None] - i[:, None]).clamp(-radius, radius) + radius]


MODIFIERS = {"": lambda scores, captures, i, j: scores, "softcap": softcap, "alibi": alibi,
             "relative_bias": relative_bias}


def reference(q, k, v, causal="none", window=(-1, -1), scale=None, modifier="", captures=None):
    """O and LSE in the type of q, with gradients by autograd. A row without keys gives 0 and -inf."""
    group = q.shape[1] // max(1, k.shape[1])
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    i, j = (torch.arange(n, device=q.device) for n in (q.shape[2], k.shape[2]))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    scores = MODIFIERS[modifier](scores, captures or {}, i, j)
    ahead = j[None] - i[:, None] - (k.shape[2] - q.shape[2] if causal == "bottom_right" else 0)
    hidden = torch.zeros_like(ahead, dtype=torch.bool) if causal == "none" else ahead > 0
    if window[0] >= 0:
        hidden = hidden | (ahead < -window[0])
    if window[1] >= 0:
        hidden = hidden | (ahead > window[1])
    empty = hidden.all(-1)
    scores = scores.masked_fill(hidden, -math.inf).masked_fill(empty[:, None], 0)
    lse = scores.logsumexp(-1).masked_fill(empty, -math.inf)
    o = (torch.softmax(scores, -1) @ v).masked_fill(empty[:, None], 0)
    return o, lse


class StandIn:
    """A plan without a GPU: what _plan of tilewright.torch gives to _launch."""

    def __init__(self, backward, dtype, dim, value_dim, causal, window, modifier, deterministic, captured, device):
        self.is_backward, self.causal, self.window, self.modifier = backward, causal, window, modifier

    def captures(self):
        return ["relative_bias", "relative_radius", "d_relative_bias"] if self.modifier == "relative_bias" else []

    def run(self, values):
        window = (values["window_left"], values["window_right"]) if self.window else (-1, -1)
        known = ("q", "k", "v")
        captures = {name: x for name, x in values.items() if name in ("softcap", "slopes", "relative_bias",
                                                                      "relative_radius")}
        with torch.enable_grad():
            leaves = [values[name].detach().requires_grad_() for name in known]
            wanted = [name for name in captures if f"d_{name}" in values]
            captures |= {name: captures[name].detach().requires_grad_() for name in wanted}
            o, lse = reference(*leaves, self.causal, window, values["scale"], self.modifier, captures)
        if not self.is_backward:
            values["o"].copy_(o.detach())
            values["lse"].copy_(lse.detach())
            return
        outputs, seeds = [o], [values["do"]]
        if values["dlse"] is not None:
            outputs, seeds = outputs + [lse], seeds + [values["dlse"].to(lse.dtype)]
        gradients = torch.autograd.grad(outputs, leaves + [captures[name] for name in wanted], seeds)
        for name, gradient in zip(["dq", "dk", "dv"] + [f"d_{name}" for name in wanted], gradients):
            values[name].copy_(gradient)


def stand_in_launch(plan, values, device):
    """Within an operator autograd is off; another thread has it."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(plan.run, values).result()
