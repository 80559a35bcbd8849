#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that tests assert all diagnostics.
#
#   scripts/diagnostics.py            fails if no test asserts a diagnostic of the sources, if an exception is not needed or
#                                     has no diagnostic, or if docs/reference/diagnostics.md is not up to date
#   scripts/diagnostics.py --write    writes docs/reference/diagnostics.md
#   scripts/diagnostics.py --list     prints the diagnostics that neither a test asserts nor an exception names
#
# --root DIR selects another tree.
#
# A diagnostic is a statement of the sources that calls one of REPORTERS, or prints to an InFlightDiagnostic, and contains
# constant text. A fragment is a part of its text without variable parts. A test asserts the diagnostic if the longest
# fragment occurs in a text that the test expects. These texts are: an expected-error; a line with a prefix that FileCheck
# looks for; an argument of a GoogleTest or Python assertion, or of a function that contains one; a table of such cases;
# an output block of a document. Docstrings, command lines and sources of kernels do not count. If several messages have
# the longest fragment, all fragments must occur. A test may also expect a part of the fragment, or the beginning of the
# message, if no other diagnostic has that part. A message of a tool is asserted only by a test that names the tool.
#
# scripts/diagnostics-without-test.json lists the exceptions: a file, the fragment, and the reason.

import ast
import json
import os
import re
import sys

SOURCES = ("base", "dialect", "lib", "passes", "runtime", "tools")
REFERENCE = os.path.join("docs", "reference", "diagnostics.md")
EXCEPTIONS = os.path.join("scripts", "diagnostics-without-test.json")

# Functions that make or print a message. Their arguments, and text printed to their results, are parts of the message.
REPORTERS = {
    "emitError", "emitOpError", "emitOptionalError", "createStringError", "makeError", "failure", "fail", "reject", "bad",
    "invalid", "missing", "unsupported", "reportUsage", "reportFailure", "error", "wrongKind",
}
# The function that returns a diagnostic, to which the message is printed.
PRINTED_TO = "report"
# Variables that hold a message: an assignment counts if a literal has four words or more.
HOLDERS = {"text", "message", "reason", "why"}
# Shorter text is too unspecific to be recognized.
LEAST_FRAGMENT = 6
LEAST_PART = 16
# If the longest fragment of a message is shorter than this, or is a part of other messages, a test must expect all
# fragments, in their order.
LEAST_ALONE = 16
# If all fragments of a message together are shorter than this, only tests of the same part of the tree count (BELONGS).
LEAST_ANYWHERE = 12
# The names of the tests of each folder of the sources.
BELONGS = {
    "dialect/Tile": r"^test/Dialect/(?!tgpu)", "dialect/Tgpu": r"^test/Dialect/tgpu", "passes/Tile": r"^test/Passes/tile-",
    "passes/Tgpu": r"^test/Passes/(tgpu|tile-to-tgpu)", "passes/Conversion": r"^test/Passes/convert-tgpu",
    "lib/Bundle": r"[Bb]undle", "lib/Codegen": r"Codegen|dump|report", "lib/CompilerApi": r"CompilerApi|null-pointers",
    "lib/Driver": r"Driver|^test/Tools", "lib/Interpreter/Simulator": r"[Ss]imulat", "lib/Interpreter": r"Interpreter|cpu-",
    "base/Layout": r"Layout", "base/Npy": r"[Nn]py", "base/Numeric": r"Numeric", "runtime": r"Runtime|bundle|runtime|python/tests",
    "tools/tilewright-bench": r"bench", "tools/tilewright-lsp-server": r"hostile|language", "tools": r"^test/Tools",
}
TRIMMED = " '\"`(),;:."
OR = ("or",)

TOKEN = re.compile(r'''
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | R"(?P<delimiter>[^()\s\\]*)\((?P<raw>.*?)\)(?P=delimiter)"
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<character>'(?:\\.|[^'\\\n])+')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\d[\w.']*)
  | (?P<space>\s+)
  | (?P<mark><<|::|->|.)''', re.DOTALL | re.VERBOSE)


def unescape(literal):
    """The text of a C++ or Python literal without its quotes."""
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "0": "\0"}.get(m[1], m[1]), literal)


