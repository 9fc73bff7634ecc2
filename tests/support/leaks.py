"""Finds secrets in whatever an error carries: its texts, its chain, and requests and answers on them."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FOREIGN = ("requests.", "urllib3.", "http.", "hdfs.")


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and all that hang on it as cause or context, suppressed ones too."""
    found: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException) and not any(one is other for other in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__, *one.args, getattr(one, "reason", None)]
    return found


def texts(error: BaseException) -> Iterator[str]:
    """Yield every text that somebody who prints or sends on an error could see."""
    yield "".join(traceback.format_exception(type(error), error, error.__traceback__))
    for one in chain(error):
        yield from (str(one), repr(one), repr(one.args), repr(vars(one)))
        for sent in (getattr(one, "request", None), getattr(getattr(one, "response", None), "request", None)):
            if sent is not None:
                yield f"{sent.url} {sent.headers} {sent.body!r}"


def foreign_parts(error: BaseException) -> list[str]:
    """Return the lines of an error's printed traceback that show an error of an HTTP library."""
    printed = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return [line for line in printed.splitlines() if line.startswith(FOREIGN)]
