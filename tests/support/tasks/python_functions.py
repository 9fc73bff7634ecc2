"""Functions that run as jobs, as users write them in a module."""

from __future__ import annotations

import importlib.util
import threading
import time

__all__ = [
    "Locked",
    "Model",
    "added",
    "asynchronous",
    "broken",
    "counted",
    "held",
    "nothing",
    "returning",
    "scaled",
]

SCALE = 3


def scaled(number, run_id, offset=0):
    """Return what the image has besides."""
    return {
        "scaled": SCALE * number + offset,
        "run": run_id,
        "luigi": importlib.util.find_spec("luigi") is not None,
    }


def added(first, second=1):
    """Return one number."""
    return first + second


def nothing(run_id):
    """Return None."""
    del run_id


def held(run_id):
    """Take long."""
    time.sleep(300)
    return run_id


def broken(run_id):
    """Fail."""
    raise KeyError(f"no {run_id}")


def returning(value, run_id):
    """Return what cannot be a result."""
    del run_id
    return {"value": object() if value is None else value}


def counted(run_id):
    """Use the runtime."""
    import pai_runtime  # noqa: PLC0415  a module of the container

    return [pai_runtime.current().index, pai_runtime.current().count, run_id]


async def asynchronous():
    """Is no function for a job."""


def generated():
    """Is none, either."""
    yield 1


class Model:
    """Has a method and can be called."""

    def __init__(self, weight):
        self.weight = weight

    def predict(self, value, run_id):
        """Use a value of the module."""
        return [self.weight * value + SCALE, run_id]

    def __call__(self, run_id):
        """Return it."""
        return [self.weight, run_id]


class Locked:
    """Cannot travel."""

    def __init__(self):
        self.lock = threading.Lock()

    def go(self):
        """Do nothing."""
