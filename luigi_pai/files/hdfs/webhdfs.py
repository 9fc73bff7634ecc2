"""WebHdfs: a Luigi file system for HDFS, accessed over WebHDFS."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError, PaiError
from luigi_pai.files.errors import HdfsError
from luigi_pai.files.file_system import FileSystem
from luigi_pai.files.hdfs.connection import connection
from luigi_pai.files.hdfs.transport import Account, api_base
from luigi_pai.files.paths import hdfs_path, split_uri
from luigi_pai.redaction import check_no_login

if TYPE_CHECKING:
    from typing_extensions import Self

    from luigi_pai.files.hdfs.connection import Connection

__all__ = ["WebHdfs"]


class WebHdfs(FileSystem):
    """The cluster's HDFS.

    You can write paths in any form that ``hdfs_path`` accepts. Methods raise HdfsError if the server rejects
    a request or does not respond, and ConfigError if ``webhdfs_url`` is needed but not set.

    Constructing a WebHdfs makes no network requests. You can pickle it and use it after a fork, because each
    process opens its own connections.

    Args:
        url: The WebHDFS URL, ``http://HOST:PORT``, with or without ``/webhdfs/v1``; for several NameNodes,
            ``URL;URL``. If None, only ``webhdfs://HOST:PORT/`` paths work.
        user: The user on HDFS.
        fs_uri: The value of ``$PAI_DEFAULT_FS_URI``, or None.
        auth: ``simple``, or ``kerberos``, which uses the ticket's user and ignores ``user``.
        redirect: The replacement for ``http://HOST:PORT`` in DataNode URLs, such as
            ``http://PROXY/{host}:{port}``. If None, the URLs do not change.
        verify: How to check TLS certificates: True, False or a file of CA certificates.
        connect_timeout: How long to wait for a connection, in seconds.
        read_timeout: How long to wait for a response or for its next part, in seconds. A whole response,
            except a file's content, may take four times as long.
        section: The section of luigi.cfg that error messages name, ``OpenPai`` or ``OpenPai:NAME``.
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
        section: str = Account.section,
    ) -> None:
        urls = [each.rstrip("/").removesuffix("/webhdfs/v1") for each in (url or "").split(";") if each]
        check_no_login(url or "")
        self.url = ";".join(urls) or None
        self.user = user
        self.fs_uri = fs_uri
        self.account = Account((), user, auth, redirect, verify, connect_timeout, read_timeout, section)

    @classmethod
    def from_config(cls, cluster: str | None = None) -> Self:
        """Return the HDFS of a cluster in luigi.cfg; ``OpenPai.hdfs_account`` finds its URLs.

        Args:
            cluster: The NAME of [OpenPai:NAME]. If None, the cluster of ``OpenPai.current()`` is used.

        Raises:
            ConfigError: A setting is invalid.
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
            section=settings.section,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.user!r})"

    def at(self, path: str) -> tuple[Connection, str]:
        """Return the connection for a path and the absolute path.

        Raises:
            HdfsError: The path is not on this HDFS.
            ConfigError: ``webhdfs_url`` is needed but not set.
        """
        try:
            return self._locate(path)
        except PaiError as error:
            error.in_section(self.account.section)
            raise

    def _locate(self, path: str) -> tuple[Connection, str]:
        place = hdfs_path(path, self.fs_uri)
        scheme, authority, _ = split_uri(path)
        urls = self.url.split(";") if self.url else []
        if "webhdfs" in scheme and authority:
            named = f"{'https' if scheme == 'swebhdfs' else 'http'}://{authority}"
            if urls and named.lower() not in [url.lower() for url in urls]:
                message = f"{path!r} is not on this HDFS: webhdfs_url in [OpenPai] is {self.url}"
                raise HdfsError(message, operation="resolve", path=path)
            urls = urls or [named]
        if not urls:
            raise ConfigError(
                f"webhdfs_url is not set in [OpenPai], and {path!r} is on HDFS: write webhdfs_url = http://"
                "NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI, else 50070, or 9870 since Hadoop 3) "
                "or storage = NAME, from OpenPAI 0.16 on"
            )
        return connection(dataclasses.replace(self.account, bases=tuple(map(api_base, urls)))), place
