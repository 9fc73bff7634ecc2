"""A server that lies, drips, never ends or leads elsewhere, against each operation that it can reach.

None writes outside of its folder, hangs, takes more than its limits, or raises anything but an HdfsError,
or a TransferError where the local disk does not take a name.
"""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit

import psutil
import pytest
from file_cases import Player, calls
from webhdfs_scripted import document, file_status, scripted

from luigi_pai.api.wire import repeats
from luigi_pai.files import HdfsError, TransferError, WebHdfs

pytestmark = pytest.mark.slow

LIMIT = 256 * 1024  # bytes of a response, here
BUFFERS = 16 * 1024 * 1024  # what sockets hold that nobody has read
MEMORY = 200 * 1024 * 1024  # that all operations may grow by, 27 at once
LONGEST_TEXT = 4000  # characters of an error
SECONDS = 150.0  # for all operations on one server, at once
SECRET = "delegation=SECRETSECRET"


def honest(handler, operation):
    """Respond as a WebHDFS that has a folder /out with a file f in it."""
    path = unquote(urlsplit(handler.path).path).removeprefix("/webhdfs/v1") or "/"
    here = f"http://127.0.0.1:{handler.server.server_port}/webhdfs/v1{path}"
    is_folder = path in ("/", "/out", "/user/alice") or path.endswith("/d")
    status = file_status(type="DIRECTORY" if is_folder else "FILE")
    if "datanode" in handler.path:
        if handler.command == "PUT":
            handler.respond(201)
        else:
            handler.respond(200, b"data")
    elif operation in ("OPEN", "CREATE"):
        handler.respond(307, Location=f"{here}?op={operation}&datanode=1&{SECRET}")
    elif operation == "GETFILESTATUS":
        handler.respond(200, document(FileStatus=status))
    elif operation == "LISTSTATUS":
        handler.respond(200, listing(file_status(pathSuffix="f")) if is_folder else listing(file_status()))
    elif operation == "GETCONTENTSUMMARY":
        handler.respond(200, document(ContentSummary={"length": 1, "directoryCount": 1, "fileCount": 1}))
    elif operation == "GETHOMEDIRECTORY":
        handler.respond(200, document(Path="/user/alice"))
    else:
        handler.respond(200, document(boolean=True))


def listing(*entries):
    return document(FileStatuses={"FileStatus": list(entries)})


def on(operations, reply):
    """Return a kind with this response to some operations; ``DATA`` is the response of a DataNode."""

    def kind(handler, operation):
        name = "DATA" if "datanode" in handler.path else operation
        if operations != "*" and name not in operations.split():
            return False
        reply(handler)
        return True

    return kind


def named(*names, **facts):
    """Return a kind whose folders have entries of these names."""
    entries = [file_status(pathSuffix=name, **facts) for name in names]
    return on("LISTSTATUS", lambda handler: handler.respond(200, listing(*entries)))


def status(**facts):
    """Return a kind whose files and folders have such a status."""
    found = file_status(**{"pathSuffix": "f", **facts})

    def reply(handler):
        is_list = "LISTSTATUS" in handler.path
        handler.respond(200, listing(found) if is_list else document(FileStatus=found))

    return on("GETFILESTATUS LISTSTATUS", reply)


def answering(operations, **fields):
    """Return a kind that responds to some operations with a document."""
    return on(operations, lambda handler: handler.respond(200, document(**fields)))


def body(message, code=200, **headers):
    return on("*", lambda handler: handler.respond(code, message + b" " + SECRET.encode(), **headers))


def led(location, operations="*"):
    return on(operations, lambda handler: handler.respond(307, Location=location))


def raw(data, *, times=1, pause=0.0):
    """Return a response of raw bytes, sent again and again."""

    def reply(handler):
        handler.close_connection = True
        try:
            for _time in range(times):
                handler.connection.sendall(data)
                handler.counts["sent"] += len(data)
                time.sleep(pause)
        except OSError:
            pass

    return reply


