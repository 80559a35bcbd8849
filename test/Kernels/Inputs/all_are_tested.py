# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# all_are_tested.py KERNELS TESTS ACCEPTANCE: each .mlir file in KERNELS must have a test, by which is meant
#
#   - a RUN line of a .test file in TESTS that compiles or runs the file and checks the result: it calls tilewright-run,
#     or pipes what tilewrightc or a pipeline of tilewright-opt prints to FileCheck or another program. A comment, an
#     expected failure (`not`) and --verify-roundtrip are none.
#   - or a call of the acceptance suite, whose sources in ACCEPTANCE name the file in a literal, "mods/alibi"; the list of
#     modifiers, ShippedMods.cpp, has names without folders.
#
# A library is tested if a tested file links it.

import glob
import os
import re
import sys


def commands_of(text):
    """Returns the commands of a lit test, with its own substitutions replaced."""
    defined, commands, pending = {}, [], None
    for line in text.splitlines():
        found = re.match(r"^\W*(RUN|DEFINE|REDEFINE):\s*(.*)$", line)
        if not found:
            continue
        kind, command = found.groups()
        if pending:
            kind, command = pending[0], pending[1] + " " + command
        pending = (kind, command[:-1].rstrip()) if command.endswith("\\") else None
        if pending:
            continue
        if kind == "RUN":
            for _ in range(8):  # substitutions name others
                command = re.sub(r"%\{[\w-]+\}", lambda name: defined.get(name[0], name[0]), command)
            commands.append(command)
        else:
            name, _, value = command.partition("=")
            defined[name.strip()] = value.strip()
    return commands


def tests(command):
    """Returns whether a command checks what a kernel computes, or what it is compiled to."""
    if re.match(r"\s*not\s", command) or "--verify-roundtrip" in command:
        return False
    if "tilewright-run" in command:
        return True
    compiles = "tilewrightc" in command or ("tilewright-opt" in command and "pipeline" in command)
    return compiles and re.search(r"\|\s*\S|&&|%python", command) is not None


def main():
    kernels, folder, acceptance = sys.argv[1:]
    files = [os.path.relpath(f, kernels) for f in glob.glob(os.path.join(kernels, "**", "*.mlir"), recursive=True)]
    checked = [
        command
        for path in glob.glob(os.path.join(folder, "*.test"))
        for command in commands_of(open(path).read())
        if tests(command)
    ]
    code = ""
    for path in glob.glob(os.path.join(acceptance, "*.cpp")):
        text = re.sub(r"//.*", "", open(path).read())
        code += re.sub(r'\{"(\w+)",', r'{"mods/\1",', text) if path.endswith("ShippedMods.cpp") else text
    tested = {
        file
        for file in files
        if f'"{file[:-5]}"' in code
        or any(re.search(re.escape("%kernels/" + file) + r"(?!\w)", command) for command in checked)
    }
    links = {
        file: {
            os.path.normpath(os.path.join(os.path.dirname(file), linked))
            for links in re.findall(r'^tile\.link ("[^"]*"(?:,\s*"[^"]*")*)', open(os.path.join(kernels, file)).read(), re.M)
            for linked in re.findall(r'"([^"]*)"', links)
        }
        for file in files
    }
    while True:
        more = {linked for file in tested for linked in links[file]} & set(files) - tested
        if not more:
            break
        tested |= more
    missing = sorted(set(files) - tested)
    if not files or missing:
        sys.exit("no test compiles or runs: " + (", ".join(missing) or "there are no kernels"))


main()
