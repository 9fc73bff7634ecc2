"""Callbacks of a prerequisite: commands that a plugin runs on an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.jobspec.paths import Path

__all__ = ["CMD_PLUGIN", "PLUGIN", "callback_problems", "with_event_of_releases"]

PLUGIN: Final = "com.microsoft.pai.runtimeplugin"
"""Key of the runtime plugins in extras, and prefix of a prerequisite's ``plugin``."""

CMD_PLUGIN: Final = f"{PLUGIN}.cmd"
"""The plugin that runs callbacks."""

_EVENTS = {
    "taskStarts": "taskStarts",
    "taskSucceeds": "taskSucceeds",
    "containerStart": "taskStarts",
    "containerExit": "taskSucceeds",
}
"""Event, of the releases or of the proposal -> its name in releases."""


def with_event_of_releases(callback: Any) -> Any:
    """Return a callback with its event as releases call it."""
    event = callback.get("event") if isinstance(callback, dict) else None
    return {**callback, "event": _EVENTS.get(event, event)} if isinstance(event, str) else callback


def callback_problems(callbacks: Any, path: Path) -> Iterator[Problem]:
    """Yield the problems of callbacks, which the server does not check.

    Args:
        callbacks: the value of ``callbacks``, of any shape.
        path: where they are in the protocol.
    """
    if not isinstance(callbacks, list):
        yield _unfit(path, "this is not a list of {event, commands}")
        return
    for index, callback in enumerate(callbacks):
        yield from _callback(callback, (*path, index))


def _callback(callback: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(callback, dict):
        yield _unfit(path, "this is not a mapping with event and commands")
        return
    event, commands = callback.get("event"), callback.get("commands")
    if not isinstance(event, str) or event not in _EVENTS:
        yield Problem(
            path_text((*path, "event")),
            f"{event!r} is not an event{nearest(str(event), dict.fromkeys(_EVENTS.values()))}; "
            "the server accepts it, and the commands never run",
            Level.STRICTER,
        )
    elif event == "containerExit":
        yield Problem(
            path_text((*path, "event")),
            "containerExit is sent as taskSucceeds: these commands run after a success only. No release runs "
            "commands after a failure; catch it in the role's own commands",
            Level.WARNING,
        )
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        yield _unfit((*path, "commands"), "this is not a list of texts")


def _unfit(path: Path, message: str) -> Problem:
    return Problem(
        path_text(path),
        f"{message}; the server accepts it, and the task fails when it starts",
        Level.STRICTER,
    )
