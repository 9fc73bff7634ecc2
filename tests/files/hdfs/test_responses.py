"""Responses of servers: limited, checked, and shown in errors of one line without secrets."""

from __future__ import annotations

import json
import logging
import pickle
import time
import traceback
from dataclasses import replace
from types import SimpleNamespace

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from file_cases import Player, table
from leaks import chain
from webhdfs_scripted import Scripted, document, file_status, looked_up, scripted_fs

from luigi_pai.api.wire import repeats
from luigi_pai.errors import PaiError
from luigi_pai.files import (
    FileAlreadyExists,
    HdfsError,
    MissingParentDirectory,
    NotADirectory,
    WebHdfs,
)
from luigi_pai.files.hdfs import connection

MIB = 1024 * 1024
STATUS = {"FileStatus": file_status()}
LONG = b"<html>" + b"x" * 400


@pytest.fixture(autouse=True)
def _no_waits(request, monkeypatch):
    if "limits" not in request.node.name:
        monkeypatch.setattr(repeats, "time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr(connection, "REST_OF_FILE", replace(repeats.REST_OF_FILE, pauses=(0.0, 0.0)))


def answering(status, body, **headers):
    """Return a script with the same response to all requests."""
    return lambda handler: handler.respond(status, body, **headers)


def break_off(handler):
    handler.respond(200, b'{"FileStatus"', **{"Content-Length": "100"})
    handler.close_connection = True


def cut_off(handler):
    handler.respond(200, b"", **{"Content-Length": "4"})
    handler.close_connection = True


def raised(script, work, **options):
    """Return the error that work on a server raises."""
    with scripted_fs(script, **options) as fs, pytest.raises(HdfsError) as caught:
        work(fs)
    return caught.value


def read(fs):
    with fs.open_reader("/p") as file:
        return file.read()


@pytest.mark.parametrize(
    ("script", "work", "message"),
    [
        (Scripted.hang_up, lambda fs: fs.exists("/p"), "no response ("),
        (Scripted.hang_up, lambda fs: fs.replace("/p", "/q"), "no response ("),
        (break_off, lambda fs: fs.exists("/p"), "no response (IncompleteRead("),
        (looked_up(cut_off), read, "the connection broke: "),
        (answering(200, LONG), lambda fs: fs.exists("/p"), "the response has no FileStatus"),
        (answering(200, b'{"boolean": tr'), lambda fs: fs.mkdir("/p"), "the response has no boolean"),
        (answering(502, LONG), lambda fs: fs.mkdir("/p"), "HTTP 502 Bad Gateway"),
        (answering(307, b"", Location="http://[bad/"), lambda fs: fs.touchz("/p"), "no response ("),
        (answering(307, b"", Location="http://h:99999999/"), read, "no response ("),
        (answering(307, b"", Location="ftp://h/?delegation=SECRET"), read, "no response ("),
        (answering(307, b"", Location=f"http://{'a' * 70}/?delegation=SECRET"), read, "no response ("),
    ],
)
def test_errors_hold_nothing_of_an_http_library(script, work, message):
    """An error and its causes are of our classes, so they can be shown and pickled."""
    error = raised(script, work)
    assert message in str(error)
    assert [type(one) for one in chain(error) if not isinstance(one, HdfsError)] == []
    assert "SECRET" not in "".join(traceback.format_exception(error))


def test_a_malformed_answer_is_shown():
    """The first 200 characters are shown, in one line, also if the path has a line break."""
    error = raised(answering(200, b"<html>\n  <b>log in</b>" + b"x" * 400), lambda fs: fs.exists("/a\nb"))
    assert str(error).startswith(r"HDFS GETFILESTATUS /a\nb on 127.0.0.1:")
    shown = "<html> <b>log in</b>" + "x" * 180
    assert "; check webhdfs_url in [OpenPai], dfs.webhdfs.enabled on the cluster, http_proxy and" in str(
        error
    )
    assert str(error).endswith(f"; the response starts with {shown!r}")


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("before", [0, 185, 1990])
def test_a_malformed_answer_shows_no_token(status, before):
    """Tokens are redacted, also those that are cut."""
    body = b"x" * before + b" http://h/p?delegation=SECRETSECRETSECRET&op=OPEN"
    message = str(raised(answering(status, body), lambda fs: fs.exists("/p")))
    assert "SECRET" not in message
    assert ("'http://h/p?delegation=******&op=OPEN'" in message) == (before == 0)


@table("values of another type", "call document")
def test_values_of_another_type(call, document):
    """A field whose value is of another type is missing."""
    error = raised(answering(200, json.dumps(document).encode()), lambda fs: Player(fs).call(call))
    assert f"the response has no {next(iter(document))}: not a valid WebHDFS response" in str(error)
    assert str(error).endswith(f"; the response starts with {json.dumps(document)!r}")


@pytest.mark.parametrize("body", [b"[" * 200_000, b"\xff\xfe\xfa", b'{"FileStatus": ' + b"9" * 5000 + b"}"])
def test_what_json_cannot_be_read_from(body):
    """A body that a JSON parser refuses is malformed like any other."""
    error = raised(answering(200, body), lambda fs: fs.exists("/p"))
    assert "the response has no FileStatus: not a valid WebHDFS response" in str(error)


def test_a_login_page_is_no_success():
    """An operation without a result fails if the response is a page, or a redirect to nowhere."""
    page = raised(answering(200, LONG), lambda fs: fs.chmod("/p", "700"))
    assert "the response is neither empty nor JSON: not a valid WebHDFS response" in str(page)
    nowhere = raised(answering(302, b""), lambda fs: fs.chmod("/p", "700"))
    assert "HTTP 302 Found, not a valid WebHDFS response" in str(nowhere)
    no_file = raised(looked_up(answering(302, b"")), read)
    assert "HDFS OPEN /p on " in str(no_file)
    assert "HTTP 302 Found, not a valid WebHDFS response" in str(no_file)


def test_where_to_write_to():
    """It is in a header or, where a proxy takes no redirects, in JSON; anything else is an error."""
    written = []

    def script(handler):
        handler.body()
        written.append(handler.path)
        address = f"http://127.0.0.1:{handler.server.server_port}/webhdfs/v1/p?datanode"
        handler.respond(
            200, b"" if "datanode" in handler.path else json.dumps({"Location": address}).encode()
        )

    with scripted_fs(script) as fs:
        fs.touchz("/p")
    assert written[1].startswith("/webhdfs/v1/p?datanode")
    error = raised(answering(200, b'{"Location": 1}'), lambda fs: fs.touchz("/p"))
    assert "the response has no Location: not a valid WebHDFS response" in str(error)


def endless(status):
    """Return a script that sends up to 192 MiB."""

    def script(handler):
        sent.append(0)
        handler.send_response(status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            while sent[-1] < 192 * MIB:
                handler.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                sent[-1] += 0x10000
        except OSError:
            handler.hang_up()

    sent = []
    script.sent = sent
    return script


@pytest.mark.parametrize("status", [200, 403])
def test_limits_of_length(status, monkeypatch):
    """An endless response is given up at its limit, and not requested again."""
    monkeypatch.setattr("luigi_pai.api.wire.timed_http.MAX_ANSWER", 16 * MIB)
    script = endless(status)
    error = raised(script, lambda fs: list(fs.listdir("/p")), read_timeout=60)  # four times that for all
    assert ": the response is longer than 16 MiB; check webhdfs_url in [OpenPai], or divide the fo" in str(
        error
    )
    sent = script.sent
    assert len(sent) == 1
    assert 16 * MIB - 0x10000 <= sent[0] <= 64 * MIB  # of which the sockets may hold up to 36


def dripping(data, length, seconds):
    """Return a script that sends bytes one after the other, with a pause after each."""

    def script(handler):
        if b"HTTP" not in data:
            handler.send_response(200)
            handler.send_header("Content-Length", str(length))
            handler.end_headers()
        try:
            for at in range(length):
                handler.wfile.write(data[at : at + 1] or b"x")
                time.sleep(seconds)
        except OSError:
            handler.hang_up()

    return script


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"{", b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "headers"])
def test_limits_of_time(data, monkeypatch):
    """A response that drips in is given up after a multiple of read_timeout, which no pause reaches."""
    monkeypatch.setattr("luigi_pai.api.wire.timed_http._WHOLE_ANSWER", 0.01)
    with (
        scripted_fs(dripping(data, 1000, 0.05), read_timeout=30) as fs,
        pytest.raises(
            HdfsError, match=r": the response was not finished within 0.3 s; check webhdfs_url in "
        ),
    ):
        fs.exists("/p")


