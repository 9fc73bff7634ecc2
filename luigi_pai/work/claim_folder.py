"""ClaimFolder: what claims need of the file system that stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from luigi_pai.errors import PaiError

LARGEST = 100_000
"""Maximum number of bytes of a claim."""


class ClaimFolder(Protocol):
    """A folder of claims. Whatever its file system is, the claims in it follow the rules of ``Claims``."""

    where: str
    """The folder as messages name it."""

    def names(self) -> list[str]:
        """Return the names of the files; an empty list if the folder does not exist."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        ...

    def create_once(self, name: str, data: bytes) -> bool:
        """Create a file; return False if it exists. Of several that create it, at most one gets True.

        The file is complete from the moment when others can see it.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, and replace it in one step if it exists."""
        ...

    def add(self, name: str) -> None:
        """Create an empty file, unless it exists."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...

    def failed(self, name: str, problem: str, step: str = "") -> PaiError:
        """Return an error about a file.

        Args:
            name: The file's name.
            problem: What is the matter; it follows the path of the file.
            step: What the user can do; by default, check what the folder depends on.
        """
        ...
