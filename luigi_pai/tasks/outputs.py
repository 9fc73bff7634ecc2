"""Outputs: a task's output folder and targets, whether all targets exist, and the task's results."""

from __future__ import annotations

import functools
import json
import posixpath
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task

from luigi_pai.runtime import attempt_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.tasks.job_task import JobTask

_METRICS = "metrics.json"
_READ_IT_THERE = "put it into $PAI_OUTPUT_DIR, leave output() out, and read self.input() / NAME"


class LastReports(dict[str, Any]):
    """The values in the last reports from a job that wrote no ``metrics.json``."""


class NoResult(dict[str, Any]):
    """An empty result. Reading a key raises a KeyError with the reason, which is in ``why``."""

    why = ""

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"{key!r}: {self.why}")


class Outputs:
    """A job's output folder, and the targets from ``output()`` if the task overrides it.

    If the output folder is on the cluster's file system (its HDFS, or a storage), only the completion flag in
    this folder decides whether the task is complete. Otherwise, Luigi's rule applies: the task is complete if
    there are targets and all of them exist.

    Args:
        fs: The cluster's file system; None if none is configured.
        name: The job's name.
        folder: The output folder; None for a job protocol that does not name one.
        targets: Returns the targets from ``output()`` as a flat list; empty if the task does not override it.
    """

    def __init__(
        self,
        fs: FileSystem | None,
        name: str,
        folder: str | None,
        targets: Callable[[], Sequence[luigi.Target]],
    ) -> None:
        self._fs = fs
        self._name = name
        self._folder = folder
        self._targets = targets

    @functools.cached_property
    def fs(self) -> FileSystem | None:
        """The output folder's file system; None if the folder is elsewhere or no file system is configured.

        A folder is elsewhere if its URI has another file system's scheme (``file:``, ``s3:``), or if
        ``output()`` contains a LocalTarget at or below it. A LocalTarget there means that the folder is
        mounted both on this machine and, at the same path, in the containers.

        Raises:
            HdfsError: ``output_dir`` is not a valid path, or is on another file system.
        """
        folder = self._folder
        if self._fs is None or folder is None:
            return None
        from luigi_pai.files import HdfsError  # noqa: PLC0415  only files need it
        from luigi_pai.files.paths import is_foreign  # noqa: PLC0415  as above

        if is_foreign(folder) or self._is_local(folder):
            return None
        try:
            self._fs.check_path(folder)
        except HdfsError as error:
            raise HdfsError(
                f"output_dir = {folder!r} of job {self._name!r} is not a path on the cluster's file system: "
                f"{error.reason}",
                operation=error.operation,
                path=error.path,
                reason=error.reason,
            ) from None
        return self._fs

    def are_complete(self) -> bool:
        """Return whether the task overrides ``output()`` and all its targets exist.

        Raises:
            HdfsError: the file system failed.
        """
        targets = self._checkable_targets()
        return bool(targets) and all(target.exists() for target in targets)

    def any_exists(self) -> bool:
        """Return whether any output exists, so that the job may have run before.

        Raises:
            HdfsError: the file system failed.
        """
        if self.fs is not None and self._folder is not None:
            return bool(self.fs.exists(self._folder))
        return any(target.exists() for target in self._checkable_targets())

    def missing(self) -> list[str]:
        """Return the paths of missing local targets; checking other targets would need a request."""
        local = (target for target in self._targets() if isinstance(target, luigi.LocalTarget))
        return [target.path for target in local if not target.exists()]

    def completion_fallback(self) -> str:
        """Return a message: why there is no flag, and what determines the task's completion instead."""
        why = "luigi.cfg names no storage or HDFS of its cluster"
        if self._fs is not None:
            why = f"the output folder {self._folder} is not on the cluster's file system"
        return (
            f"{why}; once the server no longer knows the job, the task is complete only if output() is "
            "overridden and all its targets exist"
        )

    def warnings(self, *, is_written_by_job: bool) -> Iterator[str]:
        """Yield warnings about an output folder on this machine, and about targets that no job can write."""
        mount, folder = getattr(self.fs, "mount_path", None), str(self._folder)
        is_here = folder.startswith((f"{Path.home()}/", f"{Path.cwd()}/"))
        if is_here and self.fs is not None and not folder.startswith(f"{mount}/"):
            problem = f"output_dir: {folder} on the cluster's file system is not the folder on this machine"
            yield f"{problem}; write $PAI_DEFAULT_FS_URI/PATH, and copy results here with luigi-pai get"
        for target in self._targets() if is_written_by_job else ():
            path = str(getattr(target, "path", ""))
            if type(target).__module__ == "luigi.contrib.hdfs.target" and not shutil.which("hadoop"):
                yield f"output(): {path} needs the command hadoop; write from luigi_pai import HdfsTarget"
            elif isinstance(target, luigi.LocalTarget) and not path.startswith("/"):
                yield f"output(): {path} is on this machine, where no job writes it; {_READ_IT_THERE}"

    def reports(self, job: str | None = None) -> list[dict[str, Any]]:
        """Return the reports that containers wrote with ``luigi_pai.runtime.report``, oldest first.

        Args:
            job: The name of a submission; by default, the last submission that reported anything.

        Raises:
            HdfsError: the file system failed.
        """
        if self.fs is None or self._folder is None:
            return []
        from luigi_pai.tasks.reports import read_reports  # noqa: PLC0415  as above

        return read_reports(self.fs, self._folder, None if job is None else attempt_of(job)[1])

    def result(self, task: JobTask) -> dict[str, Any]:
        """Return the default ``result()``: the values in ``metrics.json``, and more values from reports."""
        try:
            targets = luigi.task.flatten(task.output())  # type: ignore[no-untyped-call]
        except NotImplementedError:  # output() has no target if the folder is elsewhere
            targets = []
        if self._fs is None:
            targets = [target for target in targets if isinstance(target, luigi.LocalTarget)]
        metrics = _read_metrics(targets, task._largest_metrics)  # noqa: SLF001  of this package
        if metrics is not None and not task.runtime:
            return metrics
        values: dict[str, Any] = {}
        for report in self.reports():
            values |= report
        reported = {key: values[key] for key in values if key not in ("time", "attempt")}
        return LastReports(reported) if metrics is None and reported else reported | (metrics or {})

    def _is_local(self, folder: str) -> bool:
        inside = f"{folder.rstrip('/')}/"
        local = (target for target in self._targets() if isinstance(target, luigi.LocalTarget))
        return any(f"{target.path}/".startswith(inside) for target in local)

    def _checkable_targets(self) -> Sequence[luigi.Target]:
        """Return the targets, or an empty list if a target is on a file system that is not configured."""
        targets = self._targets()
        contrib: Any = sys.modules.get(
            "luigi.contrib.hdfs"
        )  # if it is not loaded, no target can come from it
        if self._fs is None and contrib and any(isinstance(each, contrib.HdfsTarget) for each in targets):
            return ()
        return targets


