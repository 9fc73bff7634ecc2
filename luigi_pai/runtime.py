"""A task's view of its job, inside the container: names, addresses, ports, folders and progress reports.

This file needs only the standard library of Python 3.6 or later, so images do not need luigi_pai.
Import it as ``luigi_pai.runtime``, or as ``pai_runtime``, a copy that ``luigi-pai runtime`` writes and that
a task with ``runtime = True`` puts next to the code. Modules that only one function needs are imported
inside that function, so this module loads in a few milliseconds.

It reads the environment variables of both OpenPAI APIs (v1: 0.7 to 0.14, v2: 0.15 to 1.8), which are listed
in docs/container.md. Outside a container, ``current()`` returns the only task of a job named ``local``.
"""

import contextlib
import functools
import json
import os
import re
import sys
import time
from collections import deque, namedtuple

MYPY = False
if MYPY:  # true for type checkers
    import selectors
    import socket
    from collections.abc import Iterator
    from typing import NoReturn

__all__ = [
    "ATTEMPT_SUFFIX",
    "REPORTS",
    "VARIABLES",
    "BarrierTimeout",
    "ContainerError",
    "Peer",
    "Task",
    "Variable",
    "attempt_of",
    "barrier",
    "current",
    "export_torch",
    "mpi_hosts",
    "report",
    "tf_config",
    "variables",
]

# ---------------------------------------------------------------- the variables

Variable = namedtuple("Variable", ["meaning", "v1", "v2"])
"""A value's meaning, and the names of its environment variables in each API, in the order of lookup."""


def _row(meaning: str, v1: str, v2: "str | None" = None) -> Variable:
    """Return a row of ``VARIABLES``. Spaces separate names; without ``v2``, both APIs have the same names."""
    return Variable(meaning, tuple(v1.split()), tuple((v1 if v2 is None else v2).split()))


VARIABLES = {
    "job": _row("job; v2: `USER~JOB`", "PAI_JOB_NAME FRAMEWORK_NAME", "PAI_JOB_NAME PAI_FRAMEWORK_NAME"),
    "user": _row("who submitted it", "PAI_USER_NAME PAI_USERNAME"),
    "virtual_cluster": _row("virtual cluster", "PAI_JOB_VC_NAME", "PAI_VIRTUAL_CLUSTER"),
    "fs_uri": _row("HDFS of the cluster; v2: empty", "PAI_DEFAULT_FS_URI"),
    "data_dir": _row("data folder", "PAI_DATA_DIR", ""),
    "code_dir": _row("code folder", "PAI_CODE_DIR", ""),
    "output_dir": _row("output folder", "PAI_OUTPUT_DIR", ""),
    "work_dir": _row("working folder in the container", "PAI_WORK_DIR"),
    "tasks": _row("number of tasks", "PAI_JOB_TASK_COUNT PAI_TASKS_NUM"),
    "role_count": _row(
        "number of task roles",
        "PAI_JOB_TASK_ROLE_COUNT PAI_TASK_ROLES_NUM",
        "PAI_TASK_ROLE_COUNT PAI_TASK_ROLES_NUM PAI_JOB_TASK_ROLE_COUNT",
    ),
    "roles": _row("task roles, `A,B`", "PAI_TASK_ROLE_LIST PAI_JOB_TASK_ROLE_LIST"),
    "instances": _row("all tasks, `A:0,A:1,B:0`", "", "PAI_TASK_ROLE_INSTANCES"),
    "role": _row(
        "own task role",
        "PAI_CURRENT_TASK_ROLE_NAME PAI_TASK_ROLE_NAME",
        "PAI_CURRENT_TASK_ROLE_NAME",
    ),
    "index": _row(
        "own index in the role, from 0",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX PAI_TASK_INDEX PAI_TASK_ROLE_INDEX",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX PAI_TASK_INDEX",
    ),
    "count": _row(
        "number of tasks of the role; v1: of the own one",
        "PAI_CURRENT_TASK_ROLE_TASK_COUNT PAI_TASK_ROLE_NUM",
        "PAI_TASK_ROLE_TASK_COUNT_{role}",
    ),
    "cpus": _row("own CPUs", "PAI_CURRENT_TASK_ROLE_CPU_COUNT PAI_TASK_CPU_NUM", ""),
    "memory_mb": _row("own memory in MB", "PAI_CURRENT_TASK_ROLE_MEM_MB PAI_TASK_MEM_MB", ""),
    "shm_mb": _row("own shared memory in MB", "PAI_CURRENT_TASK_ROLE_SHM_MB", ""),
    "gpus": _row("own GPUs", "PAI_CURRENT_TASK_ROLE_GPU_COUNT PAI_TASK_GPU_NUM", ""),
    "resources": _row("`GPUS,CPUS,MEMORY_MB,SHM_MB` of a role's task", "", "PAI_RESOURCE_{role}"),
    "min_failed": _row(
        "failed tasks of the role that fail the job",
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT",
        "PAI_MIN_FAILED_TASK_COUNT_{role}",
    ),
    "min_succeeded": _row(
        "succeeded tasks of the role that complete the job",
        "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT",
        "PAI_MIN_SUCCEEDED_TASK_COUNT_{role}",
    ),
    "kill_all": _row("ended tasks that end the job", "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM", ""),
    "host": _row("own address", "PAI_CONTAINER_HOST_IP PAI_CURRENT_CONTAINER_IP"),
    "http": _row("own port labelled `http`", "PAI_CONTAINER_HOST_PORT PAI_CURRENT_CONTAINER_PORT"),
    "ssh": _row("own port labelled `ssh`", "PAI_CONTAINER_SSH_PORT"),
    "own_ports": _row("own ports, `LABEL:P,P;LABEL:P`", "PAI_CONTAINER_HOST_PORT_LIST"),
    "own_label": _row("own ports of a label, `P,P`", "PAI_CONTAINER_HOST_{label}_PORT_LIST"),
    "hosts": _row("`HOST:HTTP_PORT` of each task of a role", "PAI_TASK_ROLE_{role}_HOST_LIST"),
    "task_host": _row("address of a task", "", "PAI_HOST_IP_{role}_{index}"),
    "task_ports": _row(
        "ports of a task, `P,P`",
        "",
        "PAI_PORT_LIST_{role}_{index}_{label} PAI_{role}_{index}_{label}_PORT",
    ),
    "container": _row("the container's id", "PAI_CONTAINER_ID", ""),
    "application": _row("the attempt's YARN application", "APP_ID", ""),
    "hadoop_user": _row("user on HDFS", "HADOOP_USER_NAME", ""),
    "checkpoint_dir": _row("checkpoint folder, of all submissions of a task", "LUIGI_PAI_CHECKPOINT_DIR"),
    "attempt": _row("number of the submission, from 1", "LUIGI_PAI_ATTEMPT"),
}
"""Key of a value -> environment variables. luigi_pai sets the last two keys' variables, OpenPAI the rest."""


