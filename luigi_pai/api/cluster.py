"""Cluster: everything that a process knows of a cluster and a user, and the jobs there."""

from __future__ import annotations

import copy
import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from luigi_pai.api.clock import Clock
from luigi_pai.api.job import Job
from luigi_pai.api.learning import SpokenDialect
from luigi_pai.api.memory import Ends, Lookup, Notes
from luigi_pai.api.retries import run_steps
from luigi_pai.api.session import Account, Session
from luigi_pai.api.shared import SharedState
from luigi_pai.api.submissions import Submissions
from luigi_pai.api.watcher import Polling
from luigi_pai.api.wire.refusals import HINTS
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, PaiHttpError
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import latest_attempts

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable

    from luigi_pai.api.dialect import Dialect, LogFile
    from luigi_pai.api.session import Greeting
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.submissions import Found
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["CLUSTERS", "Cluster", "Clusters", "reset_clusters"]

logger = logging.getLogger(__name__)

_LIST_KEPT = 10.0  # seconds
_DOWN_KEPT = 10.0  # seconds for which nobody else tries an address where nobody answered
_REST_PORT, _PORTAL_PORT = 9186, 9286  # of OpenPAI 0.x, where it is asked past its reverse proxy


class Cluster:
    """An OpenPAI cluster, as one user of it. Making one makes no request.

    It owns the connections, the token, the dialect and what is known of jobs, and is safe to
    share between threads and over a fork: what one process of a family learns of the token,
    the dialect and the request limits, all of them know. ::

        cluster = Cluster("http://HOST:9186", "anna", password="...")
        job = cluster.submit(PaiJob("hello", "python:3", [TaskRole("main", "echo hello")]))
        print(job.wait().state, job.url)

    It speaks the dialect that it is given, or learns it from the answers: it begins with
    v1. A server that does not know the v1 API says so; one that may be of 0.15 to 1.0 is asked
    what it is (``GET /api/v1/``), once. Every method raises the errors of ``PaiApiError``'s
    branch of the tree.

    Args:
        url: the rest-server, with its path if it has one.
        username: whose jobs these are.
        password: for the login; not needed with ``token``.
        token: an application token (0.16 and later), used in place of the password.
        api_version: ``auto``, ``v1`` (OpenPAI 0.7 to 0.14) or ``v2`` (0.15 to 1.8, LTP).
        portal_url: the web portal; guessed from ``url`` where not given.
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, for v1 jobs on a v2 cluster.
        expiration: life of a login in seconds, 60 to 604800 (0.7 to 0.12; later servers ignore it).
        verify: check TLS certificates: True, False, or a file of CA certificates.
        connect_timeout, read_timeout: seconds. ``read_timeout`` bounds each silence of the server.
        polling: how often jobs are looked up, and how long transient errors are retried.
        retention: seconds after its end for which the server knows a job; by release where not given
            (12 hours to 0.17, 30 days later).
        clock: measures all ages and waits.

    Attributes:
        url, username, polling, clock: as given.
        portal_url: the web portal.
        notes: what other rooms remember of this cluster's jobs, by keys of their own.
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
        clock: Clock | None = None,
    ) -> None:
        if api_version not in ("auto", "v1", "v2"):
            raise ValueError(f"api_version = {api_version!r} is none of auto, v1 and v2")
        self.url = url
        self.username = username
        self.portal_url = (portal_url or _portal_of(url)).rstrip("/")
        self.polling = polling or Polling()
        self.clock = clock or Clock()
        self.notes = Notes()
        account = Account(url, username, password, token, expiration, verify, connect_timeout, read_timeout)
        self._shared = SharedState()
        self._session = Session(account, self._shared, self.clock)
        self._speech = SpokenDialect(self._session, self._shared, api_version, fs_uri)
        self._retention = retention
        self._ends = Ends(self.clock)
        self._lookups: Notes = Notes()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.username!r})"

    def speaking(self, api_version: str) -> Cluster:
        """Return this cluster with the dialect fixed; connections, token and memory are the same."""
        view = copy.copy(self)
        view._speech = self._speech.fixed(api_version)  # noqa: SLF001  of this class
        return view

    # jobs

    def submit(self, job: PaiJob | JobProtocol) -> Job:
        """Submit a job under its own name, once, and return its handle.

        If the answer is lost, the job is looked up before it is posted again. Transient errors
        are retried for ``polling.patience`` seconds.

        Raises:
            SpecError: the job cannot run as it is written; nothing was sent.
            NameConflict: the name is in use; ``cluster.job(name)`` is the handle of that job.
            PaiHttpError: the server refused it, in its own words.
            ClusterUnreachable: nobody answered; it may have been submitted if ``answer_lost``.
        """
        name = _checked(job)
        cluster = self
        if self._speech.given is None:
            cluster = self.speaking(self._speech.decide() if isinstance(job, PaiJob) else "v2")
        status = run_steps(Submissions(cluster, name).submit_new(job), self.clock.sleep)
        return Job(cluster, status.name, status)

    def job(self, name: str) -> Job:
        """Return the handle of a job."""
        return Job(self, name)

    def status(self, name: str) -> JobStatus:
        """Return what the server says of a job.

        An end is final: once seen, it is remembered as long as the same server answers.
        (The bare replies of mocked tests, which do not say whose job it is and from when,
        are not remembered.)

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        epoch = self._session.connection_epoch
        dialect = self.dialect
        known = self._ends.trusted((dialect.version, dialect.job_name(name)), epoch)
        if known is not None:
            return known
        try:
            status = self._speech.ask(lambda speaks: speaks.status(speaks.job_name(name)))
        except JobNotFound:
            self._confirm(name, None)
            raise
        if self._speech.known is None and status.identified:
            if "~" in name and self._speech.decide() == "v2":  # there, it was read as USER~NAME
                return self.status(name)
            self._speech.learn("v1")
        self._confirm(name, status)
        if "down" in self._shared.read():
            with self._shared.update() as state:
                state.pop("down", None)
        return status

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return what the server says of one start of a job by the cluster, counted from 0 (1.1 and later).

        Raises:
            JobNotFound: there is no such job, or no such start of it.
        """
        return self._speech.ask(lambda dialect: dialect.attempt(dialect.job_name(name), number))

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
        jobs = self._speech.ask(lambda dialect: dialect.list(whose, states=wanted, tags=tagged))
        return [
            job
            for job in jobs
            if (whose is None or job.username in (None, whose))
            and (not wanted or job.state.value in wanted)
            and (not tagged or not tagged.isdisjoint(job.tags))
        ]

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        self._speech.ask(lambda dialect: dialect.stop(dialect.job_name(name)))

    def config(self, name: str) -> dict[str, Any]:
        """Return a job as the server has stored it."""
        return self._speech.ask(lambda dialect: dialect.config(dialect.job_name(name)))

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return what the cluster recorded of a job (1.3 and later; else nothing)."""
        return self._speech.ask(lambda dialect: dialect.events(dialect.job_name(name)))

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with what they have and what of it is in use."""
        return self._speech.ask(lambda dialect: dialect.virtual_clusters())

    def greeting(self) -> Greeting:
        """Ask who is at the address; whatever answers is described, not judged."""
        return self._session.greeting()

    def token_life(self) -> float | None:
        """Log in where there is no token yet, and return for how many seconds it lives, if it says so."""
        return self._session.token_life()

    def decide_dialect(self) -> str:
        """Return ``v1`` or ``v2``; where it is not known, the server is asked what it is, once."""
        return self._speech.decide()

    def info(self) -> dict[str, Any]:
        """Return the server's ``name``, ``version`` and ``launcherType`` (1.0 and later; else nothing)."""
        return self._speech.ask(lambda dialect: dialect.info())

    def storages(self) -> builtins.list[dict[str, Any]]:
        """Return the storages that the user may mount (1.0 and later; else none)."""
        return self._speech.ask(lambda dialect: dialect.storages())

    def requests_left(self) -> dict[str, tuple[int, float]]:
        """Return of each request limit that the server has named how many are left, for how many seconds."""
        return self._session.limits.left()

    def page(self, name: str, username: str | None = None) -> str:
        """Return the address of a job's page in the web portal; of this user's job, or of another's."""
        return f"{self.portal_url}/{self.dialect.page(name, username or self.username)}"

    def log_text(self, file: LogFile) -> str:
        """Return the text of a log."""
        return self._session.text(urljoin(f"{self.portal_url}/", file.uri))

    def log_part(self, file: LogFile, start: int, size: int) -> tuple[bytes, int]:
        """Return a part of a log, and its length now.

        Args:
            file: the log.
            start: first byte; negative: so many before the end.
            size: how many bytes at most; without meaning where ``start`` is negative.
        """
        url = urljoin(f"{self.portal_url}/", file.uri)
        if file.paged:
            content = self._session.part_of_page(url, start, size)
            return content, start + len(content)
        return self._session.part(url, start, size)

    # what is known

    @property
    def dialect(self) -> Dialect:
        """The dialect that the cluster speaks, as far as it is known by now; else v1."""
        return self._speech.current

    @property
    def answered(self) -> bool:
        """Whether the server has ever answered, with anything."""
        return self._session.answered

    def job_name(self, name: str) -> str:
        """Return the name that a job has on this cluster: v2 knows fewer characters than v1."""
        return self.dialect.job_name(name)

    def retention(self) -> float:
        """Return for how many seconds after its end the server knows a job.

        It is the setting, or the default of the release, which is asked for where it is not known.
        """
        return self._speech.retention() if self._retention is None else self._retention

    def polling_wait(self) -> float:
        """Return for how many seconds polling should pause to keep the server's request limit."""
        return self._session.limits.polling_wait()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._session.close()

    def reset(self) -> None:
        """Close the connections and forget all that is known: token, dialect, limits and jobs."""
        self.close()
        with self._shared.update() as state:
            state.clear()
        for memory in (self._ends, self._lookups, self.notes):
            memory.clear()

    # for the submissions and the tasks

    def post(self, job: PaiJob | JobProtocol) -> None:
        """Post a job in the dialect of this moment; for ``Submissions``, which knows when that is safe.

        Raises:
            PaiHttpError: it was refused. If the server turned out to speak the other dialect,
                ``dialect`` is that one now.
        """
        dialect = self.dialect
        try:
            dialect.submit(job)
        except PaiHttpError as error:
            self._speech.learn_from_refusal(dialect, error)
            raise self._with_hints(error, dialect, job) from None

    def latest_submissions(self) -> dict[str, int]:
        """Return the numbers of the latest submissions after the first, by name, as of some seconds ago.

        They come from the user's list, which v2 servers give out 60 times a minute.
        """
        now = self.clock.monotonic()
        version = self.dialect.version
        known = self._shared.read().get("listed")
        if known is not None and known[0] == version and now - known[1] < _LIST_KEPT and now >= known[1]:
            latest: dict[str, int] = known[2]
            return latest
        latest = latest_attempts(job.name for job in self.list())
        with self._shared.update() as state:
            state["listed"] = [version, self.clock.monotonic(), latest]
        return latest

    def lookup_of(self, name: str) -> Lookup | None:
        """Return the last lookup of a piece of work in this dialect."""
        lookup: Lookup | None = self._lookups.get(name)
        return lookup if lookup is not None and lookup.version == self.dialect.version else None

    def note_lookup(self, name: str, found: Found, *, reusable: bool) -> None:
        """Record a lookup."""
        self._lookups.put(name, Lookup(found, self.dialect.version, self.clock.monotonic(), reusable))

    def forget_lookup(self, name: str) -> None:
        """Forget the last lookup of a piece of work: it was out of date."""
        self._lookups.pop(name)

    def check_reachable(self) -> None:
        """Raise what another lookup of the last seconds ran into, if nobody answered it.

        Raises:
            ClusterUnreachable: that nobody did.
        """
        down = self._shared.read().get("down")
        if down is not None and 0 <= self.clock.monotonic() - down[0] < _DOWN_KEPT:
            raise ClusterUnreachable(down[1])

    def note_unreachable(self, error: ClusterUnreachable) -> None:
        """Record that nobody answers, so that thousand tasks need not find it out one by one."""
        with self._shared.update() as state:
            state["down"] = [self.clock.monotonic(), str(error)]

    # private

    def _confirm(self, name: str, status: JobStatus | None) -> None:
        dialect = self.dialect
        key = dialect.version, dialect.job_name(name)
        self._ends.confirm(key, status, self._session.connection_epoch)

    def _with_hints(self, error: PaiHttpError, dialect: Dialect, job: PaiJob | JobProtocol) -> PaiHttpError:
        """Return an error with the virtual clusters that there are, if the job's is what was refused."""
        if error.code in HINTS:
            return error
        about_cluster = "virtual cluster" in error.server_message.lower() or error.code in (
            "NoVirtualClusterError",
            "NoRightAccessVCError",
        )
        if not about_cluster:
            return error
        try:
            names = ", ".join(sorted(dialect.virtual_clusters()))
        except PaiApiError:
            names = ""
        setting = "virtual_cluster of the task" if isinstance(job, PaiJob) else "defaults.virtualCluster"
        return error.extended(f"check {setting}" + (f"; this cluster has: {names}" if names else ""))


