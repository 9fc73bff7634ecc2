"""What is said of a storage that cannot be used: before anything is sent, with the next step."""

from __future__ import annotations

import pytest
from lives import Life, lives
from train_task import Train

from luigi_pai import ConfigError
from luigi_pai.files.storage.mounts import Mount


class OnStorage(Life):
    """Lives with a storage."""

    def __init__(self, folder, *given):
        super().__init__(*given)
        self._folder = folder

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

    def empty(self, _):
        assert not list(self._folder.iterdir())


@lives("storage_settings")
def test_a_life(pai, storage, settings, caplog, steps):
    """As its sentence says."""
    OnStorage(storage, pai, settings, caplog).play(steps)


@pytest.mark.usefixtures("storage")
def test_a_storage_path_on_the_disk_of_this_machine(settings, tmp_path, monkeypatch, caplog):
    """The task runs, because only its user knows whether it is right."""
    own = Mount("/dev/sda1", "/", "ext4", ())
    monkeypatch.setattr("luigi_pai.files.storage.mounts.mounts", lambda: [own])
    settings(storage_path=tmp_path)
    Train().run()
    text = f"storage_path = {tmp_path} is on the disk of this machine, so nfs1 may not be mounted there, and"
    assert f"{text} the job does not see its files: correct storage_path" in caplog.text
