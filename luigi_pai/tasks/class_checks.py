"""Checks task and sweep classes: errors for invalid types, warnings for members without effect.

Most warnings come from the source code of the user's classes. Classes defined at a prompt have no source
code, so they do not get these warnings.
"""

from __future__ import annotations

import ast
import functools
import inspect
import logging
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.hints import METHOD
from luigi_pai.tasks.attributes import attribute_names, is_ours, misspelt, users_classes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

logger = logging.getLogger("luigi-interface")

_VARYING = re.compile(
    r"hash|id|(?:\w+\.)*(?:uuid[14]|time|time_ns|getpid|random|randint|randrange|choice|token_hex)"
)
_USE_ALL = {"param_kwargs", "param_args", "task_id", "to_str_params", "get_params", "clone", "__dict__"}
"""Attributes of Luigi tasks. Each depends on all parameters, so code that reads one uses them all."""

_MEANT = {
    meant: word
    for word, names in {
        "image": "image docker_image container container_image",
        "tasks": "tasks task_roles",
        "instances": "instances nodes num_nodes num_workers taskNumber",
        "gpus": "gpus gpu num_gpus n_gpus ngpus gpu_count gpuNumber",
        "cpus": "cpus cpu num_cpus n_cpus cores cpuNumber",
        "memory_mb": "memory_mb memory mem ram memoryMB",
        "virtual_cluster": "virtual_cluster queue partition vc",
        "run_timeout": "timeout walltime time_limit",
        "max_attempts": "retries max_retries num_retries attempts",
        "parallel_jobs": "workers max_workers concurrency n_jobs parallel parallelism max_parallel max_jobs",
        "tolerance": "max_failures max_failed allowed_failures",
        "env": "env envs environment env_vars",
        "batch_system": "batch_system htcondor_settings slurm_settings lsf_settings",
    }.items()
    for meant in names.split()
}
"""Names that users know from other tools -> the attribute they mean, or a key of ``_ADVICE``."""
_NO_FLAG = "is not True or False; write it without quotes"
_OF_ROLES = {"instances": "taskNumber", "gpus": "gpuNumber", "cpus": "cpuNumber", "memory_mb": "memoryMB"}
_INSTEAD = {
    ("tasks", "command"): 'write tasks = [TaskRole("main", COMMAND)] instead of command',
    ("work", "run"): "rename run(), which submits the job, to work(), which runs in its container",
}
"""A missing required attribute, and the member that the class has instead -> advice."""
_ADVICE = {
    "env": "set variables in the command (export NAME=VALUE) or in work() (os.environ)",
    "batch_system": "leave it out, because all these tasks run on OpenPAI",
    "parallel_jobs": "the number of jobs at once is --workers of Luigi, or parallel_jobs of a PaiSweep",
    "tolerance": "the number of points that may fail is tolerance of a PaiSweep",
}


def check_class(task: luigi.Task) -> None:
    """Check a task's class, once, and log warnings.

    Raises:
        SpecError: Attributes are methods because ``@property`` is missing, or have invalid types.
    """
    kind = type(task)
    methods = _methods(kind)
    problems = [Problem(name, METHOD) for name in methods] or [
        *text_problems(task, "output_dir"),
        *_type_problems(task, (bool, int), _NO_FLAG, "strict_shell", "runtime"),
    ]
    if problems:
        name = "" if "name" in methods else str(task.name)  # type: ignore[attr-defined]  # of a JobTask
        raise SpecError(name, problems)
    _warn(kind)


def text_problems(task: object, *attributes: str) -> list[Problem]:
    """Return a problem for each attribute that is neither a string nor None."""
    return _type_problems(task, (str,), "is not a string; use str() or quotes", *attributes)


def _type_problems(task: object, types: tuple[type, ...], problem: str, *attributes: str) -> list[Problem]:
    """Return a problem for each attribute that is neither None nor one of these types."""
    values = {name: getattr(task, name, None) for name in attributes}
    invalid = {name: each for name, each in values.items() if not isinstance(each, (*types, type(None)))}
    return [Problem(name, f"{value!r} {problem}") for name, value in invalid.items()]


@functools.lru_cache(maxsize=100)
def _methods(kind: type) -> tuple[str, ...]:
    """Return the names of our properties that a user's class defines as methods."""
    return tuple(
        name for name in attribute_names(kind) if inspect.isfunction(inspect.getattr_static(kind, name))
    )


@functools.lru_cache(maxsize=100)
def _warn(kind: type[luigi.Task]) -> None:
    """Log warnings about a class, each once."""
    warnings = [
        f"{name} is not an attribute of a task, and has no effect: did you mean {near}?"
        for name, near in misspelt(kind, attribute_names(kind))
        if name not in _MEANT
    ]
    warn_of_class(kind)
    members, _ = _members(kind)
    effect = "tasks that differ in it are one job: use it in name and in the job"
    if "name" not in members:  # the inherited name contains a hash of all parameters
        effect = "it changes the name and not the job: use it in parameters or in protocol"
    warnings += [
        f"its parameter {name} is not used, so {effect}, or write significant=False"
        for name in (_unused(kind) if members.keys() & {"name", "protocol"} else ())
    ]
    if call := _varying(kind):
        warnings.append(
            f"name uses {call}, whose value changes between runs, so each run submits a new job: "
            "build it from parameters, such as a luigi.DateParameter, and with hashlib if you need a hash"
        )
    _log(kind, warnings)


