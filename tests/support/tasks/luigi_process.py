"""Pipelines in processes of their own, with a luigi.cfg of their own: workers are forked for real."""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi.configuration
from places import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Result", "environment", "run_pipeline", "start_worker", "write_config"]

_LIMIT = 150.0  # seconds


@dataclass(frozen=True)
class Result:
    """What became of a process.

    Attributes:
        done: what ``luigi.build`` returned.
        complete: what ``complete()`` of the wrapper had returned before, where it was asked.
        took: seconds.
        log: all that it printed.
    """

    done: bool
    complete: bool | None
    took: float
    log: str


def write_config(folder: Path, openpai: Mapping[str, Any] | None = None, **sections: Any) -> Path:
    """Write a ``luigi.cfg``, and return it.

    Args:
        folder: where.
        openpai: settings of [OpenPai]; by default those of the test.
        sections: others, by their names.
    """
    if openpai is None:
        present = luigi.configuration.get_config()
        openpai = {key: present.get("OpenPai", key) for key in present["OpenPai"]}
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict({"OpenPai": openpai, **sections})
    with (folder / "luigi.cfg").open("w") as file:
        parser.write(file)
    return folder / "luigi.cfg"


def environment(config: Path, *path: Path) -> dict[str, str]:
    """Return the environment of a process with a ``luigi.cfg``, and with modules of these folders."""
    folders = [str(folder) for folder in (*path, *(Path(each) for each in sys.path if each))]
    return {**os.environ, "LUIGI_CONFIG_PATH": str(config), "PYTHONPATH": os.pathsep.join(folders)}


def start_worker(
    folder: Path, source: str, openpai: Mapping[str, Any] | None = None, **how: Any
) -> subprocess.Popen[str]:
    """Start a program of Luigi with the settings of the test; it imports what the test imports."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", source],
        env=environment(write_config(folder, openpai)),
        cwd=folder,
        text=True,
        **how,
    )


def run_pipeline(
    folder: Path, openpai: dict[str, Any], what: str = "build", *, count: int, workers: int
) -> Result:
    """Run ``count`` tasks, named ``train-0`` and so on, and return what became of them.

    Args:
        folder: for the pipeline and its luigi.cfg.
        openpai: settings of [OpenPai].
        what: ``build`` runs a wrapper of them; ``complete`` asks that before whether
            it is complete; ``apart`` runs them without a wrapper.
        count: of tasks.
        workers: of Luigi, forked.
    """
    script = PROGRAMS / "many_trains.py"
    config = write_config(folder, openpai, worker={"wait_interval": "0.2"})
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(script), what, str(count), str(workers)],
        cwd=folder,
        env=environment(config),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, log = process.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _out, log = process.communicate()
        raise AssertionError(f"not done after {_LIMIT:g} s; the end of its log:\n{log[-2000:]}") from None
    took = time.monotonic() - started
    assert process.returncode == 0, log[-4000:]
    return Result(**json.loads(out.splitlines()[-1]), took=took, log=log)
