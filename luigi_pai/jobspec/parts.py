"""Base of the job protocol's dataclasses: reading from a document, and writing to one."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.job import UNSET
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.plain_values import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from luigi_pai.jobspec.paths import Path

    Wrong = list[tuple[Path, str]]

P = TypeVar("P", bound="Part")

_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


def shaped(shape: str, cls: type[Part] | None = None, **further: Any) -> dict[str, Any]:
    """Return the metadata of a field that holds an object, or a list or mapping.

    Args:
        shape: ``object``, ``list`` or ``mapping``, of names to values.
        cls: the class of the object, or of those in it; None: they are plain values.
        further: ``hidden``: no repr shows the values; ``lenient``: a value of another shape is kept as it
            is, because the server accepts it; ``key``: the field's name in the document.
    """
    return {"of": cls, "shape": shape, **further}


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Part:
    """An object of the job protocol.

    Attributes:
        more: keys that the class has no field for, with their values.
    """

    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    _read_keys: tuple[str, ...] = dataclasses.field(default=(), init=False)

    @classmethod
    def _class_for(cls, document: Mapping[str, Any]) -> type[Part]:  # noqa: ARG003  for subclasses
        """Return the class to read a document as."""
        return cls

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the object that a document describes; the document is copied.

        Raises:
            SpecError: a value has the wrong shape, such as a text in place of a list.
        """
        return part_from(cls, document)

    def to_dict(self) -> dict[str, Any]:
        """Return a new document of dicts, lists and plain values.

        Raises:
            SpecError: a value cannot be written as JSON.
        """
        return self._document(())

    def _document(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, key, _ in _fields(type(self)):
            given = getattr(self, name)
            if given is UNSET:
                continue
            if key not in self._read_keys and _is_empty_by_default(self, name) and _is_empty(given):
                continue
            found[key] = _written(given, (*path, key))
        for key, given in self.more.items():
            if key not in found or _is_empty(found[key]):
                found[key] = plain(given, (*path, key))
        order = [key for key in self._read_keys if key in found]
        return {key: found[key] for key in (*order, *(key for key in found if key not in order))}

    def __setattr__(self, name: str, given: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}"
                f"{nearest(name, [each for each, _, _ in _fields(type(self))])}; further keys go into 'more'"
            )
        object.__setattr__(self, name, given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part) or type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = []
        for name, _, metadata in _fields(type(self)):
            given = getattr(self, name)
            if given is UNSET or _is_empty(given):
                continue
            shown.append(f"{name}={_masked(given) if metadata.get('hidden') else _shown(given)}")
        if self.more:
            shown.append(f"more={_masked(self.more)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def part_from(cls: type[P], document: Any, lines: Mapping[Path, int] | None = None) -> P:
    """Return the object that a document describes.

    Args:
        cls: the class of the object.
        document: dicts, lists and plain values.
        lines: path of each value -> its line in the file.

    Raises:
        SpecError: values have the wrong shape; it names every one.
    """
    wrong: Wrong = []
    found = _read(cls, document, (), wrong)
    if wrong or not isinstance(found, cls):
        name = document.get("name") if isinstance(document, Mapping) else None
        raise SpecError(
            name if isinstance(name, str) else "",
            [Problem(path_text(path), message, line=(lines or {}).get(path)) for path, message in wrong],
        )
    return found


def _written(given: Any, path: Path) -> Any:
    """Return a field's value as JSON has it."""
    if isinstance(given, Part):
        return given._document(path)  # noqa: SLF001  this is its module
    if isinstance(given, dict):
        plain(dict.fromkeys(given), path)  # the keys
        return {key: _written(item, (*path, key)) for key, item in given.items()}
    if isinstance(given, (list, tuple)):
        return [_written(item, (*path, index)) for index, item in enumerate(given)]
    return plain(given, path)


def _fields(cls: type[Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name, the key and the metadata of each field but ``more``."""
    for each in dataclasses.fields(cls):
        if each.init and each.name != "more":
            yield each.name, each.metadata.get("key", each.name), each.metadata


def _is_empty_by_default(cls: type[Part] | Part, name: str) -> bool:
    """Return whether a field holds an empty list, mapping or part where nothing is given."""
    return cls.__dataclass_fields__[name].default_factory is not dataclasses.MISSING


def _is_empty(given: Any) -> bool:
    if isinstance(given, Part):
        return not given.to_dict()
    return isinstance(given, list | dict | tuple) and not given


def _read(cls: type[Part], document: Any, path: Path, wrong: Wrong) -> Part | None:
    if not isinstance(document, Mapping):
        wrong.append((path, _is_not(document, "a mapping")))
        return None
    chosen = cls._class_for(document)
    given: dict[str, Any] = {}
    more: dict[str, Any] = dict(document)
    for name, key, metadata in _fields(chosen):
        if key not in document:
            if not _is_empty_by_default(chosen, name):
                given[name] = UNSET
            continue
        found: Wrong = []
        item = _field(document[key], metadata, (*path, key), found)
        if found and metadata.get("lenient"):
            continue
        given[name] = item
        wrong += found
        del more[key]
    made = chosen(**given, more=copy.deepcopy(more))
    made._read_keys = tuple(document)  # noqa: SLF001  the same
    return made


def _field(item: Any, metadata: Mapping[str, Any], path: Path, wrong: Wrong) -> Any:
    """Return the value of a field for a value of the document."""
    shape = metadata.get("shape")
    if shape is None:
        return copy.deepcopy(item)
    if shape == "object":
        return _read(metadata["of"], item, path, wrong)
    cls = metadata["of"]
    if isinstance(item, list if shape == "list" else dict) and cls is None:
        return copy.deepcopy(item)
    if isinstance(item, list) and shape == "list":
        return [_read(cls, each, (*path, index), wrong) for index, each in enumerate(item)]
    if isinstance(item, dict) and shape == "mapping":
        return {key: _read(cls, each, (*path, key), wrong) for key, each in item.items()}
    wrong.append((path, _is_not(item, f"a {shape}")))
    return None


def _is_not(item: Any, wanted: str) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "empty"}
    kind = type(item)
    return f"this is {kinds.get(kind, f'of type {kind.__name__}')}; it must be {wanted}"


def _masked(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{key!r}: ...' for key in given)}}}"
    return "..."


def _shown(given: Any) -> str:
    return _CREDENTIALS.sub("...@", repr(given))
