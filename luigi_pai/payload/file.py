"""Payload: the zip that Python runs in the container: ``work``, cloudpickle, the runtime and packages."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import sys
import threading
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

from luigi_pai import runtime
from luigi_pai.payload import container
from luigi_pai.payload.packages import is_beside, is_of_python, package_files
from luigi_pai.payload.pickler import Pickler
from luigi_pai.payload.reach import METHOD, Reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from luigi_pai.payload.secrets import Secrets

_LARGEST = 1_000_000  # maximum size in bytes of a value in the payload
_REGISTRY = threading.Lock()  # guards cloudpickle's list of modules, which the threads of a sweep share
_OF_LUIGI = {"param_args", "param_kwargs"}  # Luigi's attributes with all parameters, including private ones


@dataclass(frozen=True)
class SentValue:
    """A value that is sent in clear text.

    Attributes:
        name: Its name in the code: ``self.rate``, ``Train.classes``, ``TABLE``.
        type: The name of its class.
        size: The size of its pickle in bytes.
        value: The start of its repr; empty for ``os.environ``, because the container uses its own.
        place: The code that uses it, ``Train.work (train.py:12)``; empty for the task's own values.
    """

    name: str
    type: str
    size: int
    value: str
    place: str = ""


@dataclass(frozen=True)
class Contents:
    """What is sent with a task's method.

    Attributes:
        parts: Each part of the zip file -> its compressed size in bytes.
        functions: The qualified names of the functions that are sent.
        values: The values that are sent in clear text.
        secrets: The names of the values that are sent as one of the job's secrets.
    """

    parts: Mapping[str, int]
    functions: Sequence[str]
    values: Sequence[SentValue]
    secrets: Sequence[str]


class Payload:
    """The payload for a task class.

    Args:
        kind: The user's class.
        base: Its base class in this package.
        packages: The names of packages and modules to include.
        secrets: The values that the payload must not contain.
        function: The name of the function for which the class was created; None for a task.

    Attributes:
        field: The method's or function's name in problems and warnings.
        reach: The objects that ``work`` uses.
        problems: Why the payload cannot be sent.
        packages: The name of each file in the packages, with a hash of its content, in order.
        warnings: Modules that the container may not have, and attributes that are not sent back from it.
        file: The zip's content; empty if there are problems.
        name: The zip's file name, which contains a hash of the content; empty if there are problems.
    """

    def __init__(
        self, kind: type, base: type, packages: Sequence[str], secrets: Secrets, *, function: str = ""
    ) -> None:
        classes = [each for each in kind.__mro__ if each not in base.__mro__]
        machinery = {*dir(base), *_OF_LUIGI} - {*dir(object), METHOD, "pai"}
        settings = {each for each in machinery if isinstance(inspect.getattr_static(base, each, 0), property)}
        modules = {"__main__", *(each.__module__ for each in classes if not is_of_python(each.__module__))}
        self.field = f"{function}()" if function else METHOD
        self.reach = Reach(classes, machinery, settings, modules, f"{function or METHOD}()")
        self.problems = list(self.reach.problems)
        self._secrets, self._owner = secrets, "" if function else "self."
        self.file, self.name = b"", ""
        self.warnings = [
            f"sets self.{name} in {place}, which is not sent back from the container: return it, as in "
            f"return {{{name!r}: {name}}}, and read it with result()"
            for name, place in self.reach.unread()
        ]
        script = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "no file").resolve()
        sent = {*(packages or ()), *(each.partition(".")[0] for each in modules)}
        for module, place in self.reach.imports.items():
            top = module.partition(".")[0]
            if top not in sent and is_beside(top, script):
                sent.add(top)
                use = f"uses {module} in {place}, a module next to {script.name}"
                self.warnings.append(f"{use}: unless the image has it, send it with packages = [{top!r}]")
        files = dict(package_files(packages, self.problems))
        self.packages = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in files.items())
        if self.packages:
            self.reach.named["packages"] = self.packages
        for name, content in files.items():
            self._check_secrets(f"packages: {name}", "", content)
        method = b"" if self.problems else self._method()
        if not self.problems:
            numbers = {each: number for number, each in enumerate(classes)}
            about = {
                "task": kind.__name__,
                "function": function,
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
    def parts(self) -> dict[str, int]:
        """Each part's compressed size in bytes, the largest first."""
        sizes: Counter[str] = Counter()
        with zipfile.ZipFile(io.BytesIO(self.file)) as archive:
            for each in archive.infolist():
                sizes[each.filename.partition("/")[0]] += each.compress_size
        return dict(sizes.most_common())

    def pickled(self, values: Mapping[str, Any], *, are_secret: bool = False) -> bytes:
        """Pickle a task's values by name; if a value cannot be sent, add a problem and return no bytes.

        Problems never quote values that are secret or contain something that must not be sent in clear text.
        """
        before = len(self.problems)
        for name, value in values.items():
            shown, place = "" if are_secret else self.shown(value), f"{self._owner}{name}"
            data = self._pickle(f"{place} = {shown}" if shown else place, value)
            if not are_secret:
                self._check_secrets(place, value, data)
        return b"" if self.problems[before:] else self.dumps(dict(values))

    def shown(self, value: object) -> str:
        """Return the start of a value's repr; empty if part of the value must not be sent in clear text."""
        shown = repr(value)
        data = shown.encode("utf-8", "backslashreplace")
        is_open = not (self._secrets.in_value([value, shown]) or self._secrets.in_bytes(data))
        return f"{shown:.60}" if is_open else ""

    def _method(self) -> bytes:
        """Pickle a task's classes and the source of their functions."""
        before = len(self.problems)
        whole = [[self.reach.attributes(each) for each in self.reach.classes], self.reach.sources()]
        data = self._pickle(self.reach.called, whole)
        self._check_secrets(self.reach.called, None, data)
        general = self.problems[before:]
        del self.problems[before:]
        for name, value, place in self.reach.values.values():
            if not isinstance(value, FunctionType) or value not in self.reach.functions:
                use = f"{name}, used in {place}," if place else f"the {name}"
                self._check_secrets(use, value, self._pickle(use, value) if general else b"")
        if not self.problems[before:]:
            self.problems += general
        return data

    def _pickle(self, name: str, value: object) -> bytes:
        """Pickle a value; if it cannot be pickled, or its pickle is too large, add a problem."""
        try:
            data = self.dumps(value)
        except Exception as error:  # noqa: BLE001  the user's value may raise any error
            self.problems.append(f"{name} cannot be pickled: {error}".strip())
            return b""
        if len(data) > _LARGEST:
            self.problems.append(
                f"{name} is {len(data):,} bytes, and at most {_LARGEST:,} are sent: load it in "
                f"{self.reach.called}, from HDFS or a storage"
            )
            return b""
        return data

    def _check_secrets(self, name: str, value: object, data: bytes) -> None:
        """Add a problem if a value or its pickle contains something that must not be sent in clear text."""
        if found := self._secrets.in_value(value) or self._secrets.in_bytes(data):
            self.problems.append(f"{name} contains {found}; every user of the cluster can read it")

    def contents(self, public: Mapping[str, Any], secrets: Mapping[str, Any]) -> Contents:
        """Return what is sent with a task's public and secret values, if there are no problems."""
        functions = [function.__qualname__ for function in self.reach.functions]
        values = [*self._sent(public)]
        return Contents(self.parts, functions, values, [f"self.{name}" for name in secrets])

    def _sent(self, public: Mapping[str, Any]) -> Iterator[SentValue]:
        named = [(f"self.{name}", value, "") for name, value in public.items()]
        for name, value, place in [*named, *self.reach.values.values()]:
            if not isinstance(value, FunctionType) or value not in self.reach.functions:
                size = len(self.dumps(value))
                yield SentValue(name, type(value).__name__, size, self.shown(value), place)

    def dumps(self, value: object) -> bytes:
        """Pickle a value."""
        with _REGISTRY:
            known = cloudpickle.list_registry_pickle_by_value()
            names = set(self.reach.modules) - known - {"__main__"}
            modules = [sys.modules[each] for each in names if each in sys.modules]
            for module in modules:
                cloudpickle.register_pickle_by_value(module)
            try:
                file = io.BytesIO()
                Pickler(file, self.reach).dump(value)
                return file.getvalue()
            finally:
                for module in modules:
                    cloudpickle.unregister_pickle_by_value(module)


@functools.lru_cache(maxsize=8)
def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    """Zip files, and the modules that every task needs. Equal files give equal zips."""
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
