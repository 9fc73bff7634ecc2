"""A storage in the place of HDFS: what mounts it, and jobs of 0.7 that run on it unchanged."""

from __future__ import annotations

import shutil
import sys
from types import SimpleNamespace

import pytest
from job_cases import AS_ON_V2, bash, cases

from luigi_pai.jobspec.comparison import differing_fields
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import convert
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol, RuntimePlugin, Storage
from luigi_pai.jobspec.storage.mount import StorageMount, container_path, with_storage
from luigi_pai.jobspec.submission import filled_commands, submission_text
from luigi_pai.jobspec.validate_protocol import check_protocol, validate_protocol

NFS = StorageMount("nfs1")
MOUNTS = {"new": NFS, "old": StorageMount("nfs1", "/data", by_plugin=True)}
CASES = cases("storage_mount")
FOLDERS = {
    "dataDir": "$PAI_DEFAULT_FS_URI/data",
    "codeDir": "$PAI_DEFAULT_FS_URI/train/code",
    "outputDir": "/train/output",
}


def job(command="true", **fields):
    return PaiJob("train", "python", [TaskRole("main", command, shmMB=64)], **fields)


def protocol(**extras):
    made = convert(job()).protocol.to_dict()
    return JobProtocol.from_dict({**made, "extras": extras} if extras else made)


# ---------------------------------------------------------------- mounts


@pytest.mark.parametrize(("mount", "extras", "wanted"), CASES["added"])
def test_a_storage_is_added_to_what_is_mounted(mount, extras, wanted):
    before = protocol(**extras)
    document = before.to_dict()
    made = with_storage(before, MOUNTS[mount])
    assert made.to_dict()["extras"] == wanted
    check_protocol(made)
    assert before.to_dict() == document


@pytest.mark.parametrize(("mount", "extras"), CASES["kept"])
def test_a_job_that_mounts_it_or_the_default_storages_stays(mount, extras):
    before = protocol(**extras)
    assert with_storage(before, MOUNTS[mount]) is before


def test_a_protocol_made_in_python():
    """Its extras may have been set as attributes; the path of a storage has no slash at its end."""
    assert (NFS.path, StorageMount("nfs1", "/data/").path) == ("/mnt/nfs1", "/data")
    made = protocol()
    made.extras.storages = [Storage("a", mountPath="/a")]
    made.extras.runtimePlugins = [RuntimePlugin.ssh()]
    assert [each.name for each in with_storage(made, NFS).extras.storages] == ["a", "nfs1"]


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize(("path", "wanted"), [*CASES["paths"], *((path, path) for path in CASES["stay"])])
def test_paths_in_containers(path, wanted):
    assert container_path(path, NFS) == wanted


# ---------------------------------------------------------------- converted jobs


def test_a_converted_job_is_valid_and_loses_nothing():
    """The server gets the folders on the storage, and no command is rendered into something else."""
    made = convert(job(**FOLDERS), storage=NFS)
    assert made.losses == ()
    document = made.protocol.to_dict()
    assert document["extras"] == {"storages": [{"name": "nfs1", "mountPath": "/mnt/nfs1"}]}
    assert [each["uri"] for each in document["prerequisites"][1:]] == [
        ["/mnt/nfs1/data"],
        "/mnt/nfs1/train/output",
        "/mnt/nfs1/train/code",
    ]
    text = submission_text(made.protocol)
    assert check_protocol(made.protocol) == []
    assert validate_protocol(read_yaml(text).value, text=text) == []
    assert filled_commands(made.protocol)["main"] == "\n".join(document["taskRoles"]["main"]["commands"])
    assert "<%" not in text
    assert len(text) < 10_000


def test_without_a_storage_nothing_changes():
    commands = convert(job(**FOLDERS)).protocol.taskRoles["main"].commands
    assert "PAI_DEFAULT_FS_URI=" not in commands[1]
    assert commands[3:] == [
        'if command -v hdfs > /dev/null; then hdfs dfs -get "$PAI_CODE_DIR" .; fi',
        "true",
    ]


