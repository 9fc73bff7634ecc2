"""Callbacks of a prerequisite: commands that a plugin runs on an event."""

from __future__ import annotations

from typing import Any, Final

PLUGIN: Final = "com.microsoft.pai.runtimeplugin"
"""Key of the runtime plugins in extras, and prefix of a prerequisite's ``plugin``."""

CMD_PLUGIN: Final = f"{PLUGIN}.cmd"
"""The plugin that runs callbacks."""

_EVENTS = {"containerStart": "taskStarts", "containerExit": "taskSucceeds"}
"""Name of an event in OpenPAI's proposal (issue 5145) -> its name in releases."""


def with_event_of_releases(callback: Any) -> Any:
    """Return a callback with the name of its event in releases."""
    event = callback.get("event") if isinstance(callback, dict) else None
    return {**callback, "event": _EVENTS.get(event, event)} if isinstance(event, str) else callback
