"""HDFS targets, file system, paths and flag, against a real WebHDFS.

The server is the local one; ``HDFS_TEST_URL=http://HOST:PORT`` (and
``HDFS_TEST_USER``, a superuser) runs the same tests against another one.
"""

from __future__ import annotations

import contextlib
import gc
import http.server
import io
import json
import logging
import multiprocessing
import os
import pickle
import posixpath
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
import requests
from webhdfs_server import serving

from luigi_pai.errors import ConfigError, PaiError
from luigi_pai.hdfs import (
    CompletionFlag,
    FileAlreadyExists,
    HdfsError,
    HdfsTarget,
    MissingParentDirectory,
    NotADirectory,
    WebHdfs,
    hdfs_path,
)
from luigi_pai.hdfs import connection as connections
from luigi_pai.local.webhdfs import WebHdfsHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OTHER_URL = os.environ.get("HDFS_TEST_URL")
USER = os.environ.get("HDFS_TEST_USER", "alice")
OURS = pytest.mark.skipif(bool(OTHER_URL), reason="needs faults that only our server makes")


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A WebHDFS for all tests of a process."""
    if OTHER_URL:
        yield OTHER_URL
        return
    with serving(tmp_path_factory.mktemp("hdfs") / "root") as address:
        yield address


@pytest.fixture
def fs(url: str) -> WebHdfs:
    """The file system."""
    return WebHdfs(url, USER, connect_timeout=5, read_timeout=20)


@pytest.fixture
def home(fs: WebHdfs) -> Iterator[str]:
    """A folder on HDFS for one test."""
    path = f"/tmp/luigi-pai-{uuid.uuid4().hex[:10]}"
    fs.mkdir(path)
    yield path
    fs.remove(path)


def written(fs: WebHdfs, path: str, text: str = "text") -> str:
    """Write a file and return its path."""
    with fs.open_writer(path) as file:
        file.write(text.encode())
    return path


def content(fs: WebHdfs, path: str) -> str:
    """Return the text of a file."""
    with fs.open_reader(path) as file:
        return file.read().decode()


def names(fs: WebHdfs, path: str) -> list[str]:
    """Return what is under a folder, all levels, relative to it."""
    return sorted(posixpath.relpath(entry, path) for entry in fs.listdir(path, recursive=True))


# paths


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/p", "/p"),
        ("/", "/"),
        ("//a///b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/.hidden", "/.hidden"),
        ("hdfs://nn:9000/p", "/p"),
        ("hdfs://nn:9000", "/"),
        ("hdfs:///p", "/p"),
        ("hdfs:/p", "/p"),
        ("HDFS://NN:9000/P", "/P"),
        ("webhdfs://nn:50070/p", "/p"),
        ("swebhdfs://nn:50470/p", "/p"),
        ("$PAI_DEFAULT_FS_URI/p", "/p"),
        ("${PAI_DEFAULT_FS_URI}/p", "/p"),
        ("$PAI_DEFAULT_FS_URI", "/"),
        ("/a b/ü#x?y=%20&*[z]{1}", "/a b/ü#x?y=%20&*[z]{1}"),
        ("hdfs://nn:9000/a#b?c", "/a#b?c"),
        ("/Outer$Inner.class", "/Outer$Inner.class"),
        ("/12:30/x", "/12:30/x"),
    ],
)
@pytest.mark.parametrize("fs_uri", [None, "hdfs://nn:9000"])
def test_path(given: str, path: str, fs_uri: str | None) -> None:
    """Every way to write a path on the cluster's HDFS means the absolute path."""
    assert hdfs_path(given, fs_uri) == path


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("p", "it is relative; begin it with / or hdfs://HOST:PORT/ or $PAI_DEFAULT_FS_URI/"),
        ("", "it is relative"),
        ("./p", "it is relative"),
        ("a:b", "it is relative"),
        ("$HOME/p", "nothing is known of $HOME; only $PAI_DEFAULT_FS_URI is resolved, at the beginning"),
        ("/data/$PAI_USER_NAME/p", "nothing is known of $PAI_USER_NAME"),
        ("/data/x${DAY}", "nothing is known of ${DAY}"),
        ("$PAI_DEFAULT_FS_URIS/p", "nothing is known of $PAI_DEFAULT_FS_URIS"),
        ("s3://bucket/p", "s3: is not HDFS"),
        ("file:///p", "file: is not HDFS"),
        ("hdfs://other:9000/p", "it is on hdfs://other:9000, and fs_uri in [OpenPai] is hdfs://nn:9000"),
        ("hdfs://nn:9001/p", "it is on hdfs://nn:9001"),
    ],
)
def test_path_that_is_none(given: str, why: str) -> None:
    """A path that cannot be on this HDFS is an error that says why, never a file that is missing."""
    with pytest.raises(HdfsError) as caught:
        hdfs_path(given, "hdfs://nn:9000")
    assert str(caught.value).startswith(f"{given!r} is no path on this HDFS: {why}")


def test_path_of_default_port_and_base() -> None:
    """8020 is the port where none is written; a path in fs_uri is the base of $PAI_DEFAULT_FS_URI only."""
    assert hdfs_path("hdfs://nn/p", "hdfs://nn:8020") == "/p"
    assert hdfs_path("$PAI_DEFAULT_FS_URI/p", "hdfs://nn:9000/base") == "/base/p"
    assert hdfs_path("hdfs://nn:9000/p", "hdfs://nn:9000/base") == "/p"
    assert hdfs_path("viewfs://c/p", "viewfs://c") == "/p"


