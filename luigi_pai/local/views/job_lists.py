"""Lists of jobs: GET /api/v2/jobs (filters, order, pages) translated to SQL, and the rows as JSON.

A row's JSON is cached until its job changes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from luigi_pai.local.json_http import ApiError, whole_number
from luigi_pai.local.views.v1 import job_row as v1_row
from luigi_pai.local.views.v2 import job_row as v2_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.releases import Release
    from luigi_pai.local.store.jobs import Store

MOST_KEPT = 50_000  # maximum number of cached rows (about 600 bytes each); beyond it, the cache is emptied


class JobRows:
    """A cache of job list rows: each row's JSON by job id.

    Most jobs have ended, and an ended job's row only changes if its tags do. A list of 10,000 jobs therefore
    takes only a few milliseconds: SQL returns the ids, and the cached rows are joined.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._row = v1_row if store.release.api == "v1" else v2_row
        self._rows: dict[int, str] = {}
        store.job_changed = lambda job_id: self._rows.pop(job_id, None)

    def as_json(self, ids: Sequence[int]) -> str:
        """Return jobs' rows as a JSON array in the API's format."""
        missing = [job_id for job_id in ids if job_id not in self._rows]
        if missing:
            self._write(missing)
        rows = self._rows
        joined = f"[{','.join([rows[job_id] for job_id in ids])}]"
        if len(rows) > MOST_KEPT:
            rows.clear()
        return joined

    def _write(self, ids: Sequence[int]) -> None:
        jobs = self._store.select_jobs("WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(ids)])
        tags = self._store.tags(jobs)
        for job in jobs:
            self._rows[job.id] = json.dumps(self._row(job, tags.get(job.id, ())), separators=(",", ":"))


_DEFAULT_LIMIT = 5000
_MAX_LIMIT = 50000
_ORDERS = {
    "jobName": "name",
    "state": "state",
    "submissionTime": "created",
    "username": "username",
    "vc": "virtual_cluster",
    "retries": "retries",
    "totalTaskNumber": "total_tasks",
    "totalGpuNumber": "total_gpus",
    "completionTime": "completed",
}


class JobSearch:
    """Jobs matching a URL query, restricted to the virtual clusters in ``clusters`` (None means all).

    Raises:
        ApiError: 500 for an invalid number, 400 for a limit above 50000, as on the real server.
    """

    def __init__(self, query: str, release: Release, clusters: Sequence[str] | None) -> None:
        asked = dict(parse_qsl(query, keep_blank_values=True))
        words = {key: value.split(",") for key, value in asked.items()}
        self._where = ["NOT deleted"]
        self._values: list[Any] = []
        if clusters is not None:
            self._add("virtual_cluster IN", clusters)
        for source, key in (("username", "username"), ("virtual_cluster", "vc"), ("state", "state")):
            if key in asked:
                self._add(f"{source} IN", words[key])
        types = words.get("jobType", []) if release.job_types else []
        self._add_tags("EXISTS", words.get("tagsContain", []) + types)
        self._add_tags("NOT EXISTS", words.get("tagsNotContain", []))
        columns = ("username", "name", "virtual_cluster")
        self._where.append(f"({' OR '.join(f'instr({column}, ?)' for column in columns)})")
        self._values += [asked.get("keyword", "")] * len(columns)
        field, way, *_ = [*words.get("order", []), "", ""]
        column = _ORDERS.get(field)
        is_known = column is not None and way in ("ASC", "DESC")
        self._order = f"{column} {way}, id {way}" if is_known else "created DESC, id DESC"
        self.offset = _number(asked, "offset", 0)
        self.limit = _number(asked, "limit", _DEFAULT_LIMIT)
        if self.limit > _MAX_LIMIT:
            raise ApiError(400, "InvalidParametersError", f"Limit exceeds max number {_MAX_LIMIT}.")
        self.counts = asked.get("withTotalCount") == "true"

    def _add(self, condition: str, values: Sequence[str], end: str = "") -> None:
        self._where.append(f"{condition} ({', '.join('?' * len(values))}){end}")
        self._values += values

    def _add_tags(self, start: str, tags: Sequence[str]) -> None:
        if tags:
            having = f"{start} (SELECT 1 FROM tags WHERE job_id = jobs.id AND tags.name IN"  # noqa: S608
            self._add(having, tags, ")")

    def ids(self, store: Store) -> list[int]:
        """Return the ids of the jobs on the requested page."""
        clauses = f"WHERE {' AND '.join(self._where)} ORDER BY {self._order} LIMIT ? OFFSET ?"
        return store.select_ids(clauses, [*self._values, self.limit, self.offset])

    def total(self, store: Store) -> int:
        """Return the number of jobs on all pages."""
        sql = f"SELECT COUNT(*) FROM jobs WHERE {' AND '.join(self._where)}"  # noqa: S608 - our own words
        return int(store.rows(sql, self._values)[0][0])


def _number(asked: Mapping[str, str], key: str, otherwise: int) -> int:
    number = whole_number(asked[key]) if key in asked else otherwise
    if number is None:
        raise ApiError(500, None, f"{key} is not a non-negative whole number of at most 18 digits")
    return number
