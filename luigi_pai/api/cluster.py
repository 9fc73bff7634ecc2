"""Cluster: an OpenPAI cluster as one user of it."""

from __future__ import annotations

import contextlib
import copy
import logging
from typing import TYPE_CHECKING, Any

from luigi_pai.api.board import Board
from luigi_pai.api.caches import Cache, FinishedJobs, Lookup, Outage
from luigi_pai.api.clock import Clock
from luigi_pai.api.dialects.detection import DialectDetector
from luigi_pai.api.job import Job
from luigi_pai.api.logs.files import LogFiles
from luigi_pai.api.polling import Polling
from luigi_pai.api.request_limits import Kind
from luigi_pai.api.retries import run_steps
from luigi_pai.api.server import Server, default_portal
from luigi_pai.api.session import Account, Session
from luigi_pai.api.shared_state import SharedState
from luigi_pai.api.submissions import Submissions, validated_name
from luigi_pai.api.wire.refusals import with_virtual_clusters
from luigi_pai.errors import JobNotFound, PaiApiError, PaiHttpError
from luigi_pai.spec.job import PaiJob

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable

    from luigi_pai.api.dialects.dialect import Dialect
    from luigi_pai.api.dialects.ssh import SshAccess
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.submissions import LatestSubmission
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["Cluster"]

logger = logging.getLogger(__name__)


