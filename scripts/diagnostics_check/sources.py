# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The diagnostics of the sources: statements that report constant text.

import os
import re

SOURCES = ("base", "dialect", "lib", "passes", "runtime", "tools")

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
    "passes/Tgpu": r"^test/Passes/(tgpu|tile-to-tgpu)",
    "passes/Blocks": r"^test/Passes/tile-choose", "passes/Conversion": r"^test/Passes/convert-tgpu",
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


def function_of(statement):
    """(name, last parameter) of `auto name = [..](Type parameter) -> Type`, or of a definition `Type name(Type at, Type
    parameter)`."""
    marks = [text for _, text, _ in statement]
    if "=" in marks[:-1] and marks[marks.index("=") + 1] == "[" and "]" in marks:
        name, begin = marks[marks.index("=") - 1], marks.index("]") + 1
    elif "(" in marks and not {"=", "return", ".", "?"} & set(marks) and "string" not in [kind for kind, *_ in statement]:
        name, begin = marks[marks.index("(") - 1], marks.index("(")
    else:
        return None
    if begin >= len(marks) or marks[begin] != "(" or ")" not in marks[begin:]:
        return None
    end = marks.index(")", begin)
    return (name, marks[end - 1]) if end > begin + 1 and statement[end - 1][0] == "name" else None


def argument_of(statement, i):
    """The tokens of the last argument between the parentheses at position i."""
    depth, begin = 0, i + 1
    for j in range(i, len(statement)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(statement[j][1], 0) if statement[j][0] == "mark" else 0
        if depth == 0:
            return statement[begin:j]
        if depth == 1 and statement[j][:2] == ("mark", ","):
            begin = j + 1
    return statement[begin:]


def whole_messages(text, streams):
    """The statements of a file, with each message in one piece: a call of a function that makes "must be X", "expected
    X" or "cannot be Y: X" from its last argument is expanded, and text printed to a diagnostic that ends with "but got" follows its
    beginning."""
    forms, begins, pending = {}, {}, None
    for statement in statements(text):
        if pending:
            (name, parameter), lines = pending
            before = pieces_of(statement[:[t for _, t, _ in statement].index(parameter)]) \
                if parameter in [t for _, t, _ in statement] else []
            before = [piece for piece in before if piece]
            if before and isinstance(before[-1], str) and re.search(r"(expected|must be|but got|cannot be .*:) '?$", before[-1]):
                forms[name] = statement, parameter
                pending = None
                continue
            forms.pop(name, None)
            pending = pending[0], lines - 1
            if not pending[1]:
                pending = None
        if (made := function_of(statement)) and made[0] in REPORTERS:
            pending = made, 2
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
