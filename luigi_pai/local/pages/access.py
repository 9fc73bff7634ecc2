"""The forms that stop jobs.

A form carries a token that only pages of this server have, so that no page of another site can send it (the
application itself refuses a foreign Origin or Host). It asks for no password: the door admits this user only.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from luigi_pai.local.pages.html import Html, tag

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from luigi_pai.local.store.records import Job

_SAME_SITE = (None, "same-origin", "none")


class StopForms:
    """The forms that stop jobs, of one run of the server."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def form(self, job: Job) -> Html:
        """Return the form that stops a job."""
        hidden = {
            "username": job.username,
            "jobName": job.name,
            "token": self._token(job),
        }
        fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
        stop = tag("button", "Stop this job", id="stop-job")
        return tag("form", *fields, stop, method="post", action="/stop-job")

    def refusal(self, request: HTTPServerRequest, job: Job, fields: dict[str, str]) -> str | None:
        """Return why a submitted form may not stop a job; None if it may."""
        if request.headers.get("Sec-Fetch-Site") not in _SAME_SITE:
            return "This came from a page of another site."
        if not hmac.compare_digest(self._token(job).encode(), fields.get("token", "").encode()):
            return (
                "This form is of an earlier run of the server. Go back to the job's page and stop it there."
            )
        return None

    def _token(self, job: Job) -> str:
        return hmac.digest(self._key, f"stop {job.id}".encode(), "sha256").hex()
