# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Shows a progress line on a terminal for tests that take longer than two seconds.

import os
import sys
import threading
import time


class Progress:
    """A context manager that shows the result of `describe` once per second, and removes the line at the end."""

    def __init__(self, describe):
        self.describe = describe
        # As in the tools (lib/Driver/Progress.h).
        self.delay = float(os.environ.get("TILEWRIGHT_PROGRESS_DELAY", 2000)) / 1000
        self.is_done = threading.Event()
        self.thread = threading.Thread(target=self.show) if sys.stderr.isatty() else None

    def show(self):
        begin, wait = time.monotonic(), self.delay
        while not self.is_done.wait(wait):
            wait = 1
            self.print(f"{self.describe()} ({time.monotonic() - begin:.0f} s)")

    def print(self, text):
        print(end=f"\r\033[K{text}", file=sys.stderr, flush=True)

    def __enter__(self):
        if self.thread:
            self.thread.start()

    def __exit__(self, *exception):
        if self.thread:
            self.is_done.set()
            self.thread.join()
            self.print("")
