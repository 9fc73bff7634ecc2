"""A PaiTask's whole life, against a server that does what real life does."""

from __future__ import annotations

import json
import logging
import queue
import time
from concurrent.futures import ThreadPoolExecutor

import luigi
import luigi.worker
import pytest
from clocks import FastClock
from process_state import install_clock

from luigi_pai import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    PaiHttpError,
    PaiJob,
    PaiJobFailed,
    PaiJobLost,
    PaiNameTaken,
    PaiTask,
    Port,
    ServerFault,
    SpecError,
    TaskRole,
    reset_clusters,
)


class Train(PaiTask):
    """A task as users write it."""

    name = luigi.Parameter(default="train")
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("main", "python train.py", taskNumber=2)]


def forget() -> None:
    """Begin a new process's life: nothing is remembered."""
    reset_clusters()


def build(*tasks: luigi.Task, **how) -> bool:
    return luigi.build(list(tasks), local_scheduler=True, log_level="WARNING", **how)


# ---------------------------------------------------------------- the straight path


def test_a_job_is_submitted_once_and_followed_to_its_success(pai):
    """A job that the server does not know is posted, watched while it runs, and complete at its end."""
    pai.plan = {"runs_for": 0.3}
    task = Train()
    assert not task.complete()
    task.run()
    assert pai.posts() == ["train"]
    assert task.complete()
    assert pai.count("POST", "/token") == 1


def test_both_words_for_success_are_success(pai):
    """SUCCEEDED, which servers say, and SUCCEED, which luigi.contrib.pai waited for, both complete a task."""
    pai.add("a", ends_as="SUCCEEDED")
    pai.add("b", ends_as="SUCCEED")
    assert Train(name="a").complete()
    assert Train(name="b").complete()


def test_the_posted_job_is_the_described_job(pai):
    """Every property of a task arrives in its field of the job."""

    class Everything(PaiTask):
        name = "everything"
        image = "image:1"
        auth_file_path = "hdfs://h/auth"
        data_dir = "/data"
        code_dir = "/code"
        output_dir = "/out"
        virtual_cluster = "vc1"
        gpu_type = "K80"
        retry_count = -1
        tasks = (TaskRole("w", "x", 2, 3, 4096, 128, 1, [Port("http", 8080, 2)], None, 1),)

    Everything().run()
    assert pai.jobs["everything"].config == {
        "jobName": "everything",
        "image": "image:1",
        "authFile": "hdfs://h/auth",
        "dataDir": "/data",
        "outputDir": "/out",
        "codeDir": "/code",
        "virtualCluster": "vc1",
        "taskRoles": [
            {
                "name": "w",
                "taskNumber": 2,
                "cpuNumber": 3,
                "memoryMB": 4096,
                "shmMB": 128,
                "gpuNumber": 1,
                "portList": [{"label": "http", "beginAt": 8080, "portNumber": 2}],
                "command": "x",
                "minFailedTaskCount": None,
                "minSucceededTaskCount": 1,
            }
        ],
        "gpuType": "K80",
        "retryCount": -1,
    }


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
    assert sent["virtualCluster"] == "default"
    assert sent["retryCount"] == 0


def test_an_abstract_task_cannot_be_made():
    """A PaiTask without a name is refused by Python, naming what is missing."""

    class Nameless(PaiTask):
        image = "x"
        tasks = [TaskRole("main", "x")]

    with pytest.raises(TypeError, match="name"):
        Nameless()


def test_constructing_tasks_asks_nobody(pai):
    """A thousand tasks are constructed without a request."""
    tasks = [Train(name=f"t{number}") for number in range(1000)]
    assert len({task.task_id for task in tasks}) == 1000
    assert pai.calls == []


def test_a_job_that_cannot_run_is_not_sent(pai):
    """Every problem of a job is said at once, and nothing is posted."""

    class Wrong(PaiTask):
        name = "wrong name"
        image = "x"
        tasks = [TaskRole("w", "x"), TaskRole("W", "", portList=[Port("a-b")])]

    with pytest.raises(SpecError) as caught:
        Wrong().run()
    assert [problem.path for problem in caught.value.problems] == [
        "jobName",
        "taskRoles[1].name",
        "taskRoles[1].command",
        "taskRoles[1].portList[0].label",
    ]
    assert pai.calls == []


