"""What a job asks for, and what virtual clusters have."""

from __future__ import annotations

import pytest
import responses
from api_cases import cases

from luigi_pai.api.cluster import Cluster
from luigi_pai.jobspec.demand import Demand, free_in, oversize_warning, shortage
from luigi_pai.jobspec.job import PaiJob, TaskRole

TOTAL = {"GPUs": 8, "vCores": 64, "memory": 1000}


def cluster_with(**used):
    """Return the answer of a server with one virtual cluster."""
    return {
        "default": {"resourcesTotal": TOTAL, "resourcesUsed": {"GPUs": 0, "vCores": 0, "memory": 0, **used}}
    }


def v1_config(number=1, gpus=0, cpus=1, memory=100):
    role = {"name": "main", "taskNumber": number, "gpuNumber": gpus, "cpuNumber": cpus, "memoryMB": memory}
    return {"jobName": "a", "taskRoles": [role]}


def protocol(instances, gpu, *, gang=True):
    extras = {} if gang else {"extras": {"gangAllocation": False}}
    resources = {"cpu": 1, "memoryMB": 10, "gpu": gpu}
    role = {"instances": instances, "resourcePerInstance": resources}
    return {"protocolVersion": 2, "name": "a", "taskRoles": {"w": role}, **extras}


@cases("config used text")
def test_what_is_free_and_what_is_wanted(config, used, text):
    """Of a gang all its instances together; without, one instance."""
    expected = None if text is None else f"virtual cluster default {text}"
    document = protocol(**config) if "instances" in config else v1_config(**config)
    assert shortage(Demand.of_config(document), cluster_with(**used)) == expected


@pytest.mark.parametrize("number", [10**400, 1e308, float("inf"), float("nan"), -(10**400), "2", True])
def test_a_number_that_no_job_or_cluster_can_have_is_ignored(number):
    demand = Demand.of_config(v1_config(number, gpus=number))
    assert demand.whole.gpus in (0, 1)
    assert shortage(demand, cluster_with(GPUs=number)) is None


@cases("about has")
def test_releases_that_do_not_say_what_there_is(about, has):
    """To 0.13 there are no totals, but the share of the cluster, and how much of it is in use."""
    text = f"virtual cluster default has {has}; the job wants 4 GPUs"
    assert shortage(Demand.of_config(v1_config(gpus=4)), {"default": about}) == text


@pytest.mark.parametrize(
    "clusters", [{}, {"default": None}, {"default": {}}, {"default": {"resourcesTotal": []}}]
)
def test_a_server_that_does_not_say(clusters):
    """No guess is made."""
    assert shortage(Demand.of_config(v1_config(gpus=4)), clusters) is None
    assert free_in(clusters.get("default")) is None


def test_what_is_free_in_short():
    assert free_in(cluster_with(GPUs=6)["default"]) == "2 of 8 GPUs and 64 of 64 CPUs free"


@responses.activate
def test_a_job_that_is_larger_than_its_virtual_cluster_is_warned_of():
    """Before it is submitted."""
    responses.get("http://pai/api/v1/virtual-clusters", json=cluster_with())
    here = Cluster("http://pai", "anna", token="t0ken", api_version="v1")
    job = PaiJob("a", "x", [TaskRole("main", "true", taskNumber=3, gpuNumber=3)])
    texts = "8 GPUs in all, the job wants 9; 1000 MB of memory in all, the job wants 6144"
    expected = f"virtual cluster default has {texts}: it would wait forever"
    assert oversize_warning(here.virtual_clusters(), job) == expected
    assert (
        oversize_warning(here.virtual_clusters(), PaiJob("a", "x", [TaskRole("main", "true", memoryMB=9)]))
        is None
    )
