"""A storage: where it is, its paths, links, modes and views, processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
import responses
from file_cases import Player, calls, steps, table
from hdfs_backend import content, names, written

from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, HdfsTarget, Storage, WebHdfs, download, upload
from luigi_pai.files.small_files import create_once, read_small
from luigi_pai.files.storage import storage as storage_module
from luigi_pai.files.storage.mounts import find_mounted

PAI = "http://pai.example"


@pytest.fixture
def says(settings):
    """Let the cluster say something of its storage ``nfs1``."""
    settings(pai_url=PAI, username="anna", token="t", storage="nfs1")
    with responses.RequestsMock() as rest:

        def say(**detail):
            rest.get(f"{PAI}/api/v2/storages/nfs1", json={"name": "nfs1", **detail})

        yield say


def mounted(monkeypatch, *rows):
    """Let the mounts of this machine be these lines of ``/proc/self/mounts``."""
    from luigi_pai.files.storage.mounts import Mount  # noqa: PLC0415

    known = [Mount(*row.split()[:3], ()) for row in rows]
    monkeypatch.setattr(storage_module, "find_mounted", lambda source: find_mounted(source, known))


# where it is


def test_what_the_cluster_says_is_searched_in_the_mounts(says, root, monkeypatch):
    says(type="nfs", share=True, data={"server": "nas", "path": f"/export{root}"})
    mounted(monkeypatch, f"nas:/export{root} {root} nfs4")
    fs = Storage.from_config()
    written(fs, "/d/f")
    assert (root / "d" / "f").read_text() == "text"
    assert fs.local_path("/mnt/nfs1/d/f") == f"{root}/d/f"


def test_a_folder_of_the_user(says, root, monkeypatch):
    """With ``share: false`` containers see it as the whole storage; it is made if it is missing."""
    says(type="nfs", share=False, data={"server": "nas", "path": f"/own{root}"})
    mounted(monkeypatch, f"nas:/own{root} {root} nfs4")
    fs = Storage.from_config()
    assert not fs.exists("/f")
    written(fs, "/f")
    assert names(Storage("x", str(root)), "/") == ["anna", "anna/f"]
    assert fs.exists(f"{root}/anna/f")


@table("storages that are not mounted", "detail message")
def test_it_is_not_mounted(detail, message, says, monkeypatch):
    """The error has the command that mounts it; the latest response of the cluster counts."""
    says(**detail)
    mounted(monkeypatch, "other:/x /mnt/x nfs4")
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            Storage.from_config().exists("/f")
        assert message in str(caught.value)
        assert str(caught.value).startswith("storage = nfs1 in [OpenPai] (")
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_storage_path_that_is_no_folder(kind, tmp_path, monkeypatch):
    """It is an error that names the key; once it is there, it is used."""
    if kind == "file":
        (tmp_path / "x").write_text("")
    monkeypatch.setenv("WHERE", str(tmp_path))
    fs = Storage("nfs1", "$WHERE/x")
    with pytest.raises(
        ConfigError, match=r"^storage_path = \$WHERE/x in \[OpenPai\] is not a folder here; mount nfs1 there$"
    ):
        fs.exists("/f")
    if kind == "missing":
        (tmp_path / "x").mkdir()
        assert not fs.exists("/f")


def test_a_folder_that_has_gone_is_not_an_empty_one(storage, root):
    """Else all its files would be missing, and their work be done again."""
    written(storage, "/f")
    root.rename(f"{root}2")
    for _ in range(2):
        with pytest.raises(HdfsError, match="there is no folder") as caught:
            storage.exists("/f")
        assert caught.value.transient
        assert caught.value.exception is None
    root.with_name("root2").rename(root)
    assert storage.exists("/f")


# paths


@table("forms of a path", "form")
def test_forms_of_a_path(form, storage, root):
    """They are one file."""
    written(storage, form.replace("{root}", str(root)))
    assert content(storage, "/d/f") == "text"
    assert (root / "d" / "f").exists()
    if "{root}" not in form:  # which a machine without the storage does not know
        assert storage.is_same(form, "/mnt/nfs1/d/f")


@table("paths that are not on a storage", "path why")
def test_what_is_no_path_on_it(path, why, storage):
    """The error has a valid form, and comes before the storage is searched for."""
    for work in (storage.exists, Storage("nfs1", "/nowhere").check_path):
        with pytest.raises(HdfsError) as caught:
            work(path)
        assert str(caught.value).startswith(f"{path!r} is not a path on this storage: {why}")
    assert not storage.is_same(path, "/f")


def test_the_local_path_of_a_target(storage, root):
    """For programs that read files themselves; on HDFS, it is an error with the next step."""
    target = HdfsTarget("/mnt/nfs1/d/f", fs=storage)
    assert target.local_path == f"{root}/d/f"
    with target.temporary_path() as path, open(storage.local_path(path), "w") as file:  # noqa: PTH123
        file.write("pandas")
    with open(target.local_path) as file:  # noqa: PTH123
        assert file.read() == "pandas"
    with pytest.raises(
        HdfsError, match=r'has no path on this machine; open it, or copy it .* "luigi-pai get"'
    ):
        _ = HdfsTarget("/d/f", fs=WebHdfs("http://127.0.0.1:9", "anna")).local_path


# links


@pytest.fixture
def outside(tmp_path):
    """A folder with a file, to which a link in the storage leads."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    (tmp_path / "root" / "out").symlink_to(folder)
    (tmp_path / "root" / "file").symlink_to(folder / "secret")
    return folder


