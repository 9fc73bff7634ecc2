"""Tasks on OpenPAI's successor LTP 1.5, where a missing job and a failing database are answered alike."""

from __future__ import annotations

import contextlib
import json
import logging
import math

import luigi
import pytest
from faulty_pai import PASSWORD
from leaks import texts
from lives import Life, lives
from ltp_answers import PRIVATE_KEY, user_record
from train_task import Train

from luigi_pai import (
    AuthenticationError,
    JobProtocol,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)
from luigi_pai.api.cluster import Cluster
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.session import Session
from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.wire.transport import Account


class Begun(Train):
    """One that was begun, as its outputs tell: its job may have been forgotten, and the list is asked."""

    folder = luigi.Parameter()

    def output(self):
        return [luigi.LocalTarget(f"{self.folder}/{file}") for file in ("begun", "missing")]


@pytest.fixture
def ltp(pai, settings):
    """An LTP 1.5, whose jobs are looked up as seldom as those of users."""
    pai.release = "ltp-1.5"
    settings(poll_min=5, poll_max=30, poll_patience=600)
    return pai


@pytest.fixture
def cluster_of(ltp, clock):
    """Make clusters of a user."""
    with contextlib.ExitStack() as stack:

        def cluster_of(user="admin", **login):
            cluster = Cluster(ltp.url, user, **login or {"token": ltp.token()}, api_version="v2", clock=clock)
            return stack.enter_context(contextlib.closing(cluster))

        yield cluster_of


@pytest.fixture
def cluster(cluster_of):
    return cluster_of()


def session_of(ltp, token):
    return Session(Account(ltp.url, "admin", token=token), SharedDocument())


class OnLtp(Life):
    """Lives on it."""

    def limits(self, given):
        self._pai.limits = {name: tuple(limit) for name, limit in given.items()}

    def falls(self, fault):
        """Let the database go down just before the first request that fits, for some seconds."""
        method, path, seconds = fault

        def fall(_request):
            if not gone:
                gone.append(True)
                self._pai.database_down = True
                self.later([float(seconds), {"server": {"database_down": False}}])
            return False

        gone = []
        self._pai.fail(method, path, "nothing", when=fall)


@lives("ltp")
def test_a_life(ltp, settings, caplog, steps):
    OnLtp(ltp, settings, caplog, Train).play(steps)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["reset", "hang"])
@pytest.mark.parametrize("after", [False, True])
def test_a_submission_without_an_answer(ltp, kind, after):
    """It is repeated if the lookup after it says that the job is missing.

    If the database fails at this lookup, the job is looked up until it is known.
    """
    ltp.fail("POST", "/jobs$", kind, after=after)
    if after:
        ltp.clock.call_later(0.01, lambda: setattr(ltp, "database_down", True))  # at the wait before it
        ltp.clock.call_later(200, lambda: setattr(ltp, "database_down", False))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 1 if after else 2)
    assert (ltp.count_answers(500, "GET", "/taskIndex/") > 1) is after


def test_another_attempt_in_the_list_is_looked_up_alone(ltp, tmp_path):
    """The first submission is forgotten; the second runs in a virtual cluster that the user has left."""
    (tmp_path / "begun").touch()
    ltp.add("train__attempt2", runs_for=60).config["virtualCluster"] = "left"
    ltp.left_clusters = {"left"}
    assert not Begun(folder=str(tmp_path)).complete()
    Begun(folder=str(tmp_path)).run()
    assert (ltp.posts(), ltp.submissions) == (["train__attempt2"], 0)
    assert ltp.lists == 1


def test_a_job_that_no_list_has_is_known_by_its_name(ltp, cluster):
    """A list leaves out jobs in virtual clusters that the user has left; a lookup does not."""
    ltp.add("train").config["virtualCluster"] = "left"
    ltp.add("other")
    ltp.left_clusters = {"left"}
    assert [job.name for job in cluster.list()] == ["other"]
    assert cluster.job("train").status().succeeded
    assert Train().complete()


def test_a_list_while_the_database_is_down(ltp, cluster):
    """Is an error, not empty."""
    ltp.add("train")
    ltp.database_down = True
    with pytest.raises(ServerFault, match="problem with your database connection"):
        cluster.list()


