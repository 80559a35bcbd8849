#!/usr/bin/python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the programs and libraries below a folder need nothing but glibc and each other at run time, and prints the
newest version of glibc that they need:

    scripts/check-binaries.py FOLDER [--newest 2.36]      --newest: the newest version that they may need
"""

import argparse
import os
import re
import subprocess
import sys

GLIBC = re.compile(r"^(lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux-x86-64\.so\.2)$")


def is_elf(path):
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def dump(flag, path):
    return subprocess.run(["objdump", flag, path], check=True, stdout=subprocess.PIPE, text=True).stdout


def read_needs(path):
    """The libraries that a file needs, and the newest version of glibc, as a tuple of numbers."""
    libraries = re.findall(r"^ +NEEDED +(\S+)$", dump("-p", path), re.MULTILINE)
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", dump("-T", path))
    return libraries, max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def check(folder):
    """The mistakes, and the newest version of glibc that any file needs."""
    files = [os.path.join(place, name) for place, _, names in sorted(os.walk(folder)) for name in sorted(names)]
    names = {os.path.basename(file) for file in files}
    mistakes, newest = [], (0, 0)
    binaries = [file for file in files if is_elf(file)]
    for file in binaries:
        libraries, version = read_needs(file)
        newest = max(newest, version)
        mistakes += [f"{os.path.relpath(file, folder)} needs {library}, which is neither of glibc nor in the folder"
                     for library in libraries if not GLIBC.match(library) and library not in names]
    if not binaries:
        mistakes.append(f"{folder} must hold programs or libraries, but has none")
    return mistakes, newest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--newest", default="2.36",
                        help="the newest version of glibc that is allowed; the default is that of Debian 12")
    options = parser.parse_args()
    mistakes, newest = check(options.folder)
    if newest > tuple(map(int, options.newest.split("."))):
        mistakes.append(f"glibc {newest[0]}.{newest[1]} is needed, but {options.newest} is the last that may be")
    for mistake in mistakes:
        print(f"check-binaries: {mistake}", file=sys.stderr)
    if mistakes:
        sys.exit(1)
    print(f"glibc {newest[0]}.{newest[1]}")


if __name__ == "__main__":
    main()
