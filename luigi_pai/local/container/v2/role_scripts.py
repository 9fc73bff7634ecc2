"""The scripts of a v2 task: what prepares its plugins, and what runs before, as and after its command.

As OpenPAI's runtime writes them: each plugin is prepared first, all of them
before any command runs; each has a script of its own before and after; those
after run in the reverse order, and only if the command succeeded. The release
is v0.1.11 of the runtime, which OpenPAI 1.8.0 is built on. Here alone secrets
are filled in, exactly.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.v2.plugin_parameters import fill_plugin_secrets
from luigi_pai.local.container.v2.protocol_spec import server_name
from luigi_pai.local.container.v2.runtime_exit import EXIT_BARRIER
from luigi_pai.spec.templates.secrets import fill_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["AFTER", "BEFORE", "COMMAND", "INIT", "SSH_READY", "role_scripts"]

INIT, BEFORE, COMMAND, AFTER = "init.sh", "before.sh", "command.sh", "after.sh"
SSH_READY = "ssh-ready"
"""The file in a task's folder that marks: other tasks can reach it."""

_STRICT = "set -o errexit\nset -o nounset\nset -o pipefail\n\n"
_BARRIER_MINUTES = "300"
_MINUTES = re.compile(r"-?(0[0-7]*|[1-9][0-9]*)|[A-Za-z_]\w*")  # of bash: a word is a variable, 0 if not set

_BARRIER = """\
barrier() {{
  local attempt={attempt} seconds waited=0 task
  seconds=$(( {minutes} * 60 ))
  for task in {tasks}; do
    until [ -e "$attempt/$task/{ready}" ]; do
      if (( waited >= seconds * 5 )); then
        echo "SSH barrier reaches max retry count: $task has not come up" >&2
        return {exit_code}
      fi
      (( waited % 50 )) || echo "SSH barrier: waiting for $task"
      sleep 0.2
      waited=$(( waited + 1 ))
    done
  done
  echo "SSH barrier: every task is up"
}}
barrier"""

_TENSORBOARD = """\
(
  set -o nounset
  set -- {where} --port={port} --host=127.0.0.1
  if command -v tensorboard >/dev/null; then
    echo luigi-pai local: tensorboard is started at http://127.0.0.1:{port}/
    tensorboard "$@" &
  else
    echo 'luigi-pai local: tensorboard is not installed here (pip install tensorboard), so it is not started'
  fi
)"""

_CLONE = """\
{{ {clone} && rm -rf {code}/.git; }} || {{
  echo 'luigi-pai local: the plugin git cannot clone its repository' >&2
  {otherwise}
}}"""

_IGNORED = "echo 'luigi-pai local: this is ignored, as its failurePolicy says' >&2"

_CHECK_CLONE_DIR = """\
check_clone_dir() {
  if [ $# -gt 0 ] && [ -e "$1" ] && { [ ! -d "$1" ] || [ -n "$(ls -A "$1")" ]; }; then
    echo "fatal: destination path '$1' already exists and is not an empty directory."
    return 1
  fi
}"""


