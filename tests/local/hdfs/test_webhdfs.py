"""The local WebHDFS against recordings of Hadoop 2.7.4, what these cannot show, and other clients."""

from __future__ import annotations

import contextlib
import getpass
import http.client
import io
import itertools
import json
import random
import re
import socket
import threading
import uuid
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import fsspec
import hdfs
import pytest
import requests
from places import DATA
from waiting import wait_until
from webhdfs_server import serving

RECORDED = json.loads((DATA / "webhdfs_2.7.4.json").read_text())

# where 2.7.4 is wrong, and ours is not, or ours is simpler
BETTER = {
    "chmod zero status": "the owner can always use a file here",
    "name percent create": "2.7.4 decodes a path twice: '%' cannot be written",
    "name percent read": "2.7.4 decodes a path twice",
    "name percent20 read": "2.7.4 decodes a path twice",
}


@pytest.fixture
def home(request, url, root):
    """The folder of one test, on disk; its path on HDFS is ``/`` and its name."""
    folder = root / f"{re.sub(r'[^A-Za-z0-9]+', '-', request.node.name)}-{uuid.uuid4().hex[:6]}"
    requests.put(f"{url}/webhdfs/v1/{folder.name}?op=MKDIRS&user.name=bob", timeout=10)
    return folder


def ask(address, method, target, body=None, **headers):
    """Send one request without a client's ideas about it."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request(method, target, body=body, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()


def create(url, path, data, **parameters):
    """Create a file in two steps, as a client does."""
    query = {"op": "CREATE", "user.name": "bob", **parameters}
    first = requests.put(f"{url}/webhdfs/v1{quote(path)}", params=query, allow_redirects=False, timeout=10)
    assert first.status_code == 307, first.text
    return requests.put(first.headers["location"], data=data, timeout=10)


def remote(reply):
    """Return the status and the exception of a reply."""
    return reply.status_code, reply.json()["RemoteException"]["exception"]


# the recording


# what no client asks for: one copy of 128 MiB blocks is kept; and the wording of errors
LEFT_OUT = {"blockSize", "childrenNum", "javaClassName", "message", "quota", "replication", "spaceConsumed"}
LEFT_OUT |= {"spaceQuota", "storagePolicy", "owner"}


def noted(status, headers, data):
    """Return a reply in the form of the recording."""
    note = {"status": status, "location": headers.get("location")}
    try:
        return {**note, "json": json.loads(data)}
    except ValueError:
        return {**note, "text": data.decode()}


def comparable(reply):
    """Return what a client acts on: status, JSON or text, and of an address path and parameters."""
    found = {"status": reply["status"], "body": plain(reply.get("json", reply.get("text")))}
    if reply["status"] == 307:
        address = urlsplit(reply["location"])
        given = {"offset": "0", "overwrite": "false", "user.name": "", **dict(parse_qsl(address.query))}
        found["location"] = unquote(address.path), {**given, "namenoderpcaddress": "NAMENODE"}
    return found


def plain(value):
    """Return JSON without what differs from run to run, and without what is left out."""
    if isinstance(value, dict):
        return {
            key: "*"
            if key in ("modificationTime", "accessTime", "fileId") and isinstance(found, int)
            else plain(found)
            for key, found in value.items()
            if key not in LEFT_OUT
        }
    if isinstance(value, list):  # the NameNode sorts by Java's signed bytes
        return sorted((plain(found) for found in value), key=lambda found: str(found.get("pathSuffix")))
    return value


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Every recorded request, sent to our server in the order of the recording."""
    replies = {}
    with serving(tmp_path_factory.mktemp("recorded") / "root") as address:
        host = urlsplit(address).netloc
        ask(host, "PUT", "/webhdfs/v1/rec?op=MKDIRS&user.name=alice")
        ask(host, "PUT", "/webhdfs/v1/?op=SETPERMISSION&permission=755&user.name=alice")
        for item in RECORDED:
            status, headers, data = ask(host, item["method"], item["target"])
            found = {"reply": noted(status, headers, data)}
            if status == 307 and "body" in item:
                step = urlsplit(headers["location"])
                body = None if item["method"] == "GET" else item["body"].encode()
                found["second"] = noted(*ask(host, item["method"], f"{step.path}?{step.query}", body))
            replies[item["name"]] = found
    return replies


@pytest.mark.parametrize("item", [pytest.param(item, id=item["name"]) for item in RECORDED])
def test_answers_as_hadoop_2_7_4(item, replayed):
    """Status, location and JSON of every recorded reply are ours, but for Hadoop's bugs."""
    recorded = {key: comparable(item[key]) for key in ("reply", "second") if key in item}
    found = {key: comparable(reply) for key, reply in replayed[item["name"]].items()}
    if item["name"] in BETTER:
        assert found != recorded, f"no longer different: {BETTER[item['name']]}"
        assert found.get("second", found["reply"])["status"] in (200, 201, 307)
    else:
        assert found == recorded


