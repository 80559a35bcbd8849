# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_grammar.py EXTENSION KERNELS REFERENCE: reads the JSON files of the extension, and fails if the grammar leaves an operation,
# a parameter, a type or a value of a kernel without a scope, or an operation or a keyword of the reference.

import glob
import json
import os
import re
import sys

extension, kernels, reference = sys.argv[1:]
parts = {os.path.basename(path): json.load(open(path, encoding="utf-8")) for path in glob.glob(os.path.join(extension, "*.json"))}
package = parts["package.json"]
for path in (package["main"], *(each["path"] for each in package["contributes"]["grammars"]),
             *(each["configuration"] for each in package["contributes"]["languages"])):
    assert os.path.exists(os.path.join(extension, path)), path
rules = [(re.compile(rule["match"] if "match" in rule else rule["begin"] + r"(?:\\.|[^\"\\])*" + rule["end"]), rule["name"])
         for rule in parts["tilewright.tmLanguage.json"]["patterns"]]
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")  # names of arguments in expressions, and predicates of comparisons


def words_of(line):
    """(word, scope) of a line; the first rule that matches at a place counts, as in an editor."""
    at = 0
    while at < len(line):
        found = [(match.start(), number, match, name) for number, (rule, name) in enumerate(rules) if (match := rule.search(line, at))]
        first = min(found, key=lambda each: each[:2], default=None)
        end = first[0] if first else len(line)
        for word in re.findall(r"[A-Za-z_][\w.]*", line[at:end]):
            yield word, None
        if not first:
            return
        yield first[2][0], first[3]
        at = max(first[2].end(), first[0] + 1)


count, files, bare = 0, glob.glob(os.path.join(kernels, "**", "*.mlir"), recursive=True), {}
for path in files:
    for line in open(path, encoding="utf-8"):
        for word, scope in words_of(line.rstrip("\n")):
            count += 1
            if scope is None and not PLAIN.fullmatch(word):
                bare.setdefault(word, os.path.basename(path))
text = open(reference, encoding="utf-8").read()
operations = sorted(set(re.findall(r"^### `(tile\.\w+)`", text, re.MULTILINE)))
keywords = {word for syntax in re.findall(r"operation ::=(.*?)```", text, re.DOTALL) for word in re.findall(r"`([a-z][a-z_]*)`", syntax)}
for word in operations + sorted(keywords):
    if any(scope is None for _, scope in words_of(word)):
        bare[word] = os.path.basename(reference)
for word, path in bare.items():
    print(f"{path}: '{word}' has no color")
print(f"{count} words of {len(files)} kernels, {len(operations)} operations, {len(keywords)} keywords")
sys.exit(bool(bare))
