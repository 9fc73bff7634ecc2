"""Cluster: an OpenPAI cluster, accessed as one user."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from luigi_pai.api.book.book import Book
from luigi_pai.api.clock import Clock
from luigi_pai.api.dialects.detection import DialectDetector
from luigi_pai.api.job import Job
from luigi_pai.api.polling import Polling
from luigi_pai.api.rest_api import JobRequests, RestApi
from luigi_pai.api.server import Server, default_portal
from luigi_pai.api.session import Session
from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.submitting import Posting
from luigi_pai.api.wire.transport import Account
from luigi_pai.errors import NameConflict, PaiApiError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.redaction import check_no_login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.api.dialects.detection import Dialect
    from luigi_pai.api.dialects.storages import JobStorage
    from luigi_pai.api.job import FunctionJob
    from luigi_pai.jobspec.convert import Conversion
    from luigi_pai.jobspec.protocol import JobProtocol

__all__ = ["Cluster"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Cluster(JobRequests):
    """An OpenPAI cluster, accessed as one user. The constructor makes no requests.

    A Cluster owns the connections, the token, the dialect and the cached job statuses. It is safe to
    share between threads and across a fork. Forked processes share the token, the dialect and the rate
    limits. ::

        cluster = Cluster("http://HOST:9186", "anna", password="...")
        job = cluster.submit(PaiJob("hello", "python:3", [TaskRole("main", "echo hello")]))
        print(job.wait().state, job.url)

    With ``api_version="auto"``, it starts with v1 and detects v2 from the responses. If a response may come
    from 0.15 to 1.0, it requests the server's version once (``GET /api/v1/``). After transient errors,
    read-only requests are repeated for 3 s. If a request fails, methods raise ``PaiApiError`` or a subclass.

    Args:
        url: The URL of the rest-server, including its path, if any.
        username: The owner of the jobs.
        password: The password for the login; not needed with ``token``.
        token: An application token (0.16 and later), used instead of the password.
        api_version: ``auto``, ``v1`` (OpenPAI 0.7 to 0.14) or ``v2`` (0.15 to 1.8, LTP).
        portal_url: The web portal; default: derived from ``url``.
        fs_uri: The value of ``$PAI_DEFAULT_FS_URI``, for v1 jobs on a v2 cluster.
        storage: The storage that v1 jobs mount on a v2 cluster (0.16 and later). It holds the jobs' folders,
            or, if ``fs_uri`` is also set, only the folders below ``storage_mount``.
        storage_mount: The path at which v1 jobs mount the storage; default: ``/mnt/NAME``.
        expiration: The lifetime of a login in seconds, 60 to 604800 (0.7 to 0.12; later servers ignore it).
        verify: Whether to check TLS certificates, or a file of CA certificates to check them with.
        connect_timeout, read_timeout: Seconds. ``read_timeout`` limits each wait for data from the server.
        polling: How often to look up jobs, and how long to retry after transient errors.
        retention: How long the server keeps a finished job, in seconds; default: the release's default
            (12 hours up to release 0.17, 30 days since release 1.0).
        section: The luigi.cfg section named in error messages: ``OpenPai`` or ``OpenPai:NAME``.
        clock: The clock used for waits and for the age of cached data.

    Attributes:
        url, username, polling, section, clock: The constructor's arguments.
        book: The cached job statuses, to pass to ``LogReader`` and ``WaitingReasons``.
        settings: The ``OpenPai`` settings that the Cluster was created from, for internal use.
    """

    def __init__(
        self,
        url: str,
        username: str,
        password: str | None = None,
        *,
        token: str | None = None,
        api_version: str = "auto",
        portal_url: str | None = None,
        fs_uri: str | None = None,
        storage: str | None = None,
        storage_mount: str | None = None,
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
        check_no_login(url)
        if portal_url:
            check_no_login(portal_url, "portal_url")
        self.url = url
        self.username = username
        self.polling = polling or Polling()
        self.section = section
        self.settings: Any = None
        self.clock = clock or Clock()
        account = Account(
            url, username, password, token, expiration, verify, connect_timeout, read_timeout, section
        )
        self._shared, self._shared_lists = SharedDocument(), SharedDocument()
        self._session = Session(account, self._shared, self.clock)
        self._detector = DialectDetector(
            self._session, self._shared, api_version, fs_uri, (storage, storage_mount) if storage else None
        )
        self._portal_url = (portal_url or default_portal(url)).rstrip("/")
        self._api = RestApi(self._session, self._detector, self._portal_url, self.polling, retention)
        self.book = Book(self._api, self._shared, self._shared_lists)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.username!r})"

    @property
    def server(self) -> Server:
        """Requests for diagnostics: the server's name and version, the login, rate limits and storages."""
        return Server(self._session, self._detector)

    @property
    def storage(self) -> JobStorage | None:
        """The storage that jobs mount; None if there is none."""
        return self._detector.job_storage

    # jobs

    def convert(self, job: PaiJob) -> Conversion:
        """Convert a v1 job to the protocol that a v2 cluster receives, and list the features it drops.

        Raises:
            SpecError: The job cannot be converted.
            ConfigError: The storage does not exist, or is not writable.
        """
        return self._detector.convert(job)

    def submit(self, job: PaiJob | JobProtocol, *arguments: NoReturn, **settings: NoReturn) -> Job:
        """Submit a job and return its handle. If the name is in use, it does not try NAME__attempt2.

        If the response is lost, it looks up the job before posting it again, so the job is submitted only
        once. After transient errors, it retries for ``polling.patience`` seconds.

        Raises:
            TypeError: The object is not a job, or is not the only argument.
            SpecError: The job's description is not valid; nothing was sent.
            NameConflict: The name is in use; ``cluster.job(name)`` returns the existing job's handle.
            PaiNameTaken: A lookup after a lost response showed that the name belongs to another user's job.
            PaiHttpError: The server rejected the job. The message contains the server's message.
            ClusterUnreachable, ServerFault: No attempt succeeded within ``polling.patience``.
            PaiApiError: The message of each of these errors says whether the job may have been submitted.
        """
        from luigi_pai.jobspec.submission import check  # noqa: PLC0415  a slow import, for submit() only
        from luigi_pai.jobspec.templates.secrets import logged_secrets  # noqa: PLC0415  as above

        if arguments or settings:
            raise TypeError("submit() takes one job; a function runs as a job with call(fit, 0.1)")
        (name, warnings), book = check(job, self._api.detector.known), self.book
        for warning in warnings:
            logger.warning("Job %s: %s", name, warning)
        if self._api.detector.given is None:
            if isinstance(job, PaiJob):
                self._api.detector.detect()
            else:
                book = book.with_version("v2")
        name, began = book.api.job_name(name), self.clock.time()
        posting = Posting(book, name, must_be_new=True)
        try:
            status = posting.post(job)
        except PaiApiError as error:
            raise posting.outcome(error, "look it up before you submit it again") from None
        if status is None or (posting.may_be_submitted and self.server.existed_before(status, began)):
            raise NameConflict(f"job {name!r} was not submitted: an earlier job has this name", status=409)
        return Job(book, status.name, status, logged_secrets(job.to_dict()))

    # functions; their module depends on this one, so it is imported by name

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> FunctionJob:
        """Run a Python function as a job and return its handle; its ``result()`` waits for the function.

        Example::

            job = cluster.call(fit, 0.1, image="python:3.11", gpus=1)
            print(job.result())

        The job's name contains a hash of the function, of everything it uses, and of the arguments. If
        you repeat a call, in this process or another one, it picks up the running job or returns the earlier
        result. After a failure, it submits the job again. Luigi and ``luigi-pai[python]`` must be installed.

        Args:
            function: The function to run. It is sent like the method of a ``PaiPythonTask``.
            *args: Its positional arguments. Every user of the cluster can read them.
            kwargs: Its keyword arguments.
            **settings: The job's settings, named like the attributes of a ``PaiPythonTask``.
                ``image`` is required. Others are ``gpus``, ``cpus``, ``memory_mb``, ``packages``,
                ``virtual_cluster``, ``run_timeout``, ``max_attempts`` and ``name``.

        Raises:
            SpecError: The call cannot run as a job, or a setting is missing or unknown; nothing was sent.
            ConfigError: A setting is not valid; nothing was sent.
            PaiWorkConflict, PaiNameTaken: Other work or another user already uses the job's name.
            PaiApiError: The message says whether the job may have been submitted.
        """
        call_each = import_module("luigi_pai.functions.call").call_each
        handles: list[FunctionJob] = call_each(self, function, [(args, kwargs or {})], settings)
        return handles[0]

    def map(
        self,
        function: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        kwargs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> list[FunctionJob]:
        """Run a Python function as one job per element of an iterable; return the jobs' handles.

        Example::

            jobs = cluster.map(fit, [0.1, 0.01, 0.001], image="python:3.11")
            print([job.result() for job in jobs])

        All calls are checked before the first job is submitted. A ``PaiSweep`` also limits how many jobs
        run at once, tolerates failures, and writes a table.

        Args:
            function: The function to run.
            *iterables: Its first, second, ... positional arguments; all must have the same length.
            kwargs: Its keyword arguments, the same for every call.
            **settings: The same as for ``call``.

        Raises:
            TypeError: No iterable was passed, or an argument, such as a number, is not iterable.
            ValueError: The iterables differ in length.
            PaiError: See ``call``. Jobs that were submitted before the error continue.
        """
        module = import_module("luigi_pai.functions.call")
        calls = [(args, kwargs or {}) for args in module.arguments_of(iterables)]
        handles: list[FunctionJob] = module.call_each(self, function, calls, settings)
        return handles

    def job(self, name: str) -> Job:
        """Return the handle of a job."""
        return Job(self.book, name)

    def stop(self, name: str) -> None:
        """Ask the server to stop a job; retry for ``polling.patience`` seconds after transient errors."""
        self._api.stop_surely(name, self.polling.patience)

    def _call(self, request: Callable[[Dialect], T]) -> T:
        return self._api.repeat(lambda: self._detector.call(request))

    # state

    def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        self._session.close()

    def reset(self) -> None:
        """Close the connections and forget the token, the dialect, the limits and all job statuses."""
        self.close()
        self._shared.clear()
        self._shared_lists.clear()
        self.book.clear()
