"""PaiProtocolTask: a job of OpenPAI's YAML job protocol as a step of a Luigi pipeline."""

from __future__ import annotations

import abc
import functools
import hashlib
import html
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task

from luigi_pai.attributes import attribute
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.job_task import JobTask
from luigi_pai.outputs import own_targets
from luigi_pai.source import folder_of
from luigi_pai.spec.containers import for_containers
from luigi_pai.spec.names import room_for_attempts
from luigi_pai.spec.protocol import JobProtocol
from luigi_pai.spec.templates.secrets import secret_values
from luigi_pai.spec.validate_protocol import check_protocol
from luigi_pai.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["PaiJobTarget", "PaiProtocolTask"]

logger = logging.getLogger("luigi-interface")

_HASH = 10  # characters
_SHORTEST_SECRET = 4  # characters; a shorter one is part of ordinary words


class PaiProtocolTask(JobTask):
    """A Luigi task whose work is a job of the YAML job protocol (OpenPAI 0.15 to 1.8).

    Subclass it and give ``protocol``; ``parameters`` and ``secrets`` are merged into
    it. It lives as a ``PaiTask`` does: the name identifies the work, a job that is
    there is taken over, a failed one is submitted again as ``NAME__attempt2``.

    Constructing a task makes no network requests.
    """

    @attribute
    @abc.abstractmethod
    def protocol(self) -> JobProtocol | str | os.PathLike[str]:
        """The job: a JobProtocol, YAML text, or a file of it. Required.

        Text has a line break or begins with ``{``; any other string is a path,
        absolute or relative to the folder of the module whose class says this.
        """

    @attribute
    def name(self) -> str:
        """Name of the job, unique among your jobs.

        That of the protocol; where the task has significant parameters of Luigi's,
        with a hash of them and of the task's own name, so that each set of values is
        a job of its own. (Values of parameters that are not significant do not
        count: where they decide what the job does, give a name of your own.)
        """
        name = self._read_protocol.name
        if not any(parameter.significant for _, parameter in self.get_params()):  # type: ignore[no-untyped-call]
            return name
        return f"{name}_{hashlib.sha256(self.task_id.encode()).hexdigest()[:_HASH]}"

    @attribute
    def parameters(self) -> Mapping[str, Any]:
        """Values for ``<% $parameters.KEY %>``, over those of the protocol."""
        return {}

    @attribute
    def secrets(self) -> Mapping[str, Any]:
        """Values for ``<% $secrets.KEY %>``, over those of the protocol; never shown.

        Read them from where your secrets are, not from Luigi parameters: those are
        shown on Luigi's page and in its logs.
        """
        return {}

    def job(self) -> JobProtocol:
        """Return the job that ``run()`` submits. Override it to change what has no property here.

        Raises:
            SpecError: the protocol is no YAML, or has not the shape of one.
            OSError: its file cannot be read.
        """
        return self._read_protocol.renamed(self.name).filled(parameters=self.parameters, secrets=self.secrets)

    def output(self) -> Any:
        """Return a target that exists when the job has succeeded.

        Override it to return what the job writes. When the server has forgotten the
        job (30 days after its end, by default), the work is complete if those
        targets exist; the one of this method is then gone.
        """
        return PaiJobTarget(self)

    def run(self) -> None:
        """Find or submit the job, and follow it to its end.

        Raises:
            SpecError: the job cannot run as it is written; nothing was sent.
            ConfigError: a setting is wrong.
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobLost: the server has forgotten the job.
            PaiApiError: the server refused the job, or did not answer for too long.
        """
        too_long = room_for_attempts(self.name, "name")
        for warning in check_protocol(self.job(), too_long):
            logger.warning("Job %s: %s", self.name, warning)
        self._run()

    @functools.cached_property
    def _read_protocol(self) -> JobProtocol:
        given: Any = self.protocol
        if isinstance(given, JobProtocol):
            return given
        if isinstance(given, str) and ("\n" in given or given.lstrip().startswith("{")):
            return JobProtocol.from_yaml(given, f"protocol of {type(self).__name__}")
        if isinstance(given, (str, os.PathLike)):
            return JobProtocol.from_file(folder_of(self, "protocol") / Path(given).expanduser())
        raise TypeError(
            f"protocol of {type(self).__name__} is {type(given).__name__}; "
            "give a JobProtocol, YAML text or a path"
        )

    def _work(self) -> Work:
        if OpenPai.current().api_version == "v1":
            raise ConfigError(
                f"{type(self).__name__} is a job of the YAML protocol, and api_version = v1 is set in "
                "[OpenPai] of luigi.cfg; such a cluster (OpenPAI 0.7 to 0.14) runs PaiTask only"
            )
        return _ProtocolWork(self)


class _ProtocolWork(Work):
    """What a PaiProtocolTask wants done."""

    api_version = "v2"
    compares_stored_job = True

    def __init__(self, task: PaiProtocolTask) -> None:
        super().__init__(task, task.name)
        self._task = task

    def job_named(self, name: str) -> JobProtocol:
        return for_containers(self._task.job(), name, with_runtime=self._task.runtime)

    def targets(self) -> list[luigi.Target]:
        return own_targets(self._task, PaiProtocolTask)

    def secret_texts(self) -> Sequence[str]:
        return list(_as_logs_have_them(secret_values(self._task.job().to_dict())))


class _ProtocolWorkAlone(_ProtocolWork):
    """The same, whatever the task's outputs are."""

    def targets(self) -> list[luigi.Target]:
        return []


def _as_logs_have_them(secrets: Iterable[Any]) -> Iterator[str]:
    """Yield what secrets look like in a log: whole, line by line, and as the runtime escapes them."""
    for text in map(str, secrets):
        for part in {text, html.escape(text), *text.splitlines(), *html.escape(text).splitlines()}:
            if len(part.strip()) >= _SHORTEST_SECRET:
                yield part.strip()


class PaiJobTarget(luigi.Target):
    """A target that exists when the job of a task has succeeded.

    Args:
        task: whose job it is.
    """

    def __init__(self, task: PaiProtocolTask) -> None:
        self.task = task

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task!r})"

    def exists(self) -> bool:
        """Return whether the job has succeeded, as far as the server remembers."""
        from luigi_pai.run import Run  # noqa: PLC0415  as in JobTask

        # The task's own outputs are not asked: this target may be one of them.
        return Run(_ProtocolWorkAlone(self.task)).is_complete()
