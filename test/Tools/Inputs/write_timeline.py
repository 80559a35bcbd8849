# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes traces with libtilewright.so through Python, from a bundle and buffers with chunks of a given number of words;
# and prints the additional arguments of the plan of an attention kernel in another bundle.

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "bench"))

from gpubench.library import AttentionForward, Library, TilewrightError  # noqa: E402
from gpubench.places import find_library  # noqa: E402

bundle_path, words = sys.argv[1], int(sys.argv[2])
library = Library(find_library())
bundle = library.open(bundle_path)
buffer = bytearray(8 * words * 3)
library.write_timeline(bundle, bytes(buffer), "trace.json")
trace = json.load(open("trace.json"))
print(f"events {len(trace['traceEvents'])}, chunks {trace['otherData']['chunks written']}")

data = open(bundle_path, "rb").read()
manifest_size, num_blobs = struct.unpack_from("<QI", data, 32)
tag = json.loads(data[48 + 8 * num_blobs:][:manifest_size])["kernels"][0]["timeline"]["tag"]
struct.pack_into("<I", buffer, 0, 1)
struct.pack_into("<IIIIQQQQ", buffer, 8 * words, tag, 0, 5, 3, 1000, 0, 2000, 1500)
library.write_timeline(bundle, bytes(buffer), "trace.json")
names = [event["args"]["name"] for event in json.load(open("trace.json"))["traceEvents"] if event["ph"] == "M"]
print("one chunk: " + ": ".join(names))
try:
    library.write_timeline(library.open("plain.twb"), bytes(buffer), "trace.json")
except TilewrightError as error:
    print(f"plain: {error}")
print("captures:", *AttentionForward(library, library.open(sys.argv[3]), "bf16", 64, "none").captures())
