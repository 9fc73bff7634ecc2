"""What a person sees in a browser: the list of jobs, a job's page."""

from __future__ import annotations

from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from luigi_pai.local.environment import CONTAINER_IP
from luigi_pai.local.exit_specs import exit_spec
from luigi_pai.local.job_view import job_state, log_url
from luigi_pai.local.job_view_v2 import job_state_v2, sub_state_v2
from luigi_pai.local.records import COMPLETED, WAITING
from luigi_pai.local.wire import SmallBodyHandler

if TYPE_CHECKING:
    from luigi_pai.local.records import Job, Task
    from luigi_pai.local.rest import Api

__all__ = ["JobListPage", "JobPage"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; white-space: pre-wrap }
.SUCCEEDED { color: #17692c } .FAILED { color: #b00020 } .STOPPED { color: #7a5a00 }
"""


class _Page(SmallBodyHandler):
    """A page of plain HTML that loads nothing and runs nothing."""

    def initialize(self, api: Api) -> None:
        self.api = api

    def show(self, title: str, body: str, *, refresh: bool) -> None:
        """Send a page; ``title`` is text, ``body`` is HTML."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        again = '<meta http-equiv="refresh" content="2">' if refresh else ""
        self.finish(
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{again}'
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>"
        )


class JobListPage(_Page):
    """The jobs of this server."""

    def get(self) -> None:
        """Show every job of both APIs, newest first."""
        jobs = self.api.store.jobs(generation=None)
        rows = "".join(
            f'<tr><td><a href="/job-detail.html?{escape(_query(job))}">{escape(job.name)}</a></td>'
            f"<td>{escape(job.username)}</td><td>v{job.generation}</td>"
            f"<td class={_state(job)}>{_state(job)}</td><td>{_time(job.created)}</td>"
            f"<td>{_duration(job.created, job.completed)}</td><td>{job.retries}</td></tr>"
            for job in jobs
        )
        head = "<tr><th>Job<th>User<th>API<th>State<th>Submitted<th>Duration<th>Retries</tr>"
        table = f"<table>{head}{rows}</table>" if jobs else "<p>No job yet.</p>"
        self.show("Jobs", table, refresh=any(job.sub_state != COMPLETED for job in jobs))


class JobPage(_Page):
    """One job."""

    def get(self) -> None:
        """Show a job's state, times, reason and tasks."""
        job = self._job()
        if job is None:
            self.set_status(404)
            self.show("No such job", '<p><a href="/">All jobs</a></p>', refresh=False)
            return
        attempt = self.api.store.last_attempt(job)
        state = _state(job)
        facts = {
            "State": f"<span class={state}>{state}</span> ({_sub_state(job)})",
            "User": escape(job.username),
            "API": f"v{job.generation}",
            "Virtual cluster": escape(job.virtual_cluster),
            "Submitted": _time(job.created),
            "Last attempt began": _time(None if attempt is None else attempt.launched),
            "Ended": _time(job.completed),
            "Duration": _duration(job.created, job.completed),
            "Retries": str(job.retries),
            "Exit code": "" if job.exit_code is None else f"{job.exit_code} ({escape(_exit_words(job))})",
        }
        rows = "".join(f"<tr><th>{key}<td>{value}</tr>" for key, value in facts.items())
        body = f"<table>{rows}</table>"
        if job.diagnostics:
            body += f"<h2>Reason</h2><pre>{escape(job.diagnostics)}</pre>"
        tasks = [] if attempt is None or job.sub_state == WAITING else self.api.store.tasks(attempt)
        shown = "".join(self._task_row(task, job) for task in tasks)
        head = "<tr><th>Task<th>Host<th>Ports<th>Exit code<th>Output</tr>"
        body += f"<h2>Tasks</h2><table>{head}{shown}</table>" if shown else "<h2>Tasks</h2><p>None yet.</p>"
        self.show(job.name, f'{body}<p><a href="/">All jobs</a></p>', refresh=job.sub_state != COMPLETED)

    def _job(self) -> Job | None:
        """Return the job that the query names: USER's, of the API that it says, or of either."""
        name = self.get_query_argument("jobName", "")
        owner = self.get_query_argument("username", None)
        api = self.get_query_argument("api", None)
        job = self.api.store.job(name) if api in (None, "v1") else None
        if job is not None and owner in (None, job.username):
            return job
        return self.api.store.job_of(owner, name) if owner is not None and api in (None, "v2") else None

    def _task_row(self, task: Task, job: Job) -> str:
        log = escape(log_url(task, job, self.api.address))
        logs = ("stdout", "stderr") if job.generation == 1 else ("stdout", "stderr", "runtime")
        links = " ".join(f'<a href="{log}{name}/">{name}</a>' for name in logs)
        ports = ", ".join(f"{label} {','.join(map(str, numbers))}" for label, numbers in task.ports.items())
        code = "" if task.exit_code is None else str(task.exit_code)
        return (
            f"<tr><td>{escape(task.name)}</td><td>{CONTAINER_IP}</td><td>{escape(ports)}</td>"
            f"<td>{code}</td><td>{links}</td></tr>"
        )


def _query(job: Job) -> str:
    query = {"username": job.username, "jobName": job.name}
    return urlencode(query if job.generation == 1 else {**query, "api": "v2"})


def _state(job: Job) -> str:
    return job_state(job) if job.generation == 1 else job_state_v2(job)


def _sub_state(job: Job) -> str:
    return job.sub_state if job.generation == 1 else sub_state_v2(job)


def _exit_words(job: Job) -> str:
    """Return what an ended job's exit code means."""
    spec = exit_spec(job.exit_code) if job.generation > 1 else None
    return str(job.exit_type) if spec is None else str(spec["phrase"])


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return (
        datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    )


def _duration(begin: int, end: int | None) -> str:
    if end is None:
        return ""
    seconds = (end - begin) / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"  # noqa: PLR2004 - a minute
