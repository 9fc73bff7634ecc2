"""Who is served: connections of the user who runs the server, and of root, but no page of another site."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import os
import pickle
import socket
import stat
from base64 import b64encode
from types import SimpleNamespace
from urllib.parse import quote

import psutil
import pytest
import requests
from local_cases import cases
from local_client import LocalClient, role

from luigi_pai.local import LocalPai, app

SOMEBODY = 65534  # another account of this machine
two_accounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another account")


def as_somebody(work):
    """Return what a function returns in a process of another account."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the other process
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
            os.write(writing, pickle.dumps(work()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        value = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(value) if value else None


def replies(server, *requests):
    """Send requests on one connection each; return the status of each reply."""
    lines = []
    for request in requests:
        head, _, body = request.partition("\n\n")
        length = f"Content-Length: {len(body)}" if body else "X-Empty: yes"
        text = f"{head}\nHost: {server.url[7:]}\n{length}\n\n".replace("\n", "\r\n") + body
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as connection:
            connection.sendall(text.encode())
            with connection.makefile("rb") as answer:
                lines.append(answer.readline().decode().split()[1])
    return lines


@two_accounts
def test_another_account_of_this_machine_gets_nothing(local_pai_v1):
    """REST, pages, logs, WebHDFS and control, with the right password, too; a line in the log for each."""
    client = LocalClient(local_pai_v1)
    name = client.submit(role("sleep 60"))
    basic = b64encode(f"admin:{local_pai_v1.password}".encode()).decode()
    login = f'{{"username": "admin", "password": "{local_pai_v1.password}"}}'
    asked = (
        "GET / HTTP/1.1",
        "HEAD / HTTP/1.1",
        f"GET /job-detail.html?username=admin&jobName={name} HTTP/1.1",
        "GET /api/v1/jobs HTTP/1.1",
        f"POST /api/v1/token HTTP/1.1\nContent-Type: application/json\n\n{login}",
        f"PUT /api/v1/jobs/{name}/executionType HTTP/1.1\nAuthorization: Bearer {client.token}",
        f"PUT /webhdfs/v1/{name}?op=CREATE&namenoderpcaddress=x HTTP/1.1\n\ncode",
        "GET /webhdfs/v1/?op=LISTSTATUS HTTP/1.1",
        f"GET /local/faults HTTP/1.1\nAuthorization: Basic {basic}",
        f"DELETE /local/contents HTTP/1.1\nAuthorization: Basic {basic}",
        "GET /no-such HTTP/1.1",
    )
    before = (local_pai_v1.data / "server.log").read_text()
    assert as_somebody(lambda: replies(local_pai_v1, *asked)) == ["403"] * len(asked)
    lines = (local_pai_v1.data / "server.log").read_text()[len(before) :].splitlines()
    assert len([line for line in lines if "refused the connection from 127.0.0.1 port " in line]) == len(
        asked
    )
    assert replies(local_pai_v1, asked[2]) == ["200"]
    path = f"{local_pai_v1.url}/webhdfs/v1/{name}?op=GETFILESTATUS"
    assert requests.get(path, timeout=20).status_code == 404
    assert client.status(name)["state"] in ("WAITING", "RUNNING")


@two_accounts
def test_a_refused_upload_is_taken_and_logged_once(local_pai_v1):
    """So that its sender reads the answer, and not a broken pipe."""
    log = local_pai_v1.data / "server.log"
    before = log.read_text().count("refused the connection")
    request = "PUT /webhdfs/v1/x?op=CREATE&namenoderpcaddress=x HTTP/1.1\n\n" + "x" * 500_000
    assert as_somebody(lambda: replies(local_pai_v1, request)) == ["403"]
    assert log.read_text().count("refused the connection") == before + 1


WAYS = {"kernel": lambda: True, "processes": lambda: False}
"""Whether the kernel says whose a connection is: Linux does, macOS does not."""


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def connected(request):
    """Connect to a socket of this process, over IPv4, IPv6, and IPv4 from a socket of IPv6, as Java does."""
    ipv6 = request.param == "::1"
    with contextlib.ExitStack() as stack:
        try:
            family = socket.AF_INET6 if ipv6 else socket.AF_INET
            there = socket.create_server(("::1" if ipv6 else "127.0.0.1", 0), family=family)
        except OSError:
            pytest.skip("this machine has no IPv6 on loopback")
        stack.enter_context(there)

        def connect():
            client = socket.socket(socket.AF_INET6 if ":" in request.param else socket.AF_INET)
            stack.enter_context(client)
            client.connect((request.param, there.getsockname()[1]))
            return client

        yield SimpleNamespace(
            connect=connect, accept=lambda: stack.enter_context(there.accept()[0]), there=there.getsockname()
        )


@pytest.mark.parametrize("way", WAYS)
def test_ones_own_connection_is_known(way, connected, monkeypatch):
    """Until its other end is closed: then it is nobody's, and the kernel would say root's."""
    monkeypatch.setattr(app, "_kernel_tells", WAYS[way])
    client = connected.connect()
    accepted = connected.accept()
    assert app.is_own_connection(accepted)
    client.close()
    assert not app.is_own_connection(accepted)


@two_accounts
@pytest.mark.parametrize("way", WAYS)
def test_a_connection_of_another_account_is_not_ones_own(way, connected, monkeypatch):
    """Seen by the server's own account."""
    monkeypatch.setattr(app, "_kernel_tells", WAYS[way])
    reading, writing = os.pipe()

    def hold():
        connected.connect()
        os.read(reading, 1)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        other = pool.submit(as_somebody, hold)
        accepted = connected.accept()
        try:
            assert not app.is_own_connection(accepted)
        finally:
            os.write(writing, b"x")
            other.result()
            os.close(reading)
            os.close(writing)


@pytest.mark.slow
def test_the_data_folder_is_this_users_alone(tmp_path):
    """Also one that was there, with another mode. Its next server takes the port that running tasks know."""
    (tmp_path / "data").mkdir(mode=0o755)
    with LocalPai(tmp_path / "data") as server:
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        first = server.url
    with LocalPai(tmp_path / "data") as server:
        assert server.url == first


@pytest.mark.slow
def test_each_server_that_a_program_starts_has_a_password_of_its_own(tmp_path):
    """Which is in no command line, and not in the settings that are shown."""
    one, two = LocalPai(tmp_path / "a"), LocalPai(tmp_path / "b")
    assert one.password != two.password
    assert len(one.password) > 40
    with one:
        assert one.password not in " ".join(psutil.Process(one.pid).cmdline())
        body = {"username": "admin", "password": "admin-password"}
        reply = requests.post(f"{one.url}/api/v2/authn/basic/login", json=body, timeout=20)
        assert reply.status_code == 400
    assert one.password not in repr(vars(one)["_settings"])


HERE = "HERE"  # stands for the server's own HOST:PORT


def ask(netloc, method, path, headers=()):
    """Return the answer to a request whose address is sent as it is, and its body."""
    with contextlib.closing(http.client.HTTPConnection(netloc, timeout=20)) as connection:
        connection.request(method, path, headers=dict(headers))
        reply = connection.getresponse()
        return reply, reply.read()


@pytest.mark.slow
def test_no_page_of_another_site_gets_an_answer(local_pai_v1):
    """Each Origin, Host and purpose that a browser sends, on every kind of route: 403, but for a link.

    Pages can link here, and cannot embed anything.
    """
    here = local_pai_v1.url.removeprefix("http://")
    routes = itertools.cycle(cases("routes"))
    wrong = []
    of_a_site = itertools.product(
        [None], [HERE], cases("fetches"), cases("routes")
    )  # what a page embeds has no Origin
    of_any = itertools.product(cases("origins"), cases("hosts"), cases("fetches"), [None])
    for origin, host, fetch, route in itertools.chain(of_a_site, of_any):
        method, path = route or next(routes)
        sent = {"Origin": origin, "Host": host}
        sent |= dict(zip(("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"), fetch, strict=True))
        headers = {name: value.replace(HERE, here) for name, value in sent.items() if value is not None}
        is_own = origin in (None, f"http://{HERE}") and host == HERE
        is_own = is_own and (fetch[0] in (None, "none", "same-origin") or fetch[2] == "document")
        reply, _ = ask(here, method, path, headers)
        is_refused = reply.status == 403 and "Access-Control-Allow-Origin" not in reply.headers
        if is_refused == is_own:
            wrong.append((method, path, headers, reply.status))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("route", cases("served_addresses"))
def test_no_address_leads_out_of_the_data_folder(local_pai_v1, route):
    """A file beside the folders that are served, spelt in each way that some decoder takes for "up"."""
    canary = local_pai_v1.data / "canary"
    canary.write_text("the canary sings")
    here = local_pai_v1.url.removeprefix("http://")
    for up, depth in itertools.product(cases("ways_up"), (1, 2, 4, 8)):
        for target in ("canary", quote(str(canary)), "server.json"):
            path = route.format("/".join([up] * depth + [target]))
            reply, text = ask(here, "GET", path)
            assert b"sings" not in text, path
            assert b'"pid"' not in text, path
            assert reply.status < 500, (path, text)