def chunked(data, **how):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    rest = raw(b"%x\r\n%s\r\n" % (len(data), data), **how)
    return lambda handler: (raw(head)(handler), rest(handler))[1]


def contents(length, data, **how):
    """Return a response that names a length of the content, and then sends something."""
    head, rest = b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % length.encode(), raw(data, **how)
    return lambda handler: (raw(head)(handler), rest(handler))[1]


def reset(handler):
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()


MUCH = 4096  # times 64 KiB: 256 MiB, which nobody may take
DRIPS = {"times": 400, "pause": 0.03}

KINDS = {
    **{f"status: {kind}": status(**facts) for kind, facts in calls("hostile statuses").items()},
    **{
        f"redirect: {kind}": led(f"{location}?{SECRET}")
        for kind, location in calls("hostile redirects").items()
    },
    **{kind: answering(**reply) for kind, reply in calls("hostile values").items()},
    **{f"name: {kind}": named(*names) for kind, names in calls("hostile names").items()},
    "name: file and folder": on(
        "LISTSTATUS",
        lambda handler: handler.respond(
            200, listing(file_status(pathSuffix="d", type="DIRECTORY"), file_status(pathSuffix="d"))
        ),
    ),
    "page": body(b"<html>log in</html>"),
    "empty": on("*", lambda handler: handler.respond(200)),
    "nested JSON": body(b"[" * 100_000),
    "long number": body(b'{"FileStatus": ' + b"9" * 5000 + b"}"),
    "no content": on("*", lambda handler: handler.respond(204)),
    "endless body": on("*", chunked(b" " * 0x10000, times=MUCH)),
    "endless headers": on("*", raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, times=MUCH)),
    "endless error": on(
        "*",
        lambda h: (
            raw(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")(h),
            raw(b"10000\r\n" + b" " * 0x10000 + b"\r\n", times=MUCH)(h),
        )[1],
    ),
    "dripping body": on("*", chunked(b" ", **DRIPS)),
    "silence": on("*", lambda _handler: time.sleep(1.5)),
    "closed": on("*", lambda h: setattr(h, "close_connection", True)),
    "reset": on("*", reset),
    "no HTTP": on("*", raw(b"SSH-2.0-OpenSSH_9.6\r\n")),
    "redirect: to itself": on("*", lambda h: h.respond(307, Location=h.path)),
    "redirect: nobody there": led("http://127.0.0.1:1/x?" + SECRET, "OPEN CREATE"),
    "redirect: long": led("http://127.0.0.1:1/" + "x" * 60_000),
    "redirect: nowhere": on("*", lambda h: h.respond(302)),
    "length: longer than the data": on("DATA", contents("9", b"data")),
    "length: shorter than the file": on("DATA", contents("2", b"data")),
    "length: negative": on("*", contents("-4", b"data")),
    "length: of 5000 digits": on("*", contents("9" * 5000, b"data")),
    "length: superscript": on("DATA", contents("\u00b2", b"data")),
    "packed": body(b"\x1f\x8b" + b"\0" * 100, Content_Encoding="gzip"),
    "401": body(b"who are you", 401, WWW_Authenticate="Negotiate"),
    "403 of a proxy": body(b"<html>denied</html>", 403),
    "exception of another form": on(
        "*", lambda h: h.respond(500, document(RemoteException={"exception": [1]}))
    ),
    "exception: long": on("*", lambda h: h.refuse("E" * 9000, f"{SECRET} line\nline\n" * 9000)),
    "exception: nothing is there": on("*", lambda h: h.refuse("FileNotFoundException", status=404)),
}


OPERATIONS = calls("operations")


OF_VALUES = ("honest", "name", "status", "listing", "summary", "boolean", "home")
SOME = ("exists", "listdir", "mkdir", "remove", "read", "write much", "download", "upload")
"""Operations for kinds whose responses are invalid before any value is read."""

REFUSED = [
    f"name: {name}" for name in ("parent", "absolute", "path", "NUL", "surrogate", "null", "none, of two")
]
"""Kinds of which nothing that reads a listing takes anything."""


