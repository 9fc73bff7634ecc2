"""The v2 REST APIs of OpenPAI 1.8 and LTP 1.5: logins, tokens, virtual clusters, storages, users, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base import checked_body, not_allowed, route
from luigi_pai.local.rest.v2 import jobs
from luigi_pai.local.rest.v2.access import AccessV2

if TYPE_CHECKING:
    from luigi_pai.local.config.settings import Resources
    from luigi_pai.local.launcher.scheduler import Scheduler

_WEEK = 7 * 24 * 3600
_LOGIN = {"username": "[A-Za-z0-9_.-]+", "password": ".{6,}"}
_EXPIRATION = {"expiration": range(60, _WEEK + 1)}


async def _welcome(handler: AccessV2) -> None:
    handler.answer_text("text/plain", "PAI RESTful API v2 (beta version)")


async def _info(handler: AccessV2) -> None:
    version = handler.api.release.version
    handler.answer(
        200, {"name": "PAI RESTful API", "version": version, "launcherType": "k8s", "authnMethod": "basic"}
    )


async def _login_info(handler: AccessV2) -> None:
    handler.answer(
        200, {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
    )


async def _login(handler: AccessV2) -> None:
    """Log in for a week; ``expiration`` must be valid, but has no effect."""
    asked = checked_body(handler.body, _LOGIN, _EXPIRATION)
    await handler.log_in(asked["username"], asked["password"], _WEEK)


async def _logout(handler: AccessV2) -> None:
    handler.authenticated_user()
    handler.api.tokens.revoke(handler.credentials()[1])
    handler.answer(200, {"message": "Logout successfully"})


async def _tokens(handler: AccessV2) -> None:
    handler.answer(200, {"tokens": handler.api.tokens.of_user(handler.authenticated_user().username)})


async def _check_token(handler: AccessV2) -> None:
    bearer = handler.authenticated()
    shown = {**bearer.claims, "admin": handler.api.users.is_admin(bearer.username)}
    if handler.api.release.private_jobs:
        shown["vcadmins"] = []  # the virtual clusters that the user administers; only LTP shows them
    handler.answer(200, shown)


async def _new_application_token(handler: AccessV2) -> None:
    name = handler.authenticated_user().username
    token = handler.api.tokens.issue(name, admin=handler.api.users.is_admin(name), expiration=None)
    handler.answer(200, {"token": token, "application": True})


async def _revoke(handler: AccessV2, token: str) -> None:
    name = handler.authenticated_user().username
    if token not in handler.api.tokens.of_user(name):
        raise not_allowed(name, "do this operation.")
    handler.api.tokens.revoke(token)
    handler.answer(200, {"message": "revoke successfully"})


_LOGIN_ROUTES = (
    route("*", "/api/v1", _info),
    route("*", "/api/v2", _welcome),
    route("GET", "/api/v2/info", _info),
    *(
        found
        for prefix in ("/api/v1", "/api/v2")
        for found in (
            route("GET", f"{prefix}/authn/info", _login_info),
            route("POST", f"{prefix}/authn/basic/login", _login),
            route("DELETE", f"{prefix}/authn/basic/logout", _logout),
        )
    ),
    *(
        found
        for prefix in ("/api/v1/token", "/api/v2/tokens")
        for found in (
            route("GET", prefix, _tokens),
            route("POST", prefix, _login),
            route("POST", f"{prefix}/application", _new_application_token),
            route("GET", f"{prefix}/check", _check_token),
            route("DELETE", f"{prefix}/:token", _revoke),
        )
    ),
)

_NEW = {"username": "[A-Za-z0-9_-][A-Za-z0-9_.-]*", "password": ".{6,}"}
_PLAIN: dict[str, Any] = {
    "email": ("",),
    "virtualCluster": ([], ["default"]),
    "admin": (False,),
    "extension": ({},),
}


def _resources(of: Resources) -> dict[str, int]:
    return {"cpu": of.cpu, "memory": of.memory, "gpu": of.gpu, "vCores": of.cpu, "GPUs": of.gpu}


def _virtual_clusters(scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    """Return every virtual cluster; percentages are shares of all GPUs, as on the real server."""
    all_gpus = scheduler.total.gpu
    shown: dict[str, dict[str, Any]] = {}
    for name, has in scheduler.clusters.items():
        used = scheduler.used(name)
        total = _resources(has)
        capacity = 100 * has.gpu / all_gpus if all_gpus else 0
        shown[name] = {
            "capacity": capacity,
            "usedCapacity": 100 * used.gpu / all_gpus if all_gpus else 0,
            "dedicated": False,
            "resourcesUsed": _resources(used),
            "resourcesGuaranteed": total,
            "resourcesTotal": total,
            **({"maxCapacity": capacity} if all_gpus else {}),
        }
    return shown


async def _all_virtual_clusters(handler: AccessV2) -> None:
    username = handler.authenticated().username
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if handler.api.release.own_virtual_clusters:
        shown = {name: shown[name] for name in handler.api.users.virtual_clusters(username)}
    handler.answer(200, shown)


async def _one_virtual_cluster(handler: AccessV2, name: str) -> None:
    handler.authenticated()
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if name not in shown:
        raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
    handler.answer(200, shown[name])


def _storage(name: str) -> dict[str, Any]:
    return {"name": name, "share": True, "volumeName": f"{name}-pv"}


async def _storages(handler: AccessV2) -> None:
    handler.authenticated()
    defaults = handler.default_storages()
    only_defaults = handler.get_query_argument("default", "") == "true"
    names = defaults if only_defaults else handler.api.storages.names()
    shown = [{**_storage(name), "default": name in defaults} for name in names]
    handler.answer(200, {"storages": shown})


async def _one_storage(handler: AccessV2, name: str) -> None:
    """Show a storage as NFS of this machine, where a client finds the folder at the same path."""
    handler.authenticated()
    if name not in handler.api.storages.names():
        raise ApiError(404, "NoStorageError", f"Storage {name} is not found.")
    data = {"server": CONTAINER_IP, "path": str(handler.api.storages.folder(name))}
    more = {"type": "nfs", "data": data, "readOnly": False, "mountOptions": ["nfsvers=4.1"]}
    handler.answer(200, _storage(name) | more)


async def _new_user(handler: AccessV2) -> None:
    bearer = handler.authenticated_user()
    asked = checked_body(handler.body, _NEW, _PLAIN)
    if not handler.api.users.is_admin(bearer.username):
        raise ApiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")
    await handler.add_user(asked["username"], asked["password"], "User is created successfully")


_CLUSTER_ROUTES = (
    route("GET", "/api/v2/virtual-clusters", _all_virtual_clusters),
    route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
    route("GET", "/api/v2/storages", _storages),
    route("GET", "/api/v2/storages/:name", _one_storage),
    route("POST", "/api/v2/users", _new_user),
    route("POST", "/api/v2/user", _new_user),
)


class V2Handler(AccessV2):
    """The routes of OpenPAI 1.8 and LTP 1.5 under /api that this server has."""

    routes = (*_LOGIN_ROUTES, *_CLUSTER_ROUTES, *jobs.ROUTES)
