"""The v1 job config: PaiJob, TaskRole, Port and their serializer slot_to_dict.

The fields are OpenPAI's (manual of release 0.7, "How to run a deep learning job"). Arguments have the same
names, order and defaults as in ``luigi.contrib.pai``; new arguments come last.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.jobspec.dialects.shell_text import repaired
from luigi_pai.jobspec.hints import METHOD, nearest
from luigi_pai.jobspec.paths import leaves, list_of, path_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["UNSET", "PaiJob", "Port", "TaskRole", "Unset", "slot_to_dict"]


class Unset(Enum):
    """The type of ``UNSET``."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The value of a field that is not sent, so that the server's default applies."""

FS_URI: Final = "$PAI_DEFAULT_FS_URI"
"""The variable for the URI of the cluster's HDFS in v1 jobs' paths (``$PAI_DEFAULT_FS_URI/data``)."""


def default_output(name: str) -> str:
    """Return a job's output folder if its task does not set one."""
    return f"{FS_URI}/{name}/output"


_NO_PORTS: list[Port] = []  # a default that roles must not change
_NULL_IS_A_VALUE = frozenset({"minFailedTaskCount", "minSucceededTaskCount"})
"""Fields in which the server reads ``null`` as "never"."""


def slot_to_dict(o: Any) -> dict[str, Any]:
    """Return the fields to write as JSON, for an object with ``__slots__``.

    Fields that are unset or None are left out, except for ``minFailedTaskCount`` and
    ``minSucceededTaskCount``: in these, the server reads null as "never".
    You can use this function as ``json.dumps(job, default=slot_to_dict)``.

    Args:
        o: An object whose class or base class has ``__slots__``.

    Returns:
        Field name -> value, in the order of the slots.

    Raises:
        TypeError: The object has no ``__slots__``.
    """
    kind: type = type(o)
    if not hasattr(kind, "__slots__"):
        raise TypeError(f"{kind.__name__} is neither a JSON value nor part of a job")
    values = ((key, getattr(o, key, UNSET)) for key in _slots(kind))
    return {
        key: value
        for key, value in values
        if value is not UNSET and (value is not None or key in _NULL_IS_A_VALUE)
    }


@lru_cache
def _slots(cls: type) -> tuple[str, ...]:
    """Return the slots of a class's bases, followed by the slots that the class itself adds."""
    slots = (vars(base).get("__slots__", ()) for base in reversed(cls.__mro__))
    names = (name for some in slots for name in ([some] if isinstance(some, str) else some))
    return tuple(name for name in names if not name.startswith("__"))


class _Fields:
    """Base of PaiJob, TaskRole and Port: repr, equality, and errors for unknown arguments and fields."""

    __slots__ = ()

    def __new__(cls, *_args: Any, **given: Any) -> Self:
        """Raise a TypeError for an unknown argument, with the most similar name."""
        code = getattr(cls.__init__, "__code__", None)
        if given and code is not None and not code.co_flags & inspect.CO_VARKEYWORDS:
            known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
            unknown = next((name for name in given if name not in known), None)
            if unknown is not None:
                raise TypeError(f"{cls.__name__} has no argument {unknown!r}{nearest(unknown, known)}")
        return super().__new__(cls)

    @classmethod
    def _read(cls, document: Any) -> Self:
        """Create an object from those fields of a document that the constructor accepts."""
        if not isinstance(document, Mapping):
            raise TypeError(f"{cls.__name__} must be an object, not {type(document).__name__}")
        given = {key: document[key] for key in inspect.signature(cls).parameters if key in document}
        return cls(**{key: given[key] for key in given if given[key] is not None or key in _NULL_IS_A_VALUE})

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise an AttributeError for an unknown field, with the most similar name."""
        try:
            super().__setattr__(name, value)
        except AttributeError:
            kind: type = type(self)
            hint = nearest(name, _slots(kind))
            raise AttributeError(f"{kind.__name__} has no field {name!r}{hint}") from None

    def __repr__(self) -> str:
        shown = slot_to_dict(self)
        if isinstance(shown.get("jobEnvs"), Mapping):  # the values may be secrets
            shown["jobEnvs"] = dict.fromkeys(shown["jobEnvs"], "...")
        fields = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return slot_to_dict(self) == slot_to_dict(other)

    __hash__ = None  # type: ignore[assignment]


def _as_list(given: Sequence[Any]) -> list[Any]:
    """Return a list unchanged, so that the caller can append to it; convert any other iterable to a list."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeError(f"{given!r} is not a list; write [{given!r}]")
    return given if isinstance(given, list) and given is not _NO_PORTS else list(given)


