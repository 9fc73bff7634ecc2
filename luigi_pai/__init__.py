"""OpenPAI jobs as Luigi tasks.

The package has every name in ``luigi.contrib.pai``. Names are loaded when they are first used, so you can
import ``luigi_pai.jobspec`` and ``luigi_pai.api`` without Luigi.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.job import FunctionJob, Job
    from luigi_pai.api.registry import reset_clusters
    from luigi_pai.api.status import JobState, JobStatus, TaskStatus
    from luigi_pai.config import OpenPai
    from luigi_pai.errors import (
        AuthenticationError,
        ClusterUnreachable,
        ConfigError,
        InvalidReply,
        JobNotFound,
        Level,
        MissingPackage,
        NameConflict,
        PaiApiError,
        PaiError,
        PaiHttpError,
        PaiJobError,
        PaiJobFailed,
        PaiJobForgotten,
        PaiJobLost,
        PaiJobTimeout,
        PaiNameTaken,
        PaiOutputElsewhere,
        PaiSweepFailed,
        PaiWorkConflict,
        PermissionRefused,
        Problem,
        RateLimited,
        ServerFault,
        SpecError,
        TokenLost,
    )
    from luigi_pai.files import HdfsError, HdfsFlagTarget, HdfsTarget
    from luigi_pai.jobspec.job import PaiJob, Port, TaskRole, slot_to_dict
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.protocol_task import PaiJobTarget, PaiProtocolTask
    from luigi_pai.python_task import PaiPythonTask
    from luigi_pai.sweep.grids import grid, sample, zipped
    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.task import PaiTask
    from luigi_pai.tasks.events import PaiEvent

__version__ = "0.1.0"

__all__ = [
    "AuthenticationError",
    "Cluster",
    "ClusterUnreachable",
    "ConfigError",
    "FunctionJob",
    "HdfsError",
    "HdfsFlagTarget",
    "HdfsTarget",
    "InvalidReply",
    "Job",
    "JobNotFound",
    "JobProtocol",
    "JobState",
    "JobStatus",
    "Level",
    "MissingPackage",
    "NameConflict",
    "OpenPai",
    "PaiApiError",
    "PaiError",
    "PaiEvent",
    "PaiHttpError",
    "PaiJob",
    "PaiJobError",
    "PaiJobFailed",
    "PaiJobForgotten",
    "PaiJobLost",
    "PaiJobTarget",
    "PaiJobTimeout",
    "PaiNameTaken",
    "PaiOutputElsewhere",
    "PaiProtocolTask",
    "PaiPythonTask",
    "PaiSweep",
    "PaiSweepFailed",
    "PaiTask",
    "PaiWorkConflict",
    "PermissionRefused",
    "Port",
    "Problem",
    "RateLimited",
    "ServerFault",
    "SpecError",
    "TaskRole",
    "TaskStatus",
    "TokenLost",
    "grid",
    "reset_clusters",
    "sample",
    "slot_to_dict",
    "zipped",
]

_HOMES = {
    "luigi_pai.api.cluster": ("Cluster",),
    "luigi_pai.api.job": ("FunctionJob", "Job"),
    "luigi_pai.api.registry": ("reset_clusters",),
    "luigi_pai.api.status": ("JobState", "JobStatus", "TaskStatus"),
    "luigi_pai.config": ("OpenPai",),
    "luigi_pai.files": ("HdfsError", "HdfsFlagTarget", "HdfsTarget"),
    "luigi_pai.protocol_task": ("PaiJobTarget", "PaiProtocolTask"),
    "luigi_pai.python_task": ("PaiPythonTask",),
    "luigi_pai.jobspec.protocol": ("JobProtocol",),
    "luigi_pai.jobspec.job": ("PaiJob", "Port", "TaskRole", "slot_to_dict"),
    "luigi_pai.sweep.grids": ("grid", "sample", "zipped"),
    "luigi_pai.sweep.sweep": ("PaiSweep",),
    "luigi_pai.task": ("PaiTask",),
    "luigi_pai.tasks.events": ("PaiEvent",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "luigi_pai.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
