# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_site.py FOLDER: checks that every link between the files of a site, also to scripts and styles, leads to an existing
# file and an existing anchor.

import os
import re
import sys


def main():
    root = sys.argv[1]
    pages = {}
    for folder, _, files in os.walk(root):
        for name in files:
            # Not checked: the error page of mkdocs for a missing page, whose links start at the root of a server.
            if name.endswith(".html") and name != "404.html":
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    pages[os.path.join(folder, name)] = file.read()
    anchors = {page: set(re.findall(r'\sid="([^"]+)"', text)) for page, text in pages.items()}
    links, mistakes = 0, 0
    for page, text in pages.items():
        for target in re.findall(r'\s(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//", target):
                continue
            path, _, anchor = target.partition("#")
            place = os.path.normpath(os.path.join(os.path.dirname(page), path.split("?")[0])) if path else page
            links += 1
            if not os.path.exists(place) or (anchor and place in anchors and anchor not in anchors[place]):
                print(f"{os.path.relpath(page, root)}: the link to '{target}' leads nowhere")
                mistakes += 1
    print(f"{len(pages)} pages, {links} links, {mistakes} mistakes")
    sys.exit(1 if mistakes or not links else 0)


if __name__ == "__main__":
    main()
