"""The storages of v2 jobs: what a job may say of them, and where they appear."""

from __future__ import annotations

import pytest

from luigi_pai.local.container.storages import Storages, absolute_mounts


@pytest.fixture
def storages(tmp_path):
    """Two storages, one of them a link."""
    (tmp_path / "elsewhere").mkdir()
    known = Storages(tmp_path / "storages")
    (tmp_path / "storages" / "mnist").symlink_to(tmp_path / "elsewhere")
    return known


@pytest.mark.slow
def test_share_and_read_only_are_the_storages_and_not_the_jobs(v2, local_pai_v2):
    """The server writes over them what its list shows, so a job sees the root of a shared storage."""
    (local_pai_v2.data / "storages/nfs1/at-the-root").write_text("seen\n")
    extras = {"storages": [{"name": "nfs1", "share": False, "readOnly": True}]}
    job = v2.run("cat mnt/nfs1/at-the-root", "echo written > mnt/nfs1/by-a-job", extras=extras)
    assert job["jobStatus"]["state"] == "SUCCEEDED", v2.log(job, name="stderr")
    assert v2.log(job) == "seen\n"
    assert (local_pai_v2.data / "storages/nfs1/by-a-job").read_text() == "written\n"
    shown = v2.send("GET", "/storages").json()["storages"]
    assert [item["share"] for item in shown if item["name"] == "nfs1"] == [True]


@pytest.mark.slow
def test_the_runtime_log_says_where_a_storage_is(v2):
    """A process cannot mount; the right path is one for here and for a cluster."""
    extras = {"storages": [{"name": "nfs1", "mountPath": "/data"}]}
    job = v2.run("ls ${LUIGI_PAI_MOUNTS:-}/data", extras=extras)
    assert v2.log(job, name="stderr") == ""
    assert v2.log(job, name="runtime.log").startswith(
        "luigi-pai local: the storage at /data is the folder data of the working folder, because a process "
        "cannot mount; ${LUIGI_PAI_MOUNTS:-}/data is the right path here and on a cluster\n"
    )


@pytest.mark.slow
def test_a_command_that_uses_the_absolute_path_is_warned_in_its_error_log(v2):
    """It would read or write a folder of this machine."""
    extras = {"storages": [{"name": "nfs1", "mountPath": "/no-such-mount"}]}
    job = v2.run("cat /no-such-mount/model", extras=extras)
    first, second = v2.log(job, name="stderr").splitlines()
    assert first.startswith("luigi-pai local: the storage at /no-such-mount is the folder no-such-mount of")
    assert "No such file" in second


@pytest.mark.parametrize(
    ("command", "is_absolute"),
    [
        ("cat /mnt/nfs1/x", True),
        ("cat '/mnt/nfs1'", True),
        ("--out=/mnt/nfs1/", True),
        ("cat mnt/nfs1/x", False),
        ("cat ${LUIGI_PAI_MOUNTS:-}/mnt/nfs1/x", False),
        ("cat $LUIGI_PAI_MOUNTS/mnt/nfs1/x", False),
        ("cat $(pwd)/mnt/nfs1/x ./mnt/nfs1", False),
        ("cat /mnt/nfs10/x", False),
    ],
)
def test_absolute_paths_are_recognised(command, is_absolute):
    assert absolute_mounts(["mnt/nfs1"], [command]) == (["mnt/nfs1"] if is_absolute else [])