# file system


def test_exists_and_isdir(fs: WebHdfs, home: str) -> None:
    """Files and folders exist; only folders are folders; what is not there is neither."""
    written(fs, f"{home}/f")
    assert [fs.exists(f"{home}/{name}") for name in ("f", "", "nothing")] == [True, True, False]
    assert [fs.isdir(f"{home}/{name}") for name in ("f", "", "nothing")] == [False, True, False]


def test_listdir(fs: WebHdfs, home: str) -> None:
    """Entries begin as the path was written, with size, type and time where they are asked for."""
    written(fs, f"{home}/f", "four")
    written(fs, f"{home}/d/g")
    assert sorted(fs.listdir(home)) == [f"{home}/d", f"{home}/f"]
    assert list(fs.listdir(f"hdfs://nn:1{home}", ignore_directories=True)) == [f"hdfs://nn:1{home}/f"]
    assert list(fs.listdir(home, ignore_files=True)) == [f"{home}/d"]
    assert sorted(fs.listdir(home, recursive=True)) == [f"{home}/d", f"{home}/d/g", f"{home}/f"]
    assert list(fs.listdir(f"{home}/f")) == [f"{home}/f"]
    ((path, size, kind, when),) = fs.listdir(
        home, ignore_directories=True, include_size=True, include_type=True, include_time=True
    )
    assert (path, size, kind) == (f"{home}/f", 4, "-")
    assert abs(when.timestamp() - time.time()) < 60


def test_listdir_of_nothing(fs: WebHdfs, home: str) -> None:
    """A folder that is not there is an error, with its operation, path, server and next step."""
    with pytest.raises(HdfsError) as caught:
        list(fs.listdir(f"{home}/nothing"))
    error = caught.value
    assert (error.operation, error.path, error.exception) == (
        "LISTSTATUS",
        f"{home}/nothing",
        "FileNotFoundException",
    )
    assert str(error) == (
        f"HDFS LISTSTATUS {home}/nothing on {error.server}: FileNotFoundException: File {home}/nothing "
        "does not exist.; check the path, and that what writes it has run"
    )


def test_mkdir(fs: WebHdfs, home: str) -> None:
    """Luigi's contract of mkdir: parents, raise_if_exists, and a file in the way."""
    fs.mkdir(f"{home}/a/b")
    fs.mkdir(f"{home}/a/b")
    fs.mkdir(f"{home}/a/c", parents=False)
    with pytest.raises(FileAlreadyExists, match=rf"^HDFS MKDIRS {home}/a on .*: it exists"):
        fs.mkdir(f"{home}/a", raise_if_exists=True)
    with pytest.raises(MissingParentDirectory, match=rf"^HDFS MKDIRS .*: {home}/x does not exist"):
        fs.mkdir(f"{home}/x/y", parents=False)
    written(fs, f"{home}/f")
    with pytest.raises(NotADirectory, match=r": a file is there"):
        fs.mkdir(f"{home}/f")
    assert names(fs, home) == ["a", "a/b", "a/c", "f"]


@pytest.mark.parametrize(
    ("ours", "luigis"),
    [
        (HdfsError, luigi.target.FileSystemException),
        (FileAlreadyExists, luigi.target.FileAlreadyExists),
        (MissingParentDirectory, luigi.target.MissingParentDirectory),
        (NotADirectory, luigi.target.NotADirectory),
    ],
)
def test_errors_are_luigis_too(ours: type[HdfsError], luigis: type[Exception]) -> None:
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


def test_move(fs: WebHdfs, home: str) -> None:
    """Move renames, moves into a folder that exists, and makes the folders that are missing."""
    fs.move(written(fs, f"{home}/f"), f"{home}/new/g")
    fs.mkdir(f"{home}/d")
    fs.rename(f"{home}/new/g", f"{home}/d")
    assert names(fs, home) == ["d", "d/g", "new"]


def test_move_that_is_not_done(fs: WebHdfs, home: str) -> None:
    """A rename that the server answers with false is an error that says why."""
    written(fs, f"{home}/f", "f")
    written(fs, f"{home}/g", "g")
    with pytest.raises(FileAlreadyExists, match=rf"RENAME {home}/f on .*: {home}/g exists"):
        fs.move(f"{home}/f", f"{home}/g")
    with pytest.raises(HdfsError, match=r": nothing is there"):
        fs.move(f"{home}/nothing", f"{home}/h")
    assert (content(fs, f"{home}/f"), content(fs, f"{home}/g")) == ("f", "g")


def test_rename_dont_move(fs: WebHdfs, home: str) -> None:
    """The exact rename never moves into a folder and never replaces a file."""
    written(fs, f"{home}/f")
    fs.mkdir(f"{home}/d")
    written(fs, f"{home}/g")
    fs.mkdir(f"{home}/e")
    for source, destination in (("f", "d"), ("f", "g"), ("e", "d"), ("e", "g")):
        with pytest.raises(FileAlreadyExists):
            fs.rename_dont_move(f"{home}/{source}", f"{home}/{destination}")
    fs.rename_dont_move(f"{home}/f", f"{home}/new/h")
    assert names(fs, home) == ["d", "e", "g", "new", "new/h"]
    with pytest.raises(HdfsError, match="FileNotFoundException"):
        fs.rename_dont_move(f"{home}/nothing", f"{home}/x")


