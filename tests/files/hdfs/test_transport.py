"""Requests: addresses, connections, several NameNodes, and retries."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import ssl
import sys
import threading
import unicodedata
from types import SimpleNamespace
from urllib.parse import quote, unquote, urlsplit

import pytest
import requests
from cutting_proxy import before_datanodes
from ending_server import EndingServer
from file_cases import Player, calls, table
from hdfs_backend import EACH_HADOOP, content, names, own_hdfs, written
from ports import refused_port
from pylon import pylon
from webhdfs_scripted import Scripted, document, file_status, scripted, scripted_fs
from webhdfs_server import serving

from luigi_pai.api.wire import repeats
from luigi_pai.api.wire.environment import Environment
from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, HdfsUnreachable, WebHdfs
from luigi_pai.files.errors import unanswered
from luigi_pai.files.hdfs.transport import api_base, datanode_address, probe_of_decoding
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler


@table("API bases", "url base")
def test_api_base(url, base):
    """An address without a path of the API gets the usual one."""
    assert api_base(url) == base


@table("addresses of DataNodes", "location rule address")
def test_datanode_address(location, rule, address):
    """A rule replaces scheme, host and port; the incorrect redirect of Pylon 0.7.1 is corrected."""
    path = unquote(location.partition("?")[0].rpartition("/webhdfs/v1")[2])
    assert datanode_address(location, path, rule) == address


@table("paths in redirects", "location path address")
def test_the_path_is_the_one_that_was_asked_for(location, path, address):
    """The spelling of the redirect is ignored; an address without a path of WebHDFS does not change."""
    assert datanode_address(location, path, None) == address


def test_the_address_of_a_probe():
    """It asks for a name in which nothing is left to decode; of the query, only who asks stays."""
    probe = probe_of_decoding(
        "http://p/a/dn:1/webhdfs/v1/x%25?op=CREATE&user.name=u&overwrite=true&delegation=t"
    )
    assert probe == "http://p/a/dn:1/webhdfs/v1/%25zz?op=OPEN&user.name=u&delegation=t"


class AsJava(WebHdfsHandler):
    """A WebHDFS that sends on as Hadoop does: Java's URI composes characters, and leaves ``;`` as it is."""

    def set_header(self, name, value):
        """Compose what is decomposed."""
        if name == "Location":
            value = quote(unicodedata.normalize("NFC", unquote(value)), safe="/:?&=;%")
        super().set_header(name, value)


@pytest.mark.parametrize("name", ["u\u0308", "u\u0308 1", "a;", "a;b"])
def test_a_name_that_the_namenode_spells_otherwise(name, tmp_path):
    """A file is written and read under the name that was asked for, not under the one that is sent back."""
    with serving(tmp_path, AsJava) as url:
        fs = WebHdfs(url, "anna")
        written(fs, f"/d/{name}", name)
        assert names(fs, "/d") == [name]
        assert content(fs, f"/d/{name}") == name


def round_trip(fs, home):
    """Write, list, read, rename and remove, small and big."""
    data = random.Random(3).randbytes(3_000_000)
    with fs.open_writer(f"{home}/d/big") as file:
        file.write(data)
    written(fs, f"{home}/d/small", "small")
    assert names(fs, home) == ["d", "d/big", "d/small"]
    with fs.open_reader(f"{home}/d/big") as found:
        assert found.read() == data
    fs.rename_dont_move(f"{home}/d/small", f"{home}/s")
    assert content(fs, f"{home}/s") == "small"
    fs.remove(f"{home}/d")
    assert names(fs, home) == ["s"]


def test_datanodes_behind_a_proxy(backend, fs, home):
    """With a rule, nothing goes to a DataNode but through the proxy."""
    written(fs, f"{home}/s")
    with before_datanodes(backend, f"{home}/s") as proxy:
        fs.remove(f"{home}/s")
        round_trip(backend.fs(redirect=proxy.url), home)
        assert proxy.connections


