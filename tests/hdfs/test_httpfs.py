"""A server that knows the first rename only, as HttpFS: replacing takes two steps and loses no file."""

from __future__ import annotations

import pytest
from hdfs_backend import content, names, written
from webhdfs_server import serving

from luigi_pai.files import FileAlreadyExists, HdfsError, WebHdfs, upload
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler


class HttpFs(WebHdfsHandler):
    """Answers renames as HttpFS does, which knows no options; each in turn may fail first."""

    faults: list[str] = []

    def prepare(self):
        self.request.query_arguments.pop("renameoptions", None)
        return super().prepare()

    async def put(self, path=None):
        is_rename = "op=RENAME" in self.request.query
        fault = self.faults.pop(0) if is_rename and self.faults else ""
        if fault == "503":
            self.set_status(503)
            self.finish("not now")
            return
        if fault == "lost":
            self.finish = lambda *_document: self.request.connection.stream.close()
        await super().put(path)


@pytest.fixture
def fs(tmp_path):
    """A file system on such a server."""
    HttpFs.faults = []
    with serving(tmp_path / "hdfs", HttpFs) as url:
        yield WebHdfs(url, "anna", read_timeout=5)


@pytest.mark.slow
def test_replacing(fs, tmp_path):
    """Files are replaced by writers and uploads, and nothing is left."""
    (tmp_path / "code").mkdir()
    for text in ("old", "new"):
        written(fs, "/a/f", text)
        (tmp_path / "code" / "f").write_text(text)
        upload(fs, tmp_path / "code", "/a/code")
    assert content(fs, "/a/f") == content(fs, "/a/code/f") == "new"
    assert names(fs, "/a") == ["code", "code/.luigi-pai-manifest.json", "code/f", "f"]


# the renames of a replacement: refused as there is something; the old one away; the new one to its place
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "lost"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_step_that_fails(fs, fault, number):
    """The old file is back, or the new one is there; writing it again works."""
    written(fs, "/a/f", "old")
    HttpFs.faults = [""] * number + [fault]
    with pytest.raises(HdfsError, match=r"^HDFS RENAME "):
        written(fs, "/a/f", "new")
    assert content(fs, "/a/f") == ("new" if (fault, number) == ("lost", 2) else "old")
    written(fs, "/a/f", "newer")
    assert content(fs, "/a/f") == "newer"


def test_nothing_is_replaced_by_a_rename(fs):
    """A rename to an exact name goes neither over a file nor into a folder."""
    written(fs, "/a/f", "old")
    written(fs, "/a/d/g")
    written(fs, "/a/new", "new")
    for goal in ("/a/f", "/a/d"):
        with pytest.raises(FileAlreadyExists, match=rf"RENAME /a/new on .*: {goal} exists"):
            fs.rename_dont_move("/a/new", goal)
        with pytest.raises(HdfsError, match=rf"{goal} exists"):
            fs.replace("/a/new", goal) if goal == "/a/d" else fs.rename_dont_move("/a/new", goal)
    assert names(fs, "/a") == ["d", "d/g", "f", "new"]
    with pytest.raises(HdfsError, match="nothing is there"):
        fs.replace("/a/nothing", "/a/f")
    fs.rename_dont_move("/a/new", "/a/newer")
    assert names(fs, "/a") == ["d", "d/g", "f", "newer"]
