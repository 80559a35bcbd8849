# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_order.py write BLOCK LENGTH...   writes cu.npy and keys.npy for sequences of these lengths
# check_order.py check BLOCK LENGTH...   compares order.npy with the definition of @order_blocks (kernels/lib/pairs.mlir)
#
# A first LENGTH of the form BEFORE+BEHIND gives the rows before the first sequence, and after the last.

import sys

import numpy

command, size, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
before, behind = map(int, words.pop(0).split("+")) if "+" in words[0] else (0, 0)
lengths = [int(word) for word in words]
begins = before + numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int32)
rows = int(begins[-1]) + behind
# lib/batch.mlir: the number of the first block of sequence b.
places = -(-rows // size) + len(lengths) + 1
if command == "write":
    numpy.save("cu.npy", begins)
    numpy.save("keys.npy", numpy.zeros((1, 1, rows, 8), numpy.float32))
else:
    blocks = []
    for b, (begin, length) in enumerate(zip(begins, lengths)):
        count, first = -(-length // size), (begin + (b + 1) * (size - 1)) // size
        blocks += [(-(count - n), b, first + n) for n in range(count)]
    expected = [number for _, _, number in sorted(blocks)]
    expected += sorted(set(range(places)) - set(expected))
    order = numpy.load("order.npy")
    assert order.tolist() == expected, (order.tolist(), expected)
