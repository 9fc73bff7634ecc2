"""Links between the submissions of one task: NAME, NAME__attempt2, NAME__attempt3, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.pages.html import Html, join, tag
from luigi_pai.local.pages.job_list import state_mark
from luigi_pai.local.views.job_states import job_state
from luigi_pai.local.views.v1 import job_link
from luigi_pai.spec.names import attempt_name, latest_attempts

if TYPE_CHECKING:
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["submission_links"]

_MOST = 20
"""Submissions that are linked, the last ones."""


def submission_links(store: Store, job: Job) -> Html | None:
    """Return links to all submissions of a job's task, each with its state; None if there is one only."""
    first = next(iter(latest_attempts([job.name])), job.name)
    where = "WHERE NOT deleted AND username = ? AND api = ? AND substr(name, 1, ?) = ?"
    found = store.select_jobs(where, [job.username, job.release.api, len(first), first])
    by_name = {other.name: other for other in found}
    last = latest_attempts(by_name).get(first, 1)
    names = [attempt_name(first, number) for number in range(1, last + 1)]
    shown = [by_name[name] for name in names if name in by_name][-_MOST:]
    if len(shown) <= 1:
        return None
    return join(
        tag("span", _shown(other, job), " ", state_mark(job_state(other)), class_="submission")
        for other in shown
    )


def _shown(other: Job, job: Job) -> Html:
    if other.id == job.id:
        return tag("span", other.name, aria_current="page")
    return tag("a", other.name, href=job_link(other))