@pytest.mark.parametrize("name", ["", ".", "..", 7, None])
def test_a_name_that_no_server_can_be_asked_for_is_said(pai, name):
    """complete() and run() refuse such a name before they ask for anything."""

    class Named(PaiTask):
        image = "x"
        output_dir = "/out"
        tasks = [TaskRole("main", "x")]

        @property
        def name(self):
            return name

    for ask in (Named().complete, Named().run):
        with pytest.raises(SpecError, match=r"jobName: .* a name of 1 to 255 letters"):
            ask()
    assert pai.calls == []


def test_a_name_leaves_room_for_its_later_attempts(pai):
    """A name under which the second attempt would be too long for the server is refused at once."""
    with pytest.raises(SpecError, match="has 244 characters; the job of a task has at most 243"):
        Train(name="n" * 244).run()
    pai.plan = {"ends_as": "FAILED"}
    longest = Train(name="n" * 243)
    for _ in range(2):
        with pytest.raises(PaiJobFailed):
            longest.run()
    assert [len(name) for name in pai.posts()] == [243, 253]


def test_a_job_over_100_kb_is_refused(pai):
    """What the server would refuse for its size is refused here, with the size."""

    class Long(PaiTask):
        name = "long"
        image = "x"
        tasks = [TaskRole("main", "x" * 103_000)]

    with pytest.raises(SpecError, match=r"has 103,\d\d\d bytes as JSON; servers take at most 102,400"):
        Long().run()
    assert pai.calls == []


def test_what_a_task_goes_by_is_not_set_in_job(pai):
    """A job() that names another job or another output folder than the task is refused."""

    class Other(Train):
        def job(self):
            job = super().job()
            job.jobName, job.outputDir = "other", "/elsewhere"
            return job

    with pytest.raises(SpecError) as caught:
        Other().run()
    assert [str(problem) for problem in caught.value.problems] == [
        "jobName: job() has 'other', name of the task is 'train'; set name only",
        (
            "outputDir: job() has '/elsewhere', output_dir of the task is "
            "'$PAI_DEFAULT_FS_URI/train/output'; set output_dir only"
        ),
    ]
    assert pai.calls == []


def test_tasks_that_are_no_list_are_refused(pai):
    """A task whose tasks are empty says so, as luigi.contrib.pai did, with a TypeError."""

    class Empty(PaiTask):
        name = "empty"
        image = "x"
        tasks = []

    with pytest.raises(TypeError, match="at least one TaskRole"):
        Empty().run()
    assert pai.calls == []


# ---------------------------------------------------------------- failure


def test_failure_names_job_state_exit_code_diagnostics_and_page(pai):
    """The error of a failed job says what happened, why, where to look and what to do next."""
    pai.plan = {"ends_as": "FAILED", "exit_code": 7, "diagnostics": "[ExitStatus]: boom"}
    with pytest.raises(PaiJobFailed) as caught:
        Train().run()
    page = f"{pai.url}/view.html?jobName=train"
    assert str(caught.value).splitlines() == [
        "job 'train' ended as FAILED with exit code 7 (NON_TRANSIENT): [ExitStatus]: boom",
        f"  job page: {page}",
        "  output of main[0]: http://nm:8042/logs/train/main/0",
        "  output of main[1]: http://nm:8042/logs/train/main/1",
        "  run the task again to submit the job again",
    ]
    assert caught.value.status.exit_code == 7
    assert isinstance(caught.value, RuntimeError)


def test_a_failed_job_of_many_tasks_names_some_of_them(pai):
    """An error does not list the output of a thousand tasks."""

    class Many(PaiTask):
        name = "many"
        image = "x"
        tasks = [TaskRole("main", "x", taskNumber=1000)]

    pai.plan = {"ends_as": "FAILED"}
    with pytest.raises(PaiJobFailed) as caught:
        Many().run()
    lines = str(caught.value).splitlines()
    assert sum("output of main" in line for line in lines) == 10
    assert "  and 990 tasks more, on the job page" in lines


def test_the_portal_of_the_settings_is_linked(pai, settings):
    """portal_url, where given, is where the links of errors lead."""
    settings(portal_url="https://portal.example/pai/")
    pai.plan = {"ends_as": "FAILED"}
    with pytest.raises(PaiJobFailed, match=r"https://portal\.example/pai/view\.html\?jobName=train"):
        Train().run()


