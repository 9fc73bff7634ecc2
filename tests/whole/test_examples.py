"""examples/protocols: each is valid, renders, and runs to its end on the local OpenPAI with its stand-in."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import luigi
import pytest
import yaml
from places import ROOT
from protocol_client import ProtocolClient

from luigi_pai import PaiJobFailed, SpecError
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.validate_protocol import validate_protocol

EXAMPLES = ROOT / "examples" / "protocols"
BIN = Path(sys.executable).parent

TASKS = {
    "tensorflow_job": "TrainDistributed --instances 3",
    "horovod_job": "TrainHorovod --nodes 3",
    "shared_data": "CompareModels",
    "study": "Trial --rate 0.1 --batch-size 16",
}


def stand_in(name):
    return shlex.join([sys.executable, str(EXAMPLES / "stand_in" / name)])


def command(*words):
    """Run a command in the folder of the examples, as their docstrings say."""
    env = {**os.environ, "PYTHONPATH": ".", "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(
        words, cwd=EXAMPLES, env=env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def example(monkeypatch):
    """Import a module of the examples."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@pytest.fixture
def cluster(local_pai_v2, settings):
    """The session's local OpenPAI 1.8, as [OpenPai] of luigi.cfg and as its API shows it."""
    settings(
        pai_url=local_pai_v2.url,
        username=local_pai_v2.username,
        password=local_pai_v2.password,
        portal_url=local_pai_v2.url,
        poll_min=0.05,
        poll_max=0.2,
    )
    return ProtocolClient(local_pai_v2)


def build(task, workers=1):
    assert luigi.build([task], local_scheduler=True, no_lock=True, workers=workers)


def ended(cluster, task):
    """Return the job of a task that has run, as the API shows it."""
    return cluster.job(f"{cluster.username}~{task.name}")


def exits(job, role):
    """Return the exit code of each task of a role."""
    return [status["containerExitCode"] for status in job["taskRoles"][role]["taskStatuses"]]


# ---------------------------------------------------------------- as the docstrings say


@pytest.mark.slow
@pytest.mark.parametrize("module", TASKS)
def test_each_renders_as_it_is_sent_and_that_is_valid(module, tmp_path):
    """Without even a warning, except that of the folder that a run of the task sets."""
    shown = command("luigi-pai", "render", module, *TASKS[module].split())
    assert shown.returncode == 0, shown.stderr
    document = yaml.safe_load(shown.stdout)
    problems = [str(problem) for problem in validate_protocol(document)]
    assert [text for text in problems if "$PAI_OUTPUT_DIR is not set in a job protocol" not in text] == []
    file = tmp_path / "job.yaml"
    file.write_text(shown.stdout)
    validated = command("luigi-pai", "validate", str(file))
    assert validated.returncode == 0
    assert f"{file}: valid" in validated.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("module", TASKS)
def test_each_renders_its_commands(module):
    """Every reference is filled in."""
    filled = command("luigi-pai", "render", module, *TASKS[module].split(), "--filled")
    assert filled.returncode == 0, filled.stderr
    assert re.findall(r"^# taskRoles\.(\w+)$", filled.stdout, re.MULTILINE)
    assert "<%" not in filled.stdout


@pytest.mark.parametrize("module", TASKS)
def test_bash_understands_the_commands_of_each(module, example):
    name, *arguments = TASKS[module].split()
    values = dict(
        zip([option[2:].replace("-", "_") for option in arguments[::2]], arguments[1::2], strict=True)
    )
    task = getattr(example(module), name).from_str_params(values)
    for script in entrypoints(task.job().to_dict()).values():
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_each_file_is_valid(file):
    validated = command("luigi-pai", "validate", file.name)
    assert (validated.returncode, validated.stdout) == (0, f"{file.name}: valid\n")


@pytest.mark.slow
def test_the_documented_command_runs_on_a_server_of_its_own(tmp_path):
    """``luigi-pai local -- luigi ...``: the study says what is best; again: nothing is submitted."""
    local = ["luigi-pai", "local", "--data", str(tmp_path / "pai"), "--"]
    luigi_command = ["luigi", "--module", "study", "Best", "--local-scheduler", "--rates", "[0.1]"]
    words = [*local, *luigi_command, "--folder", str(tmp_path)]
    first = command(*words)
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("Submitted job study_") == 2
    assert 'best: {"rate": 0.1, "batch": 32, "loss": 0.000159852}\n' in first.stdout
    again = command(*words)
    assert again.returncode == 0, again.stderr
    assert "Submitted" not in again.stderr


# ---------------------------------------------------------------- TensorFlow


