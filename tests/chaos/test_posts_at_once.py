"""Five processes post one job at once to a server that checks names before it stores jobs, as 1.8 does."""

from __future__ import annotations

import configparser
import contextlib
import itertools
import json
import threading
from pathlib import Path

import pytest
from chaos import processes
from fault_server import Reply
from faulty_pai import PASSWORD, FaultyPai

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[1] / "support" / "chaos" / "one_task.py"
COUNT = 5
LONGEST = 20.0  # seconds for which a request waits for those of the other processes


class Overtaken(FaultyPai):
    """Accepts each post of a name that it did not have when the post arrived, and stores the first job."""

    def __init__(self, release: str) -> None:
        super().__init__()
        self.release = release
        self.accepted = 0
        self.looked_up = threading.Barrier(COUNT)
        self.arrived = threading.Barrier(COUNT)
        self._lookups = itertools.count()

    def answer(self, request):
        """Answer the first lookup of each process when all processes have sent theirs."""
        reply = super().answer(request)
        if request.method == "GET" and request.path.endswith("train") and next(self._lookups) < COUNT:
            _meet(self.looked_up)
        return reply

    def _submit(self, name, config, done):
        is_free = name not in self.jobs
        if is_free and not self.arrived.broken:
            _meet(self.arrived)
        reply = super()._submit(name, config, done)
        if is_free and reply.status == 409:
            reply = Reply(202, done)
        self.accepted += reply.status == 202
        return reply


def _meet(barrier: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):
        barrier.wait(LONGEST)


@pytest.fixture(params=["0.7.1", "1.8.0", "ltp-1.5"])
def server(request):
    """A server of each release that accepts several posts of one name."""
    with contextlib.closing(Overtaken(request.param)) as made:
        yield made


def run_at_once(server, folders, commands):
    """Run the task in a process for each folder, which stands for a machine; return exit codes and logs."""
    section = {
        "pai_url": server.url,
        "username": "admin",
        "password": PASSWORD,
        "poll_min": 0.05,
        "poll_max": 0.2,
        "api_version": "v1" if server.release == "0.7.1" else "v2",
    }
    parser = configparser.ConfigParser(interpolation=None)
    parser["OpenPai"] = {key: str(value) for key, value in section.items()}
    for folder in set(folders):
        folder.mkdir()
        with (folder / "luigi.cfg").open("w") as file:
            parser.write(file)
    logs = [folder / f"log-{number}" for number, folder in enumerate(folders)]
    started = [
        processes.start(json.dumps({"command": command}), folder, log, PROGRAM)
        for folder, command, log in zip(folders, commands, logs, strict=True)
    ]
    for process in started:
        process.join(5 * LONGEST)
    return [process.exitcode for process in started], [log.read_text() for log in logs]


@pytest.mark.parametrize(
    ("commands", "ends_as"),
    [(["echo 0"] * COUNT, "SUCCEEDED"), ([f"echo {number}" for number in range(COUNT)], "FAILED")],
    ids=["one command", "five commands"],
)
def test_posts_of_five_machines_at_once_are_one_job(server, tmp_path, commands, ends_as):
    """All five watch the stored job to its end; those whose command differs from the stored one say so.

    On v1 nobody can tell: the straight path of a v1 job has no request that shows what is stored.
    """
    server.plan = {"runs_for": 0.5, "ends_as": ends_as, "exit_code": int(ends_as == "FAILED")}
    folders = [tmp_path / str(number) for number in range(COUNT)]
    codes, logs = run_at_once(server, folders, commands)
    assert server.accepted == COUNT
    assert list(server.jobs) == ["train"]
    assert codes == [0 if ends_as == "SUCCEEDED" else 1] * COUNT, logs
    assert all(f"Job train: {ends_as}" in log or f"ended as {ends_as}" in log for log in logs), logs
    stored = json.dumps(server.jobs["train"].config)
    warned = ["Job train was submitted with another definition than the task has now" in log for log in logs]
    is_shown = server.release != "0.7.1"
    assert warned == [is_shown and command not in stored for command in commands], logs


def test_of_five_processes_on_one_machine_one_posts(server, tmp_path):
    """The claim of one of them decides, although all have found no job; the others take its job over."""
    server.plan = {"runs_for": 0.5}
    server.arrived.abort()
    codes, logs = run_at_once(server, [tmp_path / "machine"] * COUNT, ["echo 0"] * COUNT)
    assert (codes, server.submissions) == ([0] * COUNT, 1), logs