def test_replace(fs: WebHdfs, home: str) -> None:
    """The replacing rename replaces a file, and no folder."""
    written(fs, f"{home}/f", "new")
    written(fs, f"{home}/g", "old")
    fs.replace(f"{home}/f", f"{home}/g")
    assert content(fs, f"{home}/g") == "new"
    fs.mkdir(f"{home}/d")
    with pytest.raises(HdfsError, match="must both be directories"):
        fs.replace(f"{home}/g", f"{home}/d")
    assert names(fs, home) == ["d", "g"]


class PlainRename(WebHdfsHandler):
    """A server that does not know renameoptions, such as HttpFS."""

    def prepare(self) -> None:
        super().prepare()
        self.query._values.pop("renameoptions", None)


@OURS
def test_server_without_exact_renames(tmp_path: Path) -> None:
    """Where the server does not know the exact renames, they are done all the same, and no file is lost."""
    with serving(tmp_path / "root", PlainRename) as url:
        fs = WebHdfs(url, USER)
        written(fs, "/f", "new")
        written(fs, "/g", "old")
        fs.replace("/f", "/g")
        assert content(fs, "/g") == "new"
        written(fs, "/h", "one")
        written(fs, "/h", "two")
        assert content(fs, "/h") == "two"
        fs.mkdir("/d")
        for rename in (fs.replace, fs.rename_dont_move):
            with pytest.raises(FileAlreadyExists, match=r"RENAME /g on .*: /d exists"):
                rename("/g", "/d")
        with pytest.raises(FileAlreadyExists):
            fs.rename_dont_move("/g", "/h")
        fs.rename_dont_move("/g", "/i")
        with pytest.raises(HdfsError, match="nothing is there"):
            fs.replace("/nothing", "/i")
        assert names(fs, "/") == ["d", "h", "i"]


def test_remove(fs: WebHdfs, home: str) -> None:
    """Removing takes files and folders; nothing there, and a full folder without recursive, are errors."""
    written(fs, f"{home}/d/f")
    with pytest.raises(HdfsError, match="PathIsNotEmptyDirectoryException"):
        fs.remove(f"{home}/d", recursive=False)
    fs.remove(f"{home}/d", skip_trash=False)
    assert names(fs, home) == []
    with pytest.raises(HdfsError, match=r"DELETE .*: nothing is there") as caught:
        fs.remove(f"{home}/d")
    assert caught.value.exception == "FileNotFoundException"


def test_chmod(fs: WebHdfs, url: str, home: str) -> None:
    """Mode bits are octal digits or a number; recursive reaches everything."""

    def modes() -> list[str]:
        paths = (home, f"{home}/d", f"{home}/d/f")
        asked = (f"{url}/webhdfs/v1{path}?op=GETFILESTATUS&user.name={USER}" for path in paths)
        return [requests.get(one, timeout=10).json()["FileStatus"]["permission"] for one in asked]

    written(fs, f"{home}/d/f")
    fs.chmod(home, "750")
    fs.chmod(f"{home}/d", 0o700)
    assert modes() == ["750", "700", "755"]
    fs.chmod(home, "755", recursive=True)
    assert modes() == ["755", "755", "755"]
    with pytest.raises(HdfsError, match="IllegalArgumentException"):
        fs.chmod(home, "u+x")


def test_count(fs: WebHdfs, home: str) -> None:
    """Count gives bytes, folders (itself too) and files."""
    written(fs, f"{home}/a", "12345")
    written(fs, f"{home}/d/b", "123")
    assert fs.count(home) == {"content_size": 8, "dir_count": 2, "file_count": 2}


def test_touchz(fs: WebHdfs, home: str) -> None:
    """touchz makes an empty file, and leaves one that is there."""
    fs.touchz(f"{home}/f")
    assert content(fs, f"{home}/f") == ""
    written(fs, f"{home}/f", "full")
    with pytest.raises(FileAlreadyExists):
        fs.touchz(f"{home}/f")
    assert content(fs, f"{home}/f") == "full"


def test_put_get_copy(fs: WebHdfs, home: str, tmp_path: Path) -> None:
    """Files and folders go there, within and back as they are, into folders that exist."""
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "f").write_bytes(bytes(range(256)))
    (tmp_path / "up" / "empty").mkdir()
    fs.put(str(tmp_path / "up"), f"{home}/x")
    fs.put(str(tmp_path / "up"), home)
    fs.copy(f"{home}/x", f"{home}/y")
    fs.copy(f"{home}/x/sub/f", f"{home}/y")
    assert names(fs, f"{home}/y") == ["empty", "f", "sub", "sub/f"]
    assert names(fs, f"{home}/up") == names(fs, f"{home}/x")
    (tmp_path / "down").mkdir()
    fs.get(f"{home}/y", str(tmp_path / "down"))
    assert (tmp_path / "down" / "y" / "sub" / "f").read_bytes() == bytes(range(256))
    assert (tmp_path / "down" / "y" / "empty").is_dir()


def test_put_and_get_replace_nothing(fs: WebHdfs, home: str, tmp_path: Path) -> None:
    """put and get keep the file that is there, and say so."""
    (tmp_path / "f").write_text("local")
    written(fs, f"{home}/f", "remote")
    with pytest.raises(FileAlreadyExists):
        fs.put(str(tmp_path / "f"), f"{home}/f")
    with pytest.raises(FileAlreadyExists, match=r"/f exists"):
        fs.get(f"{home}/f", str(tmp_path / "f"))
    assert ((tmp_path / "f").read_text(), content(fs, f"{home}/f")) == ("local", "remote")
    assert names(fs, home) == ["f"]


