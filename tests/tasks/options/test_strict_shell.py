"""strict_shell: a failure anywhere in a command fails the task, on each API, and in a job of many points."""

from __future__ import annotations

import contextlib

import luigi
import pytest
from local_client import unique
from train_task import Command

from luigi_pai import PaiJob, PaiJobFailed, PaiPythonTask, PaiSweep, SpecError, TaskRole, grid
from luigi_pai.jobspec.dialects.shell_text import strict, strict_command
from luigi_pai.jobspec.job import slot_to_dict


class Train(Command):
    strict_shell = luigi.BoolParameter(default=True, significant=False)


class Method(PaiPythonTask):
    run_id = luigi.Parameter()
    image = "python:3"
    memory_mb = 100
    strict_shell = True

    def work(self):
        return {"sum": 3}


class Points(PaiSweep):
    run_id = luigi.Parameter()
    results_dir = luigi.Parameter()
    points_per_job = 2
    tolerance = 2

    def points(self):
        return grid(Train, name=[f"{self.run_id}-{number}" for number in range(2)], command=["false; true"])


FINE = (
    'mkdir -p out\necho "it\'s $LUIGI_PAI_ATTEMPT \\\\" | tee out/log\ntest "$(cat out/log)" = "it\'s 1 \\\\"'
)


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster")
@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("command", ["false | tee log", "false\ntrue", FINE])
def test_the_first_failure_fails_the_task(command, is_strict, caplog):
    """Nothing is warned of. Otherwise, the last program decides, and a warning says so once."""
    task, is_fine = Train(name=unique(), command=command, strict_shell=is_strict), command == FINE
    with contextlib.nullcontext() if is_fine or not is_strict else pytest.raises(PaiJobFailed):
        task.run()
    warned = [message for message in caplog.messages if "role 'main' succeeds even if false" in message]
    assert len(warned) == (0 if is_fine or is_strict else 1)
    assert not is_strict or "line break" not in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster")
def test_a_method_runs_in_it(caplog):
    """What is put before its command is part of it, and no warning is about that."""
    task = Method(run_id=unique())
    task.run()
    assert task.result() == {"sum": 3}
    assert "succeeds even if" not in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("v2_cluster")
def test_points_that_share_a_job_have_it(tmp_path, caplog):
    Points(run_id=unique(), results_dir=str(tmp_path / "results")).run()
    assert len([text for text in caplog.messages if "exit code 255, its command with 1" in text]) == 2


def test_a_job_of_ones_own_has_it_also_with_mappings_as_roles():
    """Roles of the task are not changed, and a blank command stays what it is: no server takes it."""

    class Own(Train):
        def job(self):
            roles = [TaskRole("a", "x | y"), slot_to_dict(TaskRole("b", "x; y")), TaskRole("c", " ")]
            return PaiJob(self.name, self.image, roles)

    task = Own(name="own")
    commands = [role["command"] for role in task._job().to_dict()["taskRoles"]]
    assert commands == [strict("x | y"), strict("x; y"), " "]
    assert '"command": "x | y"' in task.job().to_json()
    assert "bash -e -o pipefail -c $'x | y'" in task.render()


def test_a_private_value_in_a_strict_command_is_refused(pai):
    """Also one that the shell's quotes change."""

    class Tells(Method):
        word = luigi.Parameter(visibility=luigi.parameter.ParameterVisibility.PRIVATE)

        @property
        def tasks(self):
            (role,) = super().tasks
            return [TaskRole("main", f"echo {self.word}; {role.command}")]

    with pytest.raises(SpecError, match="contains the value of the private parameter word"):
        Tells(run_id="a", word="it's-a-secret").run()
    assert pai.posts() == []


def test_a_strict_job_differs_from_the_same_job_without_it():
    one, other = (Train(name="a", command="x", strict_shell=value)._job() for value in (True, False))
    assert strict_command(one.taskRoles[0].command) == other.taskRoles[0].command == "x"
