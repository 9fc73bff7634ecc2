"""The scripts of a v2 task: what plugins run before the command, the command, what they run after it.

As OpenPAI's runtime writes them: each plugin has a script of its own before and
after; those after run in the reverse order, and only if the command succeeded.
Here alone secrets are filled in, exactly.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from luigi_pai.local.protocol_spec import fill_references, server_name
from luigi_pai.local.runtime_exit import EXIT_BARRIER
from luigi_pai.spec.secret_texts import fill_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AFTER", "BEFORE", "COMMAND", "SSH_READY", "role_scripts"]

BEFORE, COMMAND, AFTER = "before.sh", "command.sh", "after.sh"
SSH_READY = "ssh-ready"
"""The file in a task's folder that says: other tasks can reach it."""

_STRICT = "set -o errexit\nset -o nounset\nset -o pipefail\n\n"
_BARRIER_MINUTES = 300

_BARRIER = """\
attempt={attempt}
seconds=$(( {minutes} * 60 ))
waited=0
for task in {tasks}; do
  until [ -e "$attempt/$task/{ready}" ]; do
    if (( waited >= seconds * 5 )); then
      echo "SSH barrier reaches max retry count: $task has not come up" >&2
      exit {exit_code}
    fi
    (( waited % 50 )) || echo "SSH barrier: waiting for $task"
    sleep 0.2
    waited=$(( waited + 1 ))
  done
done
echo "SSH barrier: every task is up"
"""

_TENSORBOARD = """\
if command -v tensorboard >/dev/null; then
  echo luigi-pai local: tensorboard is started at http://127.0.0.1:{port}/
  tensorboard {where} --port={port} --host=127.0.0.1 &
else
  echo 'luigi-pai local: tensorboard is not installed here (pip install tensorboard), so it is not started'
fi
"""