def test_a_stopped_job_is_a_failure(pai):
    """A job that somebody stopped fails its task."""
    pai.add("train", ends_as="STOPPED", exit_code=214)
    assert not Train().complete()
    pai.plan = {"ends_as": "STOPPED", "exit_code": 214}
    with pytest.raises(PaiJobFailed, match="'train__attempt2' ended as STOPPED with exit code 214"):
        Train().run()


# ---------------------------------------------------------------- resume before submit


def test_run_after_success_posts_nothing(pai):
    """A job that has succeeded is not submitted again, not even by run() itself."""
    pai.add("train")
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST") == 0


def test_a_waiting_or_running_job_is_taken_over(pai):
    """A job that runs already, of a worker that died, is followed to its end; nothing is posted."""
    pai.add("train", runs_for=0.4)
    task = Train()
    assert build(task)
    assert pai.count("POST") == 0
    assert task.complete()


def test_after_a_failure_the_next_attempt_is_submitted(pai):
    """A failed job is submitted as NAME__attempt2, then as NAME__attempt3, in later processes."""
    pai.plan = {"ends_as": "FAILED"}
    for _ in range(2):
        assert not build(Train())
        forget()
    pai.plan = {}
    assert build(Train())
    assert pai.posts() == ["train", "train__attempt2", "train__attempt3"]
    forget()
    assert Train().complete()
    assert pai.count("POST", "/jobs") == 3


def test_after_a_failure_the_same_process_submits_the_next_attempt(pai):
    """A second luigi.build of the same process, right after a failure, submits the next attempt."""
    pai.plan = {"ends_as": "FAILED"}
    assert not build(Train())
    pai.plan = {}
    assert build(Train())
    assert pai.posts() == ["train", "train__attempt2"]


def test_a_running_later_attempt_is_taken_over(pai):
    """If NAME failed and NAME__attempt2 runs, that one is followed."""
    pai.add("train", ends_as="FAILED")
    pai.add("train__attempt2", runs_for=0.3)
    Train().run()
    assert pai.count("POST") == 0


def test_somebody_elses_name_is_refused_with_its_owner(pai):
    """A name that another user holds is PaiNameTaken, in complete() and in run(), and nothing is posted."""
    pai.add("train", username="bob")
    for ask in (Train().complete, Train().run):
        with pytest.raises(PaiNameTaken, match=r"'train' belongs to a job of user 'bob'.*another name"):
            ask()
    assert pai.count("POST") == 0


def test_somebody_elses_attempt_name_is_refused(pai):
    """Also the name of a later attempt may be somebody else's."""
    pai.add("train", ends_as="FAILED")
    pai.add("train__attempt2", username="bob")
    with pytest.raises(PaiNameTaken, match="'train__attempt2' belongs to a job of user 'bob'"):
        Train().run()


def test_a_job_that_appeared_since_the_look_is_taken_over(pai):
    """A 409 corrects an outdated look: the job that another worker has just submitted is followed."""
    task = Train()
    assert not task.complete()
    pai.add("train", runs_for=0.2)
    task.run()
    assert pai.posts() == ["train"]


def test_a_job_that_appeared_and_failed_since_the_look_is_followed_by_the_next_attempt(pai):
    """A 409 that shows a failed job leads to the next attempt."""
    task = Train()
    assert not task.complete()
    pai.add("train", ends_as="FAILED")
    task.run()
    assert pai.posts() == ["train", "train__attempt2"]


def test_a_name_in_use_that_is_not_shown_is_an_error(pai, monkeypatch):
    """If the server refuses a name for good but shows no job of it, the task says so."""
    monkeypatch.setattr("luigi_pai.api.submissions._LISTED_WITHIN", 0.0)
    pai.fail("POST", "/jobs", 409, times=9, body='{"code": "ConflictJobError", "message": "exists"}')
    with pytest.raises(PaiNameTaken, match="refuses the name 'train' as in use, but has no job"):
        Train().run()


