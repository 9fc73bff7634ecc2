"""Flow: follows the task through the bytecode of a function, to find the attributes that the function reads.

The task enters a function as one of its arguments; the task's user-defined classes also count as the task.
The task is followed through local variables, nested functions, ``super()``, ``type()``, ``getattr`` with a
literal name, and calls of functions that a module defines. With any other use (storing it, returning it,
putting it into a container, passing it to an unknown function), it escapes. Then any object may be the task.
"""

from __future__ import annotations

import dis
import inspect
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_TASK, _UNKNOWN = object(), object()
_MARKS = frozenset(
    ["CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "PRECALL", "PUSH_NULL", "RESUME"]
)
_VALUES = frozenset(["LOAD_ASSERTION_ERROR", "LOAD_BUILD_CLASS", "LOAD_CLOSURE", "LOAD_LOCALS"])
_VARIABLES = frozenset(["LOAD_CLASSDEREF", "LOAD_DEREF"])
_STORES = frozenset(["STORE_DEREF", "STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"])
_CALLS = frozenset(["CALL", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_KW", "CALL_METHOD"])
_COPIES = {"DUP_TOP": 1, "ROT_TWO": 2}  # Python 3.10 has neither COPY nor SWAP
_OPERATIONS = (  # opcodes that replace their operands with one result
    *("BINARY_", "BUILD_", "COMPARE_OP", "CONTAINS_OP", "CONVERT_VALUE", "FORMAT_", "GET_ITER", "GET_LEN"),
    *("INPLACE_", "IS_OP", "TO_BOOL", "UNARY_"),
)
_HARMLESS = (id, isinstance, issubclass, print, repr, str)  # builtins that do not keep their arguments
_BY_NAME = (getattr, hasattr, setattr, delattr)


@dataclass(eq=False)
class Flow:
    """How a function uses the task.

    Attributes:
        names: Task attribute -> line of its first use.
        stored: Task attribute -> line where the function first sets it.
        loaded: Task attribute -> line where the function first reads it.
        any_names: The attributes that the function uses, of any object.
        passed: The functions that the function passes the task to, each with the parameter's name.
        escapes: Whether the task is used in a way that cannot be followed.
    """

    names: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    any_names: set[str] = field(default_factory=set)
    passed: set[tuple[FunctionType, str]] = field(default_factory=set)
    escapes: bool = False


def flow_of(function: FunctionType, given: Collection[str], classes: Sequence[type]) -> Flow:
    """Return how the task flows through a function.

    Args:
        function: A function in Python 3.10 to 3.13.
        given: The parameters and variables whose value is the task.
        classes: The task's classes.
    """
    flow = Flow()
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {**function.__globals__, **dict(_contents(cells))}
    _follow(function.__code__, set(given), known, classes, flow)
    return flow


def receiver(function: FunctionType) -> set[str]:
    """Return a method's parameter for ``self``: the first one, or ``args`` if it is ``*args``."""
    code = function.__code__
    if code.co_argcount:
        return {code.co_varnames[0]}
    return {code.co_varnames[code.co_kwonlyargcount]} if code.co_flags & inspect.CO_VARARGS else set()


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all code objects in it: lambdas, comprehensions and nested functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def lines_of(code: CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """Yield the instructions of a code object, each with its line."""
    line = code.co_firstlineno
    for each in dis.get_instructions(code):
        line = getattr(each, "line_number", each.starts_line) or line  # 3.13 added line_number
        yield each, line


def _contents(cells: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue


def _follow(
    code: CodeType, tasks: set[str], known: dict[str, Any], classes: Sequence[type], flow: Flow
) -> None:
    """Follow the task through a code object and those in it, until no further variable gets the task."""
    while True:
        before = len(tasks)
        machine = _Machine(code, tasks, known, classes, flow)
        for each, line in lines_of(code):
            machine.step(each, line)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = tasks & {*constant.co_freevars}
                local = {*code.co_varnames, *code.co_cellvars}
                outer = {name: value for name, value in known.items() if name not in local}
                _follow(constant, inner, outer, classes, flow)
                tasks |= inner & {*constant.co_freevars}
        if len(tasks) == before:
            return


class _Machine:
    """Simulates a code object on a stack of the task, known objects and unknown objects.

    At jumps and unknown instructions, the task escapes from the stack, and the stack is cleared: anything
    below later entries is unknown. An entry is ``_TASK``, ``_UNKNOWN``, or a tuple with a known object.
    """

    def __init__(
        self, code: CodeType, tasks: set[str], known: dict[str, Any], classes: Sequence[type], flow: Flow
    ) -> None:
        self._constants = code.co_consts
        self._free, self._cells = {*code.co_freevars}, {*code.co_cellvars, *code.co_freevars}
        self._tasks, self._known, self._classes, self._flow = tasks, known, classes, flow
        self._stack: list[Any] = []
        self._keywords: tuple[str, ...] = ()
        self._line = 0

    def step(self, each: dis.Instruction, line: int) -> None:
        """Execute an instruction."""
        self._line, name = line, each.opname
        if each.is_jump_target:
            self._forget()
        if name in _MARKS:
            return
        if name in _CALLS:
            self._call(each.arg or 0, has_names=name.endswith("_KW"))
        elif name == "KW_NAMES":
            self._keywords = self._constants[each.arg or 0]  # argval is not set in 3.11
        elif name.endswith(("_ATTR", "LOAD_METHOD")):
            self._attribute(name, each.argval)
        elif name in _STORES:
            self._store(name, each.argval)
        elif name in ("COPY", "DUP_TOP", "SWAP", "ROT_TWO"):
            self._move(name, _COPIES.get(name, each.arg or 0))
        elif name == "POP_TOP":
            self._pop()
        elif not self._load(name, each.argval):
            self._operate(each)

    def _pop(self) -> Any:
        return self._stack.pop() if self._stack else _UNKNOWN

    def _forget(self) -> None:
        self._escape(self._stack)
        self._stack = []

    def _escape(self, values: Sequence[Any]) -> None:
        self._flow.escapes = self._flow.escapes or _TASK in values

    def _load(self, name: str, argument: Any) -> bool:
        """Push the object that an instruction loads; return False if it does not load one."""
        if name.startswith("LOAD_FAST") or name in _VARIABLES:
            for each in argument if isinstance(argument, tuple) else (argument,):
                is_cell = name.startswith("LOAD_FAST") and each in self._cells  # how 3.13 creates closures
                self._stack.append(_UNKNOWN if is_cell else self._variable(each))
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self._stack.append(self._variable(argument, is_global=True))
        elif name == "LOAD_CONST":
            self._stack.append((argument,))
        elif name in _VALUES:
            self._stack.append(_UNKNOWN)
        else:
            return False
        return True

    def _variable(self, name: str, *, is_global: bool = False) -> Any:
        if name in self._tasks and not is_global:
            return _TASK
        if not is_global and name not in self._free:
            return _UNKNOWN
        builtins = self._known.get("__builtins__", {})
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        value = self._known.get(name, builtins.get(name, _UNKNOWN))
        if any(value is kind for kind in self._classes):
            return _TASK
        return value if value is _UNKNOWN else (value,)

    def _store(self, name: str, argument: Any) -> None:
        names = argument if isinstance(argument, tuple) else (argument,)
        stored, loaded = (names[:1], names[1:]) if name == "STORE_FAST_LOAD_FAST" else (names, ())
        for each in stored:
            if self._pop() is _TASK:
                self._tasks.add(each)
        for each in loaded:
            self._load("LOAD_FAST", each)

    def _move(self, name: str, depth: int) -> None:
        missing = depth - len(self._stack)
        self._stack[:0] = [_UNKNOWN] * missing
        if name in ("COPY", "DUP_TOP"):
            self._stack.append(self._stack[-depth])
        else:
            self._stack[-depth], self._stack[-1] = self._stack[-1], self._stack[-depth]

    def _attribute(self, opcode: str, name: str) -> None:
        owner = self._pop()
        if opcode == "LOAD_SUPER_ATTR":  # super(class, self)
            owner = _TASK if _TASK in (owner, self._pop(), self._pop()) else _UNKNOWN
        elif opcode == "STORE_ATTR":
            self._escape([self._pop()])
        self._use(owner, name, is_stored=opcode == "STORE_ATTR")
        if opcode.startswith("LOAD"):
            self._stack.append(owner if name == "__class__" else _UNKNOWN)

    def _use(self, owner: Any, name: str, *, is_stored: bool = False) -> None:
        self._flow.any_names.add(name)
        if owner is _TASK:
            self._flow.names.setdefault(name, self._line)
            (self._flow.stored if is_stored else self._flow.loaded).setdefault(name, self._line)

    def _call(self, count: int, *, has_names: bool) -> None:
        if has_names:
            names = self._pop()
            self._keywords = names[0] if isinstance(names, tuple) else ()
        arguments = [self._pop() for _ in range(count)][::-1]
        callee, keywords, self._keywords = self._pop(), self._keywords, ()
        function = callee[0] if isinstance(callee, tuple) else None
        result = _UNKNOWN
        if function is super or (function is type and count == 1):
            is_task = _TASK in arguments or (not arguments and bool(self._tasks))
            result = _TASK if is_task else _UNKNOWN
        elif any(function is each for each in _BY_NAME):
            self._by_name(arguments)
        elif isinstance(function, FunctionType):
            self._pass(function, arguments, keywords)
        elif not any(function is each for each in _HARMLESS):
            self._escape([callee, *arguments])
        self._stack.append(result)

    def _by_name(self, arguments: Sequence[Any]) -> None:
        self._escape(arguments[2:])
        for name in arguments[1:2]:
            if isinstance(name, tuple) and isinstance(name[0], str):
                self._use(arguments[0], name[0])

    def _pass(self, function: FunctionType, arguments: Sequence[Any], keywords: Sequence[str]) -> None:
        """Record which of a function's parameters get the task."""
        code = function.__code__
        names = [*code.co_varnames[: code.co_argcount]]
        places = [*names[: len(arguments) - len(keywords)]]
        places += [""] * (len(arguments) - len(keywords) - len(places))  # for *args
        for place, value in zip([*places, *keywords], arguments, strict=True):
            if value is not _TASK:
                continue
            if place in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                self._flow.passed.add((function, place))
            else:
                self._flow.escapes = True

    def _operate(self, each: dis.Instruction) -> None:
        if not each.opname.startswith(_OPERATIONS):
            self._forget()
            return
        effect = dis.stack_effect(each.opcode, each.arg if each.opcode >= dis.HAVE_ARGUMENT else None)
        self._escape([self._pop() for _ in range(1 - effect)])
        self._stack.append(_UNKNOWN)
