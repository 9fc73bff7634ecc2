"""Claims: what a run does with a job that the server no longer knows."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import time
from unittest.mock import Mock

import luigi
import pytest
from hdfs_outage import away_for_now
from lives import Life, lives
from process_state import forget
from protocols import protocol
from train_task import Train

from luigi_pai import HdfsError, OpenPai, PaiJobFailed, PaiProtocolTask, PaiPythonTask, ServerFault, TaskRole
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.files.small_files import create_once
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.flag import CompletionFlag

HOUR = 3600.0


@pytest.fixture
def folder(hdfs):
    """The folder of the claims of a job; it is not there yet."""
    return hdfs / "train" / "output" / "_luigi_pai"


def claims(hdfs, name="train") -> list[str]:
    """Return the names of the files of a job's claims and ends, sorted; without the time of a start."""
    folder = hdfs / name / "output" / "_luigi_pai"
    files = folder.iterdir() if folder.exists() else ()
    return sorted(re.sub(r"RUNNING-0-\d+$", "RUNNING", file.name) for file in files)


def evidence_of(task) -> Evidence:
    """Return what a run of a task knows besides what the server says."""
    return Evidence(TaskWork(task))


def claimed(evidence, number: int, job: str) -> str:
    """Claim a submission without waits, and return the name of the job that it is claimed for."""
    return evidence.claim(number, job).job


def kill_worker(pai, monkeypatch, task, at="api.watching.Watcher.step") -> None:
    """Run a task whose worker dies right after the submission, or in another function."""
    pai.plan = {"runs_for": HOUR}
    with monkeypatch.context() as patch:
        patch.setattr(f"luigi_pai.{at}", Mock(side_effect=_KilledError))
        with pytest.raises(_KilledError):
            task.run()
    pai.plan = {}


class _KilledError(BaseException):
    pass


def the_server_forgets(pai, clock, hours=13.0) -> None:
    """Have 13 hours pass: the jobs end, the server forgets them, and a new process begins."""
    clock.advance(hours * HOUR)
    pai.jobs.clear()
    pai.calls.clear()
    forget()


class WithClaims(Life):
    """Lives with an HDFS."""

    def __init__(self, hdfs, monkeypatch, *given):
        super().__init__(*given)
        self._hdfs, self._monkeypatch = hdfs, monkeypatch

    def killed(self, before):
        """Run the task in a worker that dies right after the submission, or before it."""
        at = {"at": "api.dialects.v1.V1Dialect.submit"} if before else {}
        kill_worker(self._pai, self._monkeypatch, self._task, **at)

    def failed_job(self, name):
        assert self.error.job_name == name

    def forgets(self, hours):
        the_server_forgets(self._pai, self._pai.clock, hours)

    def claims(self, names):
        """Compare the files of claims; None: there is not even a folder for them."""
        assert claims(self._hdfs) == (names or [])
        assert names is not None or not list(self._hdfs.rglob("_luigi_pai"))

    def folders(self, names):
        assert [path.name for path in self._hdfs.iterdir()] == names

    def write(self, given):
        path, text = given
        (self._hdfs / path).write_text(text)

    def delete(self, folder):
        shutil.rmtree(self._hdfs / folder)

    def changes(self, expected):
        """Compare how the warnings about jobs that have succeeded begin."""
        found = changes(self._caplog)
        assert [text[: len(start)] for text, start in zip(found, expected, strict=True)] == expected

    def flag(self, text):
        """Put an empty flag there, remove it, or compare it."""
        flag = self._hdfs / "train" / "output" / "_SUCCESS"
        if text == "put":
            flag.touch()
        elif text == "remove":
            flag.unlink()
        else:
            assert flag.read_text() == text


@lives("claims")
def test_a_life(pai, hdfs, settings, caplog, monkeypatch, steps):
    WithClaims(hdfs, monkeypatch, pai, settings, caplog).play(steps)


# ---------------------------------------------------------------- what is claimed

WHOLE = (
    '{"name": "train", "job": "train", "cluster": "http://pai", "user": "u", "digest": "d", "token": "t", '
    '"claimed_ms": %s}'
)


