"""The command line: ``luigi-pai``. Each command's module is loaded only when the command is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

import click

from luigi_pai import __version__
from luigi_pai.redaction import escape_what_is_not_encodable

_COMMANDS = {
    # name: (module, function, description in the list of commands)
    "clusters": ("clusters", "clusters", "Show virtual clusters and their free resources."),
    "config": ("jobs", "config", "Write the stored job as a file for submit."),
    "convert": ("jobs", "convert", "Turn a v1 job config into a job protocol."),
    "doctor": ("clusters", "doctor", "Check configuration, cluster and files."),
    "get": ("files", "get", "Fetch a file or folder from the cluster."),
    "list": ("status", "list_jobs", "List your jobs."),
    "local": ("local", "local", "Run an OpenPAI server on this machine."),
    "logs": ("logs", "logs", "Show the logs of a job's tasks."),
    "ls": ("files", "ls", "List a folder on the cluster."),
    "payload": ("plan", "payload", "Show the data that a task sends to the cluster."),
    "plan": ("plan", "plan", "Show what a run would do, without running it."),
    "put": ("files", "put", "Send a file or folder to the cluster."),
    "render": ("jobs", "render", "Show the job that a task submits."),
    "rm": ("files", "rm", "Delete a file or folder on the cluster."),
    "run": ("run", "run", "Run a task with a quiet console."),
    "runtime": ("jobs", "runtime", "Write pai_runtime.py, for images without luigi_pai."),
    "ssh": ("ssh", "ssh", "Open a shell in one of a job's containers."),
    "ssh-config": ("ssh", "ssh_config", "Show a job's containers as ~/.ssh/config entries."),
    "status": ("status", "status", "Show a job's state, and why it is waiting or ended."),
    "stop": ("stop", "stop", "Stop jobs."),
    "submit": ("submit", "submit", "Submit a job file."),
    "sweep": ("sweep", "sweep", "Show a sweep's table."),
    "validate": ("jobs", "validate", "Find the errors in job files."),
}


class _Commands(click.Group):
    """The commands of ``_COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, function, short_help = _COMMANDS[cmd_name]
        command = cast("click.Command", getattr(import_module(f"luigi_pai.cli.{module}"), function))
        command.short_help = short_help
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and pass ``--cluster`` on to it."""
        if args[0] not in _COMMANDS:
            from luigi_pai.jobspec.hints import closest  # noqa: PLC0415  only a mistake needs it

            near = closest(args[0], _COMMANDS) or closest("".join(args[1:2]), _COMMANDS)  # `opai job submit`
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        name, command, rest = super().resolve_command(ctx, args)
        cluster = ctx.params["cluster"]
        if cluster is None or command is None:
            return name, command, rest
        if all(option.name != "cluster" for option in command.params):
            ctx.fail(f"{name} does not use a cluster, so it has no --cluster option")
        return name, command, ["--cluster", cluster, *rest]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, _, short_help) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="luigi-pai")
@click.option("--cluster", metavar="NAME", help="The cluster of [OpenPai:NAME] in luigi.cfg.")
def main(cluster: str | None) -> None:
    """Run containerised jobs on Microsoft OpenPAI as steps of Luigi pipelines."""
    del cluster  # _Commands.resolve_command passes it on to the command
    escape_what_is_not_encodable(sys.stdout)
