"""PaiPythonTask: a Luigi task whose Python method runs as a job on an OpenPAI cluster."""

from __future__ import annotations

import abc
import base64
import contextlib
import inspect
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import luigi.parameter

from luigi_pai.api.job_failure import log_end_of
from luigi_pai.config import OpenPai
from luigi_pai.config_file import configured_secrets
from luigi_pai.errors import MissingPackage, Problem, SpecError
from luigi_pai.jobspec.job import FS_URI, PaiJob, TaskRole, default_output
from luigi_pai.jobspec.schema_problems import LARGEST_BODY
from luigi_pai.payload.container import LARGEST_METRICS, RESULT, SECRETS, VALUES
from luigi_pai.payload.reach import METHOD, unfit
from luigi_pai.payload.secrets import Secrets
from luigi_pai.task import PaiTask
from luigi_pai.tasks.attributes import attribute
from luigi_pai.tasks.outputs import LastReports
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.lookup import check_same_work
from luigi_pai.work.piece import RECENT

if TYPE_CHECKING:
    from types import ModuleType

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.payload.file import Contents, Payload

__all__ = ["PaiPythonTask"]

_FILE = "luigi_pai_file"  # shell variable with the path of the payload file in the container
_MOST = LARGEST_BODY - 20_000  # maximum payload in a command, in bytes; the rest is for the job itself
_LAST_LINES = 400  # how many lines at the end of the log to search for the result
_NEVER_RUNS = (
    "no role runs work(): do not override tasks, but set instances, cpus, gpus and memory_mb; to run your "
    "own commands, use a PaiTask"
)