@pytest.mark.parametrize(
    "name", ["a b", "a+b", "ü中😀", "a#b", "a?b=c", "a&b", "#LATEST", "*[x]{y}", "'\"\\"]
)
def test_names(name: str, fs: WebHdfs, home: str) -> None:
    """Names that mean something elsewhere are names."""
    target = HdfsTarget(f"{home}/{name}", fs=fs)
    with target.open("w") as file:
        file.write(name)
    assert names(fs, home) == [name]
    assert target.open().read() == name
    target.rename(f"{home}/{name}2")
    assert content(fs, f"{home}/{name}2") == name
    assert not target.exists()


@OURS
def test_percent_in_names(fs: WebHdfs, home: str) -> None:
    """``%`` is a character too (Hadoop 2.7.4 itself cannot write it: it decodes twice)."""
    written(fs, f"{home}/100%25", "percent")
    assert names(fs, home) == ["100%25"]
    assert content(fs, f"{home}/100%25") == "percent"


def test_colon_in_a_name_is_the_servers_to_refuse(fs: WebHdfs, home: str) -> None:
    """HDFS has no names with ':'; that is said when it is tried, not when a target is made."""
    with pytest.raises(HdfsError, match="Invalid path name"):
        HdfsTarget(f"{home}/12:30", fs=fs).exists()


# whom to ask


def test_from_config(settings: Callable[..., None], url: str, home: str) -> None:
    """A target without fs asks the WebHDFS of [OpenPai] as its user, hdfs_user before username."""
    settings(webhdfs_url=f"{url}/", username="someone", hdfs_user=USER, connect_timeout=3, read_timeout=4)
    found = HdfsTarget(home).fs
    assert (found.url, found.user, found.connect_timeout, found.read_timeout) == (url, USER, 3.0, 4.0)
    assert HdfsTarget(home).exists()
    settings(hdfs_user="", webhdfs_url=f"{url}/webhdfs/v1/")
    assert (WebHdfs.from_config().url, WebHdfs.from_config().user) == (url, "someone")


def test_no_webhdfs_url(settings: Callable[..., None]) -> None:
    """Without webhdfs_url, the error comes with the first question, and says what to write."""
    settings(username="someone")
    target = HdfsTarget("$PAI_DEFAULT_FS_URI/p")
    with pytest.raises(
        ConfigError, match=r"webhdfs_url is not set in \[OpenPai\], .* write webhdfs_url = http"
    ):
        target.exists()


def test_webhdfs_uri_names_its_server(
    settings: Callable[..., None], url: str, home: str, fs: WebHdfs
) -> None:
    """A webhdfs:// path goes to its own server where webhdfs_url is not configured, for all it does."""
    settings(hdfs_user=USER)
    target = HdfsTarget(f"{url.replace('http', 'webhdfs')}{home}/f")
    with target.open("w") as file:
        file.write("named")
    assert target.open().read() == "named"
    assert content(fs, f"{home}/f") == "named"


def test_webhdfs_uri_of_another_server(fs: WebHdfs) -> None:
    """A webhdfs:// path of another server than the configured one is an error, not a file that is missing."""
    with pytest.raises(HdfsError, match=r"'webhdfs://other:1/p' is not on this HDFS: webhdfs_url .* is http"):
        fs.exists("webhdfs://other:1/p")


def test_constructing_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target is made, shown and extended without a connection, a configuration or a hadoop command."""

    def forbidden(*_args: object, **_kwargs: object) -> None:
        raise AssertionError

    monkeypatch.setattr("socket.socket.connect", forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(WebHdfs, "from_config", forbidden)
    target = HdfsTarget("hdfs://nn:9000/a:b") / "metrics.json"
    assert str(target) == target.path == "hdfs://nn:9000/a:b/metrics.json"
    assert isinstance(target, luigi.contrib.hdfs.HdfsTarget)


def test_nobody_listens() -> None:
    """A refused connection is one clear line, at once; exists() does not say False."""
    began = time.monotonic()
    with pytest.raises(HdfsError) as caught:
        WebHdfs("http://127.0.0.1:1", USER).exists("/p")
    assert str(caught.value) == (
        "HDFS GETFILESTATUS /p on 127.0.0.1:1: no answer (Connection refused); "
        "check webhdfs_url in [OpenPai], and that the NameNode runs"
    )
    assert time.monotonic() - began < 2


class Scripted(http.server.BaseHTTPRequestHandler):
    """A server that answers as a test says: a function of the handler."""

    protocol_version = "HTTP/1.1"
    script: Callable[[Any], None]

    def do_GET(self) -> None:
        type(self).script(self)

    do_PUT = do_DELETE = do_GET

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@contextlib.contextmanager
def scripted(script: Callable[[Any], None]) -> Iterator[WebHdfs]:
    """Yield a file system whose server answers by a script."""
    handler = type("Handler", (Scripted,), {"script": staticmethod(script)})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield WebHdfs(f"http://127.0.0.1:{server.server_port}", USER, connect_timeout=1, read_timeout=0.3)
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_that_is_silent() -> None:
    """A server that takes a request and says nothing ends in an error after the read timeout."""
    with (
        scripted(lambda _handler: time.sleep(1)) as fs,
        pytest.raises(HdfsError, match=r"no answer \(timed out\)"),
    ):
        fs.mkdir("/p")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b"<html>", "HTTP 404 Not Found, not in the way of a WebHDFS; check webhdfs_url"),
        (404, b'{"message": "no"}', "HTTP 404 Not Found, not in the way of a WebHDFS; check webhdfs_url"),
        (404, b"[]", "HTTP 404 Not Found, not in the way of a WebHDFS; check webhdfs_url"),
        (200, b"<html>", "the answer has no FileStatus: not in the way of a WebHDFS; check webhdfs_url"),
        (200, b"{}", "the answer has no FileStatus: not in the way of a WebHDFS; check webhdfs_url"),
        (401, b"", r"the server wants to know who you are \(401\); check hdfs_user in \[OpenPai\]"),
    ],
)
def test_a_server_that_is_no_webhdfs(status: int, body: bytes, reason: str) -> None:
    """A reply of something else, a 404 too, is an error that says so, never "not there"."""
    with scripted(lambda handler: handler.answer(status, body)) as fs, pytest.raises(HdfsError, match=reason):
        fs.exists("/p")


@pytest.mark.parametrize(
    ("exception", "step"),
    [
        ("SafeModeException", "the NameNode is in safe mode; try again"),
        ("StandbyException", "this NameNode is on standby; point webhdfs_url"),
        ("AccessControlException", "ask for permission on that path, or check hdfs_user"),
        ("UnheardOfException", "no reason given$"),
    ],
)
def test_what_to_do_next(exception: str, step: str) -> None:
    """The text follows from the exception's name, not from its wording."""
    body = json.dumps({"RemoteException": {"exception": exception, "message": ""}}).encode()
    with (
        scripted(lambda handler: handler.answer(403, body)) as fs,
        pytest.raises(HdfsError, match=step) as caught,
    ):
        fs.exists("/p")
    assert caught.value.exception == exception