@pytest.mark.parametrize("folder", ["code", "hdfs://nn/code", "s3://b/code"])
def test_code_that_is_not_on_the_storage(folder):
    """It is copied only by the image's own hdfs command, and this is said, as without a storage."""
    made = convert(job(codeDir=folder), storage=NFS)
    assert [loss.path for loss in made.losses] == ["codeDir"]
    assert any("hdfs dfs -get" in each for each in made.protocol.taskRoles["main"].commands)


def test_it_compares_equal_to_itself_as_it_is_stored():
    """Servers store the name and the mount path of a storage, and not what they ignore."""
    mine = convert(job(**FOLDERS), storage=NFS).protocol.to_dict()
    assert differing_fields(mine, read_yaml(submission_text(JobProtocol.from_dict(mine))).value) == []
    full = protocol(storages=[{"name": "a", "mountPath": "/a", "share": False, "readOnly": True}]).to_dict()
    stored = {**full, "extras": {"storages": [{"name": "a", "mountPath": "/a"}]}}
    assert differing_fields(full, stored) == []
    stored["extras"]["storages"][0]["mountPath"] = "/b"
    assert differing_fields(full, stored) == ["extras.storages[0].mountPath"]
    assert differing_fields(mine, convert(job(**FOLDERS)).protocol.to_dict()) != []


# ---------------------------------------------------------------- in containers


@pytest.fixture
def container(tmp_path):
    """Run a job's commands as OpenPAI does, below a folder that stands for the root folder."""
    storage, work, tools = tmp_path / "mnt" / "nfs1", tmp_path / "work", tmp_path / "tools"
    temporary = tmp_path / "tmp"
    for folder in (storage, work, tools, temporary):
        folder.mkdir(parents=True)
    names = "bash sh cat mv rm mkdir stat touch base64 gzip mktemp chmod ln cp env"
    for name in names.split():  # without the hdfs command that this machine may have
        (tools / name).symlink_to(shutil.which(name))
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python3").chmod(0o755)

    def run(made, code=0):
        about = {"LUIGI_PAI_MOUNTS": str(tmp_path), "PAI_JOB_NAME": "me~train", "PAI_USER_NAME": "me"}
        about["TMPDIR"] = str(temporary)
        environment = {"PATH": str(tools), **about}
        done = bash(filled_commands(made)["main"], *AS_ON_V2, cwd=work, env=environment)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return SimpleNamespace(run=run, storage=storage, work=work, tools=tools, temporary=temporary)


TRAIN = """\
import os, subprocess
open("model", "w").write(open(os.environ["PAI_DATA_DIR"] + "/rows").read().upper())
subprocess.run(["hdfs", "dfs", "-put", "-f", "model", os.environ["PAI_OUTPUT_DIR"]], check=True)
"""


def test_a_job_of_0_7_runs_unchanged(container):
    """Code, data and results: also in Python, and again when the task is tried again."""
    output = container.storage / "train" / "output"
    for folder in (container.storage / "data", container.storage / "train" / "code", output):
        folder.mkdir(parents=True)
    (container.storage / "data" / "rows").write_text("rows")
    (container.storage / "train" / "code" / "train.py").write_text(TRAIN)
    command = (
        "python3 code/train.py && hdfs dfs -test -e $PAI_OUTPUT_DIR/model && "
        "hadoop fs -test -e /train/output/model && hdfs dfs -cat $PAI_DEFAULT_FS_URI/train/output/model && "
        "hdfs dfs -touchz /mnt/nfs1/train/output/_SUCCESS"
    )
    made = convert(job(command, **FOLDERS), storage=NFS).protocol
    for _ in range(2):
        assert container.run(made) == "ROWS"
    assert {path.name for path in (container.work / ".luigi_pai").iterdir()} == {"hadoop", "hdfs"}
    assert list(container.temporary.iterdir()) == []
    assert sorted(path.name for path in output.iterdir()) == ["_SUCCESS", "model"]
    assert (output / "model").stat().st_mode & 0o777 == 0o666


