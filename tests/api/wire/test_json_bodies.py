"""The JSON of responses: bounded in memory, and large enough for the responses of real servers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from api_cases import cases

from luigi_pai import json_bodies
from luigi_pai.api.dialects.job_replies import listed_job, listed_jobs
from luigi_pai.json_bodies import TooLarge, parse_json

ROW = {
    "name": "train-@",
    "username": "admin",
    "state": "SUCCEEDED",
    "subState": "FRAMEWORK_COMPLETED",
    "executionType": "START",
    "retries": 0,
    "retryDetails": {"user": 0, "platform": 0, "resource": 0},
    "createdTime": 1530000000000,
    "completedTime": 1530000000001,
    "appExitCode": 0,
    "virtualCluster": "default",
    "totalGpuNumber": 1,
    "totalTaskNumber": 1,
    "totalTaskRoleNumber": 1,
}
"""A job as 0.14 lists it."""
MOST = 200 * 1024  # KiB
CLIENT = """
import pathlib, re, sys
from luigi_pai import Cluster, PaiApiError
for url in sys.argv[1:]:
    try:
        print(len(Cluster(url, "admin", token="t", api_version="v1")._api.dialect.list("admin")))
    except PaiApiError as error:
        print(error)
    print(*re.findall(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text()))
"""


def rows(count: int, item: str = json.dumps(ROW)) -> str:
    """Return a list of entries, each with its number in place of ``@``."""
    return f"[{','.join([item.replace('@', str(number)) for number in range(count)])}]"


@pytest.fixture
def small(monkeypatch):
    """Read every list entry by entry, in windows of 600 bytes."""
    monkeypatch.setattr(json_bodies, "_SMALL", 0)
    monkeypatch.setattr(json_bodies, "_WINDOW", 600)


GENERATED = [
    " " * 2000 + "[1]",
    f"[{'12345678901234567890, ' * 100}1]",
    json.dumps([{"a": "\u00e9" * number} for number in range(120)], ensure_ascii=False),
    json.dumps([{"a": number, "b": {"a": [number]}} for number in range(90)]),
    json.dumps([{"a": '"}, {"a": 1}'} for _ in range(90)], indent=1),
]


@pytest.mark.usefixtures("small")
@cases("body", GENERATED)
def test_a_list_that_is_read_entry_by_entry_is_the_same(body):
    assert parse_json(body.encode(), lambda entry: entry) == json.loads(body)


@pytest.mark.usefixtures("small")
@cases("body", ["[1]" + " " * 2000])
def test_what_is_no_list_is_refused(body):
    with pytest.raises(ValueError, match=r"not a list|Expecting|Invalid|Extra"):
        parse_json(body.encode(), lambda entry: entry)


@pytest.mark.usefixtures("small")
def test_a_large_list_of_jobs_has_the_same_jobs():
    text = rows(50).encode()
    assert listed_jobs(parse_json(text, listed_job)) == list(map(listed_job, json.loads(text)))


@pytest.mark.usefixtures("small")
def test_an_entry_of_a_list_is_not_nested_deeper_than_other_documents():
    deep = f'{{"a": {"[" * 101}{"]" * 101}}}'
    with pytest.raises(ValueError, match="more than 100 levels deep"):
        parse_json(f"[{deep}, {deep}, {deep}]".encode(), lambda entry: entry)


@pytest.mark.parametrize(
    ("body", "each", "error"),
    [
        (f'"{"x" * 17_000_000}"', None, "more than 16 MiB"),
        (f"[{'{},' * 300_000}1]", None, "more than 500,000 values"),
        (f'{{"a": {"[" * 101}{"]" * 101}}}', None, "more than 100 levels deep"),
        ("[" * 50_000, None, "nested too deeply|Expecting value"),
        (f"[{'{},' * 1_500_000}1]", listed_job, "more than 200,000 entries"),
        (f"[{'1,' * 2_500_000}1]", listed_job, "more than 200,000 entries"),
        (f'[{{"name": "{"x" * 4_500_000}"}}]', listed_job, "an entry of its list has more than 1 MiB"),
    ],
)
def test_a_body_has_bounds(body, each, error):
    with pytest.raises(TooLarge if each else ValueError, match=error):
        parse_json(body.encode(), each)


def test_a_job_with_ten_thousand_tasks_is_read():
    task = {f"field{number}": "a value of 20 letters" for number in range(22)}
    assert len(parse_json(json.dumps({"taskStatuses": [task] * 10_000}).encode())["taskStatuses"]) == 10_000


def reply(body: str):
    """Return what sends a body to each connection."""
    data = body.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode()

    def handle(connection):
        connection.recv(65536)
        connection.sendall(head)
        connection.sendall(data)
        connection.recv(65536)

    return handle


TAGGED = '{"name": "a", "tags": [' + ", ".join(['"ab"'] * 30) + "]}"
LISTS = [  # a list of jobs, and what is said of it
    (lambda: rows(100_000), "100000"),
    (lambda: f"[{'{},' * 22_000_000}1]", "is not accepted: its list has more than 48 MiB"),
    (lambda: f"[{'{},' * 16_000_000}1]", "is not accepted: its list has more than 200,000 entries"),
    (lambda: f"[{'[[]],' * 800_000}1]", "is not accepted: it has more than 500,000 values"),
    (
        lambda: f"[{','.join([TAGGED] * 200_000)}]",
        "is not accepted: the entries of its list take more than 80 MiB of memory",
    ),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory was used")
def test_a_list_of_jobs_takes_at_most_200_mb(sockets):
    """Of a process that reads all; the jobs of a v1 server come in one list, however many there are."""
    urls = [f"http://127.0.0.1:{sockets(reply(body()))}" for body, _ in LISTS]
    command = [sys.executable, "-c", CLIENT, *urls]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    printed = done.stdout.splitlines()
    for (_, said), line, memory in zip(LISTS, printed[::2], printed[1::2], strict=True):
        assert said in line
        assert int(memory) < MOST, said
