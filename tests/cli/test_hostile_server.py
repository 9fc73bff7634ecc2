"""A hostile rest-server: texts that act on a terminal, and fields of other types, in all its replies."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import random
import re
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from clocks import MovableClock
from ending_server import EndingServer
from process_state import install_clock
from terminal import on_terminal

from luigi_pai import OpenPai, PermissionRefused, reset_clusters
from luigi_pai.cli import main
from luigi_pai.console import Console
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.sheet import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.api.cluster import Cluster

pytestmark = pytest.mark.slow

EVIL = (
    "\x1b]52;c;cm0gLXJmIC8=\x07\x1b[2J\x1b[8m\x1bP1$r\x1b\\\x9b31m\x9d0;x\x9c\x85\x00\x08\x7f\r"
    "\u202e\u2066\u200b\u200f\u061c\u2028\ufeff\U000e0041\U000e007f"
)
ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
KEPT = ("token", "state", "name", "jobStatus")  # or no command gets far
OTHERS: list[Any] = json.loads(
    f'[5, -1, {10**400}, 1e308, true, "x", "", [], [1], ["x"], {{}}, {{"a": 1}}, null, [[]], [null]]'
)
COMMANDS = [
    *("list", "list --all-users", "list -q", "list --json", "list -s failed", "list luigi-*"),
    *("status NAME", "status NAME --json", "status @latest", "status no-such-job"),
    *("logs NAME", "logs NAME main/0", "ssh NAME", "ssh-config NAME", "config NAME"),
    *("submit FILE", "submit --like NAME --name other", "stop NAME", "stop no-such-job", "doctor"),
]
RETRIED = ["list", "status NAME", "submit FILE", "doctor"]
"""Commands for replies that are retried, which takes its time."""


class Hostile(EndingServer):
    """Hands on the replies of another server, changed.

    Attributes:
        change: returns what becomes of the JSON of a reply.
        status: of all replies to other requests than a login; None: that of the other server.
    """

    change: Callable[[Any], Any] = staticmethod(lambda value: value)
    status: int | None = None

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hostile

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            name: self.headers[name] for name in ("Authorization", "Content-Type") if self.headers[name]
        }
        request = urllib.request.Request(
            self.server.target + self.path, body or None, headers, method=self.command
        )
        try:
            reply = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            data, status, kind = reply.read(), reply.status, reply.headers.get("Content-Type", "")
        is_login = self.path.endswith(("/token", "/login"))
        with contextlib.suppress(ValueError):
            value = json.loads(data)
            data = json.dumps(value if is_login else self.server.change(value)).encode()
        if self.server.status and not is_login:
            status = self.server.status
            data = json.dumps({"code": f"Code{EVIL}", "message": f"message{EVIL}"}).encode()
        self.send_response(status, "reason\x1b[31m")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_args: object) -> None:
        pass


def with_evil(value: Any, key: str = "") -> Any:
    """Return JSON with escapes in every text."""
    if isinstance(value, dict):
        return {name: with_evil(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [with_evil(one) for one in value]
    return f"{value[:1]}{EVIL}{value[1:]}{EVIL}" if isinstance(value, str) and key not in KEPT else value


def with_other_types(value: Any, chance: random.Random) -> Any:
    """Return JSON in which some values are of another type."""
    if chance.random() < 0.15:
        return chance.choice(OTHERS)
    if isinstance(value, dict):
        return {name: with_other_types(one, chance) for name, one in value.items()}
    if isinstance(value, list):
        return [with_other_types(one, chance) for one in value]
    return value


@pytest.fixture
def hostile(
    cluster, dialect: str, settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hostile]:
    """The server, before the local OpenPAI, as [OpenPai] of luigi.cfg; retries move the clock."""
    install_clock(MovableClock(), monkeypatch)
    server = Hostile(cluster.url)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    settings(pai_url=server.url, poll_patience=0.1, api_version=dialect)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def name(here: Cluster, name: str, job_file: Callable[..., str], pai_command: Callable[..., Any]) -> str:
    """The name of a job that has failed."""
    pai_command("submit", job_file(name, "exit 3"), expect=0)
    here.job(name).wait()
    return name


def outputs(name: str, file: str, commands: Sequence[str] = COMMANDS) -> Iterator[tuple[str, str]]:
    """Yield each command with its output; none ends by an exception."""
    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    for command in commands:
        words = [{"NAME": name, "FILE": file}.get(word, word) for word in command.split()]
        result = CliRunner(**apart).invoke(main, words)
        is_end = result.exception is None or isinstance(result.exception, SystemExit)
        assert is_end, (words, result.exc_info)
        yield " ".join(words), result.stdout + result.stderr


@pytest.mark.parametrize("status", [None, 403, 404, 500])
def test_no_text_acts_on_the_terminal(name, hostile, job_file, status):
    """Of replies and of errors."""
    hostile.change, hostile.status = with_evil, status
    commands = RETRIED if status == 500 else COMMANDS
    for command, text in outputs(name, job_file(f"{name}-b"), commands):
        if command.startswith("config") and status is None:
            continue  # a document, which only a terminal gets without these
        assert ACTS.findall(text) == [], (command, text)


def test_a_document_on_a_terminal(name, cluster, hostile, dialect, tmp_path):
    """It is written as it is elsewhere."""
    section = {
        "pai_url": hostile.url,
        "username": "admin",
        "password": cluster.password,
        "api_version": dialect,
    }
    text = "".join(f"{key} = {value}\n" for key, value in section.items())
    (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{text}")
    hostile.change = with_evil
    code, shown = on_terminal([sys.executable, "-m", "luigi_pai", "config", name], cwd=tmp_path)
    assert code == 0, shown
    assert ACTS.findall(shown.replace("\r\n", "\n")) == []


def test_the_log_of_a_run(hostile, name):
    """Errors say what a server says, also where Luigi shows them, and in the quiet console."""
    hostile.change, hostile.status = with_evil, 403
    reset_clusters()  # which has looked the job up when it was submitted: an ended one is not looked up again
    with pytest.raises(PermissionRefused) as caught:
        OpenPai().cluster().job(name).status()
    assert "message" in str(caught.value)
    assert ACTS.findall(str(caught.value)) == []
    shown = io.StringIO()
    Console(shown).handle(
        logging.makeLogRecord({"name": "user", "msg": f"a{EVIL}b", "levelno": logging.WARNING})
    )
    assert ACTS.findall(shown.getvalue()) == []


@pytest.mark.parametrize("words", [[], ["--failed"], ["--csv"]])
def test_the_table_of_a_sweep(tmp_path, words):
    """It has what containers wrote: names and values of results, and errors."""
    folder = str(tmp_path / "study")
    rows = [
        ({"rate": f"{number}{EVIL}"}, Row(state, {f"a{EVIL}": EVIL}, 1.0, "job", "", f"e{EVIL}"))
        for number, state in enumerate(("SUCCEEDED", "FAILED"))
    ]
    SweepResults(folder).write(
        rows, Summary(f"study{EVIL}", 2, complete=True, started_ms=1, updated_ms=2, digest="")
    )
    code, shown = on_terminal([sys.executable, "-m", "luigi_pai", "sweep", folder, *words], cwd=tmp_path)
    assert code == 0, shown
    assert ACTS.findall(re.sub(r"\x1b\[[0-9;]*m", "", shown.replace("\r\n", "\n"))) == []


@pytest.mark.parametrize("command", [["list"], ["status", "NAME"], ["logs", "NAME"], ["ssh", "NAME"]])
def test_each_field_of_another_type(name, hostile, command):
    """One at a time, so that no wrong field hides another."""
    words = [{"NAME": name}.get(word, word) for word in command]
    seen, wrong = 0, -1

    def change(value: Any) -> Any:
        """Return JSON whose field number ``wrong`` is of another type."""
        nonlocal seen
        seen += 1
        if seen - 1 == wrong:
            others = [other for other in OTHERS if type(other) is not type(value)]
            return others[wrong % len(others)]
        if isinstance(value, dict):
            return {key: change(one) for key, one in value.items()}
        return [change(one) for one in value] if isinstance(value, list) else value

    hostile.change = change
    CliRunner().invoke(main, words)
    fields = seen
    assert fields > 10
    # a list has the jobs of all tests before, and so thousands of fields
    for wrong in sorted(random.Random(fields).sample(range(fields), min(fields, 15))):
        seen = 0
        result = CliRunner().invoke(main, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), (wrong, result.exc_info)


@pytest.mark.parametrize("seed", range(2))
def test_fields_of_other_types(name, hostile, job_file, seed):
    """They are ignored, or an error of one line: no traceback of ours."""
    chance = random.Random(seed)
    hostile.change = lambda value: with_other_types(value, chance)
    for _command, text in outputs(name, job_file(f"{name}-b{seed}")):
        assert "Traceback" not in text