def variables(api: str, key: str, value: object, **fields: object) -> "dict[str, str]":
    """Return the environment variables that contain a value in containers of an API.

    Args:
        api: ``v1`` or ``v2``.
        key: The value's key in `VARIABLES`.
        value: The value.
        fields: The role, index or label that is part of the variables' names.
    """
    names = getattr(VARIABLES[key], api)
    return {name.format(**fields): str(value) for name in names}


ATTEMPT_SUFFIX = "__attempt"
"""Suffix that is added, with a number, to the name of a resubmitted job: ``NAME__attempt2``."""

_ATTEMPT = re.compile(f"(?P<name>.+){ATTEMPT_SUFFIX}(?P<number>[1-9][0-9]{{0,8}})", re.DOTALL)


def attempt_of(job: str) -> "tuple[str, int]":
    """Split a job's name into the task's name and the submission number, which is 1 if there is no suffix."""
    found = _ATTEMPT.fullmatch(job)
    return (found.group("name"), int(found.group("number"))) if found else (job, 1)


# ---------------------------------------------------------------- the job

_FOLDERS = ("output_dir", "checkpoint_dir", "data_dir", "code_dir")


def __getattr__(name: str) -> str:  # Python 3.7 and later call it
    """Return a folder of the current task: ``output_dir`` is short for ``current().output_dir``."""
    if name in _FOLDERS:
        return str(getattr(current(), name))
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))


_TASK_PORTS = re.compile(
    VARIABLES["task_ports"].v2[0].format(role="([a-z0-9]+)", index="([0-9]+)", label="(.+)")
)


class ContainerError(RuntimeError):
    """This job or OpenPAI release does not provide the requested value."""


class BarrierTimeout(ContainerError):
    """Some tasks did not reach a barrier in time; the message names them."""


class Peer:
    """A task of the job, as the current task sees it.

    Attributes:
        role, index: The task's role, and its index in the role.
        host: The task's address. On v2 without gang allocation, it is None until the task has an address.
        ports: Label -> port numbers; on v1, other tasks have only the label ``http`` here.
        gpus: The task's number of GPUs. None outside a container and, on v1, for tasks of other roles,
            because no variable contains it.
    """

    def __init__(self, role: str, index: int, host: "str | None" = None) -> None:
        self.role = role
        self.index = index
        self.host = host
        self.ports: "dict[str, list[int]]" = {}
        self.gpus: "int | None" = None

    def __str__(self) -> str:
        return f"{self.role}[{self.index}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} {self.host} {self.ports}>"

    def port(self, label: str = "http") -> int:
        """Return the task's first port with this label.

        Raises:
            ContainerError: the task does not have this port, or this release does not list it.
        """
        try:
            return self.ports[label][0]
        except LookupError:
            raise ContainerError(
                f"port {label!r} of {self} is unknown here; known: {', '.join(sorted(self.ports))}; "
                "reserve it in the job. On OpenPAI 0.7 to 0.14 (v1) only the 'http' ports of other tasks "
                "are known"
            ) from None

    def address(self, label: str = "http") -> str:
        """Return the task's ``HOST:PORT``; PORT is its first port with this label.

        Raises:
            ContainerError: the task has no address yet, or no such port.
        """
        if self.host is None:
            raise ContainerError(
                f"{self} has no address yet: without gang allocation a task starts before others have "
                "resources; set extras.gangAllocation to true, or read the address later"
            )
        return f"{self.host}:{self.port(label)}"


