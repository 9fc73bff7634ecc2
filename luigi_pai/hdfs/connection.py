"""One HTTP session per process and WebHDFS, on the ``hdfs`` library."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import requests
from hdfs import InsecureClient
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from luigi_pai.hdfs.errors import failed, refused, unanswered

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Account", "Connection", "connection"]

_PREFIX = "/webhdfs/v1"
_POOL = 16  # connections kept open to one server


@dataclass(frozen=True)
class Account:
    """Whom to talk to, as whom, and how patiently.

    Attributes:
        url: of the WebHDFS, ``http://HOST:PORT``.
        user: the user on HDFS.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer.
    """

    url: str
    user: str
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0


class Connection(InsecureClient):  # type: ignore[misc]  # the library has no types
    """The operations of one WebHDFS, as one account.

    Paths are absolute and normalised. What is refused, and what gets no answer,
    is an HdfsError. Reads are tried three times; what changes something is sent once.
    """

    def __init__(self, account: Account) -> None:
        session = requests.Session()
        retry = Retry(
            total=2,
            connect=0,
            backoff_factor=0.2,
            status_forcelist=(502, 503, 504),
            allowed_methods=("GET",),
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL, max_retries=retry))
        timeout = (account.connect_timeout, account.read_timeout)
        super().__init__(account.url, user=account.user, session=session, timeout=timeout)
        self.server = urlsplit(account.url).netloc
        self._verify = account.verify

    def resolve(self, hdfs_path: str) -> str:
        """Return the path as it is: ``#LATEST`` is a name like any other."""
        return hdfs_path

    def _request(self, method: str, url: str, **about: Any) -> requests.Response:
        parts = urlsplit(url)
        operation = (about.get("params") or dict(parse_qsl(parts.query))).get("op", "")
        path = unquote(parts.path).partition(_PREFIX)[2] or "/"
        try:
            # given with each request, verify is not overridden by REQUESTS_CA_BUNDLE
            response: requests.Response = super()._request(method, url, verify=self._verify, **about)
        except (requests.RequestException, OSError) as error:
            raise unanswered(operation, path, self.server, error) from error
        if not response.ok:
            raise refused(operation, path, response)
        return response

    def close(self) -> None:
        """Close what is kept open; it opens again when it is needed."""
        self._session.close()

    # operations

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self._json(self._get_file_status(path), "FileStatus")
        return found

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder, or of a file itself."""
        found: list[dict[str, Any]] = self._json(self._list_status(path), "FileStatuses")["FileStatus"]
        return found

    def content_summary(self, path: str) -> dict[str, Any]:
        """Return the ContentSummary of a file or folder."""
        found: dict[str, Any] = self._json(self._get_content_summary(path), "ContentSummary")
        return found

    def make_folders(self, path: str, permission: str | None) -> None:
        """Make a folder and those above it."""
        if not self._json(self._mkdirs(path, permission=permission), "boolean"):
            raise failed("MKDIRS", path, self.server, "the server did not do it, and does not say why")

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete; False where there was nothing."""
        return bool(self._json(self._delete(path, recursive=str(recursive).lower()), "boolean"))

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename.

        Args:
            path: what to rename.
            destination: what to call it.
            options: ``NONE`` or ``OVERWRITE`` for HDFS's rename2; None for its first rename.

        Returns:
            None after a rename2; true or false after a first rename, which is also
            what a server answers that does not know the options.
        """
        response = self._rename(path, destination=destination, renameoptions=options)
        return bool(self._json(response, "boolean")) if response.content else None

    def change_mode(self, path: str, permission: str) -> None:
        """Set mode bits, written in octal."""
        self._set_permission(path, permission=permission)

    def change_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner or group."""
        self._set_owner(path, owner=owner, group=group)

    def open_file(self, path: str, offset: int = 0) -> requests.Response:
        """Return the reply whose body is the file; to be closed."""
        response: requests.Response = self._open(path, offset=offset or None)
        return response

    def create_file(self, path: str, data: bytes | Iterable[bytes], *, overwrite: bool) -> None:
        """Write a file; its folder is made where it is missing.

        Args:
            path: of the file.
            data: its content; parts are sent as they come.
            overwrite: a file that is there may be replaced.
        """
        response = self._create(path, overwrite=str(overwrite).lower())
        address = response.headers.get("location")
        if not address:
            raise failed("CREATE", path, self.server, "the server did not say where to write to")
        response.close()
        self._request("PUT", address, data=data).close()

    def _json(self, response: requests.Response, field: str) -> Any:
        try:
            return response.json()[field]
        except (ValueError, KeyError, TypeError) as error:
            path = unquote(urlsplit(response.url).path).partition(_PREFIX)[2]
            operation = dict(parse_qsl(urlsplit(response.url).query)).get("op", "")
            step = "check webhdfs_url in [OpenPai]"
            reason = f"the answer has no {field}: not in the way of a WebHDFS"
            raise failed(operation, path, self.server, reason, next_step=step) from error


_connections: dict[tuple[int, Account], Connection] = {}


def connection(account: Account) -> Connection:
    """Return this process's connection for an account; a forked process makes its own."""
    key = (os.getpid(), account)
    # no lock: it could be held at the moment of a fork; two threads at once make one too many
    return _connections.get(key) or _connections.setdefault(key, Connection(account))


@atexit.register
def _close_all() -> None:
    for (process, _account), opened in _connections.items():
        if process == os.getpid():
            opened.close()
