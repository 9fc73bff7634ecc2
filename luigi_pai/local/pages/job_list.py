"""The page with the list of jobs, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.json_http import whole_number
from luigi_pai.local.pages.html import Html, duration, page, table, tag, time_of_day
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.views.job_states import job_state
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["jobs_page", "state_mark"]

_AT_ONCE = 100
_HEADS = ("Job", "State", "Submitted", "Duration", "User", "Virtual cluster", "Exit code", "Retries")


def state_mark(state: str) -> Html:
    """Return a state as it is shown everywhere."""
    return tag("span", state, class_=f"state {state}")


def jobs_page(store: Store, number: str) -> str:
    """Return a page of the list; the first one is 1, and also shown for what is no number."""
    count = int(store.rows("SELECT COUNT(*) FROM jobs WHERE NOT deleted")[0][0])
    last = max(1, -(-count // _AT_ONCE))
    shown = min(last, whole_number(number) or 1)
    clauses = "WHERE NOT deleted ORDER BY id DESC LIMIT ? OFFSET ?"
    jobs = store.select_jobs(clauses, [_AT_ONCE, (shown - 1) * _AT_ONCE])
    listed = (
        table(f"{count:,} jobs, newest first", _HEADS, map(_row, jobs)) if jobs else tag("p", "No job yet.")
    )
    around = {"Newer jobs": shown - 1, "Older jobs": shown + 1}
    links = (tag("a", word, href=f"/?page={at}") for word, at in around.items() if 1 <= at <= last)
    pages = tag("nav", *links, aria_label="Pages of the list", class_="pages")
    return page("Jobs", tag("div", listed, id="jobs", data_part=True), pages if last > 1 else None, live=True)


def _row(job: Job) -> tuple[object, ...]:
    return (
        tag("a", job.name, href=job_link(job), id=f"job-{job.id}"),
        state_mark(job_state(job)),
        time_of_day(job.created),
        duration(job.created, job.completed or now_ms()),
        job.username,
        job.virtual_cluster,
        job.exit_code,
        job.retries,
    )
