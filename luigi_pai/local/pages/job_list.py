"""The page with the list of jobs: a search, sorting, the resources in use, and the first steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from luigi_pai.local.node.json_text import whole_number
from luigi_pai.local.pages.html import Html, Sort, duration, join, page, table, tag, time_of_day
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED
from luigi_pai.local.views.job_states import job_state, state_sql
from luigi_pai.local.views.v1 import job_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["FIRST_TASK", "jobs_page", "state_mark"]

_AT_ONCE = 100
_STATES = ("WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED")

_ACTIVITY = """CASE
    WHEN sub_state = 'FRAMEWORK_WAITING' THEN 'waiting'
    WHEN EXISTS (
        SELECT 1 FROM attempts JOIN tasks ON attempt_id = attempts.id
        WHERE job_id = jobs.id AND attempts.completed IS NULL AND tasks.completed IS NULL
    ) THEN 'running'
    ELSE 'ending' END"""
"""The activity of a job that has not ended; ``ending`` is the clean-up after its tasks."""
_TEXTS = "lower(name || ' ' || username || ' ' || virtual_cluster)"
_MOST_WORDS = 8
_EVERY_JOB = "NOT deleted"
_KEPT = ("q", "state", "sort")
"""What links to other pages of the list keep of a query."""

_COLUMNS = {
    "Job": "name",
    "State": "state",
    "Submitted": "id",
    "Duration": "COALESCE(completed, CAST(strftime('%s', 'now') AS INTEGER) * 1000) - created",
    "User": "username",
    "Virtual cluster": "virtual_cluster",
    "Exit code": "exit_code",
}
"""The columns that sort the list, and the SQL that they sort it by; ``state`` stands for `state_sql`."""
_LARGEST_FIRST = ("Submitted", "Duration")
FIRST_TASK = """cat > hello.py <<'END'
from luigi_pai import PaiTask, TaskRole

class Hello(PaiTask):
    name = "hello"
    image = "python:3"
    tasks = [TaskRole("main", "echo hello from $PAI_JOB_NAME")]
END
PYTHONPATH=. luigi --module hello Hello --local-scheduler"""
"""A shell command that writes a module with one task, and runs it."""


@dataclass(frozen=True)
class _Order:
    """The order of the list; ``kept`` is what its links keep of the query."""

    column: str
    is_descending: bool
    kept: Mapping[str, str]

    @classmethod
    def of(cls, query: Mapping[str, str]) -> _Order:
        """Return the order that a query asks for; newest first for a column that is unknown."""
        asked = query.get("sort", "")
        words = {word.lower(): word for word in _COLUMNS}
        column = words.get(asked.removeprefix("-").lower())
        kept = {key: query[key] for key in ("q", "state") if query.get(key)}
        return cls(column or "Submitted", column is None or asked.startswith("-"), kept)

    def sql(self, state: str) -> str:
        """Return the ORDER BY; ``state`` is the SQL of a job's state."""
        way = "DESC" if self.is_descending else "ASC"
        if self.column == "Submitted":
            return f"id {way}"  # the primary key needs no sorting
        by = state if self.column == "State" else _COLUMNS[self.column]
        return f"{by} {way} NULLS LAST, id DESC"

    @property
    def words(self) -> str:
        if self.column == "Submitted":
            return "newest first" if self.is_descending else "oldest first"
        return f"by {self.column.lower()}{', descending' if self.is_descending else ''}"

    def links(self) -> dict[str, Sort]:
        """Return the links in the headings; that of the column it is sorted by turns the order round."""
        return {column: self._link(column) for column in _COLUMNS}

    def _link(self, column: str) -> Sort:
        order = None
        descending = column in _LARGEST_FIRST
        if column == self.column:
            order = "descending" if self.is_descending else "ascending"
            descending = not self.is_descending
        query = {**self.kept, "sort": f"{'-' if descending else ''}{column.lower()}"}
        return Sort(f"/?{urlencode(query)}", order)


def state_mark(state: str) -> Html:
    """Return a state as it is shown everywhere."""
    return tag("span", state, class_=f"state {state}")