def test_a_submission_is_claimed_before_it_is_sent_and_its_end_recorded(
    pai, hdfs, folder, clock, monkeypatch
):
    """It has the number, the names, the cluster, the user, the time and a digest of the job."""
    kill_worker(pai, monkeypatch, Train())
    assert claims(hdfs) == ["train.1.RUNNING", "train.1.json"]
    begun = json.loads((folder / "train.1.json").read_text())
    assert len(begun.pop("digest")) == 16
    assert len(begun.pop("token")) == 12
    assert abs(begun.pop("claimed_ms") / 1000 - clock.time()) < HOUR
    assert begun == {
        "task": "train_task.Train",
        "name": "train",
        "number": 1,
        "job": "train",
        "cluster": pai.url,
        "user": "admin",
        "inputs": {"name": hashlib.sha256(b"'train'").hexdigest()[:12]},
    }
    pai.jobs["train"].runs_for = 0.0
    forget()
    Train().run()
    assert claims(hdfs) == ["train.1.RUNNING", "train.1.SUCCEEDED", "train.1.json"]


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED"])
@pytest.mark.parametrize("outage", [5, 1000])
def test_an_end_is_recorded_when_hdfs_answers_again(pai, hdfs, clock, monkeypatch, caplog, state, outage):
    """Within poll_patience; after that the run ends with a warning, and complete() records it."""
    pai.plan = {"ends_as": state}
    tries = fail_first(monkeypatch, "add" if state == "SUCCEEDED" else "discard", outage)
    task, began = Train(), clock.monotonic()
    with contextlib.nullcontext() if state == "SUCCEEDED" else pytest.raises(PaiJobFailed):
        task.run()
    is_recorded = ["train.1.json", f"train.1.{state}"] if outage == 5 else ["train.1.json"]
    assert claims(hdfs) == sorted(is_recorded)
    warning = f"The end of job train, {state}, could not be recorded in its output folder ("
    assert (warning in caplog.text) is (outage > 5)
    if outage > 5:
        assert "; the next run records it if the server still knows the job; if not, it raises" in caplog.text
        assert clock.monotonic() - began >= OpenPai.current().poll_patience
        tries.clear()
        assert task.complete() is (state == "SUCCEEDED")
        assert claims(hdfs) == sorted(["train.1.json", f"train.1.{state}"])
    assert (hdfs / "train" / "output" / "_SUCCESS").exists() is (state == "SUCCEEDED")


def fail_first(monkeypatch, method, times) -> list[int]:
    """Let a method of completion flags fail some times, as if HDFS were away; return those that are left."""
    left, works = [*range(times)], getattr(CompletionFlag, method)

    def away(flag, *arguments, **named):
        if left:
            left.pop()
            raise away_for_now(flag.path)
        return works(flag, *arguments, **named)

    monkeypatch.setattr(CompletionFlag, method, away)
    return left


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_late_claim_leaves_the_flag_of_another_process(pai, hdfs, monkeypatch, is_claimed):
    """Its job may have succeeded since this process read the claims: before it claimed, or after."""
    pai.plan = {"ends_as": "FAILED"}
    with pytest.raises(PaiJobFailed):
        Train().run()
    if is_claimed:
        kill_worker(pai, monkeypatch, Train())
        pai.jobs["train__attempt2"].runs_for = 0.0
    pai.plan = {}
    forget()
    late = evidence_of(Train())
    assert late.last().number == (2 if is_claimed else 1)
    forget()
    Train().run()
    assert claimed(late, 2, "train__attempt2") == "train__attempt2"
    assert late.last().state == "SUCCEEDED"
    assert (hdfs / "train" / "output" / "_SUCCESS").exists()


@pytest.mark.parametrize("stored", ["other", "own"])
def test_two_definitions_of_a_job_that_are_posted_at_once(pai, folder, caplog, stored):
    """The server takes both and stores one. The claim is that of the stored job, and a warning says so."""
    about = {"image": "x", "tasks": [TaskRole("main", "x")], "__module__": "train_task"}
    evidence_of(type("Train", (Train,), about)()).claim(1, "train")
    forget()
    if stored == "other":
        body = '{"message": "update job train successfully"}'
        pai.fail("POST", "/jobs$", 202, body=body, when=lambda _: bool(pai.add("train")))
    begun = json.loads((folder / "train.1.json").read_text())
    Train().run()
    ended = json.loads((folder / "train.1.json").read_text())
    assert pai.posts() == ["train"]
    assert (ended["digest"] == begun["digest"]) == (stored == "other")
    warning = "Job train was submitted with another definition than the task has now; it runs as it was"
    assert (warning in caplog.text) == (stored == "other")


