"""TaskWork: the work that a Luigi task defines. Forecast: what a run that starts now would do."""

from __future__ import annotations

import hashlib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.config import OpenPai
from luigi_pai.console import is_users
from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.tasks.attributes import is_ours
from luigi_pai.tasks.outputs import Outputs
from luigi_pai.work.decide import Done, Refuse, Submit
from luigi_pai.work.piece import Options, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import luigi

    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.work.decide import Decision
    from luigi_pai.work.piece import Origin

logger = logging.getLogger("luigi-interface")


class _NoJobError(SpecError, TypeError):
    """A job cannot be built from a task. It is also a TypeError, because luigi.contrib.pai raised one."""


def not_returned(name: str, job: object, wanted: str) -> SpecError:
    """Return the error for a task whose ``job()`` returned None, or an object that is not ``wanted``."""
    returned = "nothing: end it with return" if job is None else f"{type(job).__name__}, not {wanted}"
    return _NoJobError(name, [Problem("job()", f"returned {returned}")])


@dataclass(frozen=True)
class Forecast:
    """What a run of a task that starts now would do.

    Attributes:
        state: ``done``, ``running`` (a run takes the job over), ``to submit``, or ``blocked``.
        number: The submission's number: 1 for NAME, 2 for NAME__attempt2.
        why: Why the task is blocked; empty in all other states.
    """

    state: str
    number: int
    why: str = ""

    @classmethod
    def from_decision(cls, decision: Decision) -> Forecast:
        """Return the forecast for a decision."""
        if isinstance(decision, Submit):
            return cls("to submit", decision.number)
        if isinstance(decision, Refuse):
            return cls("blocked", 1, str(decision.error).partition("\n")[0])
        number = 1 if decision.entry is None else decision.entry.number
        return cls("done" if isinstance(decision, Done) else "running", number)


class TaskWork(Work):
    """A task's piece of work, with the settings at the time when the object is created.

    Args:
        task: The task.
        targets: The targets from ``output()`` as a flat list; by default, the task's own targets if it
            overrides ``output()``.
        single: False for a sweep's points, whose remarks are logged at DEBUG.

    Raises:
        ConfigError: A setting is invalid.
        SpecError: The task's class or name is invalid.
    """

    def __init__(
        self, task: JobTask, targets: Sequence[luigi.Target] | None = None, *, single: bool = True
    ) -> None:
        task._check_class()
        cluster = task.cluster
        settings = OpenPai.current(cluster)
        book = settings.cluster().book
        if task._api_version:
            book = book.with_version(task._api_version)
        self._task = task
        self._level = logging.INFO if single else logging.DEBUG
        name: str = task.name  # type: ignore[attr-defined]  # of each subclass
        folder = task._output_folder()
        self._fs = None
        if settings.has_files:
            from luigi_pai.files import cluster_files  # noqa: PLC0415  only files need it

            self._fs = cluster_files(cluster, folder)
        outputs = Outputs(self._fs, name, folder, task._targets if targets is None else lambda: targets)
        super().__init__(task, _kind_of(task), name, folder, book, Options(task, settings), outputs)
        self.outputs: Outputs

    def from_origin(self, origin: Origin) -> Work:
        """Return another task's work."""
        return TaskWork(origin)  # type: ignore[arg-type]  # each origin is a task

    def build_job(self) -> PaiJob | JobProtocol:
        """Return the task's ``job()``.

        Raises:
            SpecError: a job cannot be built from the task's definition.
        """
        try:
            return self._task._in_folder(self._task._job(), self.outputs.fs)
        except TypeError as error:
            if is_users(error):
                raise
            message = str(error).removeprefix(f"job {self.name!r}: ")
            raise _NoJobError(self.name, [Problem("job()", message)]) from None

    @property
    def inputs(self) -> Mapping[str, str]:
        """Digests of the task's parameters, its uploads, and the objects that ``work`` uses, by name."""
        inputs = self._task._inputs()
        return {name: hashlib.sha256(ascii(each).encode()).hexdigest()[:12] for name, each in inputs.items()}

    def check_job(self) -> list[str]:
        """Validate the job, check that its folder can be written, and return warnings."""
        warnings = [*self.outputs.warnings(is_written_by_job=is_ours(type(self._task).run))]
        if self.outputs.fs is not None:
            warnings += self.outputs.fs.check_writable(str(self.folder))
        return [*warnings, *self._task._check(self.job)]

    def secrets(self) -> Sequence[str]:
        """Return the strings to redact in the job's logs and errors."""
        return self._task._redacted()

    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Send the job's uploads, and return the job under the submission's name."""
        version, name = self.book.api.dialect.version, self.job_name(number)
        job = self.named(name)
        if isinstance(job, PaiJob):
            if number > 1 or version == "v2":
                job.outputDir = job.outputDir or self.folder
            job = self._task._prepared(job, version, self._fs)
        if self.outputs.fs is not None:
            volume, place = self.outputs.fs.at(str(self.folder))
            volume.share_folder(place)
        self._remark_on_flag(name)
        return job

    def _remark_on_flag(self, name: str) -> None:
        """Log once that jobs get no completion flag, if the task may rely on one."""
        if self.folder is None or self.outputs.fs is not None:
            return
        is_set = self._fs is not None or self._task._folder_is_set()
        if is_set and self.book.api.session.times("jobs without completion flag") == 1:
            fallback = self.outputs.completion_fallback()
            logger.log(
                self._level, "Job %s, like others after it, gets no completion flag: %s", name, fallback
            )


def _kind_of(task: JobTask) -> str:
    """Return a task's ``MODULE.CLASS``; for a script, the module is named after its file."""
    kind = task._kind()
    module = kind.__module__
    if module == "__main__":
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else module
    return f"{module}.{kind.__qualname__}"
