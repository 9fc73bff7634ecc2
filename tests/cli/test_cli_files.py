"""luigi-pai put, get, ls and rm: as a user runs them, with a luigi.cfg, on the local HDFS and storage."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from cli_commands import replay, transcripts
from terminal import read_terminal

from luigi_pai.files import WebHdfs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CLI = [sys.executable, "-m", "luigi_pai"]


@pytest.fixture
def home(local_pai_v1, tmp_path: Path, settings, monkeypatch) -> str:
    """A folder on HDFS for one test; the HDFS is configured, also by a luigi.cfg here."""
    monkeypatch.chdir(tmp_path)
    about = {"webhdfs_url": local_pai_v1.webhdfs_url, "fs_uri": local_pai_v1.fs_uri, "hdfs_user": "anna"}
    settings(**about)
    lines = "".join(f"{key} = {value}\n" for key, value in about.items())
    (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{lines}")
    return f"/cli/{tmp_path.name}-{time.time_ns():x}"


@pytest.fixture
def fs(local_pai_v1) -> WebHdfs:
    """The same HDFS, as the tests look at it."""
    return WebHdfs(local_pai_v1.webhdfs_url, "anna")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder to send."""
    (tmp_path / "src" / "lib").mkdir(parents=True)
    (tmp_path / "src" / "train.py").write_text("train")
    (tmp_path / "src" / "lib" / "a b.py").write_text("a" * 2048)
    return tmp_path / "src"


def test_there_and_back(pai_command, home, source, tmp_path):
    """put says in one line what was sent, get brings the same back; both find nothing to do again.

    Without a terminal there is no progress bar, and no log.
    """
    for words, line in (
        (("put", "src", home), f"uploaded 2 of 2 files, 2.0 KiB, to {home}\n"),
        (("put", "src", home), f"uploaded 0 of 2 files, 0 B, to {home}\n"),
        (("get", home, "back"), "downloaded 2 of 2 files, 2.0 KiB, to back\n"),
        (("get", home, "back", "--jobs", "1"), "downloaded 0 of 2 files, 0 B, to back\n"),
    ):
        done = pai_command(*words)
        assert (done.stdout, done.stderr) == (line, "")
    assert (tmp_path / "back" / "lib" / "a b.py").read_text() == (source / "lib" / "a b.py").read_text()


def test_what_put_leaves_out(pai_command, home, source, tmp_path, fs, settings):
    """The line names files that are never sent, under any name; .paiignore does not bring them back."""
    (source / ".env").write_text("PASSWORD=hunter22")
    (source / ".paiignore").write_text("!.env\n")
    (source / "conf.txt").write_text("[OpenPai]\npassword = hunter22\n")
    settings(password="hunter22")
    with (tmp_path / "luigi.cfg").open("a") as file:
        file.write("password = hunter22\n")
    os.link(tmp_path / "luigi.cfg", source / "hard.txt")
    assert pai_command("put", "src", home).stdout == (
        f"uploaded 2 of 2 files, 2.0 KiB, to {home}; "
        "left out: .env, conf.txt, hard.txt (credentials are never sent)\n"
    )
    assert sorted(name for name in fs.listdir(home) if "manifest" not in name) == [
        f"{home}/lib",
        f"{home}/train.py",
    ]


@pytest.mark.parametrize("name", ["luigi.cfg", "src/.git", "src/.ssh/id_ed25519", "src/copy"])
def test_put_of_a_file_with_credentials(pai_command, home, source, tmp_path, fs, settings, name):
    """It is an error of one line."""
    settings(password="hunter22")
    with (tmp_path / "luigi.cfg").open("a") as file:
        file.write("password = hunter22\n")
    for place in (".git/config", ".ssh/id_ed25519"):
        (source / place).parent.mkdir()
        (source / place).write_text("secret")
    (source / "copy").write_text("password = hunter22\n")
    error = pai_command("put", name, home, expect=1).stderr
    assert f"{name}: it is never sent: " in error
    assert error.count("\n") == 1
    assert "hunter22" not in error
    assert not fs.exists(home)


