"""The completion flag."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.work.flag import CompletionFlag


def test_flag(fs, home):
    """The flag holds for the jobs that were added, and for no other; folders are made."""
    flag = CompletionFlag(fs, f"{home}/out/")
    assert not flag.holds("a")
    flag.add("a", submitted_here=False)
    flag.add("b", submitted_here=False)
    flag.add("a", submitted_here=False)
    assert [flag.holds(job) for job in ("a", "b", "c")] == [True, True, False]
    assert content(fs, f"{home}/out/_SUCCESS") == "a\n"
    assert names(fs, home) == ["out", "out/_SUCCESS", "out/_SUCCESS.b"]


def test_flag_is_discarded(fs, home):
    """A job is taken out, others stay; discarding again is nothing."""
    flag = CompletionFlag(fs, home, "_DONE")
    flag.add("a", submitted_here=False)
    flag.add("b", submitted_here=False)
    flag.discard("c")
    flag.discard("a")
    assert [flag.holds(job) for job in ("a", "b")] == [False, True]
    flag.discard("b")
    flag.discard("b")
    assert names(fs, home) == []


def test_flag_that_somebody_wrote_with_several_names(fs, home):
    """Each line of a flag counts, and taking one job out leaves the others."""
    written(fs, f"{home}/_SUCCESS", "a\nb\n")
    flag = CompletionFlag(fs, home)
    assert flag.holds("b")
    flag.discard("a")
    assert content(fs, f"{home}/_SUCCESS") == "b\n"


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


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_flag_counts_for_what_was_submitted_there(text, fs, home):
    """An empty file, as Spark and Hadoop write it, holds for jobs of this folder, and is discarded whole."""
    written(fs, f"{home}/_SUCCESS", text)
    flag = CompletionFlag(fs, home)
    assert flag.holds("any", submitted_here=True)
    assert not flag.holds("any")
    flag.add("any", submitted_here=False)
    assert flag.holds("any")
    assert not flag.holds("other")
    flag.discard("any")
    assert names(fs, home) == []


def test_flag_on_a_path_of_any_kind(backend, fs, home):
    """The folder is written in any way that a path may be."""
    CompletionFlag(fs, f"$PAI_DEFAULT_FS_URI{home}").add("a", submitted_here=False)
    assert CompletionFlag(fs, f"{backend.prefix}{home}").holds("a")


def test_flag_that_cannot_be_read_is_an_error():
    """A server that is not there is not an answer."""
    with pytest.raises(HdfsError, match="no answer"):
        CompletionFlag(WebHdfs("http://127.0.0.1:1", "alice"), "/out").holds("a")
