"""Lists of v2 jobs: the filters, the order and the pages of GET /api/v2/jobs, as SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.express_query import as_text
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.releases.ltp_schema import JOB_TYPES
from luigi_pai.local.releases.release import OPENPAI_1_8
from luigi_pai.local.views.job_states import state_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.releases.release import V2Release
    from luigi_pai.local.store.jobs import Store

__all__ = ["JobSearch", "Viewer"]

_DEFAULT_LIMIT = 5000
_MAX_LIMIT = 50000

_LARGEST = 2**63 - 1
_DIGITS = 40
"""More of them make no difference: the number is too large already."""

_ORDERS = {
    "jobName": "name",
    "submissionTime": "created",
    "username": "username",
    "vc": "virtual_cluster",
    "retries": "retries",
    "totalTaskNumber": "total_tasks",
    "totalGpuNumber": "total_gpus",
    "completionTime": "completed",
    "jobPriority": "NULL",
}
_NULLS = {"ASC": "NULLS LAST", "DESC": "NULLS FIRST"}
_NEWEST_FIRST = "created DESC, id DESC"
_WILDCARDS = {"%": "*", "_": "?"}


@dataclass(frozen=True)
class Viewer:
    """The user of a list that has only their own virtual clusters: ``now``, and in the ``past``."""

    name: str
    admin: bool
    now: Sequence[str]
    past: Sequence[str]


class JobSearch:
    """The jobs that an encoded query selects, limited to those of a viewer if there is one.

    Raises:
        ApiError: a number that the server refuses or fails over, a list where it takes a text, or 403
            for jobs that the viewer may not see.
    """

    def __init__(self, query: str, release: V2Release = OPENPAI_1_8, viewer: Viewer | None = None) -> None:
        self._query = asked = release.reads_query(query)
        self._where = ["api = 'v2'"]
        self._values: list[Any] = []
        users = self._words("username") if "username" in asked else None
        clusters = self._words("vc") if "vc" in asked else None
        if viewer is not None:
            clusters = _seen(viewer, users, clusters)
        states = self._words("state") if "state" in asked else None
        state = state_sql(release)
        for column, words in (("username", users), ("virtual_cluster", clusters), (state, states)):
            if words is not None:
                self._add(f"{column} IN", words)
        self.offset = _number(as_text(asked["offset"])) if "offset" in asked else 0
        self.limit = _number(as_text(asked["limit"])) if "limit" in asked else _DEFAULT_LIMIT
        if self.limit > _MAX_LIMIT:
            raise ApiError(400, "InvalidParametersError", f"Limit exceeds max number {_MAX_LIMIT}.")
        self.counts = asked.get("withTotalCount") == "true"
        tags = self._words("tagsContain") if "tagsContain" in asked else []
        others = self._words("tagsNotContain") if "tagsNotContain" in asked else []
        if release.job_types and "jobType" in asked:
            tags = [*tags, *self._job_types()]
        for start, words in (("EXISTS", tags), ("NOT EXISTS", others)):
            if words:
                having = f"{start} (SELECT 1 FROM tags WHERE job_id = jobs.id AND tags.name IN"  # noqa: S608
                self._add(having, words, ")")
        self._add_keyword()
        self._order = _order(self._words("order"), state) if "order" in asked else _NEWEST_FIRST
        self._check_page()

    def _words(self, key: str) -> list[str]:
        """Return the texts between the commas of a field; fail as the server does over a list."""
        value = self._query[key]
        if not isinstance(value, str):
            raise ApiError(500, None, f"req.query.{key}.split is not a function")
        return value.split(",")

    def _job_types(self) -> list[str]:
        words = self._words("jobType")
        unknown = [word for word in words if word not in JOB_TYPES]
        if unknown:
            sentence = f"Invalid job type(s): {', '.join(unknown)}"
            raise ApiError(400, "InvalidParametersError", sentence)
        return words

    def _check_page(self) -> None:
        """Refuse numbers that PostgreSQL refuses behind the server, the offset first."""
        for name, number in (("OFFSET", self.offset), ("LIMIT", self.limit)):
            if abs(number) > _LARGEST:
                raise ApiError(500, None, "bigint out of range")
            if number < 0:
                raise ApiError(500, None, f"{name} must not be negative")

    def _add(self, condition: str, values: Sequence[str], end: str = "") -> None:
        self._where.append(f"{condition} ({', '.join('?' * len(values))}){end}")
        self._values += map(_as_sent, values)

    def _add_keyword(self) -> None:
        """Add the text to be found in user, name or virtual cluster, and the priority."""
        priorities = self._words("jobPriority") if "jobPriority" in self._query else None
        if priorities is not None and "default" in priorities:
            return  # on the server it is one OR with the text, and every job here has the default priority
        if priorities is not None:
            self._where.append("0")
        if "keyword" in self._query:
            columns = ("username", "name", "virtual_cluster")
            self._where.append(f"({' OR '.join(f'{column} GLOB ?' for column in columns)})")
            self._values += [_pattern(_as_sent(as_text(self._query["keyword"])))] * len(columns)

    def ids(self, store: Store) -> list[int]:
        """Return the ids of the jobs on the requested page."""
        clauses = f"WHERE {' AND '.join(self._where)} ORDER BY {self._order} LIMIT ? OFFSET ?"
        return store.select_ids(clauses, [*self._values, self.limit, self.offset])

    def total(self, store: Store) -> int:
        """Return how many jobs there are on all pages."""
        sql = f"SELECT COUNT(*) FROM jobs WHERE {' AND '.join(self._where)}"  # noqa: S608 - our own words
        return int(store.rows(sql, self._values)[0][0])


def _seen(viewer: Viewer, users: Sequence[str] | None, clusters: Sequence[str] | None) -> list[str]:
    """Return the virtual clusters whose jobs a viewer is shown; 403 for jobs of others in a past one."""
    own = dict.fromkeys((*viewer.past, *viewer.now))
    seen = list(own) if clusters is None else [name for name in clusters if name in own]
    of_others = users is None or any(name != viewer.name for name in users)
    past = [name for name in seen if name not in viewer.now]
    if of_others and past and not viewer.admin:
        sentence = f"User {viewer.name} is not allowed to access other users' jobs in {', '.join(past)}."
        raise ApiError(403, "ForbiddenUserError", sentence)
    return seen


def _order(words: Sequence[str], state: str) -> str:
    """Return the ORDER BY for a field and a direction; the default for unknown words."""
    field, way = [*words, ""][:2]
    columns = {**_ORDERS, "state": state}
    if field not in columns or way not in _NULLS:
        return _NEWEST_FIRST
    nulls = f" {_NULLS[way]}" if field in ("completionTime", "jobPriority") else ""
    return f"{columns[field]} {way}{nulls}, id {way}"


def _as_sent(text: str) -> str:
    """Return a text as Sequelize 5 puts it into a query of PostgreSQL: a NUL is a backslash and a zero."""
    return text.replace("\0", "\\0")


def _pattern(text: str) -> str:
    """Return ``LIKE '%TEXT%'`` of PostgreSQL as a pattern for GLOB, SQLite's own LIKE takes A for a.

    Nothing in the text is escaped there: ``_`` is any character, ``%`` any text, and a backslash
    makes the next character, the last ``%`` too, stand for itself.
    """
    found = []
    letters = iter(f"%{text}%")
    for letter in letters:
        if letter == "\\":
            letter = next(letters)  # noqa: PLW2901 - the one that it escapes
        elif letter in _WILDCARDS:
            found.append(_WILDCARDS[letter])
            continue
        found.append(f"[{letter}]" if letter in "*?[" else letter)
    return "".join(found)


def _number(text: str) -> int:
    """Return the number that a text begins with, as parseInt does; without one, fail as the server does."""
    found = re.match(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|([0-9]+))", text)
    if found is None:
        raise ApiError(500, None, 'column "nan" does not exist')
    sign, hexadecimal, decimal = found.groups()
    digits = (hexadecimal or decimal).lstrip("0") or "0"
    number = int(digits[:_DIGITS], 16 if hexadecimal else 10)
    return -number if sign == "-" else number