def test_a_progress_bar_on_a_terminal(home, source, tmp_path, monkeypatch):
    """Standard error shows how far it is, if it is a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    here, terminal = pty.openpty()
    process = subprocess.Popen(
        [*CLI, "put", source, home], cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    shown = read_terminal(here)
    assert process.communicate(timeout=30)[0].startswith(b"uploaded 2 of 2")
    assert process.returncode == 0
    assert re.search(r"src.*100%", shown)


@pytest.mark.usefixtures("source")
def test_a_table(pai_command, home, fs):
    """ls shows mode, owner, size, time and name; with -R what is in folders, too; --json is WebHDFS's own."""
    pai_command("put", "src", home)
    fs.chmod(f"{home}/train.py", "640")
    line = r"(\S{10})  anna +(-|\d+ B|2\.0 KiB)  \d{4}-\d\d-\d\d \d\d:\d\d  (.*)"
    rows = [re.fullmatch(line, row).groups() for row in pai_command("ls", home).stdout.splitlines()]
    assert [row for row in rows if "manifest" not in row[2]] == [
        ("drwxr-xr-x", "-", "lib/"),
        ("-rw-r-----", "5 B", "train.py"),
    ]
    names = [row.rsplit("  ", 1)[1] for row in pai_command("ls", "-R", home).stdout.splitlines()]
    assert names == [".luigi-pai-manifest.json", "lib/", "lib/a b.py", "train.py"]
    (entry,) = json.loads(pai_command("ls", "--json", f"$PAI_DEFAULT_FS_URI{home}/train.py").stdout)
    assert entry.pop("modificationTime") > 1_600_000_000_000
    assert entry == {
        "name": "train.py",
        "type": "FILE",
        "length": 5,
        "owner": "anna",
        "group": "supergroup",
        "permission": "640",
    }


def test_an_empty_folder_and_names_that_cannot_move_the_cursor(pai_command, home, fs):
    """ls of an empty folder is silent. Control characters of a name are shown, not obeyed."""
    fs.mkdir(home)
    assert pai_command("ls", home).stdout == ""
    assert json.loads(pai_command("ls", home, "--json").stdout) == []
    fs.touchz(f"{home}/a\x1b[31mred")
    assert pai_command("ls", home).stdout.endswith("  a\\x1b[31mred\n")


