"""The base class of the job protocol's dataclasses: reads and writes documents with JSON types."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.hints import METHOD, nearest
from luigi_pai.jobspec.job import UNSET, Unset
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from luigi_pai.jobspec.paths import Path

    Errors = list[tuple[Path, str]]
    _Field = tuple[str, str, Any, Mapping[str, Any]]

P = TypeVar("P", bound="Part")

_SURROGATE = re.compile("[\ud800-\udfff]")
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Part:
    """Base of the job protocol's classes. A class's field types determine how a document is read.

    If a field's key in the document differs from its name, its metadata contains the key as ``key``. If
    ``repr`` must mask a field's value, its metadata contains ``hidden``.

    Attributes:
        more: Key -> value, for keys in the document that are not fields of the class.
    """

    _is_lenient: ClassVar[bool] = False
    """Whether values with an invalid shape are kept unchanged in ``more``, because servers accept them."""

    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    _read_keys: tuple[str, ...] = dataclasses.field(default=(), init=False)

    @classmethod
    def _class_for(cls, document: Mapping[str, Any]) -> type[Part]:  # noqa: ARG003  for subclasses
        """Return the class for the object that a document describes."""
        return cls

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Create the object that a document describes, with copies of the document's values.

        Raises:
            SpecError: A value has an invalid shape, such as a string instead of a list.
        """
        return part_from(cls, document)

    def to_dict(self) -> dict[str, Any]:
        """Return a new document of dicts, lists and plain values.

        Raises:
            SpecError: A value cannot be written as JSON.
        """
        return self._document(())

    def _document(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, key, _, _ in _fields(type(self)):
            given = getattr(self, name)
            if given is UNSET:
                continue
            if key not in self._read_keys and _is_empty_by_default(self, name) and _is_empty(given):
                continue
            found[key] = plain(given, (*path, key))
        for key, given in self.more.items():
            if key not in found or _is_empty(found[key]):
                found[key] = plain(given, (*path, key))
        order = [key for key in self._read_keys if key in found]
        return {key: found[key] for key in (*order, *(key for key in found if key not in order))}

    def __setattr__(self, name: str, given: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}"
                f"{nearest(name, [each for each, *_ in _fields(type(self))])}; further keys go into 'more'"
            )
        object.__setattr__(self, name, given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part) or type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = []
        for name, _, _, metadata in _fields(type(self)):
            given = getattr(self, name)
            if given is UNSET or _is_empty(given):
                continue
            formatted = _masked if metadata.get("hidden") else _without_credentials
            shown.append(f"{name}={formatted(given)}")
        if self.more:
            shown.append(f"more={_masked(self.more)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def part_from(cls: type[P], document: Any, lines: Mapping[Path, int] | None = None) -> P:
    """Return the object that a document describes.

    Raises:
        SpecError: Values have an invalid shape. The error lists all of them, with the lines in ``lines``.
    """
    errors: Errors = []
    found = _read(cls, document, (), errors)
    if errors or not isinstance(found, cls):
        name = document.get("name") if isinstance(document, Mapping) else None
        raise SpecError(
            name if isinstance(name, str) else "",
            [Problem(path_text(path), message, line=(lines or {}).get(path)) for path, message in errors],
        )
    return found


def _read_fields(cls: type) -> list[_Field]:
    """Return the name, key, type and metadata of each field that documents contain (all except ``more``)."""
    types = get_type_hints(cls)
    return [
        (each.name, each.metadata.get("key", each.name), types[each.name], each.metadata)
        for each in dataclasses.fields(cls)
        if each.init and each.name != "more"
    ]


_fields: Callable[[type], list[_Field]] = functools.cache(_read_fields)


def _is_empty_by_default(cls: type[Part] | Part, name: str) -> bool:
    """Return whether a field's default is an empty list, mapping or part."""
    return cls.__dataclass_fields__[name].default_factory is not dataclasses.MISSING


def _is_empty(given: Any) -> bool:
    if isinstance(given, Part):
        return not given.to_dict()
    return isinstance(given, list | dict | tuple) and not given


def _read(cls: type[Part], document: Any, path: Path, errors: Errors) -> Part | None:
    if not isinstance(document, Mapping):
        errors.append((path, _is_not(document, "a mapping")))
        return None
    chosen = cls._class_for(document)
    given: dict[str, Any] = {}
    more: dict[str, Any] = dict(document)
    for name, key, kind, _ in _fields(chosen):
        if key not in document:
            if not _is_empty_by_default(chosen, name):
                given[name] = UNSET
            continue
        found: Errors = []
        item = _value(document[key], kind, (*path, key), found)
        if found and chosen._is_lenient:  # noqa: SLF001  this is its module
            continue
        given[name] = item
        errors += found
        del more[key]
    made = chosen(**given, more=copy.deepcopy(more))
    made._read_keys = tuple(document)  # noqa: SLF001  this is its module
    return made


def _value(item: Any, kind: Any, path: Path, errors: Errors) -> Any:
    """Convert a value in a document to a field's type. Values that are not parts are copied."""
    if isinstance(kind, UnionType):
        kinds = [each for each in get_args(kind) if each is not Unset]
        return _value(item, kinds[0] if len(kinds) == 1 else Any, path, errors)
    shape = get_origin(kind)
    if shape is list and isinstance(item, list):
        (item_kind,) = get_args(kind)
        return [_value(each, item_kind, (*path, index), errors) for index, each in enumerate(item)]
    if shape is dict and isinstance(item, dict):
        _, item_kind = get_args(kind)
        return {key: _value(each, item_kind, (*path, key), errors) for key, each in item.items()}
    if shape is not None:
        errors.append((path, _is_not(item, "a list" if shape is list else "a mapping")))
        return None
    if isinstance(kind, type) and issubclass(kind, Part):
        return _read(kind, item, path, errors)
    return copy.deepcopy(item)


def _is_not(item: Any, wanted: str) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "empty"}
    kind = type(item)
    return f"must be {wanted}, not {kinds.get(kind, f'a value of type {kind.__name__}')}"


