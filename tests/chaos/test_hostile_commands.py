"""Every command that reads from servers, against recorded replies whose values have other types.

No command ends in a traceback, acts on the terminal, shows the password or the token, or fills memory.
``HOSTILE_REPLIES=2000`` runs that many commands for each recording; by default it is a sample.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from chaos.dice import SEED
from chaos.interleaving import Interleaving
from chaos.recorded import DIGITS, OTHERS, RECORDINGS, Recorded, changed_value, json_bytes
from chaos.small_hdfs import Answer, SmallHdfs
from click.testing import CliRunner
from process_state import install_clock

from luigi_pai import reset_clusters
from luigi_pai.cli import main
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.sheet import Summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("HOSTILE_REPLIES", "160"))
MOST_MEMORY = 200 * 1024  # KiB
PASSWORD = "hush-hush-password"
OURS = re.compile(r'File "[^"]*luigi_pai')
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
DOCUMENTS = ("config", "sweep --csv", "get")  # which only a terminal gets without what acts on it
DEEP: list = []
for _ in range(300):
    DEEP = [DEEP]
MORE = (*OTHERS, DEEP, "\x1b]52;c;cm0gLXJmIC8=\x07\x1b[2J\u202e", "\ud800\udfff", "long " * 20_000, DIGITS)
COMMANDS = [
    "list", "list --all-users", "list -q", "list --json", "list -s failed", "list luigi-*", "list -t good",
    "status job", "status job --json", "status @latest", "logs job", "logs job worker/0", "logs job --tail 5",
    "ssh job", "ssh job worker/0 -- true", "ssh-config job --key KEY", "ssh-config job", "config job",
    "config job -o COPY", "submit FILE", "submit --like job --name other", "stop job", "stop -t good --yes",
    "doctor", "clusters", "clusters --json", "ls /data", "ls -R /data", "ls --json /data", "ls /data/a.txt",
    "get /data GOAL", "put FOLDER /sent", "plan PIPELINE Train", "sweep TABLE", "sweep --csv TABLE",
    "sweep --json TABLE", "sweep --failed TABLE", "sweep --retry TABLE", "sweep --stop --yes PIPELINE Study",
]  # fmt: skip
PIPELINE = """
from luigi_pai import PaiSweep, PaiTask, TaskRole, grid
import luigi

class Train(PaiTask):
    rate = luigi.FloatParameter(default=0.1)
    image = "python:3"
    tasks = [TaskRole("worker", "true")]

    @property
    def name(self):
        return "job"

class Study(PaiSweep):
    results_dir = {table!r}

    def points(self):
        return grid(Train, rate=(0.1, 0.2))