def test_another_users_job_is_not_shown(ltp, cluster_of):
    """403 to all but administrators; it is neither missing nor a fault."""
    ltp.add("train", username="bob")
    ltp.admin = False
    with pytest.raises(PermissionRefused, match="not allowed to access job bob~train"):
        cluster_of("bob").job("train").status()
    ltp.admin = True
    assert cluster_of("bob").job("train").status().username == "bob"


# ---------------------------------------------------------------- refusals, logins, limits


def test_a_refusal_by_its_schema_is_readable(ltp):
    """The pointers of Ajv 8, without the first slash."""
    text = "protocolVersion: 2\nname: train\ntaskRoles: {my_role: {instances: two}}\n"
    session = session_of(ltp, ltp.token())
    with contextlib.closing(session), pytest.raises(PaiHttpError) as caught:
        V2Dialect(session).submit(JobProtocol.from_yaml(text))
    assert str(caught.value) == (
        f"POST {ltp.url}/api/v2/jobs: 400 InvalidProtocolError: must have required property 'type'; "
        "taskRoles/my_role/instances: must be integer"
    )


def test_a_password_that_the_server_has_lost(ltp, settings):
    """After somebody read the user's record no password is right: the way out is an application token."""
    application_token = ltp.token()
    session_of(ltp, application_token).request("GET", "/api/v2/users/admin")
    with pytest.raises(AuthenticationError) as caught:
        Train().complete()
    assert str(caught.value) == (
        f"login of user 'admin' at {ltp.url} was refused: Password is incorrect; set the correct password in "
        "[OpenPai] of luigi.cfg; if it is correct, set token = ... (an application token) instead: OpenPAI's "
        "successor LTP may refuse correct passwords"
    )
    assert ltp.logins == 1
    settings(token=application_token)
    Train().run()
    assert ltp.posts() == ["train"]


def test_no_password(ltp, clock, cluster_of):
    """LTP fails with an error of Node.js; it is no fault to wait for."""
    with pytest.raises(AuthenticationError) as caught:
        cluster_of(password=None).job("train").status()
    assert str(caught.value).endswith(
        "Received null; no password is set; write password = ... (or token = ...) in [OpenPai] of luigi.cfg"
    )
    assert (caught.value.status, caught.value.code) == (500, "ERR_INVALID_ARG_TYPE")
    assert (ltp.logins, clock.slept) == (1, [])


@pytest.mark.parametrize("admin", [False, True])
def test_all_tokens_are_revoked(ltp, cluster_of, admin):
    """By an administrator only; then the next request logs in again."""
    ltp.admin, cluster = admin, cluster_of(password=PASSWORD)
    with contextlib.suppress(PermissionRefused):
        assert cluster.list() == []
        cluster._session.request("DELETE", "/api/v2/tokens")
    assert cluster.list() == []
    assert ltp.logins == (2 if admin else 1)


def test_a_refused_list_says_how_long(ltp, cluster_of, clock):
    """The moment named is that of the window's end."""
    ltp.limits = {"list": 1}
    cluster_of().list()
    clock.advance(20)
    with pytest.raises(RateLimited) as caught:
        cluster_of().list()  # a process that has not seen the first reply
    assert caught.value.sent
    assert caught.value.reset_at - clock.time() == pytest.approx(40, abs=1)


# ---------------------------------------------------------------- the private key of a user


@pytest.mark.parametrize(
    "message",
    [
        json.dumps(user_record("admin")),
        str(user_record("admin")),
        PRIVATE_KEY,
        PRIVATE_KEY[:60],
        user_record("admin"),
    ],
    ids=["json", "text", "key", "cut", "object"],
)
@pytest.mark.parametrize(("path", "status"), [("/token$", 400), ("train$", 500), ("/jobs$", 403)])
def test_a_private_key_in_an_error_is_shown_nowhere(ltp, settings, caplog, path, status, message):
    """Whatever a server says, no text and no log at DEBUG has it."""
    settings(poll_patience=1)
    ltp.fail("*", path, status, times=math.inf, body={"code": "UnknownError", "message": message})
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "luigi_pai.http")
    with pytest.raises(PaiHttpError) as caught:
        Train().run()
    shown = [caplog.text, *texts(caught.value)]
    assert [text for text in shown if "MIIB" in text] == []
