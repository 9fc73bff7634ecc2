"""Reach: reads bytecode to find the functions, attributes and values that a method uses."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import inspect
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.jobspec.hints import nearest
from luigi_pai.payload.container import CALLER
from luigi_pai.payload.flow import Flow, flow_of, lines_of, nested_codes, receiver
from luigi_pai.payload.secrets import is_secret_name

if TYPE_CHECKING:
    import dis
    from collections.abc import Collection, Iterator, Mapping, Sequence

METHOD = "work"
_NOT_THERE = ("luigi", "luigi_pai")  # packages that the container does not have
_THERE = "luigi_pai.runtime"  # the only one of their modules that the container has
_NO_METHODS = (staticmethod, type, dict, list, set, tuple)  # their first argument is not the task
_NONE_THERE = "the container has no luigi: use it outside {0}, and pass the value to {0}"


@dataclass(eq=False)
class Reach:
    """The objects that ``work`` uses, directly and through the functions that it calls.

    A task attribute is used if a function reads it from the task (see ``flow``). If the task escapes in a
    function, any object may be the task, so the attributes that the function reads from any object also count
    as used, except for strings with a name such as ``password``.

    Args:
        classes: The user's classes, in MRO order.
        machinery: The attributes that a task inherits from Luigi and this package.
        settings: The attributes in ``machinery`` whose values are sent if the functions use them.
        modules: The modules whose functions are sent. The container imports all other modules.
        called: The method's or function's name in messages.

    Attributes:
        names: The attributes that the functions read from the task.
        possible: The attributes that the functions read from objects that may be the task.
        settings_used: The attributes in ``settings`` that the functions read from the task.
        functions: Function to send -> the variables whose value is the task when the function starts.
        values: ``id(value)`` -> name, value and where it is used, for each value that the functions use.
        named: The same values by name, and the contents of packages.
        imports: Module name -> where the functions import the module or first use one of its values.
        problems: Uses of objects that the container does not have.
    """

    classes: Sequence[type]
    machinery: Collection[str]
    settings: Collection[str]
    modules: Collection[str]
    called: str = f"{METHOD}()"
    names: set[str] = field(default_factory=set)
    possible: set[str] = field(default_factory=set)
    settings_used: set[str] = field(default_factory=set)
    functions: dict[FunctionType, set[str]] = field(default_factory=dict)
    values: dict[int, tuple[str, Any, str]] = field(default_factory=dict)
    named: dict[str, Any] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _flows: dict[FunctionType, Flow] = field(default_factory=dict)
    _uses: dict[FunctionType, set[FunctionType]] = field(default_factory=dict)  # function -> those it uses

    def __post_init__(self) -> None:
        self._add_names({METHOD: 0}, self.names, None)
        while further := self._read_where_it_escapes() - self.names - self.possible:
            self._add_names(dict.fromkeys(further, 0), self.possible, None)

    @property
    def digest(self) -> str:
        """A hash of the functions' source or, if there is no source (at a prompt), of their bytecode."""
        sources = "".join(
            f"{function.__qualname__}\n{_source(function.__code__)}\n" for function in self.functions
        )
        return hashlib.sha256(sources.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def unread(self) -> Iterator[tuple[str, str]]:
        """Yield the attributes that the functions set on the task but never read, and where they set them."""
        flows = self._flows.values()
        read = {name for flow in flows for name in flow.loaded}
        if not any(flow.escapes for flow in flows):
            for function, flow in self._flows.items():
                yield from ((name, _place(function, flow.stored[name])) for name in flow.stored.keys() - read)

    def takes(self, name: str, value: object) -> bool:
        """Return whether an attribute of the task or its class is sent in clear text."""
        is_guess = name not in self.names
        if name in self.machinery or (is_guess and name not in self.possible):
            return False
        return not (is_guess and isinstance(value, (str, bytes)) and is_secret_name(name))

    def attributes(self, kind: type) -> dict[str, Any]:
        """Return the attributes of ``kind`` that the functions use, without parameters and ``machinery``."""
        used = {name: value for name, value in vars(kind).items() if self.takes(name, value)}
        return {name: value for name, value in used.items() if not isinstance(value, luigi.Parameter)}

    def sources(self) -> list[tuple[str, int, Sequence[str]]]:
        """Return each function's file, first line and source lines, for tracebacks in the container."""
        codes = [function.__code__ for function in self.functions]
        return [(code.co_filename, code.co_firstlineno, _lines(code)) for code in codes]

    def unknown(self, task: object) -> list[str]:
        """Return a problem for each attribute that the functions read but that is never set on the task."""
        codes = [code for function in self.functions for code in nested_codes(function.__code__)]
        given = {each.argval for code in codes for each, _ in lines_of(code) if each.opname == "STORE_ATTR"}
        given.update(word for code in codes for word in code.co_consts)  # for getattr(self, "x", None)
        known = [name for name in dir(task) if not name.startswith("_")]
        missing = (name for name in self.names - given if inspect.getattr_static(task, name, self) is self)
        if hasattr(type(task), "__getattr__"):
            return []
        return [f"reads self.{name}, which the task does not have{nearest(name, known)}" for name in missing]

    def _read_where_it_escapes(self) -> set[str]:
        """Return the attributes read in the functions to which others may pass an escaped task."""
        found: dict[FunctionType, None] = {}
        waiting = [function for function, flow in self._flows.items() if flow.escapes]
        while waiting:
            function = waiting.pop()
            if function not in found:
                found[function] = None
                waiting += self._uses[function]
        return {name for function in found for name in self._flows[function].any_names}

    def _add_names(self, names: Mapping[str, int], kind_of_use: set[str], user: FunctionType | None) -> None:
        """Add task attributes, each with the line where ``user`` reads it."""
        kind_of_use.update(names)
        for kind in self.classes:
            for name, value in self.attributes(kind).items():
                if name in names:
                    place = _place(user, names[name]) if user else "the class"
                    self._add(f"{kind.__name__}.{name}", value, place, user, is_attribute=True)

    def _add(
        self, name: str, value: Any, place: str, user: FunctionType | None, *, is_attribute: bool = False
    ) -> None:
        """Add a value that a function uses, and the objects that the functions in the value use."""
        if any(value is kind for kind in self.classes):
            return
        is_new = id(value) not in self.values
        self.values.setdefault(id(value), (name, value, place))
        self.named[name] = value
        module = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", "")
        self.imports.setdefault(str(module), place)
        if is_of_luigi(value):
            if is_new:
                use = f"uses {name} in {place}" if place else "comes from luigi or luigi_pai"
                self.problems.append(f"{use}; {_NONE_THERE.format(self.called)}")
            return
        is_class = isinstance(value, type) and value.__module__ in self.modules
        for part in vars(value).values() if is_class else [value]:
            for function in _functions_of(part):
                if function.__module__ in self.modules:
                    is_method = is_attribute and not isinstance(part, _NO_METHODS)
                    self._enter(function, receiver(function) if is_method else set())
                    if user:
                        self._uses[user].add(function)

    def _enter(self, function: FunctionType, tasks: set[str]) -> None:
        """Follow the task through a function; ``tasks`` are the variables whose value is the task."""
        is_new = function not in self.functions
        if any(function.__qualname__ == f"{kind.__qualname__}.{function.__name__}" for kind in self.classes):
            is_static = isinstance(_attribute(self.classes, function.__name__), staticmethod)
            tasks = tasks if is_static else tasks | receiver(function)  # even if a decorator wraps it
        known = self.functions.setdefault(function, set())
        if not is_new and tasks <= known:
            return
        known |= tasks
        flow = self._flows[function] = flow_of(function, known, self.classes)
        self._uses.setdefault(function, set())
        if is_new:
            self._add_objects(function)
        self._check_machinery(function, flow)
        self._add_names(flow.names, self.names, function)
        for callee, parameter in flow.passed:
            if callee.__module__ in self.modules:
                self._enter(callee, {parameter})
            else:
                flow.escapes = True

    def _add_objects(self, function: FunctionType) -> None:
        """Add the objects that a function uses: closure variables, defaults and globals."""
        code = function.__code__
        first = _place(function, code.co_firstlineno)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # the variable is not set yet
                self._add(name, cell.cell_contents, first, function)
        for name, value in vars(function).items():
            self._add(f"{function.__qualname__}.{name}", value, first, function)
        for value in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            self._add("a default argument", value, first, function)
        for part in nested_codes(code):
            before = None
            for each, line in lines_of(part):
                self._add_object(function, each, before, _place(function, line))
                before = each

    def _add_object(
        self, function: FunctionType, each: dis.Instruction, before: dis.Instruction | None, place: str
    ) -> None:
        """Add the global that an instruction uses, or a problem if the container cannot import a module."""
        if each.opname == "IMPORT_NAME":
            self.imports.setdefault(each.argval, place)
            names = None if before is None else before.argval
            if _is_absent(each.argval) and (each.argval, names) != ("luigi_pai", ("runtime",)):
                self.problems.append(f"imports {each.argval} in {place}; {_NONE_THERE.format(self.called)}")
        elif each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval in function.__globals__:
            self._add(each.argval, function.__globals__[each.argval], place, function)

    def _check_machinery(self, function: FunctionType, flow: Flow) -> None:
        """Record the settings that a function reads; add problems for anything else in ``machinery``."""
        self.settings_used.update(flow.names.keys() & set(self.settings))
        for name in sorted(flow.names.keys() & set(self.machinery) - set(self.settings)):
            problem = (
                f"uses self.{name} in {_place(function, flow.names[name])}, which only Luigi's process has; "
                "the container has the parameters, name, pai and your own methods; folders are in "
                "self.pai.current()"
            )
            if problem not in self.problems:
                self.problems.append(problem)


def unfit(function: object, *, is_method: bool = True) -> list[str]:
    """Return why a function cannot run in a container. Methods are called with only the task."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return ["is async: pass a function that runs it, for example with asyncio.run()"]
    if inspect.isgeneratorfunction(function):
        return ["is a generator, which returns no result: return a list"]
    try:
        if is_method and isinstance(function, FunctionType):
            inspect.signature(function).bind(None)
    except TypeError as error:
        return [f"is called as {METHOD}(self): {error}; read parameters from self, such as self.rate"]
    return []


def _attribute(classes: Sequence[type], name: str) -> object:
    return next((vars(kind)[name] for kind in classes if name in vars(kind)), None)


def is_of_luigi(value: object) -> bool:
    """Return whether a value comes from luigi, or from a luigi_pai module that is not in the container."""
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
    """Return a function itself, or the functions inside another value, such as a property or a list."""
    if isinstance(value, FunctionType):
        return [value]
    held = [*gc.get_referents(value), inspect.getattr_static(value, "func", None)]  # cached_property has func
    return [each for each in held if isinstance(each, FunctionType)]


def _place(function: FunctionType, line: int) -> str:
    """Return where a function uses a value; empty for the code that calls the user's function."""
    if function.__code__.co_filename == CALLER:
        return ""
    return f"{function.__qualname__} ({function.__code__.co_filename.rpartition('/')[2]}:{line})"


@functools.lru_cache(maxsize=1000)
def _lines(code: CodeType) -> Sequence[str]:
    with contextlib.suppress(OSError, TypeError, IndexError, SyntaxError):
        return inspect.getsourcelines(code)[0]
    return ()


def _source(code: CodeType) -> str:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, (CodeType, frozenset))]
    parts = (f"{each.co_code.hex()} {each.co_names} {constants}" for each in nested_codes(code))
    return "".join(_lines(code)) or "\n".join(parts)
