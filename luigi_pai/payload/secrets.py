"""Secrets: finds values that must not be sent in clear: secrets, and the environment of this process."""

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
_SHORTEST = 4  # minimum characters of a secret to search for inside other strings
_LONG = 8  # minimum characters to search for a secret in code even if it is a plain word or a number
_BY_REFERENCE = (type, ModuleType, FunctionType, Enum, type(os.environ))  # their contents are not values
_COPIED = 5  # this many values of environment variables count as a copy of the environment
_CONFIGURED = "a password or token of luigi.cfg"
_PRIVATE = "the value of the private parameter "
_COPY = "a copy of this process's environment: write `import os` and os.environ in "


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret, such as ``db_password`` or ``AWS_SECRET_ACCESS_KEY``."""
    return _NAMES.search(name) is not None


class Secrets:
    """The values that must not be sent in clear.

    They are the private parameters of a task, the passwords and tokens in luigi.cfg, and environment
    variables with at least 8 characters and a name such as ``API_TOKEN``, except absolute paths. If the
    values of several environment variables are sent, they count as a copy of the environment.

    Args:
        private: The private parameters by name; None for a function, which has no Luigi parameters.
        configured: The passwords and tokens in luigi.cfg.
        environ: The environment.
        called: The name of the method or function in messages.
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
            private, advice = {}, f"let {called} read it from a file of the cluster"
        found = [(name, leaf) for name, value in private.items() for leaf in _leaves(value, keys=False)]
        self._private = [(name, leaf) for name, leaf in found if _is_secret(leaf)]
        self._environ = {name: value for name, value in environ.items() if len(value) >= _LONG}
        self._others = [(_CONFIGURED, value) for value in configured if len(value) >= _SHORTEST]
        self._others += [
            (f"the value of the environment variable {name}: {advice}", value)
            for name, value in self._environ.items()
            if is_secret_name(name) and not value.startswith("/")
        ]
        named = [(_private(name), leaf) for name, leaf in self._private]
        self._forms = [(name, form) for name, leaf in [*named, *self._others] for form in _forms(leaf)]

    def private_in(self, value: object, *, is_derived: bool = False) -> str:
        """Return the name of a private parameter that a value equals or contains; empty if there is none.

        Containers and the attributes of objects are searched. Strings are searched for secrets of at least 4
        characters; shorter secrets must be equal.

        Args:
            value: Any value.
            is_derived: Whether the value may be computed from the parameters. If so, equal numbers with less
                than 4 digits and equal objects of any other type count; otherwise they are a coincidence.
        """
        return _first_in(value, self._private, is_derived=is_derived)

    def in_value(self, value: object) -> str:
        """Return the description of a secret in a value; empty if the value can be sent in clear."""
        name = self.private_in(value)
        return _private(name) if name else _first_in(value, self._others, is_derived=False)

    def in_bytes(self, data: bytes) -> str:
        """Return the description of a secret in a file or pickle; empty if it can be sent in clear.

        Secrets with less than 8 characters that are plain words or numbers are ignored.
        """
        for secret, form in self._forms:
            if form in data:
                return secret
        copied = set()
        for name, value in self._environ.items():
            found = value.encode("utf-8", "surrogateescape") in data
            if found and (not value.startswith("/") or name.encode("utf-8", "surrogateescape") in data):
                copied.add(value)  # paths also occur in file names
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
    """Yield the values in containers and in the attributes of objects, and the other values themselves.

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
    """Return the elements of a container or the attributes of an object; None for a single value."""
    if isinstance(value, _BY_REFERENCE):
        return None
    with contextlib.suppress(Exception):  # for mappings that cannot be listed, such as a pool of connections
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
    except Exception:  # noqa: BLE001  such as that of two arrays
        return False


def _forms(secret: object) -> Iterator[bytes]:
    """Yield the bytes of a secret in files, if they cannot be mistaken for a word of code."""
    if isinstance(secret, bytes):
        if len(secret) >= _SHORTEST:
            yield secret
        return
    value = str(secret) if isinstance(secret, (str, int, float)) else ""
    is_word = value.isalpha() or not any(map(str.isalpha, value))  # or a number
    if len(value) >= _LONG or (len(value) >= _SHORTEST and not is_word):
        for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}:
            yield form.encode("utf-8", "surrogatepass")
