"""examples/container: run on the local OpenPAI, in both APIs, on HDFS and on a storage."""

from __future__ import annotations

import importlib
import json
import re

import luigi
import pytest
from local_client import LocalClient
from places import ROOT
from protocol_client import ProtocolClient

from luigi_pai import PaiJobFailed
from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples" / "container"


@pytest.fixture(scope="module", params=["v1 hdfs", "v2 hdfs", "v2 storage"])
def server(request):
    api, file_system = request.param.split()
    with LocalPai(api=api, hdfs=file_system == "hdfs") as pai:
        yield pai, api


@pytest.fixture
def examples(server, settings, monkeypatch):
    """The module of the examples, on an empty OpenPAI."""
    pai, _ = server
    pai.empty()
    settings(**pai.luigi_section, poll_min=0.05, poll_max=0.5)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(importlib.sys.modules, "container_jobs", raising=False)
    yield importlib.import_module("container_jobs")
    monkeypatch.delitem(importlib.sys.modules, "container_jobs", raising=False)


@pytest.fixture
def log(server):
    """Return what a task of a job has printed."""

    def read(job, role, index=0):
        pai, api = server
        if api == "v1":
            client = LocalClient(pai)
            return client.log(client.job(job), role, index)
        client = ProtocolClient(pai)
        return client.log(client.job(f"admin~{job}"), role, index)

    return read


def test_a_training_goes_on_where_its_first_submission_was_stopped(examples, log):
    task = examples.Train(stop_at=13)
    with pytest.raises(PaiJobFailed, match="stopped at step 13"):
        task.run()
    task.run()
    assert log("container-train", "main") == "submission 1 begins at step 0\n"
    assert log("container-train__attempt2", "main").splitlines() == [
        "submission 2 begins at step 10",
        'done: {"step": 20, "value": 10.0}',
    ]
    with (task.output() / "_reports" / "main-0.jsonl").open() as file:
        lines = [json.loads(line) for line in file.read().splitlines()]
    assert [(line["attempt"], line["step"]) for line in lines] == [(1, 5), (1, 10), (2, 15), (2, 20)]


def test_two_workers_add_up(examples, log):
    """With torch where it is installed, else with sockets."""
    examples.AllReduce().run()
    texts = [log("container-all-reduce", "worker", index) for index in range(2)]
    for rank, text in enumerate(texts):
        assert re.search(rf"^with_(torch|sockets): rank {rank} of 2, the sum is 11.0$", text, re.MULTILINE), (
            text
        )


def test_tensorflow_and_mpi_know_all_tasks(examples, log):
    assert luigi.build([examples.Cluster()], local_scheduler=True, no_lock=True)
    texts = [
        log("container-cluster", role, index) for role, index in (("ps", 0), ("worker", 0), ("worker", 1))
    ]
    configs = [json.loads(re.search(r"^TF_CONFIG (.*)$", text, re.MULTILINE)[1]) for text in texts]
    assert [config["task"] for config in configs] == [
        {"type": "ps", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1},
    ]  # fmt: skip
    assert configs[0]["cluster"] == configs[1]["cluster"] == configs[2]["cluster"]
    assert [len(configs[0]["cluster"][role]) for role in ("ps", "worker")] == [1, 2]
    assert all(
        text.splitlines()[-1] == "mpirun -np 3 -H 127.0.0.1:1,127.0.0.1:1,127.0.0.1:1" for text in texts
    )
