"""The query string of a WebHDFS request, read as the NameNode of Hadoop 2.7.4 reads it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote

from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault

__all__ = ["Query"]

_USER = "^[A-Za-z_][A-Za-z0-9._-]*[$]?$"
_NOBODY = "dr.who"  # Hadoop's name for a request that names no user
_LONGEST = 2**63 - 1
_MOST_BITS = 0o1777


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

    def text(self, name: str) -> str:
        """Return a parameter as it is, empty where it is not given."""
        return self._values.get(name, "")

    def user(self) -> str:
        """Return the user of the request (``user.name``)."""
        user = self._values.get("user.name") or _NOBODY
        if not re.match(_USER, user):
            raise _refused("user.name", f'Invalid value: "{user}" does not belong to the domain {_USER}')
        return user

    def boolean(self, name: str) -> bool:
        """Return ``true`` or ``false``; false where it is not given."""
        value = self._values.get(name) or "false"
        if value.lower() not in ("true", "false"):
            raise _refused(name, f'Failed to parse "{value}" to Boolean.')
        return value.lower() == "true"

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """Return a number, at least ``least``."""
        value = self._values.get(name) or str(default)
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", value) or abs(int(value)) > _LONGEST:
            raise _refused(name, f'Failed to parse "{value}" as a radix-10 long integer.')
        if int(value) < least:
            raise _refused(name, f"Invalid parameter range: {name} = {value} < {least}")
        return int(value)

    def permission(self) -> int:
        """Return the mode bits of ``permission``; 755 where it is not given."""
        value = self._values.get("permission") or "755"
        if not re.fullmatch(r"[+-]?[0-7]{1,6}", value):
            raise _refused("permission", f'Failed to parse "{value}" as a radix-8 short integer.')
        bits = int(value, 8)
        if not 0 <= bits <= _MOST_BITS:
            limit = "< 0" if bits < 0 else f"> {_MOST_BITS:o}"
            raise _refused("permission", f"Invalid parameter range: permission = {value} {limit}")
        return bits

    def destination(self) -> str:
        """Return the absolute path of ``destination``."""
        value = self._values.get("destination")
        if not value:
            raise RemoteFault("IllegalArgumentException", "Can not create a Path from a null string")
        if not value.startswith("/"):
            text = f'Invalid parameter value: destination = "{value}" is not an absolute path.'
            raise _refused("destination", text)
        return value

    def rename_options(self) -> frozenset[str]:
        """Return the words of ``renameoptions`` in capitals; empty: the first rename."""
        words = frozenset(word.strip().upper() for word in self.text("renameoptions").split(",") if word)
        for word in sorted(words - {"NONE", "OVERWRITE"}):
            enum = "org.apache.hadoop.fs.Options.Rename"
            raise _refused("renameoptions", f"No enum constant {enum}.{word}")
        return words

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


def _refused(name: str, why: str) -> RemoteFault:
    return RemoteFault("IllegalArgumentException", f'Invalid value for webhdfs parameter "{name}": {why}')
