"""Handlers for the job list, the job page and its stop button; the HTML is in ``templates``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from luigi_pai.local.json_http import SmallBodyHandler
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    from luigi_pai.local.releases import Release
    from luigi_pai.local.store.records import Attempt, Job, Task

_TEMPLATES = str(Path(__file__).parent / "templates")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_AT_MOST = 100
"""Maximum number of jobs or tasks in a table."""
_TASK_STATES = ("FAILED", "RUNNING", "WAITING", "STOPPED", "SUCCEEDED")
"""The states in the order that tables sort tasks; the states that readers look for come first."""


class _Page(SmallBodyHandler):
    """A page that loads nothing from other servers and that no page can embed in a frame."""

    def get_template_path(self) -> str:
        """Return the templates folder."""
        return _TEMPLATES

    def get_template_namespace(self) -> dict[str, Any]:
        """Return the templates' namespace: functions, and the ``now`` and ``live`` variables.

        ``live`` is False here; a page that updates itself sets it to True.
        """
        functions = {function.__name__: function for function in (time_of_day, duration, job_link)}
        return {**super().get_template_namespace(), **functions, "now": now_ms(), "live": False}

    def set_default_headers(self) -> None:
        """Set headers that make the browser block everything these pages do not need."""
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)
        # with no-referrer, a form's Origin is null, and the server rejects the form
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def show_no_job(self) -> None:
        """Respond that the job does not exist."""
        self.set_status(404)
        self.render("page.html", title="No such job", reason="It is not there, or not any more.")


class JobListPage(_Page):
    """This server's jobs."""

    def get(self) -> None:
        """Show the newest jobs."""
        store = self.api.store
        count = int(store.rows("SELECT COUNT(*) FROM jobs WHERE NOT deleted")[0][0])
        jobs = store.select_jobs("WHERE NOT deleted ORDER BY id DESC LIMIT ?", [_AT_MOST])
        self.render("jobs.html", title="Jobs", live=True, count=count, jobs=jobs)


class JobPage(_Page):
    """One job, with its last attempt's tasks."""

    def get(self) -> None:
        """Show a job, its failed and running tasks first. If a task made the job fail, select its stderr.

        The log menu is not sorted by state, so that the selected log stays selected when states change.
        """
        user = self.get_query_argument("username", None)
        job = self.api.store.job(self.get_query_argument("jobName", ""), user)
        if job is None:
            self.show_no_job()
            return
        attempt = self.api.store.last_attempt(job)
        tasks, decided = [], None
        if attempt is not None:
            tasks = [(task, _state(task, attempt, job.release)) for task in self.api.store.tasks(attempt)]
            if attempt.exit_code and job.state == "FAILED":
                decided = f"{attempt.trigger_role}-{attempt.trigger_index}"
        self.render(
            "job.html",
            title=job.name,
            live=job.sub_state != COMPLETED,
            job=job,
            facts=self._facts(job, attempt),
            attempt=attempt,
            tasks=tasks,
            shown=sorted(tasks, key=lambda pair: _TASK_STATES.index(pair[1]))[:_AT_MOST],
            decided=decided,
        )

    def _facts(self, job: Job, attempt: Attempt | None) -> dict[str, object]:
        return {
            "User": job.username,
            "Virtual cluster": job.virtual_cluster,
            "Submitted": time_of_day(job.created),
            "Last attempt started": None if attempt is None else time_of_day(attempt.launched),
            "Ended": time_of_day(job.completed),
            "Duration": duration(job.created, job.completed or now_ms()),
            "Retries": job.retries,
            "Waits because": self.api.launcher.queue.why(job),
            "Exit code": job.exit_code,
        }


class StopJob(_Page):
    """The stop button.

    It needs no password: `luigi_pai.local.app` rejects connections from other users, and requests from
    other sites' pages.
    """

    def post(self) -> None:
        """Stop a job, and redirect to its page."""
        fields = dict(parse_qsl(bytes(self.content).decode("utf-8", "replace"), keep_blank_values=True))
        job = self.api.store.job(fields.get("jobName", ""), fields.get("username"))
        if job is None:
            self.show_no_job()
            return
        self.api.launcher.stop(job)
        self.redirect(job_link(job), status=303)


def _state(task: Task, attempt: Attempt, release: Release) -> str:
    if task.exit_code is not None:
        return release.ended_state(task.exit_code)
    if attempt.completed is not None:
        return "STOPPED"
    return "WAITING" if task.launched is None and task.pid is None else "RUNNING"


def time_of_day(milliseconds: int | None) -> str:
    """Return a time in ms since 1970 UTC as local date and time; an empty string for None."""
    if milliseconds is None:
        return ""
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def duration(start: int | None, end: int | None) -> str:
    """Return the time between two times in ms, such as ``0:01:30``; an empty string if either is None."""
    if start is None or end is None:
        return ""
    return str(timedelta(seconds=max(0, end - start) // 1000))