class Task:
    """The current task, and its job.

    Attributes:
        api: ``v1`` or ``v2``; None outside a container.
        user, virtual_cluster: The job's user and virtual cluster.
        job: The job's name, without ``USER~``.
        name: The job's name without a suffix such as ``__attempt2``; the same for all submissions.
        attempt: The submission's number, from 1.
        role, index: This task's role, and its index in the role.
        roles: Role -> its tasks. If the conversion from v1 to v2 renamed a role, both names work
            (``my_role`` and ``myrole``).
        peers: All of the job's tasks, in rank order.
        cpus, gpus, memory_mb, shm_mb: This task's resources; None if OpenPAI sets no variable for them.
        work_dir: The working folder.
    """

    def __init__(self, environ: "dict[str, str]") -> None:
        self._environ = environ
        self.api: "str | None" = None
        if environ.get(VARIABLES["job"].v1[0]):
            self.api = "v2" if VARIABLES["instances"].v2[0] in environ else "v1"
        self.user = self._read("user") or ""
        self.virtual_cluster = self._read("virtual_cluster") or ""
        job = self._read("job") or "local"
        self.job = job[len(self.user) + 1 :] if job.startswith(f"{self.user}~") and self.api == "v2" else job
        self.name, number = attempt_of(self.job)
        self.attempt = int(self._read("attempt") or number)
        self.role = (self._read("role") if self.api else None) or "main"
        self.index = int((self._read("index") if self.api else None) or 0)
        self.roles = _Roles()
        for role in (self._read("roles") or self.role).split(",") if self.api else ["main"]:
            self.roles[role] = self._tasks_of(role)
        self.peers = [peer for role in self.roles.values() for peer in role]
        self.own = self._own_peer()
        self.gpus, self.cpus, self.memory_mb, self.shm_mb = self._resources(self.role)
        self.work_dir = self._read("work_dir") or os.getcwd()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.own} of job {self.job}>"

    @property
    def count(self) -> int:
        """Number of tasks in this task's role."""
        return len(self.roles[self.role])

    @property
    def rank(self) -> int:
        """This task's rank, from 0. Ranks follow the job's order of roles and, within a role, the index."""
        return self.peers.index(self.own)

    @property
    def world_size(self) -> int:
        """Number of tasks in the job."""
        return len(self.peers)

    @property
    def host(self) -> str:
        """This task's address; empty if it is unknown."""
        return self.own.host or ""

    @property
    def ports(self) -> "dict[str, list[int]]":
        """This task's ports: label -> port numbers."""
        return self.own.ports

    @property
    def data_dir(self) -> str:
        """The job's data folder, often on HDFS; outside a container, the working folder."""
        return self._folder("data_dir", "dataDir")

    @property
    def code_dir(self) -> str:
        """The job's code folder, the source of the copied code; outside a container, the working folder."""
        return self._folder("code_dir", "codeDir")

    @property
    def output_dir(self) -> str:
        """The job's output folder, often on HDFS; outside a container, the working folder."""
        return self._folder("output_dir", "outputDir")

    @property
    def checkpoint_dir(self) -> str:
        """The folder for checkpoints, the same for every submission of a Luigi task."""
        return self._read("checkpoint_dir") or f"{self.output_dir.rstrip('/')}/_checkpoint"

    def peers_of(self, roles: "list[str] | None" = None) -> "list[Peer]":
        """Return the tasks of these roles, in the order of ``roles``; all of the job's tasks if None."""
        return [peer for role in _role_names(self, roles) for peer in self.roles[role]]

    def _read(self, key: str, **fields: object) -> "str | None":
        """Return the first non-empty value of a key's variables, or None. In a v2 job, v2's come first."""
        names = [*(VARIABLES[key].v2 if self.api == "v2" else ()), *VARIABLES[key].v1, *VARIABLES[key].v2]
        values = (self._environ.get(name.format(**fields)) for name in names if fields or "{" not in name)
        return next(filter(None, values), None)

    def _folder(self, key: str, field: str) -> str:
        found = self._read(key)
        if found or self.api is None:
            return found or self.work_dir
        export = f", or export {VARIABLES[key].v1[0]} in its commands" if self.api == "v2" else ""
        raise ContainerError(f"job {self.job} has no {field}; set {field} in the job{export}")

    def _tasks_of(self, role: str) -> "list[Peer]":
        if self.api is None:
            alone = Peer(role, 0, "127.0.0.1")
            alone.ports = _FreePorts()
            return [alone]
        peers = self._tasks_v1(role) if self.api == "v1" else self._tasks_v2(role)
        if self.api == "v2" or role == self.role:
            for peer in peers:
                peer.gpus = self._resources(role)[0]
        return peers

    def _tasks_v1(self, role: str) -> "list[Peer]":
        peers = []
        for index, address in enumerate(filter(None, (self._read("hosts", role=role) or "").split(","))):
            host, _, port = address.rpartition(":")
            peers.append(Peer(role, index, host))
            peers[-1].ports = {"http": [int(port)]}
        return peers

    def _tasks_v2(self, role: str) -> "list[Peer]":
        v2_role = folded(role)
        instances = (self._read("instances") or "").split(",")
        peers = [
            Peer(role, index, self._read("task_host", role=v2_role, index=index))
            for index in sorted(
                int(each.rpartition(":")[2]) for each in instances if each.startswith(f"{v2_role}:")
            )
        ]
        for name, value in self._environ.items():
            found = _TASK_PORTS.fullmatch(name)
            if found and found.group(1) == v2_role and int(found.group(2)) < len(peers):
                peers[int(found.group(2))].ports[found.group(3)] = _numbers(value)
        return peers

    def _own_peer(self) -> Peer:
        """Return this task's `Peer`, adding the host and ports that only its own variables contain."""
        peers: "list[Peer]" = self.roles[self.role]
        if self.index >= len(peers):
            names = VARIABLES["hosts"].v1 if self.api == "v1" else VARIABLES["instances"].v2
            raise ContainerError(
                f"the variables contradict each other: this is {self.role}[{self.index}], but the role has "
                f"{len(peers)} tasks according to {names[0].format(role=self.role)}"
            )
        peer = peers[self.index]
        peer.host = peer.host or self._read("host")
        for entry in filter(None, (self._read("own_ports") or "").split(";")):
            label, _, numbers = entry.partition(":")
            peer.ports[label] = _numbers(numbers)
        return peer

    def _resources(self, role: str) -> "list[int | None]":
        """Return GPUs, CPUs, memory and shared memory of a role's tasks; on v1, those of this task."""
        resources = self._read("resources", role=role) or self._read("resources", role=folded(role))
        if resources:
            gpus, cpus, memory, shared = _numbers(resources)
            return [gpus, cpus, memory, shared or None]
        values = [self._read(key) for key in ("gpus", "cpus", "memory_mb", "shm_mb")]
        return [None if value is None else int(value) for value in values]


