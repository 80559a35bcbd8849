#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks the Markdown files of the tree.
#
#   scripts/check-docs.py [ROOT]           checks every file, prints one line for each mistake, and exits with 1 if there is one
#   scripts/check-docs.py --wrap FILE...   breaks the paragraphs that have a line of more than 120 columns
#
# What is checked:
#
#   links       a relative link leads to a file or folder of the tree, and an anchor to a heading of that file
#   line length at most 120 columns outside of tables, code blocks and the targets of links. In generated files, lists
#               that mlir-tblgen writes on one line are exempt
#   headings    one of level 1, the first; no level is skipped. Generated files are exempt
#   guide       a test in test/Docs runs each page of docs/guide; a page has less than 300 lines
#   design      a page of docs/design does not name the log of measurements: it states the figure that decided
#   site        docs/mkdocs.yml, where there is one, lists each file once

import fnmatch
import os
import re
import sys
import textwrap

COLUMNS = 120
GUIDE_LINES = 300
GENERATED = ("docs/reference/*", "docs/support-matrix*.md")
LIST_OF_TBLGEN = re.compile(r"(Traits|Interfaces|Effects): `|<tr>")

FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
CODE_SPAN = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
EXPLICIT_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")


def markdown_files(root):
    """Paths relative to the root, without build folders and hidden files."""
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = sorted(name for name in folders
                            if not name.startswith(".") and not (inside == "." and name.startswith("build")))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.normpath(os.path.join(inside, name))


def is_generated(name):
    return any(fnmatch.fnmatch(name, pattern) for pattern in GENERATED)


def mark_code(lines):
    """For each line, whether it is in a code block or is its fence."""
    code, fence, blank_before, in_list = [], None, True, False
    for line in lines:
        match = FENCE.match(line)
        if fence:
            code.append(True)
            if match and match[1].startswith(fence) and line.strip() == match[1]:
                fence = None
        elif match:
            fence = match[1]
            code.append(True)
        else:
            indented = line.startswith("    ") and line.strip() and (blank_before or (code and code[-1]))
            code.append(bool(indented and not in_list))
            if line.strip() and not line.startswith(" "):
                in_list = bool(ITEM.match(line))
        blank_before = not line.strip()
    return code, fence


def heading_text(text):
    """The visible text of a heading: without links, images and code marks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("`", "").replace("**", "").replace("\\", "")


def slug(text):
    """The anchor of a heading in GitHub's format; scripts/make-site.py writes it into the site."""
    text = re.sub(r"[^\w\- ]", "", heading_text(text).strip().lower())
    return text.replace(" ", "-")


