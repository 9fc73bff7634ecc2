"""Access to the stop button of a job's page.

A form carries a token that only this server's pages have, so that no page of
another site can send it (the application itself refuses a foreign Origin or
Host). The user who runs the server needs no password: on loopback, a connection of a
process of theirs is as good as their own shell. Other users enter name and
password in the form.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.addresses import is_loopback
from luigi_pai.local.pages.html import Html, tag

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["CONNECTION_TABLES", "StopForms"]

CONNECTION_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _USER = 1, 2, 3, 7  # fields of a line of them: both ends, state, whose it is
_ESTABLISHED = "01"
_SAME_SITE = (None, "same-origin", "none")


class StopForms:
    """The forms that stop jobs; with ``loopback_only`` no other machine can reach the server."""

    def __init__(self, *, loopback_only: bool) -> None:
        self._key = os.urandom(32)
        self._loopback_only = loopback_only

    def form(self, request: HTTPServerRequest, job: Job) -> Html:
        """Return the form that stops a job."""
        hidden = {
            "username": job.username,
            "jobName": job.name,
            "token": self._token(job),
        }
        fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
        if not self._is_own(request):
            fields += [
                tag("label", "User", for_="who"),
                tag("input", id="who", name="who", required=True, autocomplete="username"),
                tag("label", "Password", for_="password"),
                tag(
                    "input",
                    id="password",
                    name="password",
                    type="password",
                    required=True,
                    autocomplete="current-password",
                ),
            ]
        stop = tag("button", "Stop this job", id="stop-job")
        return tag("form", *fields, stop, method="post", action="/stop-job")

    async def refusal(
        self, api: Api, request: HTTPServerRequest, job: Job, fields: dict[str, str]
    ) -> str | None:
        """Return why a submitted form may not stop a job; None if it may."""
        if request.headers.get("Sec-Fetch-Site") not in _SAME_SITE:
            return "This came from a page of another site."
        if not hmac.compare_digest(self._token(job).encode(), fields.get("token", "").encode()):
            return (
                "This form is of an earlier run of the server. Go back to the job's page and stop it there."
            )
        if self._is_own(request):
            return None
        user = await api.users.with_password(fields.get("who", ""), fields.get("password", ""))
        if user is None:
            return "User or password is wrong."
        if user.name != job.username and not user.admin:
            return f"User {user.name} may not stop jobs of {job.username}."
        return None

    def _token(self, job: Job) -> str:
        return hmac.digest(self._key, f"stop {job.id}".encode(), "sha256").hex()

    def _is_own(self, request: HTTPServerRequest) -> bool:
        """Say whether the request comes from a process of the user who runs this server."""
        if not self._loopback_only or not is_loopback(request.remote_ip or ""):
            return False
        return _owner_of_connection(request) == os.getuid()


def _owner_of_connection(request: HTTPServerRequest) -> int | None:
    """Return the uid of the process at the other end of a local connection; None if it is unknown."""
    stream = getattr(request.connection, "stream", None)
    if stream is None or stream.socket is None:
        return None
    try:
        theirs, ours = _written(stream.socket.getpeername()), _written(stream.socket.getsockname())
    except OSError:  # it is gone
        return None
    for table in CONNECTION_TABLES:
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[_LOCAL] in theirs and fields[_REMOTE] in ours and fields[_STATE] == _ESTABLISHED:
                return int(fields[_USER])
    return None


def _written(end: tuple[Any, ...]) -> set[str]:
    """Return an address and port as /proc/net writes them; IPv4 may stand as IPv6, too."""
    address = ipaddress.ip_address(end[0].partition("%")[0])
    forms = [address, *([ipaddress.ip_address(f"::ffff:{address}")] if address.version == 4 else [])]  # noqa: PLR2004 - IPv4
    return {f"{_words(form.packed)}:{end[1]:04X}" for form in forms}


def _words(packed: bytes) -> str:
    """Return an address as /proc/net has it: 32-bit words in the byte order of this machine."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(word[::-1].hex() if sys.byteorder == "little" else word.hex() for word in words).upper()