class _Roles(dict):  # type: ignore[type-arg]
    """Role -> its tasks; a role that v2 renamed is also found under its old name."""

    def __missing__(self, role: str) -> "list[Peer]":
        for name, peers in self.items():
            if folded(name) == folded(role):
                return list(peers)
        raise ContainerError(f"the job has no task role {role!r}, only {', '.join(self)}")


def _role_names(task: Task, roles: "list[str] | None") -> "list[str]":
    """Return the names of these roles, or of all roles if None. A string is not a list of roles."""
    if isinstance(roles, str):
        raise TypeError(f"roles = {roles!r} is a string; use a list: roles=[{roles!r}]")
    return list(task.roles) if roles is None else roles


class _FreePorts(dict):  # type: ignore[type-arg]
    """A task's ports outside a container, where each label gets a free port on its first lookup."""

    def __missing__(self, label: str) -> "list[int]":
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self[label] = [probe.getsockname()[1]]
        return list(self[label])


def folded(role: str) -> str:
    """Convert a role's name to the form used on v2 servers and in variables: ``My_Role`` -> ``myrole``."""
    return re.sub("[^a-z0-9]", "", role.lower())


def _numbers(text: str) -> "list[int]":
    return [int(number) for number in text.split(",") if number]


def current() -> Task:
    """Return the current task, as its environment variables describe it.

    Raises:
        ContainerError: OpenPAI's variables contradict each other.
    """
    return Task(dict(os.environ))


# ---------------------------------------------------------------- for frameworks


def export_torch(port: str = "http", roles: "list[str] | None" = None) -> "dict[str, str]":
    """Set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE in this process, and return them.

    RANK and WORLD_SIZE count tasks, so only one process per task may call this. After the call,
    ``torch.distributed.init_process_group("gloo")`` needs no other arguments.

    Args:
        port: The label of the first task's port that all processes connect to; must be ``http`` on v1.
        roles: The roles that take part; all if None.

    Raises:
        ContainerError: this task is not in any of the roles, the port is unknown here, or the first task has
            no address yet.
    """
    task = current()
    peers = task.peers_of(roles)
    host, _, number = peers[0].address(port).rpartition(":")
    rank, size = str(_rank(task, peers)), str(len(peers))
    exported = {"MASTER_ADDR": host, "MASTER_PORT": number, "RANK": rank, "WORLD_SIZE": size}
    os.environ.update(exported)
    return exported


