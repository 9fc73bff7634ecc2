"""Which storage a task uses, beside an HDFS and later than it was set, and which it cannot use."""

from __future__ import annotations

import pytest
from lives import Life, lives
from process_state import forget
from train_task import Train

from luigi_pai import ConfigError
from luigi_pai.files.storage.mounts import Mount

# ways to name one folder
FORMS = [
    "/mnt/nfs1/train/output",
    "$PAI_DEFAULT_FS_URI/train/output",
    "${PAI_DEFAULT_FS_URI}/train/output/",
    "/train/output",
]


class OnStorage(Life):
    """Lives with a storage."""

    def __init__(self, request, folder, *given):
        super().__init__(*given)
        self._request, self._folder = request, folder

    def hdfs(self, _):
        self._hdfs = self._request.getfixturevalue("hdfs")

    def storage(self, about):
        self._pai.storages["nfs1"].update(about)

    def storage_path(self, name):
        self._settings(storage_path=self._folder / name)

    def refused(self, words):
        """Run the task, whose ConfigError has these words in one line; nothing is submitted."""
        with pytest.raises(ConfigError) as caught:
            self._task.run()
        text = str(caught.value)
        assert [word for word in words if word not in text] == [], text
        assert "\n" not in text
        assert self._pai.submissions == 0

    def absent(self, name):
        assert not (self._folder / name).exists()

    def only_on(self, where):
        """The claims and the flag of the task are there, and nothing of it elsewhere."""
        here, there = (self._folder, self._hdfs) if where == "storage" else (self._hdfs, self._folder)
        found = {path.name for path in (here / "train" / "output").rglob("*")}
        assert found >= {"_SUCCESS", "train.1.json", "train.1.SUCCEEDED"}
        assert not (there / "train").exists()

    def empty(self, _):
        assert not list(self._folder.iterdir())


@lives("storage_settings")
def test_a_life(request, pai, storage, settings, caplog, steps):
    OnStorage(request, storage, pai, settings, caplog).play(steps)


@pytest.mark.usefixtures("storage")
def test_a_storage_path_on_the_disk_of_this_machine(settings, tmp_path, monkeypatch, caplog):
    """The task runs, because only its user knows whether it is right."""
    own = Mount("/dev/sda1", "/", "ext4", ())
    monkeypatch.setattr("luigi_pai.files.storage.mounts.mounts", lambda: [own])
    settings(storage_path=tmp_path)
    Train().run()
    text = f"storage_path = {tmp_path} is on the disk of this machine, so nfs1 may not be mounted there, and"
    assert f"{text} the job does not see its files: correct storage_path" in caplog.text


@pytest.mark.parametrize("later", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_a_folder_has_several_names(pai, storage, monkeypatch, first, later):
    """Whichever the job was submitted with, the task that names another one takes it over."""
    monkeypatch.setattr(Train, "output_dir", first)
    task = Train()
    task.run()
    for path in sorted(storage.rglob("*"), reverse=True):  # as if another machine had run it before claims
        path.rmdir() if path.is_dir() else path.unlink()
    forget()
    monkeypatch.setattr(Train, "output_dir", later)
    assert Train().complete()
    Train().run()
    assert pai.posts() == ["train"]
    assert (storage / "train" / "output" / "_SUCCESS").read_text() == "train\n"


@pytest.mark.parametrize("state", ["SUCCEEDED", "RUNNING"])
@pytest.mark.usefixtures("storage")
def test_a_job_from_before_the_storage_was_set(pai, settings, state):
    """The server stores the folder as it was written then; the job is taken over."""
    settings(storage="", poll_min=5, poll_max=30)
    pai.plan = {"runs_for": 0.0 if state == "SUCCEEDED" else 60.0}
    Train().run()
    if state == "RUNNING":
        pai.jobs["train"].runs_for += pai.clock.elapsed
    (stored,) = (
        each["uri"] for each in pai.jobs["train"].config["prerequisites"] if each["type"] == "output"
    )
    assert stored == "$PAI_DEFAULT_FS_URI/train/output"
    forget()
    settings(storage="nfs1")
    task = Train()
    if state == "SUCCEEDED":
        assert task.complete()
    task.run()
    assert pai.posts() == ["train"]
    assert task.complete()
