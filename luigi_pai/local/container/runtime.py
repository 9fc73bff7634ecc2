"""Prepares a task (writes its scripts and mounts its storages), and translates a v2 task's exit code.

Scripts for v2 tasks follow OpenPAI 1.8.0's runtime (v0.1.11). All plugins are prepared before any command
runs. A plugin can have one script that runs before the command, and one that runs after it. The scripts
after the command run in reverse order, and only if the command succeeded. Secrets are not quoted or escaped.

The patterns that determine the exit code, and their order, come from 1.8's exit specification. The first exit
code with a matching pattern is the result. The search covers the last 10 MiB of each of the command's logs
and ignores case.
"""

from __future__ import annotations

import os
import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.templates.secrets import fill_secrets
from luigi_pai.local.container.protocol_spec import fill_plugin_secrets, server_name
from luigi_pai.local.container.storages import absolute_mounts, mount_notes
from luigi_pai.local.container.task_files import end_of, log_lines
from luigi_pai.local.releases import EXIT_PATTERNS, EXIT_UNRECOGNISED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from luigi_pai.local.config.rules import JobScript
    from luigi_pai.local.container.task_files import MakeFiles, TaskStart

BEFORE, _COMMAND, _AFTER = "before.sh", "command.sh", "after.sh"

_STRICT = "set -o errexit\nset -o nounset\nset -o pipefail\n\n"
_LEFT_OUT = {
    "ssh": "there is no sshd; sshbarrier waits until every task is up",
    "git": "no repository is cloned",
    "tensorboard": "it is not started",
    "teamwise_storage": "it mounts nothing; name storages in extras.storages",
}


def prepare(start: TaskStart) -> MakeFiles:
    """Return a function that makes a task's files.

    Raises:
        ValueError: a storage cannot be mounted, or 1.8's init container fails on the role (`role_scripts`).
    """
    script = start.services.scripts.of(start.job.id)
    if script is not None:
        return partial(start.files.make, {_COMMAND: _scripted(script)}, ())
    return _prepare_v1(start) if start.job.release.api == "v1" else _prepare_v2(start)


def _scripted(script: JobScript) -> str:
    """Return a command that only waits, writes and exits, as a job's rule specifies."""
    lines = [] if script.after == 0 else [f"sleep {'infinity' if script.after is None else script.after}"]
    lines += [f"printf %s {shlex.quote(script.stdout)}", f"printf %s {shlex.quote(script.stderr)} >&2"]
    return "".join(f"{line}\n" for line in [*lines, f"exit {script.exit_code}"])


def _prepare_v1(start: TaskStart) -> MakeFiles:
    # as in 0.7: the task gets the exit code of the command's last line
    script = f"{start.role['command']} || exit $?\n\nexit 0\n"
    ports = start.task.ports
    notes = [
        f"port {wanted} ({port['label']}) is in use on this machine; this task has {given}"
        for port in start.role["portList"]
        for wanted, given in enumerate(ports[port["label"]], port["beginAt"])
        if port["beginAt"] and wanted != given
    ]
    return partial(start.files.make, {_COMMAND: script}, notes)


def _prepare_v2(start: TaskStart) -> MakeFiles:
    # scripts are UTF-8 in every locale
    folder = os.fsencode(start.files.folder).decode("utf-8", "replace")
    gang = [task.name for task in start.tasks] if start.job.gang else []
    services = start.services
    scripts = role_scripts(start.role, services.store.secrets(start.job), folder, gang)
    names = dict.fromkeys(plugin["plugin"] for plugin in start.role["plugins"])
    missing = {
        name: f"the plugin {name} is left out here: {_LEFT_OUT[name]}" for name in names & _LEFT_OUT.keys()
    }
    mounts = services.storages.mounts(start.job.spec["storages"])
    with_files = ("git", "teamwise_storage")  # on a cluster, these plugins create files that a job may need
    warnings = [missing[name] for name in with_files if name in missing]

    def make_files() -> Mapping[str, Path]:
        files = start.files
        files.work.mkdir(parents=True)
        absolute = {f"/{path}": folder for path, folder in mounts.items()}
        links = {} if services.storages.can_mount(absolute, files.work) else mounts
        files.make(scripts, mount_notes(absolute_mounts(links, scripts.values())) + warnings)
        for path, storage in links.items():
            link = files.work / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(storage)
        files.runtime.write_text(log_lines([*mount_notes(links), *missing.values()]), "utf-8")
        return {} if links else absolute

    return make_files


