"""Small files, claims and flags, which several processes create, read and remove."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from file_cases import Player, steps
from hdfs_backend import content, names, written
from webhdfs_server import serving

from luigi_pai.files import HdfsError, WebHdfs, small_files
from luigi_pai.files.small_files import create_once, remove_once, tidy_beside
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler
from luigi_pai.work.claims import Claim, Claims
from luigi_pai.work.flag import CompletionFlag
from luigi_pai.work.output_claims import OutputClaimFolder

if TYPE_CHECKING:
    from collections.abc import Callable


class Lossy(WebHdfsHandler):
    """Executes requests, and loses the responses to the first ones of an operation.

    Attributes:
        lost: The operation, and how many of its responses are lost.
        meanwhile: is called after each of these.
    """

    lost: tuple[str, int] = ("", 0)
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    async def put(self, path=None):
        self._lose(self.get_query_argument("op"))
        await super().put(path)

    async def delete(self, path=None):
        self._lose("DELETE")
        await super().delete(path)

    def _lose(self, operation):
        name, left = self.lost
        if operation == name and left and (operation != "CREATE" or self.is_datanode()):
            type(self).lost = name, left - 1
            self.finish = self._closed

    def _closed(self, *_document):
        self.request.connection.stream.close()
        type(self).meanwhile()


@pytest.fixture
def lossy(tmp_path):
    """A file system on such a server, in the folder ``hdfs``."""
    Lossy.lost, Lossy.meanwhile = ("", 0), staticmethod(lambda: None)
    with serving(tmp_path / "hdfs", Lossy) as url:
        yield WebHdfs(url, "anna", read_timeout=5)


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_is_created_though_answers_are_lost(lossy, count):
    Lossy.lost = ("CREATE", count)
    assert create_once(lossy, "/a/f", b"mine")
    assert Lossy.lost == ("CREATE", 0)
    assert not create_once(lossy, "/a/f", b"other")
    assert content(lossy, "/a/f") == "mine"
    assert names(lossy, "/a") == ["f"]


def test_a_file_whose_temporary_file_was_tidied_meanwhile_is_not_created(lossy, monkeypatch):
    """This process slept for hours before the rename, and another one has created the file."""

    def written_and_tidied(*given):
        temporary = write_beside(*given)
        with monkeypatch.context() as patch:
            patch.setattr(small_files, "_ABANDONED", -60)
            server, folder = lossy.at("/a")
            tidy_beside(server, folder, server.list_status(folder))
        return temporary

    write_beside = small_files._write_beside
    monkeypatch.setattr(small_files, "_write_beside", written_and_tidied)
    assert not create_once(lossy, "/a/f", b"mine")
    assert names(lossy, "/a") == []
    written(lossy, "/a/f", "other")
    assert not create_once(lossy, "/a/f", b"mine")
    assert content(lossy, "/a/f") == "other"


def test_a_file_that_cannot_be_created_is_an_error(lossy):
    Lossy.lost = ("CREATE", 3)
    with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no response"):
        create_once(lossy, "/a/f", b"mine")
    assert names(lossy, "/a") == []


@pytest.mark.parametrize("lost", ["RENAME", "DELETE"])
def test_the_next_file_of_the_name_stays(lossy, tmp_path, lost):
    """Another process creates it as soon as this one's is away."""
    written(lossy, "/a/f", "mine")
    Lossy.lost = (lost, 1)
    Lossy.meanwhile = staticmethod(lambda: (tmp_path / "hdfs" / "a" / "f").write_text("other"))
    with contextlib.suppress(HdfsError):
        remove_once(lossy, "/a/f")
    assert Lossy.lost == (lost, 0)
    assert content(lossy, "/a/f") == "other"


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


@steps("flags")
def test_flags(backend, fs, home, steps):
    """Each case of the section ``flags`` of tests/data/files/steps.yaml."""
    Player(fs, home=home, prefix=backend.prefix).play(steps)


@pytest.mark.slow
def test_jobs_that_share_a_folder_do_not_lose_each_others_flag(fs, home):
    """Twelve jobs that complete into one folder at the same moment all have their flag."""
    jobs = [f"job-{number}" for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda job: CompletionFlag(fs, home).add(job, submitted_here=False), jobs))
    flag = CompletionFlag(fs, home)
    assert [job for job in jobs if not flag.holds(job)] == []
    for job in jobs[:6]:
        flag.discard(job)
    assert [job for job in jobs if flag.holds(job)] == jobs[6:]


@pytest.mark.parametrize(
    "read", [lambda fs: claims(fs, "/out").last(), lambda fs: CompletionFlag(fs, "/out").holds("a")]
)
def test_what_cannot_be_read_is_an_error(read):
    """A missing server does not count as a missing file."""
    with pytest.raises(HdfsError, match="no response"):
        read(WebHdfs("http://127.0.0.1:1", "alice"))
