"""PaiProtocolTask: runs a job in OpenPAI's YAML job protocol as a step of a Luigi pipeline."""

from __future__ import annotations

import abc
import functools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task

from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.names import room_for_attempts
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.storage.mount import exporting, with_output
from luigi_pai.jobspec.templates.references import references
from luigi_pai.jobspec.templates.secrets import logged_secrets
from luigi_pai.jobspec.validate_protocol import check_protocol
from luigi_pai.tasks.attributes import attribute, base_folder
from luigi_pai.tasks.job_task import JobTask, decision
from luigi_pai.tasks.task_work import TaskWork, not_returned
from luigi_pai.work.decide import Done

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.job import PaiJob

__all__ = ["PaiJobTarget", "PaiProtocolTask"]

_RELATIVE = "a path is absolute, or relative to the folder of the module of the class"


class PaiProtocolTask(JobTask):
    """A Luigi task that runs a job written in the YAML job protocol (OpenPAI 0.15 to 1.8, LTP).

    Subclass it and define ``protocol``; ``parameters`` and ``secrets`` are merged into the
    protocol. The task runs like a ``PaiTask``: the name identifies the work, so a run takes over an
    existing job with this name, and submits a failed job again as ``NAME__attempt2``.

    Constructing a task makes no network requests.
    """

    @attribute
    @abc.abstractmethod
    def protocol(self) -> JobProtocol | str | os.PathLike[str]:
        """The job: a JobProtocol, a YAML string, or the path of a YAML file. Required.

        A string that contains a line break or starts with ``{`` is YAML. Any other string is a
        path, absolute or relative to the folder of the module that defines ``protocol``.
        """

    @attribute
    def name(self) -> str:
        """The job's name, unique among your jobs.

        The default is the protocol's name. If the task has significant Luigi
        parameters, a hash of them and of the task's class is appended, so that each set of
        values has its own job. If insignificant parameters change the job, override ``name``.
        """
        return self._with_hash(self._read_protocol.name)

    @attribute
    def parameters(self) -> Mapping[str, Any]:
        """Values for ``<% $parameters.KEY %>``; each replaces the protocol's value for the same key."""
        return {}

    @attribute
    def secrets(self) -> Mapping[str, Any]:
        """Values for ``<% $secrets.KEY %>``; each replaces the protocol's value for the same key.

        luigi_pai does not show these values. Do not use Luigi parameters for secrets, because Luigi shows
        parameters on its web page and in logs.
        """
        return {}

    @attribute
    def output_dir(self) -> str | None:
        """Folder for the job's results on the cluster's file system: ``$PAI_OUTPUT_DIR`` in the containers.

        It also contains the completion flag and the claims. If the folder is on the storage set in
        luigi.cfg, the job mounts that storage. If None, the job has no output folder.
        """
        return None

    def job(self) -> JobProtocol:
        """Return the job that ``run()`` submits. Override it to change a field that has no property.

        Raises:
            SpecError: the protocol is not YAML, or not a job protocol.
            OSError: the protocol's file cannot be read.
        """
        return self._read_protocol.renamed(self.name).filled(parameters=self.parameters, secrets=self.secrets)

    def output(self) -> Any:
        """Return a target that exists when the job has succeeded.

        Override it to return the targets that the job writes. The server eventually forgets the job (by
        default, 30 days after the job ends). From then on, the task is complete if ``output_dir`` contains a
        completion flag or, without ``output_dir``, if the targets that you return exist. The default target
        no longer exists then.
        """
        return PaiJobTarget(self)

    def _check(self, job: PaiJob | JobProtocol) -> list[str]:
        if not isinstance(job, JobProtocol):
            raise not_returned(self.name, job, "a JobProtocol")
        warnings = check_protocol(job, room_for_attempts(self.name, "name"))
        return [*map(str, warnings), *self._without_use(job)]

    def _without_use(self, job: JobProtocol) -> Iterator[str]:
        """Yield a warning for each of the task's parameters and secrets that the job does not use."""
        names = [each.steps for each in references(job.to_dict())]
        for field, given in (("parameters", self.parameters), ("secrets", self.secrets)):
            used = [steps[1] for steps in names if steps[0] == f"${field}" and len(steps) > 1]
            for key in dict.fromkeys(map(str, given)):
                if key not in used:
                    hint = nearest(key, dict.fromkeys(used))
                    yield f"{field}.{key}: has no effect: the job has no <% ${field}.{key} %>{hint}"

    @functools.cached_property
    def _read_protocol(self) -> JobProtocol:
        """The protocol. It is cached until the next ``run()`` or ``complete()``, which reads it again."""
        given: Any = self.protocol
        if isinstance(given, JobProtocol):
            return given
        is_text = isinstance(given, str) and ("\n" in given or "protocolVersion:" in given)
        if is_text or (isinstance(given, str) and given.lstrip().startswith("{")):
            return JobProtocol.from_yaml(given, f"protocol of {type(self).__name__}")
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(
                f"protocol of {type(self).__name__} is {type(given).__name__}; "
                "use a JobProtocol, a YAML string or a path"
            )
        file = base_folder(self, "protocol") / Path(given).expanduser()
        try:
            return JobProtocol.from_file(file)
        except FileNotFoundError as error:
            message = f"protocol of {type(self).__name__}: the file does not exist; {_RELATIVE}"
            raise FileNotFoundError(error.errno, message, str(file)) from None

    # for TaskWork

    _api_version = "v2"

    def _output_folder(self) -> str | None:
        return self.output_dir or None

    def _in_folder(self, job: PaiJob | JobProtocol, fs: FileSystem | None) -> PaiJob | JobProtocol:
        folder, storage = self._output_folder(), OpenPai.current(self.cluster).cluster().storage
        if folder is None or fs is None or not isinstance(job, JobProtocol):
            return job
        if storage is not None and fs.is_mounted:
            return with_output(job, storage.mount(), folder)
        uri = (OpenPai.current(self.cluster).fs_uri or "").rstrip("/")
        return exporting(job, PAI_OUTPUT_DIR=shlex.quote(uri + fs.at(folder)[1]))

    def _redacted(self) -> Sequence[str]:
        return logged_secrets(self.job().to_dict())

    def _check_class(self) -> None:
        super()._check_class()
        vars(self).pop("_read_protocol", None)  # Luigi caches tasks, and the file may have changed
        settings = OpenPai.current(self.cluster)
        if settings.api_version == "v1":
            raise ConfigError(
                f"{type(self).__name__} is a job in the YAML protocol, but api_version = v1 is set in "
                f"[{settings.section}] of luigi.cfg; clusters of OpenPAI 0.7 to 0.14 run PaiTask only"
            )


class PaiJobTarget(luigi.Target):
    """A target that exists when a task's job has succeeded.

    Args:
        task: The job's task.
    """

    def __init__(self, task: PaiProtocolTask) -> None:
        self.task = task

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task!r})"

    def exists(self) -> bool:
        """Return whether the job has succeeded; False if the server no longer knows it."""
        # leave out the outputs that the task defines, because this target may be one of them
        return isinstance(decision(TaskWork(self.task, ())), Done)
