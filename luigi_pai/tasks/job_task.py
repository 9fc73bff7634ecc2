"""JobTask: the base class of PaiTask and PaiProtocolTask."""

from __future__ import annotations

import abc
import hashlib
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import luigi.configuration
import luigi.task
from luigi.task import MixinNaiveBulkComplete

from luigi_pai.api.status import JobState
from luigi_pai.config_file import with_address
from luigi_pai.console import install
from luigi_pai.errors import PaiJobError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.notebook import is_notebook
from luigi_pai.tasks.attributes import Task, attribute, is_ours, overriding
from luigi_pai.tasks.class_checks import check_class
from luigi_pai.tasks.luigi_page import has_page
from luigi_pai.tasks.outputs import NoResult
from luigi_pai.tasks.task_work import Forecast, TaskWork
from luigi_pai.work.decide import Done, Submit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.work.decide import Decision
    from luigi_pai.work.piece import Work

# luigi_pai.api has its own logger; with this parent, its lines appear with Luigi's.
logging.getLogger("luigi_pai").parent = logging.getLogger("luigi-interface")
if is_notebook() and luigi.configuration.get_config().get("OpenPai", "console", "quiet") == "quiet":
    install()

_HASH = 10  # characters
_PARAMETERS = WeakKeyDictionary[type, tuple[list[int], list[tuple[str, luigi.Parameter]]]]()

_OF_RUNS = ("tasks.job_watch", "tasks.uploads", "work.run", "jobspec.validate", "jobspec.comparison")
_OF_V2_RUNS = ("jobspec.convert", "jobspec.submission", "jobspec.validate_protocol")


