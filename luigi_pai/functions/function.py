"""Function: a Python function that runs as a job, and what identifies its calls."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any

from luigi_pai.config_file import configured_secrets
from luigi_pai.errors import Problem, SpecError
from luigi_pai.payload.container import CALLER
from luigi_pai.payload.packages import is_of_python, is_third_party
from luigi_pai.payload.reach import METHOD, unfit
from luigi_pai.payload.secrets import Secrets
from luigi_pai.python_task import payload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from luigi_pai.payload.file import Payload

_HASH = 10  # characters
_LONGEST = 40  # characters of the function's name in the job's name
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class Function:
    """A Python function, and the class that represents it in the payload.

    Args:
        function: Any callable.

    Attributes:
        name: The function's name.
        called: The name with parentheses, for messages.
        work: A method that calls the function with ``self.args`` and ``self.kwargs``.
        kind: A class with this method.
        arguments: The names of the function's arguments, if known.
        payload: The payload of ``kind``; ``pack`` creates it.
    """

    payload: Payload

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except ValueError:  # some builtins have no signature
            self._signature = None
        self.arguments = () if self._signature is None else tuple(self._signature.parameters)
        named: Any = function
        while isinstance(named, functools.partial):
            named = named.func
        if not hasattr(named, "__qualname__"):  # an object with __call__
            named = type(named)
        self.name: str = named.__name__
        self.called = f"{self.name}()"
        module = named.__module__
        if is_of_python(module) or is_third_party(module):  # the container can import it
            module = "__main__"
        members = {"__module__": module, "__qualname__": named.__qualname__}
        self.work = _calling(function)
        self.work.__module__, self.work.__qualname__ = module, f"{named.__qualname__}.{METHOD}"
        self.kind = type(self.name, (), {**members, METHOD: self.work})

    def problems(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Return why the function cannot run as a job with these arguments."""
        if problems := unfit(self._function, is_method=False):
            return problems
        try:
            self._bound(args, kwargs)
        except TypeError as error:
            hint = ""
            if len(args) == 1 and isinstance(args[0], (tuple, list)):
                hint = (
                    f"; a {type(args[0]).__name__} is one argument: give map() a list for each argument, as "
                    f"in map({self.name}, [0.1, 0.2], [10, 20]) or map({self.name}, *zip(*pairs))"
                )
            return [f"cannot be called with these arguments: {error}{hint}"]
        return []

    def refuse(self, problems: Sequence[str]) -> None:
        """Raise a SpecError if there are problems."""
        if problems:
            raise SpecError(self.name, [Problem(self.called, problem) for problem in problems])

    def pack(self, packages: Any) -> None:
        """Create the payload, which all calls share.

        Raises:
            MissingPackage: cloudpickle is not installed here.
        """
        secrets = Secrets(None, configured_secrets(), os.environ, self.called)
        self.payload = payload_of(self.kind, object, packages, secrets, function=self.name)

    def job_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the name of the job that calls the function with these arguments.

        The name has a hash of the function, its arguments, and the code, values and ``packages`` that the
        function uses. ``f(1)``, ``f(x=1)`` and, if 1 is the default, ``f()`` are the same job.
        """
        parts = (*self._identity, _stable_string(self._bound(args, kwargs), self.payload))
        digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
        plain = re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-")[:_LONGEST]
        return f"{plain or 'function'}_{digest}"

    @functools.cached_property
    def _identity(self) -> tuple[Any, ...]:
        """What all calls have in common: the function, its code, and the values and packages that it uses."""
        reach = self.payload.reach
        used = sorted(
            (name, _stable_string(value, self.payload))
            for name, value, _ in reach.values.values()
            if not (isinstance(value, FunctionType) and value in reach.functions)
        )
        return self.kind.__module__, self.kind.__qualname__, reach.digest, used, *self.payload.packages

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, with defaults for those not passed.

        Raises:
            TypeError: the function cannot be called with these arguments.
        """
        if self._signature is None:
            return {"args": args, **kwargs}
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


def _calling(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return a method that calls a function. In the container, tracebacks omit the method's frame."""

    def work(self: Any) -> dict[str, Any]:
        return {"result": function(*self.args, **self.kwargs)}

    work.__code__ = work.__code__.replace(co_filename=CALLER)
    return work


def _stable_string(value: Any, payload: Payload) -> str:
    """Return a string that is the same for equal values in every process.

    A few values have pickles that differ between processes; their strings then differ too.
    """
    try:
        return _stable(value, payload)
    except RecursionError:  # the value contains itself
        return hashlib.sha256(payload.dumps(value)).hexdigest()


def _stable(value: Any, payload: Payload) -> str:
    stable = functools.partial(_stable, payload=payload)
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, type):
        is_sent = value.__module__ in payload.reach.modules
        members = {key: each for key, each in vars(value).items() if is_sent and not key.startswith("__")}
        values = {key: each for key, each in members.items() if _is_value(each)}
        return f"{value.__module__}.{value.__qualname__}{stable(values) if is_sent else ''}"
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, dict):
        pairs = sorted(f"{stable(key)}: {stable(each)}" for key, each in value.items())
        return f"{name}({', '.join(pairs)})"
    if isinstance(value, (list, tuple, set, frozenset)):
        elements = [stable(each) for each in value]
        return f"{name}({', '.join(sorted(elements) if isinstance(value, (set, frozenset)) else elements)})"
    if kind.__module__ in payload.reach.modules and hasattr(value, "__dict__"):
        return f"{name}{stable(vars(value))}"
    return f"{name} {hashlib.sha256(payload.dumps(value)).hexdigest()}"


def _is_value(member: object) -> bool:
    """Return whether a class member is a value rather than code, which the code's digest covers."""
    return not (callable(member) or hasattr(member, "__get__"))
