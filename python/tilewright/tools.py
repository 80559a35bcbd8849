# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts the command-line tools of a wheel: each script that pip installs calls run()."""

import os
import sys

from tilewright import places


def run():
    """Replaces this process by the tool that has the name of the running script."""
    tool = places.find_tool(os.path.basename(sys.argv[0]))
    try:
        os.execv(tool, [tool, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cannot run {tool}: {error.strerror}")