def tf_config(port: str = "http", roles: "list[str] | None" = None) -> str:
    """Return the value of TF_CONFIG: the tasks' addresses by role, and this task's role and index.

    Args:
        port: The label of the port that each task listens on; must be ``http`` on v1.
        roles: The roles that take part; all if None. They are used as TensorFlow's task types.

    Raises:
        ContainerError: a port is unknown here, or a task has no address yet.
    """
    task = current()
    cluster = {role: [peer.address(port) for peer in task.roles[role]] for role in _role_names(task, roles)}
    return json.dumps({"cluster": cluster, "task": {"type": task.role, "index": task.index}})


def mpi_hosts(slots: "int | None" = None, roles: "list[str] | None" = None) -> str:
    """Return the host list for ``mpirun -H`` and ``horovodrun -H``: ``HOST:SLOTS,HOST:SLOTS``.

    Args:
        slots: The number of processes per task; if None, the task's number of GPUs, or 1 without GPUs.
        roles: The roles that take part; all if None.

    Raises:
        ContainerError: ``slots`` is None, but v1 does not report the number of GPUs for tasks of other roles;
            or a task has no address yet, or no ``http`` port.
    """
    hosts = []
    for peer in current().peers_of(roles):
        if slots is None and peer.gpus is None and current().api is not None:
            raise ContainerError(
                f"OpenPAI v1 does not report the number of GPUs of {peer}: use mpi_hosts(slots=...)"
            )
        hosts.append(f"{peer.address().rpartition(':')[0]}:{slots or peer.gpus or 1}")
    return ",".join(hosts)


def _rank(task: Task, peers: "list[Peer]") -> int:
    """Return this task's rank among the tasks that take part."""
    if task.own not in peers:
        names = ", ".join(map(str, peers))
        raise ContainerError(f"{task.own} is not one of the tasks that take part: {names}")
    return peers.index(task.own)


# ---------------------------------------------------------------- barrier

_RETRY = 0.1  # seconds between attempts to reach a task that has not started yet
_LONGEST = 4096  # bytes of a task's message
_LINGER = 2.0  # seconds that tasks wait for each other's last messages
_MOST_SECONDS = 1e6  # maximum timeout of a barrier (eleven days), because sockets reject much longer timeouts


def barrier(name: str, timeout: float = 600.0, port: str = "http", roles: "list[str] | None" = None) -> None:
    """Wait until every task has reached the barrier with this name; call it in one process per task.

    The first task listens on its port, and the others connect to it. Do not use this port for anything else
    during this time.

    Args:
        name: The barrier's name; a task can pass a barrier with this name only once.
        timeout: How long to wait at most, in seconds.
        port: The label of the port; must be ``http`` on v1.
        roles: The roles that take part; all if None.

    Raises:
        BarrierTimeout: some tasks did not arrive in time; the message names them.
        ContainerError: this task is not in any of the roles, the port is unknown here or in use, or the first
            task has no address yet.
    """
    task = current()
    peers = task.peers_of(roles)
    rank = _rank(task, peers)
    if len(peers) == 1:
        return
    peers[0].address(port)
    meeting = _Meeting(task.job, name, peers, port, time.monotonic() + min(timeout, _MOST_SECONDS))
    missing = meeting.gather() if rank == 0 else meeting.join(rank)
    if missing:
        names = ", ".join(str(peers[other]) + meeting.whereabouts(other) for other in missing)
        raise BarrierTimeout(
            f"barrier {name!r}: {names} did not arrive within {timeout:g} s; see the logs of these tasks"
        )


