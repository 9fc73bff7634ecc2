"""The oldest Python at hand, for what has to run in images that are older than this project's own Python."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["OLDEST_MINOR", "oldest_python"]

OLDEST_MINOR = 6


@functools.cache
def oldest_python():
    """Return the interpreter of the oldest Python from 3.6 on: on the PATH, of pyenv, or this one."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))]
    for minor in range(OLDEST_MINOR, sys.version_info.minor):
        found = [shutil.which(f"python3.{minor}")]
        found += [str(path) for root in roots for path in root.glob(f"versions/3.{minor}.*/bin/python")]
        for python in filter(None, found):
            if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
                return python
    return sys.executable
