"""Tasks on OpenPAI's successor LTP 1.5, where a missing job and a failing database are answered alike."""

from __future__ import annotations

import contextlib
import json
import logging
import math

import luigi
import pytest
from clocks import MovableClock
from faulty_pai import PASSWORD, FaultyPai
from leaks import texts
from ltp_answers import PRIVATE_KEY, user_record
from process_state import forget, install_clock

from luigi_pai import (
    AuthenticationError,
    JobProtocol,
    PaiHttpError,
    PaiJobFailed,
    PaiJobLost,
    PaiTask,
    PermissionRefused,
    RateLimited,
    ServerFault,
    TaskRole,
)
from luigi_pai.api.cluster import Cluster
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.session import Session
from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.wire.transport import Account

JOB = "GET /api/v2/jobs/admin~train"
QUESTION = f"{JOB}/attempts/0/taskRoles/none/taskIndex/0/attempts"
"""What tells the two apart."""
LEARNED = "GET /api/v1/jobs/train"
"""The first request of a process, to which it is NoApiError that says v2."""


class Train(PaiTask):
    """A task of a v1 cluster."""

    name = luigi.Parameter(default="train")
    image = "ubuntu"
    tasks = (TaskRole("main", "python train.py"),)


class Begun(Train):
    """One that was begun, as its outputs tell: its job may have been forgotten, and the list is asked."""

    folder = luigi.Parameter()

    def output(self):
        return [luigi.LocalTarget(f"{self.folder}/{file}") for file in ("begun", "missing")]


@pytest.fixture
def clock(monkeypatch):
    clock = MovableClock()
    install_clock(clock, monkeypatch)
    return clock


@pytest.fixture
def ltp(clock, settings):
    """An LTP 1.5 on that clock, and an [OpenPai] that points at it."""
    server = FaultyPai(clock)
    server.release = "ltp-1.5"
    settings(
        pai_url=server.url,
        username="admin",
        password=PASSWORD,
        poll_patience=600,
    )
    yield server
    server.close()


@pytest.fixture
def cluster(ltp, clock):
    cluster = Cluster(ltp.url, "admin", token=ltp.token(), api_version="v2", clock=clock)
    yield cluster
    cluster.close()


@pytest.fixture
def session(ltp):
    session = Session(Account(ltp.url, "admin", token=ltp.token()), SharedDocument())
    yield session
    session.close()


def fall(ltp, method, path, up_after=None):
    """Let the database go down just before the first request that fits is answered."""

    def falls(_request):
        if not gone:
            gone.append(True)
            ltp.database_down = True
            if up_after is not None:
                ltp.clock.call_later(up_after, lambda: rise(ltp))
        return False

    gone = []
    ltp.fail(method, path, "nothing", when=falls)


def rise(ltp):
    ltp.database_down = False


def asked(pai):
    """Return the requests, without the logins."""
    return [f"{method} {path}" for method, path in pai.calls if not path.endswith("/token")]


# ---------------------------------------------------------------- a task


def test_a_new_task_is_submitted_once(ltp):
    """Its job is missing, is submitted, and succeeds."""
    task = Train()
    assert not task.complete()
    task.run()
    assert task.complete()
    assert ltp.posts() == ["train"]
    assert ltp.submissions == 1


def test_what_a_new_task_asks(ltp):
    """One request more than 1.8 for a job that is missing, and one for the second submission."""
    Train().run()
    assert asked(ltp) == [
        LEARNED,
        JOB,
        QUESTION,
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
        QUESTION.replace("train", "train__attempt2"),
        "POST /api/v2/jobs",
        JOB,
        f"{JOB}/config",  # other machines may have posted the name at the same moment
        *[f"PUT {JOB.removeprefix('GET ')}/tag"] * 2,
    ]


def test_complete_is_no_guess_while_the_database_is_down(ltp):
    """A finished job is neither complete nor to be submitted again: it is an error, until it is known."""
    ltp.add("train", ends_as="SUCCEEDED")
    ltp.database_down = True
    with pytest.raises(ServerFault):
        Train().complete()
    rise(ltp)
    assert Train().complete()
    assert (ltp.posts(), ltp.submissions) == (["train"], 0)


