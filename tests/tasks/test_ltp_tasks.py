"""Tasks on OpenPAI's successor LTP 1.5, where a missing job and a failing database are answered alike."""

from __future__ import annotations

import contextlib
import json
import logging
import math

import luigi
import pytest
from leaks import texts
from lives import Life, lives
from ltp_answers import PRIVATE_KEY, user_record
from train_task import Train

from luigi_pai import OpenPai, PaiHttpError, PermissionRefused
from luigi_pai.api.cluster import Cluster


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


def test_a_job_that_no_list_has_is_known_by_its_name(ltp):
    """A list leaves out jobs in virtual clusters that the user has left; a lookup does not."""
    ltp.add("train").config["virtualCluster"] = "left"
    ltp.add("other")
    ltp.left_clusters = {"left"}
    assert [job.name for job in OpenPai.current().cluster().list()] == ["other"]
    assert Train().complete()


@pytest.mark.parametrize("admin", [False, True])
def test_another_users_job_is_not_shown(ltp, clock, admin):
    """403 to all but administrators; it is neither missing nor a fault."""
    ltp.add("train", username="bob")
    ltp.admin = admin
    cluster = Cluster(ltp.url, "bob", token=ltp.token(), api_version="v2", clock=clock)
    refusal = pytest.raises(PermissionRefused, match="not allowed to access job bob~train")
    with contextlib.closing(cluster), contextlib.nullcontext() if admin else refusal:
        assert cluster.job("train").status().username == "bob"


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
