"""What is said of a storage that cannot be used: before anything is sent, with the next step."""

from __future__ import annotations

import pytest
from train_task import Train

from luigi_pai import ConfigError
from luigi_pai.files.storage.mounts import Mount


def refused(pai, *words: str) -> str:
    """Run a task, and return the text of its ConfigError; nothing was submitted, and no job exists."""
    with pytest.raises(ConfigError) as caught:
        Train().run()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert pai.submissions == 0
    assert "\n" not in text
    return text


def test_a_storage_that_is_read_only(pai, storage):
    pai.storages["nfs1"]["readOnly"] = True
    refused(pai, "storage = nfs1 in [OpenPai] is read-only", "name another")
    assert not list(storage.iterdir())


@pytest.mark.usefixtures("storage")
def test_a_storage_that_does_not_exist(pai, settings):
    settings(storage="nfs2")
    refused(pai, "storage = nfs2 in [OpenPai] does not exist, or you may not use it; you may use nfs1")


@pytest.mark.usefixtures("storage")
def test_a_cluster_without_storages(pai):
    pai.storages.clear()
    refused(pai, "storage = nfs1 in [OpenPai] does not exist", "you may use none")


@pytest.mark.usefixtures("storage")
def test_a_storage_of_another_group(pai):
    body = {"code": "ForbiddenUserError", "message": "User admin is not allowed to access nfs1."}
    pai.fail("GET", "/storages/nfs1", 403, body=body, times=9)
    pai.fail("GET", "/storages$", 200, body={"storages": [{"name": "other"}]}, times=9)
    refused(pai, "does not exist, or you may not use it; you may use other")


@pytest.mark.parametrize(("release", "version"), [("0.7.1", "auto"), ("0.7.1", "v1"), ("0.15.0", "auto")])
@pytest.mark.usefixtures("storage")
def test_a_release_without_storages(pai, settings, release, version):
    pai.release = release
    settings(api_version=version)
    refused(pai, "this server has no storages", "webhdfs_url")


@pytest.mark.usefixtures("storage")
def test_a_storage_that_is_not_mounted_here(pai):
    pai.storages["nfs1"]["data"] = {"server": "192.0.2.1", "path": "/export/home"}
    refused(
        pai, "(nfs, 192.0.2.1:/export/home) is not mounted on this machine",
        "sudo mount -t nfs 192.0.2.1:/export/home /mnt/nfs1", "storage_path",
    )  # fmt: skip


@pytest.mark.usefixtures("storage")
def test_a_storage_path_that_does_not_exist(pai, settings, tmp_path):
    settings(storage_path=tmp_path / "nothing")
    refused(pai, "storage_path = ", "is not a folder here; mount nfs1 there")


@pytest.mark.parametrize("release", ["0.7.1", "0.15.0"])
@pytest.mark.usefixtures("storage")
def test_a_release_without_storages_although_it_is_mounted(pai, settings, storage, release):
    """storage_path answers where it is, so that only the submission asks the server."""
    pai.release = release
    settings(storage_path=storage)
    refused(pai, "this server has no storages")
    assert not list(storage.iterdir())


@pytest.mark.usefixtures("storage")
def test_a_storage_path_on_the_disk_of_this_machine(settings, tmp_path, monkeypatch, caplog):
    """The task runs, because only its user knows whether it is right."""
    own = Mount("/dev/sda1", "/", "ext4", ())
    monkeypatch.setattr("luigi_pai.files.storage.mounts.mounts", lambda: [own])
    settings(storage_path=tmp_path)
    Train().run()
    text = f"storage_path = {tmp_path} is on the disk of this machine, so nfs1 may not be mounted there, and"
    assert f"{text} the job does not see its files: correct storage_path" in caplog.text