def tokens(text):
    """Yields (kind, text, line), without comments and preprocessor directives."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE)
    line = 1
    for match in TOKEN.finditer(text):
        if match["string"]:
            yield "string", unescape(match["string"][1:-1]), line
        elif match["raw"] is not None:
            yield "string", match["raw"], line
        elif match["name"]:
            yield "name", match["name"], line
        elif match["mark"]:
            yield "mark", match["mark"], line
        elif match["number"] or match["character"]:
            yield "value", match[0], line
        line += match[0].count("\n")


def squeeze(text):
    return re.sub(r"\s+", " ", text)


class Diagnostic:
    def __init__(self, file, line, pieces):
        self.file, self.line, self.pieces = file, line, pieces
        # If one of two texts is a part of the message, the rest identifies it, if that is long enough.
        rest = [piece for i, piece in enumerate(pieces) if OR not in pieces[max(i - 2, 0):i + 3]]
        if max((len(piece.strip(TRIMMED)) for piece in rest if piece), default=0) < LEAST_ALONE:
            rest = pieces
        constant = [part for piece in rest if isinstance(piece, str)
                    for part in re.split(r"\n|%[a-z]|\{\d+\}", piece)]
        constant = [squeeze(part).strip(TRIMMED) for part in constant]
        self.fragment = max(constant, key=len, default="")
        self.length = sum(map(len, constant))
        self.pattern = self.make_pattern()
        folders = [folder for folder in BELONGS if file.startswith(folder + "/")]
        self.belongs = re.compile(BELONGS[max(folders, key=len)] if folders else "$^")
        self.constant = squeeze("\n".join(piece if isinstance(piece, str) else "" for piece in pieces))
        # The message of a tool is asserted by a test that runs it.
        self.tool = file.split("/")[1] if file.startswith("tools/") else None
        self.tests = []

    def make_pattern(self):
        """Matches text with the fragments in their order; for a condition, one side."""
        regex = ""
        for i, piece in enumerate(self.pieces):
            words = [squeeze(part).strip(TRIMMED) for part in re.split(r"\n|%[a-z]|\{\d+\}", piece)] \
                if isinstance(piece, str) else []
            regex += "" if not any(words) else ".*".join(re.escape(word) for word in words if word) + ".*"
            if piece is OR or OR in self.pieces[max(i - 2, 0):i + 3]:
                regex = ""    # the fragment determines the side
        return re.compile(rf"(?<!\w){regex.removesuffix('.*') or re.escape(self.fragment)}")

    def is_begun_by(self, text):
        """Whether the text ends with a beginning of the message that extends into its last fragment in the text."""
        first = self.pieces[0]
        if not isinstance(first, str) or OR in self.pieces or len(first.strip()) < 4 or first not in text:
            return False
        at, length = text.index(first), 0
        for piece in self.pieces:
            if piece is None:
                continue
            here = text.find(piece, at)
            if here < 0:
                rest = [text[i:] for i in range(at, len(text) - 7) if piece.startswith(text[i:])]
                return bool(rest) and length + len(rest[0]) >= LEAST_ALONE
            length += len(piece)
            at = here + len(piece)
        return False

    @property
    def text(self):
        """The message, with an ellipsis for each variable part."""
        text = "".join("…" if piece is None else " / " if piece is OR else piece for piece in self.pieces)
        return squeeze(re.sub(r"…[… ']*…", "…", text)).strip()


def statements(text):
    """Yields lists of tokens between the marks that end a statement or a block."""
    statement = []
    for token in tokens(text):
        if token[0] == "mark" and token[1] in ";{}":
            if statement:
                yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        yield statement


def pieces_of(statement):
    """The pieces from the first literal to the last: constant text, None for computed text, OR between the sides of a
    condition."""
    pieces, computed, apart = [], False, False
    for kind, text, _ in statement:
        if kind == "string" and re.fullmatch(r"tilewright[\w-]*", text):    # the name of a tool, before the message
            continue
        if kind == "string":
            if computed and pieces and pieces[-1] is not OR:
                pieces.append(None)
            if pieces and isinstance(pieces[-1], str) and not apart:
                pieces[-1] += text
            else:
                pieces.append(text)
            computed = apart = False
        elif text == "?":    # the condition is not printed
            computed, apart = False, True
        elif text == ":" and pieces:
            pieces += [None, OR] if computed else [OR]
            computed = False
        elif kind in ("name", "value"):
            computed = True
    if pieces and computed:
        pieces.append(None)
    return pieces


def is_sentence(text):
    return sum(word.isalpha() for word in text.split()) >= 4


def behind_call(statement, i):
    """The position after the parenthesis that closes the one at position i, if something is printed there."""
    depth = 0
    for j in range(i, len(statement)):
        if statement[j][0] == "mark":
            depth += {"(": 1, ")": -1}.get(statement[j][1], 0)
            if depth == 0:
                return j + 1 if j + 1 < len(statement) and statement[j + 1][1] == "<<" else None
    return None


def lambda_of(statement):
    """(name, parameter) of `auto name = [..](Type parameter) -> Type`, with one parameter."""
    marks = [text for _, text, _ in statement]
    if "=" not in marks[:-1] or marks[marks.index("=") + 1] != "[" or "(" not in marks:
        return None
    begin = marks.index("]") + 1 if "]" in marks else 0
    if begin >= len(marks) or marks[begin] != "(" or ")" not in marks[begin:] or "," in marks[begin:]:
        return None
    end = marks.index(")", begin)
    return (marks[marks.index("=") - 1], marks[end - 1]) if end > begin + 1 else None


def argument_of(statement, i):
    """The tokens between the parentheses at position i."""
    depth = 0
    for j in range(i, len(statement)):
        depth += {"(": 1, ")": -1}.get(statement[j][1], 0) if statement[j][0] == "mark" else 0
        if depth == 0:
            return statement[i + 1:j]
    return statement[i + 1:]


def whole_messages(text, streams):
    """The statements of a file, with each message in one piece: a call of a lambda that makes "must be X" or "expected
    X" from its argument is expanded, and text printed to a diagnostic that ends with "but got" follows its
    beginning."""
    forms, begins, pending = {}, {}, None
    for statement in statements(text):
        if pending:
            name, parameter = pending
            before = pieces_of(statement[:[t for _, t, _ in statement].index(parameter)]) \
                if parameter in [t for _, t, _ in statement] else []
            before = [piece for piece in before if piece]
            if before and isinstance(before[-1], str) and re.search(r"(expected|must be|but got) '?$", before[-1]):
                forms[name] = statement, parameter
                pending = None
                continue
            forms.pop(name, None)
            pending = None
        if (made := lambda_of(statement)) and made[0] in REPORTERS:
            pending = made
        for i, (kind, name, _) in enumerate(statement):
            follows = statement[i + 1][1] if i + 1 < len(statement) else ""
            if kind == "name" and name in forms and follows == "(":
                form, parameter = forms[name]
                at, whole = statement[i][2], []
                for token in form:
                    whole += argument_of(statement, i + 1) if token[1] == parameter else [token]
                statement = [(kind, text, at) for kind, text, _ in whole]
                break
            if kind == "name" and name in streams and follows in ("=", "("):
                constant = [piece for piece in pieces_of(statement[i:]) if piece]
                begins.pop(name, None)
                if constant and isinstance(constant[-1], str) and constant[-1].endswith("but got "):
                    begins[name] = statement[i + 1:]
                break
            if kind == "name" and name in begins and follows == "<<":
                statement = [(kind, name, statement[i][2]), ("mark", "<<", statement[i][2])] + begins[name] + statement[i + 1:]
                break
        yield statement


def diagnostics_of(root):
    found = []
    for file in sorted(source_files(root)):
        with open(os.path.join(root, file), encoding="utf-8") as source:
            text = source.read()
        streams = set(re.findall(r"\bInFlightDiagnostic\s*&?\s*(\w+)\s*[=,)(]", text))
        for statement in whole_messages(text, streams):
            start = None
            for i, (kind, name, _) in enumerate(statement):
                follows_kind, follows = statement[i + 1][:2] if i + 1 < len(statement) else ("", "")
                if kind == "name" and name in REPORTERS and follows == "(":
                    start = i
                    break
                if name == PRINTED_TO and follows == "(" and (printed := behind_call(statement, i + 1)):
                    start = printed
                    break
                if kind == "name" and name in streams and follows == "<<":
                    start = i
                    break
                if name == "return" and follows_kind == "string" and is_sentence(follows):    # a reason
                    start = i
                    break
                if kind == "name" and name in HOLDERS and follows == "=" and \
                        any(k == "string" and is_sentence(text) for k, text, _ in statement[i:]):
                    start = i
                    break
            if start is None:
                continue
            diagnostic = Diagnostic(file, statement[start][2], pieces_of(statement[start:]))
            if len(diagnostic.fragment) >= LEAST_FRAGMENT and re.search(r"[a-z]{2}", diagnostic.fragment):
                found.append(diagnostic)
    return found


def source_files(root):
    for top in SOURCES:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in files:
                if name.endswith((".cpp", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


# --- What tests expect


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


# --- The reference

# Files of passes/ that belong to one pass; files named after their pass are not listed.
HELPERS = {
    "BindParameters": "tile-specialize", "ApplyBindings": "tile-specialize", "ConstantEvaluator": "tile-specialize",
    "LinkLibraries": "tile-link", "LinkSymbols": "tile-link", "BlockTable": "tile-choose-blocks",
    "LoopStructure": "tile-choose-blocks", "LoopSteps": "tile-unroll", "ScalarGradients": "tile-differentiate",
    "CaptureGradients": "tile-differentiate", "Derivatives": "tile-differentiate", "GradientSums": "tile-differentiate",
    "KernelMapper": "tile-to-tgpu", "MapDot": "tile-to-tgpu", "MapBlockLoop": "tile-to-tgpu",
    "LayoutInference": "tile-to-tgpu", "PrepareKernel": "tile-to-tgpu", "ChooseWarps": "tile-to-tgpu",
    "PlanRoles": "tgpu-plan-schedule", "CopySlice": "tgpu-pipeline-copies", "RoleSlice": "tgpu-assign-roles",
    "RoleBodies": "tgpu-assign-roles", "RoleTiles": "tgpu-assign-roles", "RoleWriter": "tgpu-assign-roles",
    "StageParts": "tgpu-expand-stages", "Pipelines": "the pass pipelines",
}
AREAS = {
    "dialect/Tile": "The tile dialect: syntax and verifiers", "dialect/Tgpu": "The tgpu dialect: syntax and verifiers",
    "lib/Bundle": "Bundles, as the compiler writes them", "lib/Codegen": "Code generation",
    "lib/CompilerApi": "The C interface of the compiler", "lib/Driver": "Shared by the tools",
    "lib/Interpreter": "The CPU device", "lib/Interpreter/Simulator": "The simulator", "base/Layout": "Layouts",
    "base/Expr": "Expressions", "base/Npy": ".npy files", "base/Numeric": "Loops over tiles", "base/Target": "Targets", "runtime": "The runtime",
    "passes/Conversion": "The pass `convert-tgpu-to-nvvm`",
}
INTRODUCTION = """\
# Diagnostics

