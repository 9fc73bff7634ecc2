"""Luigi's central scheduler, with its web page, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from ports import refused_port

__all__ = ["Luigid"]


class Luigid:
    """A scheduler that runs inside a ``with`` block.

    Args:
        folder: for its state and its log.

    Attributes:
        url: of its page, and for ``--scheduler-url``.
    """

    def __init__(self, folder):
        self._folder = Path(folder)
        port = refused_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [Path(sys.executable).with_name("luigid"), "--address", "127.0.0.1", "--port", str(port)]
        self._command = [*command, "--state-path", self._folder / "state.pickle"]

    def __enter__(self):
        with (self._folder / "luigid.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + 60
        while True:
            try:
                opener.open(f"{self.url}/static/visualiser/index.html", timeout=20).close()
            except OSError as error:
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.__exit__()
                    raise AssertionError((self._folder / "luigid.log").read_text()) from error
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
