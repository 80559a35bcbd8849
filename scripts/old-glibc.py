#!/usr/bin/python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes copies of this machine's glibc that have no symbol newer than a version, to run programs as on an older system:

    scripts/old-glibc.py FOLDER [--newest 2.34] [--with PROGRAM]...
    FOLDER/ld-linux-x86-64.so.2 --library-path FOLDER PROGRAM ARGUMENT...

The versions of newer symbols get other names, by which nothing finds them: what needs one does not load, with the message
of an older glibc. --with copies a program of this machine, as its Python, with all libraries that it loads, and with the
same names, so that it still runs. The code is that of this machine: this shows what binaries demand, not how an older
glibc works."""

import argparse
import os
import re
import struct
import subprocess

LIBRARIES = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"]
FOLDER = "/lib/x86_64-linux-gnu"
VERDEF, VERNEED = 0x6FFFFFFD, 0x6FFFFFFE


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ ((value & 0xF0000000) >> 24)) & 0x0FFFFFFF
    return value


def sections(data):
    """(type, offset, the index of a linked section, entries) of each section."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for at in range(table, table + size * count, size):
        _, kind, _, _, offset, _, link, entries = struct.unpack_from("<IIQQQQII", data, at)
        yield kind, offset, link, entries


def hide(data, newest):
    """Renames the versions above `newest`, where they are defined and where they are needed; returns their names."""
    table, names = list(sections(data)), set()

    def rename(hash_at, hash_format, name_at):
        end = data.index(0, name_at)
        found = re.fullmatch(rb"(?:GLIBC|OTHER)_(\d+)\.(\d+)", data[name_at:end])
        if not found or (int(found[1]), int(found[2])) <= newest:
            return
        names.add(data[name_at:end].decode().replace("OTHER", "GLIBC"))
        data[name_at:name_at + 5] = b"OTHER"  # where both tables share the text, it is renamed already
        struct.pack_into(hash_format, data, hash_at, elf_hash(data[name_at:end]))

    for kind, offset, link, entries in table:
        if kind not in (VERDEF, VERNEED):
            continue
        strings, at = table[link][1], offset
        for _ in range(entries):
            if kind == VERDEF:  # the first name is that of the version
                aux, after = struct.unpack_from("<II", data, at + 12)
                name, = struct.unpack_from("<I", data, at + aux)
                rename(at + 8, "<I", strings + name)
            else:
                count, = struct.unpack_from("<H", data, at + 2)
                aux, after = struct.unpack_from("<II", data, at + 8)
                need = at + aux
                for _ in range(count):
                    name, further = struct.unpack_from("<II", data, need + 8)
                    rename(need, "<I", strings + name)
                    need += further
            at += after
    return names


def write_copy(source, target, newest):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    names = hide(data, newest)
    with open(target, "wb") as file:
        file.write(data)
    os.chmod(target, 0o755)
    return names


def list_libraries(program):
    """The files of all libraries that a program loads when it starts."""
    text = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--newest", default="2.34")
    parser.add_argument("--with", dest="programs", action="append", default=[])
    options = parser.parse_args()
    newest = tuple(map(int, options.newest.split(".")))
    os.makedirs(options.folder, exist_ok=True)
    files = {name: os.path.join(FOLDER, name) for name in LIBRARIES}
    for program in options.programs:
        for file in [program] + list_libraries(program):
            files.setdefault(os.path.basename(file), file)
    hidden = set()
    for name, file in files.items():
        hidden |= write_copy(file, os.path.join(options.folder, name), newest)
    print("without", *sorted(hidden))


if __name__ == "__main__":
    main()