def test_a_datanode_that_cannot_be_reached() -> None:
    """When the DataNode does not answer, the error names it and the NameNode that sent us there."""

    def script(handler: Any) -> None:
        handler.answer(307, Location="http://127.0.0.1:1/webhdfs/v1/p?op=OPEN&namenoderpcaddress=x")

    text = r"HDFS OPEN /p on 127.0.0.1:1: no answer \(Connection refused\); NameNode 127.0.0.1:\d+ sent us"
    with scripted(script) as fs, pytest.raises(HdfsError, match=text):
        fs.open_reader("/p")
    with (
        scripted(
            lambda handler: handler.answer(307, Location="http://127.0.0.1:1/webhdfs/v1/p?op=CREATE")
        ) as fs,
        pytest.raises(HdfsError, match=r"HDFS CREATE /p on 127.0.0.1:1: no answer"),
    ):
        fs.touchz("/p")


def test_reads_are_tried_again_and_changes_are_not() -> None:
    """A lost connection is asked again for what only looks, and never for what changes something."""
    asked: list[str] = []

    def script(handler: Any) -> None:
        asked.append(handler.command)
        if len(asked) < 3:
            handler.close_connection = True
            handler.connection.close()
        else:
            handler.answer(200, b'{"FileStatus": {"type": "FILE"}}')

    with scripted(script) as fs:
        assert fs.exists("/p")
        assert asked == ["GET", "GET", "GET"]
        asked.clear()
        with pytest.raises(HdfsError):
            fs.touchz("/p")
        assert asked == ["PUT"]


def test_one_session_per_process_and_server(fs: WebHdfs, url: str, home: str) -> None:
    """All targets of a process share one connection pool; another user has another; it has timeouts."""
    server, _path = fs._at(home)
    assert WebHdfs(url, USER, connect_timeout=5, read_timeout=20)._at("/x")[0] is server
    assert WebHdfs(url, "other")._at("/x")[0] is not server
    assert server._timeout == (5, 20)


def _in_child(fs: WebHdfs, parents_session: int, queue: Any) -> None:
    server, _path = fs._at("/")
    queue.put((id(server._session) != parents_session, fs.exists("/")))


def test_a_fork_has_its_own_session(fs: WebHdfs) -> None:
    """A forked worker shares no connection with its parent."""
    fs.exists("/")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(fs, id(fs._at("/")[0]._session), queue))
    child.start()
    child.join(20)
    assert queue.get() == (True, True)
    assert {key[0] for key in connections._connections} == {os.getpid()}


def test_threads_share_a_file_system(fs: WebHdfs, home: str) -> None:
    """Many threads write and read at once."""

    def work(number: int) -> str:
        return content(fs, written(fs, f"{home}/{number}", str(number) * 1000))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [str(number) * 1000 for number in range(24)]


@pytest.mark.parametrize("form", [None, luigi.format.Nop, luigi.format.UTF8])
def test_pickle(form: Any, fs: WebHdfs, home: str) -> None:
    """Targets and file systems can be sent to another process, also after use."""
    target = HdfsTarget(written(fs, f"{home}/f"), format=form, fs=fs)
    target.open().close()
    copy = pickle.loads(pickle.dumps(target))
    assert copy.exists()
    assert copy.open().read() in ("text", b"text")


# target


@pytest.mark.parametrize(
    ("form", "data"),
    [
        (None, "tëxt\n" * 3),
        (luigi.format.UTF8, "tëxt\n" * 3),
        (luigi.format.Nop, bytes(range(256))),
        (luigi.format.Gzip, b"bytes" * 1000),
        (luigi.format.Bzip2, b"bytes" * 1000),
        (luigi.format.UTF8 >> luigi.format.Gzip, "tëxt\n" * 1000),
        (luigi.format.UTF8 >> luigi.contrib.hdfs.Plain, "tëxt"),
        (luigi.contrib.hdfs.Plain, b"bytes"),
    ],
    ids=["default", "utf8", "nop", "gzip", "bzip2", "utf8-gzip", "utf8-plain", "plain"],
)
def test_formats(form: Any, data: Any, fs: WebHdfs, home: str) -> None:
    """Luigi's formats write and read what they should; what was there is replaced, nothing else is left."""
    target = HdfsTarget(f"{home}/deep/er/f", format=form, fs=fs)
    for part in (data[:1], data):
        with target.open("w") as file:
            file.write(part)
    with target.open() as file:
        assert file.read() == data
    assert names(fs, home) == ["deep", "deep/er", "deep/er/f"]


