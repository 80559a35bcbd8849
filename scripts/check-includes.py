#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   check-includes.py [ROOT]
#
# Derives from the #include lines of C and C++ which files and which folders depend on which, and fails
#
#   - if folders or files depend on each other in a circle, which it prints. A source and its header are one file here;
#   - if a folder with a library includes a header of another one whose library its own does not link, directly or through
#     others, and, in `passes`, if it links one without such an include. So what CMakeLists.txt files link are the arrows;
#   - if the table of folders in docs/design.md has a folder above one that it includes, or lacks one.

import os
import re
import sys

ROOTS = ("base", "dialect", "passes", "runtime", "lib", "tools")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
# Folders that are no library: their files belong to the folder above.
PARTS_OF_FOLDERS = {"base/Numeric/Isa": "base/Numeric"}
# Files that are one in two: the C interface of operations and of attention, of which an application includes one.
PARTS_OF_FILES = {"runtime/tilewright-attention": "runtime/tilewright"}
# Headers that need nothing of their library.
WITHOUT_LIBRARY = {"base/Layout/Swizzle.h"}
# Creates the passes of all folders by functions that TableGen declares in Passes.h.
CREATES_ALL = "passes/Pipelines"


def folder_of(name):
    folder = os.path.dirname(name)
    return PARTS_OF_FOLDERS.get(folder, folder)


def file_of(name):
    """FooImpl.h declares the state of the class of Foo.h, whose source includes both."""
    stem = os.path.splitext(name)[0]
    return re.sub(r"(\w)Impl$", r"\1", PARTS_OF_FILES.get(stem, stem))


def find_includes(root):
    """Yields (file, line, included file) for the files of the project."""
    names = sorted(os.path.relpath(os.path.join(folder, name), root) for top in ROOTS
                   for folder, _, files in os.walk(os.path.join(root, top)) for name in files)
    sources = [name for name in names if name.endswith((".h", ".c", ".cpp"))]
    known = set(sources)
    for name in sources:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = file.read()
        for match in INCLUDE.finditer(text):
            beside = os.path.normpath(os.path.join(os.path.dirname(name), match[1]))
            included = match[1] if match[1] in known else beside if beside in known else None
            if included:
                yield name, text.count("\n", 0, match.start()) + 1, included


def make_graph(includes, node_of):
    """node -> node -> the first include that is the reason."""
    graph = {}
    for include in includes:
        source, target = node_of(include[0]), node_of(include[2])
        graph.setdefault(source, {})
        graph.setdefault(target, {})
        if source != target:
            graph[source].setdefault(target, include)
    return graph


def find_cycle(graph):
    """The nodes of a shortest cycle; none if there is no cycle."""
    shortest = []
    for start in sorted(graph):
        before, queue = {start: None}, [start]
        for node in queue:
            if start in graph[node]:
                cycle = [node]
                while before[cycle[-1]]:
                    cycle.append(before[cycle[-1]])
                if not shortest or len(cycle) < len(shortest):
                    shortest = cycle[::-1]
                break
            for following in sorted(graph[node]):
                if following not in before:
                    before[following] = node
                    queue.append(following)
    return shortest


def read_libraries(root):
    """The folder of each library, and the libraries that it links."""
    folders, links = {}, {}
    for top in ROOTS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            if "CMakeLists.txt" not in files:
                continue
            with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
                text = re.sub(r"#.*", "", file.read())
            for match in re.finditer(r"tilewright_add_(library|tool|dialect)\(\s*([\w-]+)([^)]*)\)", text):
                name = f"Tilewright{match[2]}Dialect" if match[1] == "dialect" else match[2]
                folders[name] = os.path.relpath(folder, root)
                linked = re.search(r"\bLINK\b(.*?)(?=\b(?:SOURCES|DEPENDS|COMPONENT)\b|$)", match[3], re.DOTALL)
                links[name] = linked[1].split() if linked else []
    return folders, links


def check_links(includes, folders, links):
    """Messages about includes without an arrow, and arrows of passes without an include."""
    reached = {}  # folder -> the folders of all libraries that those of the folder link

    def visit(library, into):
        for name in links.get(library, ()):
            if name in folders and name not in into:
                into.add(name)
                visit(name, into)

    for library, folder in folders.items():
        into = set()
        visit(library, into)
        reached.setdefault(folder, {folder}).update(folders[name] for name in into)
    seen, used = set(), {}
    for name, line, included in includes:
        source, target = folder_of(name), folder_of(included)
        used.setdefault(source, set()).add(target)
        if (source in reached and target in folders.values() and target not in reached[source] and
                included not in WITHOUT_LIBRARY and (source, target) not in seen):
            seen.add((source, target))
            yield f"{name}:{line}: includes {included}, but no library of {source} links one of {target}"
    for library, folder in sorted(folders.items()):
        for linked in links[library]:
            if (folder.startswith("passes") and folder != CREATES_ALL and linked in folders and
                    folders[linked] not in used.get(folder, ())):
                yield f"{folder}: {library} links {linked}, but no file includes a header of {folders[linked]}"


def check_order(root, includes):
    """Messages about folders that include one that the table of docs/design.md has below them."""
    document = os.path.join(root, "docs", "design.md")
    if not os.path.exists(document):
        return
    with open(document, encoding="utf-8") as file:
        rows = re.findall(r"^\| `([\w/]+)` \|", file.read(), re.MULTILINE)

    def row_of(folder):
        while folder and folder not in rows:
            folder = os.path.dirname(folder)
        return folder

    for (source, target), include in sorted({(row_of(folder_of(i[0])), row_of(folder_of(i[2]))): i for i in includes}.items()):
        if not source or not target:
            yield f"docs/design.md: must have a row for {folder_of(include[2 if source else 0])}"
        elif rows.index(source) < rows.index(target):
            yield f"docs/design.md: has {target} below {source}, but {include[0]}:{include[1]} includes {include[2]}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    includes = list(find_includes(root))
    mistakes = 0
    counts = []
    for what, node_of in (("folders", folder_of), ("files", file_of)):
        graph = make_graph(includes, node_of)
        counts.append(f"{len(graph)} {what}")
        if cycle := find_cycle(graph):
            mistakes += 1
            print(f"these {what} include each other in a circle; move what two of them share to a third:")
            for node, following in zip(cycle, cycle[1:] + cycle[:1]):
                name, line, included = graph[node][following]
                print(f"  {node} -> {following}: {name}:{line} includes {included}")
    for message in (*check_links(includes, *read_libraries(root)), *check_order(root, includes)):
        mistakes += 1
        print(message)
    print(f"{', '.join(counts)}, {mistakes} mistakes")
    return 1 if mistakes or not includes else 0


if __name__ == "__main__":
    sys.exit(main())
