"""TaskWork: the work that a Luigi task defines. Options: its settings. Forecast: what a run would do."""

from __future__ import annotations

import hashlib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.config import OpenPai
from luigi_pai.config_checks import exit_codes, words_of
from luigi_pai.console import is_users
from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.settings import OF_TASKS
from luigi_pai.tasks.attributes import is_ours
from luigi_pai.tasks.outputs import Outputs, configured_files
from luigi_pai.work.decide import Done, Refuse, Submit
from luigi_pai.work.piece import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import luigi

    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.work.decide import Decision
    from luigi_pai.work.piece import Origin

logger = logging.getLogger("luigi-interface")


class _NoJobError(SpecError, TypeError):
    """No job can be made from a task. The error is also a TypeError, because luigi.contrib.pai raised one."""


def not_returned(name: str, job: object, wanted: str) -> SpecError:
    """Return the error of a task whose ``job()`` has returned None, or an object that is not ``wanted``."""
    what = "nothing: end it with return" if job is None else f"{type(job).__name__}, not {wanted}"
    return _NoJobError(name, [Problem("job()", f"returned {what}")])


@dataclass(frozen=True)
class Forecast:
    """What a run of a task would do if it started now.

    Attributes:
        state: ``done``, ``running`` (a run takes the job over), ``to submit``, or ``blocked``.
        number: of the submission: 1 for NAME, 2 for NAME__attempt2.
        why: why the task is blocked; empty in all other states.
    """

    state: str
    number: int
    why: str = ""

    @classmethod
    def of(cls, decision: Decision) -> Forecast:
        """Return the forecast of a decision."""
        if isinstance(decision, Submit):
            return cls("to submit", decision.number)
        if isinstance(decision, Refuse):
            return cls("blocked", 1, str(decision.error).partition("\n")[0])
        number = 1 if decision.entry is None else decision.entry.number
        return cls("done" if isinstance(decision, Done) else "running", number)


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


class TaskWork(Work):
    """The piece of work of a task, with the settings that are valid when the object is made.

    Args:
        task: the task.
        targets: of ``output()`` as a flat list; default: those of the task, if it overrides ``output()``.
        single: False for points of a sweep, whose remarks are logged at DEBUG.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the task's class or name is not valid.
    """

    def __init__(
        self, task: JobTask, targets: Sequence[luigi.Target] | None = None, *, single: bool = True
    ) -> None:
        task._check_class()  # noqa: SLF001  of this package
        cluster = task.cluster
        settings = OpenPai.current(cluster)
        book = settings.cluster().book
        if task._api_version:  # noqa: SLF001  as above
            book = book.with_version(task._api_version)  # noqa: SLF001  as above
        self._task = task
        self._level = logging.INFO if single else logging.DEBUG
        name: str = task.name  # type: ignore[attr-defined]  # of each subclass
        folder = task._output_folder()  # noqa: SLF001  as above
        self._fs = configured_files(settings, cluster, folder)
        outputs = Outputs(self._fs, name, folder, task._targets if targets is None else lambda: targets)  # noqa: SLF001  as above
        super().__init__(name, folder, book, Options(task, settings), outputs)
        self.outputs: Outputs
        self.compares_stored_job = folder is None

    @property
    def kind(self) -> str:
        """``MODULE.CLASS`` of the task; for a script, the module's name is that of its file."""
        kind = self._task._kind()  # noqa: SLF001  of this package
        module = kind.__module__
        if module == "__main__":
            main = sys.modules[module]
            spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
            module = spec.name if spec is not None else Path(file).stem if file else module
        return f"{module}.{kind.__qualname__}"

    @property
    def origin(self) -> Origin:
        """The task."""
        return self._task

    def of_origin(self, origin: Origin) -> Work:
        """Return the work of another task."""
        return TaskWork(origin)  # type: ignore[arg-type]  # each origin is a task

    @property
    def with_runtime(self) -> bool:
        """Whether the containers have ``pai_runtime.py``."""
        return self._task.runtime

    def build_job(self) -> PaiJob | JobProtocol:
        """Return the task's ``job()``.

        Raises:
            SpecError: no job can be made from the task's definition.
        """
        try:
            return self._task._in_folder(self._task._job(), self.outputs.fs)  # noqa: SLF001  as above
        except TypeError as error:
            if is_users(error):
                raise
            text = str(error).removeprefix(f"job {self.name!r}: ")
            raise _NoJobError(self.name, [Problem("job()", text)]) from None

    @property
    def inputs(self) -> Mapping[str, str]:
        """Digests of the task's parameters, of its uploads, and of what ``work`` uses, by name."""
        texts = self._task._inputs()  # noqa: SLF001  as above
        return {name: hashlib.sha256(ascii(text).encode()).hexdigest()[:12] for name, text in texts.items()}

    def check_job(self) -> list[str]:
        """Validate the job, check that its folder can be written, and return warnings."""
        warnings = [*self.outputs.warnings(is_written_by_job=is_ours(type(self._task).run))]
        if self.outputs.fs is not None:
            warnings += self.outputs.fs.check_writable(str(self.folder))
        return [*warnings, *self._task._check(self.job)]  # noqa: SLF001  of this package

    def secrets(self) -> Sequence[str]:
        """Return the texts to redact in the job's logs and errors."""
        return self._task._secret_texts()  # noqa: SLF001  as above

    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Send the job's uploads, and return the job with the name of the submission."""
        version, name = self.book.api.dialect.version, self.job_name(number)
        job = self.named(name)
        if isinstance(job, PaiJob):
            if number > 1 or version == "v2":
                job.outputDir = job.outputDir or self.folder
            job = self._task._prepared(job, version, self._fs)  # noqa: SLF001  as above
        if self.outputs.fs is not None:
            volume, place = self.outputs.fs.at(str(self.folder))
            volume.share_folder(place)
        self._remark_on_flag(name)
        return job

    def _remark_on_flag(self, name: str) -> None:
        """Log once that jobs get no completion flag, if the task may rely on one."""
        if self.folder is None or self.outputs.fs is not None:
            return
        is_set = self._fs is not None or self._task._folder_is_set()  # noqa: SLF001  as above
        if is_set and self.book.api.session.times("jobs without completion flag") == 1:
            fallback = self.outputs.completion_fallback()
            logger.log(self._level, "Job %s, as others after it, gets no completion flag: %s", name, fallback)
