"""luigi-pai local, from the command line, and what it leaves: the logs of a failed job."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import psutil
import pytest
import requests
from event_loop import in_a_loop
from local_cases import cases
from local_command import CLI, CLIENT, run, run_python, started
from waiting import wait_for_end, wait_until

from luigi_pai.cli.local import _print_end, local
from luigi_pai.local import LocalPai
from luigi_pai.local.container.processes import Orphans
from luigi_pai.local.luigi_config import configured_api
from luigi_pai.local.serve import CommandEnd, run_in_foreground

READ_CONFIG = textwrap.dedent(
    """
    import json, luigi.configuration, os, sys
    config = luigi.configuration.get_config()
    sections = {name: dict(config.items(name)) for name in config.sections()}
    names = ("LUIGI_CONFIG_PATH", "PAI_DEFAULT_FS_URI", "LUIGI_PAI_WEBHDFS_URL", "HADOOP_USER_NAME",
             "LUIGI_PAI_LOCAL_PASSWORD")
    path = os.environ["LUIGI_CONFIG_PATH"]
    print(json.dumps({"sections": sections, "variables": {n: os.environ.get(n) for n in names},
                      "mode": os.stat(path).st_mode, "text": open(path).read()}))
    """
)


@pytest.mark.parametrize(("command", "code"), cases("the_exit_code_is_that_of_a_shell"))
def test_the_exit_code_is_that_of_a_shell(command, code):
    """128 + n for a signal, 127 and 126."""
    assert in_a_loop(run_in_foreground(command, dict(os.environ), Orphans())) == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "options", "hdfs"),
    [("v2", [], False), ("v2", ["--hdfs"], True), ("ltp", [], False), ("v1", [], True)],
)
def test_luigi_in_the_command_finds_the_server(api, options, hdfs, tmp_path):
    """Over ./luigi.cfg, whose other keys count; the password is in a private file only; all is removed.

    No key leads to the files of another cluster, and the option wins over the API that the file names.
    """
    (tmp_path / "luigi.cfg").write_text(
        "[OpenPai]\npai_url = http://real.example\ntoken = abc\nexpiration = 77\napi_version = v1\n"
        "fs_uri = hdfs://real.example\nwebhdfs_url = http://real.example:50070\n"
        "storage = data\nstorage_path = /net/data\nstorage_mount = /data\n[core]\nworkers = 9\n"
    )
    elsewhere = {"PAI_DEFAULT_FS_URI": "hdfs://real.example", "HADOOP_USER_NAME": "me"}
    done = run_python(READ_CONFIG, "--api", api, *options, cwd=tmp_path, env=elsewhere)
    seen = json.loads(done.stdout)
    section = seen["sections"]["OpenPai"]
    url = section["pai_url"]
    assert url.startswith("http://127.0.0.1:")
    uri = url.replace("http://", "hdfs://")
    on_hdfs = {"fs_uri": uri, "webhdfs_url": url, "hdfs_user": "admin"}
    assert len(section["password"]) > 40  # a new one for each server that a program starts
    assert section == {
        "pai_url": url,
        "username": "admin",
        "password": section["password"],
        **dict.fromkeys(["fs_uri", "webhdfs_url", "storage_path", "storage_mount"], ""),
        **(on_hdfs if hdfs else {}),
        "storage": "" if api == "v1" else "nfs1",
        "portal_url": url,
        "api_version": "v1" if api == "v1" else "v2",
        "token": "",
        "expiration": "77",
    }
    assert seen["sections"]["core"] == {"workers": "9"}
    path = Path(seen["variables"].pop("LUIGI_CONFIG_PATH"))
    assert seen["variables"] == {
        "PAI_DEFAULT_FS_URI": uri if hdfs else None,
        "LUIGI_PAI_WEBHDFS_URL": url if hdfs else None,
        "HADOOP_USER_NAME": "admin" if hdfs else "me",
        "LUIGI_PAI_LOCAL_PASSWORD": None,
    }
    assert stat.S_IMODE(seen["mode"]) == 0o600
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("own", "earlier", "api"),
    [("v1", "", "v1"), ("v2", "", "v2"), ("auto", "", None), ("", "", None), ("v2", "v1", "v1")],
)
def test_the_api_version_of_the_configuration_is_known(own, earlier, api, tmp_path, monkeypatch):
    """None where it is left to the server; Luigi reads the file of LUIGI_CONFIG_PATH last."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUIGI_CONFIG_PATH", "mine.cfg")
    for name, version in (("luigi.cfg", own), ("mine.cfg", earlier)):
        if version:
            (tmp_path / name).write_text(f"[OpenPai]\napi_version = {version}\n")
    assert configured_api() == api


