"""The routes of OpenPAI 1.8 for what the cluster has: virtual clusters, storages, nodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from luigi_pai.local.records import COMPLETED, WAITING
from luigi_pai.local.rest import route
from luigi_pai.local.wire import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.access_v2 import AccessV2
    from luigi_pai.local.records import Job

__all__ = ["ROUTES"]

_GPUS = 8  # pretended: nothing on this machine is divided
_MIB = 1024 * 1024


def _machine() -> dict[str, int]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    return _resources(os.cpu_count() or 1, memory, _GPUS)


def _resources(cpu: int, memory: int, gpu: int) -> dict[str, int]:
    return {"cpu": cpu, "memory": memory, "gpu": gpu, "vCores": cpu, "GPUs": gpu}


def _virtual_cluster(name: str, jobs: Sequence[Job]) -> dict[str, Any]:
    here = [job for job in jobs if job.virtual_cluster == name]
    roles = [role for job in here if job.sub_state not in (WAITING, COMPLETED) for role in job.roles]
    cpu, memory, gpu = (
        sum(role[key] * role["taskNumber"] for role in roles)
        for key in ("cpuNumber", "memoryMB", "gpuNumber")
    )
    total = _machine()
    return {
        "capacity": 100,
        "usedCapacity": min(100, 100 * gpu / total["gpu"]),
        "dedicated": False,
        "resourcesUsed": _resources(cpu, memory, gpu),
        "resourcesGuaranteed": total,
        "resourcesTotal": total,
        "maxCapacity": 100,
    }


async def _virtual_clusters(handler: AccessV2) -> None:
    handler.who()
    jobs = handler.api.store.unfinished_jobs()
    handler.answer(200, {name: _virtual_cluster(name, jobs) for name in handler.api.virtual_clusters})


async def _one_virtual_cluster(handler: AccessV2, name: str) -> None:
    handler.who()
    if name not in handler.api.virtual_clusters:
        raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
    handler.answer(200, _virtual_cluster(name, handler.api.store.unfinished_jobs()))


async def _storages(handler: AccessV2) -> None:
    handler.who()
    storages = handler.api.storages
    handler.answer(
        200, {"storages": [{**storages.summary(name), "default": True} for name in storages.names()]}
    )


async def _one_storage(handler: AccessV2, name: str) -> None:
    handler.who()
    if name not in handler.api.storages.names():
        raise ApiError(404, "NoStorageError", f"Storage {name} is not found.")
    handler.answer(200, handler.api.storages.detail(name))


async def _sku_types(handler: AccessV2) -> None:
    handler.who()
    handler.answer(200, {})


async def _alerts(handler: AccessV2) -> None:
    handler.who()
    raise ApiError(500, "ECONNREFUSED", "there is no alert manager on this machine")


async def _nodes(handler: AccessV2) -> None:
    handler.require_admin(handler.who())
    total = _machine()
    capacity = {"cpu": str(total["cpu"]), "memory": f"{total['memory']}Mi", "nvidia.com/gpu": str(_GPUS)}
    node = {
        "metadata": {"name": "localhost", "labels": {"pai-worker": "true"}},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    handler.answer(200, {"items": [node]})


ROUTES = (
    route("GET", "/api/v2/virtual-clusters", _virtual_clusters),
    route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
    route("GET", "/api/v2/storages", _storages),
    route("GET", "/api/v2/storages/:name", _one_storage),
    route("GET", "/api/v2/cluster/sku-types", _sku_types),
    route("GET", "/api/v2/alerts", _alerts),
    route("GET", "/api/v2/kubernetes/nodes", _nodes),
)
