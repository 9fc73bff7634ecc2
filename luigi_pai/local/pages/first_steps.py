"""The list of jobs while it is empty: how to run the first job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.pages.html import join, tag

if TYPE_CHECKING:
    from luigi_pai.local.pages.html import Html

__all__ = ["FIRST_TASK", "first_steps"]

FIRST_TASK = """cat > hello.py <<'END'
from luigi_pai import PaiTask, TaskRole

class Hello(PaiTask):
    name = "hello"
    image = "python:3"
    tasks = [TaskRole("main", "echo hello from $PAI_JOB_NAME")]
END
PYTHONPATH=. luigi --module hello Hello --local-scheduler"""
"""A shell command that writes a module with one task, and runs it."""


def first_steps(config_lines: str) -> Html:
    """Return the settings to copy and a command to try.

    Args:
        config_lines: the lines for luigi.cfg that point at this server.
    """
    return join(
        (
            tag("p", "No job yet. Two steps to the first one:"),
            tag("h2", "1. Put these lines into luigi.cfg"),
            _copied(config_lines, "Lines for luigi.cfg"),
            tag("h2", "2. Run a task in that folder"),
            _copied(FIRST_TASK, "Command to try"),
            tag("p", "The job appears here as soon as it is submitted."),
        )
    )


def _copied(text: str, label: str) -> Html:
    return tag("pre", text, tabindex="0", role="region", aria_label=label)
