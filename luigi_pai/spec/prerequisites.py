"""Prerequisites that need each other: ``require`` resolved, as no release of the server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luigi_pai.errors import Problem

__all__ = ["prerequisite_problems", "resolve"]


def resolve(document: dict[str, Any]) -> dict[str, Any]:
    return document


def prerequisite_problems(document: dict[str, Any]) -> list[Problem]:
    return []
