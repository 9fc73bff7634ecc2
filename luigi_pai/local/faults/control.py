"""Control routes, for administrators on this machine: faults, job scripts, and what the server holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.fault_rules import Faults, parse_faults
from luigi_pai.local.container.scripted import parse_job_scripts
from luigi_pai.local.json_http import ApiError, RestHandler, basic_credentials, is_from_here
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.local.container.scripted import JobScripts
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job, User

__all__ = ["ContentsControl", "FaultControl", "JobScriptControl", "purge_ended"]


class Control(RestHandler):
    """A route that changes how the server behaves."""

    def initialize(self, api: Api, faults: Faults, scripts: JobScripts) -> None:
        """Store what all requests share."""
        self._api = api
        self._faults = faults
        self._scripts = scripts

    async def _allow(self) -> None:
        """Check that an administrator on this machine sent the request, with a token or a password.

        Raises:
            ApiError: 403 or 401.
        """
        if not is_from_here(self.request):
            raise ApiError(403, "ForbiddenUserError", "This server is controlled from this machine only.")
        user = await self._user()
        if user is None:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        if not user.admin:
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")

    async def _user(self) -> User | None:
        """Return the user that token, or name and password, authenticate; None without valid ones."""
        scheme, credentials = self.credentials()
        if scheme == "basic":
            return await self._api.users.with_password(*basic_credentials(credentials))
        bearer = self._api.tokens.check(credentials) if scheme == "bearer" else None
        return None if bearer is None else self._api.users.get(bearer.username)


class FaultControl(Control):
    """``GET``, ``PUT`` and ``DELETE`` of the rules in force."""

    async def get(self) -> None:
        """Answer with the rules, and how many requests each has seen and struck."""
        await self._allow()
        self.answer(200, self._faults.shown())

    async def put(self) -> None:
        """Replace the rules; their counts and random numbers start again."""
        await self._allow()
        try:
            self._faults.replace_by(parse_faults(self.body_value()))
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, self._faults.shown())

    async def delete(self) -> None:
        """Clear the rules."""
        await self._allow()
        self._faults.replace_by(Faults())
        self.answer(200, self._faults.shown())


class JobScriptControl(Control):
    """``POST`` of rules, which are tried after those that are there."""

    async def post(self) -> None:
        """Add rules."""
        await self._allow()
        try:
            self._scripts.rules += parse_job_scripts(self.body_value())
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, {"rules": len(self._scripts.rules)})


class ContentsControl(Control):
    """``GET`` of all jobs, ``DELETE`` of everything, ``POST`` to delete jobs that ended long ago."""

    async def get(self) -> None:
        """Show which jobs there are, in the order in which they were submitted."""
        await self._allow()
        store = self._api.store
        jobs = sorted((job for api in store.releases for job in store.jobs(api)), key=lambda job: job.id)
        shown = [{"name": job.name, "username": job.username, "api": job.release.api} for job in jobs]
        self.answer(200, {"jobs": shown})

    async def delete(self) -> None:
        """Delete all jobs, all files of the server's own HDFS and storages, faults and scripts."""
        await self._allow()
        self._faults.replace_by(Faults())
        await self._api.launcher.delete_all()
        self._scripts.clear()
        self._api.hdfs.empty()
        self._api.storages.empty()
        self.answer(200, {})

    async def post(self) -> None:
        """Delete the jobs of an API that ended before a time, as real servers do."""
        await self._allow()
        body = self.body_value()
        api, before = (body.get("api"), body.get("endedBefore")) if isinstance(body, dict) else (None, None)
        if api not in self._api.store.releases or not isinstance(before, int):
            raise ApiError(
                400, "InvalidParametersError", "not of the form {api: v1, endedBefore: milliseconds}"
            )
        jobs = [job for job in self._api.store.jobs(str(api)) if (job.completed or before) < before]
        purge_ended(self._api, jobs)
        self.answer(200, {})


def purge_ended(api: Api, jobs: Iterable[Job]) -> None:
    """Delete those of some jobs that have ended, with their files, as a real server's retention does."""
    for job in jobs:
        if job.sub_state == COMPLETED:
            api.folders.remove(job.id, job.name)
            api.store.purge_job(job)
