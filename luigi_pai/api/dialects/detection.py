"""Detects a server's dialect if the settings do not name it."""

from __future__ import annotations

import copy
import logging
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from luigi_pai.api.dialects.storages import JobStorage
from luigi_pai.api.dialects.v1 import V1Dialect
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.errors import PaiApiError, PaiHttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.api.session import Session
    from luigi_pai.api.shared import SharedDocument
    from luigi_pai.jobspec.convert import Conversion
    from luigi_pai.jobspec.job import PaiJob

logger = logging.getLogger(__name__)

T = TypeVar("T")

Dialect: TypeAlias = V1Dialect | V2Dialect
"""Methods take the NAME of a job of the session's user and raise the errors of ``Session.request``."""

# the codes with which v2 servers reject a v1 job: 1.1 and later send the first, 0.15 to 1.0 the second
_V2_ONLY = ("NoApiError", "InvalidProtocolError")
_HINT = "this cluster speaks API version {} (OpenPAI {}): remove api_version = {} from [{}] in luigi.cfg"


class DialectDetector:
    """A server's dialect, detected once for all forked processes.

    Detection starts with v1. Servers from 1.1 on answer v1 requests with ``NoApiError``. Servers from 0.15 to
    1.0 answer with ``NoJobError``, as v1 servers do, so the first such response is followed by a request for
    the server's version. After a 404 without an error code, the dialect is still unknown.

    Args:
        session: The connection to the rest-server.
        state: A document, shared by forked processes, that stores the result.
        api_version: ``auto``, ``v1`` or ``v2``.
        fs_uri: Value of ``$PAI_DEFAULT_FS_URI``, for v1 jobs on a v2 cluster.
        storage: Name and mount path of the storage that jobs mount on a v2 cluster; None if there is none.

    Attributes:
        given: The dialect in the settings, ``v1`` or ``v2``; None for ``auto``, so that it is detected.
        job_storage: The storage that jobs mount; None if there is none.
    """

    def __init__(
        self,
        session: Session,
        state: SharedDocument,
        api_version: str,
        fs_uri: str | None,
        storage: tuple[str, str | None] | None = None,
    ) -> None:
        self._session = session
        self._state = state
        self.job_storage = None if storage is None else self.storage(*storage)
        self._v1, self._v2 = V1Dialect(session), V2Dialect(session, fs_uri, self.job_storage)
        self.given = None if api_version == "auto" else api_version
        self._configured = self.given  # the setting in luigi.cfg, which with_version() does not change

    def storage(self, name: str, mount_path: str | None = None) -> JobStorage:
        """Return one of the cluster's storages. It is requested later, once for all forked processes."""
        return JobStorage(self._session, self._state, name, mount_path)

    def convert(self, job: PaiJob) -> Conversion:
        """Convert a v1 job to the protocol that ``V2Dialect`` posts, and list the features it drops."""
        return self._v2.conversion(job)

    def with_version(self, api_version: str) -> DialectDetector:
        """Return a detector with ``api_version`` as its setting."""
        view = copy.copy(self)
        view.given = api_version
        return view

    @property
    def known(self) -> str | None:
        """``v1`` or ``v2``; None until it is known."""
        return self.given or self._state.read().get("dialect")

    @property
    def current(self) -> Dialect:
        """The dialect; v1 until it is known."""
        return self._v2 if self.known == "v2" else self._v1

    def call(self, request: Callable[[Dialect], T]) -> T:
        """Make a request in the current dialect; repeat it in v2 if the response shows a v2 server."""
        dialect = self.current
        while True:
            try:
                return request(dialect)
            except PaiApiError as error:
                dialect = self.dialect_after(dialect, error)

    def dialect_after(self, dialect: Dialect, error: PaiApiError) -> Dialect:
        """Return v2 if the error of a v1 request reveals a v2 server.

        Raises:
            PaiApiError: ``error``, if it does not.
        """
        error.mocked = error.mocked or self._session.mocked
        if self._configured == dialect.version == "v2" and self._shows_v1(error):
            hint = _HINT.format("v1", "0.7 to 0.14", "v2", self._session.account.section)
            raise error.extended(hint) from None
        if dialect.version == "v2" or not isinstance(error, PaiHttpError) or not self._shows_v2(error):
            raise error
        return self._v2

    def call_detected(self, request: Callable[[Dialect], T]) -> T:
        """Like ``call``, but detect the dialect first, because V1Dialect sends nothing for ``request``."""
        self.detect()
        return self.call(request)

    def detect(self) -> str:
        """Return ``v1`` or ``v2``; if it is not known, request the server's version once."""
        with self._state.locked("dialect"):
            known = self.known
            if known is None:
                info = self._session.server_info()
                self._store_version(info)
                known = "v2" if info.get("launcherType") == "k8s" else "v1"
                self.record(known)
            return known

    def record(self, version: str) -> None:
        """Record the server's dialect."""
        with self._state.update() as state:
            new = state.get("dialect") != version
            state["dialect"] = version
        if new and version == "v2":
            logger.info("%s speaks API version v2 (OpenPAI 0.15 and later)", self._session.account.url)

    def record_refusal(self, dialect: Dialect, error: PaiHttpError) -> None:
        """Record the dialect if a rejected submission's error reveals it.

        Raises:
            PaiHttpError: The server speaks v2 only, and ``api_version = v1`` is set.
        """
        if dialect.version == "v1" and error.code in _V2_ONLY:
            self._record_v2(error)

    def retention(self) -> float:
        """Return how many seconds the server keeps a finished job: 12 h up to 0.17, 30 days from 1.0 on."""
        is_short = self.current.version == "v1" or re.match(r"v?0\.|$", self._version())
        return (V1Dialect if is_short else V2Dialect).retention

    def is_since(self, *release: int) -> bool:
        """Return whether this is a v2 server whose release is ``release`` (e.g. 1, 5), later or unknown."""
        if self.current.version == "v1":
            return False
        found = re.match(r"v?(\d+)\.(\d+)", self._version())
        return found is None or (int(found[1]), int(found[2])) >= release

    def _version(self) -> str:
        """Return the version that the server reports, or "" if there is none; request it only once."""
        version = self._state.read().get("version")
        return self._store_version(self._session.server_info()) if version is None else str(version)

    def _store_version(self, info: Mapping[str, Any]) -> str:
        version = str(info.get("version") or "")
        with self._state.update() as state:
            state["version"] = version
        return version

    def _shows_v2(self, error: PaiHttpError) -> bool:
        """Return whether the response to a v1 request shows that the server speaks v2 only.

        Raises:
            PaiHttpError: The server speaks v2 only, but ``api_version = v1`` is set.
        """
        if error.code == "NoApiError":
            self._record_v2(error)
            return True
        if error.code != "NoJobError" or error.mocked or self.given is not None:
            return False
        return (self.known or self.detect()) == "v2"

    def _shows_v1(self, error: PaiApiError) -> bool:
        """Return whether the response to a v2 request is from a server that does not support v2."""
        if error.mocked or "/api/" in self._session.account.url:  # a pai_url with /api/ is a mistake
            return False
        return getattr(error, "code", None) == "NoApiError" and not self._version()

    def _record_v2(self, error: PaiHttpError) -> None:
        """Record that the server speaks v2 only; raise the response's error if the settings require v1."""
        if self.given is not None:
            hint = _HINT.format("v2", "0.15 and later", "v1", self._session.account.section)
            raise error.extended(hint) from None
        self.record("v2")