# what a recording cannot show


def test_redirect_leads_to_the_host_that_was_asked(url):
    """The second step is at the name by which the client reached the server."""
    port = urlsplit(url).port
    _status, headers, _body = ask(
        urlsplit(url).netloc, "PUT", "/webhdfs/v1/x?op=CREATE&user.name=bob", Host=f"pai.example:{port}"
    )
    assert headers["location"].startswith(f"http://pai.example:{port}/webhdfs/v1/x?op=CREATE&user.name=bob&")


def test_a_broken_upload_publishes_nothing(url, home, root):
    """A connection that breaks inside a chunked body leaves neither the file nor a part of it."""
    where = urlsplit(url)
    target = f"/webhdfs/v1/{home.name}/f?op=CREATE&user.name=bob&namenoderpcaddress=x"
    incoming = root.with_name("root.webhdfs") / "incoming"
    before = set(incoming.iterdir())
    with socket.create_connection((where.hostname, where.port)) as connection:
        head = f"PUT {target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + b"5\r\nhello\r\n5\r\nwo")
        wait_until(lambda: set(incoming.iterdir()) - before)
        assert not (home / "f").exists()
    wait_until(lambda: set(incoming.iterdir()) <= before)
    assert not list(home.iterdir())


def test_a_broken_upload_keeps_the_old_file(url, home):
    """A body shorter than its Content-Length does not replace the file that is there."""
    create(url, f"/{home.name}/f", b"old")
    where = urlsplit(url)
    target = f"/webhdfs/v1/{home.name}/f?op=CREATE&overwrite=true&user.name=bob&namenoderpcaddress=x"
    with socket.create_connection((where.hostname, where.port)) as connection:
        connection.sendall(f"PUT {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nnew".encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert (home / "f").read_bytes() == b"old"


@contextlib.contextmanager
def slow_upload(url, path, *parts):
    """Send the first part of a file, and the others when the block ends; the reply is there after it."""
    sent, go_on = threading.Event(), threading.Event()
    replies = []

    def body():
        yield parts[0]
        sent.set()
        go_on.wait(10)
        yield from parts[1:]

    uploading = threading.Thread(target=lambda: replies.append(create(url, path, body())))
    uploading.start()
    assert sent.wait(10)
    yield replies
    go_on.set()
    uploading.join()


def test_a_file_is_seen_when_its_upload_ends(url, home):
    """While a body is on its way, there is no file; nobody can read half of it."""
    with slow_upload(url, f"/{home.name}/f", b"one", b"two"):
        listed = requests.get(f"{url}/webhdfs/v1/{home.name}?op=LISTSTATUS", timeout=10).json()
    assert listed == {"FileStatuses": {"FileStatus": []}}
    assert (home / "f").read_bytes() == b"onetwo"


def test_of_two_writers_one_is_refused(url, home):
    """Without overwrite, the second of two uploads of the same file is refused at its end."""
    with slow_upload(url, f"/{home.name}/f", b"slow") as replies:
        assert create(url, f"/{home.name}/f", b"fast").status_code == 201
    assert remote(replies[0]) == (403, "FileAlreadyExistsException")
    assert (home / "f").read_bytes() == b"fast"


def test_a_refused_body_is_answered(url, home):
    """A client that sends a long body to a path that is refused reads the reason, not a broken pipe."""
    create(url, f"/{home.name}/f", b"old")
    assert remote(create(url, f"/{home.name}/f", b"x" * 8_000_000)) == (403, "FileAlreadyExistsException")


@pytest.mark.parametrize("path", ["/../x", "/a/../../x", "/%2e%2e/x", "/a%2f..%2f..%2fx", "/a/%00x"])
def test_no_path_leads_out_of_the_folder(path, url, root):
    """Whatever way ``..`` is written, it is no name."""
    (root.parent / "x").write_text("outside")
    status, _headers, body = ask(urlsplit(url).netloc, "GET", f"/webhdfs/v1{path}?op=GETFILESTATUS")
    assert (status, json.loads(body)["RemoteException"]["exception"]) == (400, "InvalidPathException")


def test_leftovers_of_a_killed_server_are_cleared(tmp_path):
    """Uploads that a killed server left incomplete are deleted when the next one starts."""
    (tmp_path / "root.webhdfs" / "incoming").mkdir(parents=True)
    (tmp_path / "root.webhdfs" / "incoming" / "half").write_bytes(b"half")
    with serving(tmp_path / "root"):
        assert not list((tmp_path / "root.webhdfs" / "incoming").iterdir())


def test_permission_is_kept(url, home):
    """The permission of CREATE, MKDIRS and SETPERMISSION is listed, and the owner's rights always."""
    create(url, f"/{home.name}/f", b"x", permission="640")
    create(url, f"/{home.name}/g", b"x")
    requests.put(f"{url}/webhdfs/v1/{home.name}/d?op=MKDIRS&user.name=bob&permission=1750", timeout=10)
    requests.put(f"{url}/webhdfs/v1/{home.name}/g?op=SETPERMISSION&user.name=eve&permission=0", timeout=10)
    found = requests.get(f"{url}/webhdfs/v1/{home.name}?op=LISTSTATUS", timeout=10).json()
    modes = {one["pathSuffix"]: one["permission"] for one in found["FileStatuses"]["FileStatus"]}
    assert modes == {"d": "1750", "f": "640", "g": "600"}


def test_a_reader_is_not_disturbed_by_a_writer(url, home):
    """Who reads a file that is replaced meanwhile reads the old one to its end."""
    create(url, f"/{home.name}/f", b"a" * 3_000_000)
    with requests.get(f"{url}/webhdfs/v1/{home.name}/f?op=OPEN", stream=True, timeout=10) as reading:
        first = reading.raw.read(10)
        create(url, f"/{home.name}/f", b"b" * 10, overwrite="true")
        assert first + reading.raw.read() == b"a" * 3_000_000


@pytest.mark.slow
def test_appends_at_the_same_time_are_both_there(url, home):
    """Uploads that append to one file end up one after the other, none torn."""
    create(url, f"/{home.name}/f", b"")

    def append(letter):
        first = requests.post(
            f"{url}/webhdfs/v1/{home.name}/f?op=APPEND&user.name=bob", allow_redirects=False, timeout=10
        )
        requests.post(first.headers["location"], data=letter * 1_000_000, timeout=10).raise_for_status()

    threads = [threading.Thread(target=append, args=(bytes([letter]),)) for letter in b"abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = [(letter, len(list(run))) for letter, run in itertools.groupby((home / "f").read_bytes())]
    assert sorted(runs) == [(letter, 1_000_000) for letter in b"abcdef"]


def test_a_path_that_is_too_long_for_the_disk_is_not_there(url, home):
    """Nothing can be made there, which is said; Hadoop's own limit is 8000 characters."""
    path = f"{url}/webhdfs/v1/{home.name}" + "/deep" * 1000
    me = {"user.name": getpass.getuser()}
    for operation in ("GETFILESTATUS", "LISTSTATUS", "OPEN", "GETCONTENTSUMMARY"):
        reply = requests.get(path, params={"op": operation, **me}, timeout=10)
        assert remote(reply) == (404, "FileNotFoundException"), operation
    made = requests.put(path, params={"op": "MKDIRS", **me}, timeout=10)
    assert remote(made) == (403, "PathComponentTooLongException")
    query = {"op": "CREATE", "namenoderpcaddress": "127.0.0.1:1", **me}
    refused = requests.put(path, params=query, data=b"x", timeout=10)
    assert remote(refused) == (403, "PathComponentTooLongException")


# the clients of the hdfs library and of fsspec


CONTENT = random.Random(9).randbytes(3_000_000)
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
    library.write(path, CONTENT)
    library.write(path, b"more", append=True)
    with library.read(path, offset=len(CONTENT) - 2) as reader:
        assert reader.read() == CONTENT[-2:] + b"more"
    assert library.list(folder) == [name]
    assert [found[2] for found in library.walk(folder)] == [[name]]
    library.set_permission(path, "640")
    assert library.status(path)["permission"] == "640"
    assert library.content(folder)["length"] == len(CONTENT) + 4
    library.rename(path, f"{path}2")
    assert library.status(path, strict=False) is None
    assert library.delete(folder, recursive=True)


@pytest.mark.slow
def test_the_librarys_uploads(library, tmp_path):
    """A folder goes up and comes back in parallel."""
    (tmp_path / "up" / "sub").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "up" / "sub" / str(number)).write_bytes(CONTENT[: number * 1000])
    library.upload("/library/tree", str(tmp_path / "up"), n_threads=4)
    library.download("/library/tree", str(tmp_path / "down"), n_threads=4)
    assert (tmp_path / "down" / "sub" / "19").read_bytes() == CONTENT[:19_000]


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
        file.write(CONTENT)
    assert spec.info(path)["size"] == len(CONTENT)
    assert spec.cat_file(path, start=1000, end=2000) == CONTENT[1000:2000]
    with spec.open(path, "rb", block_size=500_000) as file:
        file.seek(2_500_000)
        assert file.read() == CONTENT[2_500_000:]
    assert spec.ls(folder, detail=False) == [path]
    spec.mv(path, f"{path}2")
    assert spec.find(folder) == [f"{path}2"]
    assert spec.du(folder) == len(CONTENT)
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