LED_OUT = calls("leads out")


@pytest.mark.parametrize("work", LED_OUT)
def test_a_link_that_leads_out(work, storage, outside, tmp_path):
    """A container may have made it, which says nothing about this machine: it is followed by nothing."""
    player = Player(storage, tmp_path / "local")
    player.local("a")
    player.write("/f")
    with pytest.raises(HdfsError, match="a link leads out of the storage; use a path") as caught:
        player.call(LED_OUT[work])
    assert caught.value.exception == "AccessControlException"
    assert not caught.value.transient
    assert [place.name for place in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert stat.S_IMODE((outside / "secret").stat().st_mode) != 0o777


@steps("storage")
def test_paths_and_links(storage, outside, root, steps):
    """Each case of the section ``storage`` of tests/data/files/steps.yaml."""
    Player(storage, root).play(steps)
    assert (outside / "secret").read_text() == "secret"


def test_links_that_cannot_be_followed(storage, outside, root, tmp_path, caplog):
    """In a circle, to nowhere, out: they are listed, downloads say that they are left out, and all end."""
    written(storage, "/a/f")
    (root / "a" / "x").symlink_to("../b")
    (root / "b").mkdir()
    (root / "b" / "y").symlink_to(root / "a")
    (root / "a" / "self").symlink_to(root)
    (root / "a" / "none").symlink_to("/mnt/nfs1/a/f")
    kinds = {status["pathSuffix"]: status["type"] for status in storage.at("/")[0].list_status("/a")}
    assert kinds == {"f": "FILE", "none": "SYMLINK", "self": "SYMLINK", "x": "DIRECTORY"}
    assert names(storage, "/a") == ["f", "none", "self", "x", "x/y"]
    assert storage.count("/a")["dir_count"] == 2
    done = download(storage, "/a", tmp_path / "here")
    assert done.files == 1
    left_out = [
        line.partition(" is left out: it is a link")[0] for line in caplog.messages if "left out" in line
    ]
    assert sorted(left_out) == ["/a/none", "/a/self", "/a/x/y"]
    (root / "loop").symlink_to("loop")
    with pytest.raises(HdfsError, match="symbolic links") as caught:
        content(storage, "/loop")
    assert not caught.value.transient
    assert outside.exists()


def test_a_root_that_is_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    fs = Storage("nfs1", f"{tmp_path}/link/")
    written(fs, "/d/f")
    assert names(fs, "/") == ["d", "d/f"]
    assert fs.local_path("/d") == f"{tmp_path}/link/d"


# renames to the same file


@pytest.mark.parametrize("rename", ["move", "rename_dont_move", "replace"])
@pytest.mark.parametrize("goal", ["/d/f", "/link/f", "/d/hard"])
def test_a_file_that_is_renamed_to_itself_stays(rename, goal, storage, root):
    """Also by another path, and where both are names of one file."""
    written(storage, "/d/f")
    (root / "link").symlink_to("d")
    os.link(root / "d" / "f", root / "d" / "hard")
    try:
        getattr(storage, rename)("/d/f", goal)
    except HdfsError as error:
        assert rename != "replace"
        assert "exists" in str(error)  # noqa: PT017
    assert content(storage, goal) == "text"
    assert content(storage, "/d/hard") == "text"


# modes


@pytest.fixture
def umask():
    """Only this user has access to new files."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_others_may_read(storage, root, tmp_path):
    """Containers, which run as other users."""
    written(storage, "/a/b/f")
    create_once(storage, "/a/claim", b"x")
    storage.mkdir("/a/c/d")
    storage.touchz("/a/e/f")
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "g").write_text("g")
    (tmp_path / "up" / "big").write_bytes(bytes(3_000_000))
    upload(storage, tmp_path / "up", "/code")
    modes = {(place.is_dir(), stat.S_IMODE(place.stat().st_mode)) for place in root.rglob("*")}
    assert modes == {(True, 0o755), (False, 0o644)}


@pytest.mark.parametrize("is_new", [True, False])
def test_uploads_keep_executables(storage, root, tmp_path, *, is_new):
    source = tmp_path / "source"
    source.mkdir()
    for name, mode in (("run.sh", 0o700), ("data", 0o600)):
        (source / name).write_text(name)
        (source / name).chmod(mode)
    if not is_new:
        storage.mkdir("/code")
    upload(storage, source, "/code")
    modes = [stat.S_IMODE((root / "code" / name).stat().st_mode) for name in ("run.sh", "data")]
    assert modes == [0o755, 0o644]
    storage.copy("/code/run.sh", "/copy.sh")
    assert stat.S_IMODE((root / "copy.sh").stat().st_mode) == 0o644
    assert upload(storage, source, "/code").moved == 0


@pytest.mark.usefixtures("umask")
def test_a_shared_folder(volume, root):
    """All users may create files in it; the bit that hands its group on stays, here and below."""
    (root / "a").mkdir()
    (root / "a").chmod(0o2750)
    volume.share_folder("/a")
    volume.share_folder("/a")
    volume.share_folder("/a/b")
    volume.make_folders("/a/c")
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b", "a/c")]
    assert modes == [0o3777, 0o3777, 0o2755]


def test_a_folder_whose_modes_are_anothers(volume, root, monkeypatch):
    """They stay: a mount of SMB has one mode for all, and an owner of a folder has decided about it."""

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    (root / "a").mkdir(0o700)
    monkeypatch.setattr(os, "chmod", refused)
    volume.share_folder("/a")
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700
    before = os.umask(0o077)
    try:
        volume.create_file("/b/f", b"x")
    finally:
        os.umask(before)
    assert (root / "b" / "f").read_text() == "x"


# views


def test_a_stale_view(storage, root, monkeypatch):
    """A file that this machine remembers as missing is looked up again once its folder is opened."""
    written(storage, "/d/e/f")
    real_stat, real_open = os.stat, os.open
    unseen = set()
    looked = []

    def see(path):
        if str(path) in unseen:
            raise FileNotFoundError(2, "No such file or directory")

    def seen(path, *more, **about):
        see(path)
        return real_stat(path, *more, **about)

    def opened(path, flags, *more, **about):
        see(path)
        if flags & os.O_DIRECTORY:
            looked.append(str(path))
            unseen.difference_update({each for each in unseen if os.path.dirname(each) == str(path)})  # noqa: PTH120
        return real_open(path, flags, *more, **about)

    monkeypatch.setattr(os, "stat", seen)
    monkeypatch.setattr(os, "open", opened)
    work = {
        "stat": lambda: storage.exists("/d/e/f"),
        "open": lambda: content(storage, "/d/e/f") == "text",
        "read": lambda: read_small(storage, "/d/e/f", 9) == b"text",
    }
    for look in work.values():
        for missing in ([root / "d/e/f"], [root / "d/e", root / "d/e/f"]):
            unseen.update(map(str, missing))
            assert look()
            assert unseen == set()
    looked.clear()
    assert not storage.exists("/d/g")
    assert looked == [f"{root}/d"]
    assert not storage.exists("/x/y/z")


# processes and threads


def in_fork(storage, number):
    for _ in range(20):
        assert content(storage, "/f") == "text"
    written(storage, f"/{number}")


def test_forks(storage):
    """A fork works on while its parent does, also if a call of the parent was on its way."""
    written(storage, "/f")
    forks = [
        multiprocessing.get_context("fork").Process(target=in_fork, args=(storage, number))
        for number in range(3)
    ]
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(content, storage, "/f") for _ in range(40)]
        for fork in forks:
            fork.start()
        assert {read.result() for read in reads} == {"text"}
    for fork in forks:
        fork.join(60)
        assert fork.exitcode == 0
    assert names(storage, "/") == ["0", "1", "2", "f"]


def test_a_folder_that_another_has_made_and_removed_meanwhile(storage, monkeypatch):
    """As happens to the hidden folder of temporary files, which is removed when it is empty."""
    make, raced = os.mkdir, []

    def mkdir(path, *rest):
        if path.endswith("/a") and not raced:
            raced.append(path)
            raise FileExistsError(17, "File exists", path)
        make(path, *rest)

    monkeypatch.setattr("os.mkdir", mkdir)
    storage.mkdir("/a/b")
    assert storage.isdir("/a/b")
    assert raced


def test_nothing_stays_open(storage, tmp_path):
    """Neither descriptors nor threads."""
    import threading  # noqa: PLC0415

    def work():
        written(storage, "/d/f", "x" * 2_000_000)
        create_once(storage, "/d/c", b"x")
        with pytest.raises(HdfsError):
            content(storage, "/d")
        with pytest.raises(HdfsError):
            storage.touchz("/d/f")
        download(storage, "/d", tmp_path / "here")
        HdfsTarget("/d/f", fs=storage).open().read(3)
        storage.remove("/d")

    work()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208
    for _ in range(5):
        work()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before  # noqa: PTH208


def test_an_open_file_is_a_stream(storage):
    """It can be read in any parts and order, and does not change when the file is replaced."""
    data = os.urandom(3_000_000)
    with storage.open_writer("/f") as file:
        file.write(data)
    with storage.open_reader("/f") as file:
        written(storage, "/f", "new")
        assert file.read(10) == data[:10]
        assert file.seek(-10, os.SEEK_END) == len(data) - 10
        assert file.read() == data[-10:]
        assert file.read() == b""
        file.seek(5)
        assert file.tell() == 5
        assert file.read() == data[5:]