@pytest.mark.parametrize("form", [luigi.format.UTF8, luigi.format.UTF8 >> luigi.format.Gzip])
def test_lines(form: Any, fs: WebHdfs, home: str) -> None:
    """A file can be read line by line, with and without ``with``."""
    target = HdfsTarget(f"{home}/f", format=form, fs=fs)
    with target.open("w") as file:
        file.writelines(f"{number}\n" for number in range(1000))
    with target.open("r") as file:
        assert [int(line) for line in file] == list(range(1000))
    assert sum(1 for _line in target.open()) == 1000


def test_hadoops_own_formats_are_refused() -> None:
    """A format that can only run Hadoop's commands is refused when the target is made."""
    with pytest.raises(TypeError, match=r"runs Hadoop's commands; use a format of luigi.format"):
        HdfsTarget("/p", format=luigi.contrib.hdfs.PlainDir)


@pytest.mark.parametrize("mode", ["a", "rb", "wb", "x"])
def test_modes(mode: str) -> None:
    """Only r and w are modes."""
    with pytest.raises(ValueError, match=f"mode '{mode}': only 'r' and 'w'; for bytes use format"):
        HdfsTarget("/p").open(mode)


@pytest.mark.parametrize("form", [luigi.format.Nop, luigi.format.Gzip])
@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_publishes_nothing(
    error: type[BaseException], size: int, form: Any, fs: WebHdfs, home: str
) -> None:
    """After an exception inside ``with``, the old file is as it was, and no temporary file is left."""
    target = HdfsTarget(written(fs, f"{home}/f", "old"), format=form, fs=fs)

    def fail() -> None:
        with target.open("w") as file:
            opened.append(file)
            file.write(os.urandom(size))
            raise error

    opened: list[Any] = []  # not forgotten: it must be tidied up by the end of ``with``
    with pytest.raises(error):
        fail()
    assert content(fs, f"{home}/f") == "old"
    assert names(fs, home) == ["f"]
    assert vars(opened[0]).get("_output_pipe", opened[0]).closed


def test_forgetting_publishes_nothing(fs: WebHdfs, home: str) -> None:
    """A file that is never closed does not appear, and no temporary file is left."""
    file = HdfsTarget(f"{home}/f", format=luigi.format.Nop, fs=fs).open("w")
    file.write(b"x" * 3_000_000)
    assert len(names(fs, home)) <= 1
    del file
    gc.collect()
    assert names(fs, home) == []


def test_closing_twice_publishes_once(fs: WebHdfs, home: str) -> None:
    """close() may be called again; writing after it is an error."""
    file = HdfsTarget(f"{home}/f", format=luigi.format.Nop, fs=fs).open("w")
    file.write(b"once")
    file.close()
    file.close()
    assert content(fs, f"{home}/f") == "once"
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")


KILLED = """
import sys, time
from luigi_pai.hdfs import HdfsTarget, WebHdfs
import luigi.format
with HdfsTarget(sys.argv[2], format=luigi.format.Nop, fs=WebHdfs(sys.argv[1], sys.argv[3])).open("w") as file:
    file.write(b"x" * 3_000_000)
    print("written", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_publishes_nothing(fs: WebHdfs, home: str) -> None:
    """SIGKILL in the middle of an upload leaves the old file as it was."""
    written(fs, f"{home}/f", "old")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(fs.url), f"{home}/f", USER], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    time.sleep(0.2)
    assert content(fs, f"{home}/f") == "old"
    assert [name for name in names(fs, home) if not name.startswith(".f.luigi-tmp-")] == ["f"]


def _abort_in_child(file: Any, queue: Any) -> None:
    file._connection = lambda: queue.put("asked the server")
    file.abort()
    queue.put("did nothing")


def test_a_fork_does_not_end_its_parents_upload(fs: WebHdfs, home: str) -> None:
    """A child process that is forked while a file is open neither blocks nor deletes it."""
    context = multiprocessing.get_context("fork")
    go_on, queue = context.Event(), context.SimpleQueue()
    with HdfsTarget(f"{home}/f", format=luigi.format.Nop, fs=fs).open("w") as file:
        file.write(b"x" * 3_000_000)
        short = context.Process(target=_abort_in_child, args=(file, queue))
        short.start()
        short.join()
        assert queue.get() == "did nothing"
        long = context.Process(target=go_on.wait, args=(30,))
        long.start()
        file.write(b"y")
        began = time.monotonic()
    took = time.monotonic() - began
    go_on.set()
    long.join()
    assert took < 10
    assert fs.count(f"{home}/f")["content_size"] == 3_000_001


def test_an_upload_that_fails_is_told_at_once(home: str, fs: WebHdfs) -> None:
    """When the upload breaks, writing raises soon, closing raises, and nothing is published."""
    file = fs.open_writer(f"{home}/f")
    file._temporary = f"{home}/x:y"  # a name that the server refuses

    def write() -> None:
        for _ in range(64):
            file.write(b"x" * 1_000_000)

    with pytest.raises(HdfsError, match=r"Invalid path name|no answer|HTTP 400"):
        write()
    with pytest.raises(HdfsError):
        file.close()
    assert names(fs, home) == []


def test_a_process_that_writes_to_a_failed_upload(home: str, fs: WebHdfs) -> None:
    """A process that writes into an upload that fails is neither stopped nor killed; closing says why."""
    file = fs.open_writer(f"{home}/f")
    file._temporary = f"{home}/x:y"
    done = subprocess.run(["head", "-c", "3000000", "/dev/zero"], stdout=file, check=False, timeout=20)
    assert done.returncode == 0
    with pytest.raises(HdfsError, match=r"Invalid path name|no answer|HTTP 400"):
        file.close()


def test_no_writing_onto_a_folder(fs: WebHdfs, home: str) -> None:
    """A file cannot take the place of a folder; the temporary file is deleted."""
    written(fs, f"{home}/d/f")
    file = HdfsTarget(f"{home}/d", fs=fs).open("w")
    file.write("text")
    with pytest.raises(HdfsError, match="must both be directories"):
        file.close()
    assert names(fs, home) == ["d", "d/f"]


def test_memory_stays_flat(fs: WebHdfs, home: str) -> None:
    """32 MiB pass through a target in both directions in less than 12 MiB of memory."""
    code = f"""
