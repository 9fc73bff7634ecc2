"""What all attempts of jobs run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from luigi_pai.local.config.settings import HdfsAddress
    from luigi_pai.local.container.storages import Storages
    from luigi_pai.local.container.task_files import JobFolders
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.store.jobs import Store

__all__ = ["Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What all attempts run with.

    Attributes:
        store: what is known.
        folders: the files of tasks.
        bin: the folder of the ``hdfs`` command.
        hdfs: where HDFS is.
        storages: the folders that v2 jobs mount.
        scheduler: who has which resources.
        stop_grace: seconds between SIGTERM and SIGKILL.
        hurry: set when there is to be no further grace.
    """

    store: Store
    folders: JobFolders
    bin: Path
    hdfs: HdfsAddress
    storages: Storages
    scheduler: Scheduler
    stop_grace: float
    hurry: asyncio.Event