def _masked(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{key!r}: ...' for key in given)}}}"
    return "..."


def _without_credentials(given: Any) -> str:
    return _CREDENTIALS.sub("...@", repr(given))


# ---------------------------------------------------------------- values with JSON types


def plain(given: Any, path: Path = ()) -> Any:
    """Return a copy of a value, converted to JSON types.

    Parts and mappings become dicts; lists and tuples become lists; dates, datetimes (both as ISO 8601) and
    paths become strings. An enum member that is also an instance of ``str``, ``int`` or ``float`` becomes its
    value. Any other enum member becomes its name, as in the command lines that Luigi writes.

    Raises:
        SpecError: A value cannot be written as JSON. The error has the path and the reason, never the value.
    """
    if given is None or isinstance(given, bool):
        return given
    for kinds, converted in _CONVERSIONS:
        if isinstance(given, kinds):
            return converted(given, path)
    if inspect.isroutine(given):
        raise _refusal(path, METHOD)
    like_a_number = hasattr(given, "__index__") or hasattr(given, "__float__")
    hint = (
        "; convert it with int(...) or float(...)"
        if like_a_number
        else "; write it as a string, a number or a list"
    )
    raise _refusal(path, f"is of type {type(given).__name__}, which JSON does not support{hint}")


def _from_enum(given: Enum, path: Path) -> Any:
    return plain(given.value if isinstance(given, (str, int, float)) else given.name, path)


def _from_string(given: str, path: Path) -> str:
    if _SURROGATE.search(given):
        raise _refusal(path, "contains half a character (a lone surrogate), which no server accepts")
    return str(given)


def _from_float(given: float, path: Path) -> float:
    if not math.isfinite(given):
        raise _refusal(path, "is infinite or not a number, which JSON does not support")
    return float(given)


def _from_mapping(given: Mapping[Any, Any], path: Path) -> dict[str, Any]:
    for key in given:
        if not isinstance(key, str):
            raise _refusal(path, f"has a key of type {type(key).__name__}; keys must be strings")
    return {str(key): plain(item, (*path, str(key))) for key, item in given.items()}


def _from_bytes(given: Any, path: Path) -> Any:
    raise _refusal(path, f"is of type {type(given).__name__}, which JSON does not support; decode it")


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any, Path], Any]], ...] = (
    (Enum, _from_enum),  # first, because a member may also be a string or a number
    (Part, lambda given, path: given._document(path)),  # noqa: SLF001  this is its module
    (str, _from_string),
    (int, lambda given, _: int(given)),
    (float, _from_float),
    (date, lambda given, _: given.isoformat()),  # and datetime, which is a subclass of date
    (os.PathLike, lambda given, path: plain(os.fspath(given), path)),
    ((bytes, bytearray, memoryview), _from_bytes),
    (Mapping, _from_mapping),
    (Sequence, lambda given, path: [plain(item, (*path, index)) for index, item in enumerate(given)]),
)


def _refusal(path: Path, message: str) -> SpecError:
    return SpecError("", [Problem(path_text(path), message)])
