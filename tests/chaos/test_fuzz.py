"""What comes from outside, changed at random: no exception but ours, and no end that does not come.

Replies of servers as they were recorded, job files, settings, and the files that runs leave: claims, flags,
reports, journals and tables, cut at a byte, or with other values in them.
"""

# ruff: noqa: PT017  a change may do no harm: there is an error of ours, or none

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi.configuration
import pytest
from chaos.dice import ROUNDS, SEED
from chaos.interleaving import Interleaving
from chaos.recorded import RECORDINGS, Recorded, changed_bytes, changed_json
from chaos.small_hdfs import SmallHdfs
from places import DATA

from luigi_pai import OpenPai, PaiError
from luigi_pai.api.clock import Clock
from luigi_pai.api.cluster import Cluster
from luigi_pai.api.polling import Polling
from luigi_pai.errors import ConfigError, SpecError
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.jobspec.job_file import read_job_file
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.sheet import Summary
from luigi_pai.tasks.reports import read_reports
from luigi_pai.work.claims import Claim, Claims
from luigi_pai.work.flag import CompletionFlag
from luigi_pai.work.output_claims import OutputClaimFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def dice(what: str, count: int) -> Iterator[random.Random]:
    """Yield as many dice as there are to be changes, each of which can be thrown again."""
    for number in range(count * (1 if ROUNDS == 1 else 20)):
        yield random.Random(f"{SEED} {what} {number}")


# ---------------------------------------------------------------- replies

CALLS: dict[str, Callable[[Cluster], object]] = {
    "status": lambda cluster: cluster.job("job").status().summary(),
    "list": lambda cluster: [str(job) for job in cluster.list()],
    "config": lambda cluster: cluster.job("job").config(),
    "events": lambda cluster: cluster.job("job").events(),
    "logs": lambda cluster: cluster.job("job").logs("worker"),
    "failure": lambda cluster: str(cluster.job("job").failure()),
    "ssh": lambda cluster: cluster.ssh("job"),
    "clusters": lambda cluster: cluster.virtual_clusters(),
    "stop": lambda cluster: cluster.job("job").stop(),
}


@pytest.fixture(params=RECORDINGS)
def recorded(request, monkeypatch):
    """The replies of a server, and the world in which they are given."""
    server = Recorded(request.param)
    world = Interleaving(server, SmallHdfs())
    world.install(monkeypatch)
    return server, world


def test_replies(recorded, request):
    """Each call returns, or raises an error of ours, after a bounded number of requests."""
    server, world = recorded
    outcomes = set()
    for chance in dice(request.node.name, 60):
        server.chance = chance
        cluster = Cluster(
            "http://pai.test:1",
            "admin",
            password="secret",
            polling=Polling(patience=5),
            clock=world.clock,
            api_version="v1" if "0.7" in request.node.name else "v2",
        )
        for name, call in CALLS.items():
            server.count = 0
            try:
                call(cluster)
            except PaiError as error:
                outcomes.add((name, type(error).__name__))
                assert len(str(error)) < 20_000
            else:
                outcomes.add((name, "returned"))
        cluster.close()
    assert {(name, "returned") for name in CALLS} - outcomes <= {("ssh", "returned"), ("logs", "returned")}


# ---------------------------------------------------------------- files of users

JOB_FILES = sorted((DATA / "jobs").glob("v?/*"))


def test_job_files(request):
    """A job, or an error that names the file."""
    valid = 0
    for chance in dice(request.node.name, 500):
        file = chance.choice(JOB_FILES)
        content = changed_bytes(file.read_bytes(), chance)
        try:
            valid += not read_job_file(Path(file.name), content).problems()
        except SpecError as error:
            assert str(error)
    assert valid


def test_each_beginning_of_a_job_file():
    """As an editor that is killed leaves it."""
    for file in JOB_FILES if ROUNDS > 1 else JOB_FILES[:: len(JOB_FILES) // 2]:
        content = file.read_bytes()
        for length in range(0, len(content), 1 if ROUNDS > 1 else 5):
            try:
                read_job_file(Path(file.name), content[:length]).problems()
            except SpecError as error:
                assert str(error)


VALUES = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "9" * 400,
    "http://[",
    "://",
    "http://",
    "a:b@c",
    "%",
    "%(x)s",
    "True",
    "\x00",
    "\u202e",
    "http://h:99999",
    "hdfs://[",
    "[]",
    "~",
)


def test_settings(request, settings):
    """Values are taken, or the error names their keys."""
    keys = [name for name, _ in OpenPai.get_params() if name != "console"]
    for chance in dice(request.node.name, 300):
        some = {key: chance.choice(VALUES).replace("%", "%%") for key in chance.sample(keys, 3)}
        settings(**{"pai_url": "http://pai.test", "username": "u", "password": "p", **some})
        try:
            OpenPai.current()
        except ConfigError as error:
            assert any(key in str(error) for key in some), (some, error)
        luigi.configuration.get_config().remove_section("OpenPai")


# ---------------------------------------------------------------- files of runs

CLAIM = {
    "name": "train", "number": 1, "job": "train", "cluster": "http://pai", "user": "admin",
    "claimed_ms": 1700000000000, "digest": "0123456789abcdef", "token": "0123456789ab",
}  # fmt: skip
FOLDER = "/out/_luigi_pai"


@pytest.fixture
def stored(monkeypatch):
    """An HDFS in memory, and the file system on it."""
    hdfs = SmallHdfs()
    hdfs._make_folders(FOLDER)
    Interleaving(Recorded("v0.7.1"), hdfs).install(monkeypatch)
    return hdfs, WebHdfs("http://hdfs.test:1", user="admin")


