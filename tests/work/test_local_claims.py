"""Claims in a folder of the user on this machine."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from luigi_pai import PaiError
from luigi_pai.api.clock import Clock
from luigi_pai.api.retries import Retry
from luigi_pai.work import local_claims as module
from luigi_pai.work.claims import Claim, Claims, NotClaimed, claim_once
from luigi_pai.work.local_claims import local_claims

DAY = 24 * 3600.0


class Time:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def folder(place="out", retention=30 * DAY, now=time.time):
    found = local_claims("http://pai", "anna", place, retention, now)
    assert found is not None
    return found


def claim(number=1, name="train", **fields) -> Claim:
    return Claim(name, number, name, "http://pai", "anna", 1, "digest", **fields)


def stored(folder) -> list[str]:
    """Return the names of all files, also of temporary ones."""
    return [path.name for path in Path(folder.where).iterdir()]


def state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"])


def test_a_submission_is_claimed_once_and_its_end_recorded():
    """Another process reads the claim of the first, the class of its work, and its end."""
    mine, other = Claims(folder(), "train"), Claims(folder(), "train")
    assert mine.last() is None
    first = claim(task="pipeline.Train")
    assert mine.claim(first) == first
    assert other.claim(claim()) == first
    mine.runs(first, 0, 5)
    mine.stops(first)
    mine.stops(first)
    mine.end(first, "FAILED")
    for claims in (mine, other):
        last = claims.last()
        assert last is not None
        assert (last.task, last.state, last.stop_sent, last.runs_since) == (
            "pipeline.Train",
            "FAILED",
            True,
            (0, 5),
        )
    changed = claim(task="pipeline.Other")
    assert other.replace(changed) == changed
    assert Claims(folder(), "train").last().task == "pipeline.Other"
    elsewhere = Claims(folder("elsewhere"), "train")
    assert elsewhere.last() is None
    elsewhere.release(elsewhere.claim(claim()))
    assert elsewhere.last() is None
    assert folder("elsewhere").names() == []


def test_other_work_in_the_folder_is_named_unless_it_failed():
    """From the listing that ``last()`` has made, without another one."""
    ends = {"a.1": "SUCCEEDED", "running": None, "failed": "FAILED", "stopped": "STOPPED", "x" * 300: None}
    for name, end in ends.items():
        claims = Claims(folder(), name)
        held = claims.claim(claim(name=name))
        if end is not None:
            claims.end(held, end)
    again = Claims(folder(), "failed")
    again.end(again.claim(claim(2, "failed")), "SUCCEEDED")
    mine = Claims(folder(), "train")
    mine.claim(claim())
    mine.last()
    others = mine.others()
    assert others[:3] == ["a.1", "failed", "running"]
    assert [found.name for found in map(mine.last_of, others) if found] == [
        "a.1",
        "failed",
        "running",
        "x" * 300,
    ]
    assert mine.last_of("failed").number == 2
    assert mine.last_of("nobody") is None


def race(started):
    """Claim 25 submissions in each of 4 threads; return their numbers, tokens, and whether each is ours."""

    def run(_thread):
        claims, found = Claims(folder(), "train"), []
        for mine in map(claim, range(1, 26)):
            held = claims.claim(mine)
            found.append((mine.number, held.token, held.token == mine.token))
        return found

    started.wait(60)
    with ThreadPoolExecutor(4) as pool:
        return list(itertools.chain(*pool.map(run, range(4))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_of_many_processes_and_threads_one_wins_each_submission():
    """The others read the whole claim of the winner, and nothing else is left in the folder."""
    fork = multiprocessing.get_context("fork")
    with fork.Manager() as manager, fork.Pool(4) as pool:
        rows = list(itertools.chain(*pool.map(race, [manager.Barrier(4)] * 4, chunksize=1)))
    assert len(rows) == 25 * 16
    winners = {number: token for number, token, is_ours in rows if is_ours}
    assert sum(is_ours for _, _, is_ours in rows) == len(winners) == 25
    assert {(number, token) for number, token, _ in rows} == {*winners.items()}
    assert len(folder().names()) == len(stored(folder())) == 25


def test_an_expired_claim_counts_as_absent_and_is_removed():
    """Its age is that of the last file of the submission; a later submission keeps its own."""
    now = Time()
    claims = Claims(folder(retention=10 * DAY, now=now), "train")
    first = claims.claim(claim())
    now.now += 9 * DAY
    claims.end(first, "SUCCEEDED")
    second = claims.claim(claim(2))
    now.now += 9 * DAY
    claims.runs(second, 0, 7)
    assert claims.last() == Claims(folder(now=now), "train").last()
    now.now += 2 * DAY
    assert sorted(folder(retention=10 * DAY, now=now).names()) == ["train.2.RUNNING-0-7", "train.2.json"]
    assert not Path(folder().where, "train.1.json").exists()
    now.now += 20 * DAY
    fresh = claim(2)
    assert claims.claim(fresh) == fresh
    assert Claims(folder(retention=10 * DAY, now=now), "train").last() == fresh


def test_of_many_that_meet_an_expired_claim_one_wins():
    """Nobody removes the new claim in place of the expired one."""
    now = Time()
    for number in range(1, 21):
        Claims(folder(retention=DAY, now=now), "train").claim(claim(number))
    now.now += 2 * DAY

    def race(_: int) -> list[str]:
        claims = Claims(folder(retention=DAY, now=now), "train")
        mine = [claim(number) for number in range(1, 21)]
        barrier.wait()
        return [
            each.token
            for each in mine
            if claim_once(claims, each, Retry(30, Clock()), lambda _seconds: None) is each
        ]

    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        winners = [token for tokens in pool.map(race, range(8)) for token in tokens]
    assert len(winners) == 20
    assert len(folder(retention=DAY, now=now).names()) == 20


def test_abandoned_files_and_untouched_folders_are_removed(monkeypatch):
    """A killed process leaves a temporary file; a folder that nobody touches for 90 days goes."""
    old, kept = Path(folder("old").where), Path(folder("kept").where)
    for place in ("old", "kept"):
        Claims(folder(place), "train").claim(claim())
    (kept / ".0123456789ab.train.2.json").touch()
    os.utime(kept / ".0123456789ab.train.2.json", (1, 1))
    assert folder("kept").names() == ["train.1.json"]
    assert stored(folder("kept")) == ["train.1.json"]
    before = time.time() - 91 * DAY
    for path in (old / "train.1.json", old):
        os.utime(path, (before, before))
    monkeypatch.setattr(module, "_roots", {})
    assert folder("kept").names() == ["train.1.json"]
    assert not old.exists()


def test_the_folders_are_private():
    """Only this user has access; the claims are in the folder of the state."""
    Claims(folder(), "train").claim(claim())
    place = Path(folder().where)
    assert place.is_relative_to(state() / "luigi_pai" / "claims")
    paths = [state() / "luigi_pai", *(state() / "luigi_pai").rglob("*")]
    assert {oct(path.lstat().st_mode & 0o777) for path in paths} == {"0o700", "0o600"}


def test_without_xdg_state_home_the_state_is_in_the_home_folder(tmp_path, monkeypatch):
    """Also if the variable is not an absolute path, as the XDG specification says."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(folder().where).is_relative_to(tmp_path / ".local" / "state" / "luigi_pai")


