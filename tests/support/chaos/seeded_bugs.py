"""Bugs that the rounds have to find: each takes one thing away that keeps the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.api.submitting import Posting
from luigi_pai.files.small_files import create_once
from luigi_pai.sweep.source import Source
from luigi_pai.work import evidence, output_claims

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.work.claims import Claim, Claims

__all__ = ["BUGS", "apply"]


def _claims_without_exclusiveness() -> None:
    """Whoever claims last has the claim, and all others believe that they have it."""

    def write(fs: Any, path: str, data: bytes) -> bool:
        if not create_once(fs, path, data):
            with fs.open_writer(path) as file:
                file.write(data)
        return True

    output_claims.create_once = write


def _no_lookup_after_a_lost_reply() -> None:
    """A submission whose reply is lost is sent again, and the name that it has by then is an error."""

    def after(self: Any, error: Any, took: float) -> None:
        del took
        self._sleep(self._posts.wait_after(error))

    def is_held(_self: Any, error: Exception) -> bool:
        raise error

    Posting._after, Posting._is_held = after, is_held  # type: ignore[method-assign,assignment]


def _claims_after_the_post() -> None:
    """A submission is claimed when the server has its job."""
    post = Posting.post
    claimed: dict[str, list[tuple[Claims, Claim]]] = {}

    def later(claims: Claims, claim: Claim, *_: object) -> Claim:
        claimed.setdefault(claim.job, []).append((claims, claim))
        return claim

    def posted(self: Posting, job: Any) -> Any:
        status = post(self, job)
        for claims, claim in claimed.pop(self._name, []):
            claims.claim(claim)
        return status

    evidence.claim_once, Posting.post = later, posted  # type: ignore[assignment,method-assign]


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
