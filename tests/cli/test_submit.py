"""luigi-pai submit: from a file, from standard input, like an earlier job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import responses

from luigi_pai import JobProtocol
from luigi_pai.jobspec.arrays.jobs import array_of
from luigi_pai.jobspec.names import array_name

both = pytest.mark.parametrize("dialect", ["v1", "v2"], indirect=True)
on_v2 = pytest.mark.parametrize("dialect", ["v2"], indirect=True)


@both
def test_the_name_alone_is_on_standard_output(pai_command, job_file, name, here):
    """So that a script can take it; what to do next is for people."""
    result = pai_command("submit", job_file(name))
    assert result.stdout == f"{name}\n"
    assert result.stderr == f"page: {here.page(name)}\nlogs: luigi-pai logs -f {name}\n"
    assert here.job(name).wait().succeeded


@both
def test_a_job_comes_from_standard_input(pai_command, job_file, name, here):
    """Or from a pipe of the shell, as of `luigi-pai submit <(envsubst < job.yaml)`."""
    text = Path(job_file("other")).read_text(encoding="utf-8")
    assert pai_command("submit", "-", "--name", name, stdin=text).stdout == f"{name}\n"
    reading, writing = os.pipe()
    os.write(writing, Path(job_file(f"{name}-b")).read_bytes())
    os.close(writing)
    assert pai_command("submit", f"/dev/fd/{reading}").stdout == f"{name}-b\n"
    os.close(reading)
    assert [here.job(one).status().name for one in (name, f"{name}-b")] == [name, f"{name}-b"]


@both
def test_wait_ends_as_the_job_does(pai_command, job_file, name):
    """Exit code 1 and the job's own error, if it failed."""
    result = pai_command("submit", job_file(name, "echo broken >&2; exit 3"), "--wait", expect=1)
    assert f"job {name!r} ended as FAILED with exit code " in result.stderr
    assert "broken" in result.stderr
    assert pai_command("submit", job_file(f"{name}-2"), "--wait").stderr.endswith(f"{name}-2: SUCCEEDED\n")


@pytest.mark.slow
@both
def test_wait_says_why_a_job_waits_while_it_does(pai_command, job_file, name, here, with_luigi_cfg):
    """Not with its next status only. The session's virtual cluster has 24 GPUs."""
    pai_command("submit", job_file(name, "sleep 60", gpu=22))
    command = [sys.executable, "-m", "luigi_pai", "submit", job_file(f"{name}-b", gpu=4), "--wait"]
    with subprocess.Popen(command, cwd=with_luigi_cfg, stderr=subprocess.PIPE, text=True) as waiting:
        lines = iter(waiting.stderr.readline, "")
        assert f"{name}-b: WAITING" in next(lines)
        why = next(lines)
        assert "virtual cluster default has 2 of 24 GPUs free, the job wants 4" in why
        here.stop(name)
        rest = list(lines)
    assert rest[-1] == f"{name}-b: SUCCEEDED\n"
    assert waiting.returncode == 0


@pytest.mark.slow
@on_v2
def test_follow_shows_the_logs(pai_command, job_file, name):
    result = pai_command("submit", job_file(name, "echo one; echo two"), "-f")
    assert result.stdout == "one\ntwo\n"
    assert result.stderr == f"{name}\n{name}: SUCCEEDED\n"


@pytest.mark.slow
@both
def test_like_submits_an_earlier_job_under_a_name_of_its_own(pai_command, job_file, name, here):
    pai_command("submit", job_file(name, "echo again"), "--wait")
    again = pai_command("submit", "--like", name).stdout.strip()
    assert again.startswith(f"{name}-")
    assert here.job(again).wait().succeeded
    given = pai_command("submit", "--like", here.page(name), "--name", f"{name}-x").stdout
    assert given == f"{name}-x\n"


@both
def test_a_stored_job_is_a_file_that_is_submitted_again(pai_command, job_file, name, here, tmp_path):
    """On standard output, or in a file."""
    pai_command("submit", job_file(name, "echo again"), "--wait")
    written = str(tmp_path / "stored")
    assert pai_command("config", name, "-o", written).stdout == ""
    assert Path(written).read_text() == pai_command("config", name).stdout
    pai_command("submit", written, "--name", f"{name}-b", "--wait")
    mine, other = here.config(name), here.config(f"{name}-b")
    for key in ("name", "jobName", "outputDir"):  # 0.7 names the folder after the job
        mine.pop(key, None)
        other.pop(key, None)
    assert mine == other
    assert "nosuch" in pai_command("config", "nosuch", expect=1).stderr


@on_v2
def test_a_stored_job_with_secrets_is_not_submitted_with_asterisks(pai_command, job_file, name, tmp_path):
    """The file says which they are, and submit refuses it as it is."""
    path = Path(job_file(name))
    path.write_text(
        path.read_text().replace("true", "use <% $secrets.key %>") + "secrets: {key: hush-hush}\n"
    )
    pai_command("submit", str(path))
    result = pai_command("config", name)
    assert result.stderr.endswith("has secrets, which are shown as ******: fill them in\n")
    assert "hush-hush" not in result.stdout
    stored = tmp_path / "stored.yaml"
    stored.write_text(result.stdout)
    refused = pai_command("submit", str(stored), "--name", f"{name}-b", expect=2).stderr
    assert f"{stored} contains ****** instead of secrets: fill them in" in refused


