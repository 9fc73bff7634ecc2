"""Mistakes of new users: each is made at the front door, and the text says what, where, why, what to do."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from xml.etree import ElementTree as ET

import pytest
import yaml
from front_door import FrontDoor
from local_client import LocalClient, role
from places import DATA
from ports import refused_port
from transports import make_certificate

OTHERS = "mistakes-of-berta"
IPC = (  # of Hadoop's ipc.Server to an HTTP request
    b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n"
    b"It looks like you are making an HTTP request to a Hadoop IPC port. This is not the correct port for "
    b"the web interface on this daemon.\r\n"
)
PROTOCOL = """\
protocolVersion: 2
name: mistakes-v2
type: job
prerequisites:
  - {name: img, type: dockerimage, uri: "python:3"}
taskRoles:
  worker:
    instances: 1
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 200, gpu: 0}
    commands: ["true"]
"""
IMPORTS = """\
import itertools
import luigi
from luigi_pai import *
from luigi_pai import grid, sample, zipped

"""
MISTAKEN = f"""\
{IMPORTS}
class MistakenTrain(PaiTask):
    name = "mistaken"
    image = "python:3"
    tasks = [TaskRole("main", "true")]


class MistakenRate(MistakenTrain):
    rate = luigi.FloatParameter()

    @property
    def name(self):
        return f"mistaken-{{self.rate}}"


class MistakenGpus(MistakenTrain):
    tasks = [TaskRole("main", "true", gpuNumber=99)]


class MistakenFlag(MistakenTrain):
    on = luigi.BoolParameter()


class MistakenStudy(PaiSweep):
    rates = luigi.ListParameter(default=[0.1])

    def points(self):
        return grid(MistakenTrain)


class MistakenPlain(luigi.Task):
    pass
"""
STUDY = """\
class Train(PaiTask):
    rate = luigi.FloatParameter()
    epochs = luigi.IntParameter(default=1, significant=False)
    image = "python:3"
    command = "true"

    @property
    def name(self):
        return f"{type(self).__name__.lower()}-{self.rate}"

    @property
    def tasks(self):
        return [TaskRole("main", f"echo {self.rate}; {self.command}")]


class Fails(Train):
    command = "echo no memory left; exit 3"


class Nameless(Train):
    name = "mistakes-nameless"


class Measured(Train):
    def result(self):
        return {"accuracy": 0.9}


class Resultless(Train):
    def result(self):
        return {"accuracy": self.rat}


class Study(PaiSweep):
    results_dir = "results"

"""
REPL = """\
class Train(PaiTask):
    name = "mistakes-repl"
    image = "python:3"
    tasks = [TaskRole("main", "true")]

"""
V1 = '{"jobName": "mistakes-v1", "image": "python:3", "taskRoles": [{"name": "main", "command": "true"}]}'


MISTAKES = yaml.safe_load((DATA / "mistakes.yaml").read_text(encoding="utf-8"))


def made_by(*keys):
    """Return the mistakes that have one of the keys, as parameters."""
    chosen = [each for each in MISTAKES if any(key in each for key in keys)]
    return pytest.mark.parametrize("made", chosen, ids=[each["mistake"] for each in chosen])


def pipeline_of(made):
    """Return the module of a mistake."""
    return IMPORTS + _classes_of(made)


def _classes_of(made):
    if "study" in made:
        return STUDY + textwrap.indent(made["study"], "    ")
    further = made.get("pipeline", "").replace("PROTOCOL", repr(PROTOCOL))
    if "protocol" in made:
        text = PROTOCOL
        for old, new in made["protocol"].items():
            text = text.replace(old, new)
        return f"class Train(PaiProtocolTask):\n    protocol = {text!r}\n"
    if "task" not in made:
        return further
    values = {
        "name": "'mistakes'",
        "image": "'python:3'",
        "tasks": "[TaskRole('main', 'true')]",
        **made["task"],
    }
    lines = [f"    {key} = {value}" for key, value in values.items() if value is not None]
    for attribute, value in made.get("method", {}).items():
        lines += [f"    def {attribute}(self):", f"        return {value}"]
    return "\n".join(["class Train(PaiTask):", *lines, "", "", further])


@pytest.fixture(scope="module")
def berta(local_pai_v1):
    """Another user, who has a job that has ended."""
    admin = LocalClient(local_pai_v1)
    admin.send("PUT", "/user", {"username": "berta", "password": "berta-password", "modify": False})
    LocalClient(local_pai_v1, "berta", "berta-password").run(role("true"), name=OTHERS)


@pytest.fixture(scope="module")
def portal():
    """The port of a web server that answers all with a page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            page = b"<html>portal</html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def answering(handle):
    """Yield a port whose connections are given to a function."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                with connection, contextlib.suppress(OSError):
                    handle(connection)

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture(scope="module")
def ipc():
    """The port of a NameNode's RPC."""

    def answer(connection):
        connection.recv(65536)
        connection.sendall(IPC)

    yield from answering(answer)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """The port of a TLS server with a certificate of its own."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("needs openssl to make a certificate")
    _, context = make_certificate(openssl, tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")

    def shake_hands(connection):
        context.wrap_socket(connection, server_side=True).close()

    yield from answering(shake_hands)


@pytest.fixture
def fill(request, local_pai_v1):
    """Replace the names of ports and addresses in a text."""

    def replace(text):
        text = text.replace("{url}", local_pai_v1.url).replace("{port}", local_pai_v1.url.rpartition(":")[2])
        for name in ("portal", "tls", "ipc"):
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", str(request.getfixturevalue(name)))
        return text.replace("{nobody}", str(nobody))

    nobody = refused_port()
    replace.password = local_pai_v1.password
    return replace


@pytest.fixture
def door(local_pai_v1, local_pai_v2, tmp_path, monkeypatch, fill):
    """A folder; ``configure`` writes its luigi.cfg: None for none, a text, or the keys that differ.

    The server is the 1.8 for ``api_version: v2``, otherwise the 0.7.1.
    """
    door = FrontDoor(tmp_path, monkeypatch)

    def configure(given):
        if isinstance(given, dict):
            server = local_pai_v2 if given.get("api_version") == "v2" else local_pai_v1
            right = {
                "pai_url": server.url,
                "username": server.username,
                "password": server.password,
                "fs_uri": server.fs_uri,
                "webhdfs_url": server.webhdfs_url,
                "poll_min": "0.05",
                "poll_max": "0.2",
            }
            keys = {key: value for key, value in {**right, **given}.items() if value is not None}
            given = "[OpenPai]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        if given is not None:
            door.write("luigi.cfg", fill(given))

    door.configure = configure
    return door


def check(text, made, fill):
    """What it has to say is there, in one piece each, and nothing secret."""
    for piece in made["says"]:
        assert fill(piece) in text, f"{fill(piece)!r} is not in:\n{text}"
    assert fill.password not in text
    assert "hunter22" not in text


@pytest.mark.usefixtures("berta")
@made_by("command")
def test_of_a_command(door, fill, made):
    """An exit code and a text of the command's own, never a traceback."""
    door.configure(made.get("luigi.cfg", {}))
    make_files(door, made)
    code, text = door.command(*shlex.split(fill(made["command"])))
    check(text, made, fill)
    assert "Traceback" not in text
    assert code == made["exit code"], text


