"""V2Dialect: the REST API of OpenPAI 0.15 to 1.8 and its successor LTP."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from luigi_pai.api.dialects.job_replies import job_status, listed_job, listed_jobs
from luigi_pai.api.dialects.log_files import LogFile
from luigi_pai.api.dialects.ssh import SshAccess, plugin_access
from luigi_pai.api.request_limits import Kind
from luigi_pai.api.wire.refusals import with_explanation
from luigi_pai.api.wire.replies import check_stop, object_of, objects_of
from luigi_pai.errors import (
    AuthenticationError,
    JobNotFound,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import base_name, v2_name

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable

    from luigi_pai.api.dialects.storages import JobStorage
    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.convert import Conversion
    from luigi_pai.jobspec.protocol import JobProtocol

logger = logging.getLogger(__name__)

_API = "/api/v2"
_JOBS = f"{_API}/jobs"
_PAGE = 5000  # jobs on the first page, the default of the servers; they accept up to 50,000
_LATER_PAGES = 20_000  # jobs on each later page, for fewer requests
_MOST_PAGES = 50
_NO_TASK = "/attempts/0/taskRoles/none/taskIndex/0/attempts"


class V2Dialect:
    """The requests in API version v2.

    A job's full name is ``USER~NAME``. Every method about a job takes only its NAME, because USER is the
    session's user.

    Args:
        session: The connection to the rest-server.
        fs_uri: Value of ``$PAI_DEFAULT_FS_URI``, for v1 jobs.
        storage: The storage that v1 jobs mount; None if there is none.

    Attributes:
        version, job_name, gives_logs, whole_lists, retention: See ``V1Dialect``.
    """

    version = "v2"
    job_name = staticmethod(v2_name)
    gives_logs = True
    whole_lists = True
    retention = 30 * 86400.0

    def __init__(
        self, session: Session, fs_uri: str | None = None, storage: JobStorage | None = None
    ) -> None:
        self._session = session
        self._storage = storage
        self._user = session.account.username
        self._fs_uri = fs_uri

    # jobs

    def document(self, job: PaiJob | JobProtocol) -> dict[str, Any]:
        """Return the job protocol that ``submit`` posts, but with ``******`` instead of its secrets."""
        from luigi_pai.jobspec.templates.secrets import masked  # noqa: PLC0415  slow, not needed for v1

        return masked(self._protocol(job).to_dict())

    def submit(self, job: PaiJob | JobProtocol) -> None:
        """Post a job. When this returns, the server has accepted it (202).

        Raises:
            SpecError: The job cannot be converted.
            PaiHttpError: The server rejected the job. The message lists the problems.
        """
        from luigi_pai.jobspec.submission import submission_text  # noqa: PLC0415  as above

        protocol = self._protocol(job, log_losses=True)
        document = submission_text(protocol, is_checked=protocol is job)
        try:
            self._session.request("POST", _JOBS, body=document, content_type="text/yaml", kind=Kind.SUBMIT)
        except PaiHttpError as error:
            raise with_explanation(error, f"POST {self._session.url(_JOBS)}") from None

    def _protocol(self, job: PaiJob | JobProtocol, *, log_losses: bool = False) -> JobProtocol:
        """Return a job as a protocol; a v1 job is converted.

        Raises:
            SpecError: The job cannot be converted.
        """
        if not isinstance(job, PaiJob):
            return job
        conversion = self.conversion(job)
        if log_losses:
            for loss in conversion.notable_losses:
                name = rf"(?<![\w.~-]){re.escape(base_name(job.jobName))}(?![\w.~-])"
                message = loss.path if loss.path == "jobName" else str(loss)
                kind = re.sub(name, "", message)  # without the name, so that similar jobs log it only once
                if self._session.times(kind) == 1:
                    logger.warning("Job %s, and others like it, on a v2 cluster: %s", job.jobName, loss)
        return conversion.protocol

    def conversion(self, job: PaiJob) -> Conversion:
        """Convert a v1 job to a protocol that mounts the storage, and list the features it drops.

        Raises:
            SpecError: The job cannot be converted.
            ConfigError: The storage does not exist, or is not writable.
        """
        from luigi_pai.jobspec.convert import convert  # noqa: PLC0415  as above

        section, mount = (
            self._session.account.section,
            None if self._storage is None else self._storage.mount(),
        )
        folders = [path for path in (job.outputDir, job.codeDir, job.dataDir) if path]
        if mount is None or not self._fs_uri or any(map(mount.has, folders)):
            return convert(job, fs_uri=self._fs_uri, section=section, storage=mount)
        from luigi_pai.jobspec.storage.mount import with_storage  # noqa: PLC0415  few clusters have both

        conversion = convert(job, fs_uri=self._fs_uri, section=section)
        return replace(conversion, protocol=with_storage(conversion.protocol, mount))

    def status(self, name: str) -> JobStatus:
        """Return a job's status."""
        return job_status(v2_name(name), self._of_job(name))

    def check_there(self, name: str) -> None:
        """Raise an error if a job does not exist. On LTP, this takes one request, while ``status`` takes two.

        Raises:
            JobNotFound: The server knows no job with this name.
            ServerFault: The database has failed.
        """
        if (missing := self._missing(name, self._path(name))) is not None:
            raise missing

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return the status of a job's attempt ``number`` (1.1 and later); the first attempt is 0.

        Raises:
            ServerFault: The server failed, or LTP 1.5 does not have the attempt.
        """
        return job_status(v2_name(name), self._of_job(name, f"/attempts/{number}"))

    def list(
        self,
        username: str | None = None,
        *,
        states: Iterable[str] = (),
        tags: Iterable[str] = (),
        each: Callable[[Any], Any] = listed_job,
    ) -> list[Any]:
        """Return one user's or all users' jobs, newest first; the server sends them in pages.

        0.15 does not support filters. 0.16 to 1.1 can filter by ``username``, 1.2 also by ``states``, and
        later releases also by ``tags``. If LTP refuses to list all users' jobs, the jobs in the user's
        virtual clusters are returned. For ``each``, see ``V1Dialect``.
        """
        query = {"state": ",".join(states), "tagsContain": ",".join(tags), "username": username or ""}
        try:
            return self._list(query, username, each)
        except PermissionRefused:
            if username is not None:
                raise
        return self._list({**query, "vc": ",".join(self.virtual_clusters())}, None, each)

    def _list(
        self, given: dict[str, str], username: str | None, each: Callable[[Any], Any]
    ) -> builtins.list[Any]:
        query = {key: value for key, value in given.items() if value}
        jobs: dict[tuple[str | None, str], Any] = {}
        offset = 0
        for page in range(_MOST_PAGES):
            size = _LATER_PAGES if page else _PAGE
            shown = urlencode({**query, "offset": offset, "limit": size})
            body = self._session.request("GET", f"{_JOBS}?{shown}", kind=Kind.LIST, each=each)
            rows, known = listed_jobs(body), len(jobs)
            for job in rows:
                jobs.setdefault((job.username, job.name), job)
            if len(rows) != size or len(jobs) == known:  # the last page, or a server without pages
                break
            offset += size
        return [job for job in jobs.values() if username is None or job.username in (None, username)]

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        path = f"{self._path(name)}/executionType"
        check_stop(self._session.request("PUT", path, body={"value": "STOP"}), name)

    def config(self, name: str) -> dict[str, Any]:
        """Return the job protocol that a job was submitted with, with its secrets as ``******``.

        0.15 stores and sends the secrets in plain text, so they are also replaced here.
        """
        from luigi_pai.jobspec.templates.secrets import masked  # noqa: PLC0415  as above

        return masked(self._object_of_job(name, "/config"))

    def output_folder(self, config: dict[str, Any]) -> str | None:
        """Return the URI of the prerequisite of type output; None if there is none or more than one."""
        prerequisites = objects_of(config, "prerequisites")
        outputs = [each.get("uri") for each in prerequisites if each.get("type") == "output"]
        only = outputs[0] if len(outputs) == 1 else None
        return only if isinstance(only, str) and only else None

    def page(self, name: str, username: str) -> str:
        """Return the path of a job's page."""
        return f"job-detail.html?{urlencode({'username': username, 'jobName': name})}"

    # logs, events, tags

    def task_logs(self, status: JobStatus, role: str, index: int) -> tuple[LogFile, ...]:
        """Return the logs of a task's last attempt.

        Raises:
            PaiHttpError: ``NoApiError``, sent by releases before 1.4, which do not serve logs.
        """
        attempts = [task.attempt for task in status.tasks if (task.role, task.index) == (role, index)]
        task = f"/attempts/{status.attempt or 0}/taskRoles/{quote(role, safe='')}/taskIndex/{index}"
        path = f"{task}/attempts/{next(iter(attempts), None) or 0}/logs"
        try:
            body = self._object_of_job(status.name, path)
        except PaiHttpError as error:
            if error.code != "NoApiError":
                raise
            self.gives_logs = False
            raise error.reworded("OpenPAI before 1.4 serves no logs") from None
        return tuple(
            LogFile(str(place.get("name")), place["uri"])
            for place in objects_of(body, "locations")
            if isinstance(place.get("uri"), str)
        )

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return a job's Kubernetes events (1.3 and later)."""
        return objects_of(self._object_of_job(name, "/events"), "data")

    def add_tag(self, name: str, tag: str) -> None:
        """Add a tag to a job (1.3 and later)."""
        self._session.request("PUT", f"{self._path(name)}/tag", body={"value": tag})

    # the cluster

    def info(self) -> dict[str, Any]:
        """Return the server's ``name``, ``version``, ``launcherType`` and ``authnMethod`` (1.0 and later)."""
        return self._object(f"{_API}/info")

    def ssh(self, name: str) -> SshAccess:
        """Return the ssh access to a job's containers. The job needs an ssh plugin with a public key."""
        return plugin_access(self._of_job(name), self.config(name))

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with their capacity and usage."""
        return self._object(f"{_API}/virtual-clusters")

    def storages(self) -> builtins.list[dict[str, Any]]:
        """Return the storages that the user may mount (1.0 and later)."""
        return objects_of(self._object(f"{_API}/storages"), "storages")

    def _path(self, name: str) -> str:
        return f"{_JOBS}/{quote(self._user, safe='')}~{v2_name(name)}"

    def _object_of_job(self, name: str, rest: str) -> dict[str, Any]:
        return object_of(self._of_job(name, rest), self._path(name) + rest)

    def _of_job(self, name: str, rest: str = "") -> Any:
        """Send a GET request for a job's path followed by ``rest``; return the response's JSON.

        Raises:
            JobNotFound: The job does not exist.
        """
        path = self._path(name) + rest
        try:
            return self._session.request("GET", path)
        except ServerFault as error:
            message = self._session.redacted(f"Failed to retrieve job {self._user}~{v2_name(name)}.")
            if (error.status, error.code, error.server_message) != (500, "UnknownError", message):
                raise
            fault = error
        self.whole_lists = False
        raise self._missing(name, path) or fault

    def _missing(self, name: str, path: str) -> JobNotFound | None:
        """Return the error for a job that does not exist; None if the job exists.

        LTP 1.5 sends the same response, 500 "Failed to retrieve job", for a missing job and for a database
        failure. A second request, for a task that no job has, distinguishes the two cases.

        Args:
            name: The job's name.
            path: The path of the first request, for the error.

        Raises:
            ServerFault: The database has failed.
        """
        try:
            self._session.request("GET", self._path(name) + _NO_TASK)
        except (AuthenticationError, RateLimited, ServerFault):
            raise
        except PaiHttpError as error:
            message = self._session.redacted(f"Job {self._user}~{v2_name(name)} is not found.")
            if isinstance(error, JobNotFound) and error.server_message == message:
                return error.reworded(f"GET {self._session.url(path)}: {message}")
        return None  # the task is missing, not the job

    def _object(self, path: str) -> dict[str, Any]:
        return object_of(self._session.request("GET", path), path)
