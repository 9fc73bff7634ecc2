"""Session: URLs, tokens, .netrc and redirects."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from api_cases import cases
from mocked_rest import GET, POST, rest_server
from ports import refused_port

from luigi_pai.api.wire import logins
from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    ServerFault,
    TokenLost,
)

# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize("slashes", ["", "/", "//"])
@pytest.mark.parametrize("base", ["http://h:9186", "https://h/rest-server", "http://h/a/b%20c"])
def test_a_path_in_pai_url_is_kept(new_session, base, slashes):
    """API paths go below the path of pai_url, however many slashes end it."""
    assert new_session(base + slashes).url("/api/v1/jobs") == f"{base}/api/v1/jobs"


def test_requests_go_below_the_path_of_pai_url(serve, new_session, make_token):
    """The login and the call both go below the path, on the wire."""
    server = rest_server(serve, [make_token()])
    new_session(server.url + "/rest-server/").request(*POST, body={})
    assert [asked.path for asked in server.asked] == ["/rest-server/api/v1/token", "/rest-server/api/v1/jobs"]


# ---------------------------------------------------------------- token


@cases("method wants_token asked")
def test_a_token_is_asked_for_once_and_where_it_is_wanted(
    serve, new_session, make_token, method, wants_token, asked
):
    """Many calls need one login."""
    token = make_token()
    server = rest_server(serve, [token], wants_token=wants_token)
    session = new_session(server.url)
    for _ in range(3):
        session.request(*(POST if method == "POST" else GET), authorize=method == "POST")
    paths = ["login" if one.path.endswith("/token") else one.method for one in server.asked]
    assert " ".join(paths) == asked
    sent = server.asked[-1].headers.get("Authorization")
    assert sent == (f"Bearer {token}" if "login" in asked else None)


def test_a_token_that_ended_is_renewed_before_it_is_refused(serve, new_session, make_token, clock):
    """Half a minute before the end that the token itself tells, the next call logs in first."""
    first, second = make_token(3600, serial=1), make_token(3600, serial=2)
    server = rest_server(serve, [first, second])
    session = new_session(server.url, clock)
    session.request(*POST, body={})
    clock.advance(3600 - 31)
    session.request(*POST, body={})
    assert server.count("POST", "/api/v1/token") == 1
    clock.advance(2)
    session.request(*POST, body={})
    assert server.count("POST", "/api/v1/token") == 2
    assert [asked.headers.get("Authorization") for asked in server.asked] == [
        None,
        f"Bearer {first}",
        f"Bearer {first}",
        None,
        f"Bearer {second}",
    ]


@cases("token seconds")
def test_a_token_is_kept_for_a_part_of_its_life(make_token, token, seconds):
    """A number stands for a token with this life; of a minute's, 54 seconds are used."""
    assert logins.lifetime(make_token(token) if isinstance(token, int) else token) == pytest.approx(seconds)


def test_a_token_refused_in_the_middle_is_renewed_unnoticed(serve, new_session, make_token):
    """A 401 leads to one login and the same request again, with the same body."""
    server = rest_server(serve, [make_token(serial=1), make_token(serial=2)])
    session = new_session(server.url)
    session.request(*POST, body={})
    server.given[-1] = "another"  # it no longer takes the one that is kept
    session.request(*POST, body={"a": 1})
    assert [(asked.path, asked.body) for asked in server.asked[2:]] == [
        ("/api/v1/jobs", b'{"a": 1}'),
        ("/api/v1/token", server.asked[0].body),
        ("/api/v1/jobs", b'{"a": 1}'),
    ]


def refusing(make_token, code, message):
    """Return what accepts logins and refuses everything else."""
    token = 200, {}, json.dumps({"token": make_token()})
    refusal = 401, {}, json.dumps({"code": code, "message": message})
    return lambda asked: token if asked.path == "/api/v1/token" else refusal


def test_a_request_whose_new_token_is_refused_fails_after_one_more_login(serve, new_session, make_token):
    """The error does not blame the password; the next try sends the last token, and logs in once."""
    server = serve(refusing(make_token, "UnauthorizedUserError", "Guest."))
    session = new_session(server.url)
    with pytest.raises(TokenLost) as caught:
        session.request(*POST, body={})
    assert str(caught.value) == (
        f"POST {server.url}/api/v1/jobs: 401 UnauthorizedUserError: Guest; the password is correct, but the "
        "server does not accept the token that it has just issued; if this continues, make an application "
        "token on your profile page of the web portal, and write token = ... in [OpenPai] of luigi.cfg"
    )
    assert len(server.asked) == 4
    with pytest.raises(TokenLost):
        session.request(*POST, body={})
    assert server.count("POST", "/api/v1/token") == 3


