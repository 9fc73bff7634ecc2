"""How many requests a task sends to the rest-server and to HDFS, and how often it uses a storage."""

from __future__ import annotations

import contextlib
import http.client
from collections import Counter
from types import SimpleNamespace

import pytest
from luigi_process import run_pipeline
from train_task import Train

from luigi_pai import PaiJobFailed, reset_clusters
from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import JobState
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence

STORAGE = "GET /api/v2/storages/nfs1"


def life(pai) -> Counter[str]:
    """Run a task to its end, and look at it again; return the requests."""
    pai.calls.clear()
    reset_clusters()
    task = Train()
    assert not task.complete()
    fails = pai.plan.get("ends_as") == "FAILED"
    with pytest.raises(PaiJobFailed) if fails else contextlib.nullcontext():
        task.run()
    assert task.complete() is not fails
    return Counter(f"{method} {path}" for method, path in pai.calls)


@pytest.mark.parametrize("ends_as", ["SUCCEEDED", "FAILED"])
@pytest.mark.parametrize("release", ["1.8.0", "ltp-1.5"])
def test_a_storage_costs_one_request(pai, storage, settings, release, ends_as):
    """It is asked for once; without HDFS and storage, the stored job is compared, which is not needed now."""
    pai.release, pai.plan = release, {"ends_as": ends_as, "runs_for": 0.0}
    with_storage = life(pai)
    pai.jobs.clear()
    settings(storage="")
    without = life(pai)
    assert with_storage.pop(STORAGE) == 1
    assert with_storage - without == Counter()
    assert (storage / "train" / "output" / "_luigi_pai" / f"train.1.{ends_as}").exists()


@pytest.mark.parametrize("fault", [503, "reset", 429])
def test_complete_is_patient_with_the_request_for_the_storage(pai, storage, fault):
    """As it is with the lookup of the job."""
    pai.release = "1.8.0"
    life(pai)
    reset_clusters()
    pai.jobs.clear()
    pai.fail("GET", "/api/v2/storages/nfs1", fault, times=3)
    assert Train().complete()
    assert pai.calls.count(("GET", "/api/v2/storages/nfs1")) > 3
    assert (storage / "train" / "output" / "_SUCCESS").exists()


@pytest.mark.parametrize("ends_as", ["SUCCEEDED", "FAILED"])
@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
@pytest.mark.usefixtures("hdfs")
def test_a_job_sends_at_most_twelve_requests_to_hdfs(pai, monkeypatch, release, ends_as):
    """From complete() to the recorded end, with the redirects to DataNodes."""
    pai.release, pai.plan = release, {"ends_as": ends_as, "runs_for": 5.0}
    sent, put = [], http.client.HTTPConnection.putrequest

    def note(connection, method, url, *args, **kwargs):
        sent.extend([f"{method} {url}"] if "/webhdfs/v1" in url else [])
        return put(connection, method, url, *args, **kwargs)

    monkeypatch.setattr(http.client.HTTPConnection, "putrequest", note)
    life(pai)
    assert len(sent) <= 12, sent


def finish(pai, name: str) -> None:
    """Let a task be as a run has left it that has ended."""
    pai.add(name)
    work = TaskWork(Train(name=name))
    evidence = Evidence(work)
    claim = evidence.claim(1, name)
    evidence.flag.add(name, submitted_here=True)
    evidence.end(claim, Entry(1, name, SimpleNamespace(state=JobState.SUCCEEDED)))


@pytest.mark.usefixtures("storage")
def test_a_hundred_finished_tasks_take_four_requests(pai, used):
    """As many as without a storage, and one for the storage; each looks into its folder of claims."""
    names = [f"t{number}" for number in range(100)]
    for name in names:
        finish(pai, name)
    pai.calls.clear()
    used.clear()
    reset_clusters()
    assert all(Train(name=name).complete() for name in names)
    assert [f"{method} {path}" for method, path in pai.calls] == [
        "GET /api/v1/jobs/t0",
        "POST /api/v1/token",
        "GET /api/v2/jobs/admin~t0",
        STORAGE,
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
    ]
    assert used == {"LISTSTATUS": 100, "OPEN": 100}


@pytest.mark.slow
@pytest.mark.usefixtures("real_time", "storage")
def test_eight_tasks_in_four_workers_ask_for_the_storage_once(pai, tmp_path):
    """Forked workers share what one of them has asked."""
    openpai = {"pai_url": pai.url, "username": "admin", "password": "admin-password", "storage": "nfs1"}
    result = run_pipeline(tmp_path, {**openpai, "poll_min": 0.05, "poll_max": 0.2}, count=8, workers=4)
    assert result.done, result.log
    assert len(pai.jobs) == 8
    assert pai.count("GET", r"/storages/") == 1


@pytest.mark.usefixtures("storage")
def test_what_a_job_of_its_life_does_on_the_storage(pai, used):
    """Operations, in each of which the mount is used for a handful of calls."""
    life(pai)
    assert used.total() <= 9, used
