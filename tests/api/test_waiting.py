"""Why a job waits: from the replies of virtual clusters, and from what the cluster itself says."""

from __future__ import annotations

import math

import responses

from luigi_pai.api.cluster import Cluster
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.waiting import WaitingReasons

CONFIG = {
    "jobName": "a",
    "taskRoles": [{"name": "main", "taskNumber": 1, "gpuNumber": 4, "cpuNumber": 1, "memoryMB": 100}],
}
CLUSTERS = {
    "default": {"resourcesTotal": {"GPUs": 8, "vCores": 64, "memory": 1000}, "resourcesUsed": {"GPUs": 6}}
}


@responses.activate
def test_the_cluster_is_asked_once_a_minute_and_its_silence_is_no_error():
    """A job that starts within a second is not asked about."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def time(self):
            return self.now

    clock = Clock()
    config = responses.get("http://pai/api/v1/jobs/a/config", json=CONFIG)
    clusters = responses.get("http://pai/api/v1/virtual-clusters", json=CLUSTERS)
    here = Cluster("http://pai", "anna", token="t0ken", api_version="v1", clock=clock)
    reasons = WaitingReasons(here.book)
    waits = JobStatus("a", JobState.WAITING, virtual_cluster="default")
    assert reasons.of(waits) is None
    assert reasons.idle(waits) == 1.0
    clock.now = 1.0
    assert reasons.of(waits) == "virtual cluster default has 2 of 8 GPUs free, the job wants 4"
    clock.now = 60.0
    assert reasons.of(waits) is not None
    assert (config.call_count, clusters.call_count) == (1, 1)
    clock.now = 61.0
    responses.replace("GET", "http://pai/api/v1/virtual-clusters", status=500, json={"code": "UnknownError"})
    assert reasons.of(waits) == "virtual cluster default has 2 of 8 GPUs free, the job wants 4"
    assert reasons.of(JobStatus("a", JobState.RUNNING)) is None
    assert math.isinf(reasons.idle(JobStatus("a", JobState.RUNNING)))
