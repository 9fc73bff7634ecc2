"""The hdfs command that jobs on a storage get: run by each shell that images have."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from importlib import resources
from types import SimpleNamespace

import pytest
from waiting import wait_until

SHIM = resources.files("luigi_pai") / "jobspec" / "storage" / "hdfs_shim.sh"
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


# ---------------------------------------------------------------- paths


def test_every_form_of_a_path(hdfs):
    """Below the mount, on HDFS, below the home folder there, and on this machine."""
    write(hdfs.mount, {"a b": "1", "user/me/x": "2"})
    write(hdfs.work, {"here": "3"})
    assert hdfs.run("-cat", f"{hdfs.mount}/a b") == "1"
    assert hdfs.run("-cat", "/a b", "x", f"file://{hdfs.work}/here") == "123"
    assert hdfs.run("-cat", "/user//me/x/") == "2"
    hdfs.run("-cat", "hdfs://nn/x", code=1, says="cat: `hdfs://nn/x': is not on the storage at")


def test_a_mount_that_a_local_server_cannot_make(tmp_path, hdfs):
    """There, the path in containers is below the working folder of the task."""
    (hdfs.mount / "x").write_text("1")
    mounts = {"LUIGI_PAI_MOUNTS": str(tmp_path)}
    assert hdfs.run("-cat", "/mnt/nfs1/x", "/x", f"{hdfs.mount}/x", **mounts) == "111"
    assert hdfs.run("-ls", "-C", "/mnt/nfs1", **mounts) == "/mnt/nfs1/x\n"


def test_patterns(hdfs):
    """A pattern is expanded on the storage, also if the shell of the job has left it."""
    write(hdfs.mount, {name: f"{name} " for name in ("a1", "a2", "b1")})
    assert hdfs.run("-cat", "/a*") == "a1 a2 "
    assert hdfs.run("-ls", "-C", "/[ab]1") == "/a1\n/b1\n"
    hdfs.run("-get", "/a*", ".")
    assert content(hdfs.work) == {"a1": "a1 ", "a2": "a2 "}
    hdfs.run("-rm", "/a*")
    assert content(hdfs.mount) == {"b1": "b1 "}
    hdfs.run("-cat", "/z*", code=1, says="cat: `/z*': No such file or directory\n")


@pytest.mark.parametrize("uri", ["", "/none/here", "hdfs://nn"])
def test_without_a_storage(hdfs, uri):
    """Nothing is read or written where the storage is not."""
    says = f"ls: the storage is not mounted here: PAI_DEFAULT_FS_URI is '{uri}', which is no folder\n"
    hdfs.run("-ls", "/", PAI_DEFAULT_FS_URI=uri, code=1, says=says)


# ---------------------------------------------------------------- copies


def test_put(hdfs):
    """Into a folder, to a new name, from the standard input; an existing file is replaced with -f only."""
    write(hdfs.work, {"model": "one"})
    write(hdfs.mount, {"out/": ""})
    hdfs.run("-put", "model", "/out")
    hdfs.run("-put", "model", f"{hdfs.mount}/out/new")
    hdfs.run("-put", "-", "/out/typed", stdin=b"typed")
    assert content(hdfs.mount) == {"out/model": "one", "out/new": "one", "out/typed": "typed"}
    (hdfs.work / "model").write_text("two")
    for goal in ("/out", "/out/model"):
        hdfs.run("-put", "model", goal, code=1, says="put: `/out/model': File exists\n")
    hdfs.run("-copyFromLocal", "-f", "model", "/out", program="fs")
    assert content(hdfs.mount)["out/model"] == "two"
    hdfs.run("-put", "model", "/none/x", code=1, says="put: `/none/x': No such file or directory\n")
    hdfs.run("-put", "model", "/none/", code=1, says="put: `/none/': No such file or directory\n")
    hdfs.run("-put", "model", "model", "/none", code=1, says="put: `/none': No such file or directory\n")
    hdfs.run("-put", "model", "model", "/out/new", code=1, says="put: `/out/new': Is not a directory\n")
    hdfs.run("-put", "none", "/out", code=1, says="/none': No such file or directory\n")
    hdfs.run("-put", "model", code=1, says="put: `.': No such file or directory\n")  # no home folder
    hdfs.run("-mkdir", "-p", ".")
    hdfs.run("-put", "model")
    assert content(hdfs.mount / "user") == {"me/model": "two"}


def test_folders_are_merged(hdfs):
    """As by FsShell: what is there stays, what is new comes, and the rest of the files is still copied."""
    write(hdfs.work / "code", dict.fromkeys(("a", "b", ".hidden", "sub dir/c"), "new"))
    hdfs.run("-put", "code", "/code")
    assert content(hdfs.mount / "code") == dict.fromkeys((".hidden", "a", "b", "sub dir/c"), "new")
    (hdfs.mount / "code" / "b").unlink()
    (hdfs.mount / "code" / "a").write_text("old")
    hdfs.run("-put", "code", "/", code=1, says="put: `/code/a': File exists\n")
    assert content(hdfs.mount / "code")["a"] == "old"
    assert content(hdfs.mount / "code")["b"] == "new"
    hdfs.run("-get", "/code", "copy")
    assert content(hdfs.work / "copy") == content(hdfs.mount / "code")
    hdfs.run("-cp", "/code", "/code/in", code=1, says="cp: `/code/in': is a subdirectory of itself\n")


def test_several_sources(hdfs):
    """A missing one does not keep the others from being copied."""
    write(hdfs.work, {"a": "a", "b": "b"})
    hdfs.run("-put", "a", "none", "b", "/", code=1, says="No such file or directory")
    assert content(hdfs.mount) == {"a": "a", "b": "b"}


def test_move_from_local(hdfs):
    (hdfs.work / "a").write_text("a")
    hdfs.run("-moveFromLocal", "a", "/b")
    assert (content(hdfs.mount), content(hdfs.work)) == ({"b": "a"}, {})


def test_get(hdfs):
    """What is on this machine is not replaced."""
    (hdfs.mount / "a").write_text("new")
    hdfs.run("-get", "/a")
    hdfs.run("-copyToLocal", "/a", "b")
    assert content(hdfs.work) == {"a": "new", "b": "new"}
    (hdfs.work / "a").write_text("old")
    hdfs.run("-get", "/a", ".", code=1, says="File exists\n")
    assert content(hdfs.work)["a"] == "old"
    hdfs.run("-get", "-f", "/a", ".")
    assert content(hdfs.work)["a"] == "new"
    hdfs.run("-get", "/none", ".", code=1, says="none': No such file or directory\n")


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


def test_cp_and_mv(hdfs):
    write(hdfs.mount, {"a": "a", "folder/": ""})
    hdfs.run("-cp", "/a", "/b")
    hdfs.run("-mv", "/a", "/folder")
    hdfs.run("-mv", "/b", "/c")
    assert content(hdfs.mount) == {"c": "a", "folder/a": "a"}
    hdfs.run("-mv", "/c", "/folder/a", code=1, says="mv: `/folder/a': File exists\n")
    hdfs.run("-mv", "/none", "/x", code=1, says="No such file or directory\n")


def test_append_to_file(hdfs):
    (hdfs.work / "a").write_text("1")
    hdfs.run("-appendToFile", "a", "/log")
    hdfs.run("-appendToFile", "-", "a", "/log", stdin=b"2")
    hdfs.run("-appendToFile", "none", "/new", code=1, says="none': No such file or directory\n")
    assert content(hdfs.mount) == {"log": "121"}


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


# ---------------------------------------------------------------- other commands


def test_ls(hdfs):
    """Lines as Hadoop writes them; -C has the paths alone, and they can be used again."""
    write(hdfs.mount, {"out/model one": "12345", "out/sub/x": ""})
    first, file, folder = hdfs.run("-ls", "/out").splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert first == "Found 2 items"
    assert re.fullmatch(rf"-[rwx-]{{9}}   1 \S+ +\S+ +5 {when} /out/model one", file)
    assert re.fullmatch(rf"d[rwx-]{{9}}   - \S+ +\S+ +0 {when} /out/sub", folder)
    assert hdfs.run("-ls", "-C", hdfs.mount) == f"{hdfs.mount}/out\n"
    assert hdfs.run("-ls", "-R", "-C", "/") == "/out\n/out/model one\n/out/sub\n/out/sub/x\n"
    assert hdfs.run("-ls", "-d", "-C", "/out", "/out/sub/x") == "/out\n/out/sub/x\n"
    hdfs.run("-ls", "/none", code=1, says="ls: `/none': No such file or directory\n")


def test_mkdir(hdfs):
    hdfs.run("-mkdir", "/a", "/b")
    hdfs.run("-mkdir", "/a", code=1, says="mkdir: `/a': File exists\n")
    hdfs.run("-mkdir", "/c/d", code=1, says="mkdir: `/c/d': No such file or directory\n")
    hdfs.run("-mkdir", "-p", "/a", "/c/d")
    assert sorted(path.name for path in hdfs.mount.rglob("*")) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("path", "true"), [("/folder", "ed"), ("/full", "efs"), ("/empty", "efz"), ("/none", ""), ("/fu*", "efs")]
)
def test_test(hdfs, path, true):
    write(hdfs.mount, {"folder/": "", "full": "1", "empty": ""})
    for option in "edfsz":
        hdfs.run("-test", f"-{option}", path, code=0 if option in true else 1)


def test_rm(hdfs):
    write(hdfs.mount, {"folder/file": ""})
    hdfs.run("-rm", "/folder", code=1, says="rm: `/folder': Is a directory\n")
    hdfs.run("-rm", "/none", code=1, says="rm: `/none': No such file or directory\n")
    hdfs.run("-rm", "-f", "/none")
    assert hdfs.run("-rm", "-r", "-skipTrash", "/folder") == "Deleted /folder\n"
    for root in ("/", hdfs.mount, "/."):  # as $NOTHING/ in a command may be
        hdfs.run("-rm", "-r", "-f", root, code=1, says="is the whole storage\n")
    assert hdfs.mount.is_dir()


def test_touchz(hdfs):
    hdfs.run("-touchz", "/_SUCCESS")
    assert content(hdfs.mount) == {"_SUCCESS": ""}
    (hdfs.mount / "full").write_text("1")
    hdfs.run("-touchz", "/full", code=1, says="touchz: `/full': Not a zero-length file\n")


def test_cat_of_a_folder(hdfs):
    hdfs.run("-cat", "/", code=1, says="Is a directory\n")


# ---------------------------------------------------------------- wrong usage


def test_what_is_not_supported_is_said(hdfs):
    """With exit code 255, as Hadoop does, and what there is."""
    hdfs.run(
        "-setfacl", "/", code=255, says="-setfacl: Unknown command\nluigi_pai: hdfs_shim.sh works on the"
    )
    hdfs.run("-put", "-t", "4", code=255, says="it supports these options of -put: f p l\n")
    hdfs.run("-mv", "/a", code=255, says="-mv: Not enough arguments\n")
    hdfs.run("-test", "-e", "-d", "/", code=255, says="-test: Give one test\n")
    hdfs.run("-report", program="dfsadmin", code=255, says="hdfs_shim.sh dfsadmin: Unknown command\n")


def test_options_of_hadoop_itself_are_passed_over(hdfs):
    (hdfs.mount / "a").write_text("a")
    assert hdfs.run("-Ddfs.replication=1", "-D", "x=y", "-cat", "/a") == "a"
