"""Typed views of a document: dataclasses that are read from dicts and lists, and written back to them."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.errors import Problem, SpecError
from luigi_pai.spec.job import UNSET
from luigi_pai.spec.yaml_text import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.spec.yaml_text import Path

    Lines = Mapping[Path, int]

__all__ = ["Part", "listed", "mapped", "one", "plain", "read"]

P = TypeVar("P", bound="Part")

_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


def one(cls: type[Part], **further: Any) -> dict[str, Any]:
    """Return the metadata of a field that holds one part."""
    return {"of": cls, "shape": "one", **further}


def listed(cls: type[Part] | None = None, **further: Any) -> dict[str, Any]:
    """Return the metadata of a field that holds a list, of parts if a class is given."""
    return {"of": cls, "shape": "list", **further}


def mapped(cls: type[Part] | None = None, **further: Any) -> dict[str, Any]:
    """Return the metadata of a field that maps names to values, or to parts if a class is given.

    Args:
        cls: the class of the parts.
        further: ``hidden``: no repr shows the values; ``lenient``: what is of another
            shape is kept as it is, for the server takes it; ``key``: the name in the document.
    """
    return {"of": cls, "shape": "mapping", **further}


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Part:
    """A mapping of the document, as an object.

    Attributes:
        more: the keys that the class does not know, with their values.
    """

    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    _read_keys: tuple[str, ...] = dataclasses.field(default=(), init=False)

    @classmethod
    def _chosen(cls: type[P], document: Mapping[str, Any]) -> type[P]:  # noqa: ARG003  for subclasses
        """Return the class that a document is read as."""
        return cls

    @classmethod
    def from_dict(cls: type[P], document: Any) -> P:
        """Take over a document; it is copied.

        Raises:
            SpecError: something in it is not of the shape that belongs there.
        """
        return read(cls, document)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: a new document of dicts, lists and plain values.

        Raises:
            SpecError: a value is none that JSON has.
        """
        return self._document(())

    def _document(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, key, _ in _fields(type(self)):
            given = getattr(self, name)
            if given is UNSET or (key not in self._read_keys and _is_empty(given)):
                continue
            found[key] = plain(given, (*path, key))
        for key, given in self.more.items():
            if key not in found or _is_empty(found[key]):
                found[key] = plain(given, (*path, key))
        order = [key for key in self._read_keys if key in found]
        return {key: found[key] for key in (*order, *(key for key in found if key not in order))}

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


def read(cls: type[P], document: Any, lines: Lines | None = None) -> P:
    """Return the part that a document describes.

    Raises:
        SpecError: with every place where the shape is wrong.
    """
    problems: list[Problem] = []
    found = _read(cls, document, (), problems)
    if problems or found is None:
        name = document.get("name", "") if isinstance(document, Mapping) else ""
        raise SpecError(
            name if isinstance(name, str) else "",
            [dataclasses.replace(problem, line=_line(problem.path, lines or {})) for problem in problems],
        )
    return found


def plain(given: Any, path: Path = ()) -> Any:
    """Return a value as JSON has it: of Luigi parameters, too.

    Mappings become dicts, lists and tuples lists, dates texts (ISO), paths texts;
    an enum's member its value if that is what it is a kind of, else its name, as
    Luigi writes it on a command line.

    Raises:
        SpecError: it is none of these.
    """
    if given is None or isinstance(given, bool):
        return given
    if isinstance(given, Enum):
        return plain(given.value if isinstance(given, str | int | float) else given.name, path)
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int):
        return int(given)
    if isinstance(given, float):
        if not math.isfinite(given):
            raise SpecError("", [Problem(path_text(path), "is infinite or not a number, which JSON cannot say")])
        return float(given)
    if isinstance(given, date):  # a datetime is one
        return given.isoformat()
    if isinstance(given, os.PathLike):
        return plain(os.fspath(given), path)
    if isinstance(given, Part):
        return given._document(path)  # noqa: SLF001  this is its module
    if isinstance(given, Mapping):
        return {_plain_key(key, path): plain(item, (*path, str(key))) for key, item in given.items() if item is not UNSET}
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray | memoryview):
        return [plain(item, (*path, index)) for index, item in enumerate(given)]
    kind = type(given).__name__
    hint = "; write int(...) or float(...) of it" if hasattr(given, "__index__") or hasattr(given, "__float__") else ""
    raise SpecError("", [Problem(path_text(path), f"is of type {kind}, which JSON does not have{hint}")])


def _plain_key(key: Any, path: Path) -> str:
    if isinstance(key, str):
        return str(key)
    raise SpecError("", [Problem(path_text(path), f"has a key of type {type(key).__name__}; keys are texts")])


def _fields(cls: type[Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name, the key and the metadata of each field but ``more``."""
    for each in dataclasses.fields(cls):
        if each.init and each.name != "more":
            yield each.name, each.metadata.get("key", each.name), each.metadata


def _is_empty(given: Any) -> bool:
    if isinstance(given, Part):
        return not given.to_dict()
    return isinstance(given, list | dict | tuple) and not given


def _read(cls: type[P], document: Any, path: Path, problems: list[Problem]) -> P | None:
    if not isinstance(document, Mapping):
        problems.append(_wrong(path, document, "a mapping"))
        return None
    chosen = cls._chosen(document)
    given: dict[str, Any] = {}
    known = set()
    more: dict[str, Any] = {}
    for name, key, metadata in _fields(chosen):
        known.add(key)
        if key not in document:
            if not ("shape" in metadata and _has_factory(chosen, name)):
                given[name] = UNSET
            continue
        found: list[Problem] = []
        given[name] = _field(document[key], metadata, (*path, key), found)
        if found and metadata.get("lenient"):
            more[key] = copy.deepcopy(document[key])
            del given[name]
        else:
            problems += found
    more |= {key: copy.deepcopy(item) for key, item in document.items() if key not in known}
    made: P = chosen(**given, more=more)
    made._read_keys = tuple(document)  # noqa: SLF001
    return made


def _has_factory(cls: type[Any], name: str) -> bool:
    return any(
        each.name == name and each.default_factory is not dataclasses.MISSING for each in dataclasses.fields(cls)
    )


def _field(item: Any, metadata: Mapping[str, Any], path: Path, problems: list[Problem]) -> Any:
    shape, of = metadata.get("shape"), metadata.get("of")
    if shape is None:
        return copy.deepcopy(item)
    if shape == "one":
        return _read(of, item, path, problems)  # type: ignore[type-var]
    wanted: type[Any] = list if shape == "list" else dict
    if not isinstance(item, wanted):
        problems.append(_wrong(path, item, "a list" if wanted is list else "a mapping"))
        return wanted()
    if of is None:
        return copy.deepcopy(item)
    if isinstance(item, list):
        return [_read(of, each, (*path, index), problems) for index, each in enumerate(item)]
    return {key: _read(of, each, (*path, key), problems) for key, each in item.items()}


def _wrong(path: Path, item: Any, wanted: str) -> Problem:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "empty (null)"}
    kind = kinds.get(type(item), "a number" if isinstance(item, int | float) else f"a {type(item).__name__}")
    return Problem(path_text(path), f"is {kind}; it must be {wanted}" if path else f"the document is {kind}; it must be {wanted}")


def _line(path: str, lines: Lines) -> int | None:
    return next((line for found, line in lines.items() if path_text(found) == path), None)


def _masked(given: Any) -> str:
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{key!r}: ...' for key in given)}}}"
    return "..."


def _shown(given: Any) -> str:
    return _CREDENTIALS.sub("...@", repr(given))