def test_the_variables_of_a_job_without_folders(container):
    """Its output folder is the one that 0.7 chooses, and is made; variables that 0.7 leaves empty are."""
    command = (
        'echo "$PAI_DEFAULT_FS_URI $PAI_OUTPUT_DIR <$PAI_DATA_DIR> <$PAI_CODE_DIR>"; touch $PAI_OUTPUT_DIR/x'
    )
    said = container.run(convert(job(command), storage=NFS).protocol)
    root = container.storage
    assert said == f"{root} {root}/Output/me/train <> <>\n"
    assert (root / "Output" / "me" / "train" / "x").exists()
    assert (root / "Output").stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize(("folder", "wanted"), CASES["folders"])
def test_folders_arrive_unharmed(container, folder, wanted):
    """Several data folders, variables, characters of the shell, and other file systems."""
    made = convert(job('printf %s "$PAI_DATA_DIR"', dataDir=folder), storage=NFS)
    assert container.run(made.protocol) == wanted.format(container.storage.parents[1])


@pytest.mark.parametrize("case", CASES["runs"].values(), ids=CASES["runs"])
def test_what_a_job_finds(container, case):
    """Code that is missing or linked, the image's own hdfs command, or one that cannot be written."""
    for name, content in case.get("storage", {}).items():
        path = container.storage / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(content["link"]) if isinstance(content, dict) else path.write_text(content)
    if own := case.get("hdfs"):
        (container.tools / "hdfs").write_text(own)
        (container.tools / "hdfs").chmod(0o755)
    for tool in case.get("without", []):
        (container.tools / tool).unlink()
    made = convert(job(case["command"], **case.get("fields", {})), storage=NFS)
    places = {"storage": container.storage, "work": container.work}
    out = container.run(made.protocol, case.get("code", 0))
    start, end = (text.format(**places) for text in case["prints"])
    assert out.startswith(start)
    assert out.endswith(end)
    assert ("runs" in out) is start.startswith("runs")
    assert made.losses == ()
    assert not (container.work / "code").is_symlink()


def test_an_hdfs_command_if_the_working_folder_cannot_be_written(container):
    """It is in a temporary folder, which is on the PATH by its absolute path."""
    (container.work / ".luigi_pai").write_text("")
    command = "cd / && hdfs dfs -touchz /flag && hadoop fs -ls /flag"
    assert container.run(convert(job(command), storage=NFS).protocol).endswith(" /flag\n")
    (folder,) = container.temporary.iterdir()
    assert {path.name for path in folder.iterdir()} == {"hadoop", "hdfs"}


@pytest.mark.parametrize("convert_first", [True, False])
def test_checkpoints_are_on_the_storage(container, convert_first):
    """LUIGI_PAI_CHECKPOINT_DIR is set after PAI_OUTPUT_DIR, in whichever order a job is prepared."""
    made = job("echo $LUIGI_PAI_ATTEMPT $LUIGI_PAI_CHECKPOINT_DIR", outputDir="/out")
    if convert_first:
        made = for_containers(convert(made, storage=NFS).protocol, "train__attempt2", with_runtime=False)
    else:
        made = convert(for_containers(made, "train__attempt2", with_runtime=False), storage=NFS).protocol
    assert container.run(made) == f"2 {container.storage}/out/_checkpoint\n"


@pytest.mark.parametrize("commands", CASES["users_commands"])
def test_commands_of_a_users_protocol_come_after_ours(commands):
    """A command that may need pai_runtime.py finds it."""
    made = protocol()
    made.taskRoles["main"].commands = commands
    prepared = for_containers(made, "train", with_runtime=True).taskRoles["main"].commands
    assert prepared[0].startswith("export LUIGI_PAI_ATTEMPT=1")
    assert prepared[2:] == commands
