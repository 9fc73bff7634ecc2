"""A task's files (folder, scripts, output, exit code), how it starts, and how secrets are redacted.

``DATA/jobs/ID-NAME/attemptN/ROLE-INDEX/`` holds ``command.sh``, ``stdout``, ``stderr``, ``runtime`` (the
output of v2 plugins), ``exit`` (the exit code) and ``work``, the command's working folder. The task itself
writes its exit code, so the code is known even if no server was running when the task ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError
from luigi_pai.jobspec.templates.secrets import mask
from luigi_pai.local.container import processes
from luigi_pai.local.container.environment import MOUNTS_VARIABLE
from luigi_pai.local.container.namespace import inside

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from luigi_pai.local.launcher.task_runner import Services
    from luigi_pai.local.store.records import Attempt, Job, Task


@dataclass(frozen=True)
class TaskStart:
    """A task that is about to start.

    Attributes:
        tasks: all of the attempt's tasks; their ports are already reserved.
        allocated: container ids of the tasks that have resources. An unstarted task without resources has
            no address.
    """

    job: Job
    attempt: Attempt
    tasks: Sequence[Task]
    task: Task
    files: TaskFiles
    allocated: Container[str]
    services: Services

    @property
    def role(self) -> Mapping[str, Any]:
        """The task's role."""
        return next(role for role in self.job.roles if role["name"] == self.task.role)


MakeFiles = Callable[[], "Mapping[str, Path] | None"]
"""A function that makes a task's files and returns its mounts, if any, as absolute path -> folder. It may
raise OSError."""

_TAIL_BYTES = 8192
_TAIL_LINES = 20
_SHOWN_NAME = 60
_SHORTEST_LINE = 6  # characters; in multi-line secrets, shorter lines (a brace) are too common to redact
_RUN_TASK = Path(__file__).with_name("run_task.sh")


class TaskFiles:
    """One task's files.

    Attributes:
        folder: the task's folder.
        work: the command's working folder.
        stdout, stderr: the command's output; stderr also contains the server's warnings.
        runtime: the output of a v2 task's plugins, before and after the command.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.runtime = folder / "work", folder / "runtime"
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"

    def make(self, scripts: Mapping[str, str], warnings: Iterable[str]) -> None:
        """Make the folder, the scripts and the command's two logs, and write the warnings to the error log.

        ``scripts`` maps file names to contents. Scripts may contain secrets, so only this user may read them.

        Raises:
            OSError: the files cannot be written.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        for name, content in scripts.items():
            script = self.folder / name
            script.touch(mode=0o600)
            script.write_text(content, "utf-8", "surrogatepass")
        self.stdout.touch()
        self.stderr.write_text(log_lines(warnings), "utf-8")

    def remove_scripts(self) -> None:
        """Remove the scripts, because they contain secrets."""
        with contextlib.suppress(OSError):  # the folder's name may be too long for the file system
            for script in self.folder.glob("*.sh"):
                script.unlink(missing_ok=True)

    def log_error(self, sentence: str) -> None:
        """Append the server's sentence to the error log; make the folder if it is missing. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.stderr.open("a", encoding="utf-8") as stderr:
            stderr.write(log_lines([sentence]))

    def exit_code(self) -> int | None:
        """Return the exit code written by the task's process, or None."""
        try:
            code = (self.folder / "exit").read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return int(code) if re.fullmatch(r"\d+\n", code) else None

    def end_time(self) -> float:
        """Return when the exit code was written, in seconds since 1970; infinity if not written yet."""
        try:
            return (self.folder / "exit").stat().st_mtime
        except OSError:
            return float("inf")

    def last_lines(self) -> str:
        """Return the last lines of the first log that is not empty: stderr, stdout or ``runtime``."""
        for path in (self.stderr, self.stdout, self.runtime):
            lines = end_of(path, _TAIL_BYTES).decode("utf-8", "replace").strip()
            if lines:
                return "\n".join(lines.splitlines()[-_TAIL_LINES:])
        return ""


class JobFolders:
    """The folder for all jobs, and the script that runs a task."""

    def __init__(self, root: Path, script: Path) -> None:
        self.root = root
        self._script = script
        self._bash = _find_bash()
        # mode 0o700: other users must not read the jobs' output, even if they can enter the data folder
        root.mkdir(mode=0o700, exist_ok=True)
        new = script.with_suffix(".new")
        shutil.copyfile(_RUN_TASK, new)
        new.replace(script)  # running tasks continue to read the old file

    @staticmethod
    def folder_name(job_id: int, name: str) -> str:
        """Return the name of a job's folder: unique, and safe for every job name."""
        return f"{job_id:06d}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:_SHOWN_NAME]}"

    def task_files(self, folder: str) -> TaskFiles:
        """Return a task's files, given the name of its folder."""
        return TaskFiles(self.root / folder)

    def start(
        self, files: TaskFiles, make_files: MakeFiles, environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], str | None]:
        """Make a task's files and start its process in a new session. This blocks: call it in another thread.

        Returns:
            The process, and its start time as returned by `processes.started`.

        Raises:
            OSError: the files cannot be written, or the process cannot be started.
            ValueError: an environment variable has an illegal name or value.
        """
        mounts = make_files()
        command = [self._bash, str(self._script), str(files.folder)]
        if mounts:
            command = inside(mounts, command)
            environment = {**environment, MOUNTS_VARIABLE: ""}
        with files.stdout.open("ab") as stdout, files.stderr.open("ab") as stderr:
            child = subprocess.Popen(  # noqa: S603 - running users' commands is the purpose of this server
                command,
                cwd=files.work,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return child, processes.started(child.pid)

    def remove(self, job_id: int, name: str) -> None:
        """Remove all of a job's files."""
        shutil.rmtree(self.root / self.folder_name(job_id, name), ignore_errors=True)


def log_lines(sentences: Iterable[str]) -> str:
    """Format the server's sentences as lines for a task's log."""
    return "".join(f"luigi-pai local: {sentence}\n" for sentence in sentences)


def _find_bash() -> str:
    """Return the path to bash; raise ConfigError if there is none."""
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError("bash is not on the PATH; OpenPAI runs every command with it")
    return bash


def end_of(path: Path, size: int) -> bytes:
    """Return at most ``size`` bytes from the end of a file; ``b""`` if the file cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read(size)
    except OSError:
        return b""


def redactor(secrets: Mapping[str, Any]) -> Callable[[str], str]:
    """Return a function that redacts secrets in a string: whole secrets, and single lines of secrets.

    Each line of a multi-line secret is redacted if it has at least ``_SHORTEST_LINE`` characters, because an
    excerpt of a log may start within a secret, and commands may write a key's lines one by one.
    """
    redacted = {"secrets": [secrets, *_secret_lines(secrets)]}
    return lambda log: mask(log, redacted)


def _secret_lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _secret_lines(item)
    elif isinstance(value, str):
        lines = value.strip().splitlines()
        yield from (line.strip() for line in lines if len(lines) == 1 or len(line.strip()) >= _SHORTEST_LINE)