def jobs_page(api: Api, query: Mapping[str, str]) -> str:
    """Return the page of the jobs that a query asks for, newest first unless it is sorted otherwise.

    The query has ``q``, words that name, user or virtual cluster have; ``state``; ``page``, from 1;
    ``sort``, a column, with ``-`` before it in descending order.
    """
    state = state_sql(*api.store.releases.values())
    where, values = _choice(query, state)
    found = int(api.store.rows(f"SELECT COUNT(*) FROM jobs WHERE {where}", values)[0][0])  # noqa: S608 - constants
    last = max(1, -(-found // _AT_ONCE))
    shown = min(last, whole_number(query.get("page", "")) or 1)
    order = _Order.of(query)
    clauses = f"WHERE {where} ORDER BY {order.sql(state)} LIMIT ? OFFSET ?"
    jobs = api.store.select_jobs(clauses, [*values, _AT_ONCE, (shown - 1) * _AT_ONCE])
    in_use = tag("div", _in_use(api), id="in-use", data_part=True)
    is_new = not found and where == _EVERY_JOB
    listed = (_count(found, shown, last), _rows(jobs, order))
    content = (
        None if is_new else in_use,
        tag("div", None if is_new else _search(query), id="search", data_part=True),
        tag("div", *([_first_steps(api.config_lines)] if is_new else listed), id="jobs", data_part=True),
        _other_pages(query, shown, last),
        in_use if is_new else None,
    )
    return page("Jobs", *content, live=True)


def _choice(query: Mapping[str, str], state: str) -> tuple[str, list[Any]]:
    """Return the SQL condition of a query, and its values; ``state`` is the SQL of a job's state."""
    conditions, values = [_EVERY_JOB], []
    for word in query.get("q", "").split()[:_MOST_WORDS]:
        conditions.append(f"instr({_TEXTS}, lower(?))")
        values.append(word)
    if query.get("state") in _STATES:
        conditions.append(f"{state} = ?")
        values.append(query["state"])
    return " AND ".join(conditions), values


def _search(query: Mapping[str, str]) -> Html:
    sort = query.get("sort")
    states = [tag("option", "every state", value="")]
    states += [tag("option", state, value=state, selected=state == query.get("state")) for state in _STATES]
    return tag(
        "form",
        tag(
            "span",
            tag("label", "Name, user or virtual cluster ", for_="q"),
            tag("input", id="q", name="q", type="search", value=query.get("q", ""), maxlength="200"),
        ),
        tag(
            "span",
            tag("label", "State ", for_="state"),
            tag("select", *states, id="state", name="state"),
        ),
        tag("input", type="hidden", name="sort", value=sort) if sort else None,
        tag("button", "Search"),
        role="search",
        class_="search",
    )


def _count(found: int, shown: int, last: int) -> Html:
    text = "No job." if not found else "1 job." if found == 1 else f"{found:,} jobs."
    return tag("p", text if last == 1 else f"{text} Page {shown} of {last}.")


def _rows(jobs: list[Job], order: _Order) -> Html:
    if not jobs:
        return Html("")
    heads = (*_COLUMNS, "API", "Retries")
    rows = (
        (
            tag("a", job.name, href=job_link(job), id=f"job-{job.id}"),
            state_mark(job_state(job)),
            time_of_day(job.created),
            duration(job.created, job.completed or now_ms()),
            job.username,
            job.virtual_cluster,
            job.exit_code,
            job.release.api,
            job.retries,
        )
        for job in jobs
    )
    return table(f"Jobs, {order.words}", heads, rows, order.links())


def _other_pages(query: Mapping[str, str], shown: int, last: int) -> Html:
    if last == 1:
        return Html("")
    kept = {key: query[key] for key in _KEPT if query.get(key)}

    def link(word: str, number: int) -> Html | None:
        if not 1 <= number <= last or number == shown:
            return None
        return tag("a", word, href=f"/?{urlencode({**kept, 'page': number})}")

    links = (link("First", 1), link("Previous", shown - 1), link("Next", shown + 1), link("Last", last))
    return tag(
        "nav", *(join((one, " ")) for one in links if one), aria_label="Pages of the list", class_="pages"
    )


def _in_use(api: Api) -> Html:
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


def _first_steps(config_lines: str) -> Html:
    """Return what the page shows while there is no job: the settings to copy and a command to try."""
    return join(
        (
            tag("p", "No job yet. Two steps to the first one:"),
            tag("h2", "1. Put these lines into luigi.cfg"),
            _copied(config_lines, "Lines for luigi.cfg"),
            tag("h2", "2. Run a task in that folder"),
            _copied(FIRST_TASK, "Command to try"),
            tag("p", "The job appears here as soon as it is submitted."),
        )
    )


def _copied(text: str, label: str) -> Html:
    return tag("pre", text, tabindex="0", role="region", aria_label=label)
