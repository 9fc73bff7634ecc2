"""Family: what a process knows together with the processes forked from it."""

from __future__ import annotations

from luigi_pai.api.book.document import SharedDocument

__all__ = ["Family"]


class Family:
    """The documents that forked processes share.

    Attributes:
        server: the token, the dialect, the request limits, and whether the server replies.
        jobs: the last list of the user's jobs, and what virtual clusters have.
    """

    def __init__(self) -> None:
        self.server = SharedDocument()
        self.jobs = SharedDocument()

    def clear(self) -> None:
        """Forget everything, in all processes."""
        for document in (self.server, self.jobs):
            with document.update() as state:
                state.clear()