@pytest.mark.slow
def test_an_earlier_config_path_still_counts(tmp_path):
    """Its content is carried over: every cluster is the local one, the rest stays as it is written.

    So are the clusters of ./luigi.cfg, which Luigi reads by itself: no task reaches a real one.
    """
    earlier = tmp_path / "mine.cfg"
    earlier.write_text(
        "[OpenPai]\npai_url = http://real.example\npoll_max = 3\napi_version = v1\n"
        "[MyTask]\nRate = 5%%\nhome = ${HOME}/x\nlong = a\n  b\n"
        "[OpenPai:us]\npai_url = http://us.example\nusername = uma\n"
    )
    own = "[OpenPai:eu]\npai_url = http://eu.example\ntoken = abc\npoll_min = 3\n"
    (tmp_path / "luigi.cfg").write_text(own)
    done = run_python(READ_CONFIG, cwd=tmp_path, env={"LUIGI_CONFIG_PATH": "mine.cfg", "HOME": str(tmp_path)})
    sections = json.loads(done.stdout)["sections"]
    mine = {key.lower(): value for key, value in sections["MyTask"].items()}  # Luigi to 3.5 reads them so
    assert mine == {"rate": "5%", "home": f"{tmp_path}/x", "long": "a\nb"}
    here = dict(sections["OpenPai"])
    assert (here.pop("poll_max"), here["api_version"]) == ("3", "v1")  # the server is what the file names
    assert here["pai_url"].startswith("http://127.0.0.1:")
    assert here["token"] == ""
    assert sections["OpenPai:us"] == here
    assert sections["OpenPai:eu"] == {**here, "poll_min": "3"}


@pytest.mark.slow
def test_a_password_of_ones_own_reaches_luigi_and_nothing_else(tmp_path):
    """From the environment to the private file; not into argv, logs, or the server's folder."""
    code = f"{READ_CONFIG}{CLIENT}subprocess.run(['ps', 'axww', '-o', 'args'], stdout=open('ps', 'w'))"
    data, password = tmp_path / "data", "pässword#; % and = [x]"
    done = run_python(code, "--data", data, cwd=tmp_path, env={"LUIGI_PAI_LOCAL_PASSWORD": password})
    assert json.loads(done.stdout)["sections"]["OpenPai"]["password"] == password
    assert password not in (tmp_path / "ps").read_text()
    assert password not in done.stderr
    assert data.is_dir()
    for path in data.rglob("*"):
        if path.is_file():
            assert password.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_running_jobs_and_the_data_are_gone_after_the_command(tmp_path):
    """A job that the command leaves running is ended; the exit code is the command's, which alone writes."""
    code = f"""{CLIENT}
client.submit("echo $$ > {tmp_path}/pid; exec sleep 60")
while not (os.path.exists("pid") and open("pid").read()):
    time.sleep(0.02)
sys.exit(42)"""
    done = run("--api", "v1", "--", sys.executable, "-W", "ignore", "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (42, ""), done.stderr
    assert done.stderr.startswith("luigi-pai local: OpenPAI at http://127.0.0.1:")
    wait_for_end(int((tmp_path / "pid").read_text()))
    assert not Path(done.stderr.splitlines()[0].rpartition("data in ")[2]).exists()


@pytest.mark.slow
def test_a_proxy_is_not_asked_for_this_machine():
    """Neither by the command nor by the tasks; hosts that were excepted before stay excepted."""
    code = f"""{CLIENT}
job = client.run("printenv no_proxy NO_PROXY; hdfs dfs -mkdir -p /made")
subprocess.run(["hdfs", "dfs", "-test", "-d", "/Output/admin/" + job["name"]], check=True)
print(job["jobStatus"]["state"], job["jobStatus"]["appExitDiagnostics"], client.log(job))"""
    proxies = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "example.org"}
    done = run_python(code, "--api", "v1", env=proxies)
    here = "127.0.0.1,localhost,::1"
    assert done.stdout.split() == ["SUCCEEDED", "None", f"example.org,{here}", here]


def test_a_signal_while_the_command_is_being_started_reaches_it(monkeypatch):
    """It does not end the server, which would leave the command alone."""
    start = asyncio.create_subprocess_exec

    async def slow(*command, **more):
        process = await start(*command, **more)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    code = in_a_loop(run_in_foreground(["sleep", "30"], dict(os.environ), Orphans()))
    assert code == 128 + signal.SIGUSR1