class _Scripts:
    """The scripts of one task, being written; ``tasks`` names the attempt's others, ``ROLE-INDEX``."""

    def __init__(
        self, spec: Mapping[str, Any], role: Mapping[str, Any], tasks: Sequence[str], folder: str
    ) -> None:
        self._spec = spec
        self._role = role
        self._tasks = tasks
        self._folder = folder
        self.files: dict[str, str] = {}
        self.init: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []

    def fail(self, sentence: str) -> None:
        """Make the init container fail here."""
        self.init.append(f"{_print_error(sentence)}; exit 1")

    def add(self, number: int, plugin: Mapping[str, Any]) -> None:
        """Add what a plugin prepares and runs.

        A failurePolicy of ``ignore`` covers the plugin's own failures, not those of the
        runtime, which reads the parameters and looks for the plugin.
        """
        name, policy = plugin["plugin"], plugin["failurePolicy"]
        if plugin.get("fault"):
            self.fail(f"the plugin {name} cannot get its parameters: {plugin['fault']}")
            return
        prepare = {
            "cmd": _cmd,
            "ssh": self._ssh,
            "git": _git,
            "tensorboard": self._tensorboard,
            "teamwise_storage": _nothing,
        }.get(name)
        if prepare is None:
            self.fail(f"OpenPAI 1.8 has no runtime plugin {name}")
            return
        scripts = _PluginScripts(policy, f"{self._folder}/before-{number}.sh", f"{self._folder}/code")
        try:
            prepare(plugin["parameters"], scripts)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            reason = error if isinstance(error, ValueError) else "something is missing, or of a wrong shape"
            sentence = f"the plugin {name} cannot use its parameters: {reason}"
            if policy == "ignore":
                self.init.append(f"{_print_error(sentence)}; {_IGNORED}")
            else:
                self.fail(sentence)
        self.init += scripts.init
        if scripts.before:
            self.before.append(self._call(f"before-{number}.sh", scripts.before))
        if scripts.after:
            self.after.insert(0, self._call(f"after-{number}.sh", scripts.after))

    def _call(self, name: str, text: str) -> str:
        self.files[name] = text
        return f'"$BASH" {shlex.quote(f"{self._folder}/{name}")}'

    def _ssh(self, parameters: Any, scripts: _PluginScripts) -> None:
        """Mark that this task is up; with a barrier, wait until every other one is."""
        if not parameters:
            return
        job_ssh = "jobssh" in parameters and str(parameters["jobssh"]).lower() == "true"
        if "userssh" in parameters:
            _check_user_ssh(parameters["userssh"])
        if not (self._spec["gang"] and job_ssh):
            return
        commands = [f"touch {shlex.quote(f'{self._folder}/{SSH_READY}')}"]
        if "sshbarrier" in parameters and str(parameters["sshbarrier"]).lower() == "true":
            commands.append(self._barrier(str(parameters.get("sshbarrierTimeout", ""))))
        scripts.run_before(commands)

    def _barrier(self, timeout: str) -> str:
        """Return what waits for the other tasks; the timeout counts if it is one word, of whatever kind."""
        words = timeout.split()
        minutes = words[0] if len(words) == 1 else _BARRIER_MINUTES
        if not _MINUTES.fullmatch(minutes):
            return f"{_print_error(f'sshbarrierTimeout is no whole number of minutes: {minutes}')}; (exit 1)"
        if not self._tasks:
            return "echo 'SSH barrier: this is the only task'"
        return _BARRIER.format(
            minutes=minutes,
            tasks=" ".join(self._tasks),
            attempt=shlex.quote(self._folder.rpartition("/")[0]),
            ready=SSH_READY,
            exit_code=EXIT_BARRIER,
        )

    def _tensorboard(self, parameters: Any, scripts: _PluginScripts) -> None:
        """Start tensorboard beside the first task of the first role, if it is installed.

        As in the real plugin, paths and port stand in the script as they are, so variables may be in them.
        """
        first = self._spec["taskRoles"][0]["name"] == self._role["name"]
        index = self._folder.rpartition("-")[2].partition(".")[0]
        if not (first and index == "0" and parameters):
            return
        folders = parameters.get("logdir")
        if not isinstance(folders, dict) or not folders:
            raise ValueError("it needs logdir, an object of paths by name")
        if "port" not in parameters:
            raise ValueError("it needs a port")
        reserved = [
            port["label"] for port in self._role["portList"] if port["label"].lower() == "tensorboard"
        ]
        port = f"${{PAI_CONTAINER_HOST_{reserved[0]}_PORT_LIST%%,*}}" if reserved else parameters["port"]
        paths = ",".join(f"{name}:{path}" for name, path in folders.items())
        where = f"--logdir_spec={paths}" if len(folders) > 1 else f"--logdir={next(iter(folders.values()))}"
        scripts.run_before([_TENSORBOARD.format(where=where, port=port)])


