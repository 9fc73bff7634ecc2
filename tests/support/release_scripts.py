"""The scripts into which releases write a command, and jobs with a command to validate."""

from __future__ import annotations

import re
import subprocess

from luigi_pai.errors import Level
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.validate import validate_job

__all__ = ["AS_ON_V2", "appended", "bash", "evaluated", "exit_code", "warnings"]

AS_ON_V2 = ("-o", "errexit", "-o", "nounset", "-o", "pipefail")
"""The options with which the runtime of v2 runs commands."""

_AFTER = '\nprintf "\\n%s %s\\n\\n" "[INFO]" "END"\n\nexit 0'
_SPECIAL = re.compile(r"[ !\"#$&'()*,;<>?\[\\\]^`{|}~]")
_CONTROL = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def appended(command):
    """Return the script of 0.7 and 0.8, around the command."""
    return f"{command} || exit $?{_AFTER}"


def evaluated(command):
    """Return the script of 0.9 to 0.14: specials get a backslash, a line break becomes a backslash and n."""
    escaped = _SPECIAL.sub(r"\\\g<0>", command)
    escaped = re.sub(r"[\n\t\r]", lambda found: _CONTROL[found[0]], escaped)
    return f"eval {escaped} || exit $?{_AFTER}"


def exit_code(script, folder):
    """Return bash's exit code for a script in a file, as in a container."""
    file = folder / "script.sh"
    file.write_bytes(script.encode())
    return subprocess.run(["bash", file], cwd=folder, capture_output=True, check=False).returncode


def bash(command, *options, **about):
    """Return bash's exit code for a command, with what it prints."""
    words = ["bash", *options, "-c", command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30, **about)


def warnings(command, release=None):
    """Return the warnings about a command in a job file of v1, without its place."""
    document = PaiJob("train", "python:3", [TaskRole("main", "true")]).to_dict()
    document["taskRoles"][0]["command"] = command
    found = validate_job(document, release=release)
    assert all(problem.level is Level.WARNING for problem in found)
    return [problem.message for problem in found]
