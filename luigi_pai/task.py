"""PaiTask: a job on an OpenPAI cluster as a step of a Luigi pipeline."""

from __future__ import annotations

import abc
import functools
from typing import TYPE_CHECKING, Any

import luigi
import luigi.worker

from luigi_pai.attributes import attribute
from luigi_pai.config import OpenPai
from luigi_pai.errors import Problem
from luigi_pai.job_task import JobTask
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import room_for_attempts
from luigi_pai.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.job import TaskRole

__all__ = ["PaiTask"]

_SERVER_OUTPUT = "$PAI_DEFAULT_FS_URI/Output"  # where a server puts the output of a job that names no folder


class PaiTask(JobTask):
    """A Luigi task whose work is a job on an OpenPAI cluster.

    Subclass it and give ``name``, ``image`` and ``tasks``, as properties, class
    attributes or Luigi parameters; the cluster and the user are in ``[OpenPai]``
    of luigi.cfg. The name identifies the work: a run first looks for the job
    under that name, takes it over if it waits or runs, is content if it has
    succeeded, and submits it, after a failure as ``NAME__attempt2``, otherwise.

    Constructing a task makes no network requests.
    """

    @attribute
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the job, unique among all users of the cluster. Required."""

    @attribute
    @abc.abstractmethod
    def image(self) -> str:
        """Docker image of all its tasks. Required."""

    @attribute
    @abc.abstractmethod
    def tasks(self) -> Sequence[TaskRole]:
        """Its task roles, at least one. Required."""

    @attribute
    def auth_file_path(self) -> str | None:
        """File on HDFS with the account of a private Docker registry."""
        return None

    @attribute
    def data_dir(self) -> str | None:
        """Data folder on HDFS: ``$PAI_DATA_DIR`` in the container."""
        return None

    @attribute
    def code_dir(self) -> str | None:
        """Code folder on HDFS, under 200 MB; OpenPAI copies it into the container's working folder."""
        return None

    @attribute
    def uploads(self) -> Mapping[str, str]:
        """Local files and folders, and the paths on HDFS that they are sent to before the job is submitted.

        A local path is absolute, or relative to the folder of the module whose class says this.
        """
        return {}

    @attribute
    def output_dir(self) -> str | None:
        """Output folder: ``$PAI_OUTPUT_DIR`` in the container. A path without scheme is one on HDFS."""
        return f"$PAI_DEFAULT_FS_URI/{self.name}/output"

    @attribute
    def virtual_cluster(self) -> str | None:
        """Virtual cluster to run in."""
        return "default"

    @attribute
    def gpu_type(self) -> str | None:
        """Type of GPU to ask for; any if None."""
        return None

    @attribute
    def retry_count(self) -> int:
        """How often OpenPAI starts the job again after it failed; Luigi's own retries are apart from it."""
        return 0

    def job(self) -> PaiJob:
        """Return the job that ``run()`` submits. Override it to set what has no property here.

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
        """Return the output folder on HDFS; ``self.output() / "metrics.json"`` is a file in it.

        Override it to return any targets of Luigi's, in lists and dicts as usual.

        Returns:
            A HdfsTarget.

        Raises:
            NotImplementedError: ``output_dir`` is on another file system than HDFS.
        """
        from luigi_pai.hdfs import HdfsTarget  # noqa: PLC0415  costs what only pipelines with HDFS need
        from luigi_pai.hdfs.paths import is_foreign  # noqa: PLC0415  as above

        folder = self._output_folder()
        if is_foreign(folder):
            raise NotImplementedError(
                f"output_dir of job {self.name!r} is {folder!r}, which is not on HDFS: override output() to "
                "return the targets through which its results are read"
            )
        return HdfsTarget(folder)

    def run(self) -> None:
        """Find or submit the job, and follow it to its end.

        Raises:
            SpecError: the job cannot run as it is written, or its uploads cannot be sent; nothing was.
            ConfigError: a setting is wrong.
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: it was submitted once, and the server no longer knows how it ended.
            PaiJobLost: the server no longer knows the job that runs.
            PaiOutputElsewhere: the job of this name writes to another output folder.
            PaiNameTaken: the name belongs to somebody else.
            PaiApiError: the server refused the job, or did not answer for too long.
            HdfsError: the uploads could not be sent, or the output folder could not be made.
        """
        from luigi_pai.spec.validate import check_job  # noqa: PLC0415  costs what only running needs

        job = self.job()
        check_job(job, [*room_for_attempts(self.name), *self._contradictions(job)])
        self._run()

    def _work(self) -> Work:
        return _PaiWork(self)

    def _output_folder(self) -> str:
        """Return the output folder, also where the server chooses it: ``USER/NAME`` below its own."""
        if self.output_dir:
            return self.output_dir
        return f"{_SERVER_OUTPUT}/{OpenPai.current().username}/{self.name}"

    def _contradictions(self, job: PaiJob) -> list[Problem]:
        """Return where a job of an overridden ``job()`` differs from what the task itself goes by."""
        return [
            Problem(field, f"job() says {said!r}, {key} of the task {meant!r}; set it as {key} alone")
            for field, key, said, meant in (
                ("jobName", "name", job.jobName, self.name),
                ("outputDir", "output_dir", job.outputDir or None, self.output_dir or None),
            )
            if said != meant
        ]


class _PaiWork(Work):
    """What a PaiTask wants done."""

    def __init__(self, task: PaiTask) -> None:
        super().__init__(task, task.name)
        self._task = task

    @property
    def output_folder(self) -> str:
        return self._task._output_folder()  # noqa: SLF001  of this module

    def job_named(self, name: str) -> PaiJob:
        from luigi_pai.spec.containers import for_containers  # noqa: PLC0415  costs what only running needs

        return for_containers(self._task.job(), name, with_runtime=self._task.runtime)

    def targets(self) -> list[luigi.Target]:
        from luigi_pai.outputs import own_targets  # noqa: PLC0415  costs what constructing does not need

        return own_targets(self._task, PaiTask)

    def send_uploads(self, code_dir: str | None, hdfs: WebHdfs | None) -> None:
        from luigi_pai.uploads import send_uploads  # noqa: PLC0415  as above

        send_uploads(self._task, code_dir, hdfs)


_POLICY_OF = "_get_retry_policy_dict"  # of luigi.worker, the same from 3.2 to 3.8


def _keep_retry_count_apart() -> None:
    """Keep OpenPAI's retry_count out of Luigi's retry policy.

    Luigi reads the attribute of the same name as the number of failures after
    which its central scheduler disables a task for a day. With OpenPAI's 0 that
    would be the first, and the next run could not submit the next attempt. A
    Luigi that reads it elsewhere is for the tests to catch: nothing is done.
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
