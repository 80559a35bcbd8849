#!/usr/bin/python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the bundles that later runtimes must read, test/Unit/Inputs/bundles/abi<N> for kernel ABI N. docs/compatibility.md
describes when to run this script.

    scripts/freeze-bundles.py [FOLDER] [TOOLS]       TOOLS: the folder of tilewrightc, by default build/bin

Manifests are stored as the compiler writes them. Since a bundle of attention has 800 KB, its code is reduced to the
entries, which are all that a reader checks; softmax keeps its PTX."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FROZEN = {
    # One kernel, with its code.
    "softmax": ("docs/examples/first_kernel.mlir", ["C=64"], [], ["sm_80"], False),
    # Variants with tensor maps, roles and requirements; captures.
    "attention_forward": ("kernels/attention_forward.mlir", ["D=64", "T=bf16", "CAUSAL=top_left"],
                          ["kernels/mods/softcap.mlir"], ["sm_90a", "sm_80"], True),
    # A program whose captures have gradients.
    "attention_backward": ("kernels/attention_backward.mlir",
                           ["D=64", "T=bf16", "CAUSAL=top_left", "CAPTURE_GRADIENTS=true"],
                           ["kernels/mods/alibi.mlir"], ["sm_80"], True),
    # A program with workspaces that are filled, rules for index arrays, and ragged tensor maps.
    "attention_backward_packed": ("kernels/attention_backward.mlir", ["D=64", "T=bf16", "PACKED=true"], [],
                                  ["sm_90a", "sm_80"], True),
    # Forms that extents choose, a default argument, and arrays that are written, in a program for both targets.
    "differential_attention_backward": ("kernels/differential_attention_backward.mlir", ["D=64", "T=bf16"], [],
                                        ["sm_90a", "sm_80"], True),
    # Paged tensor maps, and rules for elements of index arrays.
    "attention_decode": ("kernels/attention_decode.mlir", ["D=64", "T=bf16", "PAGE_ROWS=64"], [], ["sm_90a", "sm_80"],
                         True),
    "attention_forward_paged": ("kernels/attention_forward.mlir",
                                ["D=64", "T=bf16", "PACKED=true", "PAGE_ROWS=64", "CAUSAL=bottom_right"], [],
                                ["sm_90a", "sm_80"], True),
}
HEADER, CHECKED_FROM = 48, 32  # runtime/Bundle.h


def checksum(data):
    state = 0xcbf29ce484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return state


def read_bundle(data):
    """The manifest and the blobs."""
    manifest_bytes, count = struct.unpack_from("<QI", data, CHECKED_FROM)
    sizes = struct.unpack_from(f"<{count}Q", data, HEADER)
    at = HEADER + 8 * count + manifest_bytes
    blobs = []
    for size in sizes:
        at = (at + 15) // 16 * 16
        blobs.append(data[at:at + size])
        at += size
    return data[HEADER + 8 * count:][:manifest_bytes], blobs


def write_bundle(manifest, blobs):
    body = struct.pack("<QII", len(manifest), len(blobs), 0)
    body += b"".join(struct.pack("<Q", len(blob)) for blob in blobs) + manifest
    for blob in blobs:
        body += bytes(-(len(body) + CHECKED_FROM) % 16) + blob
    return b"TWBUNDLE" + struct.pack("<IIQQ", 1, 0, CHECKED_FROM + len(body), checksum(body)) + body


def cut_code(blob):
    """The part of PTX, or of a cubin, that a reader uses."""
    if not blob.startswith(b"\x7fELF"):
        head = re.findall(rb"^\.(?:version|target|address_size).*$", blob, re.MULTILINE)
        entries = re.findall(rb"\.entry\s+([\w$%]+)", blob)
        return b"\n".join(head + [b".visible .entry " + entry + b"() { ret; }" for entry in entries]) + b"\0"
    names = set(re.findall(rb"\.text\.([\w$]+)\0", blob))
    return b"\x7fELF\0" + b"".join(name + b"\0" for name in sorted(names))


def main():
    parent = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "test", "Unit", "Inputs", "bundles")
    tools = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "build", "bin")
    for name, (kernel, params, replacements, targets, is_cut) in FROZEN.items():
        with tempfile.TemporaryDirectory() as scratch:
            whole = os.path.join(scratch, "whole.twb")
            command = [os.path.join(tools, "tilewrightc"), kernel, "--emit=bundle", "-o", whole]
            command += [f"--param={param}" for param in params] + [f"--with={file}" for file in replacements]
            command += [f"--target={target}" for target in targets]
            subprocess.run(command, check=True, cwd=ROOT)
            with open(whole, "rb") as file:
                manifest, blobs = read_bundle(file.read())
        folder = os.path.join(parent, f"abi{json.loads(manifest)['abi']}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name + ".twb")
        with open(path, "wb") as file:
            file.write(write_bundle(manifest, [cut_code(blob) for blob in blobs] if is_cut else blobs))
        print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
