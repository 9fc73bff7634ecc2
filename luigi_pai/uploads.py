"""What a task sends to HDFS before its job is submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.source import folder_of
from luigi_pai.spec.containers import RUNTIME_FILE, RUNTIME_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.hdfs import Upload, WebHdfs
    from luigi_pai.task import PaiTask

__all__ = ["CODE_LIMIT", "send_uploads"]

CODE_LIMIT = 200_000_000
"""Bytes of a code folder beyond which a container does not start (OpenPAI 0.7)."""

_SHOWN = 3  # of the largest files


def send_uploads(task: PaiTask, code_dir: str | None, hdfs: WebHdfs | None) -> None:
    """Send what ``uploads`` of a task names, as far as it is new or changed.

    Args:
        task: the task; its ``name`` and ``uploads`` are read.
        code_dir: the code folder of its job.
        hdfs: the cluster's HDFS, None where none is configured.

    Raises:
        ConfigError: there is something to send, and no HDFS.
        SpecError: something cannot be sent. Nothing was.
        HdfsError: HDFS refused something or did not answer.
    """
    named: Any = task.uploads or {}
    if not isinstance(named, Mapping):
        wrong = f"{type(named).__name__} is not a dict of local paths and the paths on HDFS they go to"
        raise SpecError(task.name, [Problem("uploads", wrong)])
    if task.runtime:
        named = {**named, **_runtime(task.name, code_dir)}
    if not named:
        return
    if hdfs is None:
        raise ConfigError(
            f"job {task.name!r} was not submitted: its uploads go to HDFS, and webhdfs_url is not set in "
            "[OpenPai]; write webhdfs_url = http://NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI)"
        )
    problems: list[Problem] = []
    uploads = list(_prepared(folder_of(task, "uploads"), named, hdfs, problems))
    problems += _over_the_limit(code_dir, uploads, hdfs)
    if problems:
        raise SpecError(task.name, problems)
    for upload in uploads:
        upload.send()


def _runtime(job: str, code_dir: str | None) -> dict[str, str]:
    """Return where ``pai_runtime.py`` goes: into the code folder."""
    if not code_dir:
        wrong = "puts pai_runtime.py beside the code, and there is no code_dir; name one on HDFS"
        raise SpecError(job, [Problem("runtime", wrong)])
    return {str(RUNTIME_FILE): f"{code_dir.rstrip('/')}/{RUNTIME_NAME}"}


def _prepared(
    folder: Path, named: Mapping[Any, Any], hdfs: WebHdfs, problems: list[Problem]
) -> Iterator[Upload]:
    """Yield the uploads; what is wrong with the others is added to the problems."""
    from luigi_pai.hdfs import HdfsError, TransferError, Upload  # noqa: PLC0415  costs what only HDFS needs

    for local, destination in named.items():
        where = f"uploads[{str(local)!r}]"
        try:
            yield Upload(hdfs, folder / Path(os.fspath(local)).expanduser(), str(destination))
        except TransferError as error:
            problems += (Problem(where, str(problem)) for problem in error.problems)
        except HdfsError as error:
            problems.append(Problem(where, str(error)))


def _over_the_limit(code_dir: str | None, uploads: list[Upload], hdfs: WebHdfs) -> Iterator[Problem]:
    """Yield what is wrong if more goes to the code folder than a container takes."""
    from luigi_pai.hdfs import HdfsError  # noqa: PLC0415  as above

    if not code_dir:
        return
    try:
        _server, path = hdfs.at(code_dir)
    except HdfsError:  # not on this HDFS
        return
    sizes = [(size, name) for upload in uploads for name, size in upload.sizes_below(path).items()]
    total = sum(size for size, _name in sizes)
    if total > CODE_LIMIT:
        largest = sorted(sizes, reverse=True)[:_SHOWN]
        yield Problem(
            "uploads",
            f"{total:,} bytes go to code_dir, and OpenPAI copies at most {CODE_LIMIT:,} into a container; "
            "put what is no code into a folder that the job reads from HDFS, or into .paiignore (largest: "
            + ", ".join(f"{name} {size:,}" for size, name in largest)
            + ")",
        )
