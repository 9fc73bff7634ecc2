"""The faults of the fault matrix, by name, for a rest-server and for a WebHDFS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from elsewhere import Elsewhere

_NGINX = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center></body></html>"
_PLAIN = {"refused": "refused", "truncated": "truncated", "garbage": "garbage", "bad-json": "garbled"}
_PROXIES = {
    "html-200": (200, "Please sign in"),
    "html-502": (502, "502 Bad Gateway"),
    "404-html": (404, "404 Not Found"),
    "503": (503, "503 Service Temporarily Unavailable"),
}
_LIMIT_ENDS = 5.0  # seconds after the answer that says so
_SLOW = 2.0  # seconds of the clock until an answer is sent
_HANGS = 9.0  # seconds of the clock; the client's own timeout is as short as the machine's load allows
_OWN_CODES = {
    401: ("UnauthorizedUserError", "Guest is not allowed to do this operation."),
    403: ("ForbiddenUserError", "User admin is not allowed to do this operation."),
    404: ("NoJobError", "Job is not found."),
    409: ("ConflictJobError", "Job name already exists."),
    500: ("UnknownError", "An unknown error occurred."),
}
_OWN_404 = {"token": "NoUserError", "submit": "NoVirtualClusterError", "list": "NoVirtualClusterError"}
"""What a 404 of OpenPAI's own can say where it is not about a job, by step."""
_REMOTE = {
    401: "AuthenticationException",
    403: "AccessControlException",
    404: "FileNotFoundException",
    409: "IllegalStateException",
    500: "RuntimeException",
}

WORDS = (
    "refused",
    "reset",
    "reset-after",
    "hang",
    "hang-after",
    "slow",
    "drip",
    "garbage",
    "truncated",
    "bad-json",
    "html-200",
    "html-502",
    "401",
    "403",
    "404",
    "404-html",
    "409",
    "429",
    "429-until",
    "500",
    "503",
    "redirect",
)
"""Each fault's name. ``-after``: the server has first done what it was asked; so too ``slow``, ``drip``,
``garbage``, ``truncated`` and ``bad-json``. 404 and 404-html: the server's own way of saying that there is
no such thing, and something else's. 429-until: with the headers that say until when."""


def fault_of(word: str, step: str, clock: Any, elsewhere: Elsewhere, *, on_hdfs: bool) -> dict[str, Any]:
    """Return a fault as keyword arguments of ``FaultServer.fail``.

    Args:
        word: its name.
        step: of a job's life that it befalls.
        clock: of the server.
        elsewhere: where redirects lead.
        on_hdfs: whether a WebHDFS has it, or a rest-server.
    """
    if word in _PLAIN:
        return {"kind": _PLAIN[word]}
    if word in ("reset", "hang", "reset-after", "hang-after"):
        kind = word.removesuffix("-after")
        return {"kind": kind, "after": word.endswith("-after"), "lasts": _HANGS if kind == "hang" else 0}
    if word in ("slow", "drip"):
        return {"kind": word, "lasts": _SLOW if word == "slow" else _HANGS}
    if word in _PROXIES:
        status, title = _PROXIES[word]
        return {"kind": status, "body": _NGINX.format(title)}
    if word == "429":
        return {"kind": 429, "body": "Too many requests, please try again later."}
    if word == "429-until":
        return {"kind": 429, "body": "Too many requests", "headers": _limit_headers(clock, on_hdfs=on_hdfs)}
    if word == "redirect":
        return {"kind": 307, "body": b"", "headers": {"Location": f"{elsewhere.url}/login"}}
    return {"kind": int(word), "body": _refusal(int(word), step, on_hdfs=on_hdfs)}


def _refusal(status: int, step: str, *, on_hdfs: bool) -> Mapping[str, Any]:
    if on_hdfs:
        exception = _REMOTE[status]
        about = {"exception": exception, "javaClassName": f"org.x.{exception}", "message": "it is so"}
        return {"RemoteException": about}
    code, message = _OWN_CODES[status]
    return {"code": _OWN_404.get(step, code) if status == 404 else code, "message": message}


def _limit_headers(clock: Any, *, on_hdfs: bool) -> Callable[[], dict[str, str]]:
    if on_hdfs:
        return lambda: {"Retry-After": "1"}
    return lambda: {
        "X-RateLimit-Limit": "600",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(round(clock.time() + _LIMIT_ENDS)),
        "Retry-After": "60",
    }
