"""What can go wrong on HDFS, in one clear line."""

from __future__ import annotations

import json
import logging
import pickle
import traceback

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from webhdfs_scripted import file_status, scripted_fs

from luigi_pai.errors import PaiError
from luigi_pai.files import (
    FileAlreadyExists,
    HdfsError,
    MissingParentDirectory,
    NotADirectory,
    WebHdfs,
)


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
        "HDFS GETFILESTATUS /p on 127.0.0.1:1: no answer (Connection refused); "
        "check webhdfs_url in [OpenPai], and that the NameNode runs; OpenPAI 0.16 and later have storages"
    )


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b"<html>", "HTTP 404 Not Found, not a valid WebHDFS reply; check webhdfs_url"),
        (404, b'{"message": "no"}', "HTTP 404 Not Found, not a valid WebHDFS reply; check webhdfs_url"),
        (404, b"[]", "HTTP 404 Not Found, not a valid WebHDFS reply; check webhdfs_url"),
        (200, b"{}", "the answer has no FileStatus: not a valid WebHDFS reply; check webhdfs_url"),
        (401, b"", r"the server requires a login \(401\); check hdfs_user in \[OpenPai\]"),
    ],
)
def test_a_server_that_is_no_webhdfs(status, body, reason):
    """A reply of something else, a 404 too, is an error that says so, never "not there"."""
    with (
        scripted_fs(lambda handler: handler.answer(status, body)) as fs,
        pytest.raises(HdfsError, match=reason),
    ):
        fs.exists("/p")


@pytest.mark.parametrize(
    ("exception", "step"),
    [
        ("SafeModeException", "the NameNode is in safe mode; try again"),
        ("StandbyException", "this NameNode is on standby; name all of them in webhdfs_url"),
        ("AccessControlException", "ask for permission on that path, or check hdfs_user"),
        ("UnheardOfException", "no reason given$"),
    ],
)
def test_what_to_do_next(exception, step):
    """The text follows from the exception's name, not from its wording."""
    body = json.dumps({"RemoteException": {"exception": exception, "message": ""}}).encode()
    with (
        scripted_fs(lambda handler: handler.answer(403, body)) as fs,
        pytest.raises(HdfsError, match=step) as caught,
    ):
        fs.exists("/p")
    assert caught.value.exception == exception


@pytest.mark.parametrize(
    ("exception", "message", "ends"),
    [
        # as HDFS 2.7.4 and 3.3.4 send them
        ("SafeModeException", "Cannot delete /p. Name node is in safe mode.\nIt was turned on", True),
        ("RemoteException", "Cannot create file/p. Name node is in safe mode.", True),
        ("StandbyException", "Operation category READ is not supported in state standby", True),
        ("RetriableException", "Namenode is in startup mode", True),
        ("ConnectException", "Call From vm/127.0.0.1 to localhost:1 failed on connection exception", True),
        ("EOFException", 'End of File Exception between local host is: "vm/127.0.0.1"', True),
        ("IOException", "Failed on local exception: java.io.IOException: Connection reset by peer", True),
        ("IOException", "Failed to find datanode, suggest to check cluster health.", True),
        ("IOException", "No active nodes contain this block", True),
        (
            "IOException",
            "File /p could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s)",
            True,
        ),
        (
            "IOException",
            "File /p could only be replicated to 0 nodes instead of minReplication (=1).  There are 1 ",
            False,  # its disk is full
        ),
        ("IOException", "File /p could not be read", False),
        ("RemoteException", "The directory item limit of /p is exceeded", False),
        ("AccessControlException", "Permission denied: user=anna", False),
        ("DSQuotaExceededException", "The DiskSpace quota of /p is exceeded", False),
        ("EOFException", "Cannot seek after EOF", False),
    ],
)
def test_the_refusals_that_end_by_themselves(exception, message, *, ends):
    """They are transient: the end of a job is recorded when they are over."""
    body = json.dumps({"RemoteException": {"exception": exception, "message": message}}).encode()
    with scripted_fs(lambda handler: handler.answer(403, body)) as fs, pytest.raises(HdfsError) as caught:
        fs.mkdir("/p")
    assert caught.value.transient is ends


def test_a_datanode_that_cannot_be_reached():
    """When no DataNode takes a file, the error names the last and the NameNode that sent us there."""
    asked = []

    def script(handler):
        asked.append(handler.command)
        handler.answer(307, Location="http://127.0.0.1:1/webhdfs/v1/p?op=CREATE&delegation=secret")

    text = (
        r"^HDFS CREATE /p on 127.0.0.1:1: no answer \(Connection refused\); NameNode 127.0.0.1:\d+ "
        r"redirected to this DataNode: check that this machine resolves its name and reaches it, or set web"
    )
    with scripted_fs(script) as fs, pytest.raises(HdfsError, match=text):
        fs.touchz("/p")
    assert asked == ["PUT"] * 6


@pytest.mark.slow
def test_a_delegation_token_is_in_no_error_and_in_no_log(caplog):
    """The address of a DataNode may carry a token: no text, traceback or log of a failure shows it."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="luigi-interface")

    def script(handler):
        if "GETFILESTATUS" in handler.path:
            handler.answer(200, json.dumps({"FileStatus": file_status(length=9)}).encode())
        elif "delegation" in handler.path:
            handler.hang_up()
        else:
            at = f"http://127.0.0.1:{handler.server.server_port}/webhdfs/v1/p"
            handler.answer(307, Location=f"{at}?op={handler.command}&delegation=TOKEN")

    with scripted_fs(script) as fs:
        for work in (lambda: fs.open_reader("/p"), lambda: fs.touchz("/p")):
            with pytest.raises(HdfsError) as caught:
                work()
            assert "TOKEN" not in "".join(traceback.format_exception(caught.value))
    assert "op=GET&delegation=******" in caplog.text
    assert "TOKEN" not in caplog.text
