"""A PaiTask: the normal path, failures, errors of the server, and Luigi's worker and scheduler."""

from __future__ import annotations

import logging
import math
from unittest.mock import Mock

import luigi
import luigi.rpc
import luigi.worker
import pytest
import yaml
from lives import Life, lives
from places import DATA
from train_task import Command, Train, build

from luigi_pai import (
    ClusterUnreachable,
    PaiJob,
    PaiJobFailed,
    PaiTask,
    Port,
    ServerFault,
    SpecError,
    TaskRole,
)

POSTED = yaml.safe_load((DATA / "tasks" / "posted_jobs.yaml").read_text("utf-8"))

# ---------------------------------------------------------------- the straight path


@lives("task", "errors")
def test_a_life(pai, settings, caplog, steps):
    caplog.set_level(logging.INFO, "luigi-interface")
    Life(pai, settings, caplog).play(steps)


def role_of(given):
    """Return a task role, from its fields in order or by name."""

    def field(value):
        return [Port(**port) for port in value] if isinstance(value, list) else value

    if isinstance(given, list):
        return TaskRole(*map(field, given))
    return TaskRole(**{name: field(value) for name, value in given.items()})


@pytest.mark.parametrize("case", POSTED)
def test_the_posted_job_is_the_described_job(pai, case):
    task, roles, job = (POSTED[case][part] for part in ("task", "roles", "job"))
    type("Described", (PaiTask,), {**task, "tasks": [role_of(role) for role in roles]})().run()
    sent = pai.jobs[task["name"]].config
    assert sent == job
    assert list(sent) == list(job)


def test_properties_work_as_properties_and_job_can_be_overridden(pai):
    """A task whose name, image and tasks are properties runs, and job() is what is sent."""

    class Properties(PaiTask):
        size = luigi.IntParameter(default=3)

        @property
        def name(self):
            return f"size-{self.size}"

        @property
        def image(self):
            return "image"

        @property
        def tasks(self):
            return [TaskRole("main", f"run {self.size}")]

        def job(self):
            job = super().job()
            job.jobEnvs = {"A": "1"}
            return job

    Properties().run()
    sent = pai.jobs["size-3"].config
    assert sent["jobEnvs"] == {"A": "1"}
    assert sent["outputDir"] == "$PAI_DEFAULT_FS_URI/size-3/output"


def test_an_abstract_task_cannot_be_made():
    """A PaiTask without a name is refused by Python, naming what is missing."""
    with pytest.raises(TypeError, match="name"):
        type("Nameless", (PaiTask,), {"image": "x", "tasks": [TaskRole("main", "x")]})()


def test_constructing_tasks_makes_no_request(pai):
    """A thousand tasks are constructed without a request."""
    tasks = [Train(name=f"t{number}") for number in range(1000)]
    assert len({task.task_id for task in tasks}) == 1000
    assert pai.calls == []


def test_a_job_that_cannot_run_is_not_sent(pai):
    """Every problem of a job is said at once, and nothing is posted."""
    roles = [TaskRole("w", "x"), TaskRole("W", "", portList=[Port("a-b")])]
    with pytest.raises(SpecError) as caught:
        type("Invalid", (Train,), {"tasks": roles})(name="invalid name").run()
    paths = [problem.path.replace("taskRoles[1]", "W") for problem in caught.value.problems]
    assert paths == ["jobName", "W.name", "W.portList[0].label", "W.command"]
    assert pai.calls == []


def test_a_name_leaves_room_for_its_later_attempts(pai):
    """A name under which the second attempt would be too long for the server is refused at once."""
    with pytest.raises(SpecError, match="has 244 characters; the limit for a task's job is 243"):
        Train(name="n" * 244).run()
    pai.plan = {"ends_as": "FAILED"}
    longest = Train(name="n" * 243)
    for _ in range(2):
        with pytest.raises(PaiJobFailed):
            longest.run()
    assert [len(name) for name in pai.posts()] == [243, 253]


@pytest.mark.parametrize("name", ["", ".", "..", 7, None])
@pytest.mark.parametrize("method", ["complete", "run"])
def test_a_name_that_no_server_takes_is_refused_before_anything_is_sent(pai, name, method):
    """Also in complete(), which would ask for it."""
    task = type("Refused", (Train,), {"name": property(lambda _: name), "output_dir": "/out"})()
    with pytest.raises(SpecError, match=r"jobName: .* a name of 1 to 255 letters"):
        getattr(task, method)()
    assert pai.calls == []


def test_a_job_that_is_too_large_is_refused_before_anything_is_sent(pai):
    """With its size."""
    with pytest.raises(SpecError, match=r"has 103,\d\d\d bytes as JSON; servers accept at most 102,400"):
        Command(command="x" * 103_000).run()
    assert pai.calls == []


def test_tasks_that_are_no_list_are_refused(pai):
    """A task whose tasks are empty says so, as luigi.contrib.pai did, with a TypeError."""
    with pytest.raises(TypeError, match="at least one TaskRole"):
        type("Empty", (Train,), {"tasks": []})().run()
    assert pai.calls == []


# ---------------------------------------------------------------- failure


def test_failure_names_job_state_exit_code_diagnostics_and_page(pai):
    """The error of a failed job says what happened, why, where to look and what to do next."""
    pai.plan = {"ends_as": "FAILED", "exit_code": 7, "diagnostics": "[ExitStatus]: boom"}
    with pytest.raises(PaiJobFailed) as caught:
        Train().run()
    page = f"{pai.url}/view.html?jobName=train"
    assert str(caught.value).splitlines() == [
        "job 'train' ended as FAILED with exit code 7 (NON_TRANSIENT)",
        "  the cluster's report:",
        "    [ExitStatus]: boom",
        f"  job page: {page}",
        "  output of main[0]: http://nm:8042/logs/train/main/0",
        "  output of main[1]: http://nm:8042/logs/train/main/1",
        "  run the task again to submit the job again",
    ]
    assert caught.value.status.exit_code == 7
    assert isinstance(caught.value, RuntimeError)


