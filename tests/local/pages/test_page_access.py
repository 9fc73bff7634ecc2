"""Who may stop a job from its page, where other machines or other users reach the server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from local_client import LocalClient, role
from waiting import wait_until

from luigi_pai.local.pages import access as page_access
from luigi_pai.local.pages.access import StopForms
from luigi_pai.local.releases.release import OPENPAI_0_7_1

PASSWORD = "a-password-of-ones-own"


@pytest.fixture
def open_server(tmp_path):
    """A server that other machines could reach; here it is reached on loopback all the same."""
    settings = {
        "data": str(tmp_path / "data"),
        "host": "0.0.0.0",
        "port": 0,
        "virtual_clusters": ["default"],
        "insecure_bind": True,
        "api": "v1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "luigi_pai.local", json.dumps(settings)],
        stdin=subprocess.PIPE,
        env={**os.environ, "LUIGI_PAI_LOCAL_PASSWORD": PASSWORD},
    )
    known = tmp_path / "data" / "server.json"
    port = wait_until(lambda: known.exists() and json.loads(known.read_text())["port"])
    yield SimpleNamespace(url=f"http://127.0.0.1:{port}", port=port, username="admin", password=PASSWORD)
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.mark.slow
def test_whom_other_machines_reach_asks_who_stops_a_job(open_server):
    """The owner, or an administrator, with their password."""
    admin = LocalClient(open_server)
    for name in ("zoe", "max"):
        user = {"username": name, "password": f"{name}s-password", "admin": False, "modify": False}
        assert admin.send("PUT", "/user", user).status_code == 201
    zoe = LocalClient(open_server, "zoe", "zoes-password")
    job = zoe.submit(role("sleep 60"))
    query = {"username": "zoe", "jobName": job}
    page = requests.get(f"{open_server.url}/job-detail.html", params=query, timeout=20).text
    assert (
        '<input id="password" name="password" type="password" required autocomplete="current-password">'
        in page
    )
    token = page.partition('name="token" value="')[2].partition('"')[0]

    def stop(**who):
        fields = {**query, "token": token, **who}
        return requests.post(f"{open_server.url}/stop-job", data=fields, timeout=20, allow_redirects=False)

    assert "User or password is wrong." in stop().text
    assert stop(who="zoe", password=PASSWORD).status_code == 403
    assert "User max may not stop jobs of zoe." in stop(who="max", password="maxs-password").text
    assert zoe.status(job)["state"] in ("WAITING", "RUNNING")
    assert stop(who="zoe", password="zoes-password", token="x").status_code == 403
    assert stop(who="zoe", password="zoes-password").status_code == 303
    assert zoe.wait(job)["jobStatus"]["state"] == "STOPPED"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("192.168.7.7", 200),
        ("[::1]", 200),
        (socket.gethostname(), 200),
        ("pai", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_a_server_for_others_has_no_name_of_somebody_elses(open_server, host, status):
    """DNS rebinding ends in a name with a domain; addresses and plain names cannot be led elsewhere."""
    headers = {"Host": f"{host}:{open_server.port}"}
    assert requests.get(f"{open_server.url}/", headers=headers, timeout=20).status_code == status


@pytest.fixture(params=["127.0.0.1", "::1"])
def request_from_here(request):
    """What a handler knows of a connection that this process has made to itself."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.socket(family) as listening:
        try:
            listening.bind((request.param, 0))
        except OSError:
            pytest.skip("this machine has no IPv6 on loopback")
        listening.listen()
        with socket.create_connection(listening.getsockname()[:2]), listening.accept()[0] as accepted:
            stream = SimpleNamespace(socket=accepted)
            yield SimpleNamespace(remote_ip=request.param, connection=SimpleNamespace(stream=stream))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
def test_on_loopback_another_user_of_this_machine_is_asked_who_they_are(request_from_here, monkeypatch):
    """Who runs the server is not: the kernel says whose the other end of the connection is."""
    assert not asks_for_a_password(request_from_here)
    assert asks_for_a_password(request_from_here, loopback_only=False)
    other = os.getuid() + 1
    monkeypatch.setattr(page_access.os, "getuid", lambda: other)
    assert asks_for_a_password(request_from_here)


def asks_for_a_password(request, *, loopback_only=True):
    job = SimpleNamespace(id=1, username="admin", name="a", release=OPENPAI_0_7_1)
    return "password" in StopForms(loopback_only=loopback_only).form(request, job)


def ends(request):
    """Return both ends of a connection as /proc/net writes them, the other one first."""
    accepted = request.connection.stream.socket
    theirs, ours = (f":{end[1]:04X}" for end in (accepted.getpeername(), accepted.getsockname()))
    tables = [Path(path) for path in page_access.CONNECTION_TABLES if Path(path).exists()]
    lines = [line.split() for path in tables for line in path.read_text().splitlines()]
    (found,) = [line[1:3] for line in lines if line[1].endswith(theirs) and line[2].endswith(ours)]
    return found


def table(path, *rows):
    """Write connections as /proc/net has them: local end, remote end, state, user."""
    lines = [
        f" {number}: {a} {b} {state} 0:0 0:0 0 {user} 0 9" for number, (a, b, state, user) in enumerate(rows)
    ]
    path.write_text("\n".join(["  sl  local_address rem_address   st ...", *lines, ""]))
    return str(path)


@pytest.mark.parametrize(
    "stale",
    [
        lambda theirs, ours: (theirs, f"{ours[:-4]}0016", "01", 4242),  # the same port, to another server
        lambda theirs, ours: (theirs, ours, "06", 0),  # of the port's last user, in TIME_WAIT
        lambda theirs, ours: (ours, theirs, "01", 4242),  # this server's own end
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
def test_only_this_very_connection_says_whose_it_is(request_from_here, monkeypatch, tmp_path, stale):
    """A port may be in the table more than once: both ends and the state have to be right."""
    theirs, ours = ends(request_from_here)
    rows = stale(theirs, ours), (theirs, ours, "01", os.getuid())
    monkeypatch.setattr(page_access, "CONNECTION_TABLES", (table(tmp_path / "tcp", *rows),))
    assert not asks_for_a_password(request_from_here)
    monkeypatch.setattr(page_access, "CONNECTION_TABLES", (table(tmp_path / "tcp", rows[0]),))
    assert asks_for_a_password(request_from_here)
    monkeypatch.setattr(page_access.os, "getuid", lambda: rows[0][3])
    assert asks_for_a_password(request_from_here)  # and not because it is another user's


def test_a_connection_of_unknown_owner_needs_a_password(request_from_here, monkeypatch, tmp_path):
    """No table, as on macOS, or none that has it: a password it is."""
    monkeypatch.setattr(page_access, "CONNECTION_TABLES", (str(tmp_path / "none"), table(tmp_path / "empty")))
    assert asks_for_a_password(request_from_here)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
def test_an_ipv6_socket_that_speaks_ipv4_is_found_too():
    """Java's sockets, for one: the kernel has such a connection's two ends in two tables."""
    with socket.socket() as listening, socket.socket(socket.AF_INET6) as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        try:
            client.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
        except OSError:
            pytest.skip("this machine has no IPv6")
        with listening.accept()[0] as accepted:
            stream = SimpleNamespace(socket=accepted)
            request = SimpleNamespace(remote_ip="127.0.0.1", connection=SimpleNamespace(stream=stream))
            assert not asks_for_a_password(request)
