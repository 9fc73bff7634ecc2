"""The tree of errors: as drawn, exported, and fit to travel between processes."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest
from requests.exceptions import HTTPError

from luigi_pai import errors
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import PaiHttpError, PaiJobFailed, Problem, SpecError
from luigi_pai.files import HdfsError

CLASSES = {
    name: kind
    for name, kind in ((name, getattr(errors, name)) for name in errors.__all__)
    if inspect.isclass(kind) and issubclass(kind, Exception)
} | {"HdfsError": HdfsError}


def drawn() -> dict[str, str | None]:
    """Return the tree of the module's docstring: class -> its parent."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ([│ ├└─]*)([A-Z]\w+)", line)
        if match:
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            parents[match[2]] = path[-2] if depth else None
    return parents


def made(kind: type[Exception]) -> Exception:
    """Make an error of a class, with all that it can carry."""
    if kind is SpecError:
        return SpecError("j", [Problem("image", "is missing")])
    if issubclass(kind, PaiJobFailed):
        return kind("job 'j' ended", JobStatus("j", JobState.FAILED, exit_code=3))
    if kind is errors.ClusterUnreachable:
        return errors.ClusterUnreachable("gone", answer_lost=True)
    if kind is errors.RateLimited:
        return errors.RateLimited("slow", reset_at=12.5, status=429, code=None, server_message="slow")
    if issubclass(kind, PaiHttpError):
        return kind("no", status=404, code="NoJobError", server_message="Job j is not found.")
    return kind("what happened")


def test_the_tree_is_the_one_that_is_drawn():
    """Each class of the drawing has the parent that it is drawn under, and none is missing."""
    tree = drawn()
    assert set(tree) == set(CLASSES)
    assert [name for name, parent in tree.items() if parent is None] == ["PaiError"]
    for name, parent in tree.items():
        bases = [base for base in CLASSES[name].__mro__[1:] if base.__name__ in tree]
        assert (bases[0].__name__ if bases else None) == parent, name


def test_the_second_bases_are_those_that_contrib_raised():
    """A user's ``except`` for what luigi.contrib.pai raised goes on working."""
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(SpecError, ValueError)
    assert issubclass(PaiHttpError, HTTPError)
    assert issubclass(errors.PaiJobError, RuntimeError)


def test_all_is_complete_and_sorted():
    """``__all__`` has every public name of the module, in order."""
    public = [
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", None) == errors.__name__ and not name.startswith("_")
    ]
    assert errors.__all__ == sorted(public)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_survives_pickling(name):
    """Class, text and all that an error carries arrive in another process."""
    error = made(CLASSES[name])
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error) != ""
    assert vars(copied) == vars(error)


@pytest.mark.parametrize("name", sorted(n for n, kind in CLASSES.items() if issubclass(kind, PaiHttpError)))
def test_http_errors_carry_no_response(name):
    """The response, and the request in it, would carry the token into whatever prints the error."""
    error = made(CLASSES[name])
    assert error.response is None
    assert error.request is None


def test_http_errors_carry_the_servers_words():
    """Status, code and message of the server are attributes; without them, there are empty ones."""
    error = made(errors.JobNotFound)
    assert (error.status, error.code, error.server_message) == (404, "NoJobError", "Job j is not found.")
    bare = PaiHttpError("no")
    assert (bare.status, bare.code, bare.server_message) == (0, None, "")


def test_a_failed_job_shows_its_text_alone():
    """The status hangs on the error and is not printed with it."""
    error = made(PaiJobFailed)
    assert str(error) == "job 'j' ended"
    assert error.status.exit_code == 3
