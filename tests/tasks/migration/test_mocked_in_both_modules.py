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
from places import ROOT

if TYPE_CHECKING:
    import requests

pytestmark = pytest.mark.slow

OLD, NEW = "luigi.contrib.pai", "luigi_pai"
API = "http://127.0.0.1:9186/api/v1"  # what both take when there is no luigi.cfg
LOGIN, SUBMIT, LOOK = "POST /token", "POST /jobs", "GET /jobs/train"
NEXT = "GET /jobs/train__attempt2"

PIPELINE = """
import luigi
import requests

from MODULE import PaiTask, Port, TaskRole


class Train(PaiTask):
    name = "train"
    image = "openpai/pai.example.sklearn"
    virtual_cluster = "spark"
    tasks = [TaskRole("test", "cd scikit-learn/benchmarks && python bench_mnist.py", memoryMB=4096)]


class Evaluate(PaiTask):
    name = "evaluate"
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("test", "python evaluate.py")]

    def requires(self):
        return Train()


class Refused(PaiTask):
    name = "train"
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("my-role", "python train.py")]


def run(): return Train().run()
def complete(): return Train().complete()
def build(): return luigi.build([Train()], local_scheduler=True, log_level="CRITICAL")
def build_both(): return luigi.build([Evaluate()], local_scheduler=True, log_level="CRITICAL")
def run_refused(): return Refused().run()


def status_of_error():
    try:
        run()
    except requests.HTTPError as error:
        return error.response.status_code
"""

# ---------------------------------------------------------------- what is mocked

Reply = tuple[int, str]


def job(state: str, **fields: Any) -> Reply:
    return 200, json.dumps({"jobStatus": {"state": state, **fields}})


def real_job(state: str, owner: str = "admin") -> Reply:
    """Return a reply with what a real server always sends."""
    return job(state, username=owner, createdTime=1_500_000_000_000)


LOGGED_IN: Reply = 200, '{"token": "test", "user": "admin", "admin": true}'
ACCEPTED: Reply = 202, '{"message": "update job train successfully"}'
NO_JOB: Reply = 404, "{}"
NO_JOB_OF_OPENPAI: Reply = 404, '{"code": "NoJobError", "message": "Job train is not found."}'
WAITING, RUNNING, SUCCEED, FAILED, STOPPED = map(job, ("WAITING", "RUNNING", "SUCCEED", "FAILED", "STOPPED"))

# The first cells of the table in docs/coming-from-contrib.md.
REAL_WORD = "`SUCCEEDED`, the word of every server, is a failure"
FAULTS = "`complete()` is False when the GET is answered 401, 500 or with any other fault"
LOOKUP = "`run()` posts, then asks"
LATE_LOGIN = "making a task logs in"
NEW_LOGIN = "a POST answered 401 is the end"
OWNED = "owner and submission time (`username`, `createdTime`) in a reply mean nothing"
CREATED = "a POST answered 201 is an error"
NO_RESPONSE = "`error.response.status_code`"
NO_STATE = "a GET answered 200 without a state raises `KeyError` or `JSONDecodeError`"
CHECKED = "a job that no server takes, such as one with a role `my-role`, is posted"


@dataclass(frozen=True)
class Mocked:
    """A test with mocks.

    Attributes:
        does: the functions of the pipeline that it calls, each with what it returns or raises.
        gets: the replies to the GET of the job, in order; the last one stays.
        post: the reply to the POST; None if it is not mocked.
        login: the same for the login.
        more: further mocks.
        here: what the calls return or raise with luigi_pai, if that differs.
        posts: how many jobs luigi_pai posts, if that differs.
        asks_too: what luigi_pai requests besides.
        because: the row of docs/coming-from-contrib.md about a difference.
    """

    does: str
    gets: tuple[Reply, ...] = ()
    post: Reply | None = ACCEPTED
    login: Reply | None = LOGGED_IN
    more: tuple[tuple[str, str, Reply], ...] = ()
    here: str = ""
    posts: int | None = None
    asks_too: str = ""
    because: str = ""


def mocked(does: str, *gets: Reply, **rest: Any) -> Mocked:
    return Mocked(does, gets, **rest)


EVALUATED = (("GET", "/jobs/evaluate", NO_JOB), ("GET", "/jobs/evaluate", SUCCEED))
NO_NEXT = ("GET", "/jobs/train__attempt2", NO_JOB)