@functools.lru_cache(maxsize=100)
def warn_of_class(kind: type[luigi.Task]) -> None:
    """Log warnings, each once, about a task or sweep class: a run() and attributes without effect."""
    warnings = [f"{name} has no effect: {advice}" for name, advice in _foreign(kind)]
    calls = getattr(getattr(inspect.unwrap(kind.run), "__code__", None), "co_names", ("run",))
    if "run" not in calls and not is_ours(kind.run):
        warnings.append("run() does not submit a job: call super().run() in it, or remove it")
    _log(kind, warnings)


def _log(kind: type, warnings: Iterable[str]) -> None:
    for warning in warnings:
        logger.warning("%s%s: %s", kind.__name__, _place(kind), warning)


def _members(kind: type) -> tuple[dict[str, Any], set[str]]:
    """Return a class's members that the user's classes define, and the names of all other members."""
    users = users_classes(kind)
    members = {name: value for each in reversed(users) for name, value in vars(each).items()}
    return members, {name for each in set(kind.__mro__).difference(users) for name in vars(each)}


def _foreign(kind: type) -> Iterator[tuple[str, str]]:
    """Yield attributes known from other tools that no code in the class uses, each with advice."""
    members, ours = _members(kind)
    found = [name for name in members if name in _MEANT and name not in ours and not callable(members[name])]
    trees = [_tree(each) for each in users_classes(kind)] if found else []
    nodes = [node for tree in trees if tree is not None for node in ast.walk(tree)]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for tree in trees:
        if tree is None:
            return
        used |= _names_in(tree)
    for name in found:
        if name not in used and not isinstance(members[name], luigi.Parameter):
            yield name, _advice(ours, _MEANT[name])


def _advice(ours: Collection[str], meant: str) -> str:
    """Return the advice for an attribute known from another tool, in a class with these attributes."""
    if meant in ours:
        return f"write {meant}"
    if meant in _ADVICE:
        return _ADVICE[meant]
    if "points" in ours:
        return "it is an attribute of tasks: set it in the class of the points"
    if "protocol" in ours:
        return "write it into the protocol"
    return f"write {_OF_ROLES[meant]} of a TaskRole"


def missing_attributes(kind: type) -> str:
    """Return a message with a class's location, missing required attributes and advice; empty if none."""
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    advice = [each for (absent, has), each in _INSTEAD.items() if absent in missing and has in vars(kind)]
    return "; ".join([f"{_place(kind)} has no {', no '.join(missing)}".lstrip(), *advice]) if missing else ""


def _place(kind: type) -> str:
    """Return a class's file and line, in brackets; empty at Python's prompt."""
    try:
        return f" ({Path(inspect.getfile(kind)).name}:{inspect.getsourcelines(kind)[1]})"
    except (OSError, TypeError):
        return ""


def _unused(kind: type[luigi.Task]) -> list[str]:
    """Return the parameters that a class certainly does not use."""
    # a parameter that overrides an inherited attribute, such as ``image``, is used by the base class
    members, used = _members(kind)
    for each in users_classes(kind):
        tree = _tree(each)
        if tree is None or _uses_all(tree):
            return []
        used |= _names_in(tree)
    parameters = {name: each for name, each in members.items() if isinstance(each, luigi.Parameter)}
    return [name for name, each in parameters.items() if each.significant and name not in used]


def _varying(kind: type) -> str:
    """Return the call or value in a user's ``name`` that differs between runs; empty if there is none."""
    getter = getattr(inspect.getattr_static(kind, "name", None), "fget", None)
    tree = None if getter is None or is_ours(getter) else _tree(getter)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and _VARYING.fullmatch(name := ast.unparse(node.func)):
            return f"{name}()"
        if isinstance(node, ast.Constant) and re.search("%[HIMST]", str(node.value)):
            return f"the time of day, {node.value!r}"
    return ""


def _tree(kind: Any) -> ast.AST | None:
    """Return a class's or function's code; None if it has no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return None


def _names_in(tree: ast.AST) -> set[str]:
    """Return the attributes and constants in a class's code."""
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return attributes | {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def _uses_all(tree: ast.AST) -> bool:
    """Return whether a class's code may use parameters without naming them."""
    bases = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda)))
    themselves = {argument.arg for node in functions for argument in node.args.args[:1]} | {"vars"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.decorator_list:  # luigi.util.requires may use parameters
            return True
        if isinstance(node, ast.Attribute) and node.attr in _USE_ALL:
            return True
        if isinstance(node, ast.Name) and node.id in themselves and id(node) not in bases:
            return True
    return False
