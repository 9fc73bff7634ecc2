"""The functions that show a job as its own API does, in a table by API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.views import v1
from luigi_pai.local.views.v2 import jobs as v2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.local.store.records import Job

__all__ = ["JobViews", "views_of"]


@dataclass(frozen=True)
class JobViews:
    """How an API shows jobs.

    Attributes:
        row: returns a job as lists show it, given its tags.
        sub_state: returns the launcher's own word for a job's state.
        exit_phrase: returns what the exit code of an ended job means.
    """

    row: Callable[[Job, Sequence[str]], dict[str, Any]]
    sub_state: Callable[[Job], str]
    exit_phrase: Callable[[Job], str]


_BY_API = {
    "v1": JobViews(v1.job_row, lambda job: job.sub_state, lambda job: str(job.exit_type)),
    "v2": JobViews(v2.job_row, v2.sub_state, v2.exit_phrase),
}


def views_of(job: Job) -> JobViews:
    """Return how the API that a job was submitted to shows it."""
    return _BY_API[job.release.api]