def test_a_token_that_ends_while_waiting_is_renewed_unnoticed(pai):
    """When the server no longer takes the token, another is asked for and the request repeated."""
    first, second = Train(name="first"), Train(name="second")
    first.run()
    pai.tokens.clear()
    second.run()
    assert pai.posts() == ["first", "second"]
    assert pai.count("POST", "/token") == 2


@pytest.mark.parametrize("release", ["0.17.0", "1.8.0"])
def test_tokens_that_are_refused_for_a_while_fail_no_task(pai, settings, release):
    """Neither before the submission, nor while the job runs, nor in complete(): the task logs in again."""
    settings(poll_min=1, poll_max=2)
    pai.release, pai.plan = release, {"runs_for": 100}
    clock, refused = pai.clock, {"code": "UnauthorizedUserError", "message": "Your token is invalid."}

    def refuse_tokens():
        end = clock.monotonic() + 8
        pai.fail("*", "/jobs", 401, math.inf, body=refused, when=lambda _: clock.monotonic() < end)

    task = Train()
    refuse_tokens()
    clock.call_later(60, refuse_tokens)
    task.run()
    refuse_tokens()
    assert task.complete()
    assert pai.submissions - pai.refused_submissions == 1
    assert 9 <= pai.logins <= 30


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", [500, 503, "reset", "hang"])
def test_a_fault_in_complete_is_an_error_not_false(pai, kind):
    """A server that does not say is an error in complete(): "no" would submit the work again."""
    pai.add("train")
    pai.fail("GET", "/jobs/train", kind, times=99)
    with pytest.raises((ServerFault, ClusterUnreachable)) as caught:
        Train().complete()
    assert kind != "hang" or "no response within 0.5 s" in str(caught.value)


# ---------------------------------------------------------------- Luigi around it


CALLBACKS = ("set_tracking_url", "set_status_message", "set_progress_percentage")


def test_luigis_page_shows_the_job(pai, monkeypatch):
    """While a job runs, Luigi's callbacks get its page, its states and its progress."""
    pai.plan = {"runs_for": 0.2}
    task, told = Train(), []
    for callback in CALLBACKS:
        monkeypatch.setattr(task, callback, lambda value, name=callback: told.append((name, value)))
    task.run()
    assert told[0][0] == "set_tracking_url"
    assert told[0][1].endswith("/view.html?jobName=train")
    assert ("set_status_message", "train: RUNNING, 2 tasks") in told
    assert ("set_status_message", "train: SUCCEEDED, 2 tasks") in told
    assert ("set_progress_percentage", 100) in told


def test_a_scheduler_of_luigi_that_does_not_answer_ends_no_task(pai, monkeypatch, caplog):
    """Luigi repeats such a request for a minute, and then raises; the job is watched on."""
    pai.plan = {"runs_for": 0.2}
    task = Train()
    fail = Mock(side_effect=luigi.rpc.RPCError("Errors (3 attempts) when connecting to remote scheduler"))
    for callback in CALLBACKS:
        monkeypatch.setattr(task, callback, fail)
    task.run()
    assert fail.call_count == 1
    warning = "The page of Train(name=train) is not up to date, because Luigi's scheduler is failing:"
    assert warning in caplog.text


def test_openpais_retry_count_is_not_luigis():
    """A task's retry_count of 0 does not have Luigi's scheduler disable it after one failure."""
    for base, expected in ((Train, None), (luigi.Task, 5)):
        task = type("Retries", (base,), {"retry_count": 5})()
        assert luigi.worker._get_retry_policy_dict(task)["retry_count"] == expected


def test_a_failed_task_can_run_again_on_a_central_scheduler(pai):
    """The scheduler that saw a job fail hands its task out again in the next run."""
    scheduler = luigi.scheduler.Scheduler()
    pai.plan = {"ends_as": "FAILED"}
    with luigi.worker.Worker(scheduler, worker_id="first") as worker:
        worker.add(Train())
        assert not worker.run()
    pai.plan = {}
    with luigi.worker.Worker(scheduler, worker_id="second") as worker:
        worker.add(Train())
        assert worker.run()
    assert pai.posts() == ["train", "train__attempt2"]


@pytest.mark.slow
def test_workers_in_processes_of_their_own(pai):
    """With several workers, tasks run in forked processes, each with connections of its own."""
    assert build(*(Train(name=f"w{number}") for number in range(6)), workers=3)
    assert sorted(pai.posts()) == [f"w{number}" for number in range(6)]
    assert isinstance(Train(name="w0").job(), PaiJob)


def test_a_path_in_pai_url_is_kept_and_names_are_quoted(pai, settings):
    """A rest-server below a path is asked there, and no name can change the address."""
    pai.prefix = "/rest-server"
    settings(pai_url=pai.url + "/")
    pai.add("done")
    with pytest.raises(SpecError, match="jobName: 'done\\?x=1' is not a name"):
        Train(name="done?x=1").run()
    assert pai.calls == []
    assert not Train(name="done?x=1").complete()
    assert Train(name="done").complete()
    assert ("GET", "/rest-server/api/v1/jobs/done%3Fx%3D1") in pai.calls
