"""Several NameNodes: the active one is found, whatever the others do."""

from __future__ import annotations

import json
import random

import pytest
from hdfs_backend import EACH_HADOOP, content, names, own_hdfs, written
from webhdfs_scripted import file_status, scripted

from luigi_pai.files import HdfsError, HdfsUnreachable, WebHdfs

NOBODY = "http://127.0.0.1:1"
STATUS = json.dumps({"FileStatus": file_status(length=1)}).encode()


class NameNode:
    """A script that counts, and is active, on standby or silent as a test says."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, handler):
        self.asked.append(handler.command)
        if self.answer == "active":
            handler.answer(200, b'{"boolean": true}' if handler.command != "GET" else STATUS)
        elif self.answer == "hang up":
            handler.close_connection = True
            handler.connection.close()
        else:
            handler.refuse(self.answer, f"Operation category READ is not supported in state {self.answer}")


def test_a_standby_before_the_active_one(backend, home):
    """Behind a NameNode on standby, and one that is down, everything works; the good one is remembered."""
    standby = NameNode("StandbyException")
    with scripted(standby) as url:
        fs = backend.fs(url=f"{NOBODY};{url};{backend.url}")
        written(fs, f"{home}/a/f", "one")
        assert content(fs, f"{home}/a/f") == "one"
        fs.move(f"{home}/a/f", f"{home}/g")
        assert names(fs, home) == ["a", "g"]
        assert len(standby.asked) == 1
        server, _place = fs.at(home)
        assert f"http://{server.server}" == backend.url


@pytest.mark.parametrize("answer", ["StandbyException", "RetriableException"])
def test_a_failover(answer):
    """When the active one goes on standby, the other is asked, from then on first."""
    first, second = NameNode("active"), NameNode(answer)
    with scripted(first) as one, scripted(second) as two:
        fs = WebHdfs(f"{one};{two}", "alice")
        assert fs.exists("/p")
        first.answer, second.answer = answer, "active"
        assert fs.exists("/p")
        fs.mkdir("/p")
        assert (first.asked, second.asked) == (["GET", "GET"], ["GET", "PUT"])


@pytest.mark.slow
def test_a_read_that_gets_no_answer_goes_to_the_other():
    """What only looks is asked of the other NameNode when the first breaks off."""
    first, second = NameNode("hang up"), NameNode("active")
    with scripted(first) as one, scripted(second) as two:
        assert WebHdfs(f"{one};{two}", "alice").exists("/p")
    assert second.asked == ["GET"]


def test_a_change_that_gets_no_answer_is_not_repeated():
    """What changes something and may have been done is an error; the other NameNode is not asked."""
    first, second = NameNode("hang up"), NameNode("active")
    with (
        scripted(first) as one,
        scripted(second) as two,
        pytest.raises(HdfsUnreachable, match="no answer"),
    ):
        WebHdfs(f"{one};{two}", "alice").mkdir("/p")
    assert (first.asked, second.asked) == (["PUT"], [])


@pytest.mark.parametrize("work", [lambda fs: fs.exists("/p"), lambda fs: fs.mkdir("/p")])
def test_no_namenode_is_active(work):
    """When none is active, one error says what each answered."""
    with scripted(NameNode("StandbyException")) as url, pytest.raises(HdfsUnreachable) as caught:
        work(WebHdfs(f"{NOBODY};{url}", "alice"))
    netloc = url.removeprefix("http://")
    assert str(caught.value).partition(" on ")[2] == (
        "127.0.0.1:1: no NameNode is active "
        f"(127.0.0.1:1: no answer (Connection refused); {netloc}: StandbyException: Operation category READ "
        "is not supported in state StandbyException); "
        "check webhdfs_url in [OpenPai], and that a NameNode is active"
    )


def test_one_namenode_on_standby():
    """A single one on standby is named as it is, with what to do."""
    text = r"on standby; name all of them in webhdfs_url of \[OpenPai\]"
    with scripted(NameNode("StandbyException")) as url, pytest.raises(HdfsError, match=text) as error:
        WebHdfs(url, "alice").exists("/p")
    assert error.value.exception == "StandbyException"


@pytest.mark.parametrize("answer", ["SafeModeException", "AccessControlException", "FileNotFoundException"])
def test_what_the_active_one_refuses_is_refused(answer):
    """Any other refusal is the answer; nobody else is asked."""
    first, second = NameNode(answer), NameNode("active")
    with scripted(first) as one, scripted(second) as two, pytest.raises(HdfsError, match=answer):
        list(WebHdfs(f"{one};{two}", "alice").listdir("/p"))
    assert second.asked == []


@pytest.fixture(scope="module", params=EACH_HADOOP)
def pair(request):
    """A real HDFS of each version whose second NameNode is on standby."""
    with own_hdfs(request.param, namenodes=2) as hdfs:
        yield hdfs


@pytest.mark.slow
def test_a_real_standby(pair):
    """A real NameNode on standby is passed over; alone it is an error that says so, not "missing"."""
    active, standby = pair.urls
    fs = WebHdfs(f"{standby};{active}", pair.user)
    written(fs, "/a/f", "one")
    assert (content(fs, "/a/f"), names(fs, "/a")) == ("one", ["f"])
    alone = WebHdfs(standby, pair.user)
    for work in (lambda: alone.exists("/a/f"), lambda: written(alone, "/g"), lambda: alone.remove("/a")):
        with pytest.raises(HdfsError, match=r"on standby; name all of them in webhdfs_url") as caught:
            work()
        assert caught.value.exception == "StandbyException"
    fs.remove("/a")


@pytest.mark.slow
def test_a_real_failover(pair):
    """A file that is being written when the other NameNode becomes active is whole; all goes on there."""
    fs = WebHdfs(";".join(pair.urls), pair.user)
    written(fs, "/b/old", "old")
    data = random.Random(3).randbytes(8 * 2**20)
    try:
        with fs.open_writer("/b/f") as file:
            file.write(data[: 2**20])
            pair.activate(1)
            file.write(data[2**20 :])
        with fs.open_reader("/b/f") as found:
            assert found.read() == data
        assert (content(fs, "/b/old"), names(fs, "/b")) == ("old", ["f", "old"])
    finally:
        pair.activate(0)
    assert content(fs, "/b/old") == "old"
    fs.remove("/b")


def test_a_webhdfs_uri_may_name_each(backend, home):
    """A webhdfs:// path that names one of the NameNodes is on this HDFS, and asks the active one."""
    with scripted(NameNode("StandbyException")) as url:
        fs = backend.fs(url=f"{url};{backend.url}")
        written(fs, f"{home}/f")
        for one in (url, backend.url):
            assert fs.exists(f"{one.replace('http', 'webhdfs', 1)}{home}/f")
        with pytest.raises(HdfsError, match=r"'webhdfs://127.0.0.1:1/.*' is not on this HDFS: webhdfs_url "):
            fs.exists(f"webhdfs://127.0.0.1:1{home}/f")