def names_in(folder):
    """Return what is in a local folder."""
    return sorted(place.name for place in folder.iterdir())


def outcome(call, fs, here):
    """Return the error that a call raises."""
    try:
        Player(fs, here, source=str(here.parent / "source")).play(call)
    except BaseException as error:  # noqa: BLE001  the test checks its type
        return error
    return None


def outcomes(kind, tmp_path):
    """Return the error of each operation, the bytes that the server sent, and the requests that it got."""
    counts = {"sent": 0, "asked": 0}

    def script(handler):
        handler.counts = counts
        handler.body()
        operation = parse_qs(urlsplit(handler.path).query).get("op", [""])[0]
        counts["asked"] += 1
        if not KINDS[kind](handler, operation):
            honest(handler, operation)

    here = tmp_path / "in"
    timeout = 0.25 if kind.startswith(("dripping", "silence")) else 30.0
    chosen = OPERATIONS if kind.partition(":")[0] in OF_VALUES else {name: OPERATIONS[name] for name in SOME}
    with scripted(script) as url, ThreadPoolExecutor(len(chosen)) as pool:
        fs = WebHdfs(url, "alice", connect_timeout=30.0, read_timeout=timeout)
        began = {name: pool.submit(outcome, work, fs, here) for name, work in chosen.items()}
        _done, late = wait(began.values(), SECONDS)
        assert [name for name, future in began.items() if future in late] == []
    return {name: future.result() for name, future in began.items()}, counts["sent"], counts["asked"]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch):
    monkeypatch.setattr("luigi_pai.api.wire.timed_http.MAX_ANSWER", LIMIT)
    monkeypatch.setattr(repeats, "time", SimpleNamespace(sleep=lambda _seconds: None))


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_server(kind, tmp_path):
    """Each operation ends in time, by itself or with an HdfsError, and leaves everything else alone."""
    for folder in ("in", "source"):
        (tmp_path / folder).mkdir()
    (tmp_path / "source" / "f").write_text("data")
    before = psutil.Process().memory_info().rss
    errors, sent, asked = outcomes(kind, tmp_path)
    assert psutil.Process().memory_info().rss - before < MEMORY
    assert sent <= asked * (LIMIT + BUFFERS)
    for name, error in errors.items():
        assert error is None or isinstance(error, (HdfsError, TransferError)), (name, error)
        message = str(error)
        assert "SECRETSECRET" not in message, name
        assert "\n" not in message, name
        assert "\x1b" not in message, name
        assert len(message) < LONGEST_TEXT, name
    assert names_in(tmp_path) == ["in", "source"]
    assert {*names_in(tmp_path / "in")} <= {"got", "file", "downloaded"}
    assert names_in(tmp_path / "source") == ["f"]
    assert not os.path.lexists("/tmp/luigi-pai-escaped")
    if kind in REFUSED:
        messages = [str(errors[name]) for name in ("listdir", "get", "download", "copy", "glob")]
        named = ["FileStatuses: not a valid WebHDFS response" in message for message in messages]
        assert any(named), messages
        # many operations at once may be late on a busy machine
        assert all(
            "(read_timeout)" in message
            for message, is_named in zip(messages, named, strict=True)
            if not is_named
        )


def test_an_honest_server(tmp_path, monkeypatch):
    """Most operations succeed on a valid server; the others find files that they must not replace."""
    for folder in ("in", "source"):
        (tmp_path / folder).mkdir()
    (tmp_path / "source" / "f").write_text("data")
    monkeypatch.setitem(KINDS, "honest", lambda _handler, _operation: False)
    errors, _sent, _asked = outcomes("honest", tmp_path)
    succeeded = {name for name, error in errors.items() if error is None}
    assert succeeded >= {"exists", "listdir", "count", "glob", "chmod", "read", "get", "download", "remove"}
    assert (tmp_path / "in" / "got" / "f").read_text() == "data"
