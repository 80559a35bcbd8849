# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_blocks.py write SIZE   writes the inputs of batch_blocks.mlir for blocks of SIZE rows
# check_blocks.py first SIZE   compares first.npy with the definition in kernels/lib/batch.mlir, in 64 bits
# check_blocks.py found SIZE   compares found.npy

import sys

import numpy

command, size = sys.argv[1], int(sys.argv[2])
limit = 2**31 - 1
# Sequences and first rows at the limits of 32 bits, of the former formula, and of a block, as far as a grid of 2^31 - 1
# blocks has that sequence. The row after the last of b is one more than its first, so begins are 0 to 2^31 - 1.
corners = [0, 1, 2, size - 1, size, size + 1, limit // max(size - 1, 1), limit // max(size - 1, 1) + 1, limit // 2]
sequences = numpy.array([-1] + corners + [limit // 7, limit - size, limit - 2, limit - 1], numpy.int64)
begins = numpy.array(corners + [limit - 2 * size], numpy.int64)
b, begin = (x.ravel() for x in numpy.meshgrid(sequences, begins))
expected = (begin + (b + 1) * (size - 1)) // size
fits = expected <= limit
b, begin, expected = (numpy.resize(x[fits], 160) for x in (b, begin, expected))

# 40,000 sequences of 0, 1, 2, ... rows in turn, of which the first begins with row 5 and the last ends before the end.
lengths = numpy.arange(40000) % 4
cu = numpy.concatenate([[5], 5 + numpy.cumsum(lengths)])
total = int(cu[-1]) + 3
places = -(-total // size) + len(lengths) + 1
blocks = numpy.concatenate([numpy.arange(8), numpy.linspace(8, places - 9, 496).astype(int), numpy.arange(-8, 0) + places])
if command == "write":
    numpy.save("b.npy", b.astype(numpy.int32))
    numpy.save("begin.npy", begin.astype(numpy.int32))
    numpy.save("cu.npy", cu.astype(numpy.int32))
    numpy.save("block.npy", blocks.astype(numpy.int32))
elif command == "first":
    first = numpy.load("first.npy")
    assert first.tolist() == expected.tolist(), list(zip(b, begin, first, expected))
else:
    firsts = (cu + numpy.arange(1, len(cu) + 1) * (size - 1)) // size
    # Of the sequences that begin with a block, the last one: those before it have no rows there.
    sequence = numpy.searchsorted(firsts, blocks, side="right") - 1
    begins = numpy.where(sequence < 0, 0, cu[sequence])
    ends = numpy.where(sequence + 1 < len(cu), cu[numpy.minimum(sequence + 1, len(lengths))], total)
    numbers = numpy.where(sequence < 0, blocks, blocks - firsts[sequence])
    expected = numpy.stack([sequence, begins, ends - begins, numbers], axis=1)
    found = numpy.load("found.npy")
    assert found.tolist() == expected.tolist(), numpy.concatenate([found, expected], axis=1)[(found != expected).any(axis=1)]
