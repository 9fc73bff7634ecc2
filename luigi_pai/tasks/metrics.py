"""The metrics of a task: ``metrics.json`` among its outputs."""

from __future__ import annotations

import json
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.format

from luigi_pai.hdfs.errors import HdfsError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["METRICS", "read_metrics"]

METRICS = "metrics.json"
"""The file that ``result()`` of a task reads."""

_LARGEST = 1_000_000  # bytes


def read_metrics(targets: Iterable[luigi.Target]) -> dict[str, Any] | None:
    """Return the object in the first ``metrics.json`` among targets, or in a folder of them.

    Returns:
        the object; None where there is no such file.

    Raises:
        ValueError: the file is larger than 1 MB, or not a JSON object.
        HdfsError: HDFS failed.
    """
    for target in targets:
        path = getattr(target, "path", None)
        if not isinstance(path, str):
            continue
        if posixpath.basename(path) != METRICS:
            path = f"{path.rstrip('/')}/{METRICS}"
        data = _start_of(target, path)
        if data is not None:
            return _metrics(data, path)
    return None


def _start_of(target: Any, path: str) -> bytes | None:
    """Return a file up to a byte more than it may have; None where there is none."""
    if isinstance(target, luigi.LocalTarget):
        try:
            with Path(path).open("rb") as file:
                return file.read(_LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
    from luigi_pai.hdfs.target import HdfsTarget  # noqa: PLC0415  costs what only HDFS needs

    if not isinstance(target, HdfsTarget):
        return None
    try:
        with target.fs.open_reader(path) as reader:
            return bytes(reader.read(_LARGEST + 1))
    except HdfsError as error:
        if error.exception in ("FileNotFoundException", "ParentNotDirectoryException"):
            return None
        raise


def _metrics(data: bytes, path: str) -> dict[str, Any]:
    if len(data) > _LARGEST:
        raise ValueError(f"{path} is larger than {_LARGEST // 1_000_000} MB; write fewer values into it")
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON: it begins with {data[:40]!r}") from None
    if not isinstance(values, dict):
        raise ValueError(f'{path} is not a JSON object such as {{"accuracy": 0.97}}')  # noqa: TRY004  its content
    return values