def test_a_run_waits_for_the_database_and_takes_its_job_over(ltp, clock):
    """Five minutes after its begin the database says that the job runs."""
    ltp.add("train", runs_for=900)
    ltp.database_down = True
    clock.call_later(300, lambda: rise(ltp))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 0)


def test_a_run_waits_for_the_database_and_submits(ltp, clock):
    """Or that there is none, so that it is submitted then, once."""
    ltp.database_down = True
    clock.call_later(300, lambda: rise(ltp))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 1)


def test_a_job_is_not_lost_to_a_database_that_is_down(ltp, clock):
    """It fails for five minutes while the job is watched, which goes on."""
    ltp.plan = {"runs_for": 1800}
    clock.call_later(60, lambda: setattr(ltp, "database_down", True))
    clock.call_later(360, lambda: rise(ltp))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 1)
    assert ltp.count_answers(500, "GET", "/taskIndex/") > 3


def test_a_job_that_vanishes_is_lost(ltp, clock):
    """It was deleted: the question says so for a minute."""
    ltp.plan = {"runs_for": 1800}
    clock.call_later(60, ltp.jobs.clear)
    with pytest.raises(PaiJobLost, match="'train' is no longer on"):
        Train().run()
    assert (ltp.posts(), ltp.submissions) == ([], 1)


def test_a_database_that_is_down_for_longer_than_poll_patience(ltp, clock, settings):
    """The error says that the job goes on; the next run takes it over."""
    settings(poll_patience=60)
    ltp.plan = {"runs_for": 1800}
    clock.call_later(60, lambda: setattr(ltp, "database_down", True))
    with pytest.raises(ServerFault, match="job train continues"):
        Train().run()
    rise(ltp)
    forget()
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 1)


def test_the_second_submission_is_missing(ltp):
    """The first has failed, and it is submitted."""
    ltp.add("train", ends_as="FAILED", exit_code=1)
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train", "train__attempt2"], 1)


@pytest.mark.parametrize("ends_as", ["SUCCEEDED", "FAILED"])
def test_the_second_submission_cannot_be_read(ltp, ends_as):
    """The database fails just then: the second is waited for, and none is submitted before it is known."""
    ltp.add("train", ends_as="FAILED", exit_code=1)
    ltp.add("train__attempt2", ends_as=ends_as, runs_for=900)
    fall(ltp, "GET", "train__attempt2$", up_after=120)
    if ends_as == "SUCCEEDED":
        Train().run()
    else:
        with pytest.raises(PaiJobFailed, match="train__attempt2"):
            Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train", "train__attempt2"], 0)


def test_the_second_submission_of_a_complete_task_cannot_be_read(ltp):
    """That the first has failed is not the answer."""
    ltp.add("train", ends_as="FAILED", exit_code=1)
    ltp.add("train__attempt2")
    fall(ltp, "GET", "train__attempt2$")
    with pytest.raises(ServerFault):
        Train().complete()
    rise(ltp)
    assert Train().complete()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["reset", "hang", 503])
def test_a_submission_that_did_not_arrive_is_repeated(ltp, kind):
    """Its answer is lost; the lookup says that the job is missing."""
    ltp.fail("POST", "/jobs$", kind)
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 2)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["reset", "hang", 503])
def test_a_submission_whose_answer_is_lost_is_not_repeated_unseen(ltp, kind):
    """The database fails at the lookup after it: it is looked up until it is known, and is there."""
    ltp.fail("POST", "/jobs$", kind, after=True)
    ltp.clock.call_later(0.01, lambda: setattr(ltp, "database_down", True))  # at the wait before the lookup
    ltp.clock.call_later(200, lambda: rise(ltp))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 1)
    assert ltp.count_answers(500, "GET", "/taskIndex/") > 1


