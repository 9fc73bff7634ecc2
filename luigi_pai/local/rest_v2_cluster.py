"""The routes of OpenPAI 1.8 for what the cluster has: virtual clusters, storages, nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.rest import route
from luigi_pai.local.wire import ApiError

if TYPE_CHECKING:
    from luigi_pai.local.access_v2 import AccessV2
    from luigi_pai.local.scheduler import Scheduler
    from luigi_pai.local.virtual_clusters import Resources

__all__ = ["ROUTES"]

_HUNDRED = 100


def _resources(of: Resources) -> dict[str, int]:
    return {"cpu": of.cpu, "memory": of.memory, "gpu": of.gpu, "vCores": of.cpu, "GPUs": of.gpu}


def _virtual_clusters(scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    """Return every virtual cluster; percentages are of all GPUs, as the server counts them."""
    all_gpus = scheduler.total.gpu
    shown: dict[str, dict[str, Any]] = {}
    for cluster in scheduler.clusters.values():
        used = scheduler.used(cluster.name)
        total = _resources(cluster.has)
        capacity = _HUNDRED * cluster.has.gpu / all_gpus if all_gpus else 0
        shown[cluster.name] = {
            "capacity": capacity,
            "usedCapacity": _HUNDRED * used.gpu / all_gpus if all_gpus else 0,
            "dedicated": False,
            "resourcesUsed": _resources(used),
            "resourcesGuaranteed": total,
            "resourcesTotal": total,
            **({"maxCapacity": capacity} if all_gpus else {}),
        }
    return shown


async def _all_virtual_clusters(handler: AccessV2) -> None:
    handler.who()
    handler.answer(200, _virtual_clusters(handler.api.launcher.scheduler))


async def _one_virtual_cluster(handler: AccessV2, name: str) -> None:
    handler.who()
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if name not in shown:
        raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
    handler.answer(200, shown[name])


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
    total = handler.api.launcher.scheduler.total
    capacity = {"cpu": str(total.cpu), "memory": f"{total.memory}Mi", "nvidia.com/gpu": str(total.gpu)}
    node = {
        "metadata": {"name": "localhost", "labels": {"pai-worker": "true"}},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    handler.answer(200, {"items": [node]})


ROUTES = (
    route("GET", "/api/v2/virtual-clusters", _all_virtual_clusters),
    route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
    route("GET", "/api/v2/storages", _storages),
    route("GET", "/api/v2/storages/:name", _one_storage),
    route("GET", "/api/v2/cluster/sku-types", _sku_types),
    route("GET", "/api/v2/alerts", _alerts),
    route("GET", "/api/v2/kubernetes/nodes", _nodes),
)
