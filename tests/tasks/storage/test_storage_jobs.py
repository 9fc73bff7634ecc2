"""Tasks with a storage, and no HDFS, on local servers: what a job reads and leaves there."""

from __future__ import annotations

import json
import random
import time

import luigi
import pytest
from local_client import unique
from pipelines import new_process
from protocols import protocol
from train_task import Command

from luigi_pai import HdfsTarget, PaiJobFailed, PaiJobForgotten, PaiProtocolTask, PaiPythonTask

pytestmark = pytest.mark.slow
on_v2 = pytest.mark.parametrize("storage_pai", ["v2"], indirect=True)

RESUME = """
d=$LUIGI_PAI_CHECKPOINT_DIR
if hdfs dfs -test -e "$d/step"; then hdfs dfs -cat "$d/step" > step; else echo 0 > step; fi
echo "from $(cat step)" | hdfs dfs -put -f - "$PAI_OUTPUT_DIR/from-$LUIGI_PAI_ATTEMPT"
[ "$(cat step)" = 3 ] && exit 0
echo 3 > step; hdfs dfs -mkdir -p "$d"; hdfs dfs -put -f step "$d/"; exit 7
"""


class Train(Command):
    keep_logs = True


@pytest.fixture
def root(storage_pai):
    """The folder of the storage."""
    return storage_pai.data / "storages" / "nfs1"


def forgotten(server) -> None:
    """Let the server forget its jobs, and this process too."""
    server.forget_jobs(time.time() + 1)
    new_process()


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_second_submission_goes_on_from_the_checkpoint_of_the_first(root):
    """Logs of both are kept."""
    task = Train(unique(), RESUME)
    with pytest.raises(PaiJobFailed):
        task.run()
    new_process()
    task.run()
    output = root / task.name / "output"
    assert (output / "from-1").read_text() == "from 0\n"
    assert (output / "from-2").read_text() == "from 3\n"
    assert names(output / "_logs") == {task.name, f"{task.name}__attempt2"}
    assert names(output / "_logs" / task.name) >= {"main-0.stdout", "main-0.stderr"}
    assert names(output / "_luigi_pai") >= {
        f"{task.name}.{what}" for what in ("1.json", "1.FAILED", "2.json", "2.SUCCEEDED")
    }
    assert (output / "_SUCCESS").read_text() == f"{task.name}\n"
    assert not list(output.rglob(".*"))


@on_v2
def test_a_job_that_the_server_has_forgotten_is_complete_by_its_flag(storage_pai, root):
    task = Train(unique())
    task.run()
    forgotten(storage_pai)
    assert task.complete()
    (root / task.name / "output" / "_SUCCESS").unlink()
    new_process()
    assert not task.complete()
    with pytest.raises(PaiJobForgotten, match="the completion flag in its output folder is gone"):
        task.run()


@on_v2
@pytest.mark.parametrize("accepts", [True, False])
def test_a_forgotten_job_whose_end_nobody_has_seen(storage_pai, root, monkeypatch, accepts):
    """An empty _SUCCESS counts for it; without, it is submitted again where the user says so."""
    task = Train(unique())
    with monkeypatch.context() as killed:
        killed.setattr("luigi_pai.work.run.record", lambda *_, **__: None)
        task.run()
    assert not (root / task.name / "output" / "_SUCCESS").exists()
    forgotten(storage_pai)
    claim = root / task.name / "output" / "_luigi_pai" / f"{task.name}.1.json"
    old = {**json.loads(claim.read_text()), "claimed_ms": int((time.time() - 40 * 86_400) * 1000)}
    claim.write_text(json.dumps(old))
    with pytest.raises(PaiJobForgotten, match=f"luigi-pai put _SUCCESS '.*{task.name}/output/_SUCCESS'"):
        task.run()
    if accepts:
        (root / task.name / "output" / "_SUCCESS").touch()
        new_process()
        assert task.complete()
        return
    new_process()
    monkeypatch.setattr(Train, "on_forgotten", "submit")
    task.run()
    assert task.complete()
    jobs = [job["name"] for job in storage_pai.jobs() if job["name"].startswith(task.name)]
    assert jobs == [f"{task.name}__attempt2"]


