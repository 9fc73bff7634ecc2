"""An HDFS as it is configured: its addresses and settings, and the way from a path to a connection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError, PaiError
from luigi_pai.hdfs.addresses import api_base
from luigi_pai.hdfs.connection import connection
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.hdfs.paths import hdfs_path, split_uri
from luigi_pai.hdfs.session import Account

if TYPE_CHECKING:
    from typing_extensions import Self

    from luigi_pai.hdfs.connection import Connection

__all__ = ["Endpoint"]


class Endpoint:
    """The settings of an HDFS; making one makes no network requests.

    It can be pickled and forked: sessions are per process and server.

    Args:
        url: of the WebHDFS, ``http://HOST:PORT``, with ``/webhdfs/v1`` or without; several NameNodes are
            ``URL;URL``. None: only ``webhdfs://HOST:PORT/`` paths work.
        user: the user on HDFS.
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, or None.
        auth: ``simple``, or ``kerberos``: as the one of the ticket, whatever ``user`` says.
        redirect: how DataNodes are reached, ``http://PROXY/{host}:{port}``; None: as the NameNode says.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer, or its next part. A whole answer takes four
            times that at most; in the same time 64 KiB of a file have to arrive.
        patience: seconds to wait altogether before retries, since the last answer.
        section: of luigi.cfg, for errors: ``OpenPai`` or ``OpenPai:NAME``.
    """

    def __init__(
        self,
        url: str | None,
        user: str,
        fs_uri: str | None = None,
        *,
        auth: str = Account.auth,
        redirect: str | None = None,
        verify: bool | str = True,
        connect_timeout: float = Account.connect_timeout,
        read_timeout: float = Account.read_timeout,
        patience: float = Account.patience,
        section: str = Account.section,
    ) -> None:
        urls = [one.rstrip("/").removesuffix("/webhdfs/v1") for one in (url or "").split(";") if one]
        self.url = ";".join(urls) or None
        self.user = user
        self.fs_uri = fs_uri
        self.account = Account(
            (), user, auth, redirect, verify, connect_timeout, read_timeout, patience, section
        )

    @classmethod
    def from_config(cls, cluster: str | None = None) -> Self:
        """Return the HDFS of a cluster of luigi.cfg; that of [OpenPai] may be in Luigi's own configuration.

        Args:
            cluster: the NAME of [OpenPai:NAME]; None: as ``OpenPai.current()``.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.config import HdfsAccount, OpenPai  # noqa: PLC0415

        settings = OpenPai.current(cluster)
        user = settings.hdfs_user or settings.username
        account = settings.hdfs_account() or HdfsAccount((), user, settings.hdfs_auth)
        return cls(
            ";".join(account.urls),
            account.user,
            settings.fs_uri,
            auth=account.auth,
            redirect=settings.webhdfs_redirect,
            verify=settings.tls_verify(),
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
            patience=settings.poll_patience,
            section=settings.section,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.user!r})"

    def at(self, path: str) -> tuple[Connection, str]:
        """Return the connection for a path, and the path as WebHDFS takes it.

        Raises:
            HdfsError: it is no path on this HDFS.
            ConfigError: ``webhdfs_url`` is needed and missing.
        """
        try:
            return self._at(path)
        except PaiError as error:
            error.in_section(self.account.section)
            raise

    def _at(self, path: str) -> tuple[Connection, str]:
        place = hdfs_path(path, self.fs_uri)
        scheme, authority, _ = split_uri(path)
        urls = self.url.split(";") if self.url else []
        if "webhdfs" in scheme and authority:
            named = f"{'https' if scheme == 'swebhdfs' else 'http'}://{authority}"
            if urls and named.lower() not in [url.lower() for url in urls]:
                text = f"{path!r} is not on this HDFS: webhdfs_url in [OpenPai] is {self.url}"
                raise HdfsError(text, operation="resolve", path=path)
            urls = urls or [named]
        if not urls:
            raise ConfigError(
                f"webhdfs_url is not set in [OpenPai], and {path!r} is on HDFS: write webhdfs_url = "
                "http://NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI, else 50070, or 9870)"
            )
        return connection(replace(self.account, bases=tuple(map(api_base, urls)))), place
