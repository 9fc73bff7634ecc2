"""luigi-pai put, get, ls and rm on a storage, by every path that it has."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def root(storage_pai, tmp_path, monkeypatch):
    """The storage's folder on this machine; the current folder has ``code/fit.py``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "fit.py").write_text("print(1)\n")
    return storage_pai.data / "storages" / "nfs1"


def test_a_folder_there_and_back(root, pai_command, tmp_path):
    name = f"files-{tmp_path.name}"
    assert "uploaded 1 of 1 file" in pai_command("put", "code", f"$PAI_DEFAULT_FS_URI/{name}/code").stdout
    assert (root / name / "code" / "fit.py").read_text() == "print(1)\n"
    assert "uploaded 0 of 1 file" in pai_command("put", "code", f"/mnt/nfs1/{name}/code").stdout
    entries = json.loads(pai_command("ls", "-R", f"{root}/{name}", "--json").stdout)
    assert {entry["name"] for entry in entries} == {"code", "code/fit.py", "code/.luigi-pai-manifest.json"}
    pai_command("get", f"/{name}/code", "back")
    assert (tmp_path / "back" / "fit.py").read_text() == "print(1)\n"
    result = pai_command("rm", f"/{name}", expect=2)
    assert f"/{name} is a folder; delete it with -r" in result.stderr
    pai_command("rm", f"/mnt/nfs1/{name}/code/fit.py")
    assert not (root / name / "code" / "fit.py").exists()
    pai_command("rm", "-r", f"/{name}")
    assert not (root / name).exists()
    assert "nothing is there" in pai_command("rm", f"/{name}", expect=1).stderr


def test_what_cannot_be_deleted(root, pai_command, tmp_path, monkeypatch):
    """The error says whose files these are; it changes nothing."""
    folder = root / f"kept-{tmp_path.name}"
    folder.mkdir()
    (folder / "of-root").write_text("x")

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.unlink", refuse)
    text = pai_command("rm", f"/{folder.name}/of-root", expect=1).stderr
    assert f"{folder.name}/of-root on storage" in " ".join(text.split())
    assert "Permission denied" in text
    assert "files that containers" in text
    assert (folder / "of-root").exists()