def test_a_401_for_another_reason_leads_to_no_more_logins(serve, new_session, make_token):
    """The error has the server's reason, and no advice that would not help."""
    server = serve(refusing(make_token, "AccountDisabledError", "The account is disabled."))
    with pytest.raises(
        AuthenticationError, match=r"AccountDisabledError: The account is disabled\.$"
    ) as caught:
        new_session(server.url).request(*POST, body={})
    assert type(caught.value) is AuthenticationError
    assert server.count("POST", "/api/v1/token") == 2


def test_an_application_token_is_sent_as_it_is(serve, new_session):
    """With ``token`` set nobody logs in, and it is sent with reads too."""
    server = serve(lambda _: (200, {}, "{}"))
    session = new_session(server.url, token="application-token", password=None)
    session.request(*GET, authorize=False)
    session.request(*POST, body={})
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer application-token"}
    assert len(server.asked) == 2


@pytest.mark.parametrize("token", ["tok\nen", "tok en", " token", "tökén", "tok\x00en"])
def test_a_token_that_no_header_can_carry_is_a_config_error(new_session, token):
    """A token copied with a line end is told at once, and the error does not show it."""
    with pytest.raises(ConfigError) as caught:
        new_session(token=token)
    assert str(caught.value) == (
        "token in [OpenPai] of luigi.cfg contains blanks, line ends or other characters that are not "
        "valid in a token; copy it again"
    )


@pytest.mark.slow
def test_many_threads_log_in_once(serve, new_session, make_token):
    """Threads that need a token at the same moment wait for one login."""
    token = make_token()

    def answer(asked):
        if asked.path == "/api/v1/token":
            time.sleep(0.1)
            return 200, {}, json.dumps({"token": token})
        return 200, {}, "{}"

    server = serve(answer)
    session = new_session(server.url)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: session.request(*POST, body={}), range(8)))
    assert server.count("POST", "/api/v1/token") == 1
    assert server.count("POST", "/api/v1/jobs") == 8


def test_many_threads_renew_once(serve, new_session, make_token):
    """Threads whose one token is refused at the same moment log in once."""
    server = rest_server(serve, [make_token(serial=1), make_token(serial=2), make_token(serial=3)])
    session = new_session(server.url)
    session.request(*POST, body={})
    server.given[-1] = "another"
    barrier = threading.Barrier(6)
    plain_send = session._send

    def send(*about):
        answer = plain_send(*about)
        if answer.status_code == 401:
            barrier.wait(5)  # all have been refused before any logs in
        return answer

    session._send = send
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: session.request(*POST, body={}), range(6)))
    assert server.count("POST", "/api/v1/token") == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_login_is_repeated_after_a_fault_of_the_server(serve, new_session, make_token, clock, status):
    """A login changes nothing on the server: it is tried three times, within a second."""
    token = make_token()

    def answer(asked):
        if asked.path == "/api/v1/token" and server.count("POST", "/api/v1/token") < 3:
            return status, {}, '{"code": "UnknownError", "message": "duplicate key"}'
        return 200, {}, json.dumps({"token": token})

    server = serve(answer)
    new_session(server.url, clock).request(*POST, body={})
    assert server.count("POST", "/api/v1/token") == 3
    assert 0 < sum(clock.slept) < 1


def test_a_login_is_not_repeated_without_end(serve, new_session, clock):
    """The third fault is the caller's."""
    server = serve(lambda _: (500, {}, '{"code": "UnknownError", "message": "boom"}'))
    with pytest.raises(ServerFault, match=r"/api/v1/token: 500 UnknownError: boom$"):
        new_session(server.url, clock).request(*POST, body={})
    assert len(server.asked) == 3


def test_a_login_whose_answer_was_lost_is_repeated(faulty, new_session, clock):
    """A connection that breaks during the login is no reason to fail."""
    faulty.fail("POST", "/token$", "reset", after=True)
    new_session(faulty.url, clock).request("GET", "/api/v1/jobs?username=admin")
    assert (faulty.logins, len(clock.slept)) == (2, 1)


TOKEN_INSTEAD = (
    "set token = ... (an application token) instead: OpenPAI's successor LTP may refuse correct passwords"
)
NO_LOGIN = '{"code": "IncorrectPasswordError", "message": "no"}'


@cases("password hint")
def test_a_refused_login_is_not_repeated(serve, new_session, clock, password, hint):
    """A wrong password stays wrong, and accounts are locked for trying; one in quotes has them in it."""
    server = serve(lambda _: (400, {}, NO_LOGIN))
    with pytest.raises(AuthenticationError) as caught:
        new_session(server.url, clock, password=password).token_life()
    assert str(caught.value).endswith(f"set the correct password in [OpenPai] of luigi.cfg{hint}")
    assert "hush" not in str(caught.value).lower()
    assert len(server.asked) == 1