def test_the_look_of_complete_is_not_repeated_by_run(pai):
    """A new job costs a lookup, the question what the server is, a login, a post, a lookup at the end."""
    assert build(Train())
    assert [method for method, _ in pai.calls] == ["GET", "GET", "POST", "POST", "GET"]
    assert pai.count("GET", r"/api/v1/$") == 1


def test_an_end_is_remembered(pai):
    """A finished job is not asked for again in this process."""
    pai.add("train")
    task = Train()
    assert task.complete()
    calls = len(pai.calls)
    assert task.complete()
    assert len(pai.calls) == calls


# ---------------------------------------------------------------- lost answers


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("hang", True),
        ("reset", True),
        (500, True),
        (503, True),
        ("hang", False),
        ("reset", False),
        (500, False),
        (503, False),
    ],
)
def test_a_post_without_an_answer_leaves_exactly_one_job(pai, kind, after):
    """Timeout, reset or 5xx, before or after the server took the job: one job is there, and is followed."""
    pai.fail("POST", "/jobs", kind, after=after)
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == (1 if after else 2)


def test_a_post_without_an_answer_and_a_server_that_goes_away(pai):
    """After a lost answer the server is waited for before anything is posted again."""
    task = Train()
    assert not task.complete()
    pai.fail("POST", "/jobs", "reset", after=True)
    pai.fail("GET", "/jobs/train", 503, times=8)
    task.run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == 1


def test_a_job_that_makes_the_server_fail_is_not_posted_for_ever(pai):
    """A server that answers 500 to a job again and again is an error after three posts."""
    pai.fail("POST", "/jobs", 500, times=99)
    with pytest.raises(ServerFault, match="500"):
        Train().run()
    assert pai.count("POST", "/jobs") == 3
    assert pai.posts() == []


def test_a_server_that_takes_no_posts_is_an_error_when_patience_ends(pai, settings):
    """A 503 to every post, with looks answered all the while, ends with poll_patience."""
    settings(poll_patience=0.3)
    pai.fail("POST", "/jobs", 503, times=99)
    with pytest.raises(ServerFault, match="503"):
        Train().run()
    assert pai.posts() == []


def test_a_limit_of_submits_is_waited_for(pai):
    """A 429 to a post is waited out until the moment that the server names, and the job is posted once."""
    pai.fail("POST", "/jobs", 429, body="Too many requests")
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == 2


def test_a_lost_post_of_a_job_that_fails_at_once_is_this_runs_failure(pai):
    """A job that was taken, failed, and whose answer was lost is not mistaken for an older attempt."""
    pai.plan = {"ends_as": "FAILED"}
    pai.fail("POST", "/jobs", "reset", after=True)
    with pytest.raises(PaiJobFailed, match="'train' ended"):
        Train().run()
    assert pai.posts() == ["train"]


def test_a_refused_job_is_an_error_with_the_servers_words(pai):
    """A 400 or 404 to a post is raised at once, and not tried again."""
    for status, code, message in (
        (400, "InvalidParametersError", '"jobEnvs" is not allowed'),
        (404, "NoVirtualClusterError", "Virtual cluster nosuch is not found."),
        (403, "ForbiddenUserError", "User admin is not allowed to do operation in vc1"),
    ):
        pai.fail("POST", "/jobs", status, body=json.dumps({"code": code, "message": message}))
        with pytest.raises(PaiHttpError) as caught:
            Train().run()
        assert caught.value.code == code
        assert message in str(caught.value)
    assert pai.count("POST", "/jobs") == 3
    assert pai.posts() == []


def test_another_server_at_the_same_address_is_believed(pai):
    """It is empty: what the old one said is forgotten, without a wait."""
    task = Train()
    task.run()
    assert task.complete()
    pai.down()
    pai.jobs.clear()
    pai.up()
    assert not task.complete()


# ---------------------------------------------------------------- faults while waiting


def test_faults_while_polling_are_waited_out(pai, caplog):
    """503s, resets, pages of a proxy and 429 while the job runs do not fail its task."""
    pai.plan = {"runs_for": 1.0}
    task = Train()
    assert not task.complete()
    pai.fail("GET", "/jobs/train$", 503, times=5)
    pai.fail("GET", "/jobs/train$", "reset", times=4)
    pai.fail("GET", "/jobs/train$", 404, times=2, body="<html>maintenance</html>")
    pai.fail("GET", "/jobs/train$", 429, body="<html>Too many requests</html>")
    with caplog.at_level(logging.INFO, "luigi-interface"):
        task.run()
    assert task.complete()
    assert pai.posts() == ["train"]
    assert "retrying for up to 30 s" in caplog.text
    assert "replies again" in caplog.text