@pytest.mark.slow
@pytest.mark.parametrize("slip", [True, False], ids=["0.7.1", "0.7.2"])
def test_pylon(*, slip, backend, home):
    """Through OpenPAI's Pylon everything works, and nothing but Pylon is asked; without a rule."""
    with pylon(backend.url, slip=slip) as address:
        fs = backend.fs(url=f"{address}/webhdfs/api/v1")
        round_trip(fs, home)
        assert fs.at("/")[0].server == urlsplit(address).netloc


def test_one_session_per_process_and_server(fs, url, home):
    """All targets of a process share one connection pool; another user has another."""
    server, _path = fs.at(home)
    assert WebHdfs(url, fs.user, connect_timeout=5, read_timeout=20).at("/x")[0] is server
    assert WebHdfs(url, "other").at("/x")[0] is not server


def _ask(fs, path, *, expected):
    for _ in range(20):
        assert fs.exists(path) is expected


def test_a_fork_has_its_own_connection(fs, home):
    """A forked worker that asks at the same time as its parent gets its own responses."""
    _ask(fs, "/", expected=True)
    child = multiprocessing.get_context("fork").Process(
        target=_ask, args=(fs, f"{home}/missing"), kwargs={"expected": False}
    )
    child.start()
    _ask(fs, "/", expected=True)
    child.join()
    assert child.exitcode == 0


NOBODY = "http://127.0.0.1:1"


class NameNode:
    """A script that counts, and is active, on standby or silent as a test says."""

    def __init__(self, state):
        self.state = state
        self.asked = []

    def __call__(self, handler):
        self.asked.append(handler.command)
        if self.state == "active":
            handler.respond(200, b'{"boolean": true}' if handler.command != "GET" else STATUS)
        elif self.state == "hang up":
            handler.close_connection = True
            handler.connection.close()
        else:
            handler.refuse(self.state, f"Operation category READ is not supported in state {self.state}")


@contextlib.contextmanager
def two(first, second):
    """Yield two NameNodes with these responses, and the HDFS that has them."""
    first, second = NameNode(first), NameNode(second)
    with scripted(first) as one, scripted(second) as other:
        yield first, second, WebHdfs(f"{one};{other}", "alice")


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


@pytest.mark.parametrize("state", ["StandbyException", "RetriableException"])
def test_a_failover(state):
    """When the active one goes on standby, the other is asked, from then on first."""
    with two("active", state) as (first, second, fs):
        assert fs.exists("/p")
        first.state, second.state = state, "active"
        assert fs.exists("/p")
        fs.mkdir("/p")
    assert (first.asked, second.asked) == (["GET", "GET"], ["GET", "PUT"])


@pytest.mark.slow
def test_a_namenode_that_gives_no_answer():
    """A read is asked of the other one. A change may have been done: it is an error, and is not repeated."""
    with two("hang up", "active") as (_first, second, fs):
        assert fs.exists("/p")
    assert second.asked == ["GET"]
    with two("hang up", "active") as (first, second, fs), pytest.raises(HdfsUnreachable, match="no response"):
        fs.mkdir("/p")
    assert (first.asked, second.asked) == (["PUT"], [])


@pytest.mark.parametrize("work", [lambda fs: fs.exists("/p"), lambda fs: fs.mkdir("/p")])
def test_no_namenode_is_active(work):
    """If none is active, one error has the response of each."""
    with scripted(NameNode("StandbyException")) as url, pytest.raises(HdfsUnreachable) as caught:
        work(WebHdfs(f"{NOBODY};{url}", "alice"))
    netloc = url.removeprefix("http://")
    assert str(caught.value).partition(" on ")[2] == (
        "127.0.0.1:1: no NameNode is active "
        f"(127.0.0.1:1: no response (Connection refused); {netloc}: StandbyException: Operation category "
        "READ is not supported in state StandbyException); "
        "check webhdfs_url in [OpenPai], and that a NameNode is active"
    )


@pytest.mark.parametrize("state", ["SafeModeException", "AccessControlException", "FileNotFoundException"])
def test_what_the_active_one_refuses_is_refused(state):
    """Any other refusal is final; the other NameNode gets no request."""
    with two(state, "active") as (_first, second, fs), pytest.raises(HdfsError, match=state):
        list(fs.listdir("/p"))
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


