"""Lists of v2 jobs: the filters, the order and the pages of GET /api/v2/jobs, as SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.releases.release import OPENPAI_1_8
from luigi_pai.local.views.job_states import state_sql
from luigi_pai.spec.schema_problems import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.releases.release import V2Release
    from luigi_pai.local.store.jobs import Store

__all__ = ["JobSearch"]

_DEFAULT_LIMIT = 5000
_MAX_LIMIT = 50000
_ORDERS = {
    "jobName": "name",
    "submissionTime": "created",
    "username": "username",
    "vc": "virtual_cluster",
    "retries": "retries",
    "totalTaskNumber": "total_tasks",
    "totalGpuNumber": "total_gpus",
    "completionTime": "completed",
}
_NULLS = {"ASC": "NULLS LAST", "DESC": "NULLS FIRST"}
_NEWEST_FIRST = "created DESC, id DESC"


class JobSearch:
    """The jobs that an encoded query selects; ``clusters`` are the virtual clusters that the user sees.

    Raises:
        ApiError: 400 or 500 for a number that the server refuses or fails over, 500 for a field that is there
            twice.
    """

    def __init__(
        self, query: str, release: V2Release = OPENPAI_1_8, clusters: Sequence[str] | None = None
    ) -> None:
        self._asked = parse_qs(query, keep_blank_values=True)
        self._where = ["NOT deleted"]
        self._values: list[Any] = []
        state = state_sql(release)
        if clusters is not None:
            self._add("virtual_cluster IN", clusters)
        for column, key in (("username", "username"), ("virtual_cluster", "vc"), (state, "state")):
            if key in self._asked:
                self._add(f"{column} IN", self._words(key))
        self._add_tags("EXISTS", self._words("tagsContain") + self._job_types(release))
        self._add_tags("NOT EXISTS", self._words("tagsNotContain"))
        if "keyword" in self._asked:
            columns = ("username", "name", "virtual_cluster")
            self._where.append(f"({' OR '.join(f'instr({column}, ?)' for column in columns)})")
            self._values += [self._text("keyword")] * len(columns)
        self._order = _order(self._words("order"), state)
        self.offset = self._number("offset", 0)
        self.limit = self._number("limit", _DEFAULT_LIMIT)
        if self.limit > _MAX_LIMIT:
            raise ApiError(400, "InvalidParametersError", f"Limit exceeds max number {_MAX_LIMIT}.")
        self.counts = self._text("withTotalCount") == "true"

    def _text(self, key: str) -> str:
        values = self._asked.get(key, [""])
        if len(values) > 1:
            raise ApiError(500, None, f"{key} is there {len(values)} times; separate its words by commas")
        return values[0]

    def _words(self, key: str) -> list[str]:
        return self._text(key).split(",") if key in self._asked else []

    def _number(self, key: str, otherwise: int) -> int:
        if key not in self._asked:
            return otherwise
        if not re.fullmatch("[0-9]{1,18}", self._text(key)):
            raise ApiError(500, None, f"{key} is not a whole number of at least 0 and at most 18 digits")
        return int(self._text(key))

    def _job_types(self, release: V2Release) -> list[str]:
        """Return the types to be found; 400 for types that LTP does not have."""
        words = self._words("jobType") if release.job_types else []
        known = schema("protocol.ltp")["properties"]["jobType"]["enum"]
        unknown = [word for word in words if word not in known]
        if unknown:
            raise ApiError(400, "InvalidParametersError", f"jobType has {', '.join(unknown)}")
        return words

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
        """Return how many jobs there are on all pages."""
        sql = f"SELECT COUNT(*) FROM jobs WHERE {' AND '.join(self._where)}"  # noqa: S608 - our own words
        return int(store.rows(sql, self._values)[0][0])


def _order(words: Sequence[str], state: str) -> str:
    """Return the ORDER BY for a field and a direction; the default for unknown words."""
    field, way = [*words, "", ""][:2]
    columns = {**_ORDERS, "state": state}
    if field not in columns or way not in _NULLS:
        return _NEWEST_FIRST
    nulls = f" {_NULLS[way]}" if field == "completionTime" else ""
    return f"{columns[field]} {way}{nulls}, id {way}"