def test_a_minute_without_a_server_is_waited_out(pai, settings, monkeypatch):
    """A server that is gone for 60 s while the job runs costs the task nothing."""
    clock = FastClock(20)
    install_clock(clock, monkeypatch)
    settings(poll_patience=120)
    pai.plan = {"runs_for": 1.0}
    task = Train()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        while not pai.posts():
            time.sleep(0.01)
        pai.down()
        clock.sleep(60)
        assert not running.done()
        pai.up()
        running.result(60)
    assert task.complete()
    assert pai.count("POST", "/jobs") == 1


def test_patience_ends(pai, settings):
    """A server that stays away longer than poll_patience is an error; the job stays where it is."""
    settings(poll_patience=0.4)
    pai.plan = {"runs_for": 60}
    pai.fail("GET", "/jobs/train$", 404, body='{"code": "NoJobError", "message": "not yet"}')
    pai.fail("GET", "/jobs/train$", 503, times=999)
    with pytest.raises(ServerFault, match="503"):
        Train().run()
    assert pai.posts() == ["train"]


def test_a_token_that_ends_while_waiting_is_renewed_unnoticed(pai):
    """When the server no longer takes the token, another is asked for and the request repeated."""
    first, second = Train(name="first"), Train(name="second")
    first.run()
    pai.tokens.clear()
    second.run()
    assert pai.posts() == ["first", "second"]
    assert pai.count("POST", "/token") == 2


def test_a_job_that_the_server_loses_is_said_to_be_lost(pai, monkeypatch):
    """A running job that the server no longer knows ends the wait with PaiJobLost."""
    monkeypatch.setattr("luigi_pai.api.watcher._LOST_AFTER", 0.2)
    pai.plan = {"runs_for": 60}
    task = Train()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        while pai.count("GET") < 3:
            time.sleep(0.01)
        del pai.jobs["train"]
        with pytest.raises(PaiJobLost, match="'train' is no longer on"):
            running.result(20)


def test_unheard_of_states_are_not_ends(pai):
    """UNKNOWN and states of a future release are waited through."""
    job = pai.add("train", ends_as="UNKNOWN")
    task = Train()
    assert not task.complete()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        for state in ("UNKNOWN", "DREAMING", "SUCCEEDED"):
            time.sleep(0.15)
            assert not running.done()
            job.ends_as = state
        running.result(20)
    assert pai.count("POST") == 0


# ---------------------------------------------------------------- complete() and unreachable servers


@pytest.mark.parametrize("kind", [500, 503, "reset", "hang"])
def test_a_fault_in_complete_is_an_error_not_false(pai, kind):
    """A server that does not say is an error in complete(): "no" would submit the work again."""
    pai.add("train")
    pai.fail("GET", "/jobs/train", kind, times=99)
    with pytest.raises((ServerFault, ClusterUnreachable)):
        Train().complete()


def test_a_hung_server_is_an_error_after_the_timeouts(pai):
    """A server that takes the connection and never answers ends in an error within a few timeouts."""
    pai.fail("GET", "/jobs/train", "hang", times=9)
    started = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"accepted the connection but did not reply within 0\.5 s"):
        Train().complete()
    assert time.monotonic() - started < 5


def test_another_web_server_is_not_a_missing_job(pai):
    """A 404 page of something that is no OpenPAI does not read as "the job is not there"."""
    pai.fail("GET", "/jobs/train", 404, times=9, body="<html>nginx: not found</html>")
    with pytest.raises(InvalidReply, match=r"pai_url in .OpenPai.* the rest-server"):
        Train().complete()
    assert pai.count("POST") == 0


# ---------------------------------------------------------------- wrong settings: one clear line each


def one_line(task: luigi.Task, error: type[Exception], ask: str = "run") -> str:
    with pytest.raises(error) as caught:
        getattr(task, ask)()
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "admin-password" not in text
    return text


