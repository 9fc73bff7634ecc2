"""Bugs that the rounds have to find: each takes one thing away that keeps the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.api.submitting import Posting
from luigi_pai.hdfs.small_files import create_once
from luigi_pai.sweep.source import Source
from luigi_pai.tasks import claims
from luigi_pai.tasks.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["BUGS", "apply"]


def _claims_without_exclusiveness() -> None:
    """Whoever claims last has the claim, and all others believe that they have it."""

    def write(fs: Any, path: str, data: bytes) -> bool:
        if not create_once(fs, path, data):
            with fs.open_writer(path) as file:
                file.write(data)
        return True

    claims.create_once = write


def _no_lookup_after_a_lost_reply() -> None:
    """A submission whose reply is lost is sent again, and the name that it has by then is an error."""

    def after(_self: Any, error: Any, posts: Any, took: float) -> Generator[float, None, None]:
        del took
        yield posts.wait_after(error)

    def is_held(_self: Any, error: Exception) -> Generator[float, None, bool]:
        raise error
        yield 0.0

    Posting._after, Posting._is_held = after, is_held  # type: ignore[method-assign,assignment]


def _claims_after_the_post() -> None:
    """A submission is claimed when the server has its job."""
    claim, post = Evidence.claim, Posting.steps
    claimed: dict[str, list[tuple[Evidence, int]]] = {}

    def later(self: Evidence, number: int, job_name: str) -> Generator[float, None, str]:
        yield 0.0
        claimed.setdefault(job_name, []).append((self, number))
        return job_name

    def posted(self: Posting, job: Any) -> Generator[float, None, Any]:
        status = yield from post(self, job)
        for evidence, number in claimed.pop(self._name, []):
            yield from claim(evidence, number, self._name)
        return status

    Evidence.claim, Posting.steps = later, posted  # type: ignore[method-assign]


def _no_replay_of_a_search() -> None:
    """A search that goes on begins with an empty history; the points that it has run are known."""
    Source._replay = lambda *_: None  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "claims-without-exclusiveness": _claims_without_exclusiveness,
    "no-lookup-after-a-lost-reply": _no_lookup_after_a_lost_reply,
    "claims-after-the-post": _claims_after_the_post,
    "no-replay-of-a-search": _no_replay_of_a_search,
}
"""By their names: what installs them in the current process."""


def apply(name: str) -> None:
    """Install a bug in this process; an empty name stands for none."""
    if name:
        BUGS[name]()