def role_scripts(
    role: Mapping[str, Any], secrets: Mapping[str, Any], folder: str, tasks: Sequence[str]
) -> dict[str, str]:
    """Return a task's scripts by file name; the caller writes them into ``folder``.

    ``tasks`` lists all tasks, which an ssh barrier waits for; it is empty without gang allocation.

    With the failurePolicy ``ignore``, a task continues after a plugin fails. However, the task still fails if
    the runtime does not find the plugin, or cannot read its parameters.

    Raises:
        ValueError: 1.8's init container fails on this role; the message gives the reason.
    """
    if role["shown"] != server_name(role["shown"]):
        raise ValueError(
            f"OpenPAI 1.8 cannot run the role {role['shown']}: "
            "its runtime finds only roles whose names consist of small letters and digits"
        )
    files = {_COMMAND: f"{_STRICT}{fill_secrets(role['command'], secrets)}"}
    calls: dict[str, list[str]] = {BEFORE: [], _AFTER: []}
    for number, plugin in enumerate(role["plugins"]):
        _refuse_unknown(plugin)
        for kind, content in _plugin_scripts(plugin, secrets, folder, tasks).items():
            if content:
                file = f"{kind.removesuffix('.sh')}-{number}.sh"
                files[file] = content
                calls[kind].append(f'"$BASH" {shlex.quote(f"{folder}/{file}")}')
    calls[_AFTER].reverse()
    return files | {
        name: _STRICT + "".join(f"{line}\n" for line in lines) for name, lines in calls.items() if lines
    }


def _refuse_unknown(plugin: Mapping[str, Any]) -> None:
    """Raise ValueError for a plugin that does not exist, or whose parameters cannot be read."""
    name = plugin["plugin"]
    if plugin.get("fault"):
        raise ValueError(f"the plugin {name} cannot get its parameters: {plugin['fault']}")
    if name not in ("cmd", *_LEFT_OUT):
        raise ValueError(f"OpenPAI 1.8 has no runtime plugin {name}")


def _plugin_scripts(
    plugin: Mapping[str, Any], secrets: Mapping[str, Any], folder: str, tasks: Sequence[str]
) -> dict[str, str]:
    """Return the plugin scripts that run before and after the command.

    For invalid parameters, raise ValueError or, with the failurePolicy ``ignore``, return no scripts.
    """
    name, policy = plugin["plugin"], plugin["failurePolicy"]
    if name == "ssh":
        return {BEFORE: _script(_ssh(plugin["parameters"], folder, tasks), policy)}
    if name != "cmd":
        return {}
    try:
        before, after = _cmd(fill_plugin_secrets(plugin["parameters"], secrets))
        return {BEFORE: _script(before, policy), _AFTER: _script(after, policy)}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if policy == "ignore":
            return {}
        reason = error if isinstance(error, ValueError) else "a field is missing or has an invalid type"
        raise ValueError(f"the plugin {name} cannot use its parameters: {reason}") from None


