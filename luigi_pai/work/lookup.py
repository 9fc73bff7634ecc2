"""Finds the newest submission of a piece of work, from what the server says and what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from luigi_pai.api.book.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry, Recorded


class Records(Protocol):
    """What is recorded of a piece of work outside of the server."""

    def last(self) -> Recorded | None:
        """Return the last recorded submission; None if there is none."""
        ...

    def may_have_run(self) -> bool:
        """Return whether work without a record may have run before, because an output exists."""
        ...


def newest_submission(
    book: Book,
    name: str,
    records: Records,
    *,
    max_age: float = 0.0,
    patience: float | None = None,
    sleep: Callable[[float], None] | None = None,
) -> Entry | None:
    """Find the newest submission of a piece of work; None if there is none.

    It is looked up by its names. If that finds none, or only a failed submission, the last record decides
    where to look; without a record, the list of jobs does. Records are read only then.

    Args:
        book: of the cluster.
        name: of the work.
        records: of the work.
        max_age: seconds for which the last answer for this name may be reused.
        patience: seconds for which transient errors are retried; default: the setting of the cluster.
        sleep: waits for a number of seconds; default: the sleep of the cluster's clock.

    Raises:
        PaiNameTaken: the name belongs to another user.
        PaiApiError: a lookup failed.
        HdfsError: the records cannot be read.
    """
    recent = book.recent(name, max_age)
    if recent is not None:
        return recent[0]
    search = Search(book, name, patience, sleep)
    entry = book.by_name(name, search)
    if entry is None or entry.may_have_successor:
        record = records.last()
        if record is not None:
            entry = search.by_record(entry, record)
        elif not search.has_shared_names or records.may_have_run():
            entry = search.by_list(entry)
    book.take(name, entry)
    return entry
