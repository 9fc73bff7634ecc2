"""docs/failures.md: its examples run, and it names what there is."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import luigi
import pytest
from click.testing import CliRunner
from local_client import unique
from places import ROOT
from train_task import Command

from luigi_pai import OpenPai, PaiEvent, PaiJobFailed
from luigi_pai.cli import main
from luigi_pai.tasks.job_task import JobTask

pytestmark = pytest.mark.tree

PAGE = ROOT / "docs" / "failures.md"
OPTIONS = ("logs", "keep_logs", "max_attempts", "retry_exit_codes", "tags", "notify")


def block(name):
    """Return the module of that name that the page shows."""
    return re.search(rf"```python\n(# {name}\n.*?)```", PAGE.read_text(), re.DOTALL)[1]


def loaded(name, **replaced):
    """Run a module of the page, but for the given words of it."""
    text = block(name)
    for shown, real in replaced.items():
        assert shown in text
        text = text.replace(shown, real)
    scope = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    return scope


class Mails(socketserver.StreamRequestHandler):
    """As much of SMTP as a sender needs."""

    def handle(self):
        self.wfile.write(b"220 hello\r\n")
        while word := self.rfile.readline()[:4].decode().strip().upper():
            if word == "DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.got.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if word == "QUIT" else b"250 ok\r\n")


class Hook(BaseHTTPRequestHandler):
    """Takes what is posted."""

    def do_POST(self):
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver(request, monkeypatch):
    """A server on loopback, of the class that the test names, and no handlers of other tests."""
    monkeypatch.setattr(luigi.Task, "_event_callbacks", {})
    kind, handler = request.param
    with kind(("127.0.0.1", 0), handler) as server:
        server.got = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("receiver", [(ThreadingHTTPServer, Hook)], indirect=True)
def test_a_webhook_is_called(receiver):
    loaded("webhook.py", **{"localhost:8065": f"127.0.0.1:{receiver.server_address[1]}"})
    task = Command(name=unique())
    task.run()
    assert receiver.got == [{"text": f"{task.name} has succeeded"}]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("receiver", [(socketserver.ThreadingTCPServer, Mails)], indirect=True)
def test_a_failure_is_mailed(receiver):
    loaded("mail.py", **{'"localhost", 25': f'"127.0.0.1", {receiver.server_address[1]}'})
    task = Command(name=unique(), command="echo why >&2; exit 3")
    with pytest.raises(PaiJobFailed):
        task.run()
    (mail,) = receiver.got
    assert f"Subject: {task.name}: FAILED" in mail
    assert "why" in mail


@pytest.mark.slow
@pytest.mark.usefixtures("quick_logs")
@pytest.mark.parametrize("server", ["local_pai_v1", "local_pai_v2"])
def test_the_first_example_runs(request, as_settings, caplog, server):
    """A program that fails for now is submitted again; every option does what its row says."""
    as_settings(request.getfixturevalue(server))
    scope = loaded(
        "training.py",
        **{
            "python train.py": "echo working; [ $LUIGI_PAI_ATTEMPT = 2 ] || exit 75",
            "memoryMB=500": "memoryMB=100",
        },
    )
    task = scope["Train"](name=unique())
    with caplog.at_level("INFO", "luigi-interface"):
        task.run()
    assert task.complete()
    lines = [caplog.messages.count(f"worker/{index} | working") for index in (0, 1)]
    assert max(lines) == 2
    assert min(lines) >= 1  # the first failure ends the other task, perhaps before it writes
    for submission in (task.name, f"{task.name}__attempt2"):
        assert (task.output() / f"_logs/{submission}/worker-1.stdout").exists()


@pytest.mark.usefixtures("v2_cluster")
def test_the_commands_print_what_is_shown():
    block = re.search(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    runs = re.findall(r"^\$ luigi-pai (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    assert len(runs) == 2
    for command, printed in runs:
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, done.output
        assert done.output == printed or not printed


@pytest.mark.parametrize("option", OPTIONS)
def test_the_table_has_every_option(option):
    """With the default, and an example for luigi.cfg that is valid."""
    row = re.search(rf"^\| `{option}` \|.*\|$", PAGE.read_text(), re.MULTILINE)[0]
    default, example = (cell.strip().strip("`") for cell in row.split("|")[-3:-1])
    assert isinstance(vars(JobTask)[option], property)
    actual = getattr(OpenPai(), option)
    assert default == ({"retry_exit_codes": "all"}.get(option, "none") if actual is None else str(actual))
    luigi.configuration.get_config().set("OpenPai", option, example)
    OpenPai().check()


def test_the_table_has_every_event():
    events = [name for name in vars(PaiEvent) if name.isupper()]
    assert re.findall(r"^\| `PaiEvent\.(\w+)` \|", PAGE.read_text(), re.MULTILINE) == events
