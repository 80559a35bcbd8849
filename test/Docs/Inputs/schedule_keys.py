# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   schedule_keys.py ROOT < MESSAGE
#
# Compares the keys of --schedule, which the compiler lists in the message about an unknown key, with the documents that
# name them: the tables of docs/guide/schedule.md, the description of tgpu-plan-schedule, and the parameters of the
# attributes that record a schedule. Prints a line for each difference, and exits with 1 if there is one.

import os
import re
import sys


def part(text, begin, end):
    """The text between two patterns."""
    start = re.search(begin, text, re.MULTILINE)
    rest = text[start.end():] if start else ""
    stop = re.search(end, rest, re.MULTILINE)
    return rest[:stop.start()] if stop else rest


def read(root, *path):
    with open(os.path.join(root, *path), encoding="utf-8") as file:
        return file.read()


def main():
    listed = re.search(r"expected one of ([\w, ]+), but got", sys.stdin.read())
    keys = re.split(r", | and ", listed[1]) if listed else []
    differences = [] if keys else ["the message lists no keys"]
    root = sys.argv[1]

    guide = part(read(root, "docs", "guide", "schedule.md"), r"^## Change the schedule$", r"^## ")
    tables = "".join(re.findall(r"^\| key \| meaning \|\n(?:\|.*\n)+", guide, re.MULTILINE))
    rows = [name for row in re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    differences += [f"docs/guide/schedule.md has no row for {key}" for key in keys if key not in rows]
    differences += [f"docs/guide/schedule.md has a row for {row}, which is no key" for row in rows if row not in keys]

    described = part(read(root, "passes", "Passes.td"), r'^def \w+ : Pass<"tgpu-plan-schedule"', r"^}$")
    differences += [f"the description of tgpu-plan-schedule does not name {key}" for key in keys
                    if not re.search(rf"`{key}\b", described)]

    attributes = read(root, "dialect", "Tgpu", "TgpuAttrs.td")
    for name in ("Schedule", "RoleSchedule"):
        parameters = re.findall(r":\$(\w+)", part(attributes, rf'Tgpu_Attr<"{name}",', r"^}$"))
        differences += [f"#tgpu.{name} has {parameter}, which is no key" for parameter in parameters if parameter not in keys]
        differences += [] if parameters else [f"#tgpu.{name} has no parameters"]
    print("\n".join(differences + [f"{len(keys)} keys, {len(differences)} differences"]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
