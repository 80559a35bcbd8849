# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# edit_bundle.py BUNDLE RESULT OLD NEW: replaces the text OLD, which must occur once in a bundle, by NEW, which may be shorter,
# and updates the checksum in the header.

import sys


def main():
    source, result, old, new = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    old, new = old.encode(), new.encode()
    if data.count(old) != 1 or len(new) > len(old):
        sys.exit(f"{source} holds the text {data.count(old)} times")
    data = bytearray(data.replace(old, new.ljust(len(old))))
    state = 0xCBF29CE484222325    # FNV-1a, as runtime/Checksum.h
    for byte in data[32:]:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    data[24:32] = state.to_bytes(8, "little")
    with open(result, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
