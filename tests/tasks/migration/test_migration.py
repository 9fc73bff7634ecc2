"""Users' tests written for luigi.contrib.pai hold after the change of the import line."""

from __future__ import annotations

import inspect
import time

import luigi
import luigi.contrib.pai as contrib
import responses
from clocks import MovableClock
from process_state import install_clock

import luigi_pai
from luigi_pai import PaiTask, TaskRole

API = "http://127.0.0.1:9186/api/v1"  # what both take when there is no luigi.cfg


class SklearnJob(PaiTask):
    """A task with plain class attributes, shared by tests as Luigi shares its instances."""

    image = "openpai/pai.example.sklearn"
    name = f"test_job_sk_{time.time()}"
    command = "cd scikit-learn/benchmarks && python bench_mnist.py"
    virtual_cluster = "spark"
    tasks = [TaskRole("test", "cd scikit-learn/benchmarks && python bench_mnist.py", memoryMB=4096)]


def mock_life(mock: responses.RequestsMock, state: str) -> None:
    """Register what such tests register, and nothing more."""
    mock.add(responses.POST, f"{API}/token", json={"token": "test", "user": "admin", "admin": True})
    mock.add(responses.POST, f"{API}/jobs", json={"message": "update job successfully"}, status=202)
    mock.add(responses.GET, f"{API}/jobs/{SklearnJob.name}", json={}, status=404)
    mock.add(responses.GET, f"{API}/jobs/{SklearnJob.name}", body=f'{{"jobStatus": {{"state":"{state}"}}}}')


def live(state: str) -> tuple[bool, bool]:
    """Build the task and ask it afterwards; return both answers. It makes the requests that are mocked."""
    with responses.RequestsMock(assert_all_requests_are_fired=True) as mock:
        mock_life(mock, state)
        task = SklearnJob()
        built = luigi.build([task], local_scheduler=True, log_level="WARNING")
        complete = task.complete()
        calls = [f"{call.request.method} {call.request.url.removeprefix(API)}" for call in mock.calls]
    assert set(calls) == {"POST /token", "POST /jobs", f"GET /jobs/{SklearnJob.name}"}
    assert calls.count("POST /jobs") == 1
    return built, complete


def test_mocked_lives_of_one_name_do_not_mix(monkeypatch):
    """Several such tests in one process, of one job name and one task instance, each see their own server."""
    clock = MovableClock()
    install_clock(clock, monkeypatch)
    ends = [live(state) for state in ("FAILED", "SUCCEED", "FAILED", "FAILED", "SUCCEEDED")]
    assert ends == [(False, False), (True, True), (False, False), (False, False), (True, True)]
    assert clock.elapsed < 10


def test_every_public_name_is_here():
    """What luigi.contrib.pai defines, luigi_pai has."""
    names = [
        name
        for name, value in vars(contrib).items()
        if getattr(value, "__module__", None) == contrib.__name__ and not name.startswith("_")
    ]
    assert sorted(names) == ["OpenPai", "PaiJob", "PaiTask", "Port", "TaskRole", "slot_to_dict"]
    assert set(names) <= set(luigi_pai.__all__)


def test_every_property_is_here_with_its_default(settings):
    """A task's properties have the names and the defaults that they had."""

    def task_of(base):
        return type("T", (base,), {"name": "n", "image": "i", "tasks": ["x"]})

    properties = [
        name
        for name, value in vars(contrib.PaiTask).items()
        if isinstance(value, property) and not name.startswith("_")
    ]
    settings(password="x")
    with responses.RequestsMock() as mock:
        mock.add(responses.POST, f"{API}/token", json={"token": "test"})
        old = task_of(contrib.PaiTask)()
    new = task_of(PaiTask)()
    assert {name: getattr(new, name) for name in properties} == {
        name: getattr(old, name) for name in properties
    }
    assert len(properties) == 10


def test_the_methods_take_what_they_took():
    """run(), output() and complete() are called as before."""
    for method in ("run", "output", "complete"):
        assert list(inspect.signature(getattr(PaiTask, method)).parameters) == ["self"]
