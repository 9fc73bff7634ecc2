"""The differences between the Hadoops, and their permissions."""

from __future__ import annotations

import pytest
import requests
from file_cases import Player, steps
from hadoop_differences import differences_of
from hdfs import InsecureClient
from hdfs_backend import ON_HDFS, WITH_PERMISSIONS, names, written


def asked(backend, method, path, op, *, user="", data=b"", **more):
    """Return the response of a server to a client that is not ours."""
    query = {"op": op, "user.name": user or backend.user, **more}
    return requests.request(method, f"{backend.url}/webhdfs/v1{path}", params=query, data=data, timeout=20)


def refusal(reply):
    """Return how something was refused: HTTP status, and Hadoop's name of the error."""
    return reply.status_code, reply.json()["RemoteException"]["exception"]


@ON_HDFS
def test_percent_in_names_without_us(backend, fs, home):
    """With the bare library, the DataNodes of 2.7.4 write a file with another name."""
    InsecureClient(backend.url, user=backend.user).write(f"{home}/a%2520b", b"data")
    assert names(fs, home) == [{1: "a%2520b", 2: "a%20b"}[backend.differences.datanode_decodes]]


@ON_HDFS
def test_a_colon(backend, fs, home):
    """No file can have one in its name: 2.7.4 says so whatever is asked, 3.3.4 to who would make one."""
    written(fs, f"{home}/f")
    status = asked(backend, "GET", f"{home}/a:b", "GETFILESTATUS")
    assert refusal(status) == backend.differences.status_of_colon
    rename = asked(backend, "PUT", f"{home}/f", "RENAME", destination=f"{home}/a:b")
    assert refusal(rename) == backend.differences.rename_to_colon
    assert refusal(asked(backend, "PUT", f"{home}/a:b", "MKDIRS")) == (400, "InvalidPathException")
    assert refusal(asked(backend, "PUT", f"{home}/a:b", "CREATE")) == (403, "RemoteException")


@ON_HDFS
def test_below_a_file(backend, fs, home):
    """Each has its own error for a path below a file."""
    written(fs, f"{home}/f")
    create = asked(backend, "PUT", f"{home}/f/g", "CREATE")
    assert refusal(create) == backend.differences.create_below_file
    assert refusal(asked(backend, "PUT", f"{home}/f/g", "MKDIRS")) == backend.differences.mkdirs_below_file


@WITH_PERMISSIONS
def test_whom_an_error_of_setowner_names(backend, fs, home):
    """2.7.4 names who is to be the owner, 3.3.4 who asked."""
    fs.chown(home, "alice", None)
    reply = asked(backend, "PUT", home, "SETOWNER", user="alice", owner="bob")
    assert refusal(reply) == (403, "AccessControlException")
    named = backend.differences.owner_named
    assert reply.json()["RemoteException"]["message"].startswith(f"User {named} is not a super user")


@pytest.mark.slow
def test_more_than_the_quota(real_backend):
    """2.7.4 reports a created file, but stores an empty one; 3.3.4 refuses it."""
    fs, path = real_backend.fs(), real_backend.quota_folder()
    reply = asked(real_backend, "PUT", f"{path}/f", "CREATE", data=b"12345")
    sizes = list(fs.listdir(path, include_size=True))
    fs.remove(path)
    if real_backend.differences.over_quota:
        assert refusal(reply) == real_backend.differences.over_quota
    else:
        assert (reply.status_code, sizes) == (201, [(f"{path}/f", 0)])


@ON_HDFS
def test_the_root_of_the_trash(backend):
    """2.7.4 does not know the question; both have it in the home folder."""
    reply = asked(backend, "GET", "/", "GETTRASHROOT")
    assert (reply.status_code == 200) is backend.differences.has_trash_root
    if backend.differences.has_trash_root:
        assert reply.json() == {"Path": f"/user/{backend.user}/.Trash"}


@pytest.mark.parametrize(
    ("version", "like"), [("2.7.4", "2.7.4"), ("2.6.0", "2.7.4"), ("3.2.1", "2.7.4"), ("3.4.1-rc1", "3.3.4")]
)
def test_other_versions(version, like):
    """Another version counts as the newest measured version before it."""
    assert differences_of(version) is differences_of(like)


@pytest.fixture
def alice(backend, fs, home):
    """Somebody who owns a folder ``hers`` in the home, and a file in it."""
    fs.chmod(home, "755")
    fs.mkdir(f"{home}/hers")
    fs.chown(f"{home}/hers", "alice", None)
    found = backend.fs("alice")
    written(found, f"{home}/hers/f", "secret")
    return found


@WITH_PERMISSIONS
@pytest.mark.usefixtures("alice")
@steps("permissions")
def test_permissions(backend, fs, home, steps):
    """Each case of the section ``permissions`` of tests/data/files/steps.yaml, in Hadoop's words."""
    denied, ask = (
        "AccessControlException: Permission denied: user=",
        ".*; ask for permission on that path, or",
    )
    words = {"home": home, "denied": denied, "ask": ask, "named": backend.differences.owner_named}
    Player(fs, users=backend.fs, **words).play(steps)


@WITH_PERMISSIONS
def test_owner_and_group_are_kept(alice, fs, url, home):
    """A new file belongs to its creator and to the group of its folder; ``recursive`` reaches everything."""

    def whose(path):
        address = f"{url}/webhdfs/v1{path}?op=GETFILESTATUS&user.name={fs.user}"
        status = requests.get(address, timeout=10).json()["FileStatus"]
        return status["owner"], status["group"]

    fs.chown(f"{home}/hers", None, "gold")
    written(alice, f"{home}/hers/d/g")
    assert whose(f"{home}/hers/d/g") == whose(f"{home}/hers/d") == ("alice", "gold")
    fs.chown(f"{home}/hers/d", "carol", "silver", recursive=True)
    assert whose(f"{home}/hers/d/g") == whose(f"{home}/hers/d") == ("carol", "silver")