@pytest.mark.usefixtures("berta")
@made_by("task", "protocol", "pipeline", "study")
def test_of_a_task(door, fill, made):
    """It is not run, or fails, or is warned of."""
    door.configure(made.get("luigi.cfg", {}))
    text = pipeline_of(made)
    task = next(name for name in ("Study", "Use", "Train") if f"class {name}(" in text)
    failed, text = door.pipeline(text, task)
    check(text, made, fill)
    assert "Traceback" not in text or re.search(
        r"^(\w+NotFoundError|NotImplementedError): ", text, re.MULTILINE
    )
    assert failed == ("ends" not in made)


@made_by("repl")
def test_at_the_prompt(door, fill, made):
    """The last line is the error."""
    door.configure(made.get("luigi.cfg", {}))
    text = door.prompt(f"{IMPORTS}{REPL}{fill(made['repl'])}")
    check(text, made, fill)


@pytest.mark.slow
@made_by("process")
def test_in_a_process(door, fill, made):
    """Of its own: `run` starts Luigi in one, and luigi.cfg is read when Luigi is loaded."""
    door.configure(made.get("luigi.cfg", {}))
    make_files(door, made)
    if "mode" in made:
        (door.folder / "luigi.cfg").chmod(made["mode"])
        if os.access(door.folder / "luigi.cfg", os.R_OK):
            pytest.skip("this user may read every file")
    command = [sys.executable, "-m", "luigi_pai", *shlex.split(fill(made["process"]))]
    text, code = run(command, door.folder, made.get("environment", {}))
    check(text, made, fill)
    assert "Traceback" not in text
    assert code == made["exit code"]


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """What pytest says of each mistake in a test, by the mistake; all of them in one process."""
    folder = tmp_path_factory.mktemp("tests")
    made = [each for each in MISTAKES if "test" in each]
    for number, each in enumerate(made):
        module = f"import pytest\nimport responses\n{IMPORTS}{REPL}{each['test']}"
        (folder / f"test_{number}.py").write_text(module, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = folder / "report.xml"
    run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"], folder, {})
    cases = {case.get("classname"): case for case in ET.parse(report).iter("testcase")}
    return {
        each["mistake"]: "".join(part.text for part in cases[f"test_{number}"])
        for number, each in enumerate(made)
    }


@pytest.mark.slow
@made_by("test")
def test_in_a_test(tested, fill, made):
    """It fails, and says why."""
    check(tested[made["mistake"]], made, fill)


def run(command, folder, environment):
    """Return what a process prints, and its exit code."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return ended.stdout + ended.stderr, ended.returncode


def make_files(door, made):
    for name, text in made.get("files", {}).items():
        door.write(name, text)
    door.write("v1.json", V1)
    door.write("gpus.yaml", PROTOCOL.replace("gpu: 0", "gpu: 99").replace("mistakes-v2", "mistakes-gpus"))
    door.write("train.py", "print('epoch 1')\n")
    door.write("broken_pipeline.py", "x = 1\ny + x\n")
    door.write("mistaken.py", MISTAKEN)


def test_the_table_is_of_many():
    assert len({made["mistake"] for made in MISTAKES}) == len(MISTAKES) > 200
