#!/usr/bin/python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the programs and libraries below a folder need nothing but glibc and each other at run time, and no symbol of
glibc that is newer than 2.34 (RHEL 9; Ubuntu 22.04 has 2.35), and prints the newest version of glibc that they need:

    scripts/check-binaries.py FOLDER [--newest 2.34]      --newest: the newest version that they may need
"""

import argparse
import os
import re
import subprocess
import sys

NEWEST = (2, 34)
GLIBC = re.compile(r"^(lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux-x86-64\.so\.2)$")


def is_elf(path):
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def dump(flag, path):
    return subprocess.run(["objdump", flag, path], check=True, stdout=subprocess.PIPE, text=True).stdout


def read_needs(path):
    """The libraries that a file needs, and the symbols of glibc by version, a tuple of numbers."""
    headers = dump("-p", path)
    symbols = {}
    # Versions may be needed without a symbol, as that of a loader which knows compact relocations.
    for version in re.findall(r"^ +0x\S+ 0x\S+ \d+ (GLIBC_\S+)$", headers, re.MULTILINE):
        symbols.setdefault(parse_version(version), set())
    for version, symbol in re.findall(r"\*UND\*\s+[0-9a-f]+ +\(?(GLIBC_[^\s)]+)\)? +(\S+)$", dump("-T", path),
                                      re.MULTILINE):
        symbols.setdefault(parse_version(version), set()).add(symbol)
    return re.findall(r"^ +NEEDED +(\S+)$", headers, re.MULTILINE), symbols


def parse_version(name):
    """The first two numbers of GLIBC_2.2.5. One that is not known counts as too new."""
    if name == "GLIBC_ABI_DT_RELR":
        return 2, 36
    numbers = re.match(r"GLIBC_(\d+)\.(\d+)", name)
    return (int(numbers[1]), int(numbers[2])) if numbers else (999, 0)


def format_version(version):
    return ".".join(map(str, version))


def describe_newer(symbols, newest):
    """What is newer in the symbols of a file, or none: "2.36 (arc4random; 2.35: _dl_find_object)"."""
    newer = [version for version in sorted(symbols, reverse=True) if version > newest]
    if not newer:
        return None
    lists = ["no symbol" if not symbols[version] else ", ".join(sorted(symbols[version])) for version in newer]
    others = [f"{format_version(version)}: {text}" for version, text in zip(newer[1:], lists[1:])]
    return f"{format_version(newer[0])} ({'; '.join(lists[:1] + others)})"


def check(folder, newest=NEWEST):
    """The mistakes, and the newest version of glibc that any file needs."""
    files = [os.path.join(place, name) for place, _, names in sorted(os.walk(folder)) for name in sorted(names)]
    names = {os.path.basename(file) for file in files}
    mistakes, needed = [], (0, 0)
    binaries = [file for file in files if is_elf(file)]
    for file in binaries:
        libraries, symbols = read_needs(file)
        needed = max(needed, *symbols, (0, 0))
        mistakes += [f"{os.path.relpath(file, folder)} needs {library}, which is neither of glibc nor in the folder"
                     for library in libraries if not GLIBC.match(library) and library not in names]
        newer = describe_newer(symbols, newest)
        if newer:
            mistakes.append(f"{os.path.relpath(file, folder)} needs glibc {newer}, but {format_version(newest)} is the "
                            "newest that may be; base/Glibc can define what static libraries call")
    if not binaries:
        mistakes.append(f"{folder} must hold programs or libraries, but has none")
    return mistakes, needed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--newest", default=format_version(NEWEST), help="the newest version of glibc that is allowed")
    options = parser.parse_args()
    mistakes, needed = check(options.folder, tuple(map(int, options.newest.split("."))))
    for mistake in mistakes:
        print(f"check-binaries: {mistake}", file=sys.stderr)
    if mistakes:
        sys.exit(1)
    print("glibc", format_version(needed))


if __name__ == "__main__":
    main()
