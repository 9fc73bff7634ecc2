"""uploads of a PaiTask: sent before its job is submitted, and only then."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from local_client import unique
from luigi_process import environment, write_config
from pipelines import build, jobs_of, new_process
from places import PROGRAMS
from train_task import Command

from luigi_pai import HdfsTarget, SpecError
from luigi_pai.api.watching import Watcher
from luigi_pai.files import Upload, WebHdfs
from luigi_pai.tasks.uploads import send_uploads

TRAIN = """
set -e
hdfs dfs -cat $PAI_DATA_DIR/data.csv > result
cat code/lib/words code/extra/more >> result
hdfs dfs -put -f result $PAI_OUTPUT_DIR/
"""


pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def home():
    """A name for jobs, and for a folder on HDFS, that no other test has."""
    return unique("uploads")


@pytest.fixture
def project(tmp_path: Path, home: str) -> Path:
    """A folder with a pipeline, its code and its data."""
    folder = tmp_path / "project"
    (folder / "src" / "lib").mkdir(parents=True)
    (folder / "extra").mkdir()
    (folder / "pipeline.py").write_text(
        (PROGRAMS / "uploading_pipeline.py").read_text().replace("HOME", home)
    )
    (folder / "src" / "train.sh").write_text(TRAIN)
    (folder / "src" / "lib" / "words").write_text("words\n")
    (folder / "extra" / "more").write_text("more\n")
    (folder / "data.csv").write_text("1,2\n")
    return folder


@pytest.fixture
def train(project: Path, home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, load):
    """The task of that pipeline, imported while the current folder is another."""
    monkeypatch.chdir(tmp_path)
    return load(project / "pipeline.py", f"pipeline_{home.replace('-', '_')}").Train(home)


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each upload has sent."""
    moved: list[int] = []
    send = Upload.send

    def spy(self):
        done = send(self)
        moved.append(done.moved)
        return done

    monkeypatch.setattr(Upload, "send", spy)
    return moved


@pytest.fixture
def refused(cluster, home, monkeypatch):
    """Return the error of a task with some uploads, of which nothing is sent or submitted."""

    def refused(uploads) -> str:
        monkeypatch.setattr(Sends, "uploads", uploads)
        with pytest.raises(SpecError) as caught:
            Sends(home).run()
        assert jobs_of(cluster, home) == []
        assert not HdfsTarget(f"/{home}").exists()
        return str(caught.value)

    return refused


class Sends(Command):
    """A task with the uploads that a test gives it."""

    uploads = {}


@pytest.mark.slow
def test_the_job_finds_what_was_sent(train, sends):
    """It lies beside the pipeline, whatever the current folder is. A complete task sends nothing."""
    assert build(train)
    with (train.output() / "result").open() as result:
        assert result.read() == "1,2\nwords\nmore\n"
    assert sends == [2, 1, 1]
    new_process()
    assert build(train)
    train.run()
    assert sends == [2, 1, 1]