def test_a_submission_that_did_not_arrive_is_not_repeated_unseen_either(ltp):
    """Nor is one that never arrived, before the database says that."""
    ltp.fail("POST", "/jobs$", "reset")
    ltp.clock.call_later(0.01, lambda: setattr(ltp, "database_down", True))
    ltp.clock.call_later(200, lambda: rise(ltp))
    Train().run()
    assert (ltp.posts(), ltp.submissions) == (["train"], 2)


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


def test_another_users_job_is_not_shown(ltp, clock):
    """403 to all but administrators; it is neither missing nor a fault."""
    ltp.add("train", username="bob")
    for admin in (False, True):
        ltp.admin = admin
        cluster = Cluster(ltp.url, "bob", token=ltp.token(), api_version="v2", clock=clock)
        with contextlib.closing(cluster):
            if admin:
                assert cluster.job("train").status().username == "bob"
            else:
                with pytest.raises(PermissionRefused, match="not allowed to access job bob~train"):
                    cluster.job("train").status()


# ---------------------------------------------------------------- refusals, logins, limits


def test_a_refusal_by_its_schema_is_readable(ltp, session):
    """The pointers of Ajv 8, without the first slash."""
    text = "protocolVersion: 2\nname: train\ntaskRoles: {my_role: {instances: two}}\n"
    with pytest.raises(PaiHttpError) as caught:
        V2Dialect(session).submit(JobProtocol.from_yaml(text))
    assert str(caught.value) == (
        f"POST {ltp.url}/api/v2/jobs: 400 InvalidProtocolError: must have required property 'type'; "
        "taskRoles/my_role/instances: must be integer"
    )


def test_the_error_of_a_refused_task_says_what_to_change(ltp):
    """The server's words, the hint, and no question besides: no list of virtual clusters."""
    message = "Only prod priority job is allowed to run on this virtual cluster with 8 GPUs or more"
    body = {"code": "ExpectedJobPriorityClassError", "message": f"{message}."}
    ltp.fail("POST", "/jobs$", 403, body=body)
    with pytest.raises(PermissionRefused) as caught:
        Train().run()
    assert str(caught.value) == (
        f"job 'train' was not submitted: POST {ltp.url}/api/v2/jobs: 403 ExpectedJobPriorityClassError: "
        f"{message}; set extras.hivedScheduler.jobPriorityClass to prod, lower gpu of resourcePerInstance, "
        "or instances (gpuNumber and taskNumber of a PaiTask), or choose another virtual cluster"
    )
    assert asked(ltp)[-1] == "POST /api/v2/jobs"
    assert ltp.posts() == []


def test_a_password_that_the_server_has_lost(ltp, settings):
    """After somebody read the user's record no password is right: the way out is an application token."""
    application_token = ltp.token()
    Session(Account(ltp.url, "admin", token=application_token), SharedDocument()).request(
        "GET", "/api/v2/users/admin"
    )
    with pytest.raises(AuthenticationError) as caught:
        Train().complete()
    assert str(caught.value) == (
        f"login of user 'admin' at {ltp.url} was refused: Password is incorrect; set the right password in "
        "[OpenPai] of luigi.cfg; if it is right, set token = ... (an application token) instead: OpenPAI's "
        "successor LTP may refuse right passwords"
    )
    assert ltp.logins == 1
    settings(token=application_token)
    Train().run()
    assert ltp.posts() == ["train"]


def test_a_v1_cluster_has_lost_no_password(ltp, settings):
    """Where the dialect is known to be v1 the hint is about the password alone."""
    ltp.release = "0.7.1"
    settings(password="wrong-password")
    ltp.add("other")
    Train(name="other").complete()
    with pytest.raises(AuthenticationError, match=r"set the right password in \[OpenPai\] of luigi\.cfg$"):
        Train().run()


def test_no_password(ltp, clock):
    """LTP fails with an error of Node.js; it is no fault to wait for."""
    cluster = Cluster(ltp.url, "admin", api_version="v2", clock=clock)
    with contextlib.closing(cluster), pytest.raises(AuthenticationError) as caught:
        cluster.job("train").status()
    assert str(caught.value).endswith(
        "Received null; no password is set; write password = ... (or token = ...) in [OpenPai] of luigi.cfg"
    )
    assert (caught.value.status, caught.value.code) == (500, "ERR_INVALID_ARG_TYPE")
    assert (ltp.logins, clock.slept) == (1, [])


