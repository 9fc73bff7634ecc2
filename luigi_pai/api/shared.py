"""What a process shares with the processes forked from it, as its users see it; ``book.document`` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Shared"]


class Shared(Protocol):
    """A JSON object that forked processes share."""

    def read(self) -> dict[str, Any]:
        """Return the current object. Do not change it; use ``update``."""
        ...

    def update(self) -> AbstractContextManager[dict[str, Any]]:
        """Yield a copy to change; it is written at the end of ``with`` unless that fails."""
        ...

    def locked(self, what: str) -> AbstractContextManager[None]:
        """Hold a lock, such as ``login``, against all threads and processes that share the object."""
        ...
