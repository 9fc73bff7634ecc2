"""What of a package travels with a PaiPythonTask, decoded from the job that the server stores."""

from __future__ import annotations

import base64
import importlib
import logging
import os
import re
import sys
import sysconfig
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from python_clusters import label
from python_tasks import InImage

from luigi_pai import OpenPai, SpecError

SECRET = "s3cret-of-anna"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n"


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A package that can be imported here."""
    folder = tmp_path / "site" / "sentpkg"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("SIZE = 12\n")
    monkeypatch.syspath_prepend(folder.parent)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def task_with(*packages: str, run_id: str = "x") -> InImage:
    class Packed(InImage):
        def work(self):
            import sentpkg  # noqa: PLC0415  in the container

            return {"size": sentpkg.SIZE}

    Packed.packages = packages
    return Packed(run_id=run_id)


def sent(task: InImage) -> dict[str, bytes]:
    """Return the files of the payload."""
    with zipfile.ZipFile(BytesIO(task._payload().file)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    ours = re.compile(r"cloudpickle/|luigi_pai/|__main__\.py|task\.json|work\.pickle")
    return {name: content for name, content in files.items() if not ours.match(name)}


def refused(*packages: str) -> str:
    with pytest.raises(SpecError) as caught:
        task_with(*packages).job()
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("any_cluster", [("v2", False)], indirect=True, ids=label)
@pytest.mark.usefixtures("any_cluster")
def test_no_credentials_are_in_the_stored_job(package, run_id, settings, caplog):
    """Names, content, the configured password, .paiignore; what was left out is logged once."""
    settings(smtp_password=SECRET)
    put = {
        ".env": SECRET,
        ".git/config": SECRET,
        "luigi.cfg": SECRET,
        "conf/client.cfg": SECRET,
        "conf/id_rsa": KEY,
        "conf/deploy": KEY,
        "conf/copied.ini": f"[OpenPai]\npassword = {SECRET}\n",
        "private/data.csv": SECRET,
        "data/words.txt": "words",
        ".paiignore": "/private/\n!luigi.cfg\n!.env\n",
    }
    write(package, put)
    (package / "plain.txt").symlink_to(".env")
    task = task_with("sentpkg", run_id=run_id)
    with caplog.at_level(logging.INFO, "luigi-interface"):
        task.run()
    assert task.result() == {"size": 12}
    stored = "\n".join(map(str, OpenPai().cluster().job(task.name).config()["taskRoles"]["main"]["commands"]))
    packed = base64.b64decode(re.search(r"echo (\S+) \| base64 -d", stored)[1])
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert {name for name in contents if name.startswith("sentpkg/")} == {
        "sentpkg/__init__.py",
        "sentpkg/data/words.txt",
    }
    assert SECRET.encode() not in packed + b"".join(contents.values())
    assert SECRET not in stored
    left_out = ".env, .git, conf/client.cfg, conf/copied.ini, conf/deploy, conf/id_rsa, luigi.cfg, plain.txt"
    line = f"{package}: left out: {left_out} (credentials are never sent)"
    assert [record.getMessage() for record in caplog.records].count(line) == 1


def test_files_of_packages_that_are_sent(package, tmp_path):
    """Data, folders without __init__, compiled modules, single modules, names that only HDFS refuses."""
    names = ["sub/mod.py", "data/12:30.csv", "fast.so", "bare.pyc", "__pycache__/x.pyc", "a b.txt"]
    write(package, dict.fromkeys(names, "x"))
    (package / "link.py").symlink_to("sub/mod.py")
    (tmp_path / "site" / "single.py").write_text("ONE = 1\n")
    files = sent(task_with("sentpkg", "single"))
    inside = ["__init__.py", "a b.txt", "bare.pyc", "data/12:30.csv", "fast.so", "link.py", "sub/mod.py"]
    assert list(files) == [*(f"sentpkg/{name}" for name in inside), "single.py"]
    assert files["single.py"] == b"ONE = 1\n"


def test_an_installed_package_with_compiled_modules(package, monkeypatch):
    """A zip cannot have them; the image can."""
    path_of, site = sysconfig.get_path, str(package.parent)
    monkeypatch.setattr("sysconfig.get_path", lambda name: site if name == "purelib" else path_of(name))
    write(package, {"fast.abi3.so": ""})
    problem = "contains compiled modules (sentpkg/fast.abi3.so), which Python cannot import from a zip"
    assert f"packages: 'sentpkg' {problem}: use an image that has the package" in refused("sentpkg")


def test_a_package_that_is_a_link(package, tmp_path, monkeypatch):
    """It has the name under which it is imported."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "linkedpkg").symlink_to(package)
    monkeypatch.syspath_prepend(tmp_path / "other")
    assert list(sent(task_with("linkedpkg"))) == ["linkedpkg/__init__.py"]