@on_v2
def test_an_empty_flag_does_not_count_for_a_task_that_was_never_submitted(root):
    task = Train(unique())
    output = root / task.name / "output"
    output.mkdir(parents=True)
    (output / "_SUCCESS").touch()
    assert not task.complete()
    task.run()
    assert task.complete()


# ---------------------------------------------------------------- uploads


@on_v2
def test_four_hundred_files_are_sent_once(root, tmp_path, used):
    """The second run sends what has changed, and looks at folders rather than at files."""
    source = tmp_path / "data"
    for number in range(400):
        file = source / f"part{number % 20}" / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    name = unique()

    class Count(Train):
        uploads = {str(source): f"$PAI_DEFAULT_FS_URI/{name}/data"}
        data_dir = f"$PAI_DEFAULT_FS_URI/{name}/data"

    count = 'cat $(find "$PAI_DATA_DIR" -name "*.txt") | sort -n | md5sum > $PAI_OUTPUT_DIR/sum'
    Count(name, count).run()
    assert used.total() < 3 * 400 + 200
    (source / "part3" / "3.txt").write_text("changed\n")
    used.clear()
    Count(f"{name}-2", count).run()
    assert used.total() < 120, used
    assert used["RENAME"] < 8
    assert (root / name / "data" / "part3" / "3.txt").read_text() == "changed\n"
    sums = [(root / each / "output" / "sum").read_text() for each in (name, f"{name}-2")]
    assert sums[0] != sums[1]
    assert not [path for path in (root / name).rglob(".*") if "manifest" not in path.name]


# ---------------------------------------------------------------- the YAML protocol


class Protocol(PaiProtocolTask):
    """A job of the protocol that writes into its output folder."""

    name = luigi.Parameter()
    storages = luigi.Parameter(default="", significant=False)  # as JSON

    @property
    def output_dir(self):
        return f"$PAI_DEFAULT_FS_URI/{self.name}/output"

    def output(self):
        return HdfsTarget(f"{self.output_dir}/where")

    @property
    def protocol(self):
        extras = {"extras": {"storages": json.loads(self.storages)}} if self.storages else {}
        return protocol('echo "$PAI_OUTPUT_DIR" > "$PAI_OUTPUT_DIR/where"', **extras)


@pytest.mark.parametrize(
    ("storage_pai", "storages", "place"),
    [
        ("ltp", "", "/mnt/nfs1"),
        ("v2", '[{"name": "nfs1", "mountPath": "/data/shared"}]', "/data/shared"),
        ("v2", "[]", "/mnt/nfs1"),
    ],
    ids=["none", "elsewhere", "default"],
    indirect=["storage_pai"],
)
def test_a_job_of_the_protocol_writes_to_the_storage(storage_pai, root, storages, place):
    """It is mounted where the document says, or at /mnt/nfs1; flag and claims are beside the output."""
    task = Protocol(unique(), storages)
    task.run()
    output = root / task.name / "output"
    assert (output / "where").read_text().endswith(f"{place}/{task.name}/output\n")
    assert names(output / "_luigi_pai") == {f"{task.name}.1.json", f"{task.name}.1.SUCCEEDED"}
    with task.output().open() as file:
        assert place in file.read()
    forgotten(storage_pai)
    assert task.complete()


# ---------------------------------------------------------------- Python methods

_SECRET = "hunter2-hunter2"


class Fit(PaiPythonTask):
    """A method with a large payload and a large result."""

    name = luigi.Parameter()
    image = "python:3"
    memory_mb = 200
    key = luigi.Parameter(visibility=luigi.parameter.ParameterVisibility.PRIVATE, significant=False)

    def work(self):
        return {"text": "y" * 5_000_000, "seen": len(DATA), "key": len(self.key)}


DATA = random.Random(1).randbytes(900_000)


def test_a_method_with_a_large_payload_and_result(storage_pai, root):
    """The payload goes over the storage; no file there has the secret; a second run takes it over."""
    task = Fit(unique(), _SECRET)
    task.run()
    result = task.result()
    assert (result["seen"], result["key"], len(result["text"])) == (len(DATA), len(_SECRET), 5_000_000)
    for path in root.rglob("*"):
        if path.is_file():
            assert _SECRET.encode() not in path.read_bytes(), path
    jobs = len(storage_pai.jobs())
    new_process()
    Fit(task.name, _SECRET).run()
    assert Fit(task.name, _SECRET).complete()
    assert len(storage_pai.jobs()) == jobs