class Port(_Fields):
    """Ports that OpenPAI reserves for each of a role's tasks.

    Args:
        label: The ports' name: letters, digits, ``.``, ``_`` and ``~``.
        begin_at: The first port number; 0 lets the cluster choose the ports.
        port_number: The number of ports, at least 1.
    """

    __slots__ = ("label", "beginAt", "portNumber")  # noqa: RUF023  the order of the JSON

    def __init__(self, label: str, begin_at: int = 0, port_number: int = 1) -> None:
        self.label = label
        self.beginAt = begin_at
        self.portNumber = port_number


class TaskRole(_Fields):
    """A group of tasks that run the same command with the same resources.

    Args:
        name: The role's name: letters, digits, ``.``, ``_`` and ``~``.
        command: The shell command of each task; not empty.
        taskNumber: The number of tasks, at least 1.
        cpuNumber: The number of CPUs per task, at least 1.
        memoryMB: The memory per task in MB, at least 100.
        shmMB: The shared memory per task in MB, at most ``memoryMB``.
        gpuNumber: The number of GPUs per task, 0 or more.
        portList: Ports of each task in addition to ``ssh`` and ``http``, which every task has; None omits the
            field.
        minFailedTaskCount: How many tasks must fail for the job to fail. None means that the job never fails
            for this reason. If you omit the argument, the server's default, 1, applies.
        minSucceededTaskCount: How many tasks must succeed for the job to complete before its other tasks
            end. None (the server's default) means that the job waits for all tasks.
    """

    __slots__ = (  # noqa: RUF023  the order of the JSON
        "name",
        "taskNumber",
        "cpuNumber",
        "memoryMB",
        "shmMB",
        "gpuNumber",
        "portList",
        "command",
        "minFailedTaskCount",
        "minSucceededTaskCount",
    )

    def __init__(
        self,
        name: str,
        command: str,
        taskNumber: int = 1,
        cpuNumber: int = 1,
        memoryMB: int = 2048,
        shmMB: int = 64,
        gpuNumber: int = 0,
        portList: Sequence[Port] | None = _NO_PORTS,
        minFailedTaskCount: int | Unset | None = UNSET,
        minSucceededTaskCount: int | Unset | None = UNSET,
    ) -> None:
        self.name = name
        self.command = command
        self.taskNumber = taskNumber
        self.cpuNumber = cpuNumber
        self.memoryMB = memoryMB
        self.shmMB = shmMB
        self.gpuNumber = gpuNumber
        self.portList: Any = None if portList is None else _as_list(portList)
        self.minFailedTaskCount = minFailedTaskCount
        self.minSucceededTaskCount = minSucceededTaskCount


