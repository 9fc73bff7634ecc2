"""Handles a command's MODULE TASK [--param VALUE]... arguments: a Luigi task and its parameters."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import socket
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import click

from luigi_pai.cli.failures import give_up
from luigi_pai.console import user_error
from luigi_pai.errors import PaiError
from luigi_pai.jobspec.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import luigi

_SCHEDULER_TIMEOUT = 5.0  # seconds

_FORMS = {"List": "'[0.1, 0.2]'", "Tuple": "'[0.1, 0.2]'", "Dict": "'{\"rate\": 0.1}'", "Date": "2026-01-31"}
"""How to write values of Luigi's parameters."""

_HIDDEN = "\0"  # hides an option from click; process arguments cannot contain it


class TaskCommand(click.Command):
    """A command with MODULE TASK; a ``--cluster`` after MODULE is a parameter of the task, not the option."""

    ignore_unknown_options = True
    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        words = iter(args)
        shown = []
        for word in words:
            shown.append(word)
            if word == "--cluster":
                shown += itertools.islice(words, 1)  # its NAME
            elif not word.startswith("-"):  # MODULE
                shown += [f"{_HIDDEN}{later}" if _is_cluster(later) else later for later in words]
        rest = super().parse_args(ctx, shown)
        ctx.params["arguments"] = tuple(
            word.removeprefix(_HIDDEN) for word in ctx.params.get("arguments") or ()
        )
        return rest


def module_and_task(command: Any) -> Any:
    """Add the arguments MODULE and TASK, with the task's parameters, to a TaskCommand's function."""
    words = click.argument(
        "arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="TASK [--param VALUE]..."
    )
    return click.argument("module")(words(command))


def _is_cluster(word: str) -> bool:
    return word == "--cluster" or word.startswith("--cluster=")


def task_named(module: str, arguments: Sequence[str]) -> luigi.Task:
    """Return a module's task; exit if the module or the task raises an error.

    ``arguments`` are the task's name and its parameters, written as for the ``luigi`` command. If the module
    is in the current folder, the current folder is put first on ``sys.path``.
    """
    from luigi.cmdline_parser import CmdlineParser  # noqa: PLC0415  loads Luigi
    from luigi.parameter import ParameterException  # noqa: PLC0415
    from luigi.task_register import Register, TaskClassException  # noqa: PLC0415

    if module.startswith("--module"):
        words = ["luigi-pai", click.get_current_context().info_name, *module.split("=")[1:], *arguments]
        give_up(f"leave out --module: {' '.join(map(str, words[:4]))}")
    if module.startswith("-"):
        give_up(f"{module} comes before MODULE; write it after TASK: MODULE TASK {module}")
    _import(module)
    if problem := _wrong_word(arguments):
        give_up(f"{arguments[0]} of {module}: {problem}")
    try:
        with CmdlineParser.global_instance(list(arguments), allow_override=True) as parser:
            task: luigi.Task = parser.get_task_obj()
    except (argparse.ArgumentError, ParameterException, TaskClassException, ValueError) as error:
        problem = _wrong_value(arguments) if isinstance(error, ValueError) else ""
        give_up(f"{arguments[0]} of {module}: {_missing(arguments[0], error) or f'{problem}{error}'}")
    except Exception as error:  # noqa: BLE001  the user's code may raise any error
        from luigi_pai.tasks.class_checks import missing_attributes  # noqa: PLC0415  loads Luigi

        why = missing_attributes(Register.get_task_cls(arguments[0]))
        why = why or f"cannot be created: {user_error(error, whole_path=True)}"
        give_up(f"{arguments[0]} of {module} {why}")
    return task


@contextlib.contextmanager
def reading_files(module: str, arguments: Sequence[str]) -> Iterator[None]:
    """Exit if one of the task's files, such as its protocol, cannot be read. PaiErrors pass through."""
    try:
        yield
    except PaiError:  # some are also OSErrors, but ``plain_failures`` sets the exit code
        raise
    except OSError as error:
        give_up(f"{arguments[0]} of {module}: {error}")


def _wrong_word(arguments: Sequence[str]) -> str:
    """Return what is wrong with the task's name or a non-option argument; '' if nothing is."""
    from luigi.task_register import Register, TaskClassException  # noqa: PLC0415  loads Luigi

    name = arguments[0]
    try:
        parameters = dict(Register.get_task_cls(name).get_params())
    except TaskClassException:
        near = [known for known in Register.task_names() if known.lower() == name.lower()]
        return f"the task does not exist; did you mean {near[0]}?" if near else ""
    every = [each if alone else f"{task}_{each}" for task, alone, each, _ in Register.get_all_params()]
    options, known = ([f"--{each}".replace("_", "-") for each in names] for names in (parameters, every))
    problems = (
        _not_an_option(before, word, parameters)
        or _unknown_option(word, options, known)
        or _value_of_flag(before, word, parameters)
        for before, word in itertools.pairwise(arguments)
    )
    return next(filter(None, problems), "")


