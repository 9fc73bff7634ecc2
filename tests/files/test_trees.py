"""What of a local folder is sent: all but what is ignored, or one error that names all that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_cases import table

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


def test_files_and_folders(tmp_path):
    """All files with their sizes, and all folders, empty ones too."""
    tree = folder_tree(made(tmp_path, "a.py", "deep/er/b.txt", "empty/", ".hidden"))
    assert {name: file.size for name, file in tree.files.items()} == {
        "a.py": 4,
        "deep/er/b.txt": 13,
        ".hidden": 7,
    }
    assert set(tree.folders) == {"deep", "deep/er", "empty"}


def test_what_is_not_sent(tmp_path):
    """Git's folder, Python's caches, virtual environments, passwords, and what is an upload's own."""
    made(
        tmp_path,
        ".git/config",
        "sub/.git",
        "a/__pycache__/x.pyc",
        "b.pyc",
        ".venv/bin/python",
        "luigi.cfg",
        "a/luigi.toml",
        ".luigi-pai-manifest.json",
        "sub/.luigi-pai-tmp-anna/x",
        ".luigi-pai-tmp-x.data.csv",
        "a/kept.py",
    )
    tree = folder_tree(tmp_path)
    assert set(tree.files) == {"a/kept.py"}
    assert set(tree.folders) == {"a", "sub"}


def test_git_is_not_asked_for_by_a_wide_rule(tmp_path):
    """Rules that take everything in leave out Git's folder, which may hold keys, and the rules themselves."""
    made(tmp_path, ".git/config", "sub/.git/config", "a/__pycache__/x.pyc")
    (tmp_path / ".paiignore").write_text("!*/\n!**\n")
    assert set(folder_tree(tmp_path).files) == {"a/__pycache__/x.pyc"}


def test_the_ignore_file(tmp_path):
    """.paiignore is written as .gitignore is, comes after the rules for caches, and is not sent itself."""
    made(
        tmp_path,
        "data/big.bin",
        "data/keep.bin",
        "x/data/y",
        "log.txt",
        "x/log.txt",
        "m.pyc",
        "build/z",
    )
    (tmp_path / ".paiignore").write_text(
        "# what is no code\n\n/data/*\n!/data/keep.bin\n/log.txt\n!m.pyc\nbuild/\n"
    )
    tree = folder_tree(tmp_path)
    assert set(tree.files) == {"data/keep.bin", "x/data/y", "x/log.txt", "m.pyc"}
    assert "build" not in tree.folders


@table("rules of .paiignore", "rules sent")
def test_the_rules_of_gitignore(tmp_path, rules, sent):
    """Anchored or not, folders alone, negation, any depth, comments."""
    made(tmp_path, "a/log/x", "a/log.txt", "b", "log.txt", "log/x")
    (tmp_path / ".paiignore").write_text(rules)
    assert sorted(folder_tree(tmp_path).files) == sorted(sent)


def test_an_ignore_file_that_cannot_be_read(tmp_path):
    """It is an error, not an empty one: it may keep secrets from being sent."""
    (tmp_path / ".paiignore").write_bytes(b"\xff\xfe")
    with pytest.raises(TransferError, match=r"\.paiignore: .*codec can't decode"):
        folder_tree(tmp_path)


def test_all_names_that_hdfs_cannot_take_are_said_at_once(tmp_path):
    """A colon, a name that is no UTF-8; an ignored one is nobody's business."""
    made(tmp_path, "12:30/a", "b:c", "fine", "ignored:x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("")
    (tmp_path / ".paiignore").write_text("ignored*\n")
    with pytest.raises(TransferError) as caught:
        folder_tree(tmp_path, ":")
    assert str(caught.value) == (
        f"nothing of {tmp_path} was sent: 12:30: HDFS takes no ':' in a name; "
        "b:c: HDFS takes no ':' in a name; \\udcff: its name is not UTF-8"
    )
    assert len(caught.value.problems) == 3
    with pytest.raises(TransferError, match=r"was sent: \\udcff: its name is not UTF-8$"):
        folder_tree(tmp_path)


def test_many_problems_are_counted(tmp_path):
    """An error shows 20 of them and says how many more there are."""
    made(tmp_path, *(f"{number:03}:" for number in range(120)))
    with pytest.raises(TransferError, match=r"019:: HDFS takes no ':' in a name; and 100 more$"):
        folder_tree(tmp_path, ":")


def test_links_inside_are_followed(tmp_path):
    """A link to a file or folder in the folder is sent as what it leads to."""
    made(tmp_path, "real/a.txt")
    (tmp_path / "link.txt").symlink_to("real/a.txt")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    tree = folder_tree(tmp_path)
    assert set(tree.files) == {"real/a.txt", "link.txt", "folder/a.txt"}
    assert set(tree.folders) == {"real", "folder"}


def test_the_folder_itself_may_be_a_link(tmp_path):
    """What it leads to is the folder that is sent."""
    made(tmp_path, "real/a.txt", "real/b.txt")
    (tmp_path / "real" / "c.txt").symlink_to(tmp_path / "real" / "a.txt")
    (tmp_path / "link").symlink_to("real")
    assert set(folder_tree(tmp_path / "link").files) == {"a.txt", "b.txt", "c.txt"}


def test_links_that_cannot_be_followed(tmp_path):
    """Out of the folder, to nowhere, and in a circle: all in one error."""
    outside = made(tmp_path / "outside", "secret")
    folder = made(tmp_path / "sent", "sub/a")
    (folder / "away").symlink_to(outside / "secret")
    (folder / "away-folder").symlink_to(outside)
    (folder / "nowhere").symlink_to("gone")
    (folder / "itself").symlink_to("itself")
    (folder / "sub" / "up").symlink_to("..")
    with pytest.raises(TransferError) as caught:
        folder_tree(folder)
    assert [str(problem) for problem in caught.value.problems] == [
        f"away: it is a link out of the folder, to {outside / 'secret'}",
        f"away-folder: it is a link out of the folder, to {outside}",
        "itself: it is a link that leads nowhere",
        "nowhere: it is a link that leads nowhere",
        f"sub/up: it is a link to a folder that contains it, {folder}",
    ]


def test_what_is_no_file(tmp_path):
    """A pipe would be waited for for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match="pipe: it is neither a file nor a folder"):
        folder_tree(tmp_path)


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