"""


def changed(value: Any, chance: random.Random) -> bytes:
    """Return JSON in which a few values are of other types."""
    for _ in range(chance.randrange(1, 3)):
        value = changed_value(value, chance, MORE)
    return json_bytes(value)


class HostileHdfs(SmallHdfs):
    """An HDFS that changes the JSON of most of its replies."""

    chance = random.Random(0)

    def answer(self, url: str, body: bytes) -> Answer:
        status, headers, reply = super().answer(url, body)
        if "json" in headers.get("Content-Type", "") and self.chance.random() < 0.3:
            reply = changed(json.loads(reply), self.chance)
        return status, headers, reply


@pytest.fixture(params=RECORDINGS)
def world(request, monkeypatch, settings, tmp_path):
    """The servers, and a folder with what the commands read; each on one clock, without waits."""
    monkeypatch.chdir(tmp_path)
    pai, hdfs = Recorded(request.param, changed), HostileHdfs()
    pai.share = 0.5
    world = Interleaving(pai, hdfs)
    world.install(monkeypatch)
    install_clock(world.clock, monkeypatch)
    monkeypatch.setattr("luigi_pai.api.wire.repeats.time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr("luigi_pai.cli.ssh.shutil.which", lambda _name: "/usr/bin/ssh")
    ended = subprocess.CompletedProcess((), 0)
    monkeypatch.setattr("luigi_pai.cli.ssh.subprocess.run", lambda *_, **__: ended)
    settings(
        pai_url="http://127.0.0.1:9186",
        webhdfs_url="http://127.0.0.1:50070",
        username="admin",
        password=PASSWORD,
        poll_patience=1,
        api_version="v1" if "0.7" in request.param else "v2",
    )
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FOLDER" / "a.txt").write_text("a")
    (tmp_path / "pipeline_of_hostile.py").write_text(PIPELINE.format(table=str(tmp_path / "table")))
    role = {"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "command": "true"}
    (tmp_path / "FILE").write_text(json.dumps({"jobName": "new", "image": "x", "taskRoles": [role]}))
    hdfs.files |= {"/data": None, "/data/a.txt": b"a", "/data/sub": None, "/data/sub/b.txt": b"b"}
    return pai, hdfs, tmp_path


def with_ssh(replies: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return replies about a job that runs, and whose containers have ssh, in either API."""
    task = {
        "taskIndex": 0, "taskState": "RUNNING", "containerId": "c1", "containerIp": "10.0.0.1",
        "containerPorts": {"ssh": 2222},
    }  # fmt: skip
    job = {
        "name": "job", "jobStatus": {"state": "RUNNING", "username": "admin", "createdTime": 1},
        "taskRoles": {"worker": {"taskRoleStatus": {"name": "worker"}, "taskStatuses": [task]}},
    }  # fmt: skip
    link = "http://127.0.0.1:9186/key"
    info = {
        "containers": [{"id": "c1", "sshIp": "10.0.0.1", "sshPort": "2222"}],
        "keyPair": {"privateKeyDirectDownloadLink": link},
    }
    plugin = {"plugin": "ssh", "parameters": {"userssh": {"value": "x"}}, "taskroles": ["worker"]}
    config = {"protocolVersion": 2, "extras": {"com.microsoft.pai.runtimeplugin": [plugin]}}
    kinds = {"job": job, "ssh": info, "config": config}
    about = {"status": 200, "ctype": "application/json", "hdrs": {}, "text": None}
    return {
        **replies,
        **{kind: [{**about, "json": value}] for kind, value in kinds.items()},
        "about": [{**about, "json": None, "text": "-----BEGIN PRIVATE KEY-----"}],
    }


def write_table(folder, chance: random.Random) -> None:
    """Write the table of a sweep as a container can have it: other values, names and errors."""
    odd = chance.choice((*MORE, 0.5))
    rows = [
        ({"rate": str(odd)[:500]}, Row(state, {f"a{str(odd)[:50]}": odd}, 1.0, "job", "", f"e{odd}"[:500]))
        for state in ("SUCCEEDED", "FAILED")
    ]
    SweepResults(str(folder)).write(
        rows, Summary("study", 2, complete=True, started_ms=1, updated_ms=2, digest="")
    )


def run(words: list[str]) -> tuple[str, BaseException | None]:
    """Run a command in this process, and return what it prints, and what it raises."""
    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    result = CliRunner(**apart).invoke(main, words)
    return result.stdout + result.stderr, result.exception


def test_commands(world, request):
    """Each ends by an exit code."""
    pai, hdfs, folder = world
    table = folder / "table"
    places = {
        "TABLE": str(table), "PIPELINE": "pipeline_of_hostile", "FOLDER": str(folder / "FOLDER"),
        "FILE": str(folder / "FILE"),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ran_well, recorded = set(), pai.replies
    for number in range(COUNT):
        chance = random.Random(f"{SEED} {request.node.name} {number}")
        command = COMMANDS[number % len(COMMANDS)]
        pai.chance = hdfs.chance = chance
        pai.count = 0
        pai.replies = with_ssh(recorded) if command.startswith("ssh") else recorded
        if "TABLE" in command or "Study" in command:
            write_table(table, chance)
        new = {name: str(folder / f"{name}{number}") for name in ("KEY", "COPY", "GOAL")}
        words = [{**places, **new}.get(word, word) for word in command.split()]
        output, error = run(words)
        assert error is None or isinstance(error, SystemExit), (number, command, error)
        assert not OURS.search(output), (number, command, output)
        assert PASSWORD not in output, (number, command, output)
        assert not [token for token in pai.tokens if token in output], (number, command, output)
        if not command.startswith(DOCUMENTS):
            assert ACTS.findall(output) == [], (number, command, output)
        if error is None or error.code == 0:
            ran_well.add(command.split()[0])
        reset_clusters()
    if 10 * len(COMMANDS) <= COUNT:
        # plan has exit code 1 if there is a job to submit
        assert {command.split()[0] for command in COMMANDS} - ran_well <= {"plan"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
