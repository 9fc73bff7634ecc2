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
    lines = (
        [f"sleep {'infinity' if script.after is None else f'{script.after:.3f}'}"]
        if script.after != 0
        else []
    )
    for name, redirection, text in (("stdout", "", script.stdout), ("stderr", " >&2", script.stderr)):
        if text:  # in a file: a shell has no NUL characters
            written = files.folder / f"scripted-{name}"
            written.write_bytes(text.encode("utf-8", "surrogatepass"))
            lines.append(f"cat {shlex.quote(str(written))}{redirection}")
    lines.append(f"exit {script.exit_code}")
    (files.folder / "command.sh").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    for log in (files.stdout, files.stderr, files.runtime):
        log.touch()
