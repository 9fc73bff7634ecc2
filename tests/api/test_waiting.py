"""Why a job waits: from the replies of virtual clusters, and from what the cluster itself says."""

from __future__ import annotations

import math
import os

import pytest
import responses

from luigi_pai.api.cluster import Cluster
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watching import Watcher
from luigi_pai.jobspec.job import PaiJob, TaskRole

CONFIG = {
    "jobName": "a",
    "taskRoles": [{"name": "main", "taskNumber": 1, "gpuNumber": 4, "cpuNumber": 1, "memoryMB": 100}],
}
CLUSTERS = {
    "default": {"resourcesTotal": {"GPUs": 8, "vCores": 64, "memory": 1000}, "resourcesUsed": {"GPUs": 6}}
}


@responses.activate
def test_the_cluster_is_asked_once_a_minute_and_its_silence_is_no_error(clock):
    """A job that starts within a second is not asked about."""
    config = responses.get("http://pai/api/v1/jobs/a/config", json=CONFIG)
    clusters = responses.get("http://pai/api/v1/virtual-clusters", json=CLUSTERS)
    here = Cluster("http://pai", "anna", token="t0ken", api_version="v1", clock=clock)
    reasons = WaitingReasons(here.book)
    waits = JobStatus("a", JobState.WAITING, virtual_cluster="default")
    assert reasons.reason(waits) is None
    assert reasons.idle(waits) == pytest.approx(1)
    clock.advance(1)
    assert reasons.reason(waits) == "virtual cluster default has 2 of 8 GPUs free, the job wants 4"
    clock.advance(59)
    assert reasons.reason(waits) is not None
    assert (config.call_count, clusters.call_count) == (1, 1)
    clock.advance(1)
    responses.replace("GET", "http://pai/api/v1/virtual-clusters", status=500, json={"code": "UnknownError"})
    assert reasons.reason(waits) == "virtual cluster default has 2 of 8 GPUs free, the job wants 4"
    assert reasons.reason(JobStatus("a", JobState.RUNNING)) is None
    assert math.isinf(reasons.idle(JobStatus("a", JobState.RUNNING)))


PROTOCOL = {
    "protocolVersion": 2,
    "taskRoles": {"main": {"instances": 1, "resourcePerInstance": {"cpu": 1, "memoryMB": 10, "gpu": 4}}},
}
HAS = "virtual cluster default has 2 of 8 GPUs free, the job wants 4"
PENDING = {"type": "Warning", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}


@pytest.mark.parametrize("release", ["0.15.0", "1.0.1"])
def test_releases_without_events_say_what_they_know(faulty, known_cluster, clock, release):
    """They are asked for events once, and the reason is that of the virtual cluster."""
    faulty.release, faulty.virtual_clusters = release, CLUSTERS
    faulty.add("a", waits_for=3600).config = PROTOCOL
    cluster = known_cluster()
    reasons, status = WaitingReasons(cluster.book), cluster.job("a").status()
    for _ in range(5):
        clock.advance(60)
        reasons.idle(status)
        clock.advance(2)
        assert reasons.reason(status) == HAS
    assert faulty.count("GET", "/events") == 1
    assert WaitingReasons(cluster.book).current_reason(status) == HAS
    assert faulty.count("GET", "/events") == 1


@pytest.mark.parametrize("release", ["0.15.0", "1.0.1", "1.8.0"])
def test_virtual_clusters_are_found_where_the_version_of_the_api_is_not_known(faulty, new_cluster, release):
    """0.15 to 1.0 fail the request of v1; then they are asked for their version."""
    faulty.release, faulty.virtual_clusters = release, CLUSTERS
    assert new_cluster(faulty.url).virtual_clusters() == CLUSTERS
    assert new_cluster(faulty.url).book.virtual_clusters() == CLUSTERS
    assert faulty.dialect_questions == (0 if release == "1.8.0" else 2)


class Fork:
    """A fork that watches a job, and looks whether it has something to do whenever it is told."""

    def __init__(self, cluster, number: int) -> None:
        told, self._tell = os.pipe()
        self._done, done = os.pipe()
        self._child = os.fork()
        if self._child == 0:  # pragma: no cover  in the child
            try:
                self._watch(cluster, number, told, done)
            finally:
                os._exit(1)
        os.close(told)
        os.close(done)

    @staticmethod
    def _watch(cluster, number: int, told: int, done: int) -> None:
        role = TaskRole("main", "x", gpuNumber=4 + number % 5)
        job = PaiJob(f"a{number}", "x", [role])
        status = cluster.job(str(job.jobName)).status()
        watcher, reasons = Watcher(cluster.book), WaitingReasons(cluster.book, lambda: job)
        watcher.add(status)
        while os.read(told, 1) == b"+":
            for update in watcher.step():
                status = update.status
            os.write(done, b"+" if reasons.reason(status) else b"-")
        os._exit(0)

    def go_on(self) -> bool:
        """Let it do what is due, and return whether it knows why its job waits."""
        os.write(self._tell, b"+")
        return os.read(self._done, 1) == b"+"

    def end(self) -> None:
        os.write(self._tell, b".")
        os.waitpid(self._child, 0)
        os.close(self._tell)
        os.close(self._done)


@pytest.mark.slow
@pytest.mark.parametrize(("release", "count"), [("0.7.1", 20), ("1.8.0", 50)])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_fifty_waiting_jobs_in_fifty_forks_cost_twelve_requests_a_minute(
    faulty, known_cluster, clock, release, count
):
    """Lookups, lists, virtual clusters and events together; of each job it is known why it waits."""
    faulty.release, faulty.virtual_clusters, faulty.events = release, CLUSTERS, [PENDING]
    for number in range(count):
        faulty.add(f"a{number}", waits_for=1e6, created=clock.time() - 600)
    cluster = known_cluster()
    cluster.job("a0").status()
    forks = [Fork(cluster, number) for number in range(count)]
    try:
        for _ in range(30):
            clock.advance(2)
            for fork in forks:
                fork.go_on()
        before = len(faulty.calls)
        for _ in range(60):
            clock.advance(2)
            known = [fork.go_on() for fork in forks]
        assert len(faulty.calls) - before <= 2 * 12
        assert all(known)
    finally:
        for fork in forks:
            fork.end()