def _a_link(root: Path) -> None:
    (root.parent / "foreign").mkdir()
    root.symlink_to(root.parent / "foreign")


def _open_to_others(root: Path) -> None:
    root.mkdir()
    root.chmod(0o755)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_a_link, "/luigi_pai is not a folder"),
        (_open_to_others, "/luigi_pai is open to other users"),
        (Path.touch, "File exists"),
    ],
)
def test_without_a_usable_folder_there_is_one_warning_and_no_claims(caplog, spoil, reason):
    """The warning has the reason and the consequence."""
    state().mkdir(parents=True)
    spoil(state() / "luigi_pai")
    assert [local_claims("http://pai", "anna", place, DAY) for place in "ab"] == [None, None]
    (message,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"Claims cannot be kept on this machine \(.*\)\. Work continues without them", message)
    assert reason in message
    assert "it may run twice. Set XDG_STATE_HOME to a folder of yours" in message


def test_the_folder_of_another_user_is_refused(caplog, monkeypatch):
    """Also by root, who could write there."""
    folder()
    monkeypatch.setattr(module, "_roots", {})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert local_claims("http://pai", "anna", "out", DAY) is None
    assert "/luigi_pai belongs to another user" in caplog.text


@pytest.mark.parametrize("call", ["open", "link", "fsync"])
def test_work_goes_on_when_the_disk_fails(caplog, monkeypatch, call):
    """A disk that becomes full: each submission is made as if there were no claims, after one warning."""
    claims = Claims(folder(), "train")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for number in (1, 2):
            assert claims.claim(claim(number)) == claim(number, token=claims._made.token)
    assert [record.getMessage()[:73] for record in caplog.records] == [
        "Claims cannot be kept on this machine ([Errno 28] No space left on device"
    ]
    assert not any(name.startswith(".") for name in stored(folder()))


