"""Secrets: finds what must not be sent in clear text: secrets, and this process's environment."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import deque
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_NAMES = re.compile(
    r"passw|passphrase|secret|credential|token(?!i[sz])|(?:^|_|api|access|private)keys?(?:$|_)"
    r"|(?:^|_)(?:pw|pwd|pass)(?:$|_)",
    re.IGNORECASE,
)
_SHORTEST = 4  # characters; shorter secrets are not searched for inside other strings
_LONG = 8  # characters; shorter plain words and numbers are not searched for in code
_BY_REFERENCE = (type, ModuleType, FunctionType, Enum, type(os.environ))  # their contents are not values
_COPIED = 5  # this many environment variables' values count as a copy of the environment
_CONFIGURED = "a password or token from luigi.cfg"
_PRIVATE = "the value of the private parameter "
_COPY = "a copy of this process's environment: write `import os` and os.environ in "


def is_secret_name(name: str) -> bool:
    """Return whether a name looks like a secret's, such as ``db_password`` or ``AWS_SECRET_ACCESS_KEY``."""
    return _NAMES.search(name) is not None


class Secrets:
    """The values that must not be sent in clear text.

    They are a task's private parameters, the passwords and tokens in luigi.cfg, and environment variables
    with at least 8 characters and a name such as ``API_TOKEN``, except absolute paths. The values of several
    environment variables together count as a copy of the environment.

    Args:
        private: The private parameters by name; None for a function, which has no Luigi parameters.
        configured: The passwords and tokens in luigi.cfg.
        environ: The environment.
        called: The method's or function's name in messages.
    """

    def __init__(
        self,
        private: Mapping[str, object] | None,
        configured: Collection[str],
        environ: Mapping[str, str],
        called: str = "work()",
    ) -> None:
        self._called = called
        advice = "make it a private parameter"
        if private is None:
            private, advice = {}, f"let {called} read it from a file on the cluster"
        found = [(name, leaf) for name, value in private.items() for leaf in _leaves(value, keys=False)]
        self._private = [(name, leaf) for name, leaf in found if _is_secret(leaf)]
        self._environ = {name: value for name, value in environ.items() if len(value) >= _LONG}
        self._others = [(_CONFIGURED, value) for value in configured if len(value) >= _SHORTEST]
        self._others += [
            (f"the value of the {name} environment variable: {advice}", value)
            for name, value in self._environ.items()
            if is_secret_name(name) and not value.startswith("/")
        ]
        named = [(_private(name), leaf) for name, leaf in self._private]
        self._forms = [(name, form) for name, leaf in [*named, *self._others] for form in _forms(leaf)]

    def private_in(self, value: object, *, is_derived: bool = False) -> str:
        """Return the name of a private parameter that a value equals or contains; empty if there is none.

        Containers and objects' attributes are searched. Strings are searched for secrets of at least 4
        characters; a shorter secret must equal the whole string.

        Args:
            value: Any value.
            is_derived: Whether the value may be computed from the parameters. If so, equal numbers with fewer
                than 4 digits and equal objects of any other type count; otherwise they are coincidences.
        """
        return _first_in(value, self._private, is_derived=is_derived)

    def in_value(self, value: object) -> str:
        """Describe a secret in a value; empty if the value can be sent in clear text."""
        name = self.private_in(value)
        return _private(name) if name else _first_in(value, self._others, is_derived=False)

    def in_bytes(self, data: bytes) -> str:
        """Describe a secret in a file or pickle; empty if the file or pickle can be sent in clear text.

        Plain words and numbers with fewer than 8 characters are ignored.
        """
        for secret, form in self._forms:
            if form in data:
                return secret
        copied = set()
        for name, value in self._environ.items():
            found = value.encode("utf-8", "surrogateescape") in data
            if found and (not value.startswith("/") or name.encode("utf-8", "surrogateescape") in data):
                copied.add(value)  # because paths also occur in file names
        return f"{_COPY}{self._called}" if len(copied) >= _COPIED else ""


def _first_in(value: object, secrets: Sequence[tuple[str, object]], *, is_derived: bool) -> str:
    leaves = [leaf for leaf in _leaves(value) if _is_secret(leaf)] if secrets else []
    for name, secret in secrets:
        if any(_contains(leaf, secret, is_derived=is_derived) for leaf in leaves):
            return name
    return ""


def _private(name: str) -> str:
    return f"{_PRIVATE}{name}"


def _is_secret(leaf: object) -> bool:
    return (
        leaf is not None and not isinstance(leaf, bool) and not (isinstance(leaf, (str, bytes)) and not leaf)
    )


def _leaves(value: object, *, keys: bool = True) -> Iterator[Any]:
    """Yield the values inside containers and objects' attributes; yield any other value itself.

    Without ``keys``, the keys of mappings are left out.
    """
    waiting, seen = [value], {id(value): value}
    while waiting:
        each = waiting.pop()
        parts = _parts(each, keys=keys)
        if parts is None:
            yield each
            continue
        for part in parts:
            if id(part) not in seen:
                seen[id(part)] = part
                waiting.append(part)


def _parts(value: object, *, keys: bool) -> list[object] | None:
    """Return a container's elements or an object's attributes; None for a single value."""
    if isinstance(value, _BY_REFERENCE):
        return None
    with contextlib.suppress(Exception):  # for mappings that cannot be listed, such as a connection pool
        if isinstance(value, Mapping):
            return [*(value.keys() if keys else ()), *value.values()]
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            return [*value]
        if isinstance(value, (bytearray, PurePath)):
            return [bytes(value) if isinstance(value, bytearray) else str(value)]
    attributes = getattr(value, "__dict__", None)
    return [*attributes.values()] if isinstance(attributes, dict) and attributes else None


def _contains(leaf: object, secret: object, *, is_derived: bool) -> bool:
    wanted = secret.decode("latin-1") if isinstance(secret, bytes) else str(secret)
    if isinstance(leaf, (str, bytes)):
        found = leaf.decode("latin-1") if isinstance(leaf, bytes) else leaf
        is_equal = found == wanted and (is_derived or isinstance(secret, (str, bytes)))
        return is_equal or (len(wanted) >= _SHORTEST and wanted in found)
    is_number = isinstance(leaf, (int, float)) and len(wanted) >= _SHORTEST
    if type(leaf) is not type(secret) or not (is_derived or is_number):
        return False
    try:
        return bool(leaf == secret)
    except Exception:  # noqa: BLE001  comparing two arrays, for example, raises one
        return False


def _forms(secret: object) -> Iterator[bytes]:
    """Yield a secret's bytes as they occur in files, unless they could be mistaken for a word in code."""
    if isinstance(secret, bytes):
        if len(secret) >= _SHORTEST:
            yield secret
        return
    value = str(secret) if isinstance(secret, (str, int, float)) else ""
    is_word = value.isalpha() or not any(map(str.isalpha, value))  # or a number
    if len(value) >= _LONG or (len(value) >= _SHORTEST and not is_word):
        for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}:
            yield form.encode("utf-8", "surrogatepass")
