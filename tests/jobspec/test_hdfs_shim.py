"""The hdfs command that jobs on a storage get: run by each shell that images have."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from importlib import resources
from types import SimpleNamespace

import pytest
from job_cases import cases
from waiting import wait_until

SHIM = resources.files("luigi_pai") / "jobspec" / "storage" / "hdfs_shim.sh"
CASES = cases("hdfs_shim")
BUSYBOX = os.environ.get("BUSYBOX") or shutil.which("busybox")


@pytest.fixture(params=["dash", "bash", "busybox"])
def hdfs(request, tmp_path):
    """Run the command on a storage at ``mount``, in the folder ``work``."""
    shell = BUSYBOX if request.param == "busybox" else shutil.which(request.param)
    if not shell:
        pytest.skip(f"there is no {request.param} on this machine")
    mount, work, bin_folder = tmp_path / "mnt" / "nfs1", tmp_path / "work dir", tmp_path / "bin"
    for folder in (mount, work, bin_folder):
        folder.mkdir(parents=True)
    path = os.environ["PATH"]
    if request.param == "busybox":  # its own commands only
        for name in ("cat", "mv", "rm", "mkdir", "stat", "touch", "[", "printf"):
            (bin_folder / name).symlink_to(shell)
        path = str(bin_folder)
    words = [shell, "sh"] if request.param == "busybox" else [shell]

    def start(command, *arguments, program="dfs", **environment):
        return subprocess.Popen(
            [*words, str(SHIM), program, command, *map(str, arguments)],
            cwd=work,
            env={"PATH": path, "PAI_DEFAULT_FS_URI": str(mount), "PAI_USER_NAME": "me", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(*arguments, code=0, stdin=b"", says="", **options):
        with start(*arguments, **options) as process:
            out, said = (text.decode() for text in process.communicate(stdin))
        assert process.returncode == code, said
        assert says in said if says else said == ""
        return out

    return SimpleNamespace(run=run, start=start, mount=mount, work=work)


def write(folder, files):
    """Write files below a folder; a name with a slash at its end is that of a folder."""
    for name, text in files.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text(text)


def content(folder):
    """Return the files below a folder with their content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.parametrize("name", CASES["works"])
def test_it_works_as_that_of_hadoop(hdfs, tmp_path, name):
    """On paths of every form, with what it prints, says, and leaves in the storage and the working folder."""
    places = {"mount": str(hdfs.mount), "work": str(hdfs.work), "root": str(tmp_path)}
    for step in CASES["works"][name]:
        if "remove" in step:
            (hdfs.mount / step["remove"]).unlink()
        for place, files in step.get("write", {}).items():
            write(getattr(hdfs, place), files)
        if "run" in step:
            options = {key: value.format(**places) for key, value in step.get("env", {}).items()}
            says = step.get("says", "").replace("{mount}", places["mount"])
            options |= {"program": step.get("program", "dfs"), "stdin": step.get("stdin", "").encode()}
            words = shlex.split(step["run"].format(**places))
            out = hdfs.run(*words, says=says, code=1 if says else 0, **options)
            assert out == step.get("out", "").format(**places)
        assert content(hdfs.mount) == step.get("mount", content(hdfs.mount))
        assert content(hdfs.work) == step.get("work", content(hdfs.work))


def test_lines_of_ls(hdfs):
    """They are as Hadoop writes them."""
    write(hdfs.mount, {"out/model one": "12345", "out/sub/x": ""})
    first, file, folder = hdfs.run("-ls", "/out").splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert first == "Found 2 items"
    assert re.fullmatch(rf"-[rwx-]{{9}}   1 \S+ +\S+ +5 {when} /out/model one", file)
    assert re.fullmatch(rf"d[rwx-]{{9}}   - \S+ +\S+ +0 {when} /out/sub", folder)


def test_test(hdfs):
    write(hdfs.mount, {"folder/": "", "full": "1", "empty": ""})
    for path, true in CASES["tests"]:
        for option in "edfsz":
            hdfs.run("-test", f"-{option}", path, code=0 if option in true else 1)


def test_a_file_is_never_seen_half_written(hdfs):
    """While it is copied, and after a copy that failed, there is no file of its name."""
    with hdfs.start("-put", "-", "/model") as process:
        process.stdin.write(b"half")
        process.stdin.flush()
        wait_until(lambda: list(content(hdfs.mount).values()) == ["half"])
        (name,) = content(hdfs.mount)
        assert name.startswith("model.")
        assert name.endswith("._COPYING_")
        process.communicate(b"whole")
    assert content(hdfs.mount) == {"model": "halfwhole"}
    (hdfs.mount / "model").unlink()
    unreadable = hdfs.work / "proc"
    unreadable.symlink_to("/proc/self/mem")  # opening works, reading fails
    hdfs.run("-put", unreadable, "/model", code=1, says="put: `/model': Input/output error\n")
    assert content(hdfs.mount) == {}


def test_everybody_may_change_what_a_container_writes(hdfs):
    """Folders and files of the storage, not those of the container."""
    write(hdfs.work, {"code/a": "a"})
    (hdfs.work / "code" / "a").chmod(0o600)
    hdfs.run("-mkdir", "-p", "/x/y")
    hdfs.run("-put", "code", "/x")
    hdfs.run("-touchz", "/x/empty")
    hdfs.run("-get", "/x/empty", ".")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in hdfs.mount.rglob("*")}
    assert modes == {"x": 0o777, "y": 0o777, "code": 0o777, "a": 0o666, "empty": 0o666}
    assert stat.S_IMODE((hdfs.work / "empty").stat().st_mode) == 0o644


@pytest.mark.parametrize(("program", "words", "says"), CASES["unsupported"])
def test_what_is_not_supported_is_said(hdfs, program, words, says):
    """With exit code 255, as Hadoop does, and what there is."""
    hdfs.run(*words.split(), program=program, code=255, says=says)
