# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# pages_out_of_range.py KERNELS DEVICE
#
# Runs the kernels that read or write pages, without the constraints by which the host checks page numbers and lengths,
# in the current folder, on a device of tilewright-run.

import glob
import re
import shutil
import subprocess
import sys

import numpy as np

KERNELS, DEVICE = sys.argv[1:]
PAGES, ROWS, ZEROS, NONE = 6, 16, 5, 2**31 - 1
UNCHECKED = (r"within_first\(block_table, 0, dim\((k|k_pages), 0\), seq_lens, max\(dim\(\1, 1\), 1\)\)",
             r"within\(seq_lens, 0, ROOM \+ 1\)",
             r"within\(seq_lens, 0, (dim|select)\(.*\) \+ 1\)(?=,\n)")

rng = np.random.default_rng(1)


def pool(width):
    # Nothing reads the rows of page 0, which a number that wraps to 0 would. Those of the last page are zeros.
    x = rng.standard_normal((PAGES, ROWS, 1, width))
    x[0] = np.nan
    x[ZEROS] = 0
    return x


def scales():
    x = rng.uniform(0.5, 1, (PAGES, ROWS))
    x[0] = np.nan
    return x.reshape(PAGES * ROWS, 1)


def run(kernel, outputs, numbers, **arrays):
    """What a kernel writes. Arrays are NAME=(array, type); `outputs` are initial contents."""
    command = ["tilewright-run", *kernel.split(), "--device=" + DEVICE, "--quiet"]
    for name, x in numbers.items():
        np.save(name + ".npy", np.array(x, np.int32))
        command += ["--in", f"{name}={name}.npy"]
    for name, (x, of) in arrays.items():
        np.save(name + ".npy", x.astype(np.float32))
        command += ["--in", f"{name}={name}.npy:{of}"]
    for name, (x, of) in outputs.items():
        np.save(name + ".npy", x)
        command += ["--inout", f"{name}={name}.npy:{of}={name}.out.npy"]
    subprocess.run(command, check=True)
    return {name: np.load(name + ".out.npy") for name in outputs}


def unchecked():
    shutil.copytree(KERNELS + "/lib", "lib", dirs_exist_ok=True)
    for file in glob.glob(KERNELS + "/*.mlir"):
        text = open(file).read()
        for constraint in UNCHECKED:
            text = re.sub(constraint, "true", text)
        assert not re.search(r"within(_first)?\((block_table|seq_lens), 0, .*(ROOM|dim\(k)", text), file
        open(file.rsplit("/", 1)[1], "w").write(text)


def same(what, kernel, outputs, **arrays):
    """A page that does not exist reads as one of zeros, and a length is clamped to the room."""
    bad = np.array([[1, -1, 2, PAGES, 3, NONE], [-(2**31), 4, 2**28, 1, -(2**28), 2], [3, 2**28 + 1, -2, -16, 2, 9]])
    good = np.where((bad < 0) | (bad >= PAGES), ZEROS, bad)
    for lens, clamped in ([90, 96, 17], [90, 96, 17]), ([90, NONE, -3], [90, 96, 0]):
        got = run(kernel, outputs, {"block_table": bad, "seq_lens": lens}, **arrays)
        wanted = run(kernel, outputs, {"block_table": good, "seq_lens": clamped}, **arrays)
        for name, x in got.items():
            assert x.any() and np.isfinite(x).all(), (what, lens, name, x)
            assert x.tobytes() == wanted[name].tobytes(), (what, lens, name, np.argwhere(x != wanted[name]))
    print(what, "reads no page that does not exist")


def listed(what, kernel, **arrays):
    """Numbers of blocks outside of the keys are ignored, also those whose first key wraps to one of the sequence."""
    numbers = {"block_table": [[1, 2, 3, 4, 1, 2]] * 3, "seq_lens": [90, 96, 17]}
    lists = [1, -1, NONE, -(2**31), 2**26, 0, 2, -(2**26)], [1, 0]
    got, wanted = (run(kernel + " --param LISTED=true --param LIST_BLOCK_N=64 --param BLOCK_N=64", o, numbers
                       | {"kv_indices": [[[x]]], "kv_num_blocks": [[[len(x)]]]}, **arrays)["o"] for x in lists)
    assert got.any() and np.isfinite(got).all(), (what, got)
    assert got.tobytes() == wanted.tobytes(), (what, np.argwhere(got != wanted))
    print(what, "visits no block that does not exist")


