"""The trash: what is removed with skip_trash=False can be had back; the same on both backends."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hdfs_backend import WITH_PERMISSIONS, Backend, content, names, written

from luigi_pai.hdfs import HdfsError, HdfsTarget, WebHdfs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def homes(backend: Backend, fs: WebHdfs) -> Iterator[str]:
    """The folder of home folders, in which others may look and not write; then as it was before."""
    path = "/user"
    fs.mkdir(path)
    mode = backend.mode(path)
    fs.chmod(path, "755")
    yield path
    fs.chmod(path, mode)


@pytest.fixture
def user(backend: Backend, homes: str) -> Iterator[str]:
    """Somebody new, with a home folder of his own."""
    name = f"u{uuid.uuid4().hex[:8]}"
    root = backend.fs()
    root.mkdir(f"{homes}/{name}")
    root.chown(f"{homes}/{name}", name, None)
    yield name
    root.remove(f"{homes}/{name}")


@pytest.fixture
def his(backend: Backend, fs: WebHdfs, home: str, user: str) -> WebHdfs:
    """The file system as that user; the test's folder is his."""
    fs.chown(home, user, None)
    return backend.fs(user)


def test_trash(his: WebHdfs, home: str, user: str) -> None:
    """Files and folders lie in /user/NAME/.Trash/Current under the path they had."""
    written(his, f"{home}/d/f", "kept")
    HdfsTarget(f"{home}/d", fs=his).remove(skip_trash=False)
    assert names(his, home) == []
    trash = f"/user/{user}/.Trash"
    assert content(his, f"{trash}/Current{home}/d/f") == "kept"
    his.move(f"{trash}/Current{home}/d", f"{home}/d")
    assert content(his, f"{home}/d/f") == "kept"


@WITH_PERMISSIONS
def test_nobody_else_looks_into_the_trash(his: WebHdfs, home: str, user: str) -> None:
    """Its folder is its owner's."""
    his.remove(written(his, f"{home}/f"), skip_trash=False)
    with pytest.raises(HdfsError, match="Permission denied"):
        WebHdfs(str(his.url), "stranger").exists(f"/user/{user}/.Trash/Current")


def test_trash_keeps_what_it_has(his: WebHdfs, home: str, user: str) -> None:
    """A second file of the same path lies beside the first, with the time behind its name."""
    for text in ("first", "second"):
        his.remove(written(his, f"{home}/f", text), skip_trash=False)
    found = sorted(his.listdir(f"/user/{user}/.Trash/Current{home}"))
    assert [content(his, path) for path in found] == ["first", "second"]
    assert found[1].removeprefix(found[0]).isdigit()


def test_trash_where_a_file_was_a_folder(his: WebHdfs, home: str, user: str) -> None:
    """What was in a folder of the name of a file in the trash finds a place, too."""
    his.remove(written(his, f"{home}/x", "file"), skip_trash=False)
    his.remove(written(his, f"{home}/x/y", "in a folder"), skip_trash=False)
    found = [path for path in names(his, f"/user/{user}/.Trash/Current") if path.endswith(f"{home}/x/y")]
    assert content(his, f"/user/{user}/.Trash/Current/{found[0]}") == "in a folder"


def test_trash_is_emptied_for_good(his: WebHdfs, home: str, user: str) -> None:
    """What is in the trash already is deleted, as the hdfs command does it."""
    his.remove(written(his, f"{home}/f"), skip_trash=False)
    his.remove(f"/user/{user}/.Trash/Current{home}/f", skip_trash=False)
    his.remove(f"/user/{user}/.Trash", skip_trash=False)
    assert names(his, f"/user/{user}") == []


def test_trash_refuses(his: WebHdfs, fs: WebHdfs, home: str, user: str) -> None:
    """Nothing there, a full folder without recursive, and what holds the trash: errors, nothing is gone."""
    written(his, f"{home}/d/f")
    with pytest.raises(HdfsError, match=r"DELETE .*: nothing is there"):
        his.remove(f"{home}/nothing", skip_trash=False)
    with pytest.raises(HdfsError, match="PathIsNotEmptyDirectoryException"):
        his.remove(f"{home}/d", recursive=False, skip_trash=False)
    with pytest.raises(HdfsError, match=r"to the trash, which is in it; .* skip_trash=True"):
        his.remove(f"/user/{user}", skip_trash=False)
    assert fs.exists(f"{home}/d/f")


@WITH_PERMISSIONS
@pytest.mark.usefixtures("homes")
def test_trash_that_cannot_be_had(backend: Backend, fs: WebHdfs, home: str) -> None:
    """Who has no home folder and may not make one is told so, and nothing is deleted."""
    name = f"u{uuid.uuid4().hex[:8]}"
    fs.chown(home, name, None)
    homeless = backend.fs(name)
    path = written(homeless, f"{home}/f")
    text = r"it cannot be moved to the trash \(.*Permission denied.*\); .* remove it with skip_trash=True"
    with pytest.raises(HdfsError, match=text):
        homeless.remove(path, skip_trash=False)
    assert fs.exists(path)
