"""Folders at absolute paths for one process and its children."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mounting import MOUNTS

from luigi_pai.local.container import storages as module
from luigi_pai.local.container.namespace import inside
from luigi_pai.local.container.storages import Storages, can_mount

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