def writes(what, kernel, numbers, slots):
    """Key n is written to slots[n], or nowhere if that is negative, and so are its factors."""
    new = rng.standard_normal((len(slots), 1, 32))
    outputs = {name: (np.zeros((PAGES, ROWS, 1, 32), np.float32), "e4m3") for name in ("k_pages", "v_pages")}
    outputs |= {name: (np.zeros((PAGES * ROWS, 1), np.float32), "f32") for name in ("k_scales", "v_scales")}
    got = run(f"attention_append.mlir --param T=f32 --param CACHE=e4m3 --param BY_TOKEN=true --param D=32 {kernel}",
              outputs, numbers, k=(new, "f32"), v=(new, "f32"))
    for name, x in got.items():
        written = np.flatnonzero(x.reshape(PAGES * ROWS, -1).any(axis=1))
        assert written.tolist() == sorted(slot for slot in slots if slot >= 0), (what, name, written)
    print(what, "writes no page or row that does not exist")


unchecked()
o = {"o": (np.zeros((3, 2, 2, 32), np.float16), "f16")}
o_mla = {"o": (np.zeros((3, 2, 2, 64), np.float16), "f16")}
q, q_mla = (rng.standard_normal((3, 2, 2, 32)), "f16"), (rng.standard_normal((3, 2, 2, 96)), "f16")
k, v, k_mla, latent, rope = pool(32), pool(32), (pool(96), "f16"), (pool(64), "e4m3"), (pool(32), "f16")
scaled = {"k_scales": (scales(), "f32"), "v_scales": (scales(), "f32")}
for rows in 16, 1:
    pages = f"--param T=f16 --param PAGE_ROWS={rows} "
    decode = pages + "--program attention_decode --param D=32 --param GROUP=2 --param ROWS=2 --scalar scale=0.2"
    forward = pages + "--param D=32 --scalar scale=0.2"
    mla = pages + "--param D=96 --param DV=64 --param GROUP=2 --scalar scale=0.2"
    tokens = " --param CACHE=e4m3 --param BY_TOKEN=true"
    same(f"decode, {rows}", f"attention_decode.mlir {decode}", o, q=q, k_pages=(k, "f16"), v_pages=(v, "f16"))
    same(f"decode in parts, {rows}", f"attention_decode.mlir {decode} --param SPLITS=3", o, q=q, k_pages=(k, "f16"),
         v_pages=(v, "f16"))
    listed(f"decode of lists, {rows}", f"attention_decode.mlir {decode}", q=q, k_pages=(k, "f16"), v_pages=(v, "f16"))
    same(f"decode of tokens, {rows}", f"attention_decode.mlir {decode}{tokens}", o, q=q, k_pages=(k, "e4m3"),
         v_pages=(v, "e4m3"), **scaled)
    same(f"forward, {rows}", f"attention_forward.mlir {forward}", o, q=q, k=(k, "f16"), v=(v, "f16"))
    listed(f"forward of lists, {rows}", f"attention_forward.mlir {forward} --param LIST_BLOCK_M=128", q=q, k=(k, "f16"),
           v=(v, "f16"))
    same(f"forward of tokens, {rows}", f"attention_forward.mlir {forward}{tokens}", o, q=q, k=(k, "e4m3"),
         v=(v, "e4m3"), **scaled)
    same(f"MLA, {rows}", f"attention_mla_decode.mlir --program attention_mla_decode {mla}", o_mla, q=q_mla, k_pages=k_mla)
    same(f"MLA of bytes, {rows}", f"attention_mla_decode_bytes.mlir --program attention_mla_decode_bytes {mla} "
         "--param SPANS=1", o_mla, q=q_mla, k_pages=latent, rope_pages=rope, k_scales=scaled["k_scales"])
    same(f"means, {rows}", f"block_means.mlir {pages}--param D=32 --param LIST_BLOCK_N=32 --scalar new_keys={NONE}",
         {"means": (np.zeros((3, 1, 3, 32), np.float16), "f16")}, k_pages=(k, "f16"))

# A row of a page that does not exist is the first row of the next page, or the last of the page before.
table = np.array([[-1, 1], [PAGES, 2], [NONE, 2**28], [3, -(2**31)]])
writes("append to a table", "--param PLACES=table", {"block_table": table, "seq_lens": [4, 20, 2, NONE]}, [-1, 36, -1, -1])
writes("append to sequences", "--param PLACES=sequences", {"seq_lens": [ROWS, 3, -1, -(2**31), NONE, ROWS - 1]},
       [-1, 19, -1, -1, -1, 95])
