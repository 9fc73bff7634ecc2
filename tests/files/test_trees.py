"""The files of a folder that are sent: all except ignored ones, or one error with all problems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_cases import sections

from luigi_pai.files import TransferError
from luigi_pai.files.trees import LocalFile, folder_tree


def made(folder, *names):
    """Make files, each with its name as content; a name that ends with ``/`` is a folder."""
    for name in names:
        place = folder / name
        if name.endswith("/"):
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(name)
    return folder


@sections("trees")
def test_trees(case, tmp_path):
    """Each case of tests/data/files/trees.yaml; a link out of the folder is a problem."""
    made(tmp_path / "sent", *case["made"])
    made(tmp_path / "outside", "secret")
    for name, target in case.get("links", {}).items():
        (tmp_path / "sent" / name).symlink_to(target)
    for name in case.get("pipes", []):
        os.mkfifo(tmp_path / "sent" / name)
    if "rules" in case:
        (tmp_path / "sent" / ".paiignore").write_text(case["rules"], case.get("encoding"))
    if "problems" in case:
        with pytest.raises(TransferError) as caught:
            folder_tree(tmp_path / "sent")
        found = [str(problem).replace(str(tmp_path), "TMP") for problem in caught.value.problems]
        assert found == case["problems"]
        return
    for folder in [tmp_path / name for name in case.get("roots", ["sent"])]:
        tree = folder_tree(folder)
        assert sorted(tree.files) == sorted(case["files"])
        assert {name: file.size for name, file in tree.files.items()} == {
            name: (folder / name).stat().st_size for name in tree.files
        }
        assert "folders" not in case or sorted(tree.folders) == sorted(case["folders"])


def test_all_names_that_hdfs_cannot_take_are_said_at_once(tmp_path):
    """A colon, a name that is no UTF-8; an ignored one is nobody's business."""
    made(tmp_path, "12:30/a", "b:c", "fine", "ignored:x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("")
    (tmp_path / ".paiignore").write_text("ignored*\n")
    with pytest.raises(TransferError) as caught:
        folder_tree(tmp_path, ":")
    assert str(caught.value) == (
        f"nothing was sent from {tmp_path}: 12:30: HDFS does not allow ':' in a name; "
        "b:c: HDFS does not allow ':' in a name; \\udcff: its name is not UTF-8"
    )
    assert len(caught.value.problems) == 3
    with pytest.raises(TransferError, match=r"nothing was sent from .*: \\udcff: its name is not UTF-8$"):
        folder_tree(tmp_path)
    many = made(tmp_path / "many", *(f"{number:03}:" for number in range(120)))
    with pytest.raises(TransferError, match=r"019:: HDFS does not allow ':' in a name; and 100 more$"):
        folder_tree(many, ":")


def test_what_cannot_be_read(tmp_path, monkeypatch):
    """A file and a folder that are not ours to read are said before anything is sent."""
    folder = made(tmp_path, "mine", "secret.key", "locked/a")
    scandir, access = os.scandir, os.access

    def no_entry(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    # not by chmod: the superuser, who may run the tests, reads everything
    monkeypatch.setattr(os, "scandir", no_entry)
    monkeypatch.setattr(os, "access", lambda path, mode: "key" not in str(path) and access(path, mode))
    with pytest.raises(TransferError) as caught:
        folder_tree(folder)
    assert [str(problem) for problem in caught.value.problems] == [
        "locked/: it cannot be read (Permission denied)",
        "secret.key: it cannot be read (Permission denied)",
    ]


def test_a_file_that_vanishes_while_its_folder_is_read(tmp_path, monkeypatch):
    """It is among the files, of which each is an error of its own when it is sent."""
    folder = made(tmp_path, "a.swp", "b")
    access = os.access

    def then_removed(path, mode):
        readable = access(path, mode)
        if str(path).endswith(".swp"):
            Path(path).unlink()
        return readable

    monkeypatch.setattr(os, "access", then_removed)
    tree = folder_tree(folder)
    assert sorted(tree.files) == ["a.swp", "b"]
    with pytest.raises(TransferError, match=r"not everything was sent: .*a\.swp: No such file or directory"):
        list(tree.files["a.swp"].parts())


def file_of(place):
    return LocalFile(place.name, place, place.stat().st_size)


def test_a_file_that_is_replaced_while_it_is_read(tmp_path):
    """It is read to its end as it was: an editor that saves breaks nothing."""
    place = tmp_path / "train.py"
    place.write_bytes(b"a" * 3 * 1024 * 1024)
    parts = file_of(place).parts()
    first = next(parts)
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(place)
    assert first + b"".join(parts) == b"a" * 3 * 1024 * 1024
    assert file_of(place).sha256() == "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"
