"""RestApi: a cluster's REST API, accessed as one user, in the server's dialect."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.dialects.log_files import LogFiles
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobList, JobState
from luigi_pai.errors import ServerFault

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable

    from luigi_pai.api.dialects.detection import Dialect, DialectDetector
    from luigi_pai.api.dialects.ssh import SshAccess
    from luigi_pai.api.polling import Polling
    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus

PATIENCE = 3.0
"""How long to retry a request that is safe to repeat, in seconds, if the caller sets no other limit."""

T = TypeVar("T")


class JobRequests:
    """The requests about jobs that ``RestApi`` and ``Cluster`` have in common.

    Attributes:
        username: The owner of the jobs.
    """

    username: str
    _detector: DialectDetector
    _portal_url: str

    def _call(self, request: Callable[[Dialect], T]) -> T:
        """Make a request that is safe to repeat."""
        return self._detector.call(request)

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return a job's status at one of its starts by the cluster (on v1, only the last).

        Args:
            name: The job's name.
            number: The start's number; the first is 0.

        Raises:
            JobNotFound: There is no such job, or the job has no such start.
        """
        return self._call(lambda dialect: dialect.attempt(name, number))

    def list(
        self, *, username: str | None = "", states: str | Iterable[str] = (), tags: str | Iterable[str] = ()
    ) -> JobList:
        """Return the jobs that the server still knows, in the server's order.

        Args:
            username: The jobs' owner; default: this user; None: all users.
            states: Return only jobs in this state or in one of these states: ``WAITING``, ``RUNNING`` (with
                ``COMPLETING``), ...
            tags: Return only jobs with this tag or one of these tags (1.3 and later; earlier releases have
                no tags).

        Raises:
            ValueError: There is no such state.
        """
        username = self.username if username == "" else username
        wanted = frozenset(state.upper() for state in ([states] if isinstance(states, str) else states))
        tagged = frozenset([tags] if isinstance(tags, str) else tags)
        if unknown := sorted(wanted - {state.value for state in JobState}):
            raise ValueError(
                f"states: {unknown[0]!r} is not one of {', '.join(state.value for state in JobState)}"
            )
        jobs = self._call(lambda dialect: dialect.list(username, states=wanted, tags=tagged))
        if JobState.RUNNING.value in wanted:  # most servers use it for jobs that are COMPLETING
            wanted |= {JobState.COMPLETING.value}
        found = (
            job
            for job in jobs
            if (username is None or job.username in (None, username))
            and (not wanted or job.state.value in wanted)
            and (not tagged or not tagged.isdisjoint(job.tags))
        )
        return JobList(found, self.page)

    def add_tag(self, name: str, tag: str) -> None:
        """Add a tag to a job (1.3 and later; 0.7 to 0.14 do not support tags, so nothing is sent)."""
        self._detector.call(lambda dialect: dialect.add_tag(name, tag))

    def config(self, name: str) -> dict[str, Any]:
        """Return a job's config or protocol as stored by the server, with secrets as ``******``."""
        return self._call(lambda dialect: dialect.config(name))

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return a job's events (1.3 and later). v1 servers have none; 0.15 to 1.2 send an error."""
        return self._detector.call_detected(lambda dialect: dialect.events(name))

    def ssh(self, name: str) -> SshAccess:
        """Return how to reach a job's running containers by ssh."""
        return self._call(lambda dialect: dialect.ssh(name))

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with their capacity and usage as reported by the server.

        0.15 to 1.0 answer the v1 request with a 5xx, which looks like a failure, so check the version first.
        """

        def request(dialect: Dialect) -> dict[str, Any]:
            try:
                return dialect.virtual_clusters()
            except ServerFault as error:
                if self._detector.known is not None or error.mocked or self._detector.detect() == "v1":
                    raise
            return self._detector.current.virtual_clusters()

        return self._call(request)

    def page(self, name: str, username: str | None = None) -> str:
        """Return the URL of a job's page in the web portal; ``username`` is this user by default."""
        return f"{self._portal_url}/{self._detector.current.page(name, username or self.username)}"


class RestApi(JobRequests):
    """Requests to one rest-server. ``Book`` caches job statuses; this class does not.

    Args:
        session: The connection.
        detector: Returns the dialect, which it detects from responses.
        portal_url: The web portal.
        polling: How often to look up jobs, and how long to retry after transient errors.
        retention: How long the server keeps a finished job, in seconds; None: the release's default.

    Attributes:
        session, detector, polling: The constructor's arguments.
        url, username, section, clock: The values of the session and its account.
    """

    def __init__(
        self,
        session: Session,
        detector: DialectDetector,
        portal_url: str,
        polling: Polling,
        retention: float | None = None,
    ) -> None:
        self.session = session
        self._detector = self.detector = detector
        self._portal_url = portal_url
        self.polling = polling
        self._retention = retention
        self.url = session.account.url
        self.username = session.account.username
        self.section = session.account.section
        self.clock = session.clock

    @functools.cached_property
    def log_files(self) -> LogFiles:
        """Fetches the logs that a dialect's ``task_logs`` returns."""
        return LogFiles(self.session, self._portal_url)

    def with_version(self, api_version: str) -> RestApi:
        """Return the same API with a fixed dialect; the connections are shared."""
        view = copy.copy(self)
        view._detector = view.detector = self.detector.with_version(api_version)  # noqa: SLF001  of this class
        return view

    @property
    def dialect(self) -> Dialect:
        """The cluster's dialect; v1 until it is known."""
        return self.detector.current

    # jobs

    def job_name(self, name: str) -> str:
        """Return a job's name on this cluster, in characters that the dialect allows."""
        return self.dialect.job_name(name)

    def status(self, name: str) -> JobStatus:
        """Return a job's status.

        Raises:
            JobNotFound: The server knows no job with this name.
        """
        detector = self.detector
        status = detector.call(lambda dialect: dialect.status(name))
        if detector.known is None and status.identified:
            if "~" in name and detector.detect() == "v2":  # v2 reads the name as USER~NAME
                return self.status(name)
            detector.record("v1")
        return status

    def stop(self, name: str) -> None:
        """Ask the server to stop a job. See ``stop_surely``."""
        self.detector.call(lambda dialect: dialect.stop(name))

    def stop_surely(self, name: str, patience: float = PATIENCE) -> None:
        """Ask the server to stop a job; retry for ``patience`` seconds after transient errors."""
        self.repeat(lambda: self.stop(name), patience, f"stop of job {name}")

    def repeat(self, request: Callable[[], T], patience: float = PATIENCE, subject: str = "") -> T:
        """Make a request that is safe to repeat and return its result; retry after transient errors.

        Args:
            request: The request.
            patience: How long to keep retrying, in seconds; at least 20 s after ``TokenLost``. If a rate
                limit lasts longer than ``patience``, the request is not retried.
            subject: A description of the request for the log.
        """
        retry = Retry(patience, self.clock, subject, longest=patience, token_limit=self.polling.patience)
        return retry.call(request)

    def retention(self) -> float:
        """Return how many seconds the server keeps a finished job.

        Without a setting, this is the default for the server's release, which may take a request for the
        version.
        """
        return self.detector.retention() if self._retention is None else self._retention