# A child of a terminal of its own, as somebody types it there.
IN_A_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_reach_the_command_once(number, tmp_path):
    """It decides what becomes of them. Ctrl-C of a terminal, which sends it to both, is not sent on."""
    code = textwrap.dedent(
        f"""
        import signal, time
        got = []
        signal.signal({int(number)}, lambda *_: got.append(1))
        open("ready", "w").write("yes")
        while not got: time.sleep(0.01)
        time.sleep(0.3)
        raise SystemExit(10 + len(got))
        """
    )
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "wb", buffering=0) as terminal,
        os.fdopen(theirs) as its_end,
        subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL, *CLI[1:], "--", sys.executable, "-c", code],
            cwd=tmp_path,
            stdin=its_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process,
    ):
        wait_until(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text())
        if number == signal.SIGINT:
            terminal.write(b"\x03")
        else:
            process.send_signal(number)
        assert process.wait(20) == 11


@pytest.mark.slow
def test_by_itself_it_prints_where_it_is_and_what_to_write(tmp_path):
    """URL, user, data folder, and the lines for luigi.cfg; the data folder is the user's own by default.

    Under nohup, a closed terminal does not stop it: SIGHUP stays ignored.
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with started(tmp_path) as (process, text):
        signal.signal(signal.SIGHUP, before)
        process.send_signal(signal.SIGHUP)
        data = tmp_path / "xdg" / "luigi_pai" / "local"
        assert f"Data      {data}" in text
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert stat.S_IMODE((data / "server.sqlite").stat().st_mode) == 0o600
        lines = {line.strip().partition(" = ")[0]: line.partition(" = ")[2] for line in text.splitlines()}
        assert lines["username"] == "admin"
        assert lines["password"] == "admin-password"
        assert lines["storage"] == "nfs1"
        assert f"Storages  {data}/storages" in text
        assert "hdfs" not in text.lower()
        assert requests.get(lines["pai_url"] + "/api/v1", timeout=20).status_code == 200
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_a_password_of_ones_own_is_not_printed(tmp_path):
    """Nor is it in the log, with the token, the body and the query of requests."""
    own = {"LUIGI_PAI_LOCAL_PASSWORD": "own-secret-1"}
    with started(tmp_path, "--api", "v1", env=own) as (process, text):
        assert "password = (the one in LUIGI_PAI_LOCAL_PASSWORD)" in text
        assert "own-secret-1" not in text
        url = next(line.split()[1] for line in text.splitlines() if "Jobs" in line)
        login = {"username": "admin", "password": "own-secret-1"}
        token = requests.post(f"{url}/api/v1/token", json=login, timeout=20).json()["token"]
        requests.get(
            f"{url}/api/v1/jobs?token={token}", headers={"Authorization": f"Bearer {token}"}, timeout=20
        )
        assert "own-secret-1" not in " ".join(psutil.Process(process.pid).cmdline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    log = (tmp_path / "xdg" / "luigi_pai" / "local" / "server.log").read_text()
    assert "127.0.0.1 200 POST /api/v1/token" in log
    assert "127.0.0.1 200 GET /api/v1/jobs " in log
    assert "own-secret-1" not in log
    assert token not in log


def test_a_port_in_use_is_an_error_that_says_what_to_do(tmp_path, refused):
    """The data folder is free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for _ in range(2):
            errors = refused("--port", str(port), "--data", str(tmp_path / "data"))
            said = f"port {port} of 127.0.0.1 is in use; choose another with --port N, or --port 0"
            assert said in errors


@pytest.mark.parametrize(("words", "env", "message"), cases("what_cannot_work_is_refused_with_exit_code_2"))
def test_what_cannot_work_is_refused_with_exit_code_2(words, env, message, tmp_path, refused):
    """Before anything is started."""
    errors = refused(*words, XDG_DATA_HOME=str(tmp_path), **env)
    assert message in errors
    assert "five5" not in errors


@pytest.mark.parametrize(("name", "text", "message"), cases("a_file_that_cannot_be_used_is_named"))
def test_a_file_that_cannot_be_used_is_named(name, text, message, tmp_path, refused):
    """As where an earlier server was another user's, or the disk is full: with the reason."""
    if text is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text(text)
    config = {"LUIGI_CONFIG_PATH": str(tmp_path / name)} if name == "bad.cfg" else {}
    errors = refused("--data", str(tmp_path), "--", "true", **config)
    assert f"luigi-pai local: {message.replace('DIR', str(tmp_path))}" in errors


@pytest.mark.slow
def test_a_data_folder_of_another_user_is_refused(tmp_path):
    """Also to root, who could use it, and whose jobs would run with what is in there."""
    folder = Path("/usr")  # of root
    if os.getuid() == 0:
        folder = tmp_path
        os.chown(folder, 12345, 12345)
    done = run("--data", folder, "--", "true")
    assert done.returncode == 2
    said = f"cannot use the data folder {folder}: {folder} belongs to another user; name a folder"
    assert said in done.stderr
    assert stat.S_IMODE(folder.stat().st_mode) in (0o700, 0o755)
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_the_locale_cannot_spell(tmp_path):
    """Tasks find their files and come to an end, and what they left running ends with them."""
    code = f"""{CLIENT}
before = {{"plugin": "cmd", "parameters": {{"preCommands": ["true"]}}}}
extras = {{"com.microsoft.pai.runtimeplugin": [before]}}
job = client.run("sleep 60 & echo $! > {tmp_path}/left", name="a", extras=extras)
sys.stdout.write(job["jobStatus"]["state"])"""
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_python(code, "--hdfs", "--data", tmp_path / "d\u00e4t\u00e4", env=locale)
    assert done.stdout == "SUCCEEDED"
    wait_for_end(int((tmp_path / "left").read_text()))