def _not_an_option(before: str, word: str, parameters: Mapping[str, object]) -> str:
    key, equals, value = word.partition("=")
    if not equals or before.startswith("-") or key.replace("-", "_") not in parameters:
        return ""
    return f"{word} is not an option; write --{key.replace('_', '-')} {value}"


def _unknown_option(word: str, options: Sequence[str], known: Sequence[str]) -> str:
    key = word.partition("=")[0]
    is_known = any(each.startswith(key) for each in (*options, *known))  # argparse accepts prefixes
    if not word.startswith("--") or " " in word or is_known:
        return ""
    return f"there is no option {key}{nearest(key, [*options, '--local-scheduler', '--workers'])}"


def _value_of_flag(before: str, word: str, parameters: Mapping[str, object]) -> str:
    from luigi.parameter import BoolParameter  # noqa: PLC0415  loads Luigi

    name = before.removeprefix("--").replace("-", "_") if before.startswith("--") else ""
    parameter = parameters.get(name)
    is_flag = isinstance(parameter, BoolParameter) and parameter.parsing == BoolParameter.IMPLICIT_PARSING
    if not is_flag or word.lower() not in ("true", "false"):
        return ""
    return f"{before} takes no value: write only {before} for True, and leave it out for False"


def _missing(task: str, error: Exception) -> str:
    """Return how to set the parameter that Luigi's error says is missing; '' if none is."""
    found = re.fullmatch(rf"{re.escape(task)}\[.*'(\w+)' parameter to be set", str(error), re.DOTALL)
    if found is None:
        return ""
    option = f"--{found[1].replace('_', '-')}"
    return f"{option} is missing; write {task} {option} VALUE, or {found[1]} = VALUE in [{task}] of luigi.cfg"


def _wrong_value(arguments: Sequence[str]) -> str:
    """Return which parameter's value cannot be parsed, with a valid example; '' if all can."""
    from luigi.task_register import Register  # noqa: PLC0415  loads Luigi

    parameters = dict(Register.get_task_cls(arguments[0]).get_params())
    for word, value in itertools.pairwise(arguments):
        parameter = parameters.get(word.removeprefix("--").replace("-", "_"))
        try:
            _ = parameter is None or parameter.parse(value)
        except Exception:  # noqa: BLE001  the user's parameters may raise any error
            kind = type(parameter).__name__
            form = next((f", such as {form}" for name, form in _FORMS.items() if name in kind), "")
            return f"{word} {value} is not a valid {kind}{form}: "
    return ""


def check_scheduler(arguments: Sequence[str]) -> None:
    """Exit if the task needs a luigid and none responds. Luigi itself would retry for a minute."""
    from luigi.cmdline_parser import CmdlineParser  # noqa: PLC0415  loads Luigi
    from luigi.interface import core  # noqa: PLC0415

    with CmdlineParser.global_instance(list(arguments), allow_override=True):
        try:
            settings = core()
        except ValueError as error:  # an invalid value in [core]
            give_up(f"[core] in luigi.cfg is invalid: {error}")
    if settings.local_scheduler:
        return
    url = settings.scheduler_url or f"http://{settings.scheduler_host}:{settings.scheduler_port}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), _SCHEDULER_TIMEOUT).close()
    except OSError as error:
        why = f"no Luigi scheduler responds at {url} ({error.strerror or error})"
        give_up(f"{why}: start luigid, or add --local-scheduler")


def _import(module: str) -> None:
    """Import the user's module; if that fails, print where it failed, and exit."""
    here = os.getcwd()  # noqa: PTH109  as a str
    if PathFinder.find_spec(module.partition(".")[0], [here]) is not None:  # else leave sys.path as it is
        sys.path.insert(0, here)
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        is_it = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        hint = f"is the folder of {module} on PYTHONPATH?" if is_it else f"{module} imports it"
        if module.endswith(".py") or "/" in module:
            hint = f"write the name of a module: {Path(module).stem}"
        elif "is not a package" in str(error):
            hint = f"write MODULE TASK: {module.replace('.', ' ')}"
        give_up(f"{error}; {hint}")
    except Exception as error:  # noqa: BLE001  the user's code may raise any error
        give_up(f"{module} cannot be imported: {user_error(error, whole_path=True)}")
