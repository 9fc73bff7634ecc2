"""``luigi-pai ssh`` and ``ssh-config``: open a shell in one of a job's containers."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from luigi_pai.cli.failures import EXIT_FAILED, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, find_submission, on_cluster, role_and_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.dialects.ssh import Address, SshAccess
    from luigi_pai.api.status import JobStatus, TaskStatus

_OPTIONS = {
    "StrictHostKeyChecking": "no",  # ports are reused by other containers, which have other host keys
    "UserKnownHostsFile": os.devnull,
    "LogLevel": "ERROR",
    "ForwardAgent": "no",  # the host is not verified, so do not give it an agent, display or password
    "ForwardX11": "no",
    "PasswordAuthentication": "no",
    "PreferredAuthentications": "publickey",
}
_LOGIN = re.compile(r"[A-Za-z_][\w.-]*")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # caught, so that this process removes the key before it exits
_SIGNALLED = 128  # like a shell, exit with this plus the signal's number
_NO_ALIAS = re.compile(r"[^\w.~-]")


def _is_login(_context: click.Context, _option: click.Parameter, login: str) -> str:
    if not _LOGIN.fullmatch(login):  # because ssh reads a login such as -o... as an option
        raise click.BadParameter(f"{login!r} is not a user name: use only letters, digits, _, . and -")
    return login


_login = click.option(
    "-l", "--login", default="root", show_default=True, callback=_is_login, help="The user in the container."
)
_identity = click.option(
    "-i",
    "--identity",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Your private key, if ssh does not find it automatically (0.15 and later).",
)


class _WithCommand(click.Command):
    """A command that runs another command, given after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        ctx.params["command"] = tuple(args[end + 1 :])
        return rest


@click.command(cls=_WithCommand)
@click.argument("job")
@click.argument("task", required=False, metavar="[ROLE[/INDEX]] [-- COMMAND...]")
@_login
@_identity
@on_cluster
def ssh(job: str, task: str | None, *, login: str, identity: str | None, command: Sequence[str]) -> None:
    """Open a shell in the container of one of JOB's tasks, or run COMMAND there.

    JOB is a job's name, the address of its page, or @latest. If the job has several tasks, add
    ROLE/INDEX. The image must have an ssh server. Up to 0.14, the cluster creates a key for each
    job, which is fetched and removed again; from 0.15 on, the job's ssh plugin has your public key.

    If COMMAND is one word, the shell there reads it as a line; several words are a program and
    its arguments.
    The exit code is ssh's: COMMAND's exit code, or 255.
    """
    with plain_failures("stopped; the job continues"):
        program = shutil.which("ssh")
        if program is None:
            give_up("there is no ssh on this machine's PATH: install the OpenSSH client")
        cluster = connect()
        status, access = _access(cluster, find_submission(cluster, job))
        host, port = _address_of(status, access, _chosen(status, task))
        with _key_file(access.key) as file:
            words = [program, "-p", str(port)]
            for name, value in {**_OPTIONS, "ClearAllForwardings": "yes"}.items():
                words += ["-o", f"{name}={value}"]
            if key := file or identity:
                words += ["-i", key, "-o", "IdentitiesOnly=yes"]
            words += [f"{login}@{host}"]
            if command:
                words += ["--", command[0] if len(command) == 1 else shlex.join(command)]
            code = subprocess.run(words, check=False).returncode  # noqa: S603  the user's own command
    sys.exit(code if code >= 0 else _SIGNALLED - code)


@click.command("ssh-config")
@click.argument("job")
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The file to store the job's private key in (up to 0.14).",
)
@_login
@_identity
@on_cluster
def ssh_config(job: str, *, key: str | None, login: str, identity: str | None) -> None:
    """Print an ssh configuration with a Host entry, JOB-ROLE-INDEX, for each of JOB's running containers.

    \b
      luigi-pai ssh-config train > train.ssh
      rsync -e 'ssh -F train.ssh' train-worker-0:checkpoints/ .

    Up to 0.14, the cluster creates a key for each job: pass --key, the file to store it in.
    """  # noqa: D301 - click needs a backspace here, not a backslash
    with plain_failures():
        cluster = connect()
        status, access = _access(cluster, find_submission(cluster, job))
        _check_key(status.name, access, key)
        if not access.addresses:
            _not_running(f"job {status.name}", status.raw_state)
        if access.key is not None and key is not None:
            _store_key(Path(key), access.key)
        file = key or identity
    for (role, index), (host, port) in access.addresses.items():
        options = {"HostName": host, "Port": str(port), "User": login, **_OPTIONS}
        if file is not None:
            options |= {"IdentityFile": f'"{Path(file).resolve()}"', "IdentitiesOnly": "yes"}
        click.echo(f"Host {_NO_ALIAS.sub('_', f'{status.name}-{role}-{index}')}")
        for option, value in options.items():
            click.echo(f"    {option} {value}")


