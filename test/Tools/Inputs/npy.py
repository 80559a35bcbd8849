# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# npy.py make FILE DTYPE SHAPE [EXPRESSION]   writes an array; in the expression, n is 0, 1, 2, ... in the array's shape
# npy.py show FILE...                         prints dtype, shape and elements
# npy.py raw FILE BYTES                       writes bytes, written as in a Python string
# npy.py header FILE HEADER [COUNT]           writes a version 1.0 file with this header and COUNT zero bytes

import sys

command, file, *rest = sys.argv[1:]
if command in ("make", "show"):
    import numpy as np  # only here, since the import is slow

if command == "make":
    shape = tuple(int(extent) for extent in rest[1].split("x")) if rest[1] else ()
    n = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    np.save(file, np.asarray(eval(rest[2]) if len(rest) > 2 else n, dtype=rest[0]))
elif command == "show":
    for name in [file, *rest]:
        array = np.load(name)
        print(array.dtype, array.shape, " ".join(f"{x:g}" for x in array.ravel().tolist()))
elif command == "raw":
    with open(file, "wb") as stream:
        stream.write(rest[0].encode().decode("unicode_escape").encode("latin-1"))
elif command == "header":
    header = rest[0].encode() + b"\n"
    with open(file, "wb") as stream:
        stream.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(int(rest[1]) if rest[1:] else 0))
else:
    sys.exit(f"npy.py: unknown command {command}")
