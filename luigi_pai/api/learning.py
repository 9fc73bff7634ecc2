"""Which dialect a server speaks: given by the settings, or learned from its answers."""

from __future__ import annotations

import copy
import logging
import re
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.api.v1 import V1Dialect
from luigi_pai.api.v2 import V2Dialect
from luigi_pai.errors import PaiHttpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.dialect import Dialect
    from luigi_pai.api.session import Session
    from luigi_pai.api.shared import SharedState

__all__ = ["SpokenDialect"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_V2_ONLY = ("NoApiError", "InvalidProtocolError")  # 1.1 and later; 0.15 to 1.0, to a v1 job
_V2_HINT = (
    "this cluster speaks the v2 dialect (OpenPAI 0.15 and later): take api_version = v1 out of [OpenPai] in "
    "luigi.cfg"
)


class SpokenDialect:
    """The dialect of a server. All forks share what one of them learns.

    Where it is not given, v1 is tried. A server from 1.1 on does not know the v1 API and says so; one
    of 0.15 to 1.0 answers for a v1 job that it does not know just as a v1 server does, so a
    ``NoJobError`` is followed by one question what the server is. A bare 404 decides nothing.

    Args:
        session: the connection to the rest-server.
        shared: where it is kept.
        api_version: ``auto``, ``v1`` or ``v2``.
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, for v1 jobs on a v2 cluster.

    Attributes:
        given: the dialect that was given, ``v1`` or ``v2``; None where it is to be learned.
    """

    def __init__(self, session: Session, shared: SharedState, api_version: str, fs_uri: str | None) -> None:
        self.given = None if api_version == "auto" else api_version
        self._session = session
        self._shared = shared
        self._dialects: dict[str, Dialect] = {"v1": V1Dialect(session), "v2": V2Dialect(session, fs_uri)}

    def fixed(self, api_version: str) -> SpokenDialect:
        """Return the same with a dialect given."""
        new = copy.copy(self)
        new.given = api_version
        return new

    @property
    def known(self) -> str | None:
        """``v1`` or ``v2``; None where it is not known yet."""
        return self.given or self._shared.read().get("dialect")

    @property
    def current(self) -> Dialect:
        """The dialect, as far as it is known by now; else v1."""
        return self._dialects[self.known or "v1"]

    def ask(self, call: Callable[[Dialect], T]) -> T:
        """Make a call in the dialect that the server is thought to speak, and again if it is the other."""
        if self.known == "v2":
            return call(self._dialects["v2"])
        try:
            return call(self._dialects["v1"])
        except PaiHttpError as error:
            if not self._turned_out_v2(error):
                raise
        return call(self._dialects["v2"])

    def decide(self) -> str:
        """Return ``v1`` or ``v2``; where it is not known, the server is asked what it is, once."""
        with self._shared.locked("dialect"):
            known = self.known
            if known is None:
                info = self._session.server_info()
                known = "v2" if info.get("launcherType") == "k8s" else "v1"
                self.learn(known, release=str(info.get("version") or "") or None)
            return known

    def learn(self, version: str, release: str | None = None) -> None:
        """Record what the server speaks, and of which release it is."""
        with self._shared.update() as state:
            new = state.get("dialect") != version
            state["dialect"] = version
            if release is not None:
                state["release"] = release
        if new and version == "v2":
            logger.info("%s speaks the v2 dialect (OpenPAI 0.15 and later)", self._session.account.url)

    def learn_from_refusal(self, dialect: Dialect, error: PaiHttpError) -> None:
        """Record what a refused submission says of the server, if it says something.

        Raises:
            PaiHttpError: it speaks v2 only, and the configuration forbids that.
        """
        if dialect.version != "v1" or error.code not in _V2_ONLY:
            return
        if self.given is not None:
            raise error.extended(_V2_HINT) from None
        self.learn("v2", release="1.1" if error.code == "NoApiError" else None)

    def retention(self) -> float:
        """Return for how many seconds after its end a job is known: 12 hours to 0.17, 30 days later."""
        short = self._dialects["v1"].can.retention
        if self.current.version == "v1":
            return short
        release = self._shared.read().get("release")
        if release is None:
            release = str(self._session.server_info().get("version") or "")
            with self._shared.update() as state:
                state["release"] = release
        return short if re.match(r"v?0\.|$", release) else self.current.can.retention

    def _turned_out_v2(self, error: PaiHttpError) -> bool:
        """Return whether an answer to a question in the v1 dialect means that the server speaks v2 only.

        Raises:
            PaiHttpError: it does, and the configuration forbids that.
        """
        if error.code == "NoApiError":
            if self.given == "v1":
                raise error.extended(_V2_HINT) from None
            self.learn("v2", release="1.1")
            return True
        return error.code == "NoJobError" and self.known is None and self.decide() == "v2"