@pytest.mark.parametrize("admin", [False, True])
def test_all_tokens_are_revoked(ltp, clock, admin):
    """By an administrator only; then the next request logs in again."""
    ltp.admin = admin
    cluster = Cluster(ltp.url, "admin", password=PASSWORD, api_version="v2", clock=clock)
    with contextlib.closing(cluster), contextlib.suppress(PermissionRefused):
        assert cluster.list() == []
        cluster._session.request("DELETE", "/api/v2/tokens")
    assert cluster.list() == []
    assert ltp.logins == (2 if admin else 1)
    cluster.close()


def test_everything_needs_a_token(ltp):
    """Reads, lists and records of users too."""
    for path in ("/api/v2/jobs/admin~train", "/api/v2/jobs", "/api/v2/users/admin", "/api/v2/tokens"):
        with pytest.raises(AuthenticationError, match="401"):
            Session(Account(ltp.url, "admin", token="revoked"), SharedDocument()).request("GET", path)


def test_a_limit_is_waited_for_as_long_as_it_lasts(ltp, clock):
    """Retry-After is what is left of a window that began with the first submission."""
    ltp.limits = {"submit": (1, 600.0)}
    Train().run()
    began = clock.monotonic()
    clock.advance(500)
    Train(name="second").run()
    assert 100 <= clock.monotonic() - began - 500 < 115
    assert ltp.posts() == ["train", "second"]


def test_a_refused_list_says_how_long(ltp, cluster, clock):
    """The moment named is that of the window's end."""
    ltp.limits = {"list": 1}
    cluster.list()
    clock.advance(20)
    elsewhere = Cluster(ltp.url, "admin", token=ltp.token(), api_version="v2", clock=clock)
    with contextlib.closing(elsewhere), pytest.raises(RateLimited) as caught:
        elsewhere.list()  # a process that has not seen the first reply
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


# ---------------------------------------------------------------- the others are asked no more than before


BEFORE = {
    "0.7.1": [
        "GET /api/v1/jobs/train",
        "GET /api/v1/",
        "POST /api/v1/jobs",
        "GET /api/v1/jobs/train",
        "GET /api/v1/jobs/train",
        "GET /api/v1/jobs/train__attempt2",
        "POST /api/v1/jobs",
        "GET /api/v1/jobs/train__attempt2",
    ],
    "1.8.0": [
        "GET /api/v1/jobs/train",
        "GET /api/v2/jobs/admin~train",
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
        "POST /api/v2/jobs",
        "GET /api/v2/jobs/admin~train",
        "GET /api/v2/jobs/admin~train/config",
        *["PUT /api/v2/jobs/admin~train/tag"] * 2,
        "GET /api/v1/jobs/train",
        "GET /api/v2/jobs/admin~train",
        "GET /api/v2/jobs/admin~train__attempt2",
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",  # it may have run in a job of a sweep
        "POST /api/v2/jobs",
        "GET /api/v2/jobs/admin~train__attempt2",
        "GET /api/v2/jobs/admin~train__attempt2/config",
        *["PUT /api/v2/jobs/admin~train__attempt2/tag"] * 2,
    ],
}
"""The requests of a task that fails and is run again, up to its success."""


@pytest.mark.parametrize("release", BEFORE)
def test_other_releases_are_asked_no_more_than_these(ltp, release):
    """From a job that is missing to one that has failed, is submitted again and succeeds."""
    ltp.release = release
    ltp.plan = {"ends_as": "FAILED", "exit_code": 1}
    assert not Train().complete()
    with pytest.raises(PaiJobFailed):
        Train().run()
    forget()
    ltp.plan = {}
    Train().run()
    assert Train().complete()
    assert asked(ltp) == BEFORE[release]
    assert ltp.posts() == ["train", "train__attempt2"]
