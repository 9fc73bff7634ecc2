"""Tests with mocked REST replies, and the posted jobs, with luigi.contrib.pai and with luigi_pai."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task_register
import pytest
import responses
import yaml
from places import PROGRAMS, ROOT

if TYPE_CHECKING:
    import requests

pytestmark = pytest.mark.slow

OLD, NEW = "luigi.contrib.pai", "luigi_pai"
API = "http://127.0.0.1:9186/api/v1"  # what both take when there is no luigi.cfg
LOGIN, SUBMIT, LOOK = "POST /token", "POST /jobs", "GET /jobs/train"


# ---------------------------------------------------------------- what is mocked

Reply = tuple[int, str]
CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "mocked.yaml").read_text(encoding="utf-8"))
LOGGED_IN = '200 {"token": "test", "user": "admin", "admin": true}'
ACCEPTED = '202 {"message": "update job train successfully"}'


@dataclass(frozen=True)
class Mocked:
    """A test with mocks; ``reply`` reads its replies.

    Attributes:
        does: the functions of the pipeline that it calls, each with what it returns or raises.
        gets: the replies to the GET of the job, in order; the last one stays.
        post: the reply to the POST; None if it is not mocked.
        login: the same for the login.
        more: further mocks: method, path and reply.
        here: what the calls return or raise with luigi_pai, if that differs.
        posts: how many jobs luigi_pai posts, if that differs.
        asks_too: what luigi_pai requests besides.
        because: the row of docs/coming-from-contrib.md about a difference.
    """

    does: str
    gets: tuple[str, ...] = ()
    post: str | None = ACCEPTED
    login: str | None = LOGGED_IN
    more: tuple[tuple[str, str, str], ...] = ()
    here: str = ""
    posts: int | None = None
    asks_too: str = ""
    because: str = ""


SCENARIOS = {
    name: Mocked(because=because, **row)
    for because, rows in CASES["scenarios"].items()
    for name, row in rows.items()
}


def reply(text: str) -> Reply:
    """Return status and body: of ``404 BODY``, or of a job in a state; of ``STATE of USER`` as real ones."""
    word, _, rest = text.partition(" ")
    if word.isdigit():
        return int(word), rest
    real = {"username": rest.removeprefix("of "), "createdTime": 1_500_000_000_000} if rest else {}
    return 200, json.dumps({"jobStatus": {"state": word, **real}})


def pipeline_of(module: str) -> str:
    """Return the source of the pipeline and of all jobs; only the import differs."""
    jobs = [
        f"class Job{number}(PaiTask):\n"
        + textwrap.indent('name = "train"\nimage = "python"\n' + body, "    ")
        for number, body in enumerate(CASES["jobs"].values())
    ]
    return "\n\n\n".join([(PROGRAMS / "contrib_pipeline.py").read_text(), *jobs]).replace("MODULE", module)


# ---------------------------------------------------------------- one process for each module


class Process:
    """Plays all scenarios with one module: this file runs as a script."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._names: dict[str, Any] = {"__name__": "pipeline"}
        exec(pipeline_of(module), self._names)
        self._waits: list[float] = []
        self._wait_at_once()

    def _wait_at_once(self) -> None:
        if self._module == OLD:
            time.sleep = self._waits.append
            return
        from clocks import MovableClock  # noqa: PLC0415  the other process has no luigi_pai
        from process_state import install_clock  # noqa: PLC0415  as above

        self._clock = MovableClock(limit=60)
        self._waits = self._clock.slept
        install_clock(self._clock, pytest.MonkeyPatch())

    def _begin(self) -> None:
        """Forget the last test."""
        self._waits.clear()
        luigi.task_register.Register.clear_instance_cache()
        if self._module == NEW:
            import luigi_pai  # noqa: PLC0415  as above

            luigi_pai.reset_clusters()
            self._clock.restart()

    def play(self, test: Mocked) -> dict[str, Any]:
        self._begin()
        with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
            posts = [("POST", "/token", test.login), ("POST", "/jobs", test.post)]
            gets = [("GET", "/jobs/train", each) for each in test.gets]
            for method, path, text in [*posts, *gets, *test.more]:
                if text is not None:
                    status, body = reply(text)
                    mock.add(method, API + path, status=status, body=body)
            outcomes = [self._outcome(mock, what) for what, _expected in steps_of(test.does)]
            return {
                "outcomes": outcomes,
                "requests": [line_of(call.request) for call in mock.calls],
                "unused": unused(mock),
                "waited": sum(self._waits),
            }

    def _outcome(self, mock: responses.RequestsMock, what: str) -> dict[str, Any]:
        """Return what a call returns, or the kinds of the error that ``except`` clauses see, and its text."""
        try:
            return {"is": [str(unused(mock) == [] if what == "all_used" else self._names[what]())]}
        except BaseException as error:  # noqa: BLE001  that of a clock is no Exception
            kinds = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(error).__mro__]
            return {"is": [kind.removeprefix("builtins.") for kind in kinds], "text": str(error)}

    def posted(self, number: int) -> list[tuple[str, str | None, str]]:
        """Return each POST of a job: content type, authorization and body."""
        self._begin()
        with responses.RequestsMock() as mock:
            mock.add("POST", f"{API}/token", body=reply(LOGGED_IN)[1])
            mock.add("POST", f"{API}/jobs", status=202, body=reply(ACCEPTED)[1])
            mock.add("GET", re.compile(f"{API}/jobs/.*"), body=reply("SUCCEED")[1])
            self._names[f"Job{number}"]().run()
            posts = [call.request for call in mock.calls if call.request.method == "POST"]
            return [
                (post.headers["Content-Type"], post.headers.get("Authorization"), text_of(post.body))
                for post in posts
            ]