STATUS = document(FileStatus=file_status())
DONE = b'{"boolean": true}'


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that are waited before retries; they do not pass."""
    found = []
    monkeypatch.setattr(repeats, "time", SimpleNamespace(sleep=found.append))
    return found


class Faulty:
    """A script: each request meets the next fault, and when there are none left is answered.

    A fault is a function of the handler. The data of a file are always taken.
    """

    def __init__(self, *faults, response=DONE):
        self.faults = list(faults)
        self.response = response
        self.asked = []

    def __call__(self, handler):
        handler.body()
        if "datanode" in handler.path:
            handler.respond(201)
            return
        self.asked.append(handler.path.partition("op=")[2].partition("&")[0])
        if self.faults:
            self.faults.pop(0)(handler)
        elif self.asked[-1] == "CREATE":
            handler.send_on("datanode")
        elif self.asked[-1] in ("SETPERMISSION", "SETOWNER"):
            handler.respond(200)
        else:
            handler.respond(200, STATUS if handler.command == "GET" else self.response)


def break_off(handler):
    handler.respond(200, b'{"boolean"', **{"Content-Length": "100"})
    handler.close_connection = True


def status(number, **headers):
    return lambda handler: handler.respond(number, b"<html>not now</html>", **headers)


WORK = calls("repeatable")
FAULTS = {"hangs up": Scripted.hang_up, "breaks off": break_off} | {
    str(n): status(n) for n in (429, 502, 503, 504)
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", WORK)
def test_what_may_be_done_twice_is_retried(operation, fault, pauses):
    """Two transient errors are retried, after 0.05 s and after another 0.2 s."""
    script = Faulty(FAULTS[fault], FAULTS[fault])
    with scripted_fs(script) as fs:
        Player(fs).call(WORK[operation])
    assert script.asked == [operation] * 3
    assert pauses == [0.05, 0.2]


@pytest.mark.slow
def test_no_answer_in_time_is_retried():
    """A timeout is a transient error, too."""
    wait = threading.Event()
    script = Faulty(lambda _handler: wait.wait(100))
    with scripted_fs(script, read_timeout=3) as fs:
        fs.mkdir("/p")
        wait.set()
    assert script.asked == ["MKDIRS"] * 2


def test_a_third_error_is_raised(pauses, caplog):
    """The third try is the last one, and each retry is logged with its cause."""
    caplog.set_level("INFO", logger="luigi-interface")
    script = Faulty(*[status(503)] * 3)
    message = (
        r"^HDFS MKDIRS /p on 127.0.0.1:\d+: HTTP 503 Service Unavailable, not a valid WebHDFS response; try "
        r"again; the response starts with '<html>not now</html>'"
    )
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match=f"{message}$"):
        fs.mkdir("/p")
    assert (len(script.asked), pauses) == (3, [0.05, 0.2])
    lines = [record.getMessage() for record in caplog.records if "retried" in record.getMessage()]
    assert [line.partition("; retried in ")[2].split(" http")[0] for line in lines] == [
        "0.05 s: PUT",
        "0.2 s: PUT",
    ]
    assert "HTTP 503 Service Unavailable" in lines[0]


def test_a_refusal_is_not_retried(pauses):
    """The refusal of a NameNode is final."""
    script = Faulty(lambda handler: handler.refuse("SafeModeException", status=503))
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match="SafeModeException"):
        fs.mkdir("/p")
    assert (script.asked, pauses) == (["MKDIRS"], [])


@pytest.mark.parametrize("fault", ["hangs up", "503"])
def test_a_rename_whose_answer_is_lost_is_an_error(fault, pauses):
    """A rename may be done: a second one would fail, or rename something else."""
    script = Faulty(FAULTS[fault])
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match=r"^HDFS RENAME /p on "):
        fs.replace("/p", "/q")
    assert (script.asked, pauses) == (["RENAME"], [])


@pytest.mark.parametrize("work", [lambda fs: fs.replace("/p", "/q"), lambda fs: fs.exists("/p")])
def test_a_refused_connection_is_retried_once(work, pauses, monkeypatch):
    """A request that was certainly not sent is sent once more, also a rename."""
    script = Faulty()
    with scripted(script) as url:
        port = int(url.rpartition(":")[2])
    fs = WebHdfs(url, "alice")
    with pytest.raises(HdfsUnreachable, match=r"no response \(Connection refused\)") as caught:
        work(fs)
    assert caught.value.unsent
    assert pauses == [0.05]

    servers = []
    start = SimpleNamespace(sleep=lambda _seconds: servers.append(_serve(port, script)))
    monkeypatch.setattr(repeats, "time", start)
    work(fs)
    assert script.asked[0] in ("RENAME", "GETFILESTATUS")
    assert len(servers) == 1
    servers[0].shutdown()
    servers[0].server_close()


def _serve(port, script):
    handler = type("Handler", (Scripted,), {"script": staticmethod(script)})
    server = EndingServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


def no_response(error):
    """Return the failure of a request that was sent to the NameNode h:1."""
    return NoResponse("GET", "http://h:1/p", (10.0, 30.0), Environment(verify=True), error, sent=True)


def test_a_certificate_that_is_not_trusted_is_not_retried():
    """A certificate does not become right."""
    error = requests.exceptions.SSLError(ssl.SSLCertVerificationError(1, "certificate verify failed"))
    failure = unanswered("OPEN", "/p", no_response(error), ["h:1"])
    assert str(failure).startswith("HDFS OPEN /p on h:1: no response (certificate verify failed); ")
    assert not failure.transient
    assert unanswered("OPEN", "/p", no_response(requests.ConnectionError("cut")), ["h:1"]).transient


def test_a_proxy_that_is_away_is_named(monkeypatch):
    """The NameNode is not to blame; no part of the proxy's URL is shown."""
    monkeypatch.setenv("http_proxy", f"http://user:hunter2@127.0.0.1:{refused_port()}")
    with pytest.raises(HdfsUnreachable) as caught:
        WebHdfs("http://namenode.invalid:50070", "alice").exists("/p")
    assert str(caught.value) == (
        "HDFS GETFILESTATUS /p on namenode.invalid:50070: no response through the proxy of http_proxy in the "
        "environment (Connection refused); correct http_proxy (http://USER:PASSWORD@HOST:PORT), or name the "
        "host in no_proxy"
    )