def _check_key(name: str, access: SshAccess, key: str | None) -> None:
    """Exit if the job has a key but ``--key`` is missing, or if ``--key`` is given but the job has no key."""
    if access.key is None and key is not None:
        why = "has no key, because its ssh accepts yours: use --identity instead of --key"
    elif access.key is not None and key is None:
        why = "has a private key: use --key FILE, the file to store it in"
    else:
        return
    give_up(f"job {name} {why}")


def _access(cluster: Cluster, entry: Entry) -> tuple[JobStatus, SshAccess]:
    """Return a job's status and ssh access; exit if the job is not running or has no ssh."""
    name, status = entry.job, entry.known
    if status.finished:
        why = f"job {name} has ended ({status.raw_state}): its containers are gone; see luigi-pai logs"
        give_up(why, EXIT_FAILED)
    if status.state.value == "WAITING":
        _not_running(f"job {name}", status.raw_state)
    access = cluster.ssh(name)
    if access.missing is not None:
        give_up(f"job {name} has no ssh: {access.missing}", EXIT_FAILED)
    return status, access


def _chosen(status: JobStatus, task: str | None) -> TaskStatus:
    """Return the only task that matches ROLE/INDEX; exit if none or several match."""
    role, index = role_and_index(task)
    meant = [each for each in status.tasks if role in (None, each.role) and index in (None, each.index)]
    if len(meant) == 1:
        return meant[0]
    of_role = f" of role {role}" if role else ""
    if meant:
        why = f"job {status.name} has {len(meant)} tasks{of_role}: name one, {_some(meant)}"
    else:
        why = f"job {status.name} has no task {task}; it has {_some(status.tasks)}"
    return give_up(why)


def _some(tasks: Sequence[TaskStatus], most: int = 6) -> str:
    shown = [f"{task.role}/{task.index}" for task in tasks[:most]]
    return ", ".join([*shown, "..."] if len(tasks) > most else shown)


def _address_of(status: JobStatus, access: SshAccess, task: TaskStatus) -> Address:
    """Return the host and port of a task's ssh server; exit if it has none."""
    address = access.addresses.get((task.role, task.index))
    if address is not None:
        return address
    roles = access.roles
    if roles is not None and task.role not in roles:
        give_up(f"job {status.name} has ssh only in the tasks of {', '.join(sorted(roles))}", EXIT_FAILED)
    return _not_running(f"{task.role}/{task.index} of job {status.name}", task.state)


def _not_running(subject: str, state: str | None) -> NoReturn:
    ended = state in ("SUCCEEDED", "FAILED", "STOPPED")
    how = "has ended" if ended else "is not running yet, or has no ssh server yet"
    give_up(f"{subject} {how}" + (f" ({state})" if state else ""), EXIT_FAILED)


@contextlib.contextmanager
def _key_file(key: str | None) -> Iterator[str | None]:
    """Yield the path of a temporary file (mode 600) with a private key; None if there is no key."""
    if key is None:
        yield None
        return
    earlier = {number: signal.signal(number, _end) for number in _SIGNALS}
    number, path = tempfile.mkstemp(prefix="luigi-pai-ssh-")
    try:
        with os.fdopen(number, "w") as file:
            file.write(key)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _end(number: int, _frame: Any) -> NoReturn:
    sys.exit(_SIGNALLED + number)


def _store_key(path: Path, key: str) -> None:
    """Write a private key to a new file; exit if the file already exists with different content."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key)
    except FileExistsError:
        if path.read_text("utf-8", "replace") != key:
            give_up(f"{path} already exists with different content: choose a new file")
        path.chmod(0o600)
    except OSError as error:
        give_up(f"{path} cannot be written: {error.strerror}")
