"""The preparation of a v2 task: the scripts that run before, as and after its command, and its storages.

As OpenPAI's runtime writes them: each plugin is prepared first, all of them
before any command runs; each has a script of its own before and after; those
after run in the reverse order, and only if the command succeeded. The release
is v0.1.11 of the runtime, which OpenPAI 1.8.0 is built on. Here alone secrets
are filled in, exactly.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.storages import absolute_mounts, mount_notes
from luigi_pai.local.container.task_files import log_lines
from luigi_pai.local.container.task_start import ContainerExit, Preparation
from luigi_pai.local.container.v2.environment import task_environment
from luigi_pai.local.container.v2.protocol_spec import fill_plugin_secrets, server_name
from luigi_pai.local.container.v2.runtime_exit import runtime_exit
from luigi_pai.spec.templates.secrets import fill_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.container.task_start import TaskStart

__all__ = ["AFTER", "BEFORE", "COMMAND", "INIT", "exit_of", "prepare", "role_scripts"]

INIT, BEFORE, COMMAND, AFTER = "init.sh", "before.sh", "command.sh", "after.sh"

_STRICT = "set -o errexit\nset -o nounset\nset -o pipefail\n\n"
_IGNORED = "echo 'luigi-pai local: this is ignored, as its failurePolicy says' >&2"
_LEFT_OUT = {
    "ssh": "there is no sshd, and no barrier",
    "git": "no repository is cloned",
    "tensorboard": "it is not started",
}


def prepare(start: TaskStart) -> Preparation:
    """Return what a v2 task needs before it starts; raises ValueError if a storage cannot be mounted."""
    # scripts are UTF-8 whatever the locale
    folder = os.fsencode(start.files.folder).decode("utf-8", "replace")
    scripts = role_scripts(start.role, start.secrets, folder)
    names = dict.fromkeys(plugin["plugin"] for plugin in start.role["plugins"])
    missing = {
        name: f"the plugin {name} is left out here: {_LEFT_OUT[name]}" for name in names & _LEFT_OUT.keys()
    }
    links = start.storages.mounts(start.job.spec["storages"])
    warnings = mount_notes(absolute_mounts(links, scripts.values()))
    warnings += [missing[name] for name in ("git",) if name in missing]  # files that a job looks for
    notes = [*mount_notes(links), *missing.values(), *start.notes]

    def make_files() -> None:
        files = start.files
        files.make(scripts, warnings)
        for path, storage in links.items():
            link = files.work / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(storage)
        files.runtime.write_text(log_lines(notes), "utf-8")

    return Preparation(make_files, task_environment(start))


def exit_of(code: int, files: TaskFiles, redact: Callable[[str], str]) -> ContainerExit:
    """Return the exit code and the information that the runtime makes of a failure."""
    return runtime_exit(code, (files.stdout, files.stderr), files.runtime, redact)


def role_scripts(role: Mapping[str, Any], secrets: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Return the scripts of a task by file name; they will lie in ``folder``.

    A failurePolicy of ``ignore`` covers a plugin's own failures, not those of the runtime, which reads the
    parameters and looks for the plugin.
    """
    files = {COMMAND: f"{_STRICT}{fill_secrets(role['command'], secrets)}"}
    init = [*_role_fault(role)]
    calls: dict[str, list[str]] = {BEFORE: [], AFTER: []}
    for number, plugin in enumerate(role["plugins"]):
        name, policy = plugin["plugin"], plugin["failurePolicy"]
        try:
            parameters = fill_plugin_secrets(plugin["parameters"], secrets)
            before: Sequence[str] = ()
            after: Sequence[str] = ()
            if name == "cmd":
                before, after = _cmd(parameters)
            parts = {BEFORE: _script(before, policy), AFTER: _script(after, policy)}
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            reason = error if isinstance(error, ValueError) else "something is missing, or of a wrong shape"
            failed = _error(f"the plugin {name} cannot use its parameters: {reason}")
            init.append(f"{failed}; {_IGNORED if policy == 'ignore' else 'exit 1'}")
            continue
        init += _plugin_fault(plugin)
        for kind, text in parts.items():
            if text:
                file = f"{kind.removesuffix('.sh')}-{number}.sh"
                files[file] = text
                calls[kind].append(f'"$BASH" {shlex.quote(f"{folder}/{file}")}')
    calls[AFTER].reverse()
    if init:
        files[INIT] = "".join(f"{line}\n" for line in init)
    return files | {
        name: _STRICT + "".join(f"{line}\n" for line in lines) for name, lines in calls.items() if lines
    }


def _role_fault(role: Mapping[str, Any]) -> Iterator[str]:
    if role["shown"] != server_name(role["shown"]):
        sentence = f"OpenPAI 1.8 cannot run the role {role['shown']}: "
        yield f"{_error(sentence + 'its runtime finds only names of small letters and digits')}; exit 1"


def _plugin_fault(plugin: Mapping[str, Any]) -> Iterator[str]:
    name = plugin["plugin"]
    if plugin.get("fault"):
        sentence = f"the plugin {name} cannot get its parameters: {plugin['fault']}"
        yield f"{_error(sentence)}; exit 1"
    elif name not in ("cmd", "teamwise_storage", *_LEFT_OUT):
        yield f"{_error(f'OpenPAI 1.8 has no runtime plugin {name}')}; exit 1"


def _cmd(parameters: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return the commands that the plugin ``cmd`` runs before the role's, and after that has succeeded."""
    if not isinstance(parameters, dict):
        return (), ()
    if "callbacks" not in parameters:
        pre, post = (parameters.get(key, ()) for key in ("preCommands", "postCommands"))
        return pre, post
    if "preCommands" in parameters or "postCommands" in parameters:
        raise ValueError("callbacks and preCommands or postCommands exclude each other")
    commands: dict[str, list[str]] = {"taskStarts": [], "taskSucceeds": []}
    for callback in parameters["callbacks"]:
        if "event" not in callback:
            raise ValueError("a callback has no event")
        if callback["event"] in commands:
            if "commands" not in callback:
                raise ValueError(f"the callback of {callback['event']} has no commands")
            commands[callback["event"]].extend(callback["commands"])
    return commands["taskStarts"], commands["taskSucceeds"]


def _script(commands: Sequence[str], policy: Any) -> str:
    if not commands:
        return ""
    lines = "".join([command + "\n" for command in commands])
    return (
        f"set +o errexit\n{lines}set -o errexit\n"
        if policy.lower() == "ignore"
        else f"set -o errexit\n{lines}"
    )


def _error(sentence: str) -> str:
    return f"echo {shlex.quote(f'luigi-pai local: {sentence}')} >&2"
