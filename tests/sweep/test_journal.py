"""The journal of a sweep: what its state is read from, whatever has killed, cut or doubled it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import resource
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
from clocks import MovableClock
from sweep_tasks import JOURNAL, Asks, Study, Train, forge, states, study

from luigi_pai import HdfsError, PaiError, PaiSweep, PaiSweepFailed, SpecError
from luigi_pai.files.errors import FileAlreadyExists
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.journal.records import Record
from luigi_pai.sweep.rows import Row, bounded, flattened
from luigi_pai.work.claims import Claim


def claim(name, number=1, job=None):
    return Claim(name, number, job or name, "http://pai", "admin", 1, "digest")


ROW = {"state": "FAILED", "result": {}, "seconds": 1, "job": "a", "page": "", "error": "e"}
OTHERS = (float("inf"), [], [5])
"""Values that no field has."""


def test_a_line_that_was_cut_spoils_no_other():
    """At each of its bytes: what was written before and after it is read."""
    journal = Journal("results", MovableClock())
    journal.start("Study", "study.py")
    whole = JOURNAL.read_bytes()
    line = json.dumps({"event": "pruned", "point": "a", "job": "a"}).encode()
    for cut in range(len(line)):
        JOURNAL.write_bytes(whole + b"\n" + line[:cut])
        Journal("results", MovableClock()).write({"event": "pruned", "point": "b", "job": "b"})
        read = Journal("results", MovableClock()).read()
        assert read.info["sweep"] == "Study"
        assert [name for name, record in read.records.items() if record.pruned] == ["b"]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_lines_of_two_processes_does_not_matter(seed):
    """On HDFS they are in two files, of which one is read after the other; a line may be there twice."""

    def ended(name, number, state, mark):
        row = {**ROW, "state": state}
        return {"event": "ended", "point": name, "number": number, "row": row, "cluster": "c", "id": mark}

    def begun(name, number):
        return {
            "event": "begun",
            "point": name,
            "claim": asdict(claim(name, number)) | {"token": f"{number}"},
        }

    lines = [
        *(begun("done", 1), ended("done", 1, "SUCCEEDED", "0")),
        *(begun("retried", 1), ended("retried", 1, "FAILED", "1")),
        {"event": "again", "points": {"retried": {"number": 1, "end": "1"}}},
        *(begun("twice", 1), begun("twice", 2), ended("twice", 2, "FAILED", "2")),
        *(begun("pruned", 1), {"event": "pruned", "point": "pruned", "job": "pruned"}),
        *(begun("runs", 1), ended("runs", 1, "FAILED", "3"), begun("runs", 2)),
    ]
    draw = random.Random(seed)
    lines += draw.choices(lines, k=3)
    draw.shuffle(lines)
    forge(*lines)
    journal = Journal("results", MovableClock()).read()
    rows = {name: record.row and record.row.state for name, record in journal.records.items()}
    assert rows == {"done": "SUCCEEDED", "retried": None, "twice": "FAILED", "pruned": None, "runs": None}
    assert {name: sorted(record.made) for name, record in journal.records.items()} == {
        "done": [1],
        "retried": [],
        "twice": [1, 2],
        "pruned": [1],
        "runs": [1, 2],
    }
    assert journal.record("pruned").pruned


def test_a_released_claim_takes_no_later_one_with_it():
    """Another process has claimed the same submission meanwhile; the line of the release comes late."""
    mine, other = (asdict(claim("a", 1)) | {"token": token} for token in ("mine", "other"))
    lines = [
        {"event": "begun", "point": "a", "claim": mine},
        {"event": "begun", "point": "a", "claim": other},
        {"event": "released", "point": "a", "number": 1, "token": "mine"},
    ]
    forge(*lines)
    held = Journal("results", MovableClock()).read().record("a").claim
    assert held is not None
    assert held.token == "other"


ENDED = {"event": "ended", "point": "a", "number": 1, "row": ROW, "cluster": "c", "id": "1"}
BEGUN = {"event": "begun", "point": "a", "claim": {**asdict(claim("a")), "number": 1}}
RUN = {"event": "run", "sweep": "x", "file": "y", "at": 1, "run": [1000, "x"]}
EVENTS = (
    *({**RUN, "at": value} for value in OTHERS),
    *({**RUN, "run": [value, "x"]} for value in OTHERS),
    *({"event": "over", "run": "HERE", "complete": True, "budget": value, "dropped": []} for value in OTHERS),
    *({"event": "again", "points": {"a": {"number": value, "end": "1"}}} for value in OTHERS),
    *({**ENDED, "row": value} for value in OTHERS),
    *(
        {**ENDED, "row": {**ROW, key: value}}
        for key in ("seconds", "state", "job", "result")
        for value in OTHERS
    ),
    *({**ENDED, "number": value} for value in OTHERS),
    *({**BEGUN, "claim": {**BEGUN["claim"], "number": value}} for value in (*OTHERS, -5, 0, 10**18)),
    *(
        {**BEGUN, "claim": {**BEGUN["claim"], "claimed_ms": value}}
        for value in (*OTHERS, -5, 10**18, 10**400)
    ),
)


@pytest.mark.parametrize("line", ["[" * 200_000, "null", "5", *map(json.dumps, EVENTS)])
def test_a_line_of_another_form_is_no_event(line):
    """Of other types, or out of every range: the other lines count."""
    journal = Journal("results", MovableClock())
    journal.start("Study", "study.py")
    line = line.replace("Infinity", "1e400").replace('"HERE"', json.dumps(journal.info["run"]))
    JOURNAL.write_text(f"{JOURNAL.read_text()}\n{line}\n")
    read = Journal("results", MovableClock()).read()
    assert (read.info["sweep"], read.over, read.budget) == ("Study", False, 0)
    assert [record for record in read.records.values() if record != Record()] == []


def test_another_file_is_no_journal():
    """It is named, and not written to."""
    forge(b"something else")
    with pytest.raises(ValueError, match=r"results/journal.jsonl is not a sweep's journal; move it away"):
        Journal("results", MovableClock()).read()
    with pytest.raises(ValueError, match="is not a sweep's journal"):
        Study().complete()


def test_of_two_processes_one_gets_a_claim():
    """The other one gets its claim, too."""
    journals = [Journal("results", MovableClock()) for _ in range(8)]
    held = []
    threads = [
        threading.Thread(target=lambda own=own: held.extend(own.begin([claim("a", job=f"a-{id(own)}")])))
        for own in journals
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 8
    assert len({each.job for each in held}) == 1


def test_a_claim_waits_for_a_process_that_is_writing():
    """It then sees the other's claim, and does not write its own."""
    other, journal, held = Journal("elsewhere", MovableClock()), Journal("results", MovableClock()), []
    other.begin([claim("a", job="other")])
    journal.start("Study", "study.py")
    thread = threading.Thread(target=lambda: held.extend(journal.begin([claim("a")])))
    with JOURNAL.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.3)  # long enough for a claim that does not wait
        file.write(Path("elsewhere/journal.jsonl").read_bytes())
    thread.join()
    assert [each.job for each in held] == ["other"]
    assert JOURNAL.read_text().count('"begun"') == 1


