"""The submission record and the completion flag in a job's output folder on HDFS."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs

__all__ = ["CompletionFlag", "Submission", "SubmissionRecord"]

_NAME = re.compile(r"[A-Za-z0-9._~-]+")
_FOLDER = "_luigi_pai"  # Hadoop's own readers skip names that begin with an underscore


@dataclass(frozen=True)
class Submission:
    """A recorded submission of a task's job.

    Attributes:
        name: of the task's job.
        number: of the submission, from 1; ``attempt`` in the file.
        job: name of the submission on the server.
        cluster: URL of the rest-server.
        user: who submitted it.
        submitted_ms: its time in milliseconds since 1970 UTC, by the clock of the submitting machine.
        digest: of the job, see ``spec.comparison.job_digest``.
        state: its final state: ``SUCCEEDED``, ``FAILED``, ``STOPPED``; None if not known.
    """

    name: str
    number: int
    job: str
    cluster: str
    user: str
    submitted_ms: int
    digest: str
    state: str | None = None


class SubmissionRecord:
    """The file ``_luigi_pai/NAME.json`` in an output folder: the last submission of a task's job.

    It is written before the job is posted, and again when its end is known.

    Args:
        fs: the file system.
        folder: the output folder.
        name: of the task's job.
    """

    def __init__(self, fs: WebHdfs, folder: str, name: str) -> None:
        self._fs = fs
        self.path = f"{folder.rstrip('/')}/{_FOLDER}/{name}.json"

    def read(self) -> Submission | None:
        """Return the last submission; None if there is no record.

        Raises:
            HdfsError: HDFS failed, or the file is not a record.
        """
        data = _content(self._fs, self.path)
        if data is None:
            return None
        try:
            return _submission(json.loads(data))
        except (ValueError, TypeError, KeyError):
            raise HdfsError(
                f"{self.path} is not a submission record; remove the file if no job of that name runs: the "
                "record shows whether the job was submitted before",
                operation="read",
                path=self.path,
            ) from None

    def write(self, submission: Submission) -> None:
        """Record a submission; missing folders are created."""
        fields = asdict(submission)
        fields["attempt"] = fields.pop("number")  # its name in files of all versions
        text = json.dumps(fields, indent=2) + "\n"
        with self._fs.open_writer(self.path, overwrite=True) as file:
            file.write(text.encode())

    def end(self, submission: Submission, state: str) -> Submission:
        """Record the final state of a submission and return the new record."""
        ended = replace(submission, state=state)
        if ended != submission:
            self.write(ended)
        return ended

    def restore(self, submission: Submission | None) -> None:
        """Restore the record from before a refused submission."""
        if submission is not None:
            self.write(submission)
        else:
            self._fs.remove(self.path, recursive=False)


def _submission(fields: dict[str, Any]) -> Submission:
    return Submission(
        name=str(fields["name"]),
        number=int(fields["attempt"]),
        job=str(fields["job"]),
        cluster=str(fields["cluster"]),
        user=str(fields["user"]),
        submitted_ms=int(fields["submitted_ms"]),
        digest=str(fields["digest"]),
        state=None if fields.get("state") is None else str(fields["state"]),
    )


def _content(fs: WebHdfs, path: str) -> bytes | None:
    """Return the content of a small file; None if there is no file."""
    try:
        with fs.open_reader(path) as file:
            data: bytes = file.read()
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return None
        raise
    return data


class CompletionFlag:
    """The file ``_SUCCESS`` in an output folder, Hadoop's convention.

    It contains the name of the job that completed. An empty file, written by Spark, Hadoop or by hand,
    counts for jobs with a submission record in this folder. Further jobs that share the folder have a
    file each, ``_SUCCESS.NAME``: no file is read and rewritten, so jobs that end at the same time do not
    overwrite each other's flag.

    Args:
        fs: the file system.
        directory: the output folder.
        name: of the file.
    """

    def __init__(self, fs: WebHdfs, directory: str, name: str = "_SUCCESS") -> None:
        self._fs = fs
        self.path = f"{directory.rstrip('/')}/{name}"

    def holds(self, job: str, *, submitted_here: bool = False) -> bool:
        """Return whether the flag counts for a job.

        Args:
            job: its name.
            submitted_here: it has a record in this folder, so an empty flag may be its own.
        """
        names = self._names()
        if names is not None and (job in names or (submitted_here and not names)):
            return True
        return self._fs.exists(self._path_of(job))

    def add(self, job: str) -> None:
        """Add a job; missing folders are created, the flags of other jobs are kept."""
        if self.holds(job):
            return
        try:
            self._write(self.path, [job], overwrite=False)
        except FileAlreadyExists:
            self._write(self._path_of(job), [], overwrite=True)

    def discard(self, job: str) -> None:
        """Remove a job; ``_SUCCESS`` is deleted if it names no other job, also if it is empty."""
        own = self._path_of(job)
        if self._fs.exists(own):
            self._fs.remove(own, recursive=False)
        names = self._names()
        if names is None:
            return
        others = [name for name in names if name != job]
        if not others:
            self._fs.remove(self.path, recursive=False)
        elif len(others) < len(names):
            self._write(self.path, others, overwrite=True)

    def _path_of(self, job: str) -> str:
        return f"{self.path}.{job}"

    def _names(self) -> list[str] | None:
        """Return the names in the file; None if there is no file.

        Raises:
            HdfsError: HDFS failed, or the content is not a list of names, for example a proxy's page.
        """
        data = _content(self._fs, self.path)
        if data is None:
            return None
        names = data.decode("utf-8", "replace").split()
        odd = [name for name in names if not _NAME.fullmatch(name)]
        if odd:
            raise HdfsError(
                f"{self.path} contains {odd[0][:50]!r}, not a job name; remove the file if only a "
                "completion flag belongs there",
                operation="read",
                path=self.path,
            )
        return names

    def _write(self, path: str, names: list[str], *, overwrite: bool) -> None:
        with self._fs.open_writer(path, overwrite=overwrite) as file:
            file.write("".join(f"{name}\n" for name in names).encode())
