"""Claims in an output folder on HDFS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.work.claims import Claim, Claims
from luigi_pai.work.output_claims import OutputClaimFolder


def claims(fs, home, name="train"):
    return Claims(OutputClaimFolder(fs, f"{home}/"), name)


def claim(number=1, name="train", task=""):
    return Claim(name, number, name, "http://pai", "anna", 1, "digest", task)


def test_the_files_of_a_claim(fs, home):
    """Each event is an empty file; recording it again changes nothing. A released claim leaves no folder."""
    mine = claims(fs, home)
    assert mine.last() is None
    held = mine.claim(claim(task="pipeline.Train"))
    for _ in range(2):
        mine.runs(held, 0, 5)
        mine.stops(held)
        mine.end(held, "FAILED")
    files = [f"train.1.{what}" for what in ("FAILED", "RUNNING-0-5", "STOPPING", "json")]
    assert names(fs, f"{home}/_luigi_pai") == files
    last = claims(fs, home).last()
    assert last == mine.last()
    assert last is not None
    assert (last.token, last.task, last.state, last.stop_sent, last.runs_since) == (
        held.token,
        "pipeline.Train",
        "FAILED",
        True,
        (0, 5),
    )
    assert mine.others() == []
    assert claims(fs, home, "other").others() == []
    assert content(fs, f"{home}/_luigi_pai/train.1.FAILED") == ""
    other = claims(fs, f"{home}/other")
    other.release(other.claim(claim()))
    assert names(fs, home) == [
        "_luigi_pai",
        *(f"_luigi_pai/{file}" for file in files),
        "other",
    ]


def test_a_claim_of_an_earlier_version(fs, home):
    """It does not record the class of its work."""
    fields = '"name": "train", "job": "j", "cluster": "c", "user": "u", "digest": "d", "token": "t"'
    written(fs, f"{home}/_luigi_pai/train.1.json", f'{{{fields}, "claimed_ms": 1}}')
    assert claims(fs, home).last() == Claim("train", 1, "j", "c", "u", 1, "d", token="t")
    assert claims(fs, home, "other").others() == ["train"]


def test_one_of_many_processes_claims_a_submission(fs, home):
    """The others get its claim; no temporary file is left."""
    mine = [claim() for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        held = list(pool.map(lambda each: claims(fs, home).claim(each), mine))
    assert len({each.token for each in held}) == 1
    assert held[0] in mine
    assert names(fs, home) == ["_luigi_pai", "_luigi_pai/train.1.json"]


def test_a_claim_that_a_process_wrote_is_not_read_again(fs, home, monkeypatch):
    """Only the folder is listed, in which other submissions may be. A released claim is forgotten."""
    mine = claims(fs, home)
    held = mine.claim(claim())
    with monkeypatch.context() as patch:
        patch.setattr(OutputClaimFolder, "read", None)
        assert mine.last() == held
    changed = mine.replace(claim(task="pipeline.Other"))
    assert mine.last() == claims(fs, home).last() == changed
    later = claims(fs, home).claim(claim(2))
    assert mine.last() == later
    claims(fs, home).release(later)
    mine.release(changed)
    assert mine.last() is None


def test_claims_that_cannot_be_read_are_an_error():
    """A server that is not there is not an answer."""
    with pytest.raises(HdfsError, match="no answer"):
        claims(WebHdfs("http://127.0.0.1:1", "alice"), "/out").last()
