"""jobStatusChangeNotification: an event in the job's list, and a call of the webhook where there is one.

OpenPAI 1.8 sends mails. Here a job that asks for it in its extras has an event
for each change, and the webhook gets a POST of JSON, which docs/local-reference.md
describes. What becomes of a call is nobody's concern but the log's: no job
waits for it or fails with it.
"""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from luigi_pai.local.store.database import now_ms
from luigi_pai.local.views.job_states import job_state
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Sequence

    from luigi_pai.local.config.settings import Address
    from luigi_pai.local.store.records import Job

__all__ = ["CHANGES", "Webhook", "changed_state", "wanted_changes"]

CHANGES = {
    "running": "is running",
    "succeeded": "has succeeded",
    "stopped": "was stopped",
    "failed": "has failed",
    "retried": "is tried again",
}
_PAUSES = (1.0, 5.0)
"""Seconds before the second and the third try of a call."""
_CALL_SECONDS = 5.0
_MOST_CALLS = 1000
_CLOSING_SECONDS = 1.0


def wanted_changes(job: Job) -> list[str]:
    """Return the changes of state for which a v2 job wants notifications."""
    extras = job.config.get("extras") if isinstance(job.config, dict) else None
    wanted = extras.get("jobStatusChangeNotification") if isinstance(extras, dict) else None
    return [change for change in CHANGES if wanted.get(change) is True] if isinstance(wanted, dict) else []


def changed_state(job: Job, reason: str) -> str | None:
    """Return the change that an event of a job is, if the job wants notifications of it."""
    changes = {"AttemptBegan": "retried" if job.retries else "running", "JobEnded": job_state(job).lower()}
    change = changes.get(reason)
    return change if change is not None and change in wanted_changes(job) else None


class Webhook:
    """Calls a URL in the background.

    Args:
        url: where to POST; it may have a token in it, so it is never shown.
        address: where the job's page is.
        log: gets a line for each call that failed.
        pauses: seconds before each further try.
    """

    def __init__(
        self, url: str, address: Address, log: logging.Logger, pauses: Sequence[float] = _PAUSES
    ) -> None:
        self._url = url
        self._address = address
        self._log = log
        self._pauses = pauses
        self._client = SimpleAsyncHTTPClient(force_instance=True)
        self._calls: set[asyncio.Task[None]] = set()

    def prepare(self, job: Job, change: str) -> Callable[[], None]:
        """Return what tells of a change as it is now."""
        return functools.partial(self._call, job.full_name, self._body(job, change))

    def _call(self, name: str, body: dict[str, Any]) -> None:
        """Tell of a change, soon; at most 1,000 calls wait at a time, further ones are left out."""
        if len(self._calls) >= _MOST_CALLS:
            self._log.warning("webhook: too many calls wait; %s of %s is left out", body["change"], name)
            return
        call = asyncio.get_running_loop().create_task(self._post(name, body))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def close(self) -> None:
        """Give the calls that are under way a second, and leave the others."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=_CLOSING_SECONDS)
        for call in self._calls:
            call.cancel()
        self._client.close()

    def _body(self, job: Job, change: str) -> dict[str, Any]:
        """Return what is sent: nothing that a job printed or was given, so no secret."""
        return {
            "event": "jobStatusChange",
            "change": change,
            "state": job_state(job),
            "jobName": job.name,
            "username": job.username,
            "virtualCluster": job.virtual_cluster,
            "retries": job.retries,
            "exitCode": job.exit_code,
            "submissionTime": job.created,
            "completedTime": job.completed,
            "time": now_ms(),
            "url": f"{self._address.url}{job_link(job)}",
        }

    async def _post(self, name: str, body: dict[str, Any]) -> None:
        problem = ""
        for pause in (0.0, *self._pauses):
            await asyncio.sleep(pause)
            try:
                request = HTTPRequest(
                    self._url,
                    method="POST",
                    headers={"Content-Type": "application/json", "User-Agent": "luigi-pai local"},
                    body=json.dumps(body),
                    connect_timeout=_CALL_SECONDS,
                    request_timeout=_CALL_SECONDS,
                    follow_redirects=False,
                )
                answer = await self._client.fetch(request, raise_error=False)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a webhook, jobs go on
                problem = type(error).__name__  # its text may have the URL in it
            else:
                if answer.error is None:
                    return
                problem = f"status {answer.code}"
        host = urlsplit(self._url).hostname
        change = CHANGES[body["change"]]
        self._log.warning("webhook at %s: not notified that %s %s: %s", host, name, change, problem)
