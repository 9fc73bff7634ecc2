"""Uploads of a task to HDFS before its job is submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.config_file import chosen_section
from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.jobspec.containers import RUNTIME_FILE, RUNTIME_NAME
from luigi_pai.tasks.attributes import base_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.hdfs import Upload, WebHdfs
    from luigi_pai.task import PaiTask

_CODE_LIMIT = 200_000_000
"""Maximum size of a code folder in bytes; beyond it containers do not start (OpenPAI 0.7)."""

_SHOWN = 3  # number of files that an error names, the largest first


def send_uploads(task: PaiTask, code_dir: str | None, hdfs: WebHdfs | None) -> None:
    """Send the new and changed files of a task's ``uploads``.

    Args:
        task: its ``uploads`` are sent; if ``task.runtime`` is true, ``pai_runtime.py`` is sent, too.
        code_dir: the code folder of its job.
        hdfs: the cluster's HDFS; None if none is configured.

    Raises:
        ConfigError: there are uploads, but no HDFS is configured.
        SpecError: an upload is not valid; nothing was sent.
        HdfsError: HDFS refused an upload or failed.
    """
    named: Any = task.uploads or {}
    if not isinstance(named, Mapping):
        wrong = f"{named!r} is not a dict of local paths to paths on HDFS; write {{'code': '/PATH/code'}}"
        raise SpecError(task.name, [Problem("uploads", wrong)])
    if task.runtime:
        named = {**named, **_runtime(task.name, code_dir)}
    if not named:
        return
    if hdfs is None:
        raise ConfigError(
            f"job {task.name!r} was not submitted: its uploads need HDFS, and webhdfs_url is not set in "
            "[OpenPai]; write webhdfs_url = http://NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI)"
        ).in_section(chosen_section(task.cluster))
    problems: list[Problem] = []
    uploads = list(_prepared(base_folder(task, "uploads"), named, hdfs, problems))
    problems += _over_the_limit(code_dir, uploads, hdfs)
    if problems:
        raise SpecError(task.name, problems)
    for upload in uploads:
        upload.send()


def _runtime(job: str, code_dir: str | None) -> dict[str, str]:
    """Return the upload of ``pai_runtime.py`` to the code folder: local path -> path on HDFS."""
    if not code_dir:
        wrong = "puts pai_runtime.py beside the code, and there is no code_dir; name one on HDFS"
        raise SpecError(job, [Problem("runtime", wrong)])
    return {str(RUNTIME_FILE): f"{code_dir.rstrip('/')}/{RUNTIME_NAME}"}


def _prepared(
    folder: Path, named: Mapping[Any, Any], hdfs: WebHdfs, problems: list[Problem]
) -> Iterator[Upload]:
    """Yield the valid uploads; the problems of the others are added to ``problems``."""
    from luigi_pai.hdfs import TransferError, Upload  # noqa: PLC0415  costs what only HDFS needs

    for local, destination in named.items():
        where = f"uploads[{str(local)!r}]"
        try:
            yield Upload(hdfs, folder / Path(os.fspath(local)).expanduser(), str(destination))
        except TransferError as error:
            problems += (Problem(where, str(problem)) for problem in error.problems)
        except HdfsError as error:
            problems.append(Problem(where, str(error)))


def _over_the_limit(code_dir: str | None, uploads: list[Upload], hdfs: WebHdfs) -> Iterator[Problem]:
    """Yield a problem if the uploads to the code folder are larger than a container accepts."""
    if not code_dir:
        return
    try:
        _server, path = hdfs.at(code_dir)
    except HdfsError:  # the code folder is not on this HDFS
        return
    sizes = [(size, name) for upload in uploads for name, size in upload.sizes_below(path).items()]
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
