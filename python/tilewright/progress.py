# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows work that takes longer than two seconds on standard error, if that is a terminal or a notebook.
TILEWRIGHT_PROGRESS_DELAY sets another delay, in milliseconds; a negative one shows nothing."""

import contextlib
import os
import sys
import threading
import time


def _delay():
    try:
        return int(os.environ["TILEWRIGHT_PROGRESS_DELAY"]) / 1000
    except (KeyError, ValueError):
        return 2.0


def _is_notebook():
    return "ipykernel" in sys.modules


@contextlib.contextmanager
def shown(what):
    """A context in which work is done that `what` names, as in "compiling attention_forward"."""
    stream, delay = sys.stderr, _delay()
    try:
        is_terminal = stream.isatty()
    except (AttributeError, ValueError):  # an object in the place of the stream, or none, or a closed one
        is_terminal = False
    if delay < 0 or not (is_terminal or _is_notebook()):
        yield
        return
    done, start = threading.Event(), time.monotonic()

    def watch():
        if done.wait(delay):
            return
        if not is_terminal:
            print(f"tilewright: {what}", file=stream, flush=True)
            return
        while True:
            print(f"\r\033[Ktilewright: {what} ({time.monotonic() - start:.0f} s)", end="", file=stream, flush=True)
            if done.wait(1):
                print("\r\033[K", end="", file=stream, flush=True)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