SCENARIOS = {
    "Luigi's own test of a success": mocked("build True, complete True", NO_JOB, SUCCEED),
    "Luigi's own test of a failure": mocked("build False, complete False", NO_JOB, FAILED),
    # one GET mock, in whatever state it begins
    "run: SUCCEED": mocked("run None, complete True", SUCCEED),
    "run: FAILED": mocked("run RuntimeError, complete False", FAILED),
    "run: STOPPED": mocked("run RuntimeError, complete False", STOPPED),
    "run: RUNNING, SUCCEED": mocked("run None, complete True", RUNNING, SUCCEED),
    "run: RUNNING, FAILED": mocked("run RuntimeError, complete False", RUNNING, FAILED),
    "run: WAITING, RUNNING, SUCCEED": mocked("run None, complete True", WAITING, RUNNING, SUCCEED),
    "run: UNKNOWN, STOPPED": mocked("run RuntimeError, complete False", job("UNKNOWN"), STOPPED),
    "complete: SUCCEED": mocked("complete True", SUCCEED),
    "complete: FAILED": mocked("complete False", FAILED),
    "complete: STOPPED": mocked("complete False", STOPPED),
    "complete: WAITING": mocked("complete False", WAITING),
    "complete: RUNNING": mocked("complete False", RUNNING),
    "complete: UNKNOWN": mocked("complete False", job("UNKNOWN")),
    "build: SUCCEED": mocked("build True, complete True", SUCCEED),
    "build: FAILED": mocked("build False, complete False", FAILED),
    "build: RUNNING, SUCCEED": mocked("build True, complete True", RUNNING, SUCCEED),
    "build: WAITING, RUNNING, STOPPED": mocked("build False, complete False", WAITING, RUNNING, STOPPED),
    "build: 404, WAITING, RUNNING, SUCCEED": mocked(
        "build True, complete True", NO_JOB, WAITING, RUNNING, SUCCEED
    ),
    "complete, run, complete": mocked("complete False, run None, complete True", NO_JOB, SUCCEED),
    "run after a success": mocked("run None, run None", SUCCEED),
    "run after a failure": mocked("run RuntimeError, run RuntimeError", FAILED),
    "two tasks": mocked("build_both True", NO_JOB, SUCCEED, more=EVALUATED),
    "two tasks, the first fails": mocked("build_both False", NO_JOB, FAILED, more=EVALUATED),
    # no job, in any words
    "404 for ever: run": mocked("run requests.HTTPError, complete False", NO_JOB),
    "404 for ever: build": mocked("build False, complete False", NO_JOB),
    "404 without a body": mocked("build True, complete True", (404, ""), SUCCEED),
    "404 of a text": mocked("build True, complete True", (404, "Not Found"), SUCCEED),
    "404 of a page": mocked("build True, complete True", (404, "<h1>404</h1>"), SUCCEED),
    "404 of a message": mocked("build True, complete True", (404, '{"message": "no such job"}'), SUCCEED),
    "404 of a list": mocked("complete False", (404, "[]")),
    "404 of OpenPAI: build": mocked("build True, complete True", NO_JOB_OF_OPENPAI, SUCCEED),
    "404 of OpenPAI: complete": mocked("complete False", NO_JOB_OF_OPENPAI),
    "404 of another code": mocked("complete False", (404, '{"code": "JobNotFound"}')),
    # half of what a real server sends is no evidence of an earlier submission
    "an owner only": mocked("build False, complete False", job("FAILED", username="admin")),
    "a submission time only": mocked("build False, complete False", job("FAILED", createdTime=1)),
    # faults of the POST
    "POST 200": mocked("run requests.HTTPError, complete True", SUCCEED, post=(200, "{}")),
    "POST 400": mocked("run requests.HTTPError, complete True", SUCCEED, post=(400, "{}")),
    "POST 401": mocked(
        "run requests.HTTPError, complete True", SUCCEED, post=(401, "{}"), posts=2, because=NEW_LOGIN
    ),
    "POST 409": mocked(
        "run requests.HTTPError, complete False", FAILED, post=(409, '{"code": "ConflictJobError"}')
    ),
    "POST 409: build": mocked("build False, complete False", NO_JOB, post=(409, '{"message": "in use"}')),
    "POST 500: build": mocked("build False, complete False", NO_JOB, post=(500, "oops")),
    "POST 503: build": mocked("build False, complete False", NO_JOB, post=(503, "{}")),
    "POST 202 without a body": mocked("run None, complete True", SUCCEED, post=(202, "")),
    # what is not mocked
    "no GET: complete": mocked("complete requests.ConnectionError"),
    "no GET: run": mocked("run requests.ConnectionError", posts=0, because=LOOKUP),
    "no GET: build": mocked("build False"),
    "no GET after a POST 409: run": mocked(
        "run requests.HTTPError",
        post=(409, "{}"),
        here="run requests.ConnectionError",
        posts=0,
        asks_too=LOOK,
        because=LOOKUP,
    ),
    "no POST: run": mocked("run requests.ConnectionError", NO_JOB, post=None, asks_too=LOOK, because=LOOKUP),
    "no POST: build": mocked("build False, complete False", NO_JOB, post=None),
    "no POST, but one with a slash: complete, run": mocked(
        "complete False, run requests.ConnectionError",
        NO_JOB,
        post=None,
        more=(("POST", "/jobs/", ACCEPTED),),
    ),
    "no login: run": mocked(
        "run requests.ConnectionError", NO_JOB, login=None, asks_too=LOOK, because=LATE_LOGIN
    ),
    "no login: complete": mocked(
        "complete requests.ConnectionError",
        SUCCEED,
        login=None,
        here="complete True",
        asks_too=LOOK,
        because=LATE_LOGIN,
    ),
    # what differs
    "SUCCEEDED: run": mocked(
        "run RuntimeError, complete False",
        job("SUCCEEDED"),
        here="run None, complete True",
        because=REAL_WORD,
    ),
    "SUCCEEDED: build": mocked(
        "build False, complete False",
        NO_JOB,
        job("SUCCEEDED"),
        here="build True, complete True",
        because=REAL_WORD,
    ),
    **{
        f"{status}: complete": mocked(
            "complete False", (status, body), here="complete requests.HTTPError", because=FAULTS
        )
        for status, body in ((400, "{}"), (401, "{}"), (403, "{}"), (409, "{}"), (500, "oops"), (503, "{}"))
    },
    "401: run": mocked("run requests.HTTPError", (401, "{}"), posts=0, because=LOOKUP),
    "500: run": mocked("run requests.HTTPError", (500, "{}"), posts=0, because=LOOKUP),
    "500: build": mocked("build False", (500, "{}"), posts=0, because=LOOKUP),
    "404, SUCCEED: run": mocked(
        "run requests.HTTPError, complete True",
        NO_JOB,
        SUCCEED,
        here="run None, complete True",
        because=LOOKUP,
    ),
    "a login answered 401: build": mocked(
        "build Exception", NO_JOB, login=(401, "{}"), here="build False", asks_too=LOOK, because=LATE_LOGIN
    ),
    "a login answered 500: complete": mocked(
        "complete Exception",
        NO_JOB,
        login=(500, "{}"),
        here="complete False",
        asks_too=LOOK,
        because=LATE_LOGIN,
    ),
    "mocks that must all be used": mocked(
        "complete True, all_used True",
        SUCCEED,
        post=None,
        here="complete True, all_used False",
        because=LATE_LOGIN,
    ),
    "POST 201": mocked(
        "run requests.HTTPError, complete True",
        SUCCEED,
        post=(201, "{}"),
        here="run None, complete True",
        because=CREATED,
    ),
    "a real success: run": mocked("run None, complete True", real_job("SUCCEED"), posts=0, because=OWNED),
    "a real failure: complete": mocked(
        "complete False",
        real_job("FAILED"),
        here="complete requests.ConnectionError",
        asks_too=NEXT,
        because=OWNED,
    ),
    "a real failure, and no next job: build": mocked(
        "build False, complete False",
        NO_JOB,
        real_job("FAILED"),
        more=(NO_NEXT,),
        asks_too=NEXT,
        because=OWNED,
    ),
    "a real failure, then a success: run": mocked(
        "run RuntimeError",
        real_job("FAILED"),
        more=(NO_NEXT, ("GET", "/jobs/train__attempt2", real_job("SUCCEEDED"))),
        here="run None",
        asks_too=NEXT,
        because=OWNED,
    ),
    "a job of another user: complete": mocked(
        "complete True",
        real_job("SUCCEED", owner="anna"),
        here="complete luigi_pai.PaiNameTaken",
        because=OWNED,
    ),
    "the status of an error": mocked(
        "complete False, status_of_error 409",
        NO_JOB,
        post=(409, "{}"),
        here="complete False, status_of_error AttributeError",
        because=NO_RESPONSE,
    ),
    "a 200 of a text: complete": mocked(
        "complete requests.JSONDecodeError",
        (200, "ok"),
        here="complete requests.HTTPError",
        because=NO_STATE,
    ),
    "a 200 without a state: complete": mocked(
        "complete KeyError",
        (200, "{}"),
        here="complete requests.HTTPError",
        because=NO_STATE,
    ),
    "a job that no server takes": mocked(
        "run_refused None", SUCCEED, here="run_refused luigi_pai.SpecError", posts=0, because=CHECKED
    ),
}