@on_v2
def test_the_stored_job_of_a_point_is_its_own_part_of_the_shared_job(pai_command, job_file, name, here):
    """It can be submitted by itself; --whole shows the shared job."""
    names = [f"{name}-{number}" for number in (1, 2)]
    files = [job_file(each, f"echo {each}; exit 1") for each in names]
    array = array_of(array_name(names), [JobProtocol.from_file(file) for file in files])
    here.submit(array)
    shown = pai_command("config", names[1]).stdout
    assert f"name: {names[1]}\n" in shown
    assert f"- echo {names[1]}; exit 1\n" in shown
    assert "base64" not in shown
    whole = pai_command("config", names[1], "--whole").stdout
    assert whole == pai_command("config", array.name).stdout != shown
    pai_command("submit", "-", "--name", f"{name}-3", "--wait", stdin=shown, expect=1)


@both
def test_a_used_name_is_one_sentence_of_the_server_and_one_of_ours(pai_command, job_file, name):
    pai_command("submit", job_file(name))
    said = pai_command("submit", job_file(name), expect=1).stderr
    assert re.search(rf"{name}'? already exists; names cannot be reused; choose another name", said)


@both
def test_set_changes_a_place_in_the_file(pai_command, job_file, name, here, dialect):
    path = "taskRoles.worker.instances" if dialect == "v2" else "taskRoles.0.taskNumber"
    pai_command("submit", job_file(name, "true"), "--set", f"{path}=3", "--wait")
    assert len(here.job(name).status().tasks) == 3


@on_v2
def test_set_of_one_word_is_a_parameter_that_is_used_or_a_field(pai_command, job_file, name, here):
    """A parameter that is misspelt would change nothing, and the job would run with the file's own."""
    path = job_file(name, "echo <% $parameters.more %>")
    changes = ("--set", "word=bye", "--set", "more=x", "--set", "jobRetryCount=2")
    pai_command("submit", path, *changes, "--name", name)
    config = here.config(name)
    assert (config["parameters"], config["jobRetryCount"]) == ({"word": "bye", "more": "x"}, 2)
    unused = pai_command("submit", path, "--set", "word=bye", "--name", f"{name}-c", expect=1).stderr
    assert f"warning: --set word: nothing in {path} uses <% $parameters.word %>" in unused
    wrong = pai_command("submit", path, "--set", "words=bye", "--name", f"{name}-b", expect=2).stderr
    assert wrong.endswith(f"--set words: {path} does not use a parameter words; did you mean word?\n")
    wrong = pai_command("submit", path, "--set", "epochs=9", "--name", f"{name}-b", expect=2).stderr
    assert wrong.endswith(f"--set epochs: {path} does not use a parameter epochs; it has word\n")
    bare = Path(path).with_name("bare.yaml")
    bare.write_text(Path(path).read_text().replace("parameters: {word: hello}\n", ""))
    wrong = pai_command("submit", str(bare), "--set", "epochs=9", expect=2).stderr
    assert wrong.endswith(f"--set epochs: {bare} does not use a parameter epochs; it has none\n")


@on_v2
def test_set_takes_no_secret(pai_command, job_file, name):
    """Other users can read command lines."""
    refused = pai_command("submit", job_file(name), "--set", "secrets.key=hunter2", expect=2).stderr
    assert "put secrets in the job file" in refused
    assert "hunter2" not in refused


@both
def test_what_is_wrong_is_said_and_nothing_is_sent(pai_command, job_file, name, here, tmp_path):
    """Each with the place and what to write; exit code 2 for the command line, 1 for the file."""
    path = job_file(name)
    assert "name a FILE (or - for standard input), or --like JOB" in pai_command("submit", expect=2).stderr
    assert "there is no such file" in pai_command("submit", "none.yaml", expect=2).stderr
    assert "--set epochs: write KEY=VALUE" in pai_command("submit", path, "--set", "epochs", expect=2).stderr
    wrong = pai_command("submit", path, "--set", "taskRolls.worker.x=1", expect=2).stderr
    assert "has no taskRolls; there is" in wrong
    broken = tmp_path / "broken.json"
    broken.write_text('{"jobName": "x", "taskRoles": []}', encoding="utf-8")
    assert f"{broken}: image" in pai_command("submit", str(broken), expect=1).stderr
    assert name not in [job.name for job in here.list()]


@both
def test_a_job_that_can_never_start_is_warned_of(pai_command, job_file, name, here, dialect):
    """Where the release says what the virtual cluster has."""
    result = pai_command("submit", job_file(name, gpu=99))
    if dialect == "v2":
        assert "has 24 GPUs in all, the job wants 99: it would wait forever" in result.stderr
    here.stop(name)


@on_v2
def test_an_address_that_is_no_rest_server_is_an_error_at_once(pai_command, job_file, name, settings):
    """Not tried for half an hour, as an outage is while a job runs."""
    file = job_file(name)
    settings(pai_url="http://portal.test")
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mocked:
        for method in ("GET", "POST"):
            mocked.add(method, re.compile("http://portal.test/.*"), "<html>", content_type="text/html")
        result = pai_command("submit", file, expect=1)
    assert "is http://portal.test (pai_url in [OpenPai]) the rest-server?" in result.stderr
    assert "retrying" not in result.stderr


@pytest.mark.parametrize("option", ["-f", "--wait"])
def test_a_job_that_is_not_shown_yet_is_waited_for(pai, pai_command, settings, tmp_path, option):
    """0.x lists a job a moment after it has taken it."""
    settings(api_version="v1")
    config = {"jobName": "slow", "image": "x", "taskRoles": [{"name": "w", "command": "x"}]}
    (tmp_path / "job.json").write_text(json.dumps(config))
    pai.fail("GET", "/jobs/slow$", 404, times=3, body={"code": "NoJobError", "message": "not yet"})
    result = pai_command("submit", str(tmp_path / "job.json"), option)
    assert result.stderr.endswith("slow: SUCCEEDED\n")
    assert pai.posts() == ["slow"]
