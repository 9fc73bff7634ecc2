"""The folders at which this machine mounts storages of a cluster."""

from __future__ import annotations

import socket

import pytest
from file_cases import table

from luigi_pai.files.storage import mounts as module
from luigi_pai.files.storage.mounts import Mount, find_mounted, mount_of, mounts, on_this_machine

HOSTS = {
    "nas": ["10.0.0.5"],
    "nas.site.org": ["10.0.0.5", "10.0.0.6"],
    "10.0.0.5": ["10.0.0.5"],
    "other": ["10.0.0.9"],
    "me": ["127.0.0.1"],
    "localhost": ["::1", "127.0.0.1"],
    "127.0.0.1": ["127.0.0.1"],
    "fd00::5": ["fd00::5"],
}


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """The hosts that were looked up, in this table."""
    names = []

    def getaddrinfo(host, _port, *_more):
        names.append(host)
        if host not in HOSTS:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in HOSTS[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


def rows_of(*rows):
    """Return mounts, each written as ``SOURCE FOLDER [TYPE [OPTIONS]]``."""
    fields = [[*row.split(), "nfs4", "rw"] for row in rows]
    return [
        Mount(one[0], one[1], one[2], tuple(one[3].split(","))) if len(one) > 4 else Mount(*one[:3], ())
        for one in fields
    ]


def test_the_table_of_this_machine():
    """It is read, and the root of files is on one of its mounts."""
    assert mount_of("/") in mounts()


def test_blanks_and_other_letters_in_the_table(tmp_path):
    """They are written in octal. Lines that are no mounts are ignored; without a table there are none."""
    (tmp_path / "mounts").write_bytes(
        rb"nas:/my\040data /mnt/my\040data nfs4 rw,addr=10.0.0.5 0 0" + b"\n"
        rb"//nas/a\134b\011c\012d /mnt/\043x cifs ro 0 0" + b"\n"
        b"tmpfs /mnt/\xff tmpfs rw 0 0\nnas:/s /mnt/s nfs4 rw\nbroken\n\n"
    )
    assert mounts(str(tmp_path / "mounts")) == [
        Mount("nas:/my data", "/mnt/my data", "nfs4", ("rw", "addr=10.0.0.5")),
        Mount("//nas/a\\b\tc\nd", "/mnt/#x", "cifs", ("ro",)),
        Mount("tmpfs", "/mnt/\udcff", "tmpfs", ("rw",)),
        Mount("nas:/s", "/mnt/s", "nfs4", ("rw",)),
    ]
    assert mounts(str(tmp_path / "none")) == []


@table("mounts", "source rows found")
def test_find_mounted(source, rows, found):
    assert find_mounted(source, rows_of(*rows)) == found


def test_hosts_are_looked_up_only_where_the_paths_fit(asked):
    """A name server that is away would keep each of many mounts waiting."""
    rows = ["far:/x /mnt/x", "nas:/data /mnt/d", "//far/data /mnt/s cifs rw"]
    assert find_mounted("nas:/data", rows_of(*rows)) == "/mnt/d"
    assert asked == []


def test_the_deepest_mount_is_the_one_of_a_path(monkeypatch):
    known = rows_of("/dev/sda / ext4 rw", "nas:/a /mnt ", "nas:/b /mnt/b", "nas:/c /mnt/b", "x:/y /mnt/bb")
    monkeypatch.setattr(module, "mounts", lambda: known)
    monkeypatch.setattr("os.path.realpath", lambda path: path)
    sources = [mount.source for path in ("/mnt/b/c", "/mnt/c", "/mntb") if (mount := mount_of(path))]
    assert sources == ["nas:/c", "nas:/a", "/dev/sda"]


@table("exports of this machine", "host cluster is_here")
def test_a_folder_of_this_machine(host, cluster, tmp_path, *, is_here):
    """The export itself is used only if the cluster also runs here, because it could name any folder."""
    assert on_this_machine(f"{host}:{tmp_path}", cluster) == (str(tmp_path) if is_here else None)


def test_what_is_no_folder_of_this_machine(tmp_path):
    assert on_this_machine(f"127.0.0.1:{tmp_path}/none", "http://127.0.0.1") is None
    assert on_this_machine(f"//127.0.0.1{tmp_path}", "http://127.0.0.1") is None
