"""Rules about names of images and folders that servers accept, but that cannot exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from luigi_pai.errors import Level
from luigi_pai.jobspec.hints import not_ascii
from luigi_pai.jobspec.schema_problems import Finding, stricter, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.jobspec.paths import Path

_IMAGE_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*(?:/|$)")  # such as HDFS_URI/code, which users are to replace
_NO_HDFS = re.compile(r"(?:https?|ftp|file|git|ssh)://|[A-Za-z]:\\|(?![/$<]|[A-Za-z][\w+.-]*://)")


def image_findings(path: Path, image: object) -> Iterator[Finding]:
    """Yield a finding if Docker cannot pull an image with this name."""
    if not isinstance(image, str) or not image.strip():
        return
    if scheme := _IMAGE_SCHEME.match(image.strip()):
        name = image.strip()[scheme.end() :]
        why = f"starts with {scheme[0]}, and is not the name of a Docker image; write {name!r}"
    elif not image.isascii():
        why = f"{image!r} is not the name of a Docker image{not_ascii(image)}; type the character again"
    elif any(map(str.isspace, image)):
        why = f"{image!r} has a blank, and is not the name of a Docker image; write it without"
    else:
        repository = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        if repository != repository.lower():
            small = repository.lower()
            yield warning(path, f"{image!r} has capitals in {repository!r}; Docker knows {small!r} only")
        return
    yield stricter(path, f"{why}. Servers accept it, and the job fails when it starts")


def folder_findings(path: Path, folder: object, kind: str, level: Level) -> Iterator[Finding]:
    """Yield a finding if a folder is not on the cluster's file system.

    The message calls it ``kind``, such as ``code folder``.
    """
    if isinstance(folder, str) and folder and _NO_HDFS.match(folder):
        message = f"{folder!r} is not a path on the cluster's file system, where the {kind} of a job is"
        remedy = "write $PAI_DEFAULT_FS_URI/PATH, and copy local files there with uploads or luigi-pai put"
        yield Finding(path, f"{message}; {remedy}", Level.WARNING if _PLACEHOLDER.match(folder) else level)
