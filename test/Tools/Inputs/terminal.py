# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# terminal.py COMMAND...: runs the command with a terminal as its output, and prints what it wrote.

import os
import pty
import subprocess
import sys

reader, writer = pty.openpty()
command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                           env=dict(os.environ, TERM="xterm"))
os.close(writer)
text = b""
while True:
    try:
        piece = os.read(reader, 4096)
    except OSError:  # the other end is closed
        break
    if not piece:
        break
    text += piece
command.wait()
sys.stdout.write(text.decode().replace("\r\n", "\n"))
