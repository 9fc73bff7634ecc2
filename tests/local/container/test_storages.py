"""The storages of v2 jobs: what a job may say of them, where they appear, and how they are mounted."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from local_cases import cases
from protocol_client import ProtocolClient, protocol
from waiting import wait_for_end, wait_until

from luigi_pai.local.container import storages as module
from luigi_pai.local.container.namespace import inside
from luigi_pai.local.container.storages import Storages, absolute_mounts, can_mount


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as work:
        return can_mount({"/mnt/nfs1": Path(folder)}, Path(work))


MOUNTS = _can_mount()
"""Whether tasks have their storages at absolute paths. If not, the tests see how tasks do without."""

ROOT = "" if MOUNTS else "${LUIGI_PAI_MOUNTS:-}"
"""What a command writes before a mount path."""

NFS1 = {"storages": [{"name": "nfs1"}]}


@pytest.fixture
def mnist(local_pai_v2, tmp_path):
    """Another storage of the server, a link to a folder outside of its data."""
    link = local_pai_v2.data / "storages" / "mnist"
    link.symlink_to(tmp_path)
    yield tmp_path
    link.unlink()


@pytest.fixture
def own_v2(own_pai):
    """The administrator of a server that a test may kill."""
    return ProtocolClient(own_pai)


@pytest.mark.slow
def test_storages_are_at_their_absolute_paths(v2, local_pai_v2, mnist):
    """In the command, in plugins, and in what they start; the working folder has nothing of them."""
    before = {"preCommands": [f"echo written > {ROOT}/mnt/nfs1/before"]}
    extras = {
        "storages": [{"name": "nfs1"}, {"name": "mnist", "mountPath": "/luigi-pai/data"}],
        "com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": before}],
    }
    copy = f"bash -c 'cp {ROOT}/mnt/nfs1/before {ROOT}/luigi-pai/data/after'"
    job = v2.run(copy, "pwd", "echo ${LUIGI_PAI_MOUNTS-unset}", "ls -A", extras=extras)
    assert job["jobStatus"]["state"] == "SUCCEEDED", v2.log(job, name="stderr")
    assert (local_pai_v2.data / "storages/nfs1/before").read_text() == "written\n"
    assert (mnist / "after").read_text() == "written\n"
    work, mounts, *entries = v2.log(job).splitlines()
    assert (mounts, entries) == (("", []) if MOUNTS else (work, ["luigi-pai", "mnt"]))
    assert v2.log(job, name="stderr") == ""
    assert ("luigi-pai local:" in v2.log(job, name="runtime.log")) == (not MOUNTS)


def shown(user, **query):
    reply = user.send("GET", "/storages", **query)
    assert reply.status_code == 200, reply.text
    return {item["name"]: item["default"] for item in reply.json()["storages"]}


@pytest.mark.slow
@pytest.mark.usefixtures("mnist")
def test_a_job_that_names_no_storage_mounts_the_default_one(v2):
    """The one that a new data folder has, where it is there."""
    assert shown(v2) == {"mnist": False, "nfs1": True}
    assert shown(v2, default="true") == {"nfs1": True}
    look = f"for name in nfs1 mnist; do test ! -e {ROOT}/mnt/$name || echo $name; done"
    for storages, mounted in (([], ["nfs1"]), ([{"name": "mnist"}], ["mnist"])):
        assert v2.log(v2.run(look, extras={"storages": storages})).split() == mounted


@pytest.mark.usefixtures("mnist")
def test_a_client_on_this_machine_finds_the_folder_of_a_storage(v2, tmp_path):
    """As NFS of this machine, at the path where the folder really is."""
    assert list(v2.send("GET", "/storages/mnist").json().items()) == [
        ("name", "mnist"),
        ("share", True),
        ("volumeName", "mnist-pv"),
        ("type", "nfs"),
        ("data", {"server": "127.0.0.1", "path": str(tmp_path)}),
        ("readOnly", False),
        ("mountOptions", ["nfsvers=4.1"]),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["a stop", "the end of the server", "a crash of the server"])
def test_processes_that_have_storages_are_ended(by, own_v2):
    """Also one in a session of its own, and also by a server that did not start them."""
    server, at = own_v2.server, f"{ROOT}/mnt/nfs1"
    command = f"setsid sleep 60 & echo $! > {at}/0; sleep 60 & echo $! > {at}/1; echo $$ > {at}/2; wait"
    name = own_v2.submit(protocol(command, extras=NFS1))
    files = [server.data / "storages" / "nfs1" / str(number) for number in range(3)]
    pids = [int(wait_until(lambda file=file: file.exists() and file.read_text())) for file in files]
    assert all(map(psutil.pid_exists, pids))
    if by == "the end of the server":
        server.stop()
    else:
        if by != "a stop":
            server.kill()
            server.start()
        own_v2.stop(name)
        assert own_v2.wait(name)["jobStatus"]["state"] == "STOPPED"
    for pid in pids:
        wait_for_end(pid)


@pytest.mark.slow
def test_a_task_with_storages_outlives_a_killed_server(own_v2):
    """The next server finds it, and reads its exit code."""
    server, at = own_v2.server, f"{ROOT}/mnt/nfs1"
    command = f"touch {at}/up; until [ -e {at}/go ]; do sleep 0.05; done; exit 3"
    name = own_v2.submit(protocol(command, extras=NFS1))
    folder = server.data / "storages" / "nfs1"
    wait_until((folder / "up").exists)
    server.kill()
    server.start()
    assert own_v2.status(name)["state"] == "RUNNING"
    (folder / "go").touch()
    assert own_v2.end(name) == ("FAILED", 255, 0)


@pytest.mark.slow
def test_share_and_read_only_are_the_storages_and_not_the_jobs(v2, local_pai_v2):
    """The server writes over them what its list shows, so a job sees the root of a shared storage."""
    (local_pai_v2.data / "storages/nfs1/at-the-root").write_text("seen\n")
    extras = {"storages": [{"name": "nfs1", "share": False, "readOnly": True}]}
    at = f"{ROOT}/mnt/nfs1"
    job = v2.run(f"cat {at}/at-the-root", f"echo written > {at}/by-a-job", extras=extras)
    assert job["jobStatus"]["state"] == "SUCCEEDED", v2.log(job, name="stderr")
    assert v2.log(job) == "seen\n"
    assert (local_pai_v2.data / "storages/nfs1/by-a-job").read_text() == "written\n"
    shown = v2.send("GET", "/storages").json()["storages"]
    assert [item["share"] for item in shown if item["name"] == "nfs1"] == [True]


@pytest.fixture
def refused(local_pai_v2):
    """A mount path that no machine allows: the task itself would be hidden."""
    return str(local_pai_v2.data)


@pytest.mark.slow
def test_the_runtime_log_says_where_a_storage_is_that_is_not_mounted(v2, refused):
    """The right path is one for here and for a cluster; all storages of the job are there."""
    extras = {"storages": [{"name": "nfs1"}, {"name": "nfs1", "mountPath": refused}]}
    paths = [f"${{LUIGI_PAI_MOUNTS:-}}{path}" for path in ("/mnt/nfs1", refused)]
    job = v2.run(f"echo a > {paths[0]}/not-mounted", f"cat {paths[1]}/not-mounted", extras=extras)
    assert v2.log(job, name="stderr") == ""
    assert v2.log(job) == "a\n"
    assert v2.log(job, name="runtime.log").startswith(
        "luigi-pai local: the storage at /mnt/nfs1 is the folder mnt/nfs1 of the working folder, because a "
        "process cannot mount; ${LUIGI_PAI_MOUNTS:-}/mnt/nfs1 is the right path here and on a cluster\n"
        f"luigi-pai local: the storage at {refused} is the folder {refused[1:]} of the working folder"
    )


@pytest.mark.slow
def test_a_command_that_uses_the_absolute_path_is_warned_in_its_error_log(v2, refused):
    """It would read or write a folder of this machine."""
    extras = {"storages": [{"name": "nfs1", "mountPath": refused}]}
    job = v2.run(f"cat {refused}/model", extras=extras)
    first, second = v2.log(job, name="stderr").splitlines()
    assert first.startswith(f"luigi-pai local: the storage at {refused} is the folder {refused[1:]} of")
    assert "No such file" in second


@pytest.mark.parametrize(("command", "is_absolute"), cases("absolute_paths_are_recognised"))
def test_absolute_paths_are_recognised(command, is_absolute):
    assert absolute_mounts(["mnt/nfs1"], [command]) == (["mnt/nfs1"] if is_absolute else [])


_CAPBSET_DROP, _SYS_ADMIN = 24, 21
needs_mounts = pytest.mark.skipif(not MOUNTS, reason="this machine does not let its user mount")


@pytest.fixture
def work(tmp_path):
    """An empty working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def folders(tmp_path):
    """Four folders to mount."""
    made = [tmp_path / "storages" / name for name in ("one", "two", "three", "four")]
    for folder in made:
        folder.mkdir(parents=True)
    return made