class PaiJob(_Fields):
    """A job of the v1 API, which is posted to ``/api/v1/jobs``.

    Args:
        jobName: The job's name. OpenPAI never lets you reuse a job name, so no later job can have it.
        image: The Docker image of all tasks.
        tasks: The task roles, at least one.
        authFile: A file on HDFS with the credentials of a Docker registry.
        dataDir: The data folder on HDFS.
        outputDir: The output folder on HDFS.
        codeDir: The code folder on HDFS, which is copied to each task's working folder.
        virtualCluster: The virtual cluster to run in; the server's default is ``default``.
        gpuType: The type of GPU to request.
        retryCount: How often the cluster restarts a failed job; -1 sets no limit, -2 sets no limit and also
            restarts the job after a success.
        killAllOnCompletedTaskNumber: Rejected by 0.7 and ignored by later releases; use a role's
            ``minSucceededTaskCount`` instead.
        jobEnvs: The environment variables of all tasks; servers before 0.9 reject this field.
        extras: A mapping with any additional values; servers before 0.12 reject this field.

    Raises:
        TypeError: ``tasks`` is not a sequence with at least one task role.
    """

    __slots__ = (  # noqa: RUF023  the order of the JSON
        "jobName",
        "image",
        "authFile",
        "dataDir",
        "outputDir",
        "codeDir",
        "virtualCluster",
        "taskRoles",
        "gpuType",
        "retryCount",
        "killAllOnCompletedTaskNumber",
        "jobEnvs",
        "extras",
    )

    def __init__(
        self,
        jobName: str,
        image: str,
        tasks: Sequence[TaskRole],
        authFile: str | None = None,
        dataDir: str | None = None,
        outputDir: str | None = None,
        codeDir: str | None = None,
        virtualCluster: str | None = None,
        gpuType: str | None = None,
        retryCount: int | None = None,
        killAllOnCompletedTaskNumber: int | None = None,
        jobEnvs: Mapping[str, str] | None = None,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        if inspect.isroutine(tasks):
            raise TypeError(f"job {jobName!r}: tasks {METHOD}")
        if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not tasks:
            raise TypeError(
                f"job {jobName!r}: tasks is {tasks!r}; it must be a list with at least one TaskRole"
            )
        self.jobName = jobName
        self.image = image
        self.taskRoles: list[TaskRole] = _as_list(tasks)
        self.authFile = authFile
        self.dataDir = dataDir
        self.outputDir = outputDir
        self.codeDir = codeDir
        self.virtualCluster = virtualCluster
        self.gpuType = gpuType
        self.retryCount = retryCount
        self.killAllOnCompletedTaskNumber = killAllOnCompletedTaskNumber
        self.jobEnvs = jobEnvs
        self.extras = extras

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PaiJob:
        """Read a job config as returned by ``to_dict``; missing fields get the constructors' defaults.

        Fields that are not arguments of the constructors are ignored; ``validate_job`` reports them.

        Raises:
            TypeError: ``taskRoles`` is not a list of task roles, a role has no name or command, a port has
                no label, or the job has no name or image.
        """
        tasks = [TaskRole._read(role) for role in list_of(document, "taskRoles")]  # noqa: SLF001  a part of it
        for role in tasks:
            role.portList = [Port._read(port) for port in list_of(slot_to_dict(role), "portList")]  # noqa: SLF001
        return cls._read({**document, "tasks": tasks})

    def to_json(self) -> str:
        """Return the job as JSON, the body of the POST request.

        Commands that end in a way that 0.7 and 0.8 cannot run are replaced with equivalent ones (see
        ``luigi_pai.jobspec.dialects.shell_text.repaired``).

        Raises:
            TypeError: A field's value cannot be written as JSON.
            ValueError: A field's value is or contains NaN or infinity.
        """
        try:
            return json.dumps(self, default=_to_json_value, allow_nan=False)
        except TypeError:
            if methods := methods_in(self):
                raise TypeError(f"{', '.join(methods)} {METHOD}") from None
            raise

    def to_dict(self) -> dict[str, Any]:
        """Return the job as plain dicts and lists, with the same content as ``to_json``."""
        return dict(json.loads(self.to_json()))


def methods_in(job: PaiJob) -> list[str]:
    """Return the paths of fields whose value is a method or a function."""

    def readable(o: Any) -> Any:
        if inspect.isroutine(o):
            return METHOD
        return _to_json_value(o) if isinstance(o, _Fields | Mapping) else None

    try:
        document = json.loads(json.dumps(job, default=readable))
    except (TypeError, ValueError, RecursionError):  # a key is not a string, or a value contains itself
        return []
    return [path_text(path) for path, leaf in leaves(document) if leaf == METHOD]


def _to_json_value(o: Any) -> Any:
    """Convert part of a job, or a mapping such as a Luigi DictParameter's value, to a dict."""
    if isinstance(o, Mapping):
        return dict(o)
    fields = slot_to_dict(o)
    if isinstance(o, TaskRole) and isinstance(fields.get("command"), str):
        fields["command"] = repaired(fields["command"])
    return fields
