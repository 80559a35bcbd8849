# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The texts that tests expect, and which diagnostics they assert.

import ast
import os
import re

from diagnostics_check.sources import (LEAST_ALONE, LEAST_ANYWHERE, LEAST_FRAGMENT, LEAST_PART, TRIMMED, squeeze,
                                       tokens)


def of_lit(text):
    """The texts that -verify-diagnostics compares, and the lines with prefixes that a FileCheck of the file looks
    for."""
    lines = text.split("\n")
    prefixes = {"CHECK"}
    for match in re.finditer(r"-check-prefix(?:es)?[= ]\s*([\w,-]+)", text):
        prefixes.update(match[1].split(","))
    prefix = re.compile(rf"^\s*(?:(?://|#)\s*)?(?:{'|'.join(sorted(prefixes, key=len, reverse=True))})"
                        r"(?:-NEXT|-SAME|-DAG|-LABEL|-COUNT-\d+|-EMPTY)?(?:\{LITERAL\})?:\s*(.*)$")
    for number, line in enumerate(lines, 1):
        for match in re.finditer(r"expected-(?:error|note|remark|warning)(-re)?\s*(?:@[\w+-]+)?\s*\d*\+?\s*\{\{(.*)\}\}",
                                 line):
            yield number, re.sub(r"\{\{.*?\}\}", "…", match[2]) if match[1] else match[2]
        if match := prefix.match(line):
            yield number, re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]", "…", match[1])


GTEST = re.compile(r"(EXPECT|ASSERT)_\w+$")
# Words before a parenthesis that is not a call.
NO_CALL = {"", "for", "if", "while", "switch", "return", "string", "StringRef", "string_view", "Twine"}


def cpp_helpers(text):
    """The names of functions and lambdas that contain an assertion, with the names that each body calls."""
    kinds = [token for token in tokens(text)]
    helpers = {}
    for i, (_, mark, _) in enumerate(kinds):
        if mark != "{" or i == 0:
            continue
        j = i - 1
        while j > 0 and (kinds[j][1] in ("const", "override", "static", "mutable") or
                         (kinds[j][0] == "name" and kinds[j - 1][1] == "->")):
            j -= 2 if kinds[j - 1][1] == "->" else 1
        if kinds[j][1] != ")":
            continue
        depth = 0
        while j >= 0:
            depth += {")": 1, "(": -1}.get(kinds[j][1], 0) if kinds[j][0] == "mark" else 0
            if depth == 0:
                break
            j -= 1
        name = kinds[j - 1][1] if kinds[j - 1][0] == "name" else None
        if kinds[j - 1][1] == "]":    # of a lambda: auto name = [..](..) {
            while j >= 0 and kinds[j][1] != "[":
                j -= 1
            name = kinds[j - 2][1] if kinds[j - 1][1] == "=" else None
        if not name or name.startswith("TEST") or name in NO_CALL:
            continue
        depth, calls = 0, set()
        for k in range(i, len(kinds)):
            depth += {"{": 1, "}": -1}.get(kinds[k][1], 0) if kinds[k][0] == "mark" else 0
            if depth == 0:
                break
            if kinds[k][0] == "name":
                calls.add(kinds[k][1])
        helpers.setdefault(name, set()).update(calls)
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\((?:[^\n]*\\\n)*[^\n]*", text, re.MULTILINE):
        helpers.setdefault(match[1], set()).update(re.findall(r"\w+", match[0]))
    return helpers


def asserting(helpers):
    """The helpers that call a GoogleTest assertion, directly or indirectly."""
    found = set()
    while more := {name for name, calls in helpers.items() if name not in found and
                   any(GTEST.match(call) or call in found for call in calls - {name})}:
        found |= more
    return found


def of_cpp(text, helpers):
    """Arguments of assertions and of functions that assert, and tables of cases, that is, literals that are not
    arguments."""
    def counts():
        names = [name for name in stack if name not in NO_CALL]
        return not names and before != "<<" or any(GTEST.match(name) or name in helpers for name in names)

    stack, last, before, expected, line = [], None, "", "", 0
    for kind, value, at in tokens(text):
        if kind == "string" and last and last[0] == "string":
            expected += value
        elif kind == "string":
            before, expected, line = last[1] if last else "", value, at
        elif last and last[0] == "string" and counts():
            yield line, expected
        if kind == "mark" and value == "(":
            stack.append(last[1] if last and last[0] == "name" else "")
        elif kind == "mark" and value == ")" and stack:
            stack.pop()
        last = kind, value


ASSERTING = re.compile(r"_*(assert|expect|raises|reject|fail)\w*$", re.IGNORECASE)


def of_python(text):
    """Strings in assertions, functions that assert, comparisons, and tables of cases; not docstrings or arguments of
    other functions."""
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def name_of(call):
        return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")

    helpers = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not node.name.startswith("test")
               and any(isinstance(inner, (ast.Assert, ast.Raise)) or isinstance(inner, ast.Call) and ASSERTING.match(name_of(inner))
                       for inner in ast.walk(node))}

    def counts(node):
        if isinstance(parents[node], ast.Expr):
            return False
        calls = []
        while node in parents:
            node = parents[node]
            if isinstance(node, (ast.Assert, ast.Compare)):
                return True
            if isinstance(node, ast.Call):
                calls.append(name_of(node))
            if isinstance(node, ast.stmt):
                break
        return not calls or any(ASSERTING.match(call) or call in helpers for call in calls)

    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and counts(node):
            yield node.lineno, node.value
            if "\\" in node.value:
                yield node.lineno, re.sub(r"\\([^\w])", r"\1", node.value)