import psutil, sys, luigi.format
from luigi_pai.hdfs import HdfsTarget, WebHdfs
target = HdfsTarget({home + "/big"!r}, format=luigi.format.Nop, fs=WebHdfs({fs.url!r}, {USER!r}))
target.exists()
me, part = psutil.Process(), bytes(1 << 20)
before, most, size = me.memory_info().rss, 0, 0
with target.open("w") as file:
    for _ in range(32):
        file.write(part)
        most = max(most, me.memory_info().rss)
with target.open() as file:
    while found := file.read(1 << 20):
        size += len(found)
        most = max(most, me.memory_info().rss)
print(size, most - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, grown = map(int, done.stdout.split())
    assert size == 32 << 20
    assert grown < 12 << 20


def test_a_reply_that_is_cut_short_is_an_error() -> None:
    """A file of which only a part arrives is not taken for the whole."""

    def script(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.close_connection = True

    with (
        scripted(script) as fs,
        HdfsTarget("/p", fs=fs).open() as file,
        pytest.raises(HdfsError, match="HDFS OPEN /p"),
    ):
        file.read()


def test_reading_nothing(fs: WebHdfs, home: str) -> None:
    """A file that is not there is an error when it is opened, not when it is read."""
    with pytest.raises(HdfsError) as caught:
        HdfsTarget(f"{home}/nothing", fs=fs).open()
    assert caught.value.exception == "FileNotFoundException"


def test_children(fs: WebHdfs, home: str) -> None:
    """``target / name`` is a target of the same class and file system, with the default format."""

    class Mine(HdfsTarget):
        pass

    folder = Mine(f"{home}/", format=luigi.format.Nop, fs=fs)
    child = folder / "a/b.json"
    assert type(child) is Mine
    assert child.path == f"{home}/a/b.json"
    assert child.fs is fs
    with child.open("w") as file:
        file.write("text")
    assert folder.exists()
    assert folder.isdir()
    assert not child.isdir()
    assert (HdfsTarget("/x", fs=fs) / "./y//z").path == "/x/y/z"


@pytest.mark.parametrize("part", ["", "/x", "..", "a/../../b", "a/.."])
def test_children_stay_inside(part: str) -> None:
    """A part that could lead out of the folder is refused."""
    with pytest.raises(ValueError, match="is not the path of something in /p"):
        HdfsTarget("/p") / part


def test_temporary_path(fs: WebHdfs, home: str) -> None:
    """What is written to the temporary path takes the target's place at the end, a folder too."""
    target = HdfsTarget(f"{home}/new/d", fs=fs)
    with target.temporary_path() as path:
        written(fs, f"{path}/part")
        assert not target.exists()
    assert names(fs, home) == ["new", "new/d", "new/d/part"]
    with pytest.raises(FileAlreadyExists), target.temporary_path() as path:
        written(fs, path)


def test_temporary_path_after_an_exception(fs: WebHdfs, home: str) -> None:
    """After an exception, what was at the temporary path is deleted, and the exception goes on."""

    def fail(*, write: bool) -> None:
        with HdfsTarget(f"{home}/d", fs=fs).temporary_path() as path:
            if write:
                written(fs, f"{path}/part")
            raise KeyError

    for write in (True, False):
        with pytest.raises(KeyError):
            fail(write=write)
    assert names(fs, home) == []


def test_moving_targets(fs: WebHdfs, home: str) -> None:
    """rename, move, move_dir, copy and remove do as Luigi's target does; the path stays."""
    target = HdfsTarget(written(fs, f"{home}/a", "a"), fs=fs)
    target.copy(f"{home}/copy")
    target.rename(HdfsTarget(f"{home}/b", fs=fs))
    assert target.path == f"{home}/a"
    HdfsTarget(f"{home}/b", fs=fs).move(f"{home}/c")
    HdfsTarget(f"{home}/c", fs=fs).move_dir(f"{home}/d/e")
    with pytest.raises(RuntimeError, match="Destination exists"):
        HdfsTarget(f"{home}/copy", fs=fs).rename(f"{home}/d", raise_if_exists=True)
    HdfsTarget(f"{home}/copy", fs=fs).remove()
    assert names(fs, home) == ["d", "d/e"]


def test_temporary_targets(fs: WebHdfs) -> None:
    """A target with is_tmp and no path has a path of its own, and is deleted with the target."""
    target = HdfsTarget(is_tmp=True, fs=fs)
    path = target.path
    with target.open("w") as file:
        file.write("text")
    assert fs.exists(path)
    del target
    gc.collect()
    assert not fs.exists(path)


def test_a_target_needs_a_path() -> None:
    """Without a path and without is_tmp, there is no target."""
    with pytest.raises(TypeError, match="needs a path, or is_tmp=True"):
        HdfsTarget()


def test_wildcards_warn_of_nothing(fs: WebHdfs, home: str, caplog: pytest.LogCaptureFixture) -> None:
    """``*`` in a path is a character: exists() finds that very file, and warns of nothing."""
    written(fs, f"{home}/a")
    with caplog.at_level(logging.WARNING):
        assert not HdfsTarget(f"{home}/*", fs=fs).exists()
    assert not caplog.records


def test_is_writable(fs: WebHdfs, home: str) -> None:
    """A folder of one's own is writable, asked for a path that does not exist yet; nothing is left."""
    assert HdfsTarget(f"{home}/x/y", fs=fs).is_writable()
    assert names(fs, home) == []


def test_a_pipeline(fs: WebHdfs, home: str) -> None:
    """Luigi runs a task with such an output once, and finds it complete the second time."""
    runs = []

    class Write(luigi.Task):
        folder = luigi.Parameter()

        def output(self) -> HdfsTarget:
            return HdfsTarget(f"{self.folder}/out", fs=fs)

        def run(self) -> None:
            runs.append(1)
            with self.output().open("w") as file:
                file.write("done")

    for _ in range(2):
        assert luigi.build([Write(folder=home)], local_scheduler=True)
    assert runs == [1]
    assert content(fs, f"{home}/out") == "done"


def test_reader_is_a_stream(fs: WebHdfs, home: str) -> None:
    """What reads from streams, line by line or with a text wrapper, takes the reader."""
    written(fs, f"{home}/f", "one\ntwo\n")
    with fs.open_reader(f"{home}/f") as file:
        assert file.readable()
        assert [file.readline(), file.read(1), file.peek(1)[:1]] == [b"one\n", b"t", b"w"]
    with io.TextIOWrapper(fs.open_reader(f"{home}/f"), encoding="utf-8") as text:
        assert list(text) == ["one\n", "two\n"]


# completion flag


def test_flag(fs: WebHdfs, home: str) -> None:
    """The flag holds for the jobs that were added, and for no other; folders are made."""
    flag = CompletionFlag(fs, f"{home}/out/")
    assert not flag.holds("a")
    flag.add("a")
    flag.add("b")
    flag.add("a")
    assert [flag.holds(job) for job in ("a", "b", "c")] == [True, True, False]
    assert content(fs, f"{home}/out/_SUCCESS") == "a\n"
    assert names(fs, home) == ["out", "out/_SUCCESS", "out/_SUCCESS.b"]


def test_flag_is_discarded(fs: WebHdfs, home: str) -> None:
    """A job is taken out, others stay; discarding again is nothing."""
    flag = CompletionFlag(fs, home, "_DONE")
    flag.add("a")
    flag.add("b")
    flag.discard("c")
    flag.discard("a")
    assert [flag.holds(job) for job in ("a", "b")] == [False, True]
    flag.discard("b")
    flag.discard("b")
    assert names(fs, home) == []


def test_flag_that_somebody_wrote_with_several_names(fs: WebHdfs, home: str) -> None:
    """Each line of a flag counts, and taking one job out leaves the others."""
    written(fs, f"{home}/_SUCCESS", "a\nb\n")
    flag = CompletionFlag(fs, home)
    assert flag.holds("b")
    flag.discard("a")
    assert content(fs, f"{home}/_SUCCESS") == "b\n"


def test_jobs_that_share_a_folder_do_not_lose_each_others_flag(fs: WebHdfs, home: str) -> None:
    """Twelve jobs that complete into one folder at the same moment all have their flag."""
    jobs = [f"job-{number}" for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda job: CompletionFlag(fs, home).add(job), jobs))
    flag = CompletionFlag(fs, home)
    assert [job for job in jobs if not flag.holds(job)] == []
    for job in jobs[:6]:
        flag.discard(job)
    assert [job for job in jobs if flag.holds(job)] == jobs[6:]


@pytest.mark.parametrize("text", ["", "\n"])
def test_empty_flag_counts_for_all(text: str, fs: WebHdfs, home: str) -> None:
    """An empty file, as Spark and Hadoop write it, holds for every job, stays so, and is discarded whole."""
    written(fs, f"{home}/_SUCCESS", text)
    flag = CompletionFlag(fs, home)
    assert flag.holds("any")
    flag.add("any")
    assert flag.holds("other")
    flag.discard("any")
    assert names(fs, home) == []


def test_flag_on_a_path_of_any_kind(fs: WebHdfs, home: str) -> None:
    """The folder is written in any way that a path may be."""
    CompletionFlag(fs, f"$PAI_DEFAULT_FS_URI{home}").add("a")
    assert CompletionFlag(fs, f"hdfs://nn:9000{home}").holds("a")


def test_flag_that_cannot_be_read_is_an_error() -> None:
    """A server that is not there is not an answer."""
    with pytest.raises(HdfsError, match="no answer"):
        CompletionFlag(WebHdfs("http://127.0.0.1:1", USER), "/out").holds("a")
