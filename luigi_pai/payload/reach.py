"""Reach: finds the functions, attributes and values that a method uses, by reading bytecode."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import hashlib
import inspect
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import luigi

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

METHOD = "work"
_NOT_THERE = ("luigi", "luigi_pai")  # packages that the container lacks
_THERE = "luigi_pai.runtime"  # the only module of these packages that the container has
_NONE_THERE = "the container has no luigi: use it in another method, or give its value in a parameter"


@dataclass(eq=False)
class Reach:
    """The objects that ``work`` uses, directly and through the functions that it calls.

    Args:
        classes: the user's classes, in the order of the MRO.
        machinery: names of the attributes that a task inherits from Luigi and this package.
        settings: the names in ``machinery`` whose values are sent if the functions use them.
        modules: names of the modules whose functions are sent; other modules are imported in the container.

    Attributes:
        names: all names in the code of the functions.
        settings_used: the names in ``settings`` that the functions read from ``self``.
        functions: the functions that are sent.
        values: ``id(value)`` -> name, value and place of the use, for each value that the functions use.
        problems: uses of objects that the container does not have.
    """

    classes: Sequence[type]
    machinery: Collection[str]
    settings: Collection[str]
    modules: Collection[str]
    names: set[str] = field(default_factory=set)
    settings_used: set[str] = field(default_factory=set)
    functions: dict[FunctionType, None] = field(default_factory=dict)
    values: dict[int, tuple[str, Any, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._add_names({METHOD}, "the class")

    @property
    def digest(self) -> str:
        """A hash of the functions' source or, if they have none (at a prompt), of their bytecode."""
        texts = "".join(
            f"{function.__qualname__}\n{_text(function.__code__)}\n" for function in self.functions
        )
        return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def attributes(self, kind: type) -> dict[str, Any]:
        """Return the attributes of ``kind`` that the functions use, without parameters and ``machinery``."""
        own = {name: value for name, value in vars(kind).items() if name in self.names - set(self.machinery)}
        return {name: value for name, value in own.items() if not isinstance(value, luigi.Parameter)}

    def sources(self) -> list[tuple[str, int, Sequence[str]]]:
        """Return file, first line and source lines of the functions, for tracebacks in the container."""
        codes = [function.__code__ for function in self.functions]
        return [(code.co_filename, code.co_firstlineno, _lines(code)) for code in codes]

    def _add_names(self, names: set[str], place: str) -> None:
        new = names - self.names
        self.names |= new
        for kind in self.classes:
            for name, value in self.attributes(kind).items():
                if name in new:
                    self._add(f"{kind.__name__}.{name}", value, place)

    def _add(self, name: str, value: Any, place: str) -> None:
        """Add a used value, and the objects that its functions use."""
        if id(value) in self.values or any(value is kind for kind in self.classes):
            return
        self.values[id(value)] = name, value, place
        if is_of_luigi(value):
            self.problems.append(f"uses {name} in {place}; {_NONE_THERE}")
            return
        is_class = isinstance(value, type) and value.__module__ in self.modules
        for part in vars(value).values() if is_class else [value]:
            for function in _functions_of(part):
                if function.__module__ in self.modules and function not in self.functions:
                    self.functions[function] = None
                    self._walk(function)

    def _walk(self, function: FunctionType) -> None:
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # the variable has no value yet
                self._add(name, cell.cell_contents, _place(function, code.co_firstlineno))
        for part in _nested(code):
            line, before = part.co_firstlineno, None
            for each in dis.get_instructions(part):
                line = getattr(each, "line_number", each.starts_line) or line  # 3.13 added line_number
                self._check(function, each, before, _place(function, line))
                before = each
            self._add_names(set(part.co_names), _place(function, part.co_firstlineno))

    def _check(
        self, function: FunctionType, each: dis.Instruction, before: dis.Instruction | None, place: str
    ) -> None:
        """Record a global or setting that an instruction uses; add a problem if the container lacks it."""
        last = None if before is None else before.argval
        if each.opname == "IMPORT_NAME":
            if _is_absent(each.argval) and (each.argval, last) != ("luigi_pai", ("runtime",)):
                self.problems.append(f"imports {each.argval} in {place}; {_NONE_THERE}")
        elif each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval in function.__globals__:
            self._add(each.argval, function.__globals__[each.argval], place)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in self.machinery:
            loaded = last[-1] if isinstance(last, tuple) and last else last  # 3.13 can load two at once
            if "." not in function.__qualname__ or [loaded] != [*function.__code__.co_varnames[:1]]:
                return
            if each.argval in self.settings:
                self.settings_used.add(each.argval)
            else:
                self.problems.append(
                    f"uses self.{each.argval} in {place}, which only Luigi's process has; the container has "
                    "the parameters, name, pai and your own methods; folders are in self.pai.current()"
                )


def is_of_luigi(value: object) -> bool:
    """Return whether a value comes from luigi, or from a module of luigi_pai that the container lacks."""
    if isinstance(value, ModuleType):
        return _is_absent(value.__name__)
    if isinstance(value, FunctionType):
        return _is_absent(value.__module__ or "")
    return any(
        _is_absent(each.__module__) for each in (value if isinstance(value, type) else type(value)).__mro__
    )


def _is_absent(module: str) -> bool:
    return module.partition(".")[0] in _NOT_THERE and module != _THERE


def _functions_of(value: Any) -> list[FunctionType]:
    """Return the value if it is a function; if not, the functions in it (it may be a property or a list)."""
    if isinstance(value, FunctionType):
        return [value]
    held = [*gc.get_referents(value), inspect.getattr_static(value, "func", None)]  # cached_property has func
    return [each for each in held if isinstance(each, FunctionType)]


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all code objects in it: lambdas, comprehensions and nested functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _place(function: FunctionType, line: int) -> str:
    return f"{function.__qualname__} ({function.__code__.co_filename.rpartition('/')[2]}:{line})"


@functools.lru_cache(maxsize=1000)
def _lines(code: CodeType) -> Sequence[str]:
    with contextlib.suppress(OSError, TypeError, IndexError, SyntaxError):
        return inspect.getsourcelines(code)[0]
    return ()


def _text(code: CodeType) -> str:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, (CodeType, frozenset))]
    parts = (f"{each.co_code.hex()} {each.co_names} {constants}" for each in _nested(code))
    return "".join(_lines(code)) or "\n".join(parts)