def of_document(text):
    lines, inside, directive = text.split("\n"), False, False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            inside = not inside and directive
        elif inside:
            yield number, line
        directive = line == "<!-- output -->"


def expectations(root):
    """Yields (file, line, text, tools) for the texts that tests expect; `tools` are those that the file names."""
    readers = {".mlir": of_lit, ".test": of_lit, ".cpp": of_cpp, ".h": of_cpp, ".py": of_python, ".md": of_document}
    # test/Docs tests the documents, which quote messages.
    tops = [os.path.join("test", name) for name in os.listdir(os.path.join(root, "test")) if name != "Docs"]
    tops += [os.path.join("python", "tests"), os.path.join("docs", "guide"), "README.md"]
    texts = {}
    for top in tops:
        path = os.path.join(root, top)
        walk = os.walk(path) if os.path.isdir(path) else [(root, [], [top] if os.path.exists(path) else [])]
        for folder, _, files in walk:
            for name in sorted(files):
                if os.path.splitext(name)[1] in readers:
                    file = os.path.relpath(os.path.join(folder, name), root)
                    with open(os.path.join(root, file), encoding="utf-8") as source:
                        texts[file] = source.read()
    calls = {}
    for file, text in texts.items():
        if file.endswith((".cpp", ".h")):
            for name, called in cpp_helpers(text).items():
                calls.setdefault(name, set()).update(called)
    helpers = asserting(calls)
    for file, text in texts.items():
        reader = readers[os.path.splitext(file)[1]]
        tools = frozenset(re.findall(r"tilewright[\w-]*", text))
        for line, expected in reader(text, helpers) if reader is of_cpp else reader(text):
            expected = squeeze(expected).strip()
            if len(expected) >= LEAST_FRAGMENT:
                yield file, line, expected, tools


def assign(diagnostics, expected):
    """Records for each diagnostic the tests that assert it, at most one per file; those that expect the whole message
    come first."""
    fragments = {}
    for diagnostic in diagnostics:
        fragments.setdefault(diagnostic.fragment, []).append(diagnostic)
    shared = {fragment for fragment in fragments
              if len({diagnostic.text for diagnostic in diagnostics if fragment in diagnostic.constant}) > 1}
    parts = {}
    for file, line, text, tools in expected:
        found = []
        for fragment, group in fragments.items():
            if fragment in text:
                for diagnostic in group:
                    is_whole = diagnostic.pattern.search(text) is not None
                    if is_whole or (len(fragment) >= LEAST_ALONE and fragment not in shared):
                        found.append((diagnostic, is_whole))
        for part in re.split(r"…|error: |'[\w.]+' op ", text):
            part = part.strip(TRIMMED)
            if len(part) >= LEAST_PART:
                if part not in parts:
                    holders = [d for d in diagnostics if part in d.constant]
                    parts[part] = holders if len({d.fragment for d in holders}) == 1 else []
                found += [(diagnostic, False) for diagnostic in parts[part]]
        begun = [diagnostic for diagnostic in diagnostics if diagnostic.is_begun_by(text)]
        if len({diagnostic.fragment for diagnostic in begun}) == 1:
            found += [(diagnostic, False) for diagnostic in begun]
        for diagnostic, is_whole in found:
            is_apart = diagnostic.belongs.search(file) is None
            if is_apart and diagnostic.length < LEAST_ANYWHERE:
                continue
            if diagnostic.tool and diagnostic.tool not in tools:
                continue
            if file not in (test for *_, test, _ in diagnostic.tests):
                diagnostic.tests.append((not is_whole, is_apart, file, line))
    for diagnostic in diagnostics:
        diagnostic.tests.sort()
