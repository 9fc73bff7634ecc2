"""The preparation of a task whose end is scripted: its own commands, code and plugins play no part."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.local.container.environment import base_variables
from luigi_pai.local.container.task_start import Preparation

if TYPE_CHECKING:
    from luigi_pai.local.config.job_scripts import JobScript
    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.container.task_start import TaskStart

__all__ = ["prepare_scripted"]


def prepare_scripted(start: TaskStart, script: JobScript) -> Preparation:
    """Return what a task needs that waits, writes and ends as a job script says."""
    return Preparation(partial(_make_files, start.files, script), base_variables(start))


def _make_files(files: TaskFiles, script: JobScript) -> None:
    files.work.mkdir(parents=True)
    lines = [
        f"sleep {'infinity' if script.after is None else f'{script.after:.3f}'}" if script.after != 0 else "",
        f"printf %s {shlex.quote(script.stdout)}" if script.stdout else "",
        f"printf %s {shlex.quote(script.stderr)} >&2" if script.stderr else "",
        f"exit {script.exit_code}",
    ]
    text = "".join(f"{line}\n" for line in lines if line)
    (files.folder / "command.sh").write_text(text, "utf-8", "surrogatepass")
    for log in (files.stdout, files.stderr, files.runtime):
        log.touch()