class _Meeting:
    """A barrier. The first task listens on its port, and finally sends the missing ranks to the others.

    A task that gives up sends a second message to the first task, which then ends the barrier for all tasks.

    Args:
        job: The job's name.
        name: The barrier's name; all tasks at one barrier send the same job and name.
        peers: The tasks that take part; their indices in this list are their ranks.
        port: The label of the port.
        deadline: When the barrier fails if tasks are missing, in seconds of the monotonic clock.
    """

    def __init__(self, job: str, name: str, peers: "list[Peer]", port: str, deadline: float) -> None:
        self._job = job
        self._name = name
        self._peers = peers
        self._port = port
        self._deadline = deadline
        self._received: "dict[socket.socket, bytes]" = {}
        self._ranks: "dict[socket.socket, int]" = {}
        self._elsewhere: "dict[int, str]" = {}  # rank -> the other barrier that the task has reached
        self._is_over = False

    def whereabouts(self, rank: int) -> str:
        """Return a note if a task was last seen at another barrier; otherwise an empty string."""
        return f" (last seen at barrier {self._elsewhere[rank]!r})" if rank in self._elsewhere else ""

    def gather(self) -> "list[int]":
        """In the first task: wait for all other tasks, and return the ranks of those that did not arrive."""
        import selectors
        import socket

        with socket.socket() as server, selectors.DefaultSelector() as selector:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            number = self._peers[0].port(self._port)
            try:
                self._bind(server, number)
            except OSError as error:
                raise ContainerError(
                    f"the barrier cannot use port {self._port!r} ({number}) of {self._peers[0]}: "
                    f"{error.strerror}; reserve another port, and pass its label as barrier(port=...)"
                ) from None
            server.listen(1024)
            server.settimeout(_LINGER)
            selector.register(server, selectors.EVENT_READ)
            try:
                while self._missing() and self._seconds_left() > 0 and not self._is_over:
                    for connection in self._ready(selector, self._seconds_left()):
                        if connection is server:
                            self._accept(server, selector)
                        elif not self._receive(connection):
                            self._disconnect(connection, selector)
                missing = self._missing()
                selector.unregister(server)
                self._dismiss(missing, selector)
            finally:
                for connection in self._received:
                    connection.close()
        return missing

    def _bind(self, server: "socket.socket", number: int) -> None:
        """Bind to the address that others connect to, or to all addresses if that one is not local."""
        import errno
        import socket

        try:
            server.bind((str(self._peers[0].host), number))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL and not isinstance(error, socket.gaierror):
                raise
            server.bind(("", number))

    @staticmethod
    def _ready(selector: "selectors.BaseSelector", timeout: float) -> "list[socket.socket]":
        return [key.fileobj for key, _ in selector.select(timeout)]  # type: ignore[misc]

    def _accept(self, server: "socket.socket", selector: "selectors.BaseSelector") -> None:
        """Accept a new connection."""
        import errno
        import selectors

        try:
            connection = server.accept()[0]
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise ContainerError(
                    f"the barrier cannot accept a connection from each task: {error.strerror}; raise the "
                    "limit of open files (ulimit -n)"
                ) from None
            return
        connection.settimeout(_LINGER)
        self._received[connection] = b""
        selector.register(connection, selectors.EVENT_READ)

    def _receive(self, connection: "socket.socket") -> bool:
        """Read a task's message; return False if the task is at another barrier or disconnected."""
        try:
            data = connection.recv(_LONGEST)
        except OSError:
            return False
        self._received[connection] += data
        message = self._received[connection]
        if not data or len(message) > _LONGEST:
            return False
        if connection in self._ranks:  # a second message means that the task gives up
            self._is_over = True
        elif b"\n" in message:
            try:
                job, name, rank = json.loads(message.decode("utf-8"))
            except (ValueError, TypeError, RecursionError):
                return False
            if job != self._job or rank not in range(1, len(self._peers)):
                return False
            if name != self._name:
                self._elsewhere[rank] = name
                self._send(connection, self._name)
                return False
            self._ranks[connection] = rank
            self._elsewhere.pop(rank, None)
        return True

    def _disconnect(self, connection: "socket.socket", selector: "selectors.BaseSelector") -> None:
        selector.unregister(connection)
        connection.close()
        self._received.pop(connection, None)
        self._ranks.pop(connection, None)

    @staticmethod
    def _send(connection: "socket.socket", message: object) -> None:
        with contextlib.suppress(OSError):  # the task is gone
            connection.sendall(json.dumps(message).encode("ascii") + b"\n")

    def _missing(self) -> "list[int]":
        """Return the ranks of the tasks that have not connected to the first task."""
        return sorted(set(range(1, len(self._peers))).difference(self._ranks.values()))

    def _dismiss(self, missing: "list[int]", selector: "selectors.BaseSelector") -> None:
        """Send the missing ranks to the connected tasks, and wait up to 2 s until they close the connections.

        If this task closed the connections first, its port would stay in use for some time.
        """
        for connection in self._ranks:
            self._send(connection, missing)
        end = time.monotonic() + _LINGER
        while self._ranks and time.monotonic() < end:
            for connection in self._ready(selector, _RETRY):
                if connection not in self._ranks or not self._receive(connection):
                    self._disconnect(connection, selector)

    def join(self, rank: int) -> "list[int]":
        """Contact the first task until it responds; return the ranks of the tasks that did not arrive."""
        while self._seconds_left() > 0:
            try:
                response = self._ask(rank)
            except (OSError, ValueError):  # the first task is not listening, or its response is not JSON
                response = None
            if isinstance(response, list):
                return response
            if isinstance(response, str):
                self._elsewhere[0] = response
            time.sleep(min(_RETRY, max(self._seconds_left(), 0)))
        return [0]

    def _ask(self, rank: int) -> object:
        """Return the first task's response: the missing ranks, or the other barrier where it is waiting."""
        import socket
        import struct

        address = str(self._peers[0].host), self._peers[0].port(self._port)
        with socket.create_connection(address, min(self._seconds_left(), _LINGER)) as connection:
            if connection.getsockname() == connection.getpeername():
                # no task is listening, and TCP connected this socket to itself; a reset frees its port
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise ConnectionError("connected to itself")
            connection.sendall(json.dumps([self._job, self._name, rank]).encode("ascii") + b"\n")
            received = b""
            for is_last in (False, True):
                connection.settimeout(_LINGER if is_last else max(self._seconds_left(), 0.001))
                try:
                    while not received.endswith(b"\n"):
                        received += self._receive_more(connection)
                    return json.loads(received.decode("ascii"))
                except socket.timeout:
                    connection.sendall(b"\n")  # this task gives up; the response then lists the missing tasks
        return None

    @staticmethod
    def _receive_more(connection: "socket.socket") -> bytes:
        data = connection.recv(65536)
        if not data:
            raise ConnectionError("the first task has closed the connection")
        return data

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()


