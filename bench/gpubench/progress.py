# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A progress line at the bottom of a terminal."""

import os
import sys
import threading
import time


class Progress:
    """Shows a line on standard error, if that is a terminal, while the block runs, after a delay of two seconds (or
    TILEWRIGHT_PROGRESS_DELAY milliseconds); removes it at the end. Threads may call show and step."""

    def __init__(self, name, total=None, quiet=False, stream=None):
        self.stream = stream or sys.stderr
        self.name, self.total, self.done, self.text = name, total, 0, ""
        self.is_off = quiet or not self.stream.isatty()
        self.delay = int(os.environ.get("TILEWRIGHT_PROGRESS_DELAY", "2000")) / 1000
        self.begin, self.lock, self.is_shown = time.monotonic(), threading.Lock(), False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hide()

    def step(self, text=""):
        """Counts one more step of the total as done."""
        with self.lock:
            self.done += 1
        self.show(text)

    def show(self, text=""):
        """Sets the text of the step that begins; nothing is shown before the delay has passed."""
        with self.lock:
            self.text = text or self.text
            seconds = time.monotonic() - self.begin
            if self.is_off or seconds < self.delay:
                return
            count = f" {self.done} of {self.total}" if self.total else ""
            self.stream.write(f"\r\x1b[K{self.name}{count}{self.text and ': ' + self.text} ({seconds:.0f} s)")
            self.stream.flush()
            self.is_shown = True

    def hide(self):
        """Removes the line, before other output is printed."""
        with self.lock:
            if self.is_shown:
                self.stream.write("\r\x1b[K")
                self.stream.flush()
            self.is_shown = False