def test_links_out_of_a_package(package, tmp_path):
    """They are errors, all at once, as in uploads."""
    write(tmp_path / "outside", {"secret": SECRET})
    (package / "file").symlink_to(tmp_path / "outside" / "secret")
    (package / "folder").symlink_to(tmp_path / "outside")
    text = refused("sentpkg")
    assert f"packages: 'sentpkg': file: it is a link out of the folder, to {tmp_path}/outside/secret" in text
    assert "packages: 'sentpkg': folder: it is a link out of the folder" in text


def test_files_that_cannot_be_read(package, monkeypatch):
    """Each is named; a name that is no UTF-8 is no traceback either."""
    write(package, {"locked": "x", "gone": "x"})
    Path(os.fsdecode(os.fsencode(package) + b"/\xff")).write_text("")
    access, read = os.access, Path.read_bytes
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and access(path, mode))
    text = refused("sentpkg")
    assert "packages: 'sentpkg': locked: it cannot be read (Permission denied)" in text
    assert "packages: 'sentpkg': \\udcff: its name is not UTF-8" in text

    def failing(path):
        if path.name == "gone":
            raise FileNotFoundError(2, "No such file or directory")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    assert f"{package}/gone: it cannot be read (No such file or directory)" in refused("sentpkg")


@pytest.mark.parametrize("kind", ["module", "package"])
def test_a_module_that_is_never_sent(package, tmp_path, monkeypatch, kind):
    """Its file is a configuration or in a folder of credentials: an error that tells what to do."""
    if kind == "module":
        (tmp_path / "site" / "settings_of_luigi.py").write_text("password = 1\n")
        monkeypatch.setenv("LUIGI_CONFIG_PATH", str(tmp_path / "site" / "settings_of_luigi.py"))
        text = refused("settings_of_luigi")
        assert "settings_of_luigi.py: it is never sent: it is a Luigi configuration file; give" in text
    else:
        package.rename(hidden := tmp_path / "site" / ".ssh")
        (tmp_path / "site" / "sentpkg").symlink_to(hidden)
        text = refused("sentpkg")
        assert (
            "sentpkg: it is never sent: a file or folder with this name may contain credentials; to" in text
        )


@pytest.mark.parametrize("name", ["sys", "no_such", "", "a.b", "__main__", "namespaced"])
def test_names_that_are_no_package_with_files(name, tmp_path, monkeypatch):
    """A module of the interpreter, a namespace, none at all."""
    (tmp_path / "namespaced").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delattr("__main__.__spec__", raising=False)
    wanted = f"packages: {name!r} is not a package or module that can be imported here; write names as after"
    assert wanted in refused(name)


TOPS = """
import beside, faraway, json
from python_tasks import InImage

class Top(InImage):
    def work(self):
        return {"loss": beside.loss() + faraway.SIZE, "all": json.dumps(1)}

class Inside(InImage):
    def work(self):
        from beside import loss
        return {"loss": loss()}
"""


@pytest.mark.parametrize("beside", ["beside.py", "beside/__init__.py"])
def test_a_module_beside_the_task_is_warned_of(tmp_path, monkeypatch, beside):
    """It is imported at the top or in work(), and is neither sent nor installed."""
    far = tmp_path / "else" / "where"
    write(tmp_path, {beside: "def loss(): return 0.1\n", "tops.py": TOPS})
    write(far, {"faraway.py": "SIZE = 1\n"})
    for folder in (tmp_path, far):
        monkeypatch.syspath_prepend(folder)
    for name in ("beside", "faraway", "tops"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    tops = importlib.import_module("tops")
    remedy = "a module next to tops.py: unless the image has it, send it with packages = ['beside']"
    top, inside = tops.Top(run_id="x"), tops.Inside(run_id="x")
    assert top._payload().warnings == [f"uses beside in Top.work (tops.py:7), {remedy}"]
    assert inside._payload().warnings == [f"uses beside in Inside.work (tops.py:11), {remedy}"]
    monkeypatch.setattr(tops.InImage, "packages", ["beside"])
    assert top._payload().warnings == inside._payload().warnings == []
