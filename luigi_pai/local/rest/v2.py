"""The v2 REST APIs of OpenPAI 1.8 and LTP 1.5: logins, tokens, virtual clusters, storages, users, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base import checked_body, not_allowed, route
from luigi_pai.local.rest.v2_jobs import JobHandler

if TYPE_CHECKING:
    from luigi_pai.local.accounts.users import Bearer
    from luigi_pai.local.config.settings import Resources
    from luigi_pai.local.launcher.scheduler import Scheduler

_WEEK = 7 * 24 * 3600
_LOGIN = {"username": "[A-Za-z0-9_.-]+", "password": ".{6,}"}
_EXPIRATION = {"expiration": range(60, _WEEK + 1)}
_TOKENS = "/api/(?:v1/token|v2/tokens)"
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
    """Return all virtual clusters. Percentages are shares of all GPUs, as on the real server."""
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


def _storage(name: str) -> dict[str, Any]:
    return {"name": name, "share": True, "volumeName": f"{name}-pv"}


class V2Handler(JobHandler):
    """The OpenPAI 1.8 and LTP 1.5 routes under /api that this server implements."""

    invalid_token = "Your token is invalid."  # noqa: S105 - a message

    def body_value(self) -> Any:
        """Return the body as a string if its content type is ``text/*``; otherwise, read it as in v1."""
        kind = self.request.headers.get("Content-Type", "").strip().lower()
        if self.too_large or not kind.startswith("text/"):
            return super().body_value()
        return bytes(self.content).decode("utf-8", "replace") or {}

    def _user(self) -> Bearer:
        """Return the authenticated user; raises ApiError 403 for an application token."""
        bearer = self.authenticated()
        if bearer.application:
            raise ApiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
        return bearer

    async def _welcome(self) -> None:
        self.respond_string("text/plain", "PAI RESTful API v2 (beta version)")

    async def _info(self) -> None:
        version = self.api.release.version
        self.respond(
            200,
            {"name": "PAI RESTful API", "version": version, "launcherType": "k8s", "authnMethod": "basic"},
        )

    async def _login_info(self) -> None:
        self.respond(
            200, {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
        )

    async def _login(self) -> None:
        """Log in for a week. ``expiration`` must be valid, but has no effect."""
        asked = checked_body(self.body, _LOGIN, _EXPIRATION)
        await self.log_in(asked["username"], asked["password"], _WEEK)

    async def _logout(self) -> None:
        self._user()
        self.api.tokens.revoke(self.credentials()[1])
        self.respond(200, {"message": "Logout successfully"})

    async def _tokens(self) -> None:
        self.respond(200, {"tokens": self.api.tokens.valid_tokens(self._user().username)})

    async def _check_token(self) -> None:
        bearer = self.authenticated()
        shown = {**bearer.claims, "admin": self.is_admin(bearer)}
        if self.api.release.private_jobs:
            shown["vcadmins"] = []  # virtual clusters that the user administers; only LTP shows them
        self.respond(200, shown)

    async def _new_application_token(self) -> None:
        name = self._user().username
        token = self.api.tokens.issue(name, admin=self.api.users.is_admin(name), expiration=None)
        self.respond(200, {"token": token, "application": True})

    async def _revoke(self, token: str) -> None:
        name = self._user().username
        if token not in self.api.tokens.valid_tokens(name):
            raise not_allowed(name, "do this operation.")
        self.api.tokens.revoke(token)
        self.respond(200, {"message": "revoke successfully"})

    async def _all_virtual_clusters(self) -> None:
        username = self.authenticated().username
        shown = _virtual_clusters(self.api.scheduler)
        if self.api.release.own_virtual_clusters:
            shown = {name: shown[name] for name in self.api.users.virtual_clusters(username)}
        self.respond(200, shown)

    async def _one_virtual_cluster(self, name: str) -> None:
        self.authenticated()
        shown = _virtual_clusters(self.api.scheduler)
        if name not in shown:
            raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
        self.respond(200, shown[name])

    async def _storages(self) -> None:
        self.authenticated()
        defaults = self.api.storages.defaults()
        only_defaults = self.get_query_argument("default", "") == "true"
        names = defaults if only_defaults else self.api.storages.names()
        shown = [{**_storage(name), "default": name in defaults} for name in names]
        self.respond(200, {"storages": shown})

    async def _one_storage(self, name: str) -> None:
        """Show a storage as NFS on this machine, where clients find the folder at the same path."""
        self.authenticated()
        if name not in self.api.storages.names():
            raise ApiError(404, "NoStorageError", f"Storage {name} is not found.")
        data = {"server": CONTAINER_IP, "path": str(self.api.storages.folder(name))}
        more = {"type": "nfs", "data": data, "readOnly": False, "mountOptions": ["nfsvers=4.1"]}
        self.respond(200, _storage(name) | more)

    async def _new_user(self) -> None:
        bearer = self._user()
        asked = checked_body(self.body, _NEW, _PLAIN)
        if not self.is_admin(bearer):
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")
        await self.add_user(asked["username"], asked["password"], "User is created successfully")

    routes = (
        route("*", "/api/v1", _info),
        route("*", "/api/v2", _welcome),
        route("GET", "/api/v2/info", _info),
        route("GET", "/api/v[12]/authn/info", _login_info),
        route("POST", "/api/v[12]/authn/basic/login", _login),
        route("DELETE", "/api/v[12]/authn/basic/logout", _logout),
        route("GET", _TOKENS, _tokens),
        route("POST", _TOKENS, _login),
        route("POST", f"{_TOKENS}/application", _new_application_token),
        route("GET", f"{_TOKENS}/check", _check_token),
        route("DELETE", f"{_TOKENS}/:token", _revoke),
        route("GET", "/api/v2/virtual-clusters", _all_virtual_clusters),
        route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
        route("GET", "/api/v2/storages", _storages),
        route("GET", "/api/v2/storages/:name", _one_storage),
        route("POST", "/api/v2/users?", _new_user),
        *JobHandler.job_routes,
    )
