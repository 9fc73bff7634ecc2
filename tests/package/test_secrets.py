"""Password and token are nowhere to be read: not in logs, errors, reprs, the scheduler or a process list."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import re
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import click
import luigi
import luigi.scheduler
import luigi.worker
import psutil
import pytest
from cli_commands import cli_commands
from luigi.task_register import Register
from waiting import wait_until

from luigi_pai import Cluster, OpenPai, PaiError, PaiSweep, PaiTask, TaskRole
from luigi_pai.api.registry import CLUSTERS
from luigi_pai.files import WebHdfs, cluster_files
from luigi_pai.local import LocalPai

PASSWORD = "admin-password"


class Train(PaiTask):
    """A task."""

    name = luigi.Parameter(default="train")
    image = "x"
    tasks = [TaskRole("main", "x")]


PIPELINE = """
import luigi
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    name, image, tasks = "train", "x", [TaskRole("main", "x")]
"""


def assert_clean(text: str, pai) -> None:
    """Fail if a text holds the password or any token that the server gave out."""
    for secret in (PASSWORD, *pai.tokens):
        assert secret not in text, text[max(0, text.find(secret) - 200) : text.find(secret) + 100]


def test_logs_at_debug_hold_no_secret(pai, caplog):
    """A run with every logger at DEBUG, through faults and a renewed token, logs no secret."""
    caplog.set_level(logging.DEBUG, "urllib3")
    pai.plan = {"runs_for": 0.2}
    pai.fail("GET", "/jobs/first$", 404, body='{"code": "NoJobError"}')
    pai.fail("GET", "/jobs/first$", 503, times=4)
    pai.fail("POST", "/jobs", "reset", after=True)
    with caplog.at_level(logging.DEBUG):
        Train(name="first").run()
        tokens = set(pai.tokens)
        pai.tokens.clear()
        Train(name="second").run()
    pai.tokens |= tokens
    assert len(pai.tokens) >= 2
    assert "POST" in caplog.text
    assert_clean(caplog.text, pai)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "fault",
    [
        ("POST", "/token", 500),
        ("POST", "/token", 400),
        ("POST", "/token", "reset"),
        ("POST", "/token", "hang"),
        ("POST", "/jobs", 400),
        ("POST", "/jobs", 401),
        ("GET", "/jobs", 302),
        ("GET", "/jobs", "reset"),
    ],
)
def test_errors_hold_no_secret(pai, settings, fault):
    """What any fault raises holds no secret in its text, its repr, its pickle or what is chained to it."""
    settings(poll_patience=0.1)
    method, path, kind = fault
    pai.fail(method, path, kind, times=9)
    with pytest.raises(PaiError) as caught:
        Train().run()
    error = caught.value
    while error is not None:
        assert_clean(f"{error} {error!r} {error.__dict__!r}", pai)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert PASSWORD.encode() not in pickle.dumps(caught.value)


def test_reprs_hold_no_secret(pai):
    """Neither the settings nor the client nor the task show a secret."""
    task = Train()
    task.run()
    cluster = OpenPai().cluster()
    job = cluster.job("train")
    assert_clean(f"{OpenPai()!r} {OpenPai()} {OpenPai().task_id} {task!r} {cluster!r} {job!r}", pai)
    assert_clean(f"{vars(cluster)!r} {vars(cluster._session)!r} {CLUSTERS!r} {vars(CLUSTERS)!r}", pai)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_cluster_and_its_jobs_cannot_be_pickled(copied):
    """A pickle would have the password or token in it; settings are pickled without them."""
    cluster = Cluster("http://pai:9186", "anna", password=PASSWORD)
    for owner in (cluster, cluster.job("train"), cluster.book, cluster.server):
        with pytest.raises(
            TypeError, match=r"cannot be pickled: it contains .*OpenPai\.current\(\)\.cluster\(\)"
        ):
            copied(owner)


@pytest.mark.parametrize(
    "make",
    [
        lambda url: Cluster(url, "anna"),
        lambda url: Cluster("http://pai:9186", "anna", portal_url=url),
        lambda url: WebHdfs(url, "anna"),
    ],
)
def test_a_url_with_a_password_is_refused_without_it(make):
    """Errors and reprs show URLs."""
    with pytest.raises(ValueError, match="url must not contain a user or password") as caught:
        make("http://anna:hush-hush@pai:9186")
    assert "hush-hush" not in str(caught.value)


def test_the_scheduler_gets_no_secret(pai):
    """Nothing that a worker tells the scheduler holds a secret, also when the task fails."""
    told = []

    class Listening(luigi.scheduler.Scheduler):
        def add_task(self, *args, **kwargs):
            told.append(repr((args, kwargs)))
            return super().add_task(*args, **kwargs)

    scheduler = Listening()
    pai.plan = {"ends_as": "FAILED"}
    with luigi.worker.Worker(scheduler) as worker:
        worker.add(Train())
        worker.add(OpenPai())
        worker.run()
    assert len(told) >= 3
    assert_clean("".join(told), pai)
    assert_clean(json.dumps(scheduler.task_list(), default=str), pai)


@pytest.mark.slow
@pytest.mark.usefixtures("real_time")
def test_the_command_line_shows_no_secret(pai, tmp_path: Path):
    """A run of the luigi command, at DEBUG, shows no secret in its output or in the process list."""
    pai.plan = {"runs_for": 3600.0}
    (tmp_path / "luigi.cfg").write_text(
        f"[core]\nlog_level=DEBUG\n[OpenPai]\npai_url={pai.url}\nusername=admin\npassword={PASSWORD}\n"
    )
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    command = [
        *(sys.executable, "-W", "ignore", "-m", "luigi"),
        *("--module", "pipeline", "Train", "--local-scheduler", "--no-lock", "--workers", "2"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)
    wait_until(lambda: pai.posts() or process.poll() is not None)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    lines = [" ".join(member.cmdline()) for member in family]
    pai.jobs["train"].runs_for = 0.0
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert any("Train" in line for line in lines)
    assert "DEBUG" in output
    assert_clean(output + "".join(lines), pai)


@pytest.fixture
def own_names(monkeypatch):
    """Hide other tests' classes of the same names: Luigi makes no options for classes that share one."""
    own = [
        each
        for each in Register._reg
        if each in (Train, OpenPai) or each.__name__ not in ("Train", "OpenPai")
    ]
    monkeypatch.setattr(Register, "_reg", own)


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize(
    ("words", "option", "key"),
    [
        (["Train", "--OpenPai-password", "hush-hush"], "--OpenPai-password", "password"),
        (["Train", "--OpenPai-token=hush-hush"], "--OpenPai-token", "token"),
        (["Train", "--OpenPai-passw", "hush-hush"], "--OpenPai-password", "password"),
        (["OpenPai", "--token", "hush-hush"], "--token", "token"),
    ],
)
def test_luigis_command_line_accepts_no_password_or_token(pai, words, option, key, capsys):
    """Luigi makes options of all settings; these two end the command before anything is sent."""
    with pytest.raises(SystemExit) as ended:
        luigi.run([*words, "--local-scheduler", "--no-lock"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"{option} is not accepted, because other users can read command lines; nothing was run" in said
    assert f"{key} = ${{PAI_{key.upper()}}}" in said
    assert "hush" not in said
    assert pai.calls == []


@pytest.mark.usefixtures("own_names")
def test_a_password_is_accepted_from_python_and_the_environment(pai, settings, monkeypatch):
    """What the error above advises works, and the other options of Luigi do."""
    assert OpenPai(password="hush-hush").password == "hush-hush"
    monkeypatch.setenv("PAI_PASSWORD", PASSWORD)
    settings(password="${PAI_PASSWORD}")
    assert luigi.run(["Train", "--OpenPai-username", "admin", "--local-scheduler", "--no-lock"])
    assert pai.posts()


def test_no_option_of_a_command_takes_a_password_or_token():
    """The process list shows options; the commands read luigi.cfg and the environment."""
    options = [
        option
        for command in cli_commands().values()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    ]
    assert len(options) > 50
    assert [option for option in options if re.search("password|token|secret", option)] == []


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v1", "v2"], ids=["hdfs", "storage"])
def test_files_on_hdfs_or_a_storage_have_no_password_or_token(api, as_settings, settings, tmp_path, caplog):
    """Claims, flags, manifests, journals, tables and kept logs beside the outputs of tasks and a sweep.

    On a storage everybody may write to the output folders (1777), and only the owner to other files (0644)
    and folders (0755).
    """
    with LocalPai(api=api) as server:
        as_settings(server)
        settings(keep_logs=True, max_attempts=2, **{"storage": "nfs1"} if api == "v2" else {})
        files_have_no_password_or_token(server, tmp_path, caplog)
        if api == "v2":
            fs = cluster_files()
            for path in fs.listdir("/", recursive=True):
                place = Path(fs.local_path(path))
                shared = 0o1777 if re.fullmatch(r"/secrets-\w+/[123]", path) else 0o755
                assert stat.S_IMODE(place.stat().st_mode) == (shared if place.is_dir() else 0o644), path


def files_have_no_password_or_token(server, tmp_path, caplog):
    """Run tasks and a sweep, and search what they leave beside their outputs."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "file").write_text("x")
    home = f"/secrets-{uuid.uuid4().hex}"

    class Point(PaiTask):
        number = luigi.IntParameter()
        image = "x"
        uploads = {str(tmp_path / "code"): f"$PAI_DEFAULT_FS_URI{home}/code"}
        tasks = [TaskRole("main", f"echo {server.password}; [ $LUIGI_PAI_ATTEMPT = 2 ]", memoryMB=100)]

        @property
        def name(self):
            return f"{home[1:]}-{self.number}"

        @property
        def output_dir(self):
            return f"$PAI_DEFAULT_FS_URI{home}/{self.number}"

    class Points(PaiSweep):
        results_dir = f"$PAI_DEFAULT_FS_URI{home}/study"

        def points(self):
            return [Point(number=1), Point(number=2)]

    with caplog.at_level(logging.DEBUG):
        Points().run()
        Point(number=3).run()
    fs = cluster_files()
    files = list(fs.listdir(home, ignore_directories=True, recursive=True))
    kinds = ["_SUCCESS", ".json", "manifest", "journal.jsonl", "results.csv", ".stdout", "__attempt2"]
    assert [kind for kind in kinds if not any(kind in path for path in files)] == []
    token = OpenPai().cluster()._session._last_token()
    for path in files:
        with fs.open_reader(path) as file:
            content = file.read().decode()
        assert server.password not in content, path
        assert token not in content, path
    assert server.password not in caplog.text