class Cluster:
    """An OpenPAI cluster, as one user of it. Making one makes no request.

    It owns the connections, the token, the dialect and the caches of job states. It is safe to share
    between threads and over a fork: forked processes share the token, the dialect and the request
    limits. ::

        cluster = Cluster("http://HOST:9186", "anna", password="...")
        job = cluster.submit(PaiJob("hello", "python:3", [TaskRole("main", "echo hello")]))
        print(job.wait().state, job.url)

    With ``api_version="auto"`` it starts with v1 and detects v2 from the replies; a server that may be
    of 0.15 to 1.0 gets one request for its version (``GET /api/v1/``). Every method raises
    ``PaiApiError`` or one of its subclasses.

    Args:
        url: the rest-server, with its path if it has one.
        username: whose jobs these are.
        password: for the login; not needed with ``token``.
        token: an application token (0.16 and later), used in place of the password.
        api_version: ``auto``, ``v1`` (OpenPAI 0.7 to 0.14) or ``v2`` (0.15 to 1.8, LTP).
        portal_url: the web portal; default: derived from ``url``.
        fs_uri: value of ``$PAI_DEFAULT_FS_URI``, for v1 jobs on a v2 cluster.
        expiration: life of a login in seconds, 60 to 604800 (0.7 to 0.12; later servers ignore it).
        verify: check TLS certificates: True, False, or a file of CA certificates.
        connect_timeout, read_timeout: seconds. ``read_timeout`` bounds each silence of the server.
        polling: how often jobs are looked up, and how long transient errors are retried.
        retention: seconds for which the server keeps an ended job; default: that of the release
            (12 hours up to 0.17, 30 days later).
        section: of luigi.cfg, for errors: ``OpenPai`` or ``OpenPai:NAME``.
        clock: measures all ages and waits.

    Attributes:
        url, username, polling, section, clock: as given.
        portal_url: the web portal.
        cache: for other modules, each with keys of its own; emptied by ``reset``.
        outage: whether the address did not answer just now.
        log_files: fetches the logs that a dialect's ``task_logs`` names.
    """

    def __init__(
        self,
        url: str,
        username: str,
        *,
        password: str | None = None,
        token: str | None = None,
        api_version: str = "auto",
        portal_url: str | None = None,
        fs_uri: str | None = None,
        expiration: int = 3600,
        verify: bool | str = True,
        connect_timeout: float = 10.0,
        read_timeout: float = 30.0,
        polling: Polling | None = None,
        retention: float | None = None,
        section: str = "OpenPai",
        clock: Clock | None = None,
    ) -> None:
        if api_version not in ("auto", "v1", "v2"):
            raise ValueError(f"api_version = {api_version!r} is not valid; use auto, v1 or v2")
        self.url = url
        self.username = username
        self.portal_url = (portal_url or default_portal(url)).rstrip("/")
        self.polling = polling or Polling()
        self.section = section
        self.clock = clock or Clock()
        self.cache = Cache()
        account = Account(
            url, username, password, token, expiration, verify, connect_timeout, read_timeout, section
        )
        self._state = SharedState()
        self._session = Session(account, self._state, self.clock)
        self._detector = DialectDetector(self._session, self._state, api_version, fs_uri)
        self._retention = retention
        self._finished = FinishedJobs(self.clock)
        self._board = Board(self._session, self._finished)
        self._lookups: Cache = Cache()
        self.outage = Outage(self._state, self.clock)
        self.log_files = LogFiles(self._session, self.portal_url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.username!r})"

    def with_api_version(self, api_version: str) -> Cluster:
        """Return this cluster with a fixed ``api_version``; connections, token and caches are shared."""
        view = copy.copy(self)
        view._detector = self._detector.with_version(api_version)  # noqa: SLF001  of this class
        return view

    @property
    def server(self) -> Server:
        """The server, for checks by people: who it is, the login, limits, storages."""
        return Server(self._session, self._detector)

    # jobs

    def submit(self, job: PaiJob | JobProtocol) -> Job:
        """Submit a job under its own name, once, and return its handle.

        If the reply is lost, the job is looked up before it is posted again. Transient errors are
        retried for ``polling.patience`` seconds.

        Raises:
            SpecError: the job cannot run as it is written; nothing was sent.
            NameConflict: the name is in use; ``cluster.job(name)`` is the handle of that job.
            PaiHttpError: the server refused the job; the text has the server's message.
            ClusterUnreachable: no reply; the job may have been submitted if ``answer_lost``.
        """
        name = validated_name(job)
        cluster = self
        if self._detector.given is None:
            cluster = self.with_api_version(self._detector.detect() if isinstance(job, PaiJob) else "v2")
        status = run_steps(Submissions(cluster, name).submit_new(job), self.clock.sleep)
        return Job(cluster, status.name, status)

    def job(self, name: str) -> Job:
        """Return the handle of a job."""
        return Job(self, name)

    def status(self, name: str) -> JobStatus:
        """Return the status of a job.

        The status of a finished job is cached for as long as the same server replies. (Replies of
        mocked tests without owner and submission time are not cached.)

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        epoch = self._session.connection_epoch
        dialect = self.dialect
        known = self._finished.get((dialect.version, dialect.job_name(name)), epoch)
        if known is not None:
            return known
        try:
            status = self._detector.call(lambda dialect: dialect.status(dialect.job_name(name)))
        except JobNotFound:
            self._cache_status(name, None)
            raise
        if self._detector.known is None and status.identified:
            if "~" in name and self._detector.detect() == "v2":  # it has read the name as USER~NAME
                return self.status(name)
            self._detector.record("v1")
        self._cache_status(name, status)
        self.outage.end()
        return status

    def lookup(self, name: str, *, may_list: bool = True) -> JobStatus:
        """Return the status of a job, as far as lists have it: for callers that look up many, one by one.

        The first two are looked up alone, as ``status`` does; then the user's list answers for all, unless
        it lacks a job. It has no tasks and no diagnostics. The status of a job that has not ended may be 10 s
        old, and is newer each time.

        Args:
            name: of the job.
            may_list: it is one of many; else it is looked up alone unless a list has been made.

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        dialect = self.dialect
        since = self._board.made_at(dialect)  # a list that another thread makes from here on is new
        known = self._board.answer(dialect, name)
        if known is not None:
            return known
        if may_list and self._detector.known is not None and self._board.is_worth_it(dialect, name):
            with contextlib.suppress(PaiApiError):
                self._board.refresh(dialect, self.list, since)
                known = self._board.answer(dialect, name)
                if known is not None:
                    return known
        try:
            status = self.status(name)
        except JobNotFound as error:
            if may_list and error.code is not None:  # not a bare 404 of a mocked test
                self._board.looked_up()
            raise
        if may_list and status.identified:
            self._board.looked_up()
        return status

    def listed(self, names: Iterable[str]) -> dict[str, JobStatus] | None:
        """Return what a new list says of jobs, by their names as given; None if there is none now.

        A job that the list lacks must be looked up alone. See ``list_wait``.
        """
        if self.list_wait() != 0:
            return None
        try:
            listing = self._board.refresh(self.dialect, self.list, since=self.clock.monotonic())
        except PaiApiError as error:
            logger.debug("Jobs are looked up one by one: %s", error)
            return None
        jobs, full = self._board.usable(listing), self.dialect.job_name
        return {name: jobs[full(name)] for name in names if full(name) in jobs}

    def list_wait(self) -> float | None:
        """Return the seconds until ``listed`` may be called, 0.0 for now; None if lists fail at present.

        Lists take at most half of the server's limit of lists, and at most a tenth of the time.
        """
        return None if self._detector.known is None else self._board.wait()

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return what the server says of one start of a job by the cluster, counted from 0 (1.1 and later).

        Raises:
            JobNotFound: there is no such job, or no such start of it.
        """
        return self._detector.call(lambda dialect: dialect.attempt(dialect.job_name(name), number))

    def list(
        self, *, username: str | None = "", states: Iterable[str] = (), tags: Iterable[str] = ()
    ) -> list[JobStatus]:
        """Return the jobs that the server still knows, in its order.

        Args:
            username: whose; this user's where not given, all users' for None.
            states: only jobs in one of these: ``WAITING``, ``RUNNING``, ...
            tags: only jobs with one of these tags (1.3 and later; earlier ones have none).
        """
        whose = self.username if username == "" else username
        wanted, tagged = frozenset(states), frozenset(tags)
        jobs = self._detector.call(lambda dialect: dialect.list(whose, states=wanted, tags=tagged))
        return [
            job
            for job in jobs
            if (whose is None or job.username in (None, whose))
            and (not wanted or job.state.value in wanted)
            and (not tagged or not tagged.isdisjoint(job.tags))
        ]

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        self._detector.call(lambda dialect: dialect.stop(dialect.job_name(name)))

    def config(self, name: str) -> dict[str, Any]:
        """Return a job as the server has stored it, secrets as ``******``."""
        return self._detector.call(lambda dialect: dialect.config(dialect.job_name(name)))

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return the events of a job (1.3 and later; before, an empty list)."""
        return self._detector.call(lambda dialect: dialect.events(dialect.job_name(name)))

    def ssh(self, name: str) -> SshAccess:
        """Return how the running containers of a job are reached by ssh."""
        return self._detector.call(lambda dialect: dialect.ssh(dialect.job_name(name)))

    def add_tag(self, name: str, tag: str) -> None:
        """Add a tag to a job (1.3 and later; 0.7 to 0.14 have no tags, and nothing is sent)."""
        self._detector.call(lambda dialect: dialect.add_tag(dialect.job_name(name), tag))

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with their capacity and usage as the server reports them."""
        return self._detector.call(lambda dialect: dialect.virtual_clusters())

    def page(self, name: str, username: str | None = None) -> str:
        """Return the URL of a job's page in the web portal; the user is the Cluster's by default."""
        return f"{self.portal_url}/{self.dialect.page(name, username or self.username)}"

    # state

    @property
    def dialect(self) -> Dialect:
        """The dialect of the cluster; v1 as long as it is not known."""
        return self._detector.current

    @property
    def answered(self) -> bool:
        """Whether the server has ever sent a reply of any kind."""
        return self._session.answered

    def job_name(self, name: str) -> str:
        """Return the name of a job on this cluster: v2 allows fewer characters than v1."""
        return self.dialect.job_name(name)

    def retention(self) -> float:
        """Return for how many seconds the server keeps an ended job.

        That is the setting, or the default of the release, which costs a request if it is not known.
        """
        return self._detector.retention() if self._retention is None else self._retention

    def polling_wait(self) -> float:
        """Return for how many seconds polling should pause to stay within the server's request limit."""
        return self._session.limits.polling_wait()

    def submission_window(self) -> Window | None:
        """Return how many submissions the server takes, and still takes; None where no limit is known."""
        return self._session.limits.window(Kind.SUBMIT)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._session.close()

    def reset(self) -> None:
        """Close the connections and forget token, dialect, limits and jobs."""
        self.close()
        with self._state.update() as state:
            state.clear()
        for cache in (self._finished, self._board, self._lookups, self.cache):
            cache.clear()

    # for Submissions and the tasks

    def post(self, job: PaiJob | JobProtocol) -> None:
        """Post a job in the current dialect; for ``Submissions``, which knows when that is safe.

        Raises:
            PaiHttpError: the job was refused. ``dialect`` has changed if the refusal shows that the
                server speaks the other one.
        """
        dialect = self.dialect
        try:
            dialect.submit(job)
        except PaiHttpError as error:
            self._detector.record_refusal(dialect, error)
            setting = "virtual_cluster of the task" if isinstance(job, PaiJob) else "defaults.virtualCluster"
            raise with_virtual_clusters(error, setting, dialect.virtual_clusters) from None

    def latest_submissions(self) -> dict[str, int]:
        """Return the number of the latest submission of each job submitted more than once, by name.

        They come from the user's list of jobs, which may be 10 s old: v2 servers allow 60 lists a minute.
        """
        return self._board.newest(self.dialect, self.list).latest

    def arrays(self) -> builtins.list[str]:
        """Return the names of the jobs that have many points of sweeps, newest first, from the same list."""
        return self._board.arrays(self.dialect, self.list)

    def add_array(self, name: str) -> None:
        """Note such a job that was submitted just now: the list may be older."""
        self._board.add_array(name)

    def cached_lookup(self, name: str) -> Lookup | None:
        """Return the last lookup of a task's submissions in this dialect."""
        lookup: Lookup | None = self._lookups.get(name)
        return lookup if lookup is not None and lookup.version == self.dialect.version else None

    def cache_lookup(self, name: str, found: LatestSubmission, *, reusable: bool) -> None:
        """Cache a lookup."""
        self._lookups.put(name, Lookup(found, self.dialect.version, self.clock.monotonic(), reusable))

    def drop_lookup(self, name: str) -> None:
        """Remove the last lookup of a task's submissions from the cache: it was out of date."""
        self._lookups.pop(name)

    # private

    def _cache_status(self, name: str, status: JobStatus | None) -> None:
        dialect = self.dialect
        key = dialect.version, dialect.job_name(name)
        self._finished.update(key, status, self._session.connection_epoch)
        self._board.seen(*key, found=status is not None)
