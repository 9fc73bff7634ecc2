"""Transient errors: what may be done twice is sent again, soon and at most twice; nothing else is."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from types import SimpleNamespace

import pytest
import requests
from ending_server import EndingServer
from ports import refused_port
from webhdfs_scripted import Scripted, file_status, scripted, scripted_fs

from luigi_pai.api.wire import repeats
from luigi_pai.api.wire.environment import Environment
from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, HdfsUnreachable, WebHdfs
from luigi_pai.files.errors import unanswered

STATUS = json.dumps({"FileStatus": file_status()}).encode()
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

    def __init__(self, *faults, answer=DONE):
        self.faults = list(faults)
        self.answer = answer
        self.asked = []

    def __call__(self, handler):
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if "datanode" in handler.path:
            handler.answer(201)
            return
        self.asked.append(handler.path.partition("op=")[2].partition("&")[0])
        if self.faults:
            self.faults.pop(0)(handler)
        elif self.asked[-1] == "CREATE":
            handler.answer(
                307, Location=f"http://127.0.0.1:{handler.server.server_port}/webhdfs/v1/p?datanode"
            )
        elif self.asked[-1] in ("SETPERMISSION", "SETOWNER"):
            handler.answer(200)
        else:
            handler.answer(200, STATUS if handler.command == "GET" else self.answer)


def break_off(handler):
    handler.answer(200, b'{"boolean"', **{"Content-Length": "100"})
    handler.close_connection = True


def status(number, **headers):
    return lambda handler: handler.answer(number, b"<html>not now</html>", **headers)


WORK = {
    "GETFILESTATUS": lambda fs: fs.exists("/p"),
    "MKDIRS": lambda fs: fs.mkdir("/p"),
    "DELETE": lambda fs: fs.remove("/p"),
    "SETPERMISSION": lambda fs: fs.chmod("/p", "755"),
    "SETOWNER": lambda fs: fs.chown("/p", "bob", None),
    "CREATE": lambda fs: fs.touchz("/p"),
}
FAULTS = {"hangs up": Scripted.hang_up, "breaks off": break_off} | {
    str(n): status(n) for n in (429, 502, 503, 504)
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", WORK)
def test_what_may_be_done_twice_is_retried(operation, fault, pauses):
    """Two transient errors are retried, after 0.05 s and after another 0.2 s."""
    script = Faulty(FAULTS[fault], FAULTS[fault])
    with scripted_fs(script) as fs:
        WORK[operation](fs)
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
    text = (
        r"^HDFS MKDIRS /p on 127.0.0.1:\d+: HTTP 503 Service Unavailable, not a valid WebHDFS reply; try "
        r"again; the answer begins with '<html>not now</html>'"
    )
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match=f"{text}$"):
        fs.mkdir("/p")
    assert (len(script.asked), pauses) == (3, [0.05, 0.2])
    lines = [record.getMessage() for record in caplog.records if "retried" in record.getMessage()]
    assert [line.partition("; retried in ")[2].split(" http")[0] for line in lines] == [
        "0.05 s: PUT",
        "0.2 s: PUT",
    ]
    assert "HTTP 503 Service Unavailable" in lines[0]


def test_a_refusal_is_not_retried(pauses):
    """What a NameNode says itself is its answer."""
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
    """What has surely not been sent, also a rename, is sent again; a server that stays down is an error."""
    script = Faulty()
    with scripted(script) as url:
        port = int(url.rpartition(":")[2])
    fs = WebHdfs(url, "alice")
    with pytest.raises(HdfsUnreachable, match=r"no answer \(Connection refused\)") as caught:
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
    """Return what a request to the NameNode h:1 that was sent has ended with."""
    return NoResponse("GET", "http://h:1/p", (10.0, 30.0), Environment(verify=True), error, sent=True)


def test_a_certificate_that_is_not_trusted_is_not_retried():
    """A certificate does not become right."""
    error = requests.exceptions.SSLError(ssl.SSLCertVerificationError(1, "certificate verify failed"))
    failure = unanswered("OPEN", "/p", no_response(error), ["h:1"])
    assert str(failure).startswith("HDFS OPEN /p on h:1: no answer (certificate verify failed); ")
    assert not failure.transient
    assert unanswered("OPEN", "/p", no_response(requests.ConnectionError("cut")), ["h:1"]).transient


def test_a_proxy_that_is_away_is_named(monkeypatch):
    """The NameNode is not to blame; no part of the proxy's URL is shown."""
    monkeypatch.setenv("http_proxy", f"http://user:hunter2@127.0.0.1:{refused_port()}")
    with pytest.raises(HdfsUnreachable) as caught:
        WebHdfs("http://namenode.invalid:50070", "alice").exists("/p")
    assert str(caught.value) == (
        "HDFS GETFILESTATUS /p on namenode.invalid:50070: no answer through the proxy of http_proxy in the "
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
    script = Faulty(Scripted.hang_up, answer=b'{"boolean": false}')
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
        with pytest.raises(HdfsError, match=r"^HDFS MKDIRS /p on .*: the answer has no boolean: not a valid"):
            fs.mkdir("/p")
    assert script.asked[3:] == ["MKDIRS"]