def test_a_wrong_password_is_one_clear_line(pai, settings):
    """A refused password says so, for which user and where, and which key to set."""
    settings(password="wrong-password")
    text = one_line(Train(), AuthenticationError)
    assert text == (
        f"job 'train' was not submitted: login of user 'admin' at {pai.url} was refused: "
        "Password is incorrect.; set the right password in [OpenPai] of luigi.cfg"
    )


def test_an_unknown_user_is_one_clear_line(pai, settings):
    """An unknown user says so and names the key."""
    settings(username="nobody1")
    assert one_line(Train(), AuthenticationError) == (
        f"job 'train' was not submitted: login of user 'nobody1' at {pai.url} was refused: "
        "User nobody1 is not found.; set the right username in [OpenPai] of luigi.cfg"
    )


@pytest.mark.usefixtures("pai")
def test_a_missing_password_is_one_clear_line():
    """With no password the error names the key to write."""
    luigi.configuration.get_config().remove_option("OpenPai", "password")
    text = one_line(Train(), AuthenticationError)
    assert "no password is set; write password = ..." in text


def test_a_wrong_port_is_one_clear_line(pai):
    """A refused connection says the address and the key, at once, in run() and in complete()."""
    pai.down()
    for ask in ("run", "complete"):
        started = time.monotonic()
        text = one_line(Train(), ClusterUnreachable, ask)
        assert text == (
            f"cannot reach {pai.url}: Connection refused; check pai_url in [OpenPai] of luigi.cfg, "
            "and that the rest-server runs"
        )
        assert time.monotonic() - started < 5


def test_an_unknown_host_is_one_clear_line(settings):
    """A host that does not exist says so and names the key."""
    settings(pai_url="http://no-such-host.invalid:9186")
    text = one_line(Train(), ClusterUnreachable, "complete")
    assert text.startswith("cannot reach http://no-such-host.invalid:9186: ")
    assert "check pai_url in [OpenPai]" in text


def test_a_pai_url_that_is_none_is_one_clear_line(settings):
    """A pai_url that is no address is refused before anything is sent."""
    settings(pai_url="ftp://host")
    text = one_line(Train(), ConfigError, "complete")
    assert "pai_url = 'ftp://host' is not a valid URL; use http://HOST:PORT or https://HOST/PATH" in text


# ---------------------------------------------------------------- Luigi around it


def test_luigis_page_is_told(pai, monkeypatch):
    """While a job runs, Luigi's callbacks get its page, its states and its progress."""
    pai.plan = {"runs_for": 0.2}
    task = Train()
    told = []
    for callback in ("set_tracking_url", "set_status_message", "set_progress_percentage"):
        monkeypatch.setattr(task, callback, lambda value, what=callback: told.append((what, value)))
    task.run()
    assert told[0][0] == "set_tracking_url"
    assert told[0][1].endswith("/view.html?jobName=train")
    assert ("set_status_message", "train: RUNNING, 2 tasks") in told
    assert ("set_status_message", "train: SUCCEEDED, 2 tasks") in told
    assert ("set_progress_percentage", 100) in told


class Message(str):
    """A message as Luigi's scheduler hands it over."""

    __slots__ = ("answers",)

    def respond(self, text):
        self.answers.append(text)


def test_a_stop_message_stops_the_job(pai, monkeypatch):
    """The message "stop" of Luigi's page stops the job; others are answered with what there is."""
    pai.plan = {"runs_for": 60}
    task = Train()
    inbox = queue.Queue()
    answers: list[str] = []
    for word in ("dance", "stop"):
        message = Message(word)
        message.answers = answers
        inbox.put(message)
    monkeypatch.setattr(task, "scheduler_messages", inbox, raising=False)
    with pytest.raises(PaiJobFailed, match="ended as STOPPED"):
        task.run()
    assert answers == ["'dance' is not a valid message; send: stop", "train is being stopped"]


def test_openpais_retry_count_is_not_luigis():
    """A task's retry_count of 0 does not have Luigi's scheduler disable it after one failure."""

    class Retries(PaiTask):
        name, image, tasks = "r", "x", [TaskRole("main", "x")]
        retry_count = 0

    assert luigi.worker._get_retry_policy_dict(Retries())["retry_count"] is None

    class Other(luigi.Task):
        retry_count = 5

    assert luigi.worker._get_retry_policy_dict(Other())["retry_count"] == 5


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