class JobTask(MixinNaiveBulkComplete, Task):
    """A Luigi task that runs as a job on an OpenPAI cluster; see ``PaiTask`` and ``PaiProtocolTask``."""

    @attribute
    def cluster(self) -> str | None:
        """The cluster for the job and its outputs: the NAME of ``[OpenPai:NAME]`` in luigi.cfg.

        If None, the ``LUIGI_PAI_CLUSTER`` environment variable gives the NAME; without it, ``[OpenPai]`` is
        used.
        """
        return None

    # Each of these is described where its setting is declared.

    @overriding
    def on_forgotten(self) -> str | None: ...

    @overriding
    def on_kill(self) -> str | None: ...

    @overriding
    def queue_timeout(self) -> float | None: ...

    @overriding
    def run_timeout(self) -> float | None: ...

    @overriding
    def logs(self) -> str | None: ...

    @overriding
    def keep_logs(self) -> bool | None: ...

    @overriding
    def max_attempts(self) -> int | None: ...

    @overriding
    def retry_exit_codes(self) -> Sequence[int | range | str] | str | None: ...

    @overriding
    def tags(self) -> Sequence[str] | None: ...

    @overriding
    def notify(self) -> Sequence[str] | None: ...

    @attribute
    def runtime(self) -> bool:
        """Whether the containers have ``pai_runtime.py``, a copy of ``luigi_pai.runtime``."""
        return False

    @attribute
    def accepts_messages(self) -> bool:
        """Whether Luigi's web page may send the message ``stop``."""
        return has_page()

    @classmethod
    def get_params(cls) -> list[tuple[str, luigi.Parameter]]:
        """Return the class's parameters with their names, in the order of definition.

        Luigi calls this eight times for each task and inspects every attribute of the class. The parameters
        are therefore cached until an attribute is added or a parameter is replaced.
        """
        sizes = [len(vars(base)) for base in cls.__mro__]
        known = _PARAMETERS.get(cls)
        if known is None or known[0] != sizes or any(getattr(cls, name) is not it for name, it in known[1]):
            known = _PARAMETERS[cls] = sizes, super().get_params()  # type: ignore[no-untyped-call]
        return list(known[1])

    def _with_hash(self, name: str) -> str:
        """Return a name; if the task has significant parameters, add a hash of the class and parameters."""
        if not any(parameter.significant for _, parameter in self.get_params()):
            return name
        return f"{name}_{hashlib.sha256(self.task_id.encode()).hexdigest()[:_HASH]}"

    @abc.abstractmethod
    def job(self) -> PaiJob | JobProtocol:
        """Return the job that ``run()`` submits."""

    def render(self, *, filled: bool = False) -> str:
        """Return the job as submitted, as JSON or YAML; in YAML, ``******`` replaces secrets.

        Args:
            filled: Whether to return only each role's command, as the server renders it.

        Raises:
            SpecError: the job is invalid.
        """
        from luigi_pai.jobspec.containers import for_containers  # noqa: PLC0415  only needed here
        from luigi_pai.jobspec.submission import rendered  # noqa: PLC0415  as above

        job = self._job()
        name = job.jobName if isinstance(job, PaiJob) else job.name
        return rendered(for_containers(job, name, with_runtime=self.runtime), filled=filled)

    def run(self) -> None:
        """Find or submit the job, and wait until it has finished.

        Raises:
            SpecError: the job or its uploads are invalid; nothing was sent.
            ConfigError: a setting is invalid.
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: the job was submitted earlier, and its result is unknown.
            PaiJobLost: the server no longer knows the running job.
            PaiOutputElsewhere: the job with this name writes to another output folder.
            PaiNameTaken: the name belongs to another user.
            PaiWorkConflict: another task has used the name or the output folder.
            PaiApiError: the server rejected the job, or requests failed until their deadline.
            HdfsError: the uploads could not be sent, or the output folder could not be created.
        """
        from luigi_pai.tasks.job_watch import JobWatch  # noqa: PLC0415  only runs need it
        from luigi_pai.work.run import Run  # noqa: PLC0415  as above

        with with_address(self.cluster):
            work = TaskWork(self)
            Run(work, JobWatch(self, work)).execute()

    def complete(self) -> bool:
        """Return whether the task is complete.

        It is complete if one of the user's submissions succeeded. Once the server no longer knows the job,
        the completion flag in the output folder decides. There is no flag if no HDFS or storage is set up or
        the output folder is elsewhere. The task is then complete if you override ``output()`` and all its
        targets exist.

        Raises:
            ConfigError: a setting is invalid.
            SpecError: another task of this process has the same name and a different job, or the same output
                folder.
            PaiNameTaken: the name belongs to another user.
            PaiWorkConflict: another task has used the name.
            PaiOutputElsewhere: the job with this name wrote to another output folder.
            PaiApiError: the lookup failed, so it is unknown whether the task is complete.
            HdfsError: the cluster's file system was needed but failed.
        """
        with with_address(self.cluster):
            work = TaskWork(self)
            if isinstance(decision(work), Done):
                return True
            _load_modules(work.book.api.dialect.version)
            return False

    def result(self) -> Mapping[str, Any]:
        """Return the values that a sweep's table shows for this task after its job has finished.

        The default reads ``metrics.json`` (a JSON object of at most 1 MB), which is a target of ``output()``
        or in a folder that is a target. If the file does not exist, the default returns the values that the
        containers reported (``luigi_pai.runtime.report``). If the file exists and ``runtime`` is set, the
        default adds the reported values that are not in the file. Override ``result()`` to read results from
        elsewhere. If your method raises an error, the table shows it, and the sweep continues.

        Raises:
            ValueError: the file is too large, or not a JSON object.
            HdfsError: the file system failed.
            PaiJobError: there is no result, because the task has not run or its job failed.
        """
        work = TaskWork(self)
        return work.outputs.result(self) or self._no_result(work)

    def forecast(self) -> Forecast:
        """Return what a run that starts now would do: submit a job, take over a job, or neither.

        Submits nothing.

        Raises:
            PaiError: for the same reasons as ``complete()``.
        """
        return Forecast.from_decision(decision(TaskWork(self)))

    # for TaskWork

    def _no_result(self, work: Work) -> Mapping[str, Any]:
        """Return an empty result for a job without a result.

        Raises:
            PaiJobError: see ``result``.
        """
        if work.book.cached_entry(work.name) is None and decision(work) == Submit(1):
            raise PaiJobError(f"{self} has no result, because it has not run: there is no job {work.name!r}")
        last = work.book.cached_entry(work.name)
        if last is not None and last.status is not None and last.status.state is JobState.FAILED:
            raise PaiJobError(f"{self} has no result, because its job {last.job!r} failed")
        empty = NoResult()
        empty.why = f"the result of {self} is empty: {self._empty_because}"
        return empty

    # ``v1`` or ``v2`` if the job runs only on clusters with that version
    _api_version: ClassVar[str | None] = None
    _empty_because = "the job put no metrics.json into $PAI_OUTPUT_DIR"
    _largest_metrics: ClassVar[int] = 1_000_000  # bytes of ``metrics.json``

    @abc.abstractmethod
    def _check(self, job: PaiJob | JobProtocol) -> list[str]:
        """Validate the task's job, and return warnings; raise SpecError if the job is invalid."""

    def _targets(self) -> list[luigi.Target]:
        """Return the targets from ``output()`` as a flat list; empty if the task does not override it."""
        return [] if is_ours(type(self).output) else luigi.task.flatten(self.output())  # type: ignore[no-untyped-call]

    def _job(self) -> PaiJob | JobProtocol:
        """Return ``job()`` with the changes that the task's attributes make to any job."""
        return self.job()

    def _kind(self) -> type:
        """Return the class that defines the work."""
        return type(self)

    def _check_class(self) -> None:
        """Check the task's class, once, and the cluster.

        Raises:
            SpecError, ConfigError: the class is invalid, or the cluster cannot run the job.
        """
        check_class(self)

    def _output_folder(self) -> str | None:
        """Return the job's output folder; None for a job protocol that does not name one."""
        return None

    def _in_folder(self, job: PaiJob | JobProtocol, fs: FileSystem | None) -> PaiJob | JobProtocol:
        """Return the job, with access to its output folder on ``fs`` added if the job does not have it."""
        del fs
        return job

    def _inputs(self) -> dict[str, str]:
        """Return everything the result depends on besides the job itself, as strings by name."""
        return dict(self.to_str_params(only_significant=True, only_public=True))  # type: ignore[no-untyped-call]

    def _folder_is_set(self) -> bool:
        """Return whether ``output_dir`` is set to a folder other than the default one."""
        return True

    def _redacted(self) -> Sequence[str]:
        """Return the strings to redact in the job's logs and errors."""
        return ()

    def _prepared(self, job: PaiJob, api_version: str, fs: FileSystem | None) -> PaiJob | JobProtocol:
        """Send a job's uploads to the cluster's file system, and return the job as it is posted."""
        del api_version, fs
        return job


def decision(work: Work) -> Decision:
    """Return the next step of a run that starts now; see ``work.lookup.decision``."""
    from luigi_pai.work import lookup  # noqa: PLC0415  only runs and lookups need it

    return lookup.decision(work)


def _load_modules(version: str) -> None:
    """Load the modules that a run with this API version needs, before Luigi forks a worker for each task."""
    for name in _OF_RUNS if version == "v1" else (*_OF_RUNS, *_OF_V2_RUNS):
        import_module(f"luigi_pai.{name}")