@pytest.mark.slow
def test_files_have_no_limits(monkeypatch):
    """The content of a file has any length, and takes any time."""
    monkeypatch.setattr("luigi_pai.api.wire.timed_http._WHOLE_ANSWER", 0.01)
    size = 20 * MIB

    def script(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(size))
        handler.end_headers()
        for _part in range(10):
            handler.wfile.write(bytes(size // 10))
            time.sleep(0.05)

    with scripted_fs(looked_up(script, length=size), read_timeout=30) as fs:
        assert len(read(fs)) == size


def test_content_of_another_length():
    """A DataNode that sends less than the file has is an error; a file that has grown is read as it is."""
    with scripted_fs(looked_up(answering(200, b"xxxxx"))) as fs:
        assert read(fs) == b"xxxxx"
    error = raised(looked_up(answering(200, b"xxx")), read)
    assert "the DataNode sends 3 bytes of 4; try again" in str(error)


@pytest.mark.parametrize(
    ("ours", "luigis"),
    [
        (HdfsError, luigi.target.FileSystemException),
        (FileAlreadyExists, luigi.target.FileAlreadyExists),
        (MissingParentDirectory, luigi.target.MissingParentDirectory),
        (NotADirectory, luigi.target.NotADirectory),
    ],
)
def test_errors_are_luigis_too(ours, luigis):
    """Both ``except`` styles work, and errors come back from another process as they were."""
    assert issubclass(ours, luigis)
    assert issubclass(ours, PaiError)
    error = ours("text", operation="OPEN", path="/p", server="h:1", exception="X")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.operation, copy.path, copy.server, copy.exception) == (
        "text",
        "OPEN",
        "/p",
        "h:1",
        "X",
    )


def test_an_address_without_a_server():
    """A refused connection is one clear line; exists() does not say False."""
    with pytest.raises(HdfsError) as caught:
        WebHdfs("http://127.0.0.1:1", "alice").exists("/p")
    assert str(caught.value) == (
        "HDFS GETFILESTATUS /p on 127.0.0.1:1: no response (Connection refused); "
        "check webhdfs_url in [OpenPai], and that the NameNode runs; OpenPAI 0.16 and later have storages"
    )


@table("servers that are no WebHDFS", "status body reason")
def test_a_server_that_is_no_webhdfs(status, body, reason):
    """Any other response, also a 404, is an error that names it, never "not there"."""
    with (
        scripted_fs(lambda handler: handler.respond(status, body.encode())) as fs,
        pytest.raises(HdfsError, match=reason),
    ):
        fs.exists("/p")


@table("next steps", "exception step")
def test_what_to_do_next(exception, step):
    """The text follows from the exception's name, not from its wording."""
    body = document(RemoteException={"exception": exception, "message": ""})
    with (
        scripted_fs(lambda handler: handler.respond(403, body)) as fs,
        pytest.raises(HdfsError, match=step) as caught,
    ):
        fs.exists("/p")
    assert caught.value.exception == exception


@table("refusals", "exception message ends")
def test_the_refusals_that_end_by_themselves(exception, message, *, ends):
    """They are transient: the end of a job is recorded when they are over."""
    body = document(RemoteException={"exception": exception, "message": message})
    with scripted_fs(lambda handler: handler.respond(403, body)) as fs, pytest.raises(HdfsError) as caught:
        fs.mkdir("/p")
    assert caught.value.transient is ends


def test_a_datanode_that_cannot_be_reached():
    """When no DataNode takes a file, the error names the last and the NameNode that sent us there."""
    asked = []

    def script(handler):
        asked.append(handler.command)
        handler.respond(307, Location="http://127.0.0.1:1/webhdfs/v1/p?op=CREATE&delegation=secret")

    message = (
        r"^HDFS CREATE /p on 127.0.0.1:1: no response \(Connection refused\); NameNode 127.0.0.1:\d+ "
        r"redirected to this DataNode: check that this machine resolves its name and reaches it, or set web"
    )
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match=message):
        fs.touchz("/p")
    assert asked == ["PUT"] * 6


@pytest.mark.slow
def test_a_delegation_token_is_in_no_error_and_in_no_log(caplog):
    """The address of a DataNode may carry a token: no text, traceback or log of a failure shows it."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="luigi-interface")

    def script(handler):
        if "delegation" in handler.path:
            handler.hang_up()
        else:
            handler.send_on(f"op={handler.command}&delegation=TOKEN")

    with scripted_fs(looked_up(script, length=9)) as fs:
        for work in (lambda: fs.open_reader("/p"), lambda: fs.touchz("/p")):
            with pytest.raises(HdfsError) as caught:
                work()
            assert "TOKEN" not in "".join(traceback.format_exception(caught.value))
    assert "op=GET&delegation=******" in caplog.text
    assert "TOKEN" not in caplog.text
