"""Uploads a task's files to the cluster's file system before its job is submitted."""

from __future__ import annotations

import contextlib
import filecmp
import functools
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.config import OpenPai
from luigi_pai.config_file import chosen_section
from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.files.errors import HdfsError
from luigi_pai.jobspec.containers import RUNTIME_FILE, RUNTIME_NAME
from luigi_pai.tasks.attributes import base_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.files import Upload
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.trees import LocalFile
    from luigi_pai.task import PaiTask

logger = logging.getLogger("luigi-interface")

_COMPARED = (
    32 * 1024 * 1024
)  # size in bytes of the largest upload whose content is compared with the last run's

NO_FILES = (
    "and [OpenPai] has none; write storage = NAME into luigi.cfg (OpenPAI 0.16 and later) or "
    "webhdfs_url = http://NAMENODE:PORT (0.7 to 0.14; PORT: 5070 on an OpenPAI)"
)
_CODE_LIMIT = 200_000_000
"""Maximum size of a code folder in bytes; with a larger one, containers do not start (OpenPAI 0.7)."""

_SHOWN = 3  # number of files that an error names, the largest first


def send_uploads(task: PaiTask, code_dir: str | None, fs: FileSystem | None) -> None:
    """Send the new and changed files in a task's ``uploads``.

    Args:
        task: The task; if its ``runtime`` is true, ``pai_runtime.py`` is also sent.
        code_dir: Its job's code folder.
        fs: The cluster's file system; None if none is configured.

    Raises:
        ConfigError: there are uploads, but no file system is configured.
        SpecError: an upload is invalid; nothing was sent.
        HdfsError: the file system rejected an upload or failed.
    """
    named: Any = task.uploads or {}
    if not isinstance(named, Mapping):
        problem = f"{named!r} is not a dict of local to remote paths; write {{'code': '/PATH/code'}}"
        raise SpecError(task.name, [Problem("uploads", problem)])
    if task.runtime:
        named = {**named, **_runtime(task.name, code_dir)}
    if not named:
        return
    if fs is None:
        raise ConfigError(
            f"job {task.name!r} was not submitted: its uploads need a file system of the cluster, {NO_FILES}"
        ).in_section(chosen_section(task.cluster))
    problems: list[Problem] = []
    uploads = list(_prepared(task, named, problems))
    problems += () if fs.is_mounted else _over_the_limit(code_dir, uploads, fs)
    problems += [*_sent_to_one_path(uploads)][:_SHOWN]
    if problems:
        raise SpecError(task.name, problems)
    for upload in uploads:
        upload.send()


def upload_inputs(task: PaiTask) -> dict[str, str]:
    """Return upload -> names and checksums of its files, for each valid upload of a task.

    Every run compares them, so an upload of more than 32 MiB gets its files' sizes instead of checksums.
    """
    named: Any = task.uploads if isinstance(task.uploads, Mapping) else {}
    inputs = {}
    for local, destination in named.items():
        for upload in _prepared(task, {local: destination}, []):
            files = list(upload.goals().values())
            is_small = sum(file.size for file in files) <= _COMPARED
            found = [(each.name, _checksum(each) if is_small else each.size) for each in files]
            inputs[f"uploads[{str(local)!r}]"] = str(found)
    return inputs


def _checksum(file: LocalFile) -> str:
    """Return a file's checksum; a process reads each version of the file only once."""
    found = file.place.stat()
    return _checksum_of(file, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=10_000)
def _checksum_of(file: LocalFile, _size: int, _changed_ns: int) -> str:
    return file.sha256()


def _runtime(job: str, code_dir: str | None) -> dict[str, str]:
    """Return the upload of ``pai_runtime.py`` to the code folder: local path -> remote path."""
    if not code_dir:
        problem = "puts pai_runtime.py next to the code, but there is no code_dir; set one on the cluster"
        raise SpecError(job, [Problem("runtime", problem)])
    return {str(RUNTIME_FILE): f"{code_dir.rstrip('/')}/{RUNTIME_NAME}"}


def _prepared(task: PaiTask, named: Mapping[Any, Any], problems: list[Problem]) -> Iterator[Upload]:
    """Yield the valid uploads; add what is wrong with invalid uploads to ``problems``."""
    from luigi_pai.files import TransferError, Upload, cluster_files  # noqa: PLC0415  only files need it

    folder = base_folder(task, "uploads")
    for local, destination in named.items():
        where = f"uploads[{str(local)!r}]"
        try:
            fs = cluster_files(task.cluster, str(destination))
            yield Upload(fs, folder / Path(os.fspath(local)).expanduser(), str(destination))
        except TransferError as error:
            base = "" if os.path.isabs(local) else f" (relative paths start at {folder})"  # noqa: PTH117
            problems += (Problem(where, f"{problem}{base}") for problem in error.problems)
        except HdfsError as error:
            hint = ""
            if str(local).startswith(("$PAI_", "hdfs:")):
                hint = f"; the two look swapped: write {{{str(destination)!r}: {str(local)!r}}}"
            problems.append(Problem(where, f"{error}{hint}"))


def warn_of_missing(task: PaiTask, fs: FileSystem | None) -> None:
    """Warn if the data folder does not exist; each run looks it up once."""
    folder, session = task.data_dir, OpenPai.current(task.cluster).cluster().book.api.session
    with contextlib.suppress(HdfsError):  # it is elsewhere, or the file system fails
        if folder and fs and session.times(f"data_dir {folder}") == 1 and not fs.exists(folder):
            message = "Job %s: data_dir = %r does not exist on the cluster; luigi-pai put sends a folder"
            logger.warning(message, task.name, folder)


def _sent_to_one_path(uploads: list[Upload]) -> Iterator[Problem]:
    """Yield a problem for each file that would replace another file with different content."""
    found: dict[tuple[str, str], Path] = {}
    for upload in uploads:
        for goal, file in upload.goals().items():
            first = found.setdefault(goal, file.place)
            if first != file.place and not filecmp.cmp(first, file.place, shallow=False):
                both = f"{first} and {file.place} are both sent to {goal[1]}"
                yield Problem("uploads", f"{both}; give one of them another destination")


def _over_the_limit(code_dir: str | None, uploads: list[Upload], fs: FileSystem) -> Iterator[Problem]:
    """Yield a problem if the uploads to the code folder are too large for a container."""
    if not code_dir:
        return
    try:
        _volume, path = fs.at(code_dir)
    except HdfsError:  # the code folder is not on this file system
        return
    goals = (each for upload in uploads for each in upload.goals().items())
    below = f"{path.rstrip('/')}/"
    sizes = [(file.size, file.name) for (_, goal), file in goals if f"{goal}/".startswith(below)]
    total = sum(size for size, _name in sizes)
    if total > _CODE_LIMIT:
        largest = sorted(sizes, reverse=True)[:_SHOWN]
        yield Problem(
            "uploads",
            f"{total:,} bytes for code_dir; OpenPAI copies at most {_CODE_LIMIT:,} into a container; "
            "move data to a folder that the job reads from HDFS, or exclude it in .paiignore (largest: "
            + ", ".join(f"{name} {size:,}" for size, name in largest)
            + ")",
        )
