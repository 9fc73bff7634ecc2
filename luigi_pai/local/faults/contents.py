"""The control routes of what the server holds: job scripts, and jobs and files that are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.fault_rules import Faults
from luigi_pai.local.config.job_scripts import parse_job_scripts
from luigi_pai.local.faults.control import Control
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    from luigi_pai.local.config.job_scripts import JobScripts
    from luigi_pai.local.rest.base.api import Api

__all__ = ["ContentsControl", "JobScriptControl"]


class JobScriptControl(Control):
    """``POST`` of rules, which are tried after those that are there."""

    def initialize(self, api: Api, scripts: JobScripts) -> None:
        """Store what all requests share."""
        self._api = api
        self._scripts = scripts

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

    def initialize(self, api: Api, faults: Faults, scripts: JobScripts) -> None:
        """Store what all requests share."""
        self._api = api
        self._faults = faults
        self._scripts = scripts

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
        ended = [job for job in self._api.store.jobs(str(api)) if job.sub_state == COMPLETED]
        for job in ended:
            if job.completed is not None and job.completed < before:
                self._api.folders.remove(job.id, job.name)
                self._api.store.purge_job(job)
        self.answer(200, {})