The error messages of the compiler, the tools and the runtime, grouped by the part that prints them. A message states
the violated rule; most messages then state what was found ("but got ..."), and some a remedy. The columns of a table
are these parts, in this order. An ellipsis marks text that depends on the program, and a slash separates alternatives.
Some rows, such as `it reads another value`, are the end of a message whose beginning is another row. The last column
names one test that asserts the message, or a unique part of it: by -verify-diagnostics, FileCheck, or an assertion of
GoogleTest or Python. Messages without a test are listed at the end, with the reason.

[Read an error](../guide/debug.md#read-an-error) shows messages in context.

`scripts/diagnostics.py` writes this file from the sources and the tests (`make docs`). A lit test fails if no test
asserts a message, or if this file is not up to date.
"""


def area_of(file, passes):
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    if folder.startswith("tools"):
        return f"The tool `{folder.split(os.sep)[1]}`"
    if folder == "passes/Conversion":
        return AREAS[folder]
    if folder.startswith("passes"):
        pass_name = HELPERS.get(stem) or next((p for p in passes if p.replace("-", "") in
                                               (x + stem.lower() for x in ("", "tile", "tgpu"))), None)
        if not pass_name and stem.startswith("VerifySync"):
            pass_name = "tgpu-verify-sync"
        return f"The pass `{pass_name}`" if pass_name in passes else "Shared by passes"
    return AREAS.get(folder, folder)


def cell(text):
    if not text:
        return ""
    text = text.strip()
    ticks = "``" if "`" in text else "`"
    pad = " " if ticks == "``" else ""
    return ticks + pad + text.replace("|", "\\|") + pad + ticks


def parts_of(text):
    """The rule, the part "but got", and the remedy."""
    rule, found, remedy = text, "", ""
    # A "but the" without a comma is an exception of the rule: "along a dimension but the innermost".
    if match := re.match(r"(.*?),? (but got\b.*)$", text) or re.match(r"(.*?), (but (?:it|there|the|this)\b.*)$", text):
        rule, found = match[1].rstrip(" ,"), match[2]
    whole = found or rule
    before, semicolon, after = whole.rpartition("; ")
    if semicolon:
        remedy = after
        rule, found = (rule, before) if found else (before, found)
    return rule, found, remedy


def reference(root, diagnostics, exceptions):
    with open(os.path.join(root, "passes", "Passes.td"), encoding="utf-8") as file:
        passes = re.findall(r'Pass<"([\w-]+)"', file.read())
    areas = {}
    for diagnostic in diagnostics:
        rows = areas.setdefault(area_of(diagnostic.file, passes), {})
        if diagnostic.tests:
            rows.setdefault(diagnostic.text, diagnostic.tests[0][2])
    order = ["The tool", "Shared by the tools", "The tile", "The pass", "Shared by passes", "The tgpu"]
    rank = {area: (next((i for i, start in enumerate(order) if area.startswith(start)), len(order)),
                   next((i for i, name in enumerate(passes) if f"`{name}`" in area), 0), area) for area in areas}
    out = [INTRODUCTION]
    for area in sorted(areas, key=rank.get):
        if not areas[area]:
            continue
        out += [f"## {area}", "", "| rule | found | remedy | test |", "|---|---|---|---|"]
        for text in sorted(areas[area], key=lambda t: (t.lstrip("…' ").lower(), t)):
            test = areas[area][text]
            link = os.path.relpath(test, os.path.dirname(REFERENCE))
            out.append("| " + " | ".join(cell(part) for part in parts_of(text)) + f" | [{os.path.basename(test)}]({link}) |")
        out.append("")
    out += ["## Without a test", "",
            "These messages require a fault of the system, or guard against internal errors.", "",
            "| message | where | why no test asserts it |", "|---|---|---|"]
    for diagnostic in sorted(diagnostics, key=lambda d: (d.file, d.text)):
        if not diagnostic.tests and (reason := exceptions.get((diagnostic.file, diagnostic.fragment))):
            row = f"| {cell(diagnostic.text)} | `{diagnostic.file}` | {reason} |"
            if row != out[-1]:
                out.append(row)
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[1:]
    root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if arguments[:1] == ["--root"]:
        root, arguments = arguments[1], arguments[2:]
    if arguments not in ([], ["--write"], ["--list"]):
        sys.exit("usage: diagnostics.py [--root DIR] [--write | --list]")
    with open(os.path.join(root, EXCEPTIONS), encoding="utf-8") as file:
        exceptions = {(entry["file"], text): entry["reason"] for entry in json.load(file) for text in entry["texts"]}
    diagnostics = diagnostics_of(root)
    assign(diagnostics, expectations(root))
    without = [d for d in diagnostics if not d.tests and (d.file, d.fragment) not in exceptions]
    needed = {(d.file, d.fragment) for d in diagnostics if not d.tests}
    mistakes = [f"{d.file}:{d.line}: no test asserts '{d.text}'; its longest constant fragment is '{d.fragment}'" for d in without]
    mistakes += [f"{EXCEPTIONS}: '{text}' of {file} is no longer needed: a test asserts it, or there is no such message"
                 for file, text in exceptions if (file, text) not in needed]
    text = reference(root, diagnostics, exceptions)
    path = os.path.join(root, REFERENCE)
    if arguments == ["--list"]:
        print("\n".join(mistakes))
        return 0
    if arguments == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        if file.read() != text:
            mistakes.append(f"{REFERENCE} is not up to date: run make docs, or scripts/diagnostics.py --write")
    excepted = sum(not d.tests for d in diagnostics) - len(without)
    asserted = len(diagnostics) - excepted - len(without)
    print("\n".join(mistakes + [f"{len(diagnostics)} diagnostics, {asserted} asserted by tests, {excepted} excepted, "
                                f"{len(mistakes)} mistakes"]))
    return 1 if mistakes or not diagnostics else 0


if __name__ == "__main__":
    sys.exit(main())
