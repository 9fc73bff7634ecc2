"""The query string of a WebHDFS request."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote

from luigi_pai.local.hdfs.webhdfs.places import RemoteFault

__all__ = ["Query"]

_NOBODY = "dr.who"  # Hadoop's name for a request that names no user
_FORMS = {
    "user.name": r"[A-Za-z_][A-Za-z0-9._-]*[$]?",
    "permission": r"[+]?0*1?[0-7]{1,3}",
    "destination": r"/.*",
    "recursive": r"(?i:true|false)",
    "overwrite": r"(?i:true|false)",
    "renameoptions": r"(?i:(NONE|OVERWRITE)(,(NONE|OVERWRITE))*)",
}
_NUMBER = r"[+-]?[0-9]{1,19}"
_LARGEST = 2**63 - 1


class Query:
    """The parameters of a request, by name in any case.

    Every method raises RemoteFault (IllegalArgumentException) for a value that
    cannot be read; a parameter that is not given has its default.
    """

    def __init__(self, text: str) -> None:
        self._values: dict[str, str] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._values.setdefault(name.lower(), value)

    def __contains__(self, name: str) -> bool:
        return bool(self._values.get(name))

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter; those that have a form must have it."""
        value = self._values.get(name) or default
        if value and not re.fullmatch(_FORMS.get(name, ".*"), value, re.DOTALL):
            raise _refused(name, value)
        return value

    def user(self) -> str:
        """Return the user of the request (``user.name``)."""
        return self.text("user.name", _NOBODY)

    def boolean(self, name: str) -> bool:
        """Return ``true`` or ``false``; false where it is not given."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """Return a number, at least ``least``."""
        value = self._values.get(name) or str(default)
        if not re.fullmatch(_NUMBER, value) or not least <= int(value) <= _LARGEST:
            raise _refused(name, value)
        return int(value)

    def permission(self) -> int:
        """Return the mode bits of ``permission``; 755 where it is not given."""
        return int(self.text("permission", "755"), 8)

    def destination(self) -> str:
        """Return the absolute path of ``destination``."""
        value = self.text("destination")
        if not value:
            raise _refused("destination", value)
        return value

    def rename_options(self) -> frozenset[str]:
        """Return the words of ``renameoptions`` in capitals; empty: the first rename."""
        return frozenset(word for word in self.text("renameoptions").upper().split(",") if word)

    def redirected(self, marker: str, **defaults: str) -> str:
        """Return the query that a NameNode, asked by the name and port ``marker``, sends to a DataNode.

        The defaults are parameters that the DataNode gets even if the client sent none.
        """
        sent = {
            name: value
            for name, value in self._values.items()
            if value and name not in ("op", "user.name", "namenoderpcaddress")
        }
        order = {
            "op": self.text("op").upper(),
            "user.name": self.text("user.name"),
            "namenoderpcaddress": marker,
            **dict(sorted({**defaults, **sent}.items())),
        }
        return "&".join(f"{name}={quote(value, safe=':,')}" for name, value in order.items() if value)


def _refused(name: str, value: str) -> RemoteFault:
    text = f'Invalid value for webhdfs parameter "{name}": "{value}"'
    return RemoteFault("IllegalArgumentException", text)