def test_an_unknown_error_after_a_job_was_taken_keeps_its_claim(pai, hdfs, settings):
    """The job is found and watched. If its lookup fails, the error says that it may be there."""
    unknown = '{"code": "UnknownError", "message": "no"}'
    pai.fail("POST", "/jobs", 400, after=True, body=unknown)
    Train().run()
    assert (pai.submissions, claims(hdfs)) == (1, ["train.1.SUCCEEDED", "train.1.json"])
    settings(poll_patience=0.2)
    pai.fail("POST", "/jobs", 400, after=True, body=unknown)
    pai.fail("GET", "/jobs/other$", 503, times=9, when=lambda _: pai.submissions > 1)
    with pytest.raises(ServerFault, match=r": no; job other may have been submitted; run the task again"):
        Train(name="other").run()
    assert "other.1.json" in claims(hdfs, "other")
    pai.faults.clear()
    Train(name="other").run()
    assert pai.posts() == ["train", "other"]


@pytest.mark.usefixtures("pai")
def test_a_claim_is_made_again_where_another_process_has_just_given_its_back(folder, monkeypatch):
    """Between the refusal of this one and its look at the other."""
    file, evidence = folder / "train.1.json", evidence_of(Train())

    def released(*given):
        monkeypatch.undo()
        assert not create_once(*given)
        file.unlink()
        return False

    assert claimed(evidence, 1, "train") == "train"
    monkeypatch.setattr("luigi_pai.work.output_claims.create_once", released)
    forget()
    assert claimed(evidence_of(Train()), 1, "other") == "other"
    assert json.loads(file.read_text())["job"] == "other"


def test_a_claim_that_hdfs_neither_makes_nor_has_is_an_error_after_poll_patience(
    pai, clock, settings, monkeypatch, hdfs
):
    """A NameNode that replies ``false`` to each rename, and 404 to each lookup."""
    settings(poll_patience=100)
    tries, create = [], "luigi_pai.work.output_claims.create_once"
    monkeypatch.setattr(create, lambda *_: tries.append(clock.monotonic()))
    message = r"/train\.1\.json was not created, .*, so job train was not submitted; check that its"
    with pytest.raises(HdfsError, match=message):
        Train().run()
    assert pai.count("POST", "/jobs") == 0
    assert 5 < len(tries) < 30
    assert 95 < tries[-1] - tries[0] < 120
    assert claims(hdfs) == []


def test_what_a_kill_before_the_rename_leaves_is_removed_later(pai, hdfs, folder, monkeypatch):
    """By a run that lists the folder for another reason: only files of our form, and only old ones."""
    folder.mkdir(parents=True)
    old, young, other = (f".{mark * 12}.train.1.json" for mark in "abz")
    for file in (old, young, other):
        (folder / file).touch()
    for file in (old, other):
        os.utime(folder / file, (1, time.time() - 7 * HOUR))
    removed, remove = [], Connection.remove
    monkeypatch.setattr(
        Connection, "remove", lambda *given, **more: removed.append(given[1]) or remove(*given, **more)
    )
    Train().run()
    assert {old, young, other} & set(claims(hdfs)) == {young, other}
    assert [path for path in removed if path.endswith(".json")] == ["/train/output/_luigi_pai/" + old]
    assert pai.posts() == ["train"]


# ---------------------------------------------------------------- C2: killed, succeeded, forgotten