# ---------------------------------------------------------------- reports

REPORTS = "_reports"
"""The folder for reports in the output folder; each task writes a ``ROLE-INDEX.jsonl`` file there."""

_SEND_AFTER = 1.0  # seconds from the first report to the first hdfs command
_SEND_EVERY = 10.0  # seconds between two hdfs commands
_LONGEST_PAUSE = 160.0  # maximum seconds between two hdfs commands, after failures
_HDFS_SECONDS = 120.0  # timeout in seconds for an hdfs command, and for getting its lock
_KEPT = 10_000  # how many lines to keep while HDFS does not accept them
_PLACE = sorted(
    {
        name
        for key in ("job", "user", "role", "index", "instances", "output_dir", "attempt")
        for names in (VARIABLES[key].v1, VARIABLES[key].v2)
        for name in names
    }
)


def report(*_unnamed: "NoReturn", **values: object) -> None:
    """Report progress: one line of JSON in ``OUTPUT_DIR/_reports/ROLE-INDEX.jsonl``.

    The Luigi task shows the last report; the progress is ``step`` of ``steps``, or ``progress`` from 0 to 1.
    If the folder is on HDFS, the image's ``hdfs`` command sends the lines in the background, every 10 s and
    at the end. Lines that cannot be written are printed instead, so a report never fails a job.

    Args:
        values: Numbers or strings by name, such as ``step=10, loss=0.3``. ``time`` (seconds since 1970) and
            ``attempt`` are added.

    Raises:
        TypeError: a value has no name.
    """
    if _unnamed:
        raise TypeError(
            "report() takes values by name, such as report(loss=0.3); for a dict, report(**values)"
        )
    _warn_of_progress(values.get("progress"))
    try:
        values_of_place = [os.environ.get(name) for name in _PLACE]
        folder, name, attempt = _report_place(*values_of_place, "" if any(values_of_place) else os.getcwd())
    except Exception:  # noqa: BLE001  a broken environment or working folder must not fail the job
        folder, name, attempt = "", "", 1
    added = {"time": round(time.time(), 3), "attempt": attempt}
    line = _line({**added, **values, **added})
    key = os.getpid(), folder, name  # without its parent's threads, a forked process needs another reporter
    reporter = _REPORTERS.get(key) or _REPORTERS.setdefault(key, _Reporter(folder, name))
    reporter.add(line)


def _warn_of_progress(progress: object) -> None:
    """Log once that a progress value is outside 0 to 1, because it is then shown as 0 or 100 %."""
    is_wrong = isinstance(progress, (int, float)) and not 0 <= progress <= 1
    if is_wrong and not _WARNED:
        _WARNED.append(progress)
        _print(["progress is not from 0 to 1; report a fraction, or step=... and steps=... instead"])


@functools.lru_cache(maxsize=8)
def _report_place(*_: "str | None") -> "tuple[str, str, int]":
    """Return the folder and file name for this task's reports, and the submission's number."""
    task = current()
    name = f"{task.role}-{task.index}.jsonl"
    try:
        return f"{task.output_dir.rstrip('/')}/{REPORTS}", name, task.attempt
    except ContainerError:
        return "", name, task.attempt


def _line(values: "dict[str, object]") -> str:
    """Return values as JSON; types that JSON does not support become numbers or strings."""
    try:
        return json.dumps(values, default=_plain)
    except Exception:  # noqa: BLE001  a user's value may raise anything
        return json.dumps({key: _written(value) for key, value in values.items()})


def _written(value: object) -> object:
    for form in (lambda: json.loads(json.dumps(value, default=_plain)), lambda: str(value)):
        try:
            return form()
        except Exception:  # noqa: BLE001,S112  as above
            continue
    return type(value).__name__


def _plain(value: object) -> object:
    """Return a NumPy or torch number as a Python number, and anything else as a string."""
    try:
        return value.item()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001  an array of several numbers, or not an array
        return str(value)


