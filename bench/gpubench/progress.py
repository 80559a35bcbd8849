# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a long command is, on the last line of a terminal."""

import os
import sys
import threading
import time


class Progress:
    """A line on standard error while the block runs, from two seconds after its begin on (or TILEWRIGHT_PROGRESS_DELAY
    milliseconds), where that is a terminal; it is gone at the end. Threads may call show and step."""

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
        """One more of the total is done."""
        with self.lock:
            self.done += 1
        self.show(text)

    def show(self, text=""):
        """What begins now; nothing is shown before the delay is over."""
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
        """Takes the line away, before something else is printed."""
        with self.lock:
            if self.is_shown:
                self.stream.write("\r\x1b[K")
                self.stream.flush()
            self.is_shown = False
