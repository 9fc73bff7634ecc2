"""The ids that the launcher of OpenPAI 1.x gives a job, its attempts and its tasks."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luigi_pai.local.store.records import Job

__all__ = ["framework_name", "object_uid", "task_uid"]


def framework_name(job: Job) -> str:
    """Return the name under which a job's launcher knows it: a hash of ``USER~NAME``."""
    return hashlib.md5(job.full_name.encode(), usedforsecurity=False).hexdigest()


def object_uid(*words: object) -> str:
    """Return the UID of one of the launcher's objects by what is its own, such as the full name of a job."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, words))))


def task_uid(job: Job, attempt: int, name: str) -> str:
    """Return the UID of a task, or of a task role, of an attempt, 0 for the first."""
    return object_uid(job.full_name, attempt, name)
