"""Processes of the pipelines: forked from one that has loaded Luigi, each in a session of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

__all__ = ["kill", "left", "start"]

_PROGRAM = Path(__file__).with_name("program.py")
_LEFT = 30.0  # seconds for which a worker may outlive its main process, on a busy machine
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "luigi.configuration",
        "luigi_pai.sweep.sweep_run",
        "luigi_pai.tasks.job_watch",
        "luigi_pai.tasks.task_work",
        "luigi_pai.work.claims",
        "luigi_pai.work.flag",
        "luigi_pai.work.output_claims",
    ]
)


def start(arguments: str, folder: Path, log: Path, program: Path = _PROGRAM, state: str = "state") -> Any:
    """Start a program with the ``luigi.cfg`` of a folder; return the process.

    Processes of one folder share a machine: claims that are not in an output folder are in ``state`` there,
    and temporary files beside it. Processes with different ``state`` are on different machines.
    """
    process = _CONTEXT.Process(target=_run, args=(arguments, str(folder), str(log), str(program), state))
    process.start()
    return process


def _run(arguments: str, folder: str, log: str, program: str, state: str) -> None:
    multiprocessing.set_start_method("fork", force=True)  # as in a new interpreter, which has no parent
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    os.setsid()
    os.chdir(folder)
    for name in list(os.environ):
        if name.startswith(("PAI_", "LUIGI_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ["XDG_STATE_HOME"] = f"{folder}/{state}"
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    from luigi.configuration import LuigiConfigParser  # noqa: PLC0415  of the child

    LuigiConfigParser._instance = None  # it may have what was in the folder where the fork server has begun
    sys.argv = [program, arguments]
    runpy.run_path(program, run_name="__main__")


def kill(session: int) -> None:
    """Kill the processes of a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


def left(session: int) -> int:
    """Return how many processes of a session have not ended after some seconds, and kill these."""
    deadline = time.monotonic() + _LEFT
    while (count := len(_members(session))) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill(session)
    return count


def _members(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
