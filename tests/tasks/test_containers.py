"""What a task's containers get of this package: the number of the submission, checkpoints, pai_runtime.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import luigi
import pytest
import yaml
from local_client import LocalClient, unique
from protocol_client import ProtocolClient
from protocols import protocol
from train_task import Command

from luigi_pai import PaiJobFailed, PaiProtocolTask, SpecError
from luigi_pai.jobspec.containers import RUNTIME_FILE

TELL = 'python -c \'import sys; sys.path.insert(0, "code"); import pai_runtime as r; t = r.current(); '
TELL += "print(t.name, t.attempt, t.checkpoint_dir)'"
EXPORT = (
    'export LUIGI_PAI_ATTEMPT=1 LUIGI_PAI_CHECKPOINT_DIR="${PAI_OUTPUT_DIR:+$PAI_OUTPUT_DIR/_checkpoint}"; '
)


class WithRuntime(Command):
    runtime = True
    code_dir = "$PAI_DEFAULT_FS_URI/with-runtime/code"


class Protocol(PaiProtocolTask):
    command = luigi.Parameter(significant=False)
    name = luigi.Parameter()
    runtime = True

    @property
    def protocol(self):
        return protocol(f"mkdir -p deep && cd deep\n{self.command}")


def sent(task):
    return json.loads(task.render())["taskRoles"][0]["command"]


@pytest.mark.parametrize(
    ("variable", "before"),
    [("PAI_OUTPUT_DIR", ""), ("LUIGI_PAI_ATTEMPT", EXPORT), ("LUIGI_PAI_CHECKPOINT_DIR", EXPORT)],
)
def test_a_command_that_names_a_variable_of_ours_begins_with_their_export(variable, before):
    """Any other is sent as it is."""
    task = Command(name="a", command=f"echo ${variable}")
    assert sent(task) == f"{before}echo ${variable}"
    assert task.job().taskRoles[0].command == f"echo ${variable}"


@pytest.mark.slow
def test_a_task_role_may_be_a_mapping(cluster):
    """Of its fields, as JSON has them; it is left as it is."""
    role = {"name": "main", "command": "echo attempt $LUIGI_PAI_ATTEMPT", "memoryMB": 100}

    class OfMappings(Command):
        tasks = [role]

    name = unique("mapping")
    OfMappings(name=name, command="").run()
    client = LocalClient(cluster)
    assert client.log(client.job(name)) == "attempt 1\n"
    assert role["command"] == "echo attempt $LUIGI_PAI_ATTEMPT"


@pytest.mark.slow
def test_each_submission_has_its_number_and_all_have_one_checkpoint_folder(cluster, caplog):
    """On the local OpenPAI: the first fails, the second is told that it is the second.

    The number is no part of what a task describes.
    """
    name = unique()
    task = Command(
        name=name, command='echo "$LUIGI_PAI_ATTEMPT $LUIGI_PAI_CHECKPOINT_DIR"; [ $LUIGI_PAI_ATTEMPT = 2 ]'
    )
    with pytest.raises(PaiJobFailed):
        task.run()
    task.run()
    client = LocalClient(cluster)
    folder = f"{cluster.fs_uri}/{name}/output/_checkpoint"
    assert client.log(client.job(name)) == f"1 {folder}\n"
    assert client.log(client.job(f"{name}__attempt2")) == f"2 {folder}\n"
    caplog.clear()
    assert task.complete()
    assert "definition has changed" not in caplog.text


@pytest.mark.slow
def test_the_file_is_uploaded_beside_the_code(cluster):
    task = WithRuntime(name=unique(), command=TELL)
    task.run()
    client = LocalClient(cluster)
    assert (
        client.log(client.job(task.name))
        == f"{task.name} 1 {cluster.fs_uri}/{task.name}/output/_checkpoint\n"
    )


@pytest.mark.usefixtures("cluster")
def test_without_a_code_folder_there_is_no_place_for_it():
    class NoCode(WithRuntime):
        code_dir = None

    with pytest.raises(
        SpecError, match=r"runtime: puts pai_runtime.py next to the code, but there is no code_dir"
    ):
        NoCode(name=unique(), command="true").run()


def test_a_protocol_writes_it_first(v2_cluster):
    """It is found from any folder, and by the name that the task has, not ``user~name``."""
    task = Protocol(name=unique(), command=TELL.replace("t.checkpoint_dir", "t.job, t.user"))
    task.run()
    client = ProtocolClient(v2_cluster)
    assert client.log(client.job(f"admin~{task.name}"), "main") == f"{task.name} 1 {task.name} admin\n"


@pytest.mark.parametrize("shell", [["bash", "-euo", "pipefail"], ["sh", "-eu"]], ids=["bash", "sh"])
@pytest.mark.parametrize("folder", ["a b", "/proc"])
def test_in_any_shell_and_folder(tmp_path, shell, folder):
    """Strict ones, and a folder that nobody can write to."""
    (tmp_path / "a b").mkdir()
    document = yaml.safe_load(Protocol(name="a", command="true").render())
    commands = [*document["taskRoles"]["main"]["commands"][:2], "cd /; python -c 'import pai_runtime'"]
    run = subprocess.run(
        [*shell, "-c", "\n".join(commands)],
        cwd=tmp_path / folder,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
def test_the_command_line_writes_it():
    run = subprocess.run(
        [sys.executable, "-m", "luigi_pai", "runtime"], capture_output=True, check=True, timeout=60
    )
    assert run.stdout == RUNTIME_FILE.read_bytes()