@pytest.mark.parametrize("transcript", transcripts("files"))
@pytest.mark.usefixtures("home", "source")
def test_a_transcript(transcript, pai_command, tmp_path):
    """Failures are one line and a code: 1 for what failed, 2 for wrong usage."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a:b").write_text("")
    replay(transcript, pai_command, tmp_path)


@pytest.mark.parametrize("words", [["put", "src", "/x"], ["get", "/x", "here"], ["ls", "/x"]])
@pytest.mark.usefixtures("source")
def test_what_cannot_be_reached_is_3(pai_command, tmp_path, monkeypatch, settings, words):
    """Nobody answers: exit code 3, and what to check."""
    monkeypatch.chdir(tmp_path)
    settings(webhdfs_url="http://127.0.0.1:9")
    errors = pai_command(*words, expect=3).stderr
    assert errors.startswith(f"luigi-pai {words[0]}: HDFS ")
    assert "127.0.0.1:9: no response (Connection refused); check webhdfs_url in [OpenPai]" in errors


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "webhdfs_url is not set in [OpenPai], and '/x' is on HDFS"),
        ({"webhdfs_url": "ftp://h"}, "webhdfs_url = 'ftp://h' is not a valid URL; use http://HOST:PORT or"),
        ({"read_timeout": "soon", "webhdfs_url": "http://h"}, "read_timeout is not a number"),
    ],
)
def test_a_wrong_configuration_is_2(pai_command, settings, config, said):
    """The line says which key."""
    settings(**config)
    errors = pai_command("ls", "/x", expect=2).stderr
    assert said in errors
    assert errors.startswith("luigi-pai ls: ")


def test_the_configuration_that_luigi_takes(as_process, home, tmp_path):
    """LUIGI_CONFIG_PATH counts before ./luigi.cfg, as for the luigi command; an error names the file."""
    good = (tmp_path / "luigi.cfg").rename(tmp_path / "good.cfg")
    (tmp_path / "luigi.cfg").write_text("no section\n")
    said = as_process("ls", "/", expect=2).stderr
    assert said.startswith("luigi-pai ls: luigi.cfg cannot be read: luigi.cfg, line 1: this line is not in")
    (tmp_path / "luigi.cfg").write_text("[OpenPai]\nwebhdfs_url = http://127.0.0.1:9\n")
    (tmp_path / "data.csv").write_text("1,2\n")
    as_process("put", "data.csv", f"{home}/", LUIGI_CONFIG_PATH=str(good))
    refused = as_process("put", "good.cfg", f"{home}/", LUIGI_CONFIG_PATH=str(good), expect=1)
    assert "good.cfg: it is never sent: it is a Luigi configuration file; give credentials" in refused.stderr


@pytest.mark.parametrize("how", ["put", "get"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_stopped_in_the_middle(local_pai_v1, pai_command, home, fs, tmp_path, how, end):
    """In the middle of a big file: nothing of it is to be seen, and the next put or get does it.

    After Ctrl-C, exit code 1, one line, and no part of it anywhere.
    """
    (tmp_path / "src").mkdir()
    with (tmp_path / "src" / "big").open("wb") as file:
        file.truncate(2 * 1024**3)
    fs.mkdir(home)
    if how == "get":
        with fs.open_writer(f"{home}/out/big") as writer:
            for _part in range(128):
                writer.write(bytes(1024**2))
    words = ["put", "src", f"{home}/in"] if how == "put" else ["get", f"{home}/out", "here"]
    process = subprocess.Popen(
        [*CLI, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    begun = {
        "put": (local_pai_v1.data / "hdfs.webhdfs" / "incoming").iterdir,
        "get": lambda: (tmp_path / "here").glob(".luigi-pai-tmp-*"),
    }[how]
    try:
        while not any(begun()):
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(end)
        _output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    there = [name for name in fs.listdir(home) if not name.endswith("/out")]
    here = list((tmp_path / "here").glob("*"))  # with what is hidden
    if end == signal.SIGINT:
        assert process.returncode == 1
        assert errors.startswith(f"luigi-pai {how}: stopped; ")
        assert "complete, and the next" in errors
        assert errors.count("\n") == 1
        assert there == []
        assert [place for place in here if place.name.startswith(".")] == []
    # a whole file may just have been published
    assert [place.stat().st_size for place in here if not place.name.startswith(".")] in ([], [128 * 1024**2])
    assert not fs.exists(f"{home}/in")
    (tmp_path / "src" / "big").write_text("small")
    written = pai_command(*words).stdout
    assert re.search(r"loaded 1 of 1 file, (5 B|128 MiB), to ", written) or (here and "0 of 1" in written)


def test_secrets_are_not_shown(local_pai_v1, pai_command, home, source, settings):
    """Password and token of luigi.cfg are in no output, whatever goes wrong."""
    said = []
    settings(username="anna", password="hush-hush", token="hush-token")
    for keys, code in (
        ({"webhdfs_url": local_pai_v1.webhdfs_url}, 0),
        ({"webhdfs_url": "http://127.0.0.1:9"}, 3),
        ({"webhdfs_url": "http://anna:hush-hush@127.0.0.1:9"}, 2),
        ({"read_timeout": "soon"}, 2),
    ):
        settings(**keys)
        for words in (["put", str(source), home], ["ls", "-R", home], ["get", home, "here"]):
            done = pai_command(*words, expect=code)
            said.append(done.stdout + done.stderr)
    assert len("".join(said)) > 500
    assert "hush" not in "".join(said)


def test_a_pipe_that_ends(home, fs, tmp_path):
    """``ls`` into ``head`` ends without a word."""
    fs.mkdir(home)
    for number in range(50):
        fs.touchz(f"{home}/{number}")
    command = f"set -o pipefail; {sys.executable} -m luigi_pai ls -R {home} | true"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""


def test_a_name_that_the_disk_does_not_take(pai_command, home, source):
    """One line and exit code 1, as for a disk that is full."""
    pai_command("put", str(source), home)
    errors = pai_command("get", home, "n" * 300, expect=1).stderr
    assert errors.startswith("luigi-pai get: not everything was fetched: nnn")
    assert errors.endswith("nnn: File name too long\n")


# ---------------------------------------------------------------- on a storage, by every path that it has


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


@pytest.mark.usefixtures("source")
def test_get_to_standard_output(pai_command, home, tmp_path):
    """As other tools do: - is no file."""
    pai_command("put", "src", home)
    assert pai_command("get", f"{home}/train.py", "-").stdout == "train"
    assert "it is a folder: open a file in it" in pai_command("get", home, "-", expect=1).stderr
    assert not (tmp_path / "-").exists()