def each_change(what: str, value: Any, count: int) -> Iterator[bytes]:
    """Yield a file cut at each byte, and then with other values."""
    data = json.dumps(value).encode()
    yield from (data[:length] for length in range(len(data)))
    yield from (changed_json(value, chance) for chance in dice(what, count))


def test_claims(stored):
    """One that cannot be read is an error that names the file: never no claim."""
    hdfs, fs = stored
    for data in each_change("claims", CLAIM, 300):
        hdfs.files[f"{FOLDER}/train.1.json"] = data
        try:
            claim = Claims(OutputClaimFolder(fs, "/out"), "train").last()
        except HdfsError as error:
            assert "train.1.json" in str(error)
        else:
            assert isinstance(claim, Claim)


def test_names_of_events(stored):
    """What is no event of ours is passed over."""
    hdfs, fs = stored
    hdfs.files[f"{FOLDER}/train.1.json"] = json.dumps(CLAIM).encode()
    names = (
        "RUNNING-0-1700000000000",
        "RUNNING-",
        "RUNNING-x-y",
        "RUNNING-1-" + "9" * 15,
        "FAILED",
        "",
        "json.json",
    )
    for chance in dice("events", 100):
        odd = [f"{FOLDER}/train.{chance.choice(('0', '1', '01', '2', '9' * 9, ''))}.{name}" for name in names]
        hdfs.files |= dict.fromkeys(chance.sample(odd, 4), b"")
        claim = Claims(OutputClaimFolder(fs, "/out"), "train").last()
        assert claim is not None
        assert claim.number == 1
        for path in odd:
            hdfs.files.pop(path, None)


def test_flags(stored, request):
    """A flag is ours, or it is not, or it cannot be read."""
    hdfs, fs = stored
    for chance in dice(request.node.name, 200):
        hdfs.files["/out/_SUCCESS"] = changed_bytes(b"other\ntrain\nthird\n", chance)
        try:
            CompletionFlag(fs, "/out").holds("train")
        except HdfsError as error:
            assert "_SUCCESS" in str(error)


def test_reports(stored, request):
    """Lines that are none are passed over."""
    hdfs, fs = stored
    line = {"time": 1700000000.5, "attempt": 1, "step": 3, "steps": 10, "loss": 0.5}
    for chance in dice(request.node.name, 300):
        lines = [json.dumps(line).encode(), changed_json(line, chance), changed_json(line, chance)]
        hdfs._make_folders("/out/_reports")
        hdfs.files["/out/_reports/main-0.jsonl"] = b"\n".join(lines) + b"\n" * chance.randrange(2)
        found = read_reports(fs, "/out")
        assert all(isinstance(one, dict) for one in found)


ROW = {
    "state": "FAILED",
    "result": {"loss": 1.0},
    "seconds": 3.0,
    "job": "a",
    "page": "http://pai",
    "error": "x",
}
EVENTS = [
    {"event": "run", "run": [1, "0c2f"], "sweep": "Study", "file": "study.py", "at": 1700000000000},
    {"event": "asked", "point": "a", "family": "Train", "parameters": {"rate": "0.1"}, "note": None},
    {"event": "begun", "point": "a", "claim": {key: CLAIM[key] for key in CLAIM if key != "name"}},
    {"event": "ended", "point": "a", "number": 1, "row": ROW, "cluster": "http://pai", "id": "9ab1"},
    {"event": "told", "point": "a"},
    {"event": "again", "points": {"a": {"number": 1, "end": "9ab1"}}},
    {"event": "released", "point": "a", "number": 1, "token": "0123456789ab"},
    {"event": "pruned", "point": "a", "job": "a"},
    {"event": "over", "run": [1, "0c2f"], "complete": True, "budget": 20, "dropped": []},
]


def read_journal(folder: Path, lines: list[bytes]) -> Journal | None:
    """Write a journal, read it, and ask it everything; None if it is no journal."""
    (folder / "journal.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    journal = Journal(str(folder), Clock())
    try:
        journal.read()
    except ValueError as error:
        assert "journal" in str(error)
        return None
    journal.is_complete(["a", "b"], 1)
    journal.counts(["a", "b"])
    for record in journal.records.values():
        assert record.is_good in (True, False)
        assert record.is_final(1, 3) in (True, False) if record.begun else True
    return journal


def test_journals(tmp_path, request):
    """A line that cannot be read is as one that was never written, and spoils no other."""
    for chance in dice(request.node.name, 300):
        lines = [json.dumps(event).encode() for event in EVENTS]
        at = chance.randrange(1, len(lines))
        lines[at] = changed_json(EVENTS[at], chance)
        assert read_journal(tmp_path, lines) is not None


def test_each_beginning_of_a_journal(tmp_path):
    """What a writer that was killed has left; what follows it begins with a new line."""
    whole = [json.dumps(event).encode() for event in EVENTS]
    for number in range(1, len(whole)):
        for length in range(0, len(whole[number]), 1 if ROUNDS > 1 else 7):
            journal = read_journal(tmp_path, [*whole[:number], whole[number][:length], b"", whole[-1]])
            assert journal is not None
            assert journal.complete


def test_tables(tmp_path, request):
    """A table is read, or the error says that the file is none."""
    folder = tmp_path / "results"
    rows = [({"rate": "0.1"}, Row("SUCCEEDED", {"loss": 0.5}, 1.0, "a", "http://pai", ""))]
    summary = Summary("Study", 1, complete=True, started_ms=1, updated_ms=2, digest="d")
    SweepResults(str(folder)).write(rows, summary)
    file = folder / "results.json"
    value = json.loads(file.read_text())
    for data in each_change(request.node.name, value, 200):
        file.write_bytes(data)
        try:
            results = SweepResults(str(folder))
            results.exists()
            results.rows()
            results.summary()
        except ValueError as error:
            assert str(folder) in str(error)