class PaiPythonTask(PaiTask):
    """A Luigi task whose ``work`` method runs as a job on an OpenPAI cluster.

    Subclass it and define ``image`` and ``work``. The method and the objects it uses are sent as a
    pickle, so the image needs the same minor version of Python as this process. Otherwise, the task behaves
    like a ``PaiTask``. The class needs cloudpickle, which the ``python`` extra installs.
    """

    @abc.abstractmethod
    def work(self) -> Mapping[str, Any] | None:
        """Do the job's work in the container; an exception fails the job.

        In the container, ``self`` is not a Luigi task. It has only the parameters, ``name``, ``pai``, and
        the attributes of yours that ``work`` uses.

        Returns:
            None, or a JSON object for ``result()`` to return. The object is written to ``metrics.json`` in
            the output folder, if the container can write there. Only the first instance's result is used.
        """

    @property
    def pai(self) -> ModuleType:
        """The ``luigi_pai.runtime`` module, with functions such as ``report()`` and ``barrier()``."""
        from luigi_pai import runtime  # noqa: PLC0415  only work() needs it

        return runtime

    @attribute
    def name(self) -> str:
        """The job's name: the task's family and, if the task has significant parameters, a hash of them."""
        return self._with_hash(str(self.get_task_family()))  # type: ignore[no-untyped-call]

    @attribute
    def instances(self) -> int:
        """Number of containers, each of which runs ``work``."""
        return 1

    @attribute
    def cpus(self) -> int:
        """CPUs per container."""
        return 1

    @attribute
    def gpus(self) -> int:
        """GPUs per container."""
        return 0

    @attribute
    def memory_mb(self) -> int:
        """Memory per container in MB."""
        return 2048

    @attribute
    def shm_mb(self) -> int:
        """Shared memory per container in MB; DataLoader workers need it."""
        return 64

    @attribute
    def python(self) -> str:
        """The Python command in the image."""
        return "python3"

    @attribute
    def packages(self) -> Sequence[str]:
        """Names of local packages and modules to send with the method; the container can import them."""
        return ()

    @attribute
    def tasks(self) -> Sequence[TaskRole]:
        """One task role, ``main``, which runs ``work``.

        Its command contains a digest of the code that is sent, so a change in the code changes the job.
        """
        words = f'"${_FILE}" {self.task_id} work-{self._payload().reach.digest} attempt-$LUIGI_PAI_ATTEMPT'
        role = TaskRole(
            "main", f"{shlex.quote(self.python)} {words}", self.instances, self.cpus, self.memory_mb
        )
        role.shmMB, role.gpuNumber = self.shm_mb, self.gpus
        return [role]

    def result(self) -> Mapping[str, Any]:
        """Return the result of ``work``, or the values of the last reports if ``work`` returned None.

        The result is read from ``metrics.json`` or, if there is none, from the newest submission's log.

        Raises:
            PaiWorkConflict: another class submitted a job with this name.
            PaiApiError: the log cannot be read.
            PaiJobError, ValueError, HdfsError: for the same reasons as in ``PaiTask.result``.
        """
        work = TaskWork(self)
        check_same_work(work)
        found = work.outputs.result(self)
        if found and not isinstance(found, LastReports):
            return found
        entry = work.book.latest(work.name, Evidence(work), max_age=RECENT)
        if entry is None or entry.status is None:
            return found or self._no_result(work)
        for line in reversed(log_end_of(work.book, entry, _LAST_LINES).splitlines()):
            with contextlib.suppress(ValueError, RecursionError):
                if line.startswith(RESULT):
                    return dict(json.loads(line[len(RESULT) :]))
        return found or self._no_result(work)

    # of PaiTask

    _largest_metrics = LARGEST_METRICS
    _empty_because = "work() returned nothing and reported nothing; return a dict, such as {'accuracy': 0.97}"

    def _redacted(self) -> list[str]:
        secret, parameters = self._values(self._payload())[1], self._private()
        hidden = {**secret, **parameters} if secret.keys() - parameters.keys() else secret
        return [str(value) for value in hidden.values()]

    def _inputs(self) -> dict[str, str]:
        payload, inputs = self._payload(), super()._inputs()
        reach = payload.reach
        used = {name: value for name, value in self._values(payload)[0].items() if reach.takes(name, value)}
        for name, value in {**used, **reach.named}.items():
            with contextlib.suppress(TypeError, ValueError, RecursionError):  # not a plain value
                inputs[name] = json.dumps(value, sort_keys=True)
        return inputs

    def _check(self, job: PaiJob | JobProtocol) -> list[str]:
        settings = OpenPai.current(self.cluster)
        self._raise(unfit(inspect.getattr_static(type(self), METHOD)))
        payload, *_ = self._parts(settings.api_version, has_files=settings.has_files)
        self._raise(payload.reach.unknown(self))
        roles = job.taskRoles if isinstance(job, PaiJob) else []
        if not any(f"${_FILE}" in role.command for role in roles if isinstance(role, TaskRole)):
            raise SpecError(self.name, [Problem("tasks", _NEVER_RUNS)])
        self._check_secrets(self.job() if self.strict_shell else job)  # without the shell's quotes
        return [*super()._check(job), *(f"{payload.field} {each}" for each in payload.warnings)]

    def _check_secrets(self, job: PaiJob | JobProtocol) -> None:
        """Check that the job (without its payload) and its tags contain no secret in plain text."""
        fields = job.to_dict() if isinstance(job, PaiJob) else {}
        if found := self._secrets().in_bytes(json.dumps([fields, self.tags], default=str).encode()):
            raise SpecError(self.name, [Problem("job()", f"contains {found}; every user can read jobs")])

    # the payload

    def _payload(self) -> Payload:
        """Return the class's payload.

        Raises:
            SpecError: something cannot be sent.
            MissingPackage: cloudpickle is not installed here.
        """
        payload = payload_of(type(self), PaiPythonTask, self.packages, self._secrets())
        self._raise(payload.problems)
        return payload

    def _raise(self, problems: Sequence[str]) -> None:
        if problems:
            raise SpecError(self.name, [Problem("work", problem) for problem in problems])

    def _private(self) -> dict[str, Any]:
        """Return the private parameters."""
        private = luigi.parameter.ParameterVisibility.PRIVATE
        return {
            name: getattr(self, name)
            for name, parameter in self.get_params()
            if parameter.visibility == private
        }

    def _secrets(self) -> Secrets:
        """Return the values that must not be sent in plain text."""
        return Secrets(self._private(), configured_secrets(), os.environ)

    def _values(self, payload: Payload) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the public values for ``work``, and the values to send as a secret.

        The secrets are the private parameters that ``work`` uses, and attributes that contain their values.
        """
        reach, parameters, secrets = payload.reach, dict(self.get_params()), self._secrets()
        hidden = self._private().keys()
        attributes = {
            name for name, value in vars(self).items() if reach.takes(name, value)
        } - parameters.keys()
        secret = hidden & (reach.names | reach.possible)
        secret |= {name for name in attributes if secrets.private_in(getattr(self, name), is_derived=True)}
        public = {"name", *parameters, *attributes, *reach.settings_used} - hidden - secret
        values = {name: _plain(getattr(self, name)) for name in sorted(public | secret)}
        return (
            {name: value for name, value in values.items() if name in public},
            {name: value for name, value in values.items() if name in secret},
        )

    def _parts(self, api_version: str, *, has_files: bool) -> tuple[Payload, str, str, str]:
        """Return the payload, then its file, the task's values and the task's secrets in base64.

        Raises:
            SpecError: an object cannot be sent, v1 cannot hide a secret, or a large payload needs files.
        """
        payload = self._payload()
        public, secrets = self._values(payload)
        parts = [payload.file, payload.pickled(public)]
        parts.append(payload.pickled(secrets, are_secret=True) if secrets else b"")
        file, values, hidden = (base64.b64encode(part).decode("ascii") for part in parts)
        if len(file) > _MOST and not has_files:
            sizes = ", ".join(f"{part} {size:,}" for part, size in payload.parts.items())
            payload.problems.append(
                f"is {len(file):,} bytes long in base64, {len(file) - _MOST:,} more than fit in a command: "
                f"send less, or set storage or webhdfs_url to send it as a file (compressed: {sizes})"
            )
        if secrets and api_version == "v1":
            payload.problems.append(
                f"uses the private parameters {', '.join(secrets)}: OpenPAI 0.7 to 0.14 does not support "
                "secrets and shows jobs to everybody; let work() read the values from a file on the cluster"
            )
        self._raise(payload.problems)
        return payload, file, values, hidden

    def _prepared(self, job: PaiJob, api_version: str, fs: FileSystem | None) -> PaiJob | JobProtocol:
        """Return the job with its payload in the command, or in a folder on the cluster's file system.

        If there is a storage, the payload is written there. If there is HDFS, and the API is v1 or the
        payload is large, the payload is written to the code folder.
        """
        self._check_secrets(job)
        payload, packed, values, secrets = self._parts(api_version, has_files=fs is not None)
        if fs is not None and (fs.is_mounted or api_version == "v1" or len(packed) > _MOST):
            folder = f"{FS_URI}/{self.name}/code"
            if not fs.is_mounted:
                folder = job.codeDir = (job.codeDir or folder).rstrip("/")
            with fs.open_writer(f"{folder}/{payload.name}") as file:
                file.write(payload.file)
            placed = f'{_FILE}="{folder}/{payload.name}"'
            problem = f"there is no {folder}/{payload.name}: the storage is not mounted here"
            if not fs.is_mounted:
                placed = f'{_FILE}="$PWD/${{PAI_CODE_DIR##*/}}/{payload.name}"'
                problem = "the code folder is not here: the image needs the hdfs command"
        else:
            placed = (
                f'{_FILE}=$PWD/{payload.name}; (: >"${_FILE}") 2>/dev/null || {_FILE}=$(mktemp); '
                f'echo {packed} | base64 -d >"${_FILE}"'
            )
            problem = "its file cannot be written: the image needs base64"
            if fs is None and api_version == "v2" and job.outputDir == default_output(self.name):
                job.outputDir = None
        lines = [
            placed,
            f'[ -s "${_FILE}" ] || {{ echo "luigi_pai: {problem}" >&2; exit 1; }}',
            f"export {_FILE} {VALUES}={values} {SECRETS}={f'@{SECRETS}@' if secrets else ''}",
        ]
        # 0.9 to 0.14 replaces line breaks with the letter n; on v2, arrays share the lines of their points
        separator = "; " if api_version == "v1" else "\n"
        for role in job.taskRoles:
            if isinstance(role, TaskRole) and f"${_FILE}" in role.command:
                role.command = separator.join([*lines, role.command])
        super()._prepared(job, api_version, fs)
        return self._with_secrets(job, secrets) if secrets else job

    def _with_secrets(self, job: PaiJob, secrets: str) -> JobProtocol:
        """Convert the job to a protocol that contains the secrets."""
        protocol = OpenPai.current(self.cluster).cluster().convert(job).protocol
        for role in protocol.taskRoles.values():
            role.commands = [
                each.replace(f"@{SECRETS}@", "<% $secrets.luigi_pai %>") for each in role.commands
            ]
        return protocol.filled(secrets={"luigi_pai": secrets})


def payload_of(kind: type, base: type, packages: Any, secrets: Secrets, *, function: str = "") -> Payload:
    """Return a payload. The arguments are the same as for ``Payload``; ``packages`` may be a single name.

    Raises:
        MissingPackage: cloudpickle is not installed here.
    """
    try:
        from luigi_pai.payload.file import Payload  # noqa: PLC0415  loads cloudpickle
    except ModuleNotFoundError:
        user = "Cluster.call()" if function else "PaiPythonTask"
        raise MissingPackage(f"{user} needs cloudpickle here: pip install cloudpickle") from None
    named = (packages,) if isinstance(packages, str) else packages
    return Payload(kind, base, named, secrets, function=function)


def contents(task: PaiPythonTask) -> Contents:
    """Return the objects that would be sent with a task's method. Makes no requests.

    Raises:
        SpecError: something cannot be sent.
        MissingPackage: cloudpickle is not installed here.
    """
    payload, *_ = task._parts("v2", has_files=True)  # noqa: SLF001  of this module
    return payload.contents(*task._values(payload))  # noqa: SLF001  as above


def _plain(value: Any) -> Any:
    """Return a parameter's value, with Luigi's own mappings replaced by dicts."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return tuple(map(_plain, value)) if type(value) is tuple else value
