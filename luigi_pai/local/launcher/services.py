"""The services that every attempt of a job uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from luigi_pai.local.config.settings import HdfsAddress
    from luigi_pai.local.container.orphans import Orphans
    from luigi_pai.local.container.scripted import JobScripts
    from luigi_pai.local.container.storages import Storages
    from luigi_pai.local.container.task_files import JobFolders
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.views.job_events import JobEvents

__all__ = ["Services"]


@dataclass(frozen=True)
class Services:
    """The services of a server.

    Attributes:
        orphans: of the tasks of this server.
        bin: the folder of the ``hdfs`` command.
        stop_grace: seconds between SIGTERM and SIGKILL.
        hurry: set when no further grace is to be given.
        scripts: the jobs whose commands are not run.
        start_delay: seconds until the first process of an attempt starts: by then the
            reply to the submission has reached its client.
        retry_seconds: pause before another try of what a full disk, or a lack of ports, prevented.
    """

    store: Store
    events: JobEvents
    folders: JobFolders
    orphans: Orphans
    bin: Path
    hdfs: HdfsAddress
    storages: Storages
    scheduler: Scheduler
    stop_grace: float
    hurry: asyncio.Event
    scripts: JobScripts
    start_delay: float = 0.002
    retry_seconds: float = 1.0
