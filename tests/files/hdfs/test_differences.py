"""What differs between the Hadoops, and who may do what there."""

from __future__ import annotations

import pytest
import requests
from hadoop_differences import differences_of
from hdfs import InsecureClient
from hdfs_backend import ON_HDFS, WITH_PERMISSIONS, content, names, written

from luigi_pai.files import HdfsError, HdfsTarget


def asked(backend, method, path, op, *, user="", data=b"", **more):
    """Return what a server answers to whoever has not our client."""
    query = {"op": op, "user.name": user or backend.user, **more}
    return requests.request(method, f"{backend.url}/webhdfs/v1{path}", params=query, data=data, timeout=20)


def refusal(reply):
    """Return how something was refused: HTTP status, and Hadoop's name of the error."""
    return reply.status_code, reply.json()["RemoteException"]["exception"]


@ON_HDFS
def test_percent_in_names_without_us(backend, fs, home):
    """With the bare library, the DataNodes of 2.7.4 write another file than they were told."""
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
    """2.7.4 answers that it has made a file of which it kept nothing, 3.3.4 refuses it."""
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
    """Another HDFS is taken for the newest measured one before it."""
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


@pytest.fixture
def bob(backend):
    """Somebody else."""
    return backend.fs("bob")


def denied(work, user, access, path):
    """Check that something is refused in Hadoop's words, and says what to do."""
    with pytest.raises(
        HdfsError, match=rf'Permission denied: user={user}, access={access}, inode="{path}"'
    ) as error:
        work()
    assert error.value.exception == "AccessControlException"
    assert "ask for permission on that path, or check hdfs_user" in str(error.value)


@WITH_PERMISSIONS
def test_the_owner_may(alice, home):
    """An owner writes, renames, lists and removes in a folder of hers, and nowhere above it."""
    written(alice, f"{home}/hers/f", "new")
    alice.rename_dont_move(f"{home}/hers/f", f"{home}/hers/g")
    alice.chmod(f"{home}/hers", "700")
    assert names(alice, f"{home}/hers") == ["g"]
    alice.remove(f"{home}/hers/g")
    denied(lambda: alice.mkdir(f"{home}/mine"), "alice", "WRITE", home)
    denied(lambda: alice.remove(f"{home}/hers"), "alice", "WRITE", home)


@WITH_PERMISSIONS
def test_a_folder_that_is_closed(alice, bob, fs, home):
    """Behind a folder that one may not pass, nothing is "missing": asking is refused."""
    folder = f"{home}/hers"
    alice.chmod(folder, "700")
    denied(lambda: bob.exists(f"{folder}/f"), "bob", "EXECUTE", folder)
    denied(lambda: bob.exists(f"{folder}/nothing"), "bob", "EXECUTE", folder)
    denied(lambda: HdfsTarget(f"{folder}/f", fs=bob).open(), "bob", "EXECUTE", folder)
    denied(lambda: list(bob.listdir(folder)), "bob", "READ_EXECUTE", folder)
    denied(lambda: bob.count(folder), "bob", "READ_EXECUTE", folder)
    assert bob.isdir(folder)
    assert content(fs, f"{folder}/f") == "secret"  # the superuser may


@WITH_PERMISSIONS
def test_a_folder_that_can_be_passed_and_not_listed(alice, bob, home):
    """With x alone, what is known by name is reached, and the folder is not listed."""
    alice.chmod(f"{home}/hers", "711")
    assert content(bob, f"{home}/hers/f") == "secret"
    denied(lambda: list(bob.listdir(f"{home}/hers")), "bob", "READ_EXECUTE", f"{home}/hers")


