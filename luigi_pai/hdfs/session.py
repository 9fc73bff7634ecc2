"""The account of a connection, and its requests session."""

from __future__ import annotations

from dataclasses import dataclass

import requests

from luigi_pai.errors import ConfigError
from luigi_pai.timed_http import TimedAdapter

_CONNECTIONS = 64  # connections kept open to one server: one for each thread of an upload
CONTENT = (requests.codes.ok, requests.codes.partial_content)


@dataclass(frozen=True)
class Account:
    """NameNodes, user, timeouts and further arguments of ``WebHdfs``.

    Attributes:
        bases: WebHDFS of each NameNode, ``http://HOST:PORT/webhdfs/v1``; one of them is active.
        section: of luigi.cfg, for errors.
    """

    bases: tuple[str, ...]
    user: str
    auth: str = "simple"
    redirect: str | None = None
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    patience: float = 1800.0
    section: str = "OpenPai"


def new_session(account: Account) -> requests.Session:
    """Return a session for an account, which sends each request once."""
    session = requests.Session()
    session.trust_env = False  # a NameNode could redirect to a host whose password is in .netrc
    for scheme in ("http://", "https://"):
        session.mount(scheme, TimedAdapter(pool_maxsize=_CONNECTIONS))
    if account.auth == "kerberos":
        _log_in_with_kerberos(session)
    return session


def _log_in_with_kerberos(session: requests.Session) -> None:
    """Let a session authenticate with Kerberos (Negotiate), by the ticket of ``kinit``."""
    try:
        from hdfs.ext.kerberos import KerberosClient  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            "hdfs_auth = kerberos in [OpenPai] needs an extra: pip install 'luigi-pai[kerberos]'"
        ) from error
    KerberosClient("namenode:", session=session)  # its only effect here is session.auth


def without_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return a request unchanged: the ``auth`` of requests to hosts that no setting names."""
    return request
