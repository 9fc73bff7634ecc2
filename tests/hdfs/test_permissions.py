"""Who may do what: refused is an error, never "not there"."""

from __future__ import annotations

import pytest
import requests
from hdfs_backend import WITH_PERMISSIONS, content, names, written

from luigi_pai.files import HdfsError, HdfsTarget

pytestmark = WITH_PERMISSIONS


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


def test_the_owner_may(alice, home):
    """An owner writes, renames, lists and removes in a folder of hers, and nowhere above it."""
    written(alice, f"{home}/hers/f", "new")
    alice.rename_dont_move(f"{home}/hers/f", f"{home}/hers/g")
    alice.chmod(f"{home}/hers", "700")
    assert names(alice, f"{home}/hers") == ["g"]
    alice.remove(f"{home}/hers/g")
    denied(lambda: alice.mkdir(f"{home}/mine"), "alice", "WRITE", home)
    denied(lambda: alice.remove(f"{home}/hers"), "alice", "WRITE", home)


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


def test_a_folder_that_can_be_passed_and_not_listed(alice, bob, home):
    """With x alone, what is known by name is reached, and the folder is not listed."""
    alice.chmod(f"{home}/hers", "711")
    assert content(bob, f"{home}/hers/f") == "secret"
    denied(lambda: list(bob.listdir(f"{home}/hers")), "bob", "READ_EXECUTE", f"{home}/hers")


@pytest.mark.slow
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


def test_a_tree_is_removed_if_all_of_it_may_be(alice, bob, fs, home):
    """A recursive removal needs the right to empty each folder that is not empty."""
    alice.chmod(f"{home}/hers", "777")
    alice.mkdir(f"{home}/hers/empty")
    written(alice, f"{home}/hers/full/f")
    bob.remove(f"{home}/hers/empty")
    denied(lambda: bob.remove(f"{home}/hers/full"), "bob", "ALL", f"{home}/hers/full")
    assert fs.exists(f"{home}/hers/full/f")


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


def test_is_writable_says_no(alice, bob, home):
    """A target in somebody else's folder is not writable; that is an answer, not an error."""
    assert HdfsTarget(f"{home}/hers/x", fs=alice).is_writable()
    assert not HdfsTarget(f"{home}/hers/x", fs=bob).is_writable()