@pytest.mark.slow
@WITH_PERMISSIONS
def test_a_file_that_is_closed(alice, bob, home):
    """A file without r is seen and not read; a folder without w takes and gives nothing."""
    file = f"{home}/hers/f"
    alice.chmod(file, "600")
    assert bob.exists(file)
    denied(lambda: bob.open_reader(file), "bob", "READ", file)
    denied(lambda: written(bob, f"{home}/hers/x"), "bob", "WRITE", f"{home}/hers")
    denied(lambda: bob.touchz(f"{home}/hers/x"), "bob", "WRITE", f"{home}/hers")
    denied(lambda: bob.mkdir(f"{home}/hers/a/b"), "bob", "WRITE", f"{home}/hers")
    denied(lambda: bob.remove(file), "bob", "WRITE", f"{home}/hers")
    denied(lambda: bob.move(file, f"{home}/hers/y"), "bob", "WRITE", f"{home}/hers")
    assert names(alice, f"{home}/hers") == ["f"]


@WITH_PERMISSIONS
def test_a_folder_for_all(alice, bob, backend, home):
    """In a folder of mode 777 anybody writes; with the sticky bit each removes his own only."""
    alice.chmod(f"{home}/hers", "1777")
    written(bob, f"{home}/hers/his")
    with pytest.raises(HdfsError, match="Permission denied by sticky bit"):
        bob.remove(f"{home}/hers/f")
    backend.fs("alice").remove(f"{home}/hers/his")
    alice.chmod(f"{home}/hers", "777")
    bob.remove(f"{home}/hers/f")
    assert names(alice, f"{home}/hers") == []


@WITH_PERMISSIONS
def test_a_tree_is_removed_if_all_of_it_may_be(alice, bob, fs, home):
    """A recursive removal needs the right to empty each folder that is not empty."""
    alice.chmod(f"{home}/hers", "777")
    alice.mkdir(f"{home}/hers/empty")
    written(alice, f"{home}/hers/full/f")
    bob.remove(f"{home}/hers/empty")
    denied(lambda: bob.remove(f"{home}/hers/full"), "bob", "ALL", f"{home}/hers/full")
    assert fs.exists(f"{home}/hers/full/f")


@WITH_PERMISSIONS
def test_mode_and_owner_are_the_owners_to_change(alice, bob, backend, home):
    """Only an owner changes the mode, and only the superuser gives something away."""
    with pytest.raises(HdfsError, match=r"Permission denied"):
        bob.chmod(f"{home}/hers/f", "777")
    with pytest.raises(HdfsError, match=r"Permission denied"):
        bob.chown(f"{home}/hers/f", "bob", None)
    named = backend.differences.owner_named
    with pytest.raises(HdfsError, match=rf"User {named} is not a super user \(non-super user"):
        alice.chown(f"{home}/hers/f", "bob", None)
    with pytest.raises(HdfsError, match=r"does not belong to gold"):
        alice.chown(f"{home}/hers/f", None, "gold")


@WITH_PERMISSIONS
def test_owner_and_group_are_kept(alice, fs, url, home):
    """What is made belongs to its maker and to the group of its folder; recursive reaches everything."""

    def whose(path):
        address = f"{url}/webhdfs/v1{path}?op=GETFILESTATUS&user.name={fs.user}"
        status = requests.get(address, timeout=10).json()["FileStatus"]
        return status["owner"], status["group"]

    fs.chown(f"{home}/hers", None, "gold")
    written(alice, f"{home}/hers/d/g")
    assert whose(f"{home}/hers/d/g") == whose(f"{home}/hers/d") == ("alice", "gold")
    fs.chown(f"{home}/hers/d", "carol", "silver", recursive=True)
    assert whose(f"{home}/hers/d/g") == whose(f"{home}/hers/d") == ("carol", "silver")


@WITH_PERMISSIONS
def test_is_writable_says_no(alice, bob, home):
    """A target in somebody else's folder is not writable; that is an answer, not an error."""
    assert HdfsTarget(f"{home}/hers/x", fs=alice).is_writable()
    assert not HdfsTarget(f"{home}/hers/x", fs=bob).is_writable()
