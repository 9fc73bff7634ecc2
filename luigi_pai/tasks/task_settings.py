"""TaskSettings: the settings of a task, and those of luigi.cfg for what it leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import luigi

    from luigi_pai.config import OpenPai

__all__ = ["TaskSettings"]


class TaskSettings:
    """The settings of a task: its attribute of a name, or the key of [OpenPai] where that is None.

    Args:
        task: the task.
        settings: the section.
    """

    def __init__(self, task: luigi.Task, settings: OpenPai) -> None:
        self._task = task
        self._settings = settings

    def __getitem__(self, name: str) -> Any:
        own = getattr(self._task, name)
        return getattr(self._settings, name) if own is None else own