@pytest.mark.slow
def test_a_job_that_never_fits_is_named_on_standard_error():
    """The command that waits for it may be stopped."""
    large = {"name": "main", "command": "true", "cpuNumber": 3}
    code = f"{CLIENT}client.submit({large}, name='large'); time.sleep(0.5)"
    done = run_python(code, "--api", "v1", "--virtual-cluster", "default:cpu=2")
    said = (
        "job large of admin: virtual cluster default has 2 CPUs in all, the job wants 3 CPUs: it can never "
        "run. Stop it, and ask for less or start the local server with --virtual-cluster default:cpu=3"
    )
    assert f"luigi-pai local: {said}\n" in done.stderr
    assert done.stderr.count("large") == 1


SUBMIT = f"""{CLIENT}
for name, command in (word.split("=", 1) for word in sys.argv[1:]):
    (client.submit if command == "sleep 60" else client.run)(command, name=name)"""


@pytest.fixture
def temporary(tmp_path):
    """The folder of temporary files of a run."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def logged(temporary, *jobs, options=()):
    """Run jobs, NAME=COMMAND each, and return what was printed after the first line."""
    words = ("--api", "v1", *options, "--", sys.executable, "-W", "ignore", "-c", SUBMIT, *jobs)
    done = run(*words, env={"TMPDIR": str(temporary)})
    assert (done.returncode != 0) == ("no name=true" in jobs)
    return done.stderr.splitlines()[1:]


def folders(temporary):
    return list(temporary.glob("luigi-pai-local-run-*"))


@pytest.mark.slow
def test_the_logs_of_a_failed_job_are_kept_and_the_pages_can_be_opened(temporary):
    """The password is not kept; a job that was left running is stopped, not run again."""
    said = logged(temporary, "good=true", "bad=echo no data >&2; exit 3", "left=sleep 60")
    (folder,) = folders(temporary)
    data = folder / "data"
    assert said == [
        "luigi-pai local: 1 of 3 jobs failed: bad",
        (
            f"luigi-pai local: logs are in {data}/jobs; for the pages: "
            f"luigi-pai local --port 0 --api v1 --data {data}"
        ),
    ]
    assert [entry.name for entry in folder.iterdir()] == ["data"]
    (errors,) = data.glob("jobs/*-bad/attempt1/main-0/stderr")
    assert errors.read_text() == "no data\n"
    with LocalPai(data, api="v1") as server:
        rows = requests.get(f"{server.url}/api/v1/jobs", timeout=20).json()
        assert {row["name"]: row["state"] for row in rows} == {
            "good": "SUCCEEDED",
            "bad": "FAILED",
            "left": "STOPPED",
        }


@pytest.mark.slow
def test_jobs_that_still_run_when_the_command_is_ended_are_said_to_be_stopped(temporary):
    """A pipeline that is interrupted says that they continue, as they do on a cluster; nothing is kept."""
    assert logged(temporary, "left=sleep 60", "no name=true")[-1] == (
        "luigi-pai local: 1 job, none failed; running jobs are stopped, pages and logs are removed "
        "(--data DIR keeps them)"
    )
    assert folders(temporary) == []


@pytest.mark.parametrize(("end", "lines"), cases("the_end_of_a_command_is_reported"))
def test_the_end_of_a_command_is_reported(end, lines, capsys):
    """How many of its jobs failed, and where their logs are; nothing if it had no jobs."""
    exit_code, jobs, failed, data = end
    with click.Context(local, info_name="local"):
        _print_end(CommandEnd(exit_code, jobs, failed, data and Path(data)), "v1")
    assert capsys.readouterr().err.splitlines() == [f"luigi-pai local: {line}" for line in lines]


@pytest.mark.slow
def test_with_a_data_folder_only_the_jobs_of_this_run_are_counted(temporary, tmp_path):
    data = tmp_path / "my data"
    logged(temporary, "bad=false", options=("--data", data))
    assert logged(temporary, "good=true", options=("--data", data)) == [
        (
            f"luigi-pai local: logs are in {data}/jobs; for the pages: "
            f"luigi-pai local --port 0 --api v1 --data '{data}'"
        )
    ]
    assert folders(temporary) == []