# ---------------------------------------------------------------- what is posted

JOBS = {
    "the defaults": 'tasks = [TaskRole("main", "python train.py")]',
    "several roles": """
        tasks = [
            TaskRole("ps", "python ps.py", 2, 4, 8192, 128),
            TaskRole("worker", "python worker.py", taskNumber=3, gpuNumber=1),
        ]
    """,
    "ports": 'tasks = [TaskRole("main", "x", portList=[Port("tensorboard"), Port("metrics", 8080, 3)])]',
    "ports as dicts": """
        ports = [{"label": "a", "beginAt": 0, "portNumber": 1}]
        tasks = [TaskRole("main", "x", portList=ports)]
    """,
    "ports of two roles, one added later": """
        ports = [Port("a")]
        tasks = [TaskRole("main", "x", portList=ports), TaskRole("second", "y", portList=ports)]
        ports.append(Port("b"))
    """,
    "a tuple of ports": 'tasks = [TaskRole("main", "x", portList=(Port("a"),))]',
    "no ports": 'tasks = [TaskRole("main", "x", portList=None)]',
    "resources": 'tasks = [TaskRole("main", "x", cpuNumber=16, memoryMB=131072, shmMB=65536, gpuNumber=8)]',
    "folders": """
        auth_file_path = "hdfs://10.0.0.1:9000/auth"
        data_dir = "$PAI_DEFAULT_FS_URI/data"
        code_dir = "$PAI_DEFAULT_FS_URI/code"
        output_dir = "hdfs://10.0.0.1:9000/out"
        tasks = [TaskRole("main", "x")]
    """,
    "virtual cluster, type of GPU, retries": """
        virtual_cluster = "spark"
        gpu_type = "K80"
        retry_count = -2
        tasks = [TaskRole("main", "x")]
    """,
    "None wherever it can be": """
        virtual_cluster = None
        output_dir = None
        retry_count = None
        tasks = [TaskRole("main", "x")]
    """,
    "empty strings": """
        auth_file_path = data_dir = code_dir = output_dir = virtual_cluster = gpu_type = ""
        tasks = [TaskRole("main", "x")]
    """,
    "characters of all kinds": r"""
        virtual_cluster = "grüße"
        tasks = [TaskRole("main", "echo grüße 日本 \u2028 \U0001F600 \x7f")]
    """,
    "quotes, tabs and lines": r"""
        tasks = [TaskRole("main", "set -e\n\techo \"a\" 'b' \\ <c> & $D </script>\n\ttrue")]
    """,
    "a role as a dict": """
        tasks = [
            {"name": "main", "command": "x", "memoryMB": 512, "taskNumber": 1, "cpuNumber": 1, "gpuNumber": 0}
        ]
    """,
    "fields that were set later": """
        role = TaskRole("main", "x", taskNumber=3)
        role.minFailedTaskCount = 2
        role.minSucceededTaskCount = 1
        role.shmMB = None
        tasks = [role]
    """,
    "a role of a class of one's own": """
        class Role(TaskRole):
            pass

        tasks = [Role("main", "x")]
    """,
    "parameters": """
        rate = luigi.FloatParameter(default=0.1)
        name = luigi.Parameter(default="train-1.0_a~b")

        @property
        def tasks(self):
            return [TaskRole("main", f"python train.py --rate {self.rate}", memoryMB=2048.0)]
    """,
}


