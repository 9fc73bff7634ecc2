"""`luigi-pai local` as a process: with a command behind it, or by itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from waiting import wait_until

CLI = [sys.executable, "-m", "luigi_pai", "local"]

CLIENT = """
import json, os, subprocess, sys, time
from types import SimpleNamespace
import luigi.configuration
from local_client import LocalClient
from protocol_client import ProtocolClient, protocol
section = luigi.configuration.get_config()["OpenPai"]
server = SimpleNamespace(url=section["pai_url"], username=section["username"], password=section["password"])
client = (LocalClient if section["api_version"] == "v1" else ProtocolClient)(server)
"""
"""What a command's code begins with that talks to the server: as `client` of its API."""


def _environment(more):
    here = Path(__file__).parent
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(here), str(here.parent)])
    return {**os.environ, "PYTHONPATH": path, **(more or {})}


def run(*words, env=None, **more):
    """Run `luigi-pai local` to its end."""
    return subprocess.run(
        [*CLI, *map(str, words)],
        env=_environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **more,
    )


def run_python(code, *options, words=(), **more):
    """Run code of Python as its command, which must succeed; return what both have written."""
    done = run(*options, "--", sys.executable, "-W", "ignore", "-c", code, *words, **more)
    assert done.returncode == 0, done.stderr
    return done


@contextlib.contextmanager
def started(folder, *words, env=None):
    """Run it by itself, with its data in a folder; yield its process and what it prints at its start."""
    said = folder / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [*CLI, "--port", "0", *words],
            env=_environment({"XDG_DATA_HOME": str(folder / "xdg"), **(env or {})}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    with process:
        yield process, wait_until(lambda: "Ctrl-C" in said.read_text() and said.read_text())
