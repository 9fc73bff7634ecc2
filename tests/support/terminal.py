"""A terminal of some width, for a command in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

__all__ = ["ESCAPE", "on_terminal", "read_terminal"]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Escape sequences of colours and of the cursor."""


def on_terminal(command, *, columns=80, rows=24, **how):
    """Run a command whose output is a terminal; return its exit code and all that it wrote there.

    Args:
        command: words.
        columns, rows: size of the terminal.
        how: for subprocess.Popen: cwd, env.
    """
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, **how) as process:
        os.close(its)
        text = read_terminal(own)
    return process.returncode, text


def read_terminal(own):
    """Return all that is written to a terminal until its other side is closed."""
    parts = []
    try:
        while part := os.read(own, 65536):
            parts.append(part)
    except OSError:  # how Linux reports that the other side was closed
        pass
    os.close(own)
    return b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")
