"""The routes of OpenPAI 1.8 and LTP for what the cluster has: virtual clusters, storages, nodes."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.accounts.groups import ADMINISTRATORS
from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import Number, Object, String
from luigi_pai.local.rest.base.api import route
from luigi_pai.local.store.records import framework_name

if TYPE_CHECKING:
    from luigi_pai.local.config.virtual_clusters import Resources
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.rest.v2.access import AccessV2
    from luigi_pai.local.store.records import Job, Task

__all__ = ["LTP_ROUTES", "ROUTES"]

_HUNDRED = 100
_NODE = "localhost"
_NAMESPACE = "default"
_TEXT = String(allow_empty=True)
_VIRTUAL_CLUSTER = Object(
    {
        "vcCapacity": Number(minimum=0, maximum=_HUNDRED, required=True),
        "vcMaxCapacity": Number(minimum=0, maximum=_HUNDRED),
        "description": _TEXT,
        "externalName": _TEXT,
    },
    root=True,
)
_STATUS = Object({"vcStatus": String(one_of=("stopped", "running"), required=True)}, root=True)


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
    bearer = handler.who()
    if "nodes" in handler.request.query_arguments:
        scheduler = handler.api.launcher.scheduler
        total, used = scheduler.total.gpu, sum(scheduler.used(name).gpu for name in scheduler.clusters)
        handler.answer(200, {_NODE: {"gpuUsed": used, "gpuAvailable": total - used, "gpuTotal": total}})
        return
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    user = handler.api.users.get(bearer.username)
    if handler.api.release.own_virtual_clusters and user is not None:
        shown = {name: shown[name] for name in handler.api.groups.virtual_clusters(user)}
    handler.answer(200, shown)


async def _one_virtual_cluster(handler: AccessV2, name: str) -> None:
    handler.who()
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if name not in shown:
        raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
    handler.answer(200, shown[name])


async def _no_change(handler: AccessV2, name: str, schema: Object | None, what: str) -> None:
    """Answer a change of a virtual cluster, which 1.8 on Kubernetes has not."""
    if not re.fullmatch("[A-Za-z0-9_]+", name):
        sentence = "VC name should only contain alpha-numeric and underscore characters"
        raise ApiError(400, "InvalidParametersError", sentence)
    if name == "default":
        raise ApiError(403, "ForbiddenUserError", "Update operation to default vc isn't allowed")
    bearer = handler.person()
    if schema is not None:
        handler.checked(schema)
    handler.require_admin(bearer)
    group = handler.api.groups.get(name)
    if what == "updateVc" and group is not None and not handler.api.groups.of_virtual_clusters([name]):
        raise ApiError(409, "ConflictVcError", f"Group name {name} already exists.")
    if what == "removeVc" and name == ADMINISTRATORS:
        raise ApiError(403, "ForbiddenUserError", f"The name '{name}' is occupied by admin group.")
    raise ApiError(400, "NotImplementedError", f"{what} not implemented in k8s")


async def _put_virtual_cluster(handler: AccessV2, name: str) -> None:
    await _no_change(handler, name, _VIRTUAL_CLUSTER, "updateVc")


async def _delete_virtual_cluster(handler: AccessV2, name: str) -> None:
    await _no_change(handler, name, None, "removeVc")


async def _put_status(handler: AccessV2, name: str) -> None:
    stopped = isinstance(handler.body, dict) and handler.body.get("vcStatus") == "stopped"
    await _no_change(handler, name, _STATUS, "stopVc" if stopped else "activeVc")


async def _storages(handler: AccessV2) -> None:
    bearer = handler.who()
    defaults = handler.storages(bearer, default=True)
    only_defaults = handler.request.query_arguments.get("default") == [b"true"]
    names = defaults if only_defaults else handler.storages(bearer)
    shown = [{**handler.api.storages.summary(name), "default": name in defaults} for name in names]
    handler.answer(200, {"storages": shown})


async def _one_storage(handler: AccessV2, name: str) -> None:
    bearer = handler.who()
    if name not in handler.api.storages.names():
        raise ApiError(404, "NoStorageError", f"Storage {name} is not found.")
    if name not in handler.storages(bearer):
        sentence = f"User {bearer.username} is not allowed to access {name}."
        raise ApiError(403, "ForbiddenUserError", sentence)
    handler.answer(200, handler.api.storages.detail(name))


async def _refresh_storages(handler: AccessV2) -> None:
    handler.require_admin(handler.who())
    handler.answer(200, {"status": 200})


def _chosen(handler: AccessV2, name: str | None) -> list[str] | None:
    """Return the names that a request to one of the older routes selects; None for all."""
    return [name] if name is not None else handler.get_query_arguments("names") or None


async def _storage_configs(handler: AccessV2, name: str | None = None) -> None:
    """Answer one of the older routes for storages, as clients before 1.0 read them."""
    bearer = handler.who()
    known, chosen = handler.api.storages, _chosen(handler, name)
    defaults = handler.storages(bearer, default=True)
    shown = []
    for item in handler.storages(bearer):
        if chosen is None or item in chosen:
            server = known.summary(item)["volumeName"]
            mount = {"mountPoint": f"/mnt/{item}", "path": "", "server": server, "permission": "rw"}
            is_default = item in defaults
            shown.append({"name": item, "default": is_default, "servers": [server], "mountInfos": [mount]})
    _answer_older(handler, name, shown, "Config not found.")


async def _storage_servers(handler: AccessV2, name: str | None = None) -> None:
    bearer = handler.who()
    known, chosen = handler.api.storages, _chosen(handler, name)
    shown = []
    for item in handler.storages(bearer):
        detail = known.detail(item)
        if chosen is None or detail["volumeName"] in chosen:
            data = {"address": detail["data"]["server"], "rootPath": detail["data"]["path"]}
            shown.append({"spn": detail["volumeName"], "type": "nfs", "data": data, "extension": {}})
    _answer_older(handler, name, shown, "Server not found.")


def _answer_older(handler: AccessV2, name: str | None, shown: list[dict[str, Any]], missing: str) -> None:
    if name is not None and len(shown) != 1:
        raise ApiError(500, "UnknownError", missing)
    handler.answer(200, shown if name is None else shown[0])


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
        "metadata": {"name": _NODE, "labels": {"pai-worker": "true"}},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    handler.answer(200, {"items": [node]})


async def _pods(handler: AccessV2) -> None:
    """Answer with the pods that the tasks of running v2 jobs would be."""
    handler.require_admin(handler.who())
    items = [
        _pod(job, task)
        for job in handler.api.store.unfinished_jobs()
        if job.release.api == "v2"
        for attempt in [handler.api.store.last_attempt(job)]
        if attempt is not None and attempt.completed is None
        for task in handler.api.store.tasks(attempt)
        if task.launched is not None and task.completed is None
    ]
    if handler.get_query_argument("namespace", _NAMESPACE) != _NAMESPACE:
        items = []
    handler.answer(200, {"items": items})


def _pod(job: Job, task: Task) -> dict[str, Any]:
    """Return a running task as Kubernetes shows its pod, as far as there is anything to show here."""
    framework = framework_name(job)
    labels = {
        "FC_FRAMEWORK_NAME": framework,
        "FC_TASKROLE_NAME": task.role,
        "FC_TASK_INDEX": str(task.index),
        "jobName": job.name,
        "userName": job.username,
        "virtualCluster": job.virtual_cluster,
    }
    launched = datetime.fromtimestamp((task.launched or 0) // 1000, timezone.utc)
    started = launched.isoformat().replace("+00:00", "Z")
    return {
        "metadata": {
            "name": f"{framework}-{task.role}-{task.index}",
            "namespace": _NAMESPACE,
            "uid": task.container_id,
            "labels": labels,
            "creationTimestamp": started,
        },
        "spec": {"nodeName": _NODE, "containers": [{"name": "app"}]},
        "status": {
            "phase": "Running",
            "hostIP": CONTAINER_IP,
            "podIP": CONTAINER_IP,
            "startTime": started,
        },
    }


ROUTES = (
    route("GET", "/api/v2/virtual-clusters", _all_virtual_clusters),
    route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
    route("PUT", "/api/v2/virtual-clusters/:name", _put_virtual_cluster),
    route("DELETE", "/api/v2/virtual-clusters/:name", _delete_virtual_cluster),
    route("PUT", "/api/v2/virtual-clusters/:name/status", _put_status),
    route("GET", "/api/v2/storages", _storages),
    route("GET", "/api/v2/storages/:name", _one_storage),
    route("GET", "/api/v2/storage/config", _storage_configs),
    route("GET", "/api/v2/storage/config/:name", _storage_configs),
    route("GET", "/api/v2/storage/server", _storage_servers),
    route("GET", "/api/v2/storage/server/:name", _storage_servers),
    route("GET", "/api/v2/cluster/sku-types", _sku_types),
    route("GET", "/api/v2/alerts", _alerts),
    route("GET", "/api/v2/kubernetes/nodes", _nodes),
    route("GET", "/api/v1/kubernetes/nodes", _nodes),
    route("GET", "/api/v2/kubernetes/pods", _pods),
    route("GET", "/api/v1/kubernetes/pods", _pods),
)

LTP_ROUTES = (route("POST", "/api/v2/storages/refresh", _refresh_storages),)
"""Those that came with LTP."""