def _cmd(parameters: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return the commands that ``cmd`` runs before the role's command, and after it succeeds."""
    if not isinstance(parameters, dict):
        return (), ()
    if "callbacks" not in parameters:
        pre, post = (parameters.get(key, ()) for key in ("preCommands", "postCommands"))
        return pre, post
    if "preCommands" in parameters or "postCommands" in parameters:
        raise ValueError("callbacks cannot be used together with preCommands or postCommands")
    commands: dict[str, list[str]] = {"taskStarts": [], "taskSucceeds": []}
    for callback in parameters["callbacks"]:
        if "event" not in callback:
            raise ValueError("a callback has no event")
        if callback["event"] in commands:
            if "commands" not in callback:
                raise ValueError(f"the callback of {callback['event']} has no commands")
            commands[callback["event"]].extend(callback["commands"])
    return commands["taskStarts"], commands["taskSucceeds"]


def _ssh(parameters: Any, folder: str, tasks: Sequence[str]) -> list[str]:
    """Return commands for ``jobssh`` that mark the task as up and, with a barrier, wait for all tasks."""
    wanted = parameters if isinstance(parameters, dict) else {}
    job_ssh, waits = (str(wanted.get(key)).lower() == "true" for key in ("jobssh", "sshbarrier"))
    commands = [f"touch {shlex.quote(f'{folder}/ssh-ready')}"] if job_ssh else []
    for task in tasks if job_ssh and waits else ():
        up = f"[ -e {shlex.quote(f'{folder}/../{task}/ssh-ready')} ]"
        commands.append(f"{up} || echo 'SSH barrier: waiting for {task}'; until {up}; do sleep 0.2; done")
    return commands


def _script(commands: Sequence[str], policy: Any) -> str:
    if not commands:
        return ""
    lines = "".join([command + "\n" for command in commands])
    return (
        f"set +o errexit\n{lines}set -o errexit\n"
        if policy.lower() == "ignore"
        else f"set -o errexit\n{lines}"
    )


# after the command

_SEARCHED = 10 * 1024 * 1024
_SHOWN = 4096 // 2
# bytes of a log to redact before truncating it to _SHOWN; longer than any protocol, and so than any secret
_REDACTED = 128 * 1024
_USER_LINES, _RUNTIME_LINES = 15, 10
_SIGNALS = (130, 131, 132, 134, 135, 136, 137, 139, 141, 143)
"""Exit codes after signals, which are reported unchanged."""

_NOT_FOUND = 127
"""Bash's exit code for a command that was not found. Only then is the first pattern (220) searched."""


def runtime_exit(
    code: int, user_logs: Sequence[Path], runtime_log: Path, redact: Callable[[str], str]
) -> tuple[int, dict[str, Any]]:
    """Translate a failed command's exit code; return the new code and the runtime's termination message.

    Args:
        code: exit code of the command, or of a plugin that ran before or after it.
        user_logs: the files of the command's output.
        runtime_log: the file of the plugins' output.
        redact: redacts the secrets in a string; called before truncation, because a truncated secret would
            not be found.
    """
    user = b"".join(end_of(path, _SEARCHED) for path in user_logs)
    runtime = end_of(runtime_log, _SEARCHED)
    small = user.lower()  # bytes.lower() keeps the length, so positions are the same in both
    info: dict[str, Any] = {"exitCode": EXIT_UNRECOGNISED, "originUserExitCode": code}
    if code in _SIGNALS:
        info["exitCode"] = code
        patterns: Sequence[tuple[int, Sequence[str]]] = ()
    else:
        patterns = sorted(EXIT_PATTERNS.items())[code != _NOT_FOUND :]
    for known, expressions in patterns:
        places = [place for place in (_search(expression, small) for expression in expressions) if place]
        if places:
            start, end = min(places)
            info["exitCode"] = known
            info["matchedUserLogString"] = redact(_decode(user[start : min(end, start + _REDACTED)]))[:_SHOWN]
            break
    info["errorLogs"] = {
        "user": _last_lines(redact(_decode(user[-_REDACTED:])), _USER_LINES),
        "platform": _last_lines(redact(_decode(runtime[-_REDACTED:])), _RUNTIME_LINES),
    }
    return info["exitCode"], info


def _search(pattern: str, log: bytes) -> tuple[int, int] | None:
    """Return the start and end of a pattern's first match in a log; ``.*`` matches anything within a line.

    Search for the pattern's parts one by one: with ``.*``, `re` reads the rest of the line again from each
    possible start of a match, which takes hours in a log that is one long line.
    """
    first, *others = (re.compile(part.encode()) for part in pattern.split(".*"))
    found = first.search(log)
    while found is not None:
        line_end = log.find(b"\n", found.end())
        line_end = len(log) if line_end < 0 else line_end
        start, end = found.span()
        for part in others:
            following = part.search(log, end, line_end)
            if following is None:
                break
            end = following.end()
        else:
            return start, end
        found = first.search(log, line_end)
    return None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _last_lines(log: str, count: int) -> str:
    return "\n".join(log[-_SHOWN:].splitlines()[-count:])