def _read_metrics(targets: Iterable[luigi.Target], most: int) -> dict[str, Any] | None:
    """Read the first ``metrics.json`` that is a target or is in a folder that is a target.

    Returns:
        the object in the file; None if there is no such file.

    Raises:
        ValueError: the file is larger than ``most`` bytes, or is not a JSON object.
        HdfsError: the file system failed.
    """
    for target in targets:
        path = getattr(target, "path", None)
        if not isinstance(path, str):
            continue
        if posixpath.basename(path) != _METRICS:
            path = f"{path.rstrip('/')}/{_METRICS}"
        data = _start_of(target, path, most + 1)
        if data is not None and len(data) > most:
            raise ValueError(f"{path} has more than {most:,} bytes; write fewer values into it")
        if data is not None:
            return _metrics(data, path)
    return None


def _start_of(target: Any, path: str, most: int) -> bytes | None:
    """Return at most ``most`` bytes from the start of a file; None if there is no file."""
    if isinstance(target, luigi.LocalTarget):
        try:
            with Path(path).open("rb") as file:
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None
    from luigi_pai.files import HdfsError, HdfsTarget  # noqa: PLC0415  only files need it

    if not isinstance(target, HdfsTarget):
        return None
    try:
        with target.fs.open_reader(path) as reader:
            return bytes(reader.read(most))
    except HdfsError as error:
        if error.exception in ("FileNotFoundException", "ParentNotDirectoryException"):
            return None
        raise


def _metrics(data: bytes, path: str) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON: it starts with {data[:40]!r}") from None
    if not isinstance(values, dict):
        raise ValueError(f'{path} is not a JSON object such as {{"accuracy": 0.97}}')  # noqa: TRY004  its content
    return values
