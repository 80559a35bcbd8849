# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch versions of the modifiers in kernels/mods, for references and for flex_attention."""

import torch

from gpubench.cases import DROPOUT, SOFTCAP, document_lengths


class Plain:
    """No modifier; the base class of the others."""

    captures = {}  # arguments of the linked kernel, by name
    attn_mask = None  # of scaled_dot_product_attention, if it can express the modifier
    is_said_by_sdpa = True  # whether SDPA's arguments attn_mask and dropout_p express the modifier

    def apply(self, scores, heads, rows, columns):
        """The modified scores; `scores` are scaled scores [heads, rows, columns] at these indices."""
        return scores

    def slope(self, modified):
        """The derivative of `apply`, computed from its result."""
        return None

    def weights(self, heads, rows, columns):
        """The factors of the weights of these pairs, [heads, rows, columns], or None; `heads` are counted over all
        batches."""
        return None

    def sinks(self, heads):
        """The logit per head, [heads], that joins the softmax sum of every row, or None; `heads` as in `weights`."""
        return None

    set_up = None  # a function that computes the captures from the description of the mask, with PyTorch's kernels

    flex = None  # a score_mod of flex_attention
    flex_keeps = None  # a mask_mod of flex_attention, in addition to the causal mask
    dropout_p = 0.0  # the argument of scaled_dot_product_attention, which draws other random numbers


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


def philox(seed, offset, at):
    """16-bit numbers of Philox4x32-7, equal to those of tile.random, for each index (c0, c1, c2); eight neighbors
    along c0 share a counter (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11)."""
    mask = 0xFFFFFFFF
    c0, c1, c2 = at
    x = [c0 >> 3, c1, c2, torch.as_tensor(offset & mask, device=c0.device)]
    keys = [seed & mask, (seed >> 32 ^ offset >> 32) & mask]
    for _ in range(7):
        p0, p1 = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57  # of 64 bits, which may wrap around the sign
        x = [(p1 >> 32 & mask) ^ x[1] ^ keys[0], p1 & mask, (p0 >> 32 & mask) ^ x[3] ^ keys[1], p0 & mask]
        keys = [keys[0] + 0x9E3779B9 & mask, keys[1] + 0xBB67AE85 & mask]
    upper = torch.where(c0 & 2 != 0, x[3], x[2])
    word = torch.where(c0 & 4 != 0, upper, torch.where(c0 & 2 != 0, x[1], x[0]))
    return word >> (c0 & 1) * 16 & 0xFFFF


class Dropout(Plain):
    dropout_p = DROPOUT
    SEED, OFFSET = 0x123456789ABCDEF0, 64

    def __init__(self, heads, rows, keys, dtype, device):
        self.heads = heads
        self.captures = {"dropout": DROPOUT, "dropout_seed": torch.tensor([self.SEED], device=device),
                         "dropout_offset": torch.tensor([self.OFFSET], device=device)}

    def weights(self, heads, rows, columns):
        kept, threshold = [], int(torch.tensor(DROPOUT, dtype=torch.float32).item() * 2**16)
        for index in heads.tolist():
            i, j = rows[:, None], columns[None, :]
            # Eight pairs share a counter: kernels/mods/dropout.mlir.
            number = (j >> 4 << 5) + (j >> 1 & 3) * 8 + (i >> 3 & 1) * 4 + (j >> 3 & 1) * 2 + (j & 1)
            at = number, (i & ~8).expand_as(number), torch.as_tensor(index % self.heads, device=rows.device)
            bits = philox(self.SEED, self.OFFSET + (index // self.heads << 32), at)
            kept.append(bits >= threshold)
        return torch.stack(kept) * (2**16 / (2**16 - threshold))


class Sink(Plain):
    is_said_by_sdpa = False

    def __init__(self, heads, rows, keys, dtype, device):
        self.heads, self.captures = heads, {"sinks": torch.linspace(-2.0, 4.0, heads, device=device)}

    def sinks(self, heads):
        return self.captures["sinks"][heads % self.heads]


class Document(Plain):
    """Several documents in one sequence that do not attend each other; the batch is 1."""
    is_said_by_sdpa = False

    def __init__(self, heads, rows, keys, dtype, device):
        lengths = torch.tensor(document_lengths(max(rows, keys)), device=device)
        ids = torch.repeat_interleave(torch.arange(len(lengths), dtype=torch.int32, device=device), lengths)
        self.ids, self.captures = ids, {"query_document": ids[None, :rows], "key_document": ids[None, :keys]}
        self.flex_keeps = lambda b, h, i, j: ids[i] == ids[j]

    def apply(self, scores, heads, rows, columns):
        return scores.masked_fill(self.ids[rows][:, None] != self.ids[columns], -torch.inf)


class Spans(Document):
    """The same documents, with the first and last position of its document given for each row."""

    def __init__(self, heads, rows, keys, dtype, device):
        super().__init__(heads, rows, keys, dtype, device)
        self.begin, self.end = (torch.empty_like(self.ids) for _ in range(2))
        self.set_up()
        begin, end = self.begin[None], self.end[None]
        self.captures = {"key_begin": begin[:, :rows], "key_end": end[:, :rows],
                         "query_begin": begin[:, :keys], "query_end": end[:, :keys]}

    def set_up(self):
        """Computes the spans from the document number of each row, which is ascending."""
        torch.searchsorted(self.ids, self.ids, out_int32=True, out=self.begin)
        torch.searchsorted(self.ids, self.ids, out_int32=True, right=True, out=self.end)


MODIFIERS = {"": lambda heads, rows, keys, dtype, device: Plain(), "softcap": Softcap, "alibi": Alibi, "bias": Bias,
             "dropout": Dropout, "sink": Sink, "document": Document, "spans": Spans}
