#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains small random models of Hugging Face transformers for a few steps, like Gemma 2 (softcap, a window in every other
layer) and like gpt-oss (sinks, the same windows), and prints the time of a step for each implementation of attention.

    PYTHONPATH=python python3 examples/train_transformers.py [--rows 4096] [--steps 10]

On a GPU models have the heads of their originals, in bf16. Without one, tiny models run on tilewright-run, which starts a
process for each launch: the times of that say nothing about a GPU. Needs PyTorch and transformers."""

import argparse
import statistics
import sys
import time

import torch
import transformers

import tilewright

IMPLEMENTATIONS = ("tilewright", "eager", "sdpa", "flex_attention")
LAYERS = ["sliding_attention", "full_attention"]


def gemma2(tiny):
    sizes = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 sliding_window=8) if tiny else dict(hidden_size=3584, intermediate_size=4096, num_attention_heads=16,
                                                     num_key_value_heads=8, head_dim=256, sliding_window=1024)
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **sizes, vocab_size=512, num_hidden_layers=2, layer_types=LAYERS, attn_logit_softcapping=50.0))


def gpt_oss(tiny):
    sizes = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 sliding_window=8) if tiny else dict(hidden_size=2880, intermediate_size=2880, num_attention_heads=64,
                                                     num_key_value_heads=8, head_dim=64, sliding_window=128)
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **sizes, vocab_size=512, num_hidden_layers=2, layer_types=LAYERS, num_local_experts=2, num_experts_per_tok=1))


def train(make, implementation, device, rows, steps):
    """The median time of a step in seconds, and the last loss."""
    torch.manual_seed(1)
    model = make(device == "cpu").to(device, torch.float32 if device == "cpu" else torch.bfloat16)
    model.set_attn_implementation(implementation)
    model.train()
    ids = torch.randint(0, 512, (1, rows), device=device)
    optimizer, times, loss = torch.optim.SGD(model.parameters(), lr=0.05), [], None
    for step in range(steps + 2):  # the first two compile, and fill caches
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:]), loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rows", type=int, help="tokens of a sequence; default 4096, or 16 without a GPU")
    parser.add_argument("--steps", type=int, help="steps that are timed; default 10, or 1 without a GPU")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, steps = options.rows or (4096 if device == "cuda" else 16), options.steps or (10 if device == "cuda" else 1)
    transformers.utils.logging.set_verbosity_error()
    tilewright.register_for_transformers()
    if device == "cpu":
        tilewright.interpret()
        print(f"There is no GPU: tiny models, {rows} tokens, f32, on tilewright-run. These times say nothing about a GPU.")
    else:
        print(f"{torch.cuda.get_device_name()}, {rows} tokens, bf16")
    failed = False
    for make in (gemma2, gpt_oss):
        for implementation in IMPLEMENTATIONS:
            try:
                seconds, loss = train(make, implementation, device, rows, steps)
            except Exception as error:  # what an implementation raises for what it does not have is its own
                failed |= implementation == "tilewright"
                reason = str(error).strip().splitlines() or [""]
                print(f"{make.__name__:8} {implementation:15} does not run: {type(error).__name__}: {reason[0][:90]}")
            else:
                print(f"{make.__name__:8} {implementation:15} {seconds * 1e3:9.2f} ms a step, loss {loss:.3f}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