class _Scripts:
    """The scripts of one task, being written.

    Args:
        spec: the job, as `protocol_spec.job_spec` has it.
        role: its role.
        tasks: the names of the attempt's other tasks, ``ROLE-INDEX``.
        folder: the task's own folder.
    """

    def __init__(
        self, spec: Mapping[str, Any], role: Mapping[str, Any], tasks: Sequence[str], folder: str
    ) -> None:
        self._spec = spec
        self._role = role
        self._tasks = tasks
        self._folder = folder
        self.files: dict[str, str] = {}
        self.before: list[str] = []
        self.after: list[str] = []

    def add(self, number: int, plugin: Mapping[str, Any]) -> None:
        """Add what a plugin runs."""
        parameters = plugin["parameters"] or {}
        before, after = {
            "cmd": self._cmd,
            "ssh": self._ssh,
            "git": self._git,
            "tensorboard": self._tensorboard,
            "teamwise_storage": self._nothing,
        }.get(plugin["plugin"], self._unknown)(plugin["plugin"], parameters)
        policy = str(plugin["failurePolicy"]).lower()
        for name, commands in ((f"before-{number}.sh", before), (f"after-{number}.sh", after)):
            if not commands:
                continue
            lines = "".join(f"{command}\n" for command in commands)
            around = (
                ("set +o errexit\n", "set -o errexit\n") if policy == "ignore" else ("set -o errexit\n", "")
            )
            self.files[name] = f"{around[0]}{lines}{around[1]}"
            call = f'"$BASH" {shlex.quote(f"{self._folder}/{name}")}'
            if name.startswith("before"):
                self.before.append(call)
            else:
                self.after.insert(0, call)

    def _cmd(self, _name: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        if "callbacks" not in parameters:
            return list(parameters.get("preCommands") or ()), list(parameters.get("postCommands") or ())
        commands: dict[str, list[str]] = {"taskStarts": [], "taskSucceeds": []}
        for callback in parameters["callbacks"] or ():
            commands.setdefault(callback.get("event"), []).extend(callback.get("commands") or ())
        return commands["taskStarts"], commands["taskSucceeds"]

    def _ssh(self, _name: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Say that this task is up; with a barrier, wait until every other one is."""
        if not self._spec["gang"] or str(parameters.get("jobssh", False)).lower() != "true":
            return [], []
        commands = [f"touch {shlex.quote(f'{self._folder}/{SSH_READY}')}"]
        if str(parameters.get("sshbarrier", False)).lower() == "true":
            commands.append(
                _BARRIER.format(
                    minutes=int(parameters.get("sshbarrierTimeout") or _BARRIER_MINUTES),
                    tasks=" ".join(self._tasks),
                    attempt=shlex.quote(self._folder.rpartition("/")[0]),
                    ready=SSH_READY,
                    exit_code=EXIT_BARRIER,
                )
                if self._tasks
                else "echo 'SSH barrier: this is the only task'"
            )
        return commands, []

    @staticmethod
    def _git(_name: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Clone a repository into ``clone_dir``; without one, the real plugin keeps the clone to itself."""
        if "clone_dir" not in parameters:
            return [], []
        words = ["git", "clone", *map(str, parameters.get("options") or ()), str(parameters["repo_uri"])]
        return [f"{shlex.join(words)} {parameters['clone_dir']}"], []

    @staticmethod
    def _nothing(_name: str, _parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        return [], []

    def _tensorboard(self, _name: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Start tensorboard beside the first task of the first role, if it is installed.

        As in the real plugin, paths and port stand in the script as they are, so variables may be in them.
        """
        first = self._spec["taskRoles"][0]["name"] == self._role["name"]
        index = self._folder.rpartition("-")[2].partition(".")[0]
        if not (first and index == "0" and parameters):
            return [], []
        folders = parameters.get("logdir")
        if not isinstance(folders, dict) or not folders:
            raise ValueError("the plugin tensorboard needs logdir, an object of paths by name")
        reserved = [
            port["label"] for port in self._role["portList"] if port["label"].lower() == "tensorboard"
        ]
        port = f"${{PAI_CONTAINER_HOST_{reserved[0]}_PORT_LIST%%,*}}" if reserved else parameters.get("port")
        if port is None:
            raise ValueError(
                "the plugin tensorboard needs a port: its parameter, or one reserved as tensorboard"
            )
        paths = ",".join(f"{name}:{path}" for name, path in folders.items())
        where = f"--logdir_spec={paths}" if len(folders) > 1 else f"--logdir={next(iter(folders.values()))}"
        return [_TENSORBOARD.format(where=where, port=port)], []

    @staticmethod
    def _unknown(name: str, _parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        text = f"luigi-pai local: OpenPAI 1.8 has no runtime plugin {name}"
        return [f"echo {shlex.quote(text)} >&2; exit 1"], []


def role_scripts(
    spec: Mapping[str, Any],
    role: Mapping[str, Any],
    secrets: Mapping[str, Any],
    tasks: Sequence[str],
    folder: str,
) -> dict[str, str]:
    """Return the scripts of a task by file name.

    Args:
        spec: the job.
        role: its role.
        secrets: the job's secrets.
        tasks: the names of the other tasks of its attempt.
        folder: where the scripts will lie.
    """
    scripts = _Scripts(spec, role, tasks, folder)
    if role["shown"] != server_name(role["shown"]):
        text = (
            f"luigi-pai local: OpenPAI 1.8 cannot run the role {role['shown']}: "
            "its runtime finds only names of small letters and digits"
        )
        scripts.before.append(f"echo {shlex.quote(text)} >&2; exit 1")
    for number, plugin in enumerate(role["plugins"]):
        scripts.add(number, fill_references(plugin, {"$secrets": secrets}))
    files = {**scripts.files, COMMAND: f"{_STRICT}{fill_secrets(role['command'], secrets)}"}
    for name, calls in ((BEFORE, scripts.before), (AFTER, scripts.after)):
        if calls:
            files[name] = _STRICT + "".join(f"{call}\n" for call in calls)
    return files
