# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small GPT that predicts the bytes of a text, with an attention of the caller's choice."""

import torch
import torch.nn.functional as F
from torch import nn

BYTES = 256


class Block(nn.Module):
    """A transformer block: rotary positions, grouped heads, an RMS norm before each half, and a gated MLP."""

    def __init__(self, heads, kv_heads, head_width, attend):
        super().__init__()
        width = heads * head_width
        self.heads, self.kv_heads, self.head_width, self.attend = heads, kv_heads, head_width, attend
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, cos, sin):
        batch, rows, width = x.shape
        packed = self.qkv(F.rms_norm(x, (width,))).view(batch, rows, -1, self.head_width).transpose(1, 2)
        q, k, v = packed.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        o = self.attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.out(o.transpose(1, 2).reshape(batch, rows, width))
        gate, up = self.gate_up(F.rms_norm(x, (width,))).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    """Rotary embedding of [batch, heads, rows, width]; the two halves of a row form the pairs."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Gpt(nn.Module):
    def __init__(self, layers, heads, kv_heads, head_width, rows, attend):
        super().__init__()
        width = heads * head_width
        self.embedding = nn.Embedding(BYTES, width)
        self.blocks = nn.ModuleList(Block(heads, kv_heads, head_width, attend) for _ in range(layers))
        self.head = nn.Linear(width, BYTES, bias=False)
        frequencies = 10000.0 ** -(torch.arange(0, head_width, 2) / head_width)
        angles = torch.outer(torch.arange(rows), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            shrink = (2 * layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
            nn.init.normal_(weight, std=0.02 * shrink)

    def forward(self, tokens, targets):
        """The mean cross entropy of the targets; tokens and targets are [batch, rows] of int64."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(F.rms_norm(x, (x.shape[-1],)))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