class _Reporter:
    """Writes this process's reports to a file, or sends them to HDFS; without a folder, prints them.

    A signal handler may report while a report is being sent, so the lock is reentrant.
    """

    def __init__(self, folder: str, name: str) -> None:
        import threading

        self._is_hdfs = folder.startswith(("hdfs:", "viewfs:", "webhdfs:"))
        self._folder = folder[len("file://") :] if folder.startswith("file://") else folder
        if "://" in self._folder and not self._is_hdfs:
            self._folder = ""
        self._path = f"{self._folder}/{name}"
        self._pid = os.getpid()
        self._lines: "deque[str]" = deque()
        self._sending = threading.RLock()
        self._is_started = False
        self._is_ended = False
        # whether the last write succeeded; if so, the folder exists, and the file's last line is complete
        self._is_whole = False
        self._main = threading.main_thread()
        if self._is_hdfs:  # import now, because a process forked during an import cannot import the module
            import fcntl  # noqa: F401
            import shutil  # noqa: F401
            import subprocess  # noqa: F401
            import tempfile  # noqa: F401

    def add(self, line: str) -> None:
        """Write a line immediately or, on HDFS, queue it."""
        self._lines.append(line)
        is_too_late = self._is_ended or not (self._is_started or self._main.is_alive())
        if not self._is_hdfs or is_too_late:
            self.send(last=True)
        elif not self._is_started:
            with self._sending:
                self._start()

    def _start(self) -> None:
        """Start sending the queued lines, periodically and when this process exits."""
        import atexit
        import threading

        if self._is_started:
            return
        self._is_started = True
        atexit.register(self._end)
        if "multiprocessing.util" in sys.modules:  # multiprocessing's processes exit without running atexit
            sys.modules["multiprocessing.util"].Finalize(None, self._end, exitpriority=0)
        with contextlib.suppress(RuntimeError):  # too many threads
            threading.Thread(target=self._run, name="reports", daemon=True).start()

    def _end(self) -> None:
        self._is_ended = True
        self.send(last=True)

    def _run(self) -> None:
        time.sleep(_SEND_AFTER)
        pause = _SEND_EVERY
        while self._is_hdfs:
            pause = _SEND_EVERY if self.send() else min(2 * pause, _LONGEST_PAUSE)
            time.sleep(pause)

    def send(self, *, last: bool = False) -> bool:
        """Send the queued lines. If HDFS does not accept them, the newest 10,000 stay queued.

        Older lines are then printed. If the folder is not on HDFS, or if this is the ``last`` call, all lines
        that could not be sent are printed.

        Returns:
            False if lines could not be sent.
        """
        if os.getpid() != self._pid:  # this process was forked, and its parent sends the lines
            return True
        with self._sending:
            lines = []
            with contextlib.suppress(IndexError):
                while True:
                    lines.append(self._lines.popleft())
            if not lines:
                return True
            data = "".join(f"{line}\n" for line in lines).encode("utf-8")
            try:
                self._append(data)
            except Exception:  # noqa: BLE001  the disk is full, or the hdfs command is missing, fails or hangs
                self._is_whole = False
            else:
                self._is_whole = True
                return True
            kept = [] if last or not self._is_hdfs else lines[-_KEPT:]
            self._lines.extendleft(reversed(kept))
            _print(lines[: len(lines) - len(kept)])
            return False

    def _append(self, data: bytes) -> None:
        import shutil

        if not self._folder:
            raise FileNotFoundError("there is no writable output folder")
        if not self._is_hdfs:
            _make_folder(self._folder)
            start = b"" if self._is_whole or self._ends_with_a_line() else b"\n"
            with open(self._path, "ab") as file:
                file.write(start + data)
            return
        if shutil.which("hdfs") is None:
            self._is_hdfs, self._folder = False, ""
            raise FileNotFoundError("this image has no hdfs command")
        with _exclusive():
            if not self._is_whole:
                _hdfs("-mkdir", "-p", self._folder)
            _hdfs("-appendToFile", "-", self._path, data=data)

    def _ends_with_a_line(self) -> bool:
        """Return whether the last line is complete; a kill or a full disk may have truncated it."""
        try:
            with open(self._path, "rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read() == b"\n"
        except OSError:  # the file is missing or empty
            return True


_WARNED: "list[object]" = []  # the progress that was logged
_REPORTERS: "dict[tuple[int, str, str], _Reporter]" = {}


def _make_folder(path: str) -> None:
    """Create a folder and its missing parents, writable by everybody.

    Containers run as root or nobody, so otherwise the user could not delete the files in these folders.
    """
    missing, parent = [], path
    while parent and not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    os.makedirs(path, exist_ok=True)
    for folder in missing:
        with contextlib.suppress(OSError):  # another task owns the folder, or its file system has no modes
            os.chmod(folder, 0o777)  # noqa: S103  as above


def _print(lines: "list[str]") -> None:
    with contextlib.suppress(Exception):  # there is no standard output, or it is closed
        sys.stdout.write("".join(f"report: {line}\n" for line in lines))
        sys.stdout.flush()


@contextlib.contextmanager
def _exclusive() -> "Iterator[None]":
    """Lock out this container's other processes, because an HDFS file can have only one writer at a time."""
    import fcntl

    deadline = time.monotonic() + _HDFS_SECONDS
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no locks on this file system
            lock = stack.enter_context(open(__file__, "rb"))
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_RETRY)
                else:  # unlock, because closing is not enough if a process forked meanwhile has the file open
                    stack.callback(fcntl.flock, lock, fcntl.LOCK_UN)
                    break
        yield


def _hdfs(*words: str, data: bytes = b"") -> None:
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as file:  # no pipe, because a process forked meanwhile can keep it open
        file.write(data)
        file.seek(0)
        subprocess.run(  # noqa: S603  fixed words, and the job's own folder
            ["hdfs", "dfs", *words],
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=_HDFS_SECONDS,
        )