@pytest.mark.slow
def test_workers_train_over_the_ports_of_the_servers(example, cluster):
    """They find them by the host list; when they are done the servers are stopped."""
    task = example("tensorflow_job").TrainDistributed(
        instances=2, servers=2, steps=300, program=stand_in("parameter_server.py")
    )
    build(task)
    job = ended(cluster, task)
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert exits(job, "worker") == [0, 0]
    assert exits(job, "ps") == [-220, -220]
    ports = [cluster.task(job, "ps", index)["containerPorts"]["tf"] for index in range(2)]
    assert len(set(ports)) == 2
    for worker in range(2):
        log = cluster.log(job, "worker", worker)
        for port in ports:
            found = re.search(rf"ps 127\.0\.0\.1:{port}: (\d+) bytes out, (\d+) in\n", log)
            assert found, log
            assert min(map(int, found.groups())) > 300 * len('{"0": 0}')
        loss = re.search(r"300 steps, loss ([\d.]+)\n", log)
        assert float(loss[1]) < 0.01
    for index, port in enumerate(ports):
        log = cluster.log(job, "ps", index)
        assert f"serving at 127.0.0.1:{port}\n" in log
        assert sorted(re.findall(r"worker (\d) is done", log)) == ["0", "1"]


@pytest.mark.slow
def test_a_worker_that_fails_fails_the_training(example, cluster):
    """The servers, which would go on for ever, are stopped all the same."""
    program = f"[ $role = ps ] || exit 3; {stand_in('parameter_server.py')}"
    task = example("tensorflow_job").TrainDistributed(instances=1, steps=7, program=program)
    with pytest.raises(PaiJobFailed):
        task.run()
    job = ended(cluster, task)
    assert exits(job, "worker") == [255]
    assert exits(job, "ps") == [-220]


def test_scaling_is_a_training_for_each_number_of_workers(example):
    trainings = example("tensorflow_job").Scaling(instances=[1, 2, 8]).requires()
    assert [task.job().taskRoles["worker"].instances for task in trainings] == [1, 2, 8]
    assert len({task.name for task in trainings}) == 3


# ---------------------------------------------------------------- Horovod

SLOW_WORKERS = "[ $PAI_CURRENT_TASK_ROLE_NAME = master ] || sleep 1.5"


@pytest.mark.slow
def test_the_launcher_starts_after_the_barrier(example, cluster):
    """Workers come up late, and are up when the master starts; it is told the adapters and the slots."""
    task = example("horovod_job").TrainHorovod(nodes=3, launcher=stand_in("mpirun.py"), fabric=SLOW_WORKERS)
    build(task)
    job = ended(cluster, task)
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert exits(job, "master") == [0]
    assert exits(job, "worker") == [-220, -220]
    said = cluster.log(job, "master").splitlines()
    assert said[0] == "12 processes on master-0, worker-0, worker-1: all of them are up"
    assert "NCCL_IB_HCA=mlx5_0:1" in said
    assert said[-1] == "would run: python pytorch_synthetic_benchmark.py --model resnet50 --batch-size 64"
    plugins = cluster.log(job, "master", name="runtime.log")
    checked, waited = plugins.index("the fabric of master is up"), plugins.index("waiting for worker-0")
    assert checked < waited


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_without_the_barrier_the_stand_in_fails(example):
    """So that it shows something when it does not."""
    horovod = example("horovod_job")

    class NoBarrier(horovod.TrainHorovod):
        def job(self):
            job = super().job()
            job.extras.runtimePlugins[0].parameters["sshbarrier"] = False
            return job

    late_workers = "[ $PAI_CURRENT_TASK_ROLE_NAME = master ] || sleep 60"
    task = NoBarrier(launcher=stand_in("mpirun.py"), fabric=late_workers)
    with pytest.raises(PaiJobFailed, match="started before worker-0: the barrier did not hold"):
        task.run()


@pytest.mark.slow
def test_a_node_without_infiniband_fails_the_job(example, cluster):
    """The check fails, and nothing is launched."""
    task = example("horovod_job").TrainHorovod(nodes=2, gpus=2, launcher="echo launched", fabric="false")
    with pytest.raises(PaiJobFailed):
        task.run()
    assert "launched" not in cluster.log(ended(cluster, task), "master")


def test_every_role_asks_for_infiniband(example):
    job = example("horovod_job").TrainHorovod(nodes=4, gpus=8).job()
    assert all(role.extraContainerOptions.infiniband is True for role in job.taskRoles.values())
    assert job.taskRoles["worker"].instances == 3
    assert job.parameters["processes"] == 32
    assert job.parameters["hosts"] == "master-0:8,worker-0:8,worker-1:8,worker-2:8"


# ---------------------------------------------------------------- shared data

with_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the example fetches its data with curl")


@pytest.fixture
def digits(tmp_path):
    """Digits of the stand-in's making."""
    folder = tmp_path / "digits"
    subprocess.run([*shlex.split(stand_in("digits.py")), str(folder)], check=True)
    return folder.as_uri()


