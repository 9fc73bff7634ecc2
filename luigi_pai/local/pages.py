"""What a person sees in a browser: the list of jobs, a job's page."""

from __future__ import annotations

from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from luigi_pai.local.job_view import job_detail, job_row
from luigi_pai.local.records import COMPLETED
from luigi_pai.local.wire import SmallBodyHandler

if TYPE_CHECKING:
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
        """Show every job, newest first."""
        rows = [job_row(job) for job in self.api.store.jobs()]
        cells = "".join(
            f'<tr><td><a href="/job-detail.html?{escape(_query(row))}">{escape(row["name"])}</a></td>'
            f"<td>{escape(row['username'])}</td>{_state_cell(row['state'])}"
            f"<td>{_time(row['createdTime'])}</td>"
            f"<td>{_duration(row['createdTime'], row['completedTime'])}</td><td>{row['retries']}</td></tr>"
            for row in rows
        )
        table = (
            "<table><tr><th>Job<th>User<th>State<th>Submitted<th>Duration<th>Retries</tr>"
            + cells
            + "</table>"
        )
        running = any(row["subState"] != COMPLETED for row in rows)
        self.show("Jobs", table if rows else "<p>No job yet.</p>", refresh=running)


class JobPage(_Page):
    """One job."""

    def get(self) -> None:
        """Show a job's state, times, reason and tasks."""
        name = self.get_query_argument("jobName", "")
        owner = self.get_query_argument("username", None)
        job = self.api.store.job(name)
        if job is None or owner not in (None, job.username):
            self.set_status(404)
            self.show("No such job", '<p><a href="/">All jobs</a></p>', refresh=False)
            return
        detail = job_detail(job, self.api.store, self.api.address)
        status = detail["jobStatus"]
        facts = {
            "State": f"<span class={status['state']}>{status['state']}</span> ({escape(status['subState'])})",
            "User": escape(job.username),
            "Virtual cluster": escape(job.virtual_cluster),
            "Submitted": _time(status["createdTime"]),
            "Last attempt began": _time(status["appLaunchedTime"]),
            "Ended": _time(status["completedTime"]),
            "Duration": _duration(status["createdTime"], status["completedTime"]),
            "Retries": str(status["retries"]),
            "Exit code": "" if job.exit_code is None else f"{job.exit_code} ({escape(str(job.exit_type))})",
        }
        body = (
            "<table>" + "".join(f"<tr><th>{key}<td>{value}</tr>" for key, value in facts.items()) + "</table>"
        )
        if job.diagnostics:
            body += f"<h2>Reason</h2><pre>{escape(job.diagnostics)}</pre>"
        body += f'<h2>Tasks</h2>{_tasks(detail["taskRoles"])}<p><a href="/">All jobs</a></p>'
        self.show(job.name, body, refresh=job.sub_state != COMPLETED)


def _query(row: dict[str, Any]) -> str:
    return urlencode({"username": row["username"], "jobName": row["name"]})


def _state_cell(state: str) -> str:
    return f"<td class={state}>{state}</td>"


def _tasks(roles: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}-{task['taskIndex']}</td><td>{escape(task['containerIp'])}</td>"
        f"<td>{escape(', '.join(f'{label} {ports}' for label, ports in task['containerPorts'].items()))}</td>"
        f'<td><a href="{escape(task["containerLog"])}stdout/">stdout</a> '
        f'<a href="{escape(task["containerLog"])}stderr/">stderr</a></td></tr>'
        for name, role in roles.items()
        for task in role["taskStatuses"]
    )
    return (
        f"<table><tr><th>Task<th>Host<th>Ports<th>Output</tr>{rows}</table>" if rows else "<p>None yet.</p>"
    )


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
