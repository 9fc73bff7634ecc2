"""PaiMock: the value of the ``pai_mock`` fixture."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections import UserDict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import unquote

import responses

from luigi_pai.api.registry import reset_clusters
from luigi_pai.api.status import JobState
from luigi_pai.errors import ConfigError
from luigi_pai.jobspec.hints import nearest
from luigi_pai.testing.configuration import luigi_configured

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from requests import PreparedRequest

_SETTINGS = {
    "pai_url": "http://pai.test",
    "username": "user",
    "password": "password",
    "api_version": "v1",
    "poll_min": "0.01",
    "poll_max": "0.02",
}

_NO_FILES = "and pai_mock has none: use the fixture pai, or set uploads = {} for the test"
_STATES = (*(state.value for state in JobState), "SUCCEED")

Response = tuple[int, dict[str, str], str]


class _States(UserDict[str, str]):
    """Job -> state. Rejects invalid states, which would make a task wait forever."""

    def __init__(self, attribute: str) -> None:
        super().__init__()
        self._attribute = attribute

    def __setitem__(self, job: str, state: str) -> None:
        if state not in _STATES:
            hint = nearest(str(state), _STATES)
            raise ConfigError(f"pai_mock.{self._attribute}[{job!r}] = {state!r} is not a job state{hint}")
        super().__setitem__(job, state)


class PaiMock:
    """Mocks of the routes that a successful PaiTask needs: login, submission, status, job list.

    Attributes:
        submitted: The posted jobs as dicts.
        states: Job name -> the job's state on the server; a test can add jobs.
        ends: Job name -> the state that the job gets when it is submitted; default: ``SUCCEEDED``.
        mock: The ``responses`` mock; a test can add routes.
    """

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []
        self.states: MutableMapping[str, str] = _States("states")
        self.ends: MutableMapping[str, str] = _States("ends")
        self.mock = responses.RequestsMock(assert_all_requests_are_fired=False)
        base = re.escape(_SETTINGS["pai_url"]) + "/api/v1"
        for method, path, callback in (
            (responses.POST, "/token", self._token),
            (responses.POST, "/jobs", self._post),
            (responses.GET, "/jobs/[^/]+", self._job),
            (responses.GET, r"/jobs(\?.*)?", self._list),
        ):
            self.mock.add_callback(method, re.compile(f"{base}{path}$"), callback=callback)

    def unmatched(self) -> str:
        """Return a message that names the jobs in ``ends`` that no task submitted; empty if none."""
        names = [job["jobName"] for job in self.submitted]
        missed = ", ".join(f"pai_mock.ends[{name!r}]" for name in self.ends if name not in names)
        listed = ", ".join(names) or "none"
        return f"{missed} matched no job of this test; submitted: {listed}" if missed else ""

    @staticmethod
    def _token(_request: PreparedRequest) -> Response:
        return 200, {}, json.dumps({"user": "user", "token": "token", "admin": False})

    def _post(self, request: PreparedRequest) -> Response:
        job = json.loads(request.body or "{}")
        self.submitted.append(job)
        self.states[job["jobName"]] = self.ends.get(job["jobName"], "SUCCEEDED")
        return 202, {}, json.dumps({"message": "update job successfully"})

    def _job(self, request: PreparedRequest) -> Response:
        name = unquote(str(request.url).rpartition("/")[2])
        if name not in self.states:
            return 404, {}, json.dumps({"code": "NoJobError", "message": f"Job {name} is not found."})
        return 200, {}, json.dumps({"name": name, "jobStatus": self._status(name)})

    def _list(self, _request: PreparedRequest) -> Response:
        return 200, {}, json.dumps([{"name": name, **self._status(name)} for name in self.states])

    def _status(self, name: str) -> dict[str, Any]:
        return {"state": self.states[name], "username": _SETTINGS["username"], "createdTime": 1}


@contextlib.contextmanager
def mocked() -> Iterator[PaiMock]:
    """Yield a test's mocks, which all tasks' settings point to."""
    pai_mock = PaiMock()
    reset_clusters()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            luigi_configured(_SETTINGS, Path(folder)),
            pai_mock.mock,
            patch("luigi_pai.tasks.uploads.NO_FILES", _NO_FILES),
        ):
            yield pai_mock
    finally:
        reset_clusters()