def forget_how_to_mount():
    """Make the next program one that needs a user namespace, also if it is root's."""
    ctypes.CDLL(None).prctl(_CAPBSET_DROP, _SYS_ADMIN, 0, 0, 0)


@needs_mounts
@pytest.mark.parametrize("before", [None, forget_how_to_mount])
def test_a_mount_path_need_not_exist(before, tmp_path, folders, work):
    """Nor its parents, whether it is at the top, behind a link, or in another mount."""
    there = tmp_path / "there"
    (there / "folder").mkdir(parents=True)
    (there / "file").write_text("seen")
    (tmp_path / "link").symlink_to("there")
    paths = ["/mnt/luigi-pai-test", "/luigi-pai-test/a", "/mnt/luigi-pai-test/in", f"{tmp_path}/link/new"]
    mounts = dict(zip(paths, folders, strict=True))
    lines = [f"touch {path}/{folder.name}" for path, folder in mounts.items()]
    lines += ["touch own", "pwd", "id -u", f"cat {there}/file", f"ls {there}"]
    done = subprocess.run(
        inside(mounts, ["/bin/sh", "-ec", "\n".join(lines)]),
        cwd=work, capture_output=True, text=True, check=False, timeout=60, preexec_fn=before,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == f"{work}\n{os.geteuid()}\nseenfile\nfolder\nnew\n"
    made = [sorted(path.name for path in folder.iterdir()) for folder in (*folders, work, there)]
    assert made == [["in", "one"], ["two"], ["three"], ["four"], ["own"], ["file", "folder"]]
    assert not Path("/luigi-pai-test").exists()
    assert not Path("/mnt/luigi-pai-test").exists()


@needs_mounts
@pytest.mark.parametrize("path", ["/mnt/luigi-pai-test", "/luigi-pai-test/a", "/srv"])
def test_a_trial_says_that_a_path_can_be_used(path, folders, work):
    assert can_mount({path: folders[0]}, work)


def test_a_trial_says_that_a_path_cannot_be_used(tmp_path, folders, work):
    """It hides the task or Python, is a file, or its folder is gone."""
    hidden = [str(tmp_path), sys.prefix, str(Path(sys.executable).resolve().parent)]
    for path in (*hidden, __file__):
        assert not can_mount({path: folders[0]}, work), path
    assert not can_mount({"/mnt/luigi-pai-test": tmp_path / "gone"}, work)


def test_a_machine_is_tried_once_for_the_same_mounts(tmp_path, folders, work, monkeypatch):
    """A task does not wait for a trial that an earlier one made."""
    trials = []

    def refuse(mounts, _work):
        trials.append(mounts)
        return False

    monkeypatch.setattr(module, "can_mount", refuse)
    storages = Storages(tmp_path / "all")
    for folder in (folders[0], folders[0], folders[1]):
        assert not storages.can_mount({"/data": folder}, work)
    assert trials == [{"/data": folders[0]}, {"/data": folders[1]}]
