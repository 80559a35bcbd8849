#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the documentation as web pages with mkdocs: `make site`, or the target `site` of CMake.
#
#   scripts/make-site.py BUILD    writes BUILD/site, from a copy of the documents in BUILD/site-source
#
# The copy has the layout of the tree, with changes where mkdocs reads Markdown differently from GitHub:
#
#   - headings have explicit anchors, equal to those that scripts/check-docs.py checks;
#   - an empty line precedes a list that follows a paragraph;
#   - links to sources and folders become plain text.

import importlib.util
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
spec = importlib.util.spec_from_file_location("check_docs", os.path.join(ROOT, "scripts", "check-docs.py"))
check_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_docs)


def without_links_outside(line, folder, staged):
    def replace(match):
        target = match[2].partition("#")[0]
        if not target or re.match(r"^[a-zA-Z][a-zA-Z+.-]*:", target):
            return match[0]
        name = os.path.normpath(os.path.join(folder, target))
        return match[0] if name in staged else match[1]
    return re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*)\)", replace, line)


def convert(document, staged):
    folder, out, anchors = os.path.dirname(document.name), [], dict(document.heading_anchors)
    for i, (line, code) in enumerate(zip(document.lines, document.code)):
        if not code:
            if i + 1 in anchors:
                line = f"{line} {{: #{anchors[i + 1]} }}"
            before = document.lines[i - 1] if i else ""
            is_item = check_docs.ITEM.match(line)
            if is_item and not is_item[1] and before and before[0] != " " and not check_docs.ITEM.match(before):
                out.append("")
            line = without_links_outside(line, folder, staged)
        out.append(line)
    return "\n".join(out)


def main():
    if not shutil.which("mkdocs"):
        sys.exit("make-site: needs mkdocs, which scripts/install-dependencies.sh installs")
    build = os.path.abspath(sys.argv[1])
    source, output = os.path.join(build, "site-source"), os.path.join(build, "site")
    shutil.rmtree(source, ignore_errors=True)
    documents = [check_docs.Document(ROOT, name) for name in check_docs.markdown_files(ROOT)]
    images = [os.path.join(folder, name) for folder in ("docs", os.path.join("docs", "figures"))
              for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(".svg")]
    staged = {document.name for document in documents} | set(images)
    for name in staged:
        os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
    for document in documents:
        with open(os.path.join(source, document.name), "w", encoding="utf-8") as file:
            file.write(convert(document, staged))
    for name in images:
        shutil.copy(os.path.join(ROOT, name), os.path.join(source, name))
    environment = dict(os.environ, SITE_SOURCE=source, SITE_OUTPUT=output)
    config = os.path.join(ROOT, "docs", "mkdocs.yml")
    command = ["mkdocs", "build", "--strict", "--clean", "--config-file", config]
    status = subprocess.run(command, env=environment).returncode
    if status == 0:
        print(f"{os.path.join(output, 'index.html')}: {len(documents)} pages")
    return status


if __name__ == "__main__":
    sys.exit(main())