class _PluginScripts:
    """What one plugin prepares and runs; ``code`` is the folder that repositories are cloned into."""

    def __init__(self, policy: Any, before_file: str, code: str) -> None:
        self._policy = policy
        self.before_file = before_file
        self.code = code
        self.init: list[str] = []
        self.before = ""
        self.after = ""

    @property
    def otherwise(self) -> str:
        """What the init container does where the plugin's own preparation fails."""
        if self._policy != "ignore":
            return "exit 1"
        return f"{_IGNORED}; : >{shlex.quote(self.before_file)}"

    def run_before(self, commands: Iterable[str]) -> None:
        """Run commands before the role's command."""
        self.before += self._script(commands)

    def run_after(self, commands: Iterable[str]) -> None:
        """Run commands after the role's command has succeeded."""
        self.after += self._script(commands)

    def _script(self, commands: Iterable[str]) -> str:
        if not commands:
            return ""
        lines = "".join([command + "\n" for command in commands])
        if self._policy.lower() == "ignore":
            return f"set +o errexit\n{lines}set -o errexit\n"
        return f"set -o errexit\n{lines}"


def _cmd(parameters: Any, scripts: _PluginScripts) -> None:
    if not parameters:
        return
    if "callbacks" not in parameters:
        if "preCommands" in parameters:
            scripts.run_before(parameters["preCommands"])
        if "postCommands" in parameters:
            scripts.run_after(parameters["postCommands"])
        return
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
    scripts.run_before(commands["taskStarts"])
    scripts.run_after(commands["taskSucceeds"])


def _check_user_ssh(user: Any) -> None:
    """Fail over what the real plugin fails over; its keys are for a sshd that is not here."""
    keys = [user["value"]] if "value" in user and user["value"] != "" else []
    if "type" in user:
        "\n".join(keys)


def _git(parameters: Any, scripts: _PluginScripts) -> None:
    """Clone a repository beside the working folder, and move what can be seen of it to ``clone_dir``."""
    if not parameters or "repo_uri" not in parameters:
        raise ValueError("it needs repo_uri")
    options = shlex.split(" ".join(parameters["options"])) if parameters.get("options") else []
    code = shlex.quote(scripts.code)
    clone = f"{shlex.join(['git', 'clone', *options, str(parameters['repo_uri'])])} {code}"
    scripts.init.append(_CLONE.format(clone=clone, code=code, otherwise=scripts.otherwise))
    if "clone_dir" in parameters:
        place = parameters["clone_dir"]
        scripts.run_before(
            [_CHECK_CLONE_DIR, f"check_clone_dir {place}", f"mkdir -p {place}", f"mv -f {code}/* {place}"]
        )


def _nothing(_parameters: Any, _scripts: _PluginScripts) -> None:
    pass


def _print_error(sentence: str) -> str:
    return f"echo {shlex.quote(f'luigi-pai local: {sentence}')} >&2"


def role_scripts(
    spec: Mapping[str, Any],
    role: Mapping[str, Any],
    secrets: Mapping[str, Any],
    tasks: Sequence[str],
    folder: str,
) -> dict[str, str]:
    """Return the scripts of a task by file name; they will lie in ``folder``.

    ``tasks`` names the other tasks of its attempt.
    """
    scripts = _Scripts(spec, role, tasks, folder)
    if role["shown"] != server_name(role["shown"]):
        scripts.fail(
            f"OpenPAI 1.8 cannot run the role {role['shown']}: "
            "its runtime finds only names of small letters and digits"
        )
    for number, plugin in enumerate(role["plugins"]):
        parameters = fill_plugin_secrets(plugin["parameters"], secrets)
        scripts.add(number, {**plugin, "parameters": parameters})
    files = {**scripts.files, COMMAND: f"{_STRICT}{fill_secrets(role['command'], secrets)}"}
    if scripts.init:
        files[INIT] = "".join(f"{line}\n" for line in scripts.init)
    for name, calls in ((BEFORE, scripts.before), (AFTER, scripts.after)):
        if calls:
            files[name] = _STRICT + "".join(f"{call}\n" for call in calls)
    return files
