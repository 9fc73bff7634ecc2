"""The handlers of the pages: the list of jobs, a job's page, the stop button."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from luigi_pai.local.json_http import SmallBodyHandler
from luigi_pai.local.pages.html import page, tag
from luigi_pai.local.pages.jobs import job_page, jobs_page
from luigi_pai.local.store.records import COMPLETED
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.pages.access import StopForms
    from luigi_pai.local.rest.base import Api
    from luigi_pai.local.store.records import Job

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class _Page(SmallBodyHandler):
    """A page that loads nothing from elsewhere and cannot be framed."""

    def initialize(self, api: Api, forms: StopForms) -> None:
        self.api = api
        self.forms = forms

    def set_default_headers(self) -> None:
        """Forbid everything that these pages do not need."""
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Referrer-Policy", "same-origin")  # with no-referrer, forms say "Origin: null"
        self.set_header("Cache-Control", "no-store")

    def query(self) -> dict[str, str]:
        """Return the parameters of the address, the last one of each name."""
        return {name: self.get_query_argument(name) for name in self.request.query_arguments}

    def show(self, text: str, status: int = 200) -> None:
        """Send a page."""
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(text)

    def show_refusal(self, status: int, title: str, reason: str) -> None:
        """Answer with the reason of a refusal."""
        self.show(page(title, tag("p", reason)), status)

    def job(self, query: Mapping[str, str]) -> Job | None:
        """Return the job that a query names, of one user if it names them."""
        return self.api.store.job(query.get("jobName", ""), query.get("username"))


class JobListPage(_Page):
    """The jobs of this server."""

    def get(self) -> None:
        """Show the newest jobs."""
        self.show(jobs_page(self.api.store))


class JobPage(_Page):
    """One job."""

    def get(self) -> None:
        """Show a job."""
        query = self.query()
        job = self.job(query)
        if job is None:
            self.show_refusal(404, "No such job", "It is not there, or not any more.")
            return
        form = None if job.sub_state == COMPLETED else self.forms.form(job)
        self.show(job_page(self.api, job, form))


class StopJob(_Page):
    """The stop button."""

    def post(self) -> None:
        """Stop a job, and lead back to its page."""
        fields = dict(parse_qsl(bytes(self.content).decode("utf-8", "replace"), keep_blank_values=True))
        job = self.job(fields)
        if job is None:
            self.show_refusal(404, "No such job", "It is not there, or not any more.")
            return
        refusal = self.forms.refusal(self.request, job, fields)
        if refusal is not None:
            self.show_refusal(403, "The job was not stopped", refusal)
            return
        self.api.launcher.stop(job)
        self.redirect(job_link(job), status=303)
