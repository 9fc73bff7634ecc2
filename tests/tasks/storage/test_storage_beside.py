"""A storage beside an HDFS, and jobs from before the storage was configured."""

from __future__ import annotations

import pytest
from process_state import forget
from train_task import Train

from luigi_pai import PaiOutputElsewhere, PaiTask, TaskRole

FORMS = [
    "/mnt/nfs1/train/output",
    "$PAI_DEFAULT_FS_URI/train/output",
    "${PAI_DEFAULT_FS_URI}/train/output/",
    "/train/output",
]


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
    settings(storage="")
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


def test_a_job_that_writes_elsewhere_is_not_taken_over(pai, storage, monkeypatch):
    """On the same storage, in another folder."""
    monkeypatch.setattr(Train, "output_dir", "/mnt/nfs1/one")
    pai.plan = {"runs_for": 0.0}
    Train().run()
    forget()
    monkeypatch.setattr(Train, "output_dir", "/mnt/nfs1/two")
    with pytest.raises(PaiOutputElsewhere, match=r"it wrote to /mnt/nfs1/one; output_dir of the task is"):
        Train().run()
    assert not (storage / "two").exists()


class OnBoth(PaiTask):
    """A task that says where its output is."""

    name = "train"
    image = "x"
    tasks = [TaskRole("main", "true")]


@pytest.mark.parametrize(
    ("folder", "is_on_storage"),
    [
        ("/mnt/nfs1/train/output", True),
        ("$PAI_DEFAULT_FS_URI/train/output", False),
        ("/train/output", False),
        (None, False),
    ],
)
def test_hdfs_and_a_storage(pai, storage, hdfs, monkeypatch, folder, is_on_storage):
    """HDFS, unless output_dir is below the mount of the storage; claims and flag are there alone."""
    if folder is not None:
        monkeypatch.setattr(OnBoth, "output_dir", folder)
    OnBoth().run()
    here, there = (storage, hdfs) if is_on_storage else (hdfs, storage)
    found = {path.name for path in (here / "train" / "output").rglob("*")}
    assert found >= {"_SUCCESS", "train.1.json", "train.1.SUCCEEDED"}
    assert not (there / "train").exists()
    pai.jobs.clear()
    forget()
    assert OnBoth().complete()