class Document:
    def __init__(self, root, name):
        self.name = name
        with open(os.path.join(root, name), encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.code, self.open_fence = mark_code(self.lines)
        self.headings, self.anchors, self.heading_anchors, used = [], set(), [], {}
        for number, (line, code) in enumerate(zip(self.lines, self.code), 1):
            match = None if code else HEADING.match(line)
            if match:
                self.headings.append((number, len(match[1])))
                anchor = slug(match[2])
                count = used.get(anchor, 0)
                used[anchor] = count + 1
                anchor = f"{anchor}-{count}" if count else anchor
                self.anchors.add(anchor)
                self.heading_anchors.append((number, anchor))
            if not code:
                self.anchors.update(EXPLICIT_ANCHOR.findall(line))

    def links(self):
        """(line, target) of every link outside code."""
        text = "\n".join("" if code else line for line, code in zip(self.lines, self.code))
        # Links in inline code do not count; the code is blanked, so that positions do not change.
        text = CODE_SPAN.sub(lambda m: re.sub(r"[^\n]", "x", m[0]), text)
        for pattern in (LINK, DEFINITION):
            for match in pattern.finditer(text):
                yield text.count("\n", 0, match.end()) + 1, match[1]

    def long_lines(self):
        generated = is_generated(self.name)
        for number, (line, code) in enumerate(zip(self.lines, self.code), 1):
            if code or line.lstrip().startswith("|") or len(line) <= COLUMNS:
                continue
            if generated and LIST_OF_TBLGEN.match(line):
                continue
            if len(re.sub(r"\]\([^)]*\)", "]", line)) > COLUMNS:
                yield number, len(line)


def check_links(root, documents, document, report):
    folder = os.path.dirname(document.name)
    for number, target in document.links():
        if re.match(r"^[a-zA-Z][a-zA-Z+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        if path.startswith("/"):
            report(document, number, f"the link to '{target}' must be relative")
            continue
        name = os.path.normpath(os.path.join(folder, path)) if path else document.name
        if name.startswith(".."):
            report(document, number, f"the link to '{target}' must stay in the tree")
        elif not os.path.exists(os.path.join(root, name)):
            report(document, number, f"the link to '{target}' leads to no file")
        elif anchor and name in documents and anchor not in documents[name].anchors:
            report(document, number, f"the link to '{target}' names no heading of {name}")


def check_headings(document, report):
    before = 0
    for position, (number, level) in enumerate(document.headings):
        if (level == 1) != (position == 0):
            report(document, number, "a file must have one heading of level 1, as its first")
        elif level > before + 1:
            report(document, number, f"a heading of level {level} must not follow one of level {before}")
        before = level


def check_guide(root, documents, report):
    tests = ""
    for folder, _, files in os.walk(os.path.join(root, "test", "Docs")):
        for name in files:
            if name.endswith(".test"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    tests += file.read()
    for name, document in documents.items():
        if name.startswith("docs/guide/"):
            if not re.search(rf"%document {re.escape(name)}\s", tests):
                report(document, 1, "a test in test/Docs must run this page (%document)")
            if len(document.lines) > GUIDE_LINES:
                report(document, GUIDE_LINES, f"a page of the guide must have less than {GUIDE_LINES} lines")


def check_design(documents, report):
    for name, document in documents.items():
        if not name.startswith("docs/design/"):
            continue
        for number, line in enumerate(document.lines, 1):
            if re.search(r"performance[- ]log", line):
                report(document, number, "a page of the design must not name the performance log; state the figure that "
                       "decided, or link to a table of docs/performance.md")


def check_site(root, documents, report):
    path = os.path.join(root, "docs", "mkdocs.yml")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        listed = re.findall(r"^\s*- .*:\s+(\S+\.md)\s*$", file.read(), re.MULTILINE)
    for name, document in documents.items():
        if listed.count(name) != 1:
            report(document, 1, f"docs/mkdocs.yml must list this file once, but does so {listed.count(name)} times")
    for name in sorted(set(listed) - set(documents)):
        report(documents[min(documents)], 1, f"docs/mkdocs.yml lists '{name}', but there is no such file")


def check(root):
    documents = {name: Document(root, name) for name in markdown_files(root)}
    mistakes = []

    def report(document, number, message):
        mistakes.append(f"{document.name}:{number}: {message}")

    for document in documents.values():
        if document.open_fence:
            report(document, len(document.lines), "a code block is not closed")
        check_links(root, documents, document, report)
        if not is_generated(document.name):
            check_headings(document, report)
        for number, columns in document.long_lines():
            report(document, number, f"a line must have at most {COLUMNS} columns, but has {columns}")
    check_guide(root, documents, report)
    check_design(documents, report)
    check_site(root, documents, report)
    print("\n".join(mistakes + [f"{len(documents)} files, {len(mistakes)} mistakes"]))
    return 1 if mistakes or not documents else 0


def wrap(path):
    """Wraps each paragraph and each list item that has a long line."""
    document = Document(os.path.dirname(path) or ".", os.path.basename(path))
    long_lines = {number - 1 for number, _ in document.long_lines()}
    out, paragraph = [], []

    def flush():
        if any(i in long_lines for i in paragraph):
            lines = [document.lines[i] for i in paragraph]
            item = ITEM.match(lines[0])
            first = item[0] if item else re.match(r"\s*", lines[0])[0]
            rest = " " * len(first)
            text = " ".join([lines[0][len(first):]] + [line.strip() for line in lines[1:]])
            broken = textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False,
                                   break_on_hyphens=False)
            for i in range(1, len(broken)):    # a line must not begin like an item, a heading or a table
                if re.match(r"\s*([-*+#|>]|\d+[.)])(\s|$)", broken[i]):
                    before, _, word = broken[i - 1].rpartition(" ")
                    broken[i - 1], broken[i] = before, rest + word + " " + broken[i].lstrip()
            out.extend(broken)
        else:
            out.extend(document.lines[i] for i in paragraph)
        paragraph.clear()

    for i, (line, code) in enumerate(zip(document.lines, document.code)):
        apart = code or not line.strip() or HEADING.match(line) or line.lstrip().startswith(("|", "<!--", "!["))
        if apart or ITEM.match(line):
            flush()
        if apart:
            out.append(line)
        else:
            paragraph.append(i)
    flush()
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


def main():
    if sys.argv[1:2] == ["--wrap"]:
        for path in sys.argv[2:]:
            wrap(path)
        return 0
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    return check(os.path.normpath(root))


if __name__ == "__main__":
    sys.exit(main())
