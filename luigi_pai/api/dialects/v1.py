"""V1Dialect: the REST API of OpenPAI 0.7 to 0.14."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from luigi_pai.api.dialects.job_replies import job_status, listed_job, listed_jobs
from luigi_pai.api.dialects.log_files import LogFile
from luigi_pai.api.dialects.ssh import SshAccess, container_access
from luigi_pai.api.request_limits import Kind
from luigi_pai.api.wire.replies import check_stop, is_success, object_of
from luigi_pai.errors import InvalidReply, JobNotFound, PaiHttpError, Problem, SpecError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.paths import item_of
from luigi_pai.json_bodies import parse_json

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable

    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.protocol import JobProtocol

_JOBS = "/api/v1/jobs"
_LAUNCHER_HINT = (
    "the launcher of the cluster refused the job; the server does not pass on the reason. Launchers refuse "
    "memoryMB or cpuNumber of 0, negative gpuNumber, over-long names, and ports with a fixed number"
)
_NO_SSH = "none of its containers runs an ssh server (yet); the image must have openssh-server and curl"
_TILDE_HINT = "OpenPAI 0.8 to 0.14 do not allow '~' in a name; choose another name for the task"


class V1Dialect:
    """The requests in API version v1.

    Args:
        session: The connection to the rest-server.

    Attributes:
        version: The value of ``api_version``.
        job_name: Returns a job's name in characters that the servers allow; v1 servers allow all.
        gives_logs: Whether the rest-server serves task logs (1.4 and later).
        whole_lists: Whether a list contains all of a user's jobs. LTP omits jobs in virtual clusters that the
            user may no longer use. Only LTP 1.5 is recognized, by its response for a missing job. After that
            response, ``whole_lists`` is False; until then, and for other releases of LTP, it is True.
        retention: How many seconds servers keep a finished job by default.
    """

    version = "v1"
    job_name: Callable[[str], str] = str
    gives_logs = False
    whole_lists = True
    retention = 12 * 3600.0

    def __init__(self, session: Session) -> None:
        self._session = session
        self._since_0_12 = False  # True once a response shows that the server is 0.12 or later

    def document(self, job: PaiJob | JobProtocol) -> dict[str, Any]:
        """Return the job config that is posted."""
        return _config_of(job).to_dict()

    def submit(self, job: PaiJob | JobProtocol) -> None:
        """Post a job. When this returns, the server has accepted it (202, or 201 since 0.12)."""
        config = _config_of(job)
        try:
            self._session.request("POST", _JOBS, body=config.to_json(), kind=Kind.SUBMIT)
        except PaiHttpError as error:
            if (error.code, error.server_message) == ("UnknownError", "Bad Request"):
                raise error.extended(_LAUNCHER_HINT) from None
            if error.code == "InvalidParametersError" and "~" in str(config.jobName):
                raise error.extended(_TILDE_HINT) from None
            raise

    def status(self, name: str) -> JobStatus:
        """Return a job's status."""
        body = self._session.request("GET", _path(name), authorize=False)
        status = job_status(name, body)
        self._since_0_12 |= "retryDetails" in body["jobStatus"]
        return status

    def check_there(self, name: str) -> None:
        """Send nothing, because ``status`` needs only one request for a job that does not exist."""

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return a job's status if ``number`` is its last start; these servers show no other start."""
        status = self.status(name)
        if status.retries != number:
            raise JobNotFound(f"this OpenPAI shows only start {status.retries} of job {name!r}, its last one")
        return status

    def list(
        self,
        username: str | None,
        *,
        states: Iterable[str] = (),
        tags: Iterable[str] = (),
        each: Callable[[Any], Any] = listed_job,
    ) -> list[Any]:
        """Return one user's or all users' jobs that the server still knows, in the server's order.

        ``each`` converts the entries of the list to JobStatus or JobRow.
        """
        del states, tags  # no filters, no tags
        query = "" if username is None else f"?username={quote(username, safe='')}"
        body = self._session.request("GET", f"{_JOBS}{query}", authorize=False, each=each)
        return listed_jobs(body)

    def stop(self, name: str) -> None:
        """Ask the server to stop a job.

        Raises:
            JobNotFound: The server knows no job with this name.
        """
        try:
            path = f"{_path(name)}/executionType"
            check_stop(self._session.request("PUT", path, body={"value": "STOP"}), name)
        except PaiHttpError as error:
            if (error.status, error.code) != (404, "UnknownError"):
                raise
            # 0.7 forwards the launcher's response for a job that does not exist
            raise JobNotFound(
                f"job {name!r} was not stopped: the server has no job of that name",
                status=404,
                code=error.code,
                server_message=error.server_message,
            ) from None

    def config(self, name: str) -> dict[str, Any]:
        """Return the job config that a job was submitted with.

        The response is a JSON object on 0.7, and a string that contains the JSON on 0.8 to 0.11.
        """
        path = f"{_path(name)}/config"
        body = self._session.request("GET", path, authorize=False)
        if isinstance(body, str):
            try:
                body = parse_json(body.encode("utf-8", "surrogatepass"))
            except ValueError:
                raise InvalidReply(f"the response to {path} is a string without JSON") from None
        return object_of(body, path)

    def output_folder(self, config: dict[str, Any]) -> str | None:
        """Return ``outputDir``, in which the server replaced $PAI_DEFAULT_FS_URI with its HDFS URI."""
        folder = config.get("outputDir")
        return folder if isinstance(folder, str) and folder else None

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return an empty list, because these servers do not support events."""
        del name
        return []

    def add_tag(self, name: str, tag: str) -> None:
        """Send nothing, because these servers do not support tags."""

    def task_logs(self, status: JobStatus, role: str, index: int) -> tuple[LogFile, ...]:
        """Return the pages of a task's logs on its YARN node, which this machine may be unable to reach."""
        pages = [task.log_url for task in status.tasks if (task.role, task.index) == (role, index)]
        page = next(iter(pages), None)
        if page is None:
            return ()
        return tuple(LogFile(name, f"{page.rstrip('/')}/{name}", paged=True) for name in ("stdout", "stderr"))

    def ssh(self, name: str) -> SshAccess:
        """Return the containers with an ssh server and the key that the launcher created for the job.

        Raises:
            ClusterUnreachable, InvalidReply: The key cannot be read from the URL that the server sends.
        """
        body = self._session.request("GET", _path(name), authorize=False)
        try:
            info = self._session.request("GET", f"{_path(name)}/ssh", authorize=False)
        except PaiHttpError as error:
            if error.code != "NoJobSshInfoError":
                raise
            return SshAccess({}, missing=_NO_SSH)
        pair = object_of(info, f"{_path(name)}/ssh").get("keyPair")
        link = str(item_of(pair, "privateKeyDirectDownloadLink") or "")
        if not link.startswith(("http://", "https://")):
            raise InvalidReply(f"the server sent no link to the private key of job {name!r}")
        response = self._session.get(link)
        if not is_success(response) or "PRIVATE KEY" not in response.text:
            where = f"{link.partition('?')[0]} ({response.status_code})"
            raise InvalidReply(f"the private key of job {name!r} is not at {where}")
        return container_access(body, info, response.text)

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with their capacity and usage."""
        path = "/api/v1/virtual-clusters"
        return object_of(self._session.request("GET", path, authorize=False), path)

    def info(self) -> dict[str, Any]:
        """Return an empty object, because these servers do not report their name and version."""
        return {}

    def storages(self) -> builtins.list[dict[str, Any]]:
        """Return an empty list, because jobs on these servers cannot mount storages."""
        return []

    def page(self, name: str, username: str) -> str:
        """Return the path of a job's page: ``view.html`` up to 0.11, ``job-detail.html`` since 0.12.

        On 0.11, the path is wrong: 0.11 uses ``job-detail.html`` but sends the same responses as 0.10.
        """
        del username  # if the URL names a user, the page searches for another kind of job and finds none
        page = "job-detail.html" if self._since_0_12 else "view.html"
        return f"{page}?{urlencode({'jobName': name})}"


def _config_of(job: PaiJob | JobProtocol) -> PaiJob:
    if isinstance(job, PaiJob):
        return job
    problem = (
        "is a job in the YAML protocol, and this cluster (OpenPAI 0.7 to 0.14, API version v1) runs v1 job "
        "configs only; use PaiJob or PaiTask"
    )
    raise SpecError(str(job.name), [Problem("", problem)])


def _path(name: str) -> str:
    return f"{_JOBS}/{quote(name, safe='')}"
