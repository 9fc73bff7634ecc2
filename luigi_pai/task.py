"""PaiTask: runs a job on an OpenPAI cluster as a step of a Luigi pipeline."""

from __future__ import annotations

import abc
import functools
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.worker

from luigi_pai.config import OpenPai
from luigi_pai.config_file import configured_secrets
from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.job import PaiJob, default_output
from luigi_pai.jobspec.names import room_for_attempts
from luigi_pai.tasks.attributes import attribute, is_ours
from luigi_pai.tasks.job_task import JobTask
from luigi_pai.tasks.task_work import not_returned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.job import TaskRole
    from luigi_pai.jobspec.protocol import JobProtocol

__all__ = ["PaiTask"]

_NAMES = {"authFile": "auth_file_path", "codeDir": "code_dir", "dataDir": "data_dir"}
_LONG = 8  # characters; a shorter secret may occur in a job by coincidence
_SERVER_OUTPUT = "$PAI_DEFAULT_FS_URI/Output"  # where servers put the output of jobs without an output folder


class PaiTask(JobTask):
    """A Luigi task that runs as a job on an OpenPAI cluster.

    Subclass it and define ``name``, ``image`` and ``tasks`` as properties, class
    attributes or Luigi parameters. Set the cluster and the user in luigi.cfg: in ``[OpenPai]``,
    or in ``[OpenPai:NAME]`` for tasks with ``cluster = "NAME"``. The name
    identifies the work, so a run first looks up the job with that name. If the job is waiting
    or running, the run takes it over. If it has succeeded, the run does nothing. If there is no such
    job, the run submits it. If the job failed or was stopped, the run submits it as ``NAME__attempt2``.

    Constructing a task makes no network requests.
    """

    @attribute
    @abc.abstractmethod
    def name(self) -> str:
        """The job's name, unique among all users of the cluster. Required."""

    @attribute
    @abc.abstractmethod
    def image(self) -> str:
        """Docker image for all of the job's tasks. Required."""

    @attribute
    @abc.abstractmethod
    def tasks(self) -> Sequence[TaskRole]:
        """The job's task roles, at least one. Required."""

    @attribute
    def auth_file_path(self) -> str | None:
        """File on the cluster with the login for a private Docker registry."""
        return None

    @attribute
    def data_dir(self) -> str | None:
        """Data folder on the cluster: ``$PAI_DATA_DIR`` in the container."""
        return None

    @attribute
    def code_dir(self) -> str | None:
        """Code folder on the cluster, under 200 MB. It is copied to the container's working directory."""
        return None

    @attribute
    def uploads(self) -> Mapping[str, str]:
        """Local files and folders to upload before the job is submitted, as local path -> remote path.

        Local paths are absolute, or relative to the folder of the module that defines ``uploads``. Files
        with credentials, such as luigi.cfg, .env and private keys, are never uploaded.
        """
        return {}

    @attribute
    def output_dir(self) -> str | None:
        """Output folder: ``$PAI_OUTPUT_DIR`` in the container. ``/p`` is on the cluster's file system."""
        return default_output(self.name)

    @attribute
    def virtual_cluster(self) -> str | None:
        """Virtual cluster to run in."""
        return "default"

    @attribute
    def gpu_type(self) -> str | None:
        """GPU type; None for any."""
        return None

    @attribute
    def retry_count(self) -> int:
        """How many times OpenPAI retries the job; not related to Luigi's own retries."""
        return 0

    @attribute
    def strict_shell(self) -> bool:
        """Whether commands run under ``set -e -o pipefail``: a failure anywhere in a command fails the task.

        If False, only the exit code of a command's last program counts, as on OpenPAI 0.7.
        """
        return False

    def job(self) -> PaiJob:
        """Return the job that ``run()`` submits. Override it to set fields that have no property here.

        Raises:
            TypeError: ``tasks`` is not a list of task roles.
        """
        return PaiJob(
            self.name,
            self.image,
            self.tasks,
            authFile=self.auth_file_path,
            dataDir=self.data_dir,
            outputDir=self.output_dir,
            codeDir=self.code_dir,
            virtualCluster=self.virtual_cluster,
            gpuType=self.gpu_type,
            retryCount=self.retry_count,
        )

    def output(self) -> Any:
        """Return the output folder; ``self.output() / "metrics.json"`` is a file in it.

        Override it to return any Luigi targets, in lists and dicts as usual.

        Returns:
            An HdfsTarget.

        Raises:
            NotImplementedError: ``output_dir`` is not on the cluster's file system.
        """
        from luigi_pai.files import HdfsTarget  # noqa: PLC0415  only needed for files
        from luigi_pai.files.paths import is_foreign  # noqa: PLC0415  as above

        folder = self._output_folder()
        if is_foreign(folder):
            raise NotImplementedError(
                f"output_dir = {folder!r} of job {self.name!r} is not on the cluster's file system; override "
                "output() to return the targets of its results"
            )
        return HdfsTarget(folder, cluster=self.cluster)

    def _job(self) -> PaiJob | JobProtocol:
        job = super()._job()
        if not self.strict_shell or not isinstance(job, PaiJob):
            return job
        from luigi_pai.jobspec.containers import with_strict_shell  # noqa: PLC0415  few tasks need it

        return with_strict_shell(job)

    def _inputs(self) -> dict[str, str]:
        if not self.uploads:
            return super()._inputs()
        from luigi_pai.tasks.uploads import upload_inputs  # noqa: PLC0415  few tasks have uploads

        return super()._inputs() | upload_inputs(self)

    def _folder_is_set(self) -> bool:
        return self.output_dir not in (None, "", default_output(self.name))

    def _prepared(self, job: PaiJob, api_version: str, fs: FileSystem | None) -> PaiJob | JobProtocol:
        from luigi_pai.tasks.uploads import send_uploads, warn_of_missing  # noqa: PLC0415  only runs need it

        del api_version
        send_uploads(self, job.codeDir, fs)
        warn_of_missing(self, fs)
        return job

    def _check(self, job: PaiJob | JobProtocol) -> list[str]:
        from luigi_pai.jobspec.validate import check_job  # noqa: PLC0415  only runs need it

        if not isinstance(job, PaiJob):
            raise not_returned(self.name, job, "a PaiJob")
        problems = [*room_for_attempts(self.name), *self._contradictions(job), *self._code_elsewhere(job)]
        known = OpenPai.current(self.cluster).cluster().book.api.detector.known
        warnings = [str(warning) for warning in check_job(job, problems, api_version=known, names=_NAMES)]
        body = json.dumps(job.to_dict(), default=str)
        if any(json.dumps(secret)[1:-1] in body for secret in configured_secrets() if len(secret) >= _LONG):
            warnings.append("job() contains a password or token from luigi.cfg; every user can read jobs")
        return warnings

    def _code_elsewhere(self, job: PaiJob) -> Iterator[Problem]:
        """Yield a warning if a command uses the code folder's local name instead of the container's."""
        code = (job.codeDir or "").rstrip("/")
        there = code.rpartition("/")[2]
        commands = "\n".join(str(getattr(role, "command", "")) for role in job.taskRoles)
        for local, remote in self.uploads.items() if code and isinstance(self.uploads, Mapping) else ():
            here = Path(local).name
            named = re.search(rf"(?<![\w./$-]){re.escape(here)}/\S*", commands)
            if str(remote).rstrip("/") == code and here != there and named:
                problem = (
                    f"is {there}/ in the container, but a command has {named[0]}: write {there}/ instead"
                )
                yield Problem("code_dir", problem, Level.WARNING)

    def _output_folder(self) -> str:
        """Return the output folder.

        If the server chooses it, that is ``USER/NAME`` in the server's own folder.
        """
        if folder := self.output_dir:
            return folder
        return f"{_SERVER_OUTPUT}/{OpenPai.current(self.cluster).username}/{self.name}"

    def _contradictions(self, job: PaiJob) -> list[Problem]:
        """Return a problem if two reads of ``name`` differ or ``job()`` contradicts a property."""
        if len(names := {self.name, self.name}) > 1:
            problem = (
                f"changes each time it is read: {', '.join(sorted(names))}; build it only from parameters"
            )
            return [Problem("name", problem)]
        made = inspect.getattr_static(type(self), "tasks")
        is_users = isinstance(made, property) and not is_ours(made.fget)
        if is_users and len([*self.tasks]) != len([*self.tasks]):
            problem = "grows each time it is read: build a new list, as [*ROLES, role], instead of append()"
            return [Problem("tasks", problem)]
        return [
            Problem(field, f"job() has {actual!r}, but {key} of the task is {expected!r}; set only {key}")
            for field, key, actual, expected in (
                ("jobName", "name", job.jobName, self.name),
                ("outputDir", "output_dir", job.outputDir or None, self.output_dir or None),
            )
            if actual != expected
        ]


_POLICY_OF = "_get_retry_policy_dict"  # returns a task's retry policy; from luigi.worker in Luigi 3.2 to 3.8


def _keep_retry_count_apart() -> None:
    """Keep OpenPAI's retry_count out of Luigi's retry policy.

    Luigi reads a task's ``retry_count`` attribute as the number of failures after
    which its central scheduler disables the task for a day. If Luigi read OpenPAI's default of 0,
    one failure would disable the task, and the next run could not submit the job again. If a
    Luigi release lacks ``_POLICY_OF``, this function does nothing; a test detects such releases.
    """
    luigi_policy_of = getattr(luigi.worker, _POLICY_OF, None)
    if luigi_policy_of is None:
        return

    @functools.wraps(luigi_policy_of)
    def policy_of(task: luigi.Task) -> dict[str, Any]:
        policy: dict[str, Any] = luigi_policy_of(task)
        return policy | {"retry_count": None} if isinstance(task, PaiTask) else policy

    setattr(luigi.worker, _POLICY_OF, policy_of)


_keep_retry_count_apart()