@pytest.mark.parametrize("ends_as", ["STOPPED", "SUCCEEDED"])
@pytest.mark.parametrize("knows", [True, False], ids=["the server knows it", "the server has forgotten it"])
def test_a_job_that_an_interrupted_run_has_stopped(pai, hdfs, clock, settings, monkeypatch, knows, ends_as):
    """Its server says how it ended; if it has forgotten the job, the next run submits it again."""
    settings(on_kill="stop")
    pai.plan = {"runs_for": HOUR}
    with monkeypatch.context() as patch:
        patch.setattr("luigi_pai.api.watching.Watcher.step", lambda _: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            Train().run()
    assert claims(hdfs) == ["train.1.RUNNING", "train.1.STOPPING", "train.1.json"]
    assert pai.count("PUT", "/executionType") == 1
    pai.plan = {}
    if knows:
        pai.jobs["train"].ends_as, pai.jobs["train"].runs_for = ends_as, 0.0
        forget()
    else:
        the_server_forgets(pai, clock)
    earlier = pai.posts()
    Train().run()
    assert pai.posts()[len(earlier) :] == ([] if knows and ends_as == "SUCCEEDED" else ["train__attempt2"])


@pytest.mark.parametrize(
    "text",
    [
        '{"half',
        "[" * 40_000,
        "9" * 5000,
        "[]",
        *(WHOLE % moment for moment in ("1e400", "-5", "1" + "0" * 18, "1" + "0" * 400, "NaN", "null", "[]")),
    ],
)
def test_an_invalid_claim_is_an_error(pai, folder, text):
    """Whether the job was submitted cannot be known: nothing is."""
    folder.mkdir(parents=True)
    (folder / "train.1.json").write_text(text)
    with pytest.raises(HdfsError, match=r"train\.1\.json is not the record of a submission, so"):
        Train().run()
    assert pai.posts() == []


# ---------------------------------------------------------------- C15: a changed definition


def changes_of(task, caplog) -> list[str]:
    """Ask a complete task as another process does; return what all warnings about it say after "but"."""
    forget()
    assert task.complete()
    return changes(caplog)


def changes(caplog) -> list[str]:
    """Return what the warnings about jobs that have succeeded say after "but"."""
    texts = [line.getMessage() for line in caplog.records if " has succeeded, but " in line.getMessage()]
    assert all("To run it again, change the name" in text for text in texts)
    return [text.partition(", but ")[2].partition(". The task still")[0] for text in texts]


@pytest.mark.usefixtures("pai")
@pytest.mark.parametrize("has_hdfs", [True, False])
def test_a_changed_parameter_that_shares_the_name_is_noticed(request, caplog, has_hdfs):
    """It is named, besides the command that it changes."""

    class Rounded(Train):
        rate = luigi.FloatParameter()
        name = property(lambda self: f"rounded-{self.rate:.1f}")
        tasks = property(lambda self: [TaskRole("main", f"train {self.rate}")])

    if has_hdfs:
        request.getfixturevalue("hdfs")
    Rounded(0.11).run()
    assert not changes_of(Rounded(0.11), caplog)
    changed = ["the task's definition has changed since (rate, taskRoles[0].command)"]
    assert changes_of(Rounded(0.12), caplog) == changed


@pytest.mark.usefixtures("pai", "hdfs")
def test_changed_uploads_are_noticed(tmp_path, caplog, monkeypatch):
    """Their content counts, not their times: a fresh checkout has other times."""
    code = tmp_path / "train.py"
    code.write_text("1")
    monkeypatch.setattr(Train, "uploads", {str(code): "/train/code/"})
    Train().run()
    os.utime(code, (0, 0))
    assert not changes_of(Train(), caplog)
    code.write_text("2")
    changed = [f"the task's definition has changed since (uploads['{code}'])"]
    assert changes_of(Train(), caplog) == changed
    code.unlink()  # it cannot be compared
    assert changes_of(Train(), caplog) == changed


class Worker(PaiPythonTask):
    """A task whose method uses more than the name of its job contains."""

    rows = luigi.IntParameter(default=1, significant=False)
    unused = luigi.IntParameter(default=1, significant=False)
    image = "python"
    scale = 1
    packages = ["process_state"]

    def work(self):
        return {"rows": self.rows * self.scale * HOUR}


@pytest.mark.usefixtures("pai", "hdfs")
@pytest.mark.parametrize(
    ("names", "value", "arguments"),
    [
        (["rows"], None, {"rows": 2}),
        ([], None, {"unused": 2}),
        (["Worker.scale"], ("Worker.scale", 2), {}),
        (["HOUR"], ("HOUR", 60.0), {}),
        (["packages"], ("Worker.packages", ["clocks"]), {}),
    ],
)
def test_what_a_method_uses_is_compared(caplog, monkeypatch, names, value, arguments):
    """Parameters that are not significant, attributes and constants; not what the method does not use."""
    Worker().run()
    if value is not None:
        monkeypatch.setattr(f"{__name__}.{value[0]}", value[1])
    luigi.task_register.Register.clear_instance_cache()
    changed = [f"the task's definition has changed since ({name})" for name in names]
    assert changes_of(Worker(**arguments), caplog) == changed


@pytest.mark.usefixtures("pai", "hdfs")
def test_a_deleted_local_output_is_noticed(tmp_path, caplog, monkeypatch):
    model = tmp_path / "model"
    monkeypatch.setattr(Train, "output", lambda _: [luigi.LocalTarget(str(model))])
    model.write_text("model")
    Train().run()
    assert not changes_of(Train(), caplog)
    model.unlink()
    assert changes_of(Train(), caplog) == [f"its output {model} does not exist"]


class Study(PaiProtocolTask):
    """A job of the YAML protocol; it has no output folder on HDFS."""

    command = "train"
    protocol = property(lambda self: protocol(self.command, name="study"))


def test_a_corrected_yaml_is_noticed(pai, caplog, monkeypatch):
    """Without a claim, the job that the server has stored is compared."""
    pai.release = "1.8.0"
    Study().run()
    assert not changes_of(Study(), caplog)
    monkeypatch.setattr(Study, "command", "train --better")
    luigi.Task.clear_instance_cache()
    (changed,) = changes_of(Study(), caplog)
    assert changed.startswith("the task's definition has changed since (taskRoles.main.commands")