@pytest.mark.slow
def test_a_job_that_runs_is_taken_over_without_sending(cluster, home, project, sends):
    """What a running job has read is not changed under it."""

    class Slow(Command):
        uploads = {str(project / "src"): f"/{home}/code"}

    task = Slow(home, "sleep 1")
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(Watcher, "step", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            task.run()
    new_process()
    (project / "src" / "train.sh").write_text("changed")
    task.run()
    assert sends == [2]
    assert jobs_of(cluster, home) == [home]


@pytest.mark.slow
def test_the_next_attempt_sends_what_changed(train, project, sends):
    """After a failure that a change of the code mends, the next attempt runs with the new code."""
    (project / "src" / "train.sh").write_text("exit 3")
    assert not build(train)
    (project / "src" / "train.sh").write_text(TRAIN)
    new_process()
    assert build(train)
    assert sends == [2, 1, 1, 1, 0, 0]


def test_uploads_may_be_a_property(home, tmp_path):
    """It may depend on the task's parameters; absolute local paths are taken as they are."""
    (tmp_path / "data.csv").write_text("1")

    class Sending(Sends):
        @property
        def uploads(self):
            return {tmp_path / "data.csv": f"/{self.name}/in/data.csv"}

    send_uploads(Sending(home), None, WebHdfs.from_config())
    with HdfsTarget(f"/{home}/in/data.csv").open() as file:
        assert file.read() == "1"


def test_paths_are_relative_to_the_class_that_says_uploads(home, train, tmp_path, monkeypatch):
    """A task that inherits uploads from another module sends what lies beside that one."""

    class Inherits(type(train)):
        pass

    sent = []
    monkeypatch.setattr(Upload, "send", lambda self: sent.append(self._local))
    send_uploads(Inherits(f"{home}-more"), None, WebHdfs.from_config())
    assert sent == [tmp_path / "project" / name for name in ("src", "data.csv", "extra")]


def test_everything_that_cannot_be_sent_is_said_at_once(home, project, refused):
    """Missing paths, wrong names, destinations that are none: one error, and nothing is sent or submitted."""
    (project / "src" / "12:30").write_text("")
    wrong = {"gone/": f"/{home}/a", str(project / "src"): f"/{home}/b", str(project / "extra"): "s3://x/y"}
    here = Path(__file__).parent
    assert refused({**wrong, str(project / "data.csv"): f"/{home}/c/"}) == (
        f"job '{home}' was not submitted: 3 problems in its description\n"
        f"  uploads['gone/']: {here}/gone: there is no such file or folder (relative paths start at {here})\n"
        f"  uploads['{project}/src']: 12:30: HDFS does not allow ':' in a name\n"
        f"  uploads['{project}/extra']: 's3://x/y' is not a path on this HDFS: s3: is not HDFS; "
        "start it with / or hdfs://HOST:PORT/"
    )


def test_credentials_are_not_sent(cluster, home, project, monkeypatch, caplog):
    """No byte of them is on HDFS, whatever they are called; a log line names what was left out."""
    secret = cluster.password
    for name in (".env", "luigi.cfg", "conf/client.cfg", ".git/config", "id_rsa", ".netrc", ".pypirc"):
        (project / "src" / name).parent.mkdir(exist_ok=True)
        (project / "src" / name).write_text(f"secret {secret}")
    (project / "src" / "prod.ini").write_text(f"[x]\nkey = {secret}\n")
    (project / "src" / "copy.txt").write_text(f"[OpenPai]\npassword: {secret}\n")
    (project / "src" / "notes").write_text(f"-----BEGIN PRIVATE KEY-----\n{secret}\n")
    (project / "src" / "plain").symlink_to(".netrc")
    (project / "src" / ".paiignore").write_text("!.env\n!luigi.cfg\n!.git/\n")
    monkeypatch.setenv("LUIGI_CONFIG_PATH", str(project / "src" / "prod.ini"))
    monkeypatch.setattr(Sends, "uploads", {str(project / "src"): f"/{home}/code"})
    with caplog.at_level(logging.INFO, "luigi-interface"):
        send_uploads(Sends(home), None, WebHdfs.from_config())
    hdfs = WebHdfs.from_config()
    files = [path for path in hdfs.listdir(f"/{home}", recursive=True) if not hdfs.isdir(path)]
    assert sorted(path.removeprefix(f"/{home}/code/") for path in files) == [
        ".luigi-pai-manifest.json",
        "lib/words",
        "train.sh",
    ]
    size = len(TRAIN) + len("words\n")
    for path in files:
        with hdfs.open_reader(path) as file:
            assert secret.encode() not in file.read()
    assert (
        f"uploaded 2 of 2 files, {size} B, to /{home}/code; left out: .env, .git, .netrc, .pypirc, "
        "conf/client.cfg, copy.txt, id_rsa, luigi.cfg, notes, plain and 1 more (credentials are never sent)"
    ) in caplog.text


def test_a_shell_script_with_line_ends_of_windows(home, project, monkeypatch, caplog):
    """It is sent as it is, and named once: when it has changed."""
    (project / "src" / "train.sh").write_bytes(b"echo 1\r\necho 2\r\n")
    (project / "src" / "table.csv").write_bytes(b"1,2\r\n")
    monkeypatch.setattr(Sends, "uploads", {str(project / "src"): f"/{home}/code"})
    for _ in range(2):
        send_uploads(Sends(home), None, WebHdfs.from_config())
    (said,) = (text for text in caplog.messages if "CR LF" in text)
    assert said == (
        f"{project}/src/train.sh has lines that end with CR LF, as on Windows: shells fail on them; "
        "save it with LF"
    )


def test_a_file_with_credentials_that_is_named(home, project, refused):
    """It is a problem of the description, with what to do, and nothing is sent or submitted."""
    (project / ".env").write_text("PASSWORD=x")
    assert refused({str(project / ".env"): f"/{home}/env", str(project / "src"): f"/{home}/b"}) == (
        f"job '{home}' was not submitted: 1 problem in its description\n"
        f"  uploads['{project}/.env']: {project}/.env: it is never sent: a file or folder with this name may "
        "contain credentials; to send it anyway, copy it under another name; give credentials to a job as "
        "secrets of the job protocol, or as a PRIVATE parameter of a PaiPythonTask"
    )


def test_uploads_that_is_no_dict(refused):
    """It is a problem of the description."""
    assert "is not a dict of local to remote paths" in refused(["src"])


def test_code_beyond_what_a_container_takes(home, tmp_path, monkeypatch, refused):
    """More than 200,000,000 bytes in all that goes to code_dir or below it is refused; nothing is sent."""
    for name, size in {"src/a.bin": 150_000_000, "more/b.bin": 50_000_001, "data/c.bin": 900_000_000}.items():
        (tmp_path / name).parent.mkdir()
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    there = {"src": "code", "more": "code/more", "data": "data"}
    named = {str(tmp_path / here): f"$PAI_DEFAULT_FS_URI/{home}/{goal}" for here, goal in there.items()}
    monkeypatch.setattr(Sends, "code_dir", f"/{home}/code")
    text = refused(named)
    assert "uploads: 200,000,001 bytes for code_dir; OpenPAI copies at most 200,000,000" in text
    assert "(largest: a.bin 150,000,000, b.bin 50,000,001)" in text
    os.truncate(tmp_path / "more" / "b.bin", 50_000_000)
    monkeypatch.setattr(Upload, "send", lambda _self: None)
    send_uploads(Sends(home), f"/{home}/code", WebHdfs.from_config())


def test_two_files_for_one_path(home, tmp_path, refused):
    """The second one would replace the first; of equal content, as of __init__.py, neither is lost."""
    for name in ("a/train.py", "a/__init__.py", "b/train.py", "b/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name[0] if "train" in name else "")
    named = {str(tmp_path / "a"): f"/{home}/code", str(tmp_path / "b" / "train.py"): f"/{home}/code/"}
    (said,) = refused({**named, str(tmp_path / "b" / "__init__.py"): f"/{home}/code/"}).splitlines()[1:]
    assert said == (
        f"  uploads: {tmp_path}/a/train.py and {tmp_path}/b/train.py are both sent to /{home}/code/train.py; "
        "give one of them another destination"
    )


def test_folders_that_have_nothing_for_the_job(home, tmp_path, monkeypatch, caplog):
    """An empty upload, and folders that are not there, are warned of; once for all tasks of a run."""
    monkeypatch.setattr(Sends, "uploads", {str(tmp_path): f"/{home}/empty"})
    monkeypatch.setattr(Sends, "data_dir", f"/{home}/gone")
    monkeypatch.setattr(Sends, "code_dir", f"/{home}/empty")
    fs = WebHdfs.from_config()
    for number in range(2):
        task = Sends(f"{home}-{number}")
        task._prepared(task.job(), "v1", fs)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    empty = f"{tmp_path} has no files to send: it is empty, or all its files are left out"
    gone = f"Job {home}-0: data_dir = '/{home}/gone' does not exist on the cluster; luigi-pai put sends"
    assert [said[0], said[1][: len(gone)], said[2]] == [empty, gone, empty]
    assert len(said) == 3


@pytest.mark.slow
def test_tasks_that_send_the_same_code_at_once(home, project):
    """Four workers, each a process, upload one folder at the same moment; all jobs get all of it."""
    codes = {"task_failed": "30", "scheduling_error": "35"}
    config = write_config(project, retcode=codes, core={"no_lock": "true"})
    for number in range(10):
        (project / "src" / "lib" / f"{number}.py").write_text(f"{number}")
    command = [sys.executable, "-W", "ignore", "-m", "luigi", "--module", "pipeline", "Sweep"]
    words = [*command, "--local-scheduler", "--workers", "4"]
    env = environment(config, project)
    done = subprocess.run(
        words, cwd=project, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"uploaded (\d+) of 12 files", done.stderr)) == ["0", "0", "0", "12"]
    for number in range(4):
        with HdfsTarget(f"/{home}-{number}/output/result").open() as result:
            assert result.read() == "1,2\nwords\nmore\n"
