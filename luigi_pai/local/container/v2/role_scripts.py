"""The scripts of a v2 task: what prepares its plugins, and what runs before, as and after its command.

As OpenPAI's runtime writes them: each plugin is prepared first, all of them
before any command runs; each has a script of its own before and after; those
after run in the reverse order, and only if the command succeeded. The release
is v0.1.11 of the runtime, which OpenPAI 1.8.0 is built on. Here alone secrets
are filled in, exactly.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.v2.plugin_parameters import fill_plugin_secrets
from luigi_pai.local.container.v2.protocol_spec import server_name
from luigi_pai.local.container.v2.runtime_exit import EXIT_BARRIER
from luigi_pai.spec.templates.secrets import fill_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["AFTER", "BEFORE", "COMMAND", "INIT", "left_out", "role_scripts"]

INIT, BEFORE, COMMAND, AFTER = "init.sh", "before.sh", "command.sh", "after.sh"

_STRICT = "set -o errexit\nset -o nounset\nset -o pipefail\n\n"
_IGNORED = "echo 'luigi-pai local: this is ignored, as its failurePolicy says' >&2"
_LEFT_OUT = {
    "ssh": "there is no sshd; sshbarrier waits until every task is up",
    "git": "no repository is cloned",
    "tensorboard": "it is not started",
}
_BARRIER = """\
(
  for task in {tasks}; do
    [ -e {attempt}/$task/ssh-ready ] || echo "SSH barrier: waiting for $task"
    until [ -e {attempt}/$task/ssh-ready ]; do
      if (( SECONDS >= {minutes} * 60 )); then
        echo "SSH barrier reaches max retry count: $task has not come up" >&2
        exit {exit_code}
      fi
      sleep 0.2
    done
  done
  echo "SSH barrier: every task is up"
)"""
_BARRIER_MINUTES = "300"


def left_out(role: Mapping[str, Any]) -> dict[str, str]:
    """Return a sentence on each plugin of a role that this server takes and does not run, by its name."""
    names = dict.fromkeys(plugin["plugin"] for plugin in role["plugins"])
    return {
        name: f"the plugin {name} is left out here: {_LEFT_OUT[name]}" for name in names if name in _LEFT_OUT
    }


def role_scripts(
    role: Mapping[str, Any], secrets: Mapping[str, Any], folder: str, tasks: Sequence[str]
) -> dict[str, str]:
    """Return the scripts of a task by file name; they will lie in ``folder``.

    ``tasks`` names the tasks, itself too, that an ssh barrier waits for; none without gang allocation.

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
            elif name == "ssh":
                before = _ssh(parameters, folder, tasks)
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


def _ssh(parameters: Any, folder: str, tasks: Sequence[str]) -> list[str]:
    """Return the commands of the plugin ``ssh``: mark the task as up; with a barrier, wait for the others."""
    wanted = parameters if isinstance(parameters, dict) else {}
    job_ssh, waits = (str(wanted.get(key)).lower() == "true" for key in ("jobssh", "sshbarrier"))
    if not (tasks and job_ssh):
        return []
    minutes = str(wanted.get("sshbarrierTimeout"))
    barrier = _BARRIER.format(
        attempt=shlex.quote(folder.rpartition("/")[0]),
        tasks=" ".join(tasks),
        minutes=minutes if minutes.isdecimal() else _BARRIER_MINUTES,
        exit_code=EXIT_BARRIER,
    )
    return [f"touch {shlex.quote(f'{folder}/ssh-ready')}", *([barrier] if waits else [])]


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
