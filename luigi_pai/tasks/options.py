"""Options: the settings of a task. If an attribute of the task is None, the setting in luigi.cfg applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.config_checks import exit_codes, words_of
from luigi_pai.errors import ConfigError
from luigi_pai.settings import OF_TASKS

if TYPE_CHECKING:
    import luigi

    from luigi_pai.api.status import JobStatus
    from luigi_pai.config import OpenPai


class Options:
    """The settings of a task by name. If the task's attribute is None, the key in luigi.cfg applies.

    Args:
        task: the task.
        settings: the section of luigi.cfg.
    """

    def __init__(self, task: luigi.Task, settings: OpenPai) -> None:
        self._task = task
        self._settings = settings

    def __getitem__(self, name: str) -> Any:
        own = getattr(self._task, name)
        return getattr(self._settings, name) if own is None else own

    def check(self) -> None:
        """Check the task's attributes only; the section of luigi.cfg was checked when it was read.

        Raises:
            ConfigError: attributes are invalid; the message names each of them and valid values.
        """
        own = {key: getattr(self._task, key) for key in OF_TASKS}
        checks = [(key, OF_TASKS[key], value) for key, value in own.items() if value is not None]
        wrong = [problem for key, check, value in checks for problem in check.problems(key, value)]
        if wrong:
            raise ConfigError(f"{type(self._task).__name__}: {'; '.join(wrong)}")

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the job: ``luigi``, ``luigi:FAMILY`` and the user's."""
        own = ("luigi", f"luigi:{self._task.task_family}")
        return tuple(dict.fromkeys((*own, *words_of(self["tags"]))))

    @property
    def notify(self) -> tuple[str, ...]:
        """The changes of state that the cluster is to notify the user of."""
        return words_of(self["notify"])

    def is_retried(self, status: JobStatus) -> bool:
        """Return whether the exit codes of an ended job allow the same run to submit it again."""
        wanted, codes = self["retry_exit_codes"], (status.exit_code, status.command_exit_code)
        if wanted is None:
            return True
        return any(code in some for some in exit_codes(wanted) for code in codes if code is not None)
