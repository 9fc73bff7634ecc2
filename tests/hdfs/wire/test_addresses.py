"""Addresses: API bases, DataNodes behind proxies, Pylon; and what decodes twice."""

from __future__ import annotations

import random
import unicodedata
from urllib.parse import quote, unquote, urlsplit

import pytest
from cutting_proxy import before_datanodes
from hdfs_backend import content, names, written
from pylon import pylon
from webhdfs_server import serving

from luigi_pai.files import WebHdfs
from luigi_pai.files.hdfs.transport import api_base, datanode_address, probe_of_decoding
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://nn:50070", "http://nn:50070/webhdfs/v1"),
        ("http://nn:50070/", "http://nn:50070/webhdfs/v1"),
        (" https://nn:50470/webhdfs/v1/ ", "https://nn:50470/webhdfs/v1"),
        ("http://master/webhdfs/api/v1", "http://master/webhdfs/api/v1"),
        ("https://knox:8443/gateway/default", "https://knox:8443/gateway/default/webhdfs/v1"),
        ("https://knox:8443/gateway/v1x", "https://knox:8443/gateway/v1x/webhdfs/v1"),
    ],
)
def test_api_base(url, base):
    """An address without a path of the API gets the usual one."""
    assert api_base(url) == base


@pytest.mark.parametrize(
    ("location", "rule", "address"),
    [
        ("http://dn1:5075/webhdfs/v1/p?op=OPEN&x=1", None, "http://dn1:5075/webhdfs/v1/p?op=OPEN&x=1"),
        (
            "http://dn1:5075/webhdfs/v1/p?op=OPEN",
            "http://master/a/{host}:{port}",
            "http://master/a/dn1:5075/webhdfs/v1/p?op=OPEN",
        ),
        ("http://dn1:5075/webhdfs/v1/p", "http://127.0.0.1:{port}/", "http://127.0.0.1:5075/webhdfs/v1/p"),
        (
            "http://dn1:5075/webhdfs/v1/a%20b",
            "http://{host}.site:{port}",
            "http://dn1.site:5075/webhdfs/v1/a%20b",
        ),
        ("https://dn1/webhdfs/v1/p", "http://x/{host}/{port}", "http://x/dn1/443/webhdfs/v1/p"),
        ("http://[::1]:5075/webhdfs/v1/p", "http://{host}:{port}", "http://[::1]:5075/webhdfs/v1/p"),
        (
            "http://m/a/dn1/5075/webhdfs/v1/p?x=/a/b/1/webhdfs/",
            None,
            "http://m/a/dn1:5075/webhdfs/v1/p?x=/a/b/1/webhdfs/",
        ),
        ("http://m/a/dn1:5075/webhdfs/v1/p", None, "http://m/a/dn1:5075/webhdfs/v1/p"),
        ("http://dn1:5075/webhdfs/v1/a/h/1/webhdfs/x", None, "http://dn1:5075/webhdfs/v1/a/h/1/webhdfs/x"),
    ],
)
def test_datanode_address(location, rule, address):
    """A rule takes the place of scheme, host and port; what Pylon 0.7.1 sends on is put right."""
    path = unquote(location.partition("?")[0].rpartition("/webhdfs/v1")[2])
    assert datanode_address(location, path, rule) == address


@pytest.mark.parametrize(
    ("location", "path", "address"),
    [
        ("http://dn1:5075/webhdfs/v1/%C3%BC?x=1", "/u\u0308", "http://dn1:5075/webhdfs/v1/u%CC%88?x=1"),
        ("http://dn1:5075/webhdfs/v1/a", "/a;", "http://dn1:5075/webhdfs/v1/a%3B"),
        ("http://k/webhdfs/data/v1/webhdfs/v1/a?_=x", "/b", "http://k/webhdfs/data/v1/webhdfs/v1/b?_=x"),
        (
            "http://dn1:5075/webhdfs/v1/webhdfs/v1/a",
            "/webhdfs/v1/b",
            "http://dn1:5075/webhdfs/v1/webhdfs/v1/b",
        ),
        ("http://proxy/upload/7?x=1", "/b", "http://proxy/upload/7?x=1"),
    ],
)
def test_the_path_is_the_one_that_was_asked_for(location, path, address):
    """Not as it is spelt in what is sent back; an address that has no path of WebHDFS stays as it is."""
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
