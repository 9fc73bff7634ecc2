"""The list of jobs for people: a search, a page of it, what is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from luigi_pai.local.node.json_text import whole_number
from luigi_pai.local.pages.html import Html, duration, join, page, table, tag, time_of_day
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED
from luigi_pai.local.views.job_states import job_state, state_sql
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["jobs_page", "state_mark"]

_AT_ONCE = 100
_STATES = ("WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED")

_ACTIVITY = """CASE
    WHEN sub_state = 'FRAMEWORK_WAITING' THEN 'waiting'
    WHEN EXISTS (
        SELECT 1 FROM attempts JOIN tasks ON attempt_id = attempts.id
        WHERE job_id = jobs.id AND attempts.completed IS NULL AND tasks.completed IS NULL
    ) THEN 'running'
    ELSE 'ending' END"""
"""What a job does that has not ended; of one that is ending, what its tasks have left is cleaned up."""
_TEXTS = "lower(name || ' ' || username || ' ' || virtual_cluster)"
_MOST_WORDS = 8


def state_mark(state: str) -> Html:
    """Return a state as it is shown everywhere."""
    return tag("span", state, class_=f"state {state}")


def jobs_page(api: Api, query: Mapping[str, str]) -> str:
    """Return the page of the jobs that a query asks for, newest first.

    Args:
        api: what there is.
        query: ``q``, words that name, user or virtual cluster have; ``state``; ``page``, from 1.
    """
    where, values = _choice(query, state_sql(*api.store.releases.values()))
    found = int(api.store.rows(f"SELECT COUNT(*) FROM jobs WHERE {where}", values)[0][0])  # noqa: S608 - constants
    last = max(1, -(-found // _AT_ONCE))
    shown = min(last, whole_number(query.get("page", "")) or 1)
    clauses = f"WHERE {where} ORDER BY id DESC LIMIT ? OFFSET ?"
    jobs = api.store.select_jobs(clauses, [*values, _AT_ONCE, (shown - 1) * _AT_ONCE])
    content = (
        tag("div", _in_use(api), id="in-use", data_part=True),
        _search(query),
        tag("div", _count(found, shown, last), _rows(jobs), id="jobs", data_part=True),
        _other_pages(query, shown, last),
    )
    return page("Jobs", *content, live=True)


def _choice(query: Mapping[str, str], state: str) -> tuple[str, list[Any]]:
    """Return the condition that a query stands for, and its values; ``state`` is the SQL of a job's state."""
    conditions, values = ["NOT deleted"], []
    for word in query.get("q", "").split()[:_MOST_WORDS]:
        conditions.append(f"instr({_TEXTS}, lower(?))")
        values.append(word)
    if query.get("state") in _STATES:
        conditions.append(f"{state} = ?")
        values.append(query["state"])
    return " AND ".join(conditions), values


def _search(query: Mapping[str, str]) -> Html:
    states = [tag("option", "every state", value="")]
    states += [tag("option", state, value=state, selected=state == query.get("state")) for state in _STATES]
    return tag(
        "form",
        tag("label", "Name, user or virtual cluster", for_="q"),
        tag("input", id="q", name="q", type="search", value=query.get("q", ""), maxlength="200"),
        tag("label", "State", for_="state"),
        tag("select", *states, id="state", name="state"),
        tag("button", "Search"),
        role="search",
        class_="search",
    )


def _count(found: int, shown: int, last: int) -> Html:
    text = "No job." if not found else "1 job." if found == 1 else f"{found:,} jobs."
    return tag("p", text if last == 1 else f"{text} Page {shown} of {last}.")


def _rows(jobs: list[Job]) -> Html:
    if not jobs:
        return Html("")
    heads = (
        "Job",
        "State",
        "Submitted",
        "Duration",
        "User",
        "Virtual cluster",
        "API",
        "Retries",
        "Exit code",
    )
    rows = (
        (
            tag("a", job.name, href=job_link(job), id=f"job-{job.id}"),
            state_mark(job_state(job)),
            time_of_day(job.created),
            duration(job.created, job.completed or now_ms()),
            job.username,
            job.virtual_cluster,
            job.release.api,
            job.retries,
            job.exit_code,
        )
        for job in jobs
    )
    return table("Jobs, newest first", heads, rows)


def _other_pages(query: Mapping[str, str], shown: int, last: int) -> Html:
    if last == 1:
        return Html("")
    kept = {key: query[key] for key in ("q", "state") if query.get(key)}

    def link(word: str, number: int) -> Html | None:
        if not 1 <= number <= last or number == shown:
            return None
        return tag("a", word, href=f"/?{urlencode({**kept, 'page': number})}")

    links = (link("Newest", 1), link("Newer", shown - 1), link("Older", shown + 1), link("Oldest", last))
    return tag(
        "nav", *(join((one, " ")) for one in links if one), aria_label="Pages of the list", class_="pages"
    )


def _in_use(api: Api) -> Html:
    """Return what the running jobs of each virtual cluster have of what there is."""
    sql = f"""SELECT virtual_cluster, {_ACTIVITY} AS activity, COUNT(*) FROM jobs
        WHERE sub_state <> ? AND NOT deleted GROUP BY virtual_cluster, activity"""  # noqa: S608 - constants
    counts = {(name, activity): count for name, activity, count in api.store.rows(sql, (COMPLETED,))}
    rows = []
    for cluster in api.launcher.scheduler.clusters.values():
        ending = counts.get((cluster.name, "ending"))
        used, has = api.launcher.scheduler.used(cluster.name), cluster.has
        rows.append(
            (
                cluster.name,
                f"{counts.get((cluster.name, 'running'), 0)}{f', {ending} ending' if ending else ''}",
                counts.get((cluster.name, "waiting"), 0),
                f"{used.cpu} of {has.cpu}",
                f"{used.memory:,} of {has.memory:,} MB",
                f"{used.gpu} of {has.gpu}",
            )
        )
    return table("In use", ("Virtual cluster", "Running", "Waiting", "CPUs", "Memory", "GPUs"), rows)