def test_a_login_is_not_repeated_at_an_address_without_a_server(new_session, clock):
    """A refused connection is an error at once."""
    with pytest.raises(ClusterUnreachable, match="Connection refused"):
        new_session(f"http://127.0.0.1:{refused_port()}", clock).request(*POST, body={})
    assert clock.slept == []


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # threads of the test's server
def test_the_token_goes_on_over_a_fork_on_connections_of_its_own(serve, new_session, make_token, in_forks):
    """Of a family of processes, as Luigi's workers are, one logs in; none uses another's connection."""
    token = make_token()
    server = rest_server(serve, [token])
    session = new_session(server.url)
    for _ in range(2):
        in_forks(lambda _: session.request(*POST, body={}))
        session.request(*POST, body={})
    assert [asked.headers.get("Authorization") for asked in server.asked] == [None] + [f"Bearer {token}"] * 4
    assert server.connections == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # threads of the test's server
def test_a_login_during_the_fork_does_not_hold_the_child(serve, new_session, make_token, in_forks):
    """A child waits for a login that a thread of its parent has begun, and no longer."""
    server = rest_server(serve, [make_token()])
    session = new_session(server.url)

    def go_on():
        time.sleep(0.1)
        assert server.asked == []
        lock.close()

    with contextlib.ExitStack() as lock:
        lock.enter_context(session._shared.locked("login"))
        in_forks(lambda _: session.request(*POST, body={}), meanwhile=go_on)


# ---------------------------------------------------------------- .netrc, redirects


@pytest.fixture
def netrc(tmp_path, monkeypatch):
    """A .netrc with an account for every host of these tests."""
    file = tmp_path / "netrc"
    file.write_text("default login somebody password netrc-password\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    assert requests.utils.get_netrc_auth("http://127.0.0.1/") == ("somebody", "netrc-password")


@pytest.mark.usefixtures("netrc")
def test_netrc_does_not_take_the_tokens_place(serve, new_session, make_token):
    """A .netrc with an account for the host changes no request, nor a GET that is redirected within it."""
    token = make_token()
    server = rest_server(serve, [token])
    session = new_session(server.url)
    session.request(*GET, authorize=False)
    session.request(*POST, body={})
    assert [asked.headers.get("Authorization") for asked in server.asked] == [None, None, f"Bearer {token}"]
    server = serve(
        lambda asked: (200, {}, "{}") if asked.path == "/there" else (302, {"Location": "/there"}, "")
    )
    new_session(server.url, token="t").request(*GET)
    assert [asked.headers.get("Authorization") for asked in server.asked] == ["Bearer t", "Bearer t"]


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_redirect_to_another_host_gets_no_token(serve, new_session, host):
    """A GET follows a redirect to another host, or another port, without the token."""
    other = serve(lambda _: (200, {}, '{"from": "other"}'))
    server = serve(lambda asked: (302, {"Location": f"http://{host}:{other.port}{asked.path}"}, ""))
    assert new_session(server.url, token="secret-token").request(*GET) == {"from": "other"}
    assert server.asked[0].headers["Authorization"] == "Bearer secret-token"
    assert "Authorization" not in other.asked[0].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_only_a_get_follows_a_redirect(serve, new_session, method, status):
    """A write is sent where it was meant for or nowhere, and the error says what to set."""
    other = serve(lambda _: (200, {}, "{}"))
    server = serve(lambda _: (status, {"Location": f"http://localhost:{other.port}/x?token=1"}, ""))
    with pytest.raises(InvalidReply) as caught:
        new_session(server.url, token="t").request(method, "/api/v1/jobs", body={})
    assert str(caught.value) == (
        f"{server.url}/api/v1/jobs redirects {method} to http://localhost:{other.port}/x; "
        "set pai_url in [OpenPai] to where the rest-server is"
    )
    assert (len(server.asked), other.asked) == (1, [])


def test_a_login_is_not_redirected(serve, new_session):
    """The password goes to the server of pai_url and to no other."""
    other = serve(lambda _: (200, {}, '{"token": "t"}'))
    server = serve(lambda asked: (307, {"Location": f"http://localhost:{other.port}{asked.path}"}, ""))
    with pytest.raises(InvalidReply, match="redirects POST to"):
        new_session(server.url).request(*POST, body={})
    assert other.asked == []


def test_a_redirect_without_end_is_an_invalid_reply(serve, new_session):
    """A server that sends in circles is told as such, and not waited for."""
    server = serve(lambda asked: (302, {"Location": asked.path}, ""))
    with pytest.raises(
        InvalidReply, match=r"/api/v1/jobs/x redirects without end; is http.* the rest-server\?$"
    ):
        new_session(server.url).request(*GET, authorize=False)