def pipeline_of(module: str) -> str:
    """Return the source of the pipeline and of all jobs; only the import differs."""
    jobs = [
        f"class Job{number}(PaiTask):\n"
        + textwrap.indent('name = "train"\nimage = "python"\n' + textwrap.dedent(body).strip(), "    ")
        for number, body in enumerate(JOBS.values())
    ]
    return "\n\n\n".join([PIPELINE.strip(), *jobs]).replace("MODULE", module)


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

        class Clock(MovableClock):
            def sleep(self, seconds: float, waits: list[float] = self._waits) -> None:
                waits.append(seconds)
                super().sleep(seconds)

        self._clock = Clock(limit=60)
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
            for path, reply in (("/token", test.login), ("/jobs", test.post)):
                if reply is not None:
                    mock.add("POST", API + path, status=reply[0], body=reply[1])
            for status, body in test.gets:
                mock.add("GET", f"{API}/jobs/train", status=status, body=body)
            for method, path, (status, body) in test.more:
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
            mock.add("POST", f"{API}/token", body=LOGGED_IN[1])
            mock.add("POST", f"{API}/jobs", status=202, body=ACCEPTED[1])
            mock.add("GET", re.compile(f"{API}/jobs/.*"), body=job("SUCCEED")[1])
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
        "jobs": {name: process.posted(number) for number, name in enumerate(JOBS)},
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


@pytest.mark.parametrize("name", JOBS)
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