class Clusters:
    """The clusters of this process, by their settings: one Cluster for each.

    Attributes:
        clock: given to each new Cluster.
        notes: what other rooms remember until the next reset, by keys of their own.
    """

    def __init__(self) -> None:
        self.clock: Clock = Clock()
        self.notes: Notes = Notes()
        self._clusters: Notes = Notes(most=100)

    def get(self, **settings: Any) -> Cluster:
        """Return the Cluster for the arguments of its constructor; the same one each time."""
        key = tuple(sorted(settings.items()))
        cluster: Cluster = self._clusters.get_or_make(key, lambda: Cluster(**settings, clock=self.clock))
        return cluster

    def reset(self) -> None:
        """Close all connections and forget all clusters, as a new process would begin."""
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()
        self.notes.clear()


CLUSTERS = Clusters()
"""The one registry of a process."""


def reset_clusters() -> None:
    """Close all connections and forget what this process knows of clusters and their jobs."""
    CLUSTERS.reset()


def _checked(job: PaiJob | JobProtocol) -> str:
    """Return the name of a job that can run as it is written.

    Raises:
        SpecError: it cannot.
    """
    if isinstance(job, PaiJob):
        from luigi_pai.spec.validate import check_job  # noqa: PLC0415  costs what only submitting needs

        check_job(job)
        return job.jobName
    from luigi_pai.spec.validate_protocol import check_protocol  # noqa: PLC0415  as above

    for warning in check_protocol(job):
        logger.warning("Job %s: %s", job.name, warning)
    return str(job.name)


def _portal_of(url: str) -> str:
    """Guess the portal: what the rest-server is mounted below, 9286 beside 9186, or the same address."""
    parts = urlsplit(url.rstrip("/"))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    netloc = f"{host}:{_PORTAL_PORT}" if parts.port == _REST_PORT and not parts.path else parts.netloc
    return urlunsplit((parts.scheme, netloc, re.sub(r"/rest-server$", "", parts.path), "", ""))
