"""Mistakes of new users: each is made at the front door, and the text says what, where, why, what to do."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from front_door import FrontDoor
from local_client import LocalClient, role
from places import DATA
from ports import refused_port
from transports import make_certificate

PASSWORD = "admin-password"
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
MISTAKEN = """\
import luigi
from luigi_pai import PaiTask, TaskRole


class MistakenTrain(PaiTask):
    name = "mistaken"
    image = "python:3"
    tasks = [TaskRole("main", "true")]


class MistakenPlain(luigi.Task):
    pass
"""
V1 = '{"jobName": "mistakes-v1", "image": "python:3", "taskRoles": [{"name": "main", "command": "true"}]}'


MISTAKES = yaml.safe_load((DATA / "mistakes.yaml").read_text(encoding="utf-8"))


def made_by(*keys):
    """Return the mistakes that have one of the keys, as parameters."""
    chosen = [each for each in MISTAKES if any(key in each for key in keys)]
    return pytest.mark.parametrize("made", chosen, ids=[each["mistake"] for each in chosen])


def pipeline_of(made):
    """Return the module of a mistake."""
    further = made.get("pipeline", "")
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
    """Another user, who has a job."""
    admin = LocalClient(local_pai_v1)
    admin.send("PUT", "/user", {"username": "berta", "password": "berta-password", "modify": False})
    LocalClient(local_pai_v1, "berta", "berta-password").submit(role("true"), name=OTHERS)


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
                "password": PASSWORD,
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
    assert PASSWORD not in text
    assert "hunter22" not in text


@pytest.mark.usefixtures("berta")
@made_by("command")
def test_of_a_command(door, fill, made):
    """An exit code and a text of the command's own, never a traceback."""
    door.configure(made.get("luigi.cfg", {}))
    make_files(door)
    code, text = door.command(*shlex.split(fill(made["command"])))
    check(text, made, fill)
    assert "Traceback" not in text
    assert code == made["exit code"], text


@pytest.mark.usefixtures("berta")
@made_by("task", "protocol", "pipeline")
def test_of_a_task(door, fill, made):
    """It is not run, or fails; only Python's own errors have a traceback."""
    door.configure(made.get("luigi.cfg", {}))
    failed, text = door.pipeline(pipeline_of(made), "Use" if "class Use(" in str(made) else "Train")
    check(text, made, fill)
    assert "Traceback" not in text or re.search(
        r"^(TypeError|\w+NotFoundError|NotImplementedError): ", text, re.MULTILINE
    )
    assert failed


@pytest.mark.slow
@made_by("process")
def test_in_a_process(door, fill, made):
    """Of its own: `run` starts Luigi in one, and luigi.cfg is read when Luigi is loaded."""
    door.configure(made.get("luigi.cfg", {}))
    make_files(door)
    command = [sys.executable, "-m", "luigi_pai", *shlex.split(fill(made["process"]))]
    ended = subprocess.run(command, cwd=door.folder, capture_output=True, text=True, check=False, timeout=60)
    text = ended.stdout + ended.stderr
    check(text, made, fill)
    assert "Traceback" not in text
    assert ended.returncode == made["exit code"]


def make_files(door):
    door.write("v1.json", V1)
    door.write("gpus.yaml", PROTOCOL.replace("gpu: 0", "gpu: 99"))
    door.write("train.py", "print('epoch 1')\n")
    door.write("broken_pipeline.py", "x = 1\ny + x\n")
    door.write("mistaken.py", MISTAKEN)


def test_the_table_is_of_many():
    assert len({made["mistake"] for made in MISTAKES}) == len(MISTAKES) > 42
