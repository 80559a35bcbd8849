# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Score modifiers of kernels/mods, as PyTorch writes them: in references and for flex_attention."""

import torch

from gpubench.cases import SOFTCAP


class Plain:
    """No modifier, and what the others have in common."""

    captures = {}  # arguments of the linked kernel by name
    attn_mask = None  # of scaled_dot_product_attention, where it can say the same

    def apply(self, scores, heads, rows, columns):
        """Scaled scores [heads, rows, columns] of these indices, modified."""
        return scores

    def slope(self, modified):
        """The derivative of `apply`, from its result."""
        return None

    flex = None  # a score_mod of flex_attention


class Softcap(Plain):
    def __init__(self, heads, rows, keys, dtype, device):
        self.captures = {"softcap": SOFTCAP}

    def apply(self, scores, heads, rows, columns):
        return torch.tanh(scores / SOFTCAP) * SOFTCAP

    def slope(self, modified):
        return 1 - (modified / SOFTCAP) ** 2

    @staticmethod
    def flex(score, b, h, i, j):
        return torch.tanh(score / SOFTCAP) * SOFTCAP


class Alibi(Plain):
    def __init__(self, heads, rows, keys, dtype, device):
        slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, device=device) / heads)
        self.heads, self.captures = heads, {"slopes": slopes}
        self.flex = lambda score, b, h, i, j: score - slopes[h] * (i - j).abs()

    def apply(self, scores, heads, rows, columns):
        distance = (columns[None, :] - rows[:, None]).abs().to(scores.dtype)
        return scores - self.captures["slopes"][heads % self.heads].to(scores.dtype)[:, None, None] * distance


class Bias(Plain):
    """[1, heads, rows, keys] of N(0, 1), the same for each batch."""

    def __init__(self, heads, rows, keys, dtype, device):
        generator = torch.Generator(device).manual_seed(3)
        self.heads = heads
        self.attn_mask = torch.randn(1, heads, rows, keys, device=device, generator=generator).to(dtype)
        self.captures = {"bias": self.attn_mask}
        self.flex = lambda score, b, h, i, j: score + self.attn_mask[0, h, i, j]

    def apply(self, scores, heads, rows, columns):
        return scores + self.attn_mask[0, heads % self.heads][:, rows][:, :, columns].to(scores.dtype)


MODIFIERS = {"": lambda heads, rows, keys, dtype, device: Plain(), "softcap": Softcap, "alibi": Alibi, "bias": Bias}
