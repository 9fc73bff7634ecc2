"""Pickles a payload: the user's code by value, other modules by reference, and no live objects."""

from __future__ import annotations

import functools
import io
import logging
import os
import pickle
import socket
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

import cloudpickle

from luigi_pai.payload.reach import is_of_luigi

if TYPE_CHECKING:
    from luigi_pai.payload.reach import Reach

_CACHED = type(functools.cache(len))
_NO_FILE = "<dynamic-code>"
_LIVE: tuple[tuple[type, str], ...] = (
    (logging.Logger, "a logger: call logging.getLogger()"),
    (logging.Handler, "a log handler: call logging.getLogger()"),
    (socket.socket, "a socket: connect"),
    (io.IOBase, "an open file: open it"),
    (type(os.environ), "an environment: write `import os` and os.environ"),
)
_LIVE_ELSEWHERE = {  # classes in modules that may not be loaded yet
    "http.client.HTTPConnection": "a connection: connect",
    "http.cookiejar.CookieJar": "cookies of this process: log in",
    "tempfile.TemporaryDirectory": "a temporary folder: make it",
    "requests.sessions.Session": "a session with its cookies and passwords: make it",
    "httpx._client.BaseClient": "a session with its cookies and passwords: make it",
}
_IN_MEMORY = (io.BytesIO, io.StringIO)  # plain values, although subclasses of IOBase


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the package has no types
    """Pickles objects in the user's modules by value, and the task's classes as indexes in ``classes``.

    ``os.environ`` is pickled by reference, so the container uses its own. This process's other live objects
    raise a PicklingError with advice.
    """

    def __init__(self, file: io.BytesIO, reach: Reach) -> None:
        super().__init__(file)
        self._classes, self._modules, self._called = reach.classes, reach.modules, reach.called
        self._of_sys = {id(value): name for name, value in vars(sys).items() if type(value) in (dict, list)}

    def persistent_id(self, obj: object) -> int | None:
        """Return the index of one of the task's classes, or None to pickle the object."""
        if isinstance(obj, type) and obj in self._classes:
            return self._classes.index(obj)
        if is_of_luigi(obj):
            kind = obj if isinstance(obj, type) else type(obj)
            name = getattr(obj, "__name__", f"{kind.__module__}.{kind.__qualname__}")
            raise pickle.PicklingError(f"it contains {name}, and the container has no luigi")
        if live := self._live(obj):
            raise pickle.PicklingError(f"it contains {live}; live objects cannot be sent")
        return None

    def reducer_override(self, obj: Any) -> Any:
        """Return how to rebuild an object."""
        if obj is os.environ or obj is getattr(os, "environb", None):
            return getattr, (os, "environ" if obj is os.environ else "environb")
        if isinstance(obj, CodeType):  # cloudpickle 3.1.3 drops the file name, which tracebacks show
            kind, about = self.dispatch_table[CodeType](obj)
            return kind, tuple(obj.co_filename if part == _NO_FILE else part for part in about)
        if isinstance(obj, functools.cached_property):  # before Python 3.12, its lock cannot be pickled
            return functools.cached_property, (obj.func,)
        # cloudpickle pickles cached functions by name, but the container does not have their modules
        if isinstance(obj, _CACHED) and obj.__module__ in self._modules:
            is_unbound = obj.cache_parameters()["maxsize"] is None
            return functools.cache if is_unbound else functools.lru_cache, (obj.__wrapped__,)
        return super().reducer_override(obj)

    def _live(self, obj: object) -> str:
        """Describe a live object, with advice; empty for a plain value."""
        name = self._of_sys.get(id(obj))
        if name is not None:
            return f"sys.{name}: write `import sys` and sys.{name} in {self._called}"
        if obj is os.environ or obj is getattr(os, "environb", None):
            return ""
        kind: type = type(obj)
        found = _live_kind(kind)
        return f"a {kind.__name__} ({found} in {self._called})" if found else ""


@functools.lru_cache(maxsize=1000)
def _live_kind(kind: type) -> str:
    for live, advice in _LIVE:
        if issubclass(kind, live) and not issubclass(kind, _IN_MEMORY):
            return advice
    names = (f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__)
    return next((_LIVE_ELSEWHERE[name] for name in names if name in _LIVE_ELSEWHERE), "")