def test_a_claim_is_on_the_disk_before_its_job_is_submitted(monkeypatch):
    """A failure of the machine loses no event whose action has been announced."""
    synced, fsync = [], os.fsync

    def noted(descriptor):
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", noted)
    journal = Journal("results", MovableClock())
    for act in (
        lambda: journal.start("Study", "study.py"),
        lambda: journal.begin([claim("a")]),
        lambda: journal.write({"event": "pruned", "point": "a", "job": "a"}),
    ):
        act()
        assert synced[-1] == JOURNAL.stat().st_size
    assert len(synced) == 3


def test_a_write_that_fails_once_loses_no_event():
    """A full disk takes a part of it; the next write has all events, and those that came meanwhile."""
    journal = Journal("results", MovableClock())
    journal.start("Study", "study.py")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (JOURNAL.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.begin([claim("a")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.queue({"event": "pruned", "point": "b", "job": "b"})
    journal.flush()
    read = Journal("results", MovableClock()).read()
    assert read.record("a").claim.job == "a"
    assert read.record("b").pruned


@pytest.mark.usefixtures("hdfs")
def test_a_write_to_hdfs_that_fails_once_loses_no_event(monkeypatch):
    """The next write has all events."""
    folder = "$PAI_DEFAULT_FS_URI/sweeps/Study"

    def away(*_, **__):
        raise HdfsError("away")

    journal = Journal(folder, MovableClock())
    journal.start("Study", "study.py")
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send_file", away)
        with pytest.raises(HdfsError, match="away"):
            journal.write({"event": "pruned", "point": "a", "job": "a"})
    journal.write({"event": "pruned", "point": "b", "job": "b"})
    read = Journal(folder, MovableClock()).read()
    assert [name for name, record in read.records.items() if record.pruned] == ["a", "b"]


OTHER_FILES = {"elsewhere.py": True, "moved/test_journal.py": False, "test_journal.py": True}


@pytest.mark.parametrize("file", OTHER_FILES)
def test_a_journal_of_another_sweep_is_refused(pai, file):
    """Two projects may have a sweep of one class name, and of one file name; one may have been moved."""

    class Other(Study):
        name = "Study"
        rates = (0.7, 0.8)

    Study().run()
    events = [json.loads(line) for line in JOURNAL.read_bytes().splitlines() if line.strip()]
    events = [event | ({"file": file} if event["event"] == "run" else {}) for event in events]
    JOURNAL.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    Path("test_journal.py").touch()
    if OTHER_FILES[file]:
        with pytest.raises(SpecError, match=f"results has the results of 'Study' of {file}; set results_dir"):
            Other().run()
    else:
        Other().run()
    assert pai.submissions == (6 if OTHER_FILES[file] else 10)
    Path("results/results.json").unlink()
    Study().run()  # its points are in the journal, whatever its file is


def test_points_that_differ_each_time_are_an_error(pai):
    """Such a sweep would never be complete."""

    class Random(PaiSweep):
        results_dir = "results"
        calls = []

        def points(self):
            self.calls.append(1)
            return [Train(rate=len(self.calls) / 10)]

    sweep = Random()
    assert not sweep.complete()
    with pytest.raises(
        SpecError, match=r"returns different points each time it is called.* give random numbers"
    ):
        sweep.run()
    assert pai.submissions == 0


def test_points_raises(pai):
    """The error has the user's own line."""

    def points():
        raise KeyError("rate")

    with pytest.raises(SpecError, match=r"points\(\) raised KeyError: 'rate' \(test_journal.py:\d+\)"):
        study("Raises", points=points).run()
    assert pai.submissions == 0


def test_tell_raises(pai):
    """No further points are proposed; what runs ends, and the error has the user's own line."""

    def tell(_sweep, _point, row):
        assert row["no such column"] is None
        raise KeyError("loss")

    search = study("Search", Asks, tell=tell, parallel_jobs=1, tolerance=3, proposes=[1, 2, 3])
    with pytest.raises(PaiSweepFailed, match=r"tell\(\) raised KeyError: 'loss' \(test_journal.py:\d+\)"):
        search.run()
    assert pai.submissions == 1
    assert states(search) == ["SUCCEEDED"]


def test_a_server_that_takes_no_part_of_a_journal_ends_the_writing(hdfs, monkeypatch):  # noqa: ARG001  is HDFS
    """A NameNode that says of each name that it exists would be asked for ever."""
    refused = []

    def create_file(_server, path, _data):
        refused.append(path)
        raise FileAlreadyExists("it exists", path=path)

    monkeypatch.setattr(Connection, "create_file", create_file)
    with pytest.raises(PaiError, match=r"journal\.jsonl has more than 1000 parts; remove the folder"):
        Journal("$PAI_DEFAULT_FS_URI/study", MovableClock()).write({"event": "told", "point": "a"})
    assert len(refused) == 1000


def test_numbers_of_other_libraries():
    """They are numbers in the table."""
    numpy = pytest.importorskip("numpy")
    given = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.bool_(True), "d": [numpy.int8(1)]}  # noqa: FBT003
    assert bounded(given) == ({"a": 0.5, "b": 3, "c": True, "d": "[1]"}, "")
    columns, (row,) = flattened([({}, Row("SUCCEEDED", {"a": {"b": 2}, "x": numpy.float32(0.25)}))])
    assert (row["a.b"], row["x"]) == (2, 0.25)
    assert columns[:3] == ["state", "a.b", "x"]


def test_a_full_disk_is_named_with_its_folder(monkeypatch):
    """The error of the system names no file."""

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device: 'results'"):
        Journal("results", MovableClock()).start("Study", "study.py")
