"""Small files that several processes create and remove, where answers are lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hdfs_backend import content, names, written
from webhdfs_server import serving

from luigi_pai.files import HdfsError, WebHdfs, small_files
from luigi_pai.files.small_files import create_once, remove_once, tidy_beside
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler

if TYPE_CHECKING:
    from collections.abc import Callable


class Lossy(WebHdfsHandler):
    """Executes requests, and loses the answers to the first ones of an operation.

    Attributes:
        lost: operation, and how many of its answers are lost.
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
def fs(tmp_path):
    """A file system on such a server, in the folder ``hdfs``."""
    Lossy.lost, Lossy.meanwhile = ("", 0), staticmethod(lambda: None)
    with serving(tmp_path / "hdfs", Lossy) as url:
        yield WebHdfs(url, "anna", read_timeout=5)


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_is_created_though_answers_are_lost(fs, count):
    Lossy.lost = ("CREATE", count)
    assert create_once(fs, "/a/f", b"mine")
    assert Lossy.lost == ("CREATE", 0)
    assert not create_once(fs, "/a/f", b"other")
    assert content(fs, "/a/f") == "mine"
    assert names(fs, "/a") == ["f"]


def test_a_file_whose_temporary_file_was_tidied_meanwhile_is_not_created(fs, monkeypatch):
    """This process slept for hours before the rename, and another one has created the file."""

    def written_and_tidied(*given):
        temporary = write_beside(*given)
        with monkeypatch.context() as patch:
            patch.setattr(small_files, "_ABANDONED", -60)
            server, folder = fs.at("/a")
            tidy_beside(server, folder, server.list_status(folder))
        return temporary

    write_beside = small_files._write_beside
    monkeypatch.setattr(small_files, "_write_beside", written_and_tidied)
    assert not create_once(fs, "/a/f", b"mine")
    assert names(fs, "/a") == []
    written(fs, "/a/f", "other")
    assert not create_once(fs, "/a/f", b"mine")
    assert content(fs, "/a/f") == "other"


def test_a_file_that_cannot_be_created_is_an_error(fs):
    Lossy.lost = ("CREATE", 3)
    with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no answer"):
        create_once(fs, "/a/f", b"mine")
    assert names(fs, "/a") == []


@pytest.mark.parametrize("lost", ["RENAME", "DELETE"])
def test_the_next_file_of_the_name_stays(fs, tmp_path, lost):
    """Another process creates it as soon as this one's is away."""
    written(fs, "/a/f", "mine")
    Lossy.lost = (lost, 1)
    Lossy.meanwhile = staticmethod(lambda: (tmp_path / "hdfs" / "a" / "f").write_text("other"))
    with contextlib.suppress(HdfsError):
        remove_once(fs, "/a/f")
    assert Lossy.lost == (lost, 0)
    assert content(fs, "/a/f") == "other"


def test_a_file_is_removed(fs):
    written(fs, "/a/f", "mine")
    remove_once(fs, "/a/f")
    assert names(fs, "/a") == []
