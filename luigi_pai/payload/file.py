"""Payload: a zip of ``work``, cloudpickle, the runtime and packages, which Python runs in the container."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import pickle
import sys
import threading
import zipfile
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

from luigi_pai import runtime
from luigi_pai.payload import container
from luigi_pai.payload.packages import package_files
from luigi_pai.payload.reach import METHOD, Reach, is_of_luigi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LARGEST = 1_000_000  # bytes of one value in the payload
_CACHED = type(functools.cache(len))
_NO_FILE = "<dynamic-code>"
_REGISTRY = threading.Lock()  # guards cloudpickle's list of modules, which a sweep's threads share
_OF_LUIGI = {"param_args", "param_kwargs"}  # Luigi's attributes with all parameters, even private ones


class Payload:
    """The payload of a class of tasks.

    Args:
        kind: the user's class.
        base: its base class in this package.
        packages: names of packages and modules to include.

    Attributes:
        reach: the objects that ``work`` uses.
        problems: the reasons why the payload cannot be sent.
        file: the content of the zip; empty if there are problems.
        name: the zip's file name, which has a hash of the content; empty if there are problems.
    """

    def __init__(self, kind: type, base: type, packages: Sequence[str]) -> None:
        classes = [each for each in kind.__mro__ if each not in base.__mro__]
        machinery = {*dir(base), *_OF_LUIGI} - {*dir(object), METHOD, "pai"}
        settings = {each for each in machinery if isinstance(inspect.getattr_static(base, each, 0), property)}
        modules = {each.__module__ for each in classes} - sys.stdlib_module_names | {"__main__"}
        self.reach = Reach(classes, machinery, settings, modules)
        self.problems = list(self.reach.problems)
        self.file, self.name = b"", ""
        files = dict(package_files(packages, self.problems))
        method = b"" if self.problems else self._method()
        if not self.problems:
            numbers = {each: number for number, each in enumerate(classes)}
            about = {
                "task": kind.__name__,
                "python": "{}.{}".format(*sys.version_info),
                "classes": [
                    (each.__name__, list(dict.fromkeys(numbers.get(base, -1) for base in each.__bases__)))
                    for each in classes
                ],
            }
            files |= {"task.json": json.dumps(about).encode(), f"{METHOD}.pickle": method}
            self.file = _zipped(tuple(files.items()))
            self.name = f"luigi_pai-{hashlib.sha256(self.file).hexdigest()[:12]}.zip"

    @property
    def sizes(self) -> str:
        """The compressed size of each part, the largest first: ``cloudpickle 17,157, work.pickle 900``."""
        sizes: Counter[str] = Counter()
        with zipfile.ZipFile(io.BytesIO(self.file)) as archive:
            for each in archive.infolist():
                sizes[each.filename.partition("/")[0]] += each.compress_size
        return ", ".join(f"{part} {size:,}" for part, size in sizes.most_common())

    def pickled(self, values: Mapping[str, Any], *, show: bool) -> bytes:
        """Pickle a task's values by name; if a value cannot be pickled, add a problem and return no bytes.

        With ``show`` the problems quote the values, so use it only for values that are not secret.
        """
        before = len(self.problems)
        for name, value in values.items():
            self._try(f"self.{name}{f' = {value!r:.60}' if show else ''}", value)
        return b"" if self.problems[before:] else self._dumps(dict(values))

    def _method(self) -> bytes:
        """Pickle the classes of a task, and the source of their functions."""
        whole = [[self.reach.attributes(each) for each in self.reach.classes], self.reach.sources()]
        data = self._try(f"{METHOD}()", whole)
        if not data or len(data) > _LARGEST:
            general = self.problems.pop()
            for name, value, place in self.reach.values.values():
                if not isinstance(value, FunctionType) or value not in self.reach.functions:
                    self._try(f"{name}, used in {place},", value)
            self.problems = self.problems or [general]
        return data

    def _try(self, what: str, value: object) -> bytes:
        """Pickle a value; if it cannot be pickled, or its pickle is too large, add a problem."""
        try:
            data = self._dumps(value)
        except Exception as error:  # noqa: BLE001  whatever a value of the user's raises
            self.problems.append(f"{what} cannot be pickled: {error}".strip())
            return b""
        if len(data) > _LARGEST:
            self.problems.append(
                f"{what} has {len(data):,} bytes; at most {_LARGEST:,} travel: load it in {METHOD}(), from "
                "HDFS or a mount"
            )
        return data

    def _dumps(self, value: object) -> bytes:
        with _REGISTRY:
            known = cloudpickle.list_registry_pickle_by_value()
            names = set(self.reach.modules) - known - {"__main__"}
            modules = [sys.modules[each] for each in names if each in sys.modules]
            for module in modules:
                cloudpickle.register_pickle_by_value(module)
            try:
                file = io.BytesIO()
                _Pickler(file, self.reach).dump(value)
                return file.getvalue()
            finally:
                for module in modules:
                    cloudpickle.unregister_pickle_by_value(module)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the package has no types
    """Pickles objects of the user's modules by value, and a class of the task as its index in ``classes``."""

    def __init__(self, file: io.BytesIO, reach: Reach) -> None:
        super().__init__(file)
        self._classes, self._modules = reach.classes, reach.modules

    def persistent_id(self, obj: object) -> int | None:
        if isinstance(obj, type) and obj in self._classes:
            return self._classes.index(obj)
        if is_of_luigi(obj):
            raise pickle.PicklingError(f"it has {obj!r:.80} in it, and the container has no luigi")
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):  # cloudpickle 3.1.3 omits the file's name, which tracebacks show
            kind, about = self.dispatch_table[CodeType](obj)
            return kind, tuple(obj.co_filename if part == _NO_FILE else part for part in about)
        if isinstance(obj, functools.cached_property):  # before Python 3.12, its lock prevents pickling
            return functools.cached_property, (obj.func,)
        # cloudpickle pickles functions with a cache by name, but the container does not have their modules
        if isinstance(obj, _CACHED) and obj.__module__ in self._modules:
            is_unbound = obj.cache_parameters()["maxsize"] is None
            return functools.cache if is_unbound else functools.lru_cache, (obj.__wrapped__,)
        return super().reducer_override(obj)


@functools.lru_cache(maxsize=8)
def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a zip of files and of the modules that every task needs; equal files make equal zips."""
    theirs = sorted(Path(cloudpickle.__file__).parent.glob("*.py"))
    ours = [
        ("__main__.py", Path(container.__file__).read_bytes()),
        ("luigi_pai/__init__.py", b""),
        ("luigi_pai/runtime.py", Path(runtime.__file__).read_bytes()),
        *((f"cloudpickle/{path.name}", path.read_bytes()) for path in theirs),
    ]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in (*ours, *files):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()