@pytest.mark.parametrize("call", ["open", "link", "fsync"])
def test_a_point_of_an_array_waits_while_the_disk_is_full(monkeypatch, call):
    """The server knows the array's name only, so nothing else would keep another run from the point."""
    claims, array = Claims(folder(), "p-1"), replace(claim(name="p-1"), job="points-array-0123456789ab")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def wait(_: float) -> None:
        waits.append(1)
        if len(waits) == 1:
            patch.undo()

    waits: list[int] = []
    refused = r"/p-1\.2\.json cannot be written \(No space left on device\), so its job was not submitted; "
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        assert claim_once(claims, array, Retry(10.0, Clock()), wait) == array
        patch.setattr(os, call, fail)
        with pytest.raises(PaiError, match=refused):
            claim_once(claims, replace(array, number=2), Retry(0.0, Clock()), wait)
    assert list(stored(folder())) == ["p-1.1.json"]


def test_an_invalid_claim_is_an_error():
    """It may be invalid JSON, too large, or have a class that is not a string."""
    place = folder()
    place.create_once("train.1.json", b'{"half')
    with pytest.raises(PaiError, match=r"/train\.1\.json is not the record of a submission, .*; remove the"):
        Claims(place, "train").last()
    place.replace("train.1.json", b" " * 200_000)
    with pytest.raises(PaiError, match=r"/train\.1\.json has more than 100,000 bytes; remove the file"):
        Claims(place, "train").last()
    fields = (
        b'{"name": "t", "job": "t", "cluster": "c", "user": "u", "digest": "d", "token": "t", "claimed_ms": 1'
    )
    for task in (b"7", b'"' + b"x" * 201 + b'"'):
        place.replace("train.1.json", fields + b', "task": ' + task + b"}")
        with pytest.raises(PaiError, match="is not the record of a submission"):
            Claims(place, "train").last()
    place.replace("train.1.json", fields + b"}")
    assert Claims(place, "train").last().task == ""


def test_a_claim_is_tried_again_while_it_is_neither_made_nor_there(monkeypatch):
    """Another process has just released it."""
    place = folder()
    claims, waits, mine = Claims(place, "train"), [], claim()
    create = type(place).create_once
    monkeypatch.setattr(
        type(place), "create_once", lambda *given, **more: bool(waits) and create(*given, **more)
    )
    with pytest.raises(NotClaimed, match=r"/train\.1\.json was not created, .*, so job train was not"):
        claims.claim(mine)

    def sleep(seconds: float) -> None:
        waits.append(seconds)

    assert claim_once(claims, mine, Retry(30, Clock()), sleep) is mine
    assert 0.2 < waits[0] <= 0.5
