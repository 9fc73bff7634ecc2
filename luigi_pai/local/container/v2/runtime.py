"""The preparation of a v2 task, and the exit code that OpenPAI's runtime makes of its command's."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.local.container.storages import absolute_mounts, mount_notes
from luigi_pai.local.container.task_files import log_lines
from luigi_pai.local.container.task_start import ContainerExit, Preparation
from luigi_pai.local.container.v2.environment import task_environment
from luigi_pai.local.container.v2.role_scripts import left_out, role_scripts
from luigi_pai.local.container.v2.runtime_exit import runtime_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from luigi_pai.local.container.task_files import TaskFiles
from luigi_pai.local.container.task_start import TaskStart

__all__ = ["exit_of", "prepare"]


def prepare(start: TaskStart) -> Preparation:
    """Return what a v2 task needs before it starts; raises ValueError if a storage cannot be mounted."""
    folder = os.fsencode(start.files.folder).decode(
        "utf-8", "replace"
    )  # scripts are UTF-8 whatever the locale
    gang = [task.name for task in start.tasks] if start.job.gang else []
    scripts = role_scripts(start.role, start.secrets, folder, gang)
    missing = left_out(start.role)
    links = start.storages.mounts(start.job.spec["storages"])
    warnings = mount_notes(absolute_mounts(links, scripts.values()))
    warnings += [
        sentence for name, sentence in missing.items() if name == "git"
    ]  # files that a job looks for
    notes = [*mount_notes(links), *missing.values(), *start.notes]
    make_files = partial(_make_files, start.files, scripts, links, notes, warnings)
    return Preparation(make_files, task_environment(start))


def exit_of(code: int, files: TaskFiles, redact: Callable[[str], str]) -> ContainerExit:
    """Return the exit code and the information that the runtime makes of a failure."""
    return runtime_exit(code, (files.stdout, files.stderr), files.runtime, redact)


def _make_files(
    files: TaskFiles,
    scripts: Mapping[str, str],
    links: Mapping[str, Path],
    notes: Iterable[str],
    warnings: Iterable[str],
) -> None:
    """Make the folder, scripts and logs of a task.

    Links are folders that appear within the working
    folder, by the path that they have there. The plugins' log begins with notes, the error log with warnings.
    """
    files.make(scripts, warnings)
    for path, folder in links.items():
        link = files.work / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    files.runtime.write_text(log_lines(notes), "utf-8")