@pytest.mark.slow
@with_curl
def test_data_are_prepared_once_in_each_task_of_both_roles(example, cluster, digits):
    """What they require first; the commands see them; at the end they are checked."""
    task = example("shared_data").CompareModels(source=digits, folder="digits")
    build(task)
    job = ended(cluster, task)
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    for role in ("centroids", "neighbour"):
        assert exits(job, role) == [0]
        assert cluster.log(job, role) == f"{role}: learned from 200, read 50 of 50 correctly\n"
        log = cluster.log(job, role, name="runtime.log").splitlines()
        curl, *others = (line for line in log if not line.startswith("luigi-pai local: the storage at"))
        assert curl.endswith("/curl")
        assert others == ["200 digits to learn from", "train.csv: OK", "test.csv: OK"]


@pytest.mark.slow
@with_curl
def test_data_that_cannot_be_fetched_fail_the_job(example, cluster, tmp_path):
    """No command runs without them."""
    task = example("shared_data").CompareModels(source=(tmp_path / "nothing").as_uri(), folder="digits")
    with pytest.raises(PaiJobFailed):
        task.run()
    job = ended(cluster, task)
    assert cluster.log(job, "centroids") == cluster.log(job, "neighbour") == ""


@pytest.mark.slow
@with_curl
def test_data_that_a_command_changed_fail_the_job(example, cluster, digits):
    shared_data = example("shared_data")

    class Careless(shared_data.CompareModels):
        def job(self):
            job = super().job()
            job.taskRoles["centroids"].commands.append("echo >> digits/train.csv")
            return job

    task = Careless(source=digits, folder="digits")
    with pytest.raises(PaiJobFailed):
        task.run()
    assert "train.csv: FAILED" in cluster.log(ended(cluster, task), "centroids", name="runtime.log")


@pytest.mark.slow
def test_a_role_lists_what_its_data_require_only_when_it_is_sent(example):
    """The task's own protocol has what the user wrote; a requirement that is not there is refused."""
    job = example("shared_data").CompareModels().job()
    assert job.taskRoles["neighbour"].prerequisites == ["digits"]
    rendered = yaml.safe_load(command("luigi-pai", "render", "shared_data", "CompareModels").stdout)
    assert rendered["taskRoles"]["neighbour"]["prerequisites"] == ["curl", "digits"]
    (digits,) = (item for item in rendered["prerequisites"] if item["name"] == "digits")
    assert digits["callbacks"][0]["commands"][0] == "mkdir -p /dataset/digits"

    shared_data = example("shared_data")

    class NoSuch(shared_data.CompareModels):
        def job(self):
            job = super().job()
            job.prerequisites = [item for item in job.prerequisites if item.name != "curl"]
            return job

    with pytest.raises(SpecError, match="there is no prerequisite 'curl'"):
        NoSuch().run()


# ---------------------------------------------------------------- study


@pytest.mark.slow
def test_the_study_finds_the_best_of_its_trials(example, storage_pai, tmp_path):
    """Each set of parameters is a job of its own; their results are read from the storage."""
    cluster = ProtocolClient(storage_pai)
    study, fit = example("study"), example("study_fit").fit
    rates, sizes = [0.01, 0.3], [4, 32]
    task = study.Best(rates=rates, batch_sizes=sizes, folder=str(tmp_path))
    build(task)
    trials = task.requires()
    jobs = [ended(cluster, trial) for trial in trials]
    assert [job["jobStatus"]["state"] for job in jobs] == ["SUCCEEDED"] * 4
    assert len({trial.name for trial in trials}) == 4
    losses = {(rate, size): fit(rate, size) for rate, size in product(rates, sizes)}
    rate, size = min(losses, key=losses.get)
    with task.output().open() as file:
        assert json.load(file) == {"rate": rate, "batch": size, "loss": losses[rate, size]}
    config = yaml.safe_load(cluster.send("GET", f"/jobs/admin~{trials[0].name}/config").text)
    assert config["parameters"]["rate"] == 0.01
    assert config["extras"]["storages"] == [{"name": "nfs1", "mountPath": "/mnt/nfs1"}]
    assert not list((storage_pai.data / "storages" / "nfs1" / "study").rglob(".*"))


# ---------------------------------------------------------------- the page about them

PAGE = (ROOT / "docs" / "examples.md").read_text()
SHOWN = [
    (run.splitlines()[0], run.splitlines()[1:])
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for run in re.split(r"^\$ ", block, flags=re.MULTILINE)
    if run.startswith(("luigi-pai validate", "luigi-pai render"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[line for line, _ in SHOWN])
def test_the_page_shows_what_the_commands_write(line, shown):
    """Its lines come in that order; ``...`` is what was left out."""
    written = command(*shlex.split(line)).stdout
    pattern = re.escape("\n".join(shown)).replace(r"\.\.\.", ".*")
    assert re.search(pattern, written, re.DOTALL), written


def test_the_page_names_every_example():
    for path in EXAMPLES.glob("*_job.*"), [EXAMPLES / "shared_data.py", EXAMPLES / "study.py"]:
        assert all(f"(../examples/protocols/{file.name})" in PAGE for file in path)
