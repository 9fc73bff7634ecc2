"""The local WebHDFS under clients that are not ours: the hdfs library's own, and fsspec's."""

from __future__ import annotations

import io
import random
from urllib.parse import urlsplit

import fsspec
import hdfs
import pytest

DATA = random.Random(9).randbytes(3_000_000)
NAMES = ["plain", "a b", "a+b", "ü中😀", "100%", "a%20b", "a#b", "a&b=c", "*[x]{y}"]


@pytest.fixture
def library(url):
    """The client of the hdfs library."""
    return hdfs.InsecureClient(url, user="anna")


@pytest.fixture
def spec(url):
    """fsspec's webhdfs."""
    parts = urlsplit(url)
    fs = fsspec.filesystem(
        "webhdfs", host=parts.hostname, port=parts.port, user="anna", skip_instance_cache=True
    )
    yield fs
    fs.session.close()


@pytest.mark.parametrize("name", [*NAMES, "a?b", "'\"\\"])
def test_the_librarys_client(name, library):
    """Write, append, read a part, list, walk, rename, set, count and delete."""
    folder = f"/library/{name.encode().hex()}"
    path = f"{folder}/{name}"
    library.write(path, DATA)
    library.write(path, b"more", append=True)
    with library.read(path, offset=len(DATA) - 2) as reader:
        assert reader.read() == DATA[-2:] + b"more"
    assert library.list(folder) == [name]
    assert [found[2] for found in library.walk(folder)] == [[name]]
    library.set_permission(path, "640")
    assert library.status(path)["permission"] == "640"
    assert library.content(folder)["length"] == len(DATA) + 4
    library.rename(path, f"{path}2")
    assert library.status(path, strict=False) is None
    assert library.delete(folder, recursive=True)


@pytest.mark.slow
def test_the_librarys_uploads(library, tmp_path):
    """A folder goes up and comes back in parallel."""
    (tmp_path / "up" / "sub").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "up" / "sub" / str(number)).write_bytes(DATA[: number * 1000])
    library.upload("/library/tree", str(tmp_path / "up"), n_threads=4)
    library.download("/library/tree", str(tmp_path / "down"), n_threads=4)
    assert (tmp_path / "down" / "sub" / "19").read_bytes() == DATA[:19_000]


def test_the_librarys_errors(library):
    """Its errors have the names that it looks for."""
    with pytest.raises(hdfs.HdfsError, match="File does not exist") as caught:
        library.status("/nothing")
    assert caught.value.exception == "FileNotFoundException"


def test_modes_are_data(library, url):
    """They are kept and shown, and refuse nothing."""
    library.write("/library/closed/f", b"secret")
    library.set_permission("/library/closed", "700")
    bob = hdfs.InsecureClient(url, user="bob")
    assert bob.status("/library/closed")["permission"] == "700"
    assert bob.list("/library/closed") == ["f"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "*[x]{y}"])
def test_fsspec(name, spec):
    """Write in blocks, read in ranges, list, find, copy, move and remove."""
    folder = f"/spec/{NAMES.index(name)}"
    path = f"{folder}/{name}"
    spec.makedirs(folder)
    with spec.open(path, "wb", block_size=1_000_000) as file:
        file.write(DATA)
    assert spec.info(path)["size"] == len(DATA)
    assert spec.cat_file(path, start=1000, end=2000) == DATA[1000:2000]
    with spec.open(path, "rb", block_size=500_000) as file:
        file.seek(2_500_000)
        assert file.read() == DATA[2_500_000:]
    assert spec.ls(folder, detail=False) == [path]
    spec.mv(path, f"{path}2")
    assert spec.find(folder) == [f"{path}2"]
    assert spec.du(folder) == len(DATA)
    spec.rm(folder, recursive=True)
    assert not spec.exists(folder)


def test_fsspec_reads_text_and_says_what_is_missing(spec):
    """Its own errors come of the server's."""
    spec.pipe_file("/spec/text", "tëxt\n".encode())
    with io.TextIOWrapper(spec.open("/spec/text", "rb"), encoding="utf-8") as text:
        assert text.read() == "tëxt\n"
    with pytest.raises(FileNotFoundError):
        spec.info("/spec/nothing")
    spec.chmod("/spec/text", 600)
    assert spec.home_directory() == "/user/anna"