@pytest.mark.parametrize("value", ["socks5://user:hunter2@proxy:1080", "ftp://user:hunter2@proxy:1"])
def test_a_proxy_that_cannot_be_used_is_an_error_of_the_configuration(monkeypatch, value):
    """As for the rest-server."""
    monkeypatch.setitem(sys.modules, "socks", None)
    monkeypatch.setenv("all_proxy", value)
    with pytest.raises(ConfigError, match=r"^all_proxy in the environment is ") as caught:
        WebHdfs(f"http://behind-{value[:3]}.invalid:50070", "alice").exists("/p")  # one that is not cached
    assert "hunter2" not in str(caught.value)


def test_a_delete_whose_answer_is_lost_is_done(pauses):
    """A retried delete that finds nothing has been done before: it is no error."""
    script = Faulty(Scripted.hang_up, response=b'{"boolean": false}')
    with scripted_fs(script) as fs:
        fs.remove("/p")
        assert (script.asked, pauses) == (["DELETE"] * 2, [0.05])
        with pytest.raises(HdfsError, match=r"^HDFS DELETE /p on .*: nothing is there; "):
            fs.remove("/p")


@pytest.mark.slow
def test_a_malformed_answer_is_retried_for_reads(pauses):
    """A read is asked again where something else answered; a change is not: it says so at once."""
    script = Faulty(status(200), status(200))
    with scripted_fs(script) as fs:
        assert fs.exists("/p")
        assert (script.asked, pauses) == (["GETFILESTATUS"] * 3, [0.05, 0.2])
        script.faults.append(status(200))
        with pytest.raises(
            HdfsError, match=r"^HDFS MKDIRS /p on .*: the response has no boolean: not a valid"
        ):
            fs.mkdir("/p")
    assert script.asked[3:] == ["MKDIRS"]