def steps_of(does: str) -> list[tuple[str, str]]:
    """Return each call of a test, and what is expected of it."""
    return [(what, expected) for what, expected in (step.split(" ") for step in does.split(", "))]


def line_of(request: requests.PreparedRequest) -> str:
    return f"{request.method} {str(request.url).removeprefix(API)}"


def unused(mock: responses.RequestsMock) -> list[str]:
    return [
        f"{one.method} {str(one.url).removeprefix(API)}" for one in mock.registered() if not one.call_count
    ]


def text_of(body: Any) -> str:
    """Return a body as text of one character for each byte."""
    return (body if isinstance(body, bytes) else body.encode()).decode("latin-1")


def play_all(module: str) -> dict[str, Any]:
    process = Process(module)
    return {
        "scenarios": {name: process.play(test) for name, test in SCENARIOS.items()},
        "jobs": {name: process.posted(number) for number, name in enumerate(CASES["jobs"])},
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What became of all scenarios and jobs, by the module; side by side, without a luigi.cfg."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("LUIGI")}
    processes = {
        module: subprocess.Popen(
            [sys.executable, __file__, module],
            cwd=tmp_path_factory.mktemp("empty"),
            env=env | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for module in (OLD, NEW)
    }
    results = {}
    for module, process in processes.items():
        try:
            out, log = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == 0, log[-4000:]
        results[module] = json.loads(out.splitlines()[-1])
    return results


# ---------------------------------------------------------------- the tests


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_mocked_test_ends_as_before(played, name):
    """Its calls return the same or raise what matches the same ``except``; it needs no more mocks or time."""
    test = SCENARIOS[name]
    old, new = (played[module]["scenarios"][name] for module in (OLD, NEW))
    for (_what, expected), outcome in zip(steps_of(test.does), old["outcomes"], strict=True):
        assert outcome["is"][0] == expected
    for (_what, expected), outcome in zip(steps_of(test.here or test.does), new["outcomes"], strict=True):
        assert expected in outcome["is"], outcome
    before, now = old["requests"], new["requests"]
    posts = before.count(SUBMIT) if test.posts is None else test.posts
    assert now.count(SUBMIT) == posts
    assert set(now) <= {*before, test.asks_too}
    assert now.count(LOGIN) <= max(before.count(LOGIN), posts)
    assert now.count(LOOK) <= before.count(LOOK) + 2  # before the POST, and soon after it
    unneeded = {LOGIN, SUBMIT, LOOK} if posts < before.count(SUBMIT) else {LOGIN}
    assert set(new["unused"]) <= {*old["unused"], *unneeded}
    assert new["waited"] < 2  # on its clock


UNMOCKED = [
    name for name, test in SCENARIOS.items() if (test.here or test.does).endswith("requests.ConnectionError")
]


@pytest.mark.parametrize("name", UNMOCKED)
def test_an_address_that_is_not_mocked_is_named_at_once(played, name):
    """By the first request for it, which is not repeated."""
    new = played[NEW]["scenarios"][name]
    method, path = new["requests"][-1].split(" ")
    assert f"{method} {API}{path} was not sent" in new["outcomes"][-1]["text"]
    assert new["requests"].count(f"{method} {path}") == 1
    assert new["waited"] == 0


@pytest.mark.parametrize("name", CASES["jobs"])
def test_the_same_bytes_are_posted(played, name):
    """The login and the job, with the same content type and token."""
    old, new = (played[module]["jobs"][name] for module in (OLD, NEW))
    assert len(old) == 2
    assert new == old


@pytest.mark.tree
def test_each_difference_is_documented():
    """In the table for those who come from luigi.contrib.pai; and each row of it is played here."""
    page = (ROOT / "docs" / "coming-from-contrib.md").read_text(encoding="utf-8")
    section = page.partition("## Tests with mocks")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| (.*?) \| ", section, re.MULTILINE)
    assert documented[0] == "in `luigi.contrib.pai`"
    assert set(documented[1:]) == {test.because for test in SCENARIOS.values()} - {""}
    differing = [
        name
        for name, test in SCENARIOS.items()
        if bool(test.because) != bool(test.here or test.asks_too or test.posts is not None)
    ]
    assert differing == []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play_all(sys.argv[1])) + "\n")
