"""Jobs, users, tokens and files survive the server; tasks that went on without it are found again."""

from __future__ import annotations

import os
import signal
import sqlite3
import time

import psutil
import pytest
import requests
from local_client import LocalClient, role, wait_until
from protocol_client import ProtocolClient, protocol

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai


@pytest.fixture
def client(own_pai):
    return LocalClient(own_pai)


def task_pid(server, name):
    """Return the first process of a job's newest task, as the server wrote it down."""
    with sqlite3.connect(server.data / "server.sqlite") as db:
        row = db.execute(
            "SELECT pid FROM tasks JOIN attempts ON attempt_id = attempts.id JOIN jobs ON job_id = jobs.id"
            " WHERE name = ? ORDER BY tasks.rowid DESC LIMIT 1",
            (name,),
        ).fetchone()
    db.close()
    return row and row[0]


def is_running(pid):
    """Say whether a process is there and is not just waiting to be reaped by init."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def started_pid(server, name):
    return wait_until(lambda: task_pid(server, name))


def test_a_202_outlives_a_kill_in_the_next_moment(client, own_pai):
    """What was taken is there after kill -9, and runs."""
    names = [client.submit("true") for _ in range(20)]
    own_pai.kill()
    own_pai.restart()
    for name in names:
        assert client.wait(name)["jobStatus"]["state"] == "SUCCEEDED"


def test_a_task_that_still_runs_is_found_again(client, own_pai, tmp_path):
    """The same process goes on; the job is not started twice, and its end is seen at once."""
    go = tmp_path / "go"
    name = client.submit(f"echo began; until [ -e {go} ]; do sleep 0.02; done; exit 5")
    before = client.wait(name, "RUNNING")
    wait_until(lambda: client.log(before) == "began\n")
    pid = task_pid(own_pai, name)
    own_pai.kill()
    assert is_running(pid)
    own_pai.restart()
    after = client.job(name)
    assert after["jobStatus"]["state"] == "RUNNING"
    assert after["jobStatus"]["appId"] == before["jobStatus"]["appId"]
    assert after["taskRoles"] == before["taskRoles"]
    go.touch()
    job = client.wait(name)
    assert (job["jobStatus"]["appExitCode"], job["jobStatus"]["retries"]) == (5, 0)
    assert client.log(job) == "began\n"
    assert not is_running(pid)


def test_a_task_found_again_can_be_stopped(client, own_pai):
    """With all its processes."""
    name = client.submit("sleep 60 & sleep 60")
    pid = started_pid(own_pai, name)
    own_pai.kill()
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert len(processes) >= 2
    own_pai.restart()
    client.stop(name)
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"
    assert [process for process in processes if is_running(process.pid)] == []


@pytest.mark.parametrize(("command", "state", "code"), [("exit 0", "SUCCEEDED", 0), ("exit 6", "FAILED", 6)])
def test_an_end_in_the_servers_absence_is_known(command, state, code, client, own_pai, tmp_path):
    """The task itself writes its exit code down; it is not run again."""
    go, runs = tmp_path / "go", tmp_path / "runs"
    name = client.submit(f"echo x >> {runs}; until [ -e {go} ]; do sleep 0.02; done; {command}")
    pid = started_pid(own_pai, name)
    wait_until(runs.exists)
    own_pai.kill()
    go.touch()
    wait_until(lambda: not is_running(pid))
    own_pai.restart()
    status = client.wait(name)["jobStatus"]
    assert (status["state"], status["appExitCode"], status["retries"]) == (state, code, 0)
    assert runs.read_text() == "x\n"


def test_a_task_that_was_lost_is_run_again_without_counting(client, own_pai, tmp_path):
    """Killed with the server, as by a reboot: like a transient failure; what it left running ends."""
    runs, child = tmp_path / "runs", tmp_path / "child"
    name = client.submit(
        f"echo x >> {runs}; [ $(wc -l < {runs}) = 2 ] && exit 0; sleep 60 & echo $! > {child}; wait"
    )
    pid = started_pid(own_pai, name)
    wait_until(lambda: child.exists() and child.read_text())
    own_pai.kill()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid))
    assert is_running(int(child.read_text()))
    own_pai.restart()
    status = client.wait(name)["jobStatus"]
    assert (status["state"], status["retries"]) == ("SUCCEEDED", 1)
    assert runs.read_text() == "x\nx\n"
    assert not is_running(int(child.read_text()))


def test_a_pid_that_is_another_process_now_is_not_taken_for_the_task(client, own_pai):
    """The start of a process is part of its identity: a stranger is neither waited for nor killed."""
    name = client.submit(role("sleep 60", minFailedTaskCount=1), retryCount=0)
    pid = started_pid(own_pai, name)
    own_pai.kill()
    children = psutil.Process(pid).children(recursive=True)
    for process in [psutil.Process(pid), *children]:  # in this order: it could still write an exit code
        process.kill()
    wait_until(lambda: not is_running(pid))
    with sqlite3.connect(own_pai.data / "server.sqlite") as db:
        db.execute("UPDATE tasks SET pid = ?", (os.getpid(),))
    db.close()
    own_pai.restart()
    wait_until(lambda: client.status(name)["retries"] == 1)
    client.stop(name)
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"


# Takes no notice of SIGTERM; its first line is its process.
DEAF = (
    "python -c 'import os, signal, time; signal.signal(15, signal.SIG_IGN); "
    "print(os.getpid(), flush=True); time.sleep(60)'"
)


def deaf_pid(client, name):
    return int(wait_until(lambda: client.log(client.wait(name, "RUNNING"))))


def test_a_stop_and_a_delete_are_not_forgotten(client, own_pai):
    """Accepted, then the server was killed before the processes had ended."""
    stopped, deleted = client.submit(DEAF), client.submit(DEAF)
    pids = [deaf_pid(client, name) for name in (stopped, deleted)]
    client.stop(stopped)
    assert client.send("DELETE", f"/jobs/{deleted}").status_code == 202
    time.sleep(0.2)
    own_pai.kill()
    assert all(is_running(pid) for pid in pids)
    own_pai.restart()
    assert client.call("GET", f"/jobs/{deleted}").status_code == 404
    status = client.wait(stopped)["jobStatus"]
    assert (status["state"], status["appExitCode"]) == ("STOPPED", 214)
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    wait_until(lambda: not list((own_pai.data / "jobs").glob(f"*-{deleted}")))


def test_a_shutdown_that_is_cut_short_still_means_run_again(client, own_pai, tmp_path):
    """Killed while it waited for its tasks: the exit codes of the ended ones are not the job's."""
    runs = tmp_path / "runs"
    name = client.submit(f"echo x >> {runs}; [ $(wc -l < {runs}) = 2 ] && exit 0; {DEAF}")
    pid = deaf_pid(client, name)
    os.kill(own_pai.pid, signal.SIGTERM)
    time.sleep(0.3)
    own_pai.kill()
    os.kill(pid, signal.SIGKILL)  # or the next server would wait out its grace as well
    own_pai.restart()
    status = client.wait(name)["jobStatus"]
    assert (status["state"], status["retries"]) == ("SUCCEEDED", 1)


def test_a_shutdown_ends_tasks_and_the_next_start_runs_them_again(client, own_pai, tmp_path):
    """Ctrl-C leaves no process behind and no job unfinished for ever."""
    runs = tmp_path / "runs"
    name = client.submit(f"echo x >> {runs}; [ $(wc -l < {runs}) = 2 ] && exit 0; sleep 60")
    pid = started_pid(own_pai, name)
    wait_until(runs.exists)
    began = time.monotonic()
    own_pai.stop()
    assert time.monotonic() - began < 3
    assert not is_running(pid)
    own_pai.restart()
    status = client.wait(name)["jobStatus"]
    assert (status["state"], status["retries"]) == ("SUCCEEDED", 1)


def test_users_tokens_passwords_and_files_survive(client, own_pai):
    """A token of before the restart is taken; a user made before can log in."""
    body = {"username": "bob", "password": "bobpassword", "modify": False}
    assert client.send("PUT", "/user", body).status_code == 201
    url = f"{own_pai.webhdfs_url}/webhdfs/v1/kept?user.name=admin"
    assert requests.put(f"{url}&op=MKDIRS", timeout=20).json() == {"boolean": True}
    own_pai.stop()
    own_pai.restart()
    name = client.submit("true")
    assert client.wait(name)["jobStatus"]["state"] == "SUCCEEDED"
    assert LocalClient(own_pai, "bob", "bobpassword").token
    assert requests.get(f"{url}&op=GETFILESTATUS", timeout=20).status_code == 200


def test_ports_of_running_tasks_stay_theirs(client, own_pai):
    """A server that was started again does not give them to others."""
    port_list = [{"label": "web", "beginAt": 12_345, "portNumber": 1}]
    name = client.submit(role("sleep 60", portList=port_list))
    job = client.wait(name, "RUNNING")
    held = job["taskRoles"]["main"]["taskStatuses"][0]["containerPorts"]["web"]
    started_pid(own_pai, name)
    own_pai.kill()
    own_pai.restart()
    port_list[0]["beginAt"] = int(held)
    other = client.run(role("true", portList=port_list))
    assert other["taskRoles"]["main"]["taskStatuses"][0]["containerPorts"]["web"] != held
    client.stop(name)


def test_a_second_server_on_the_same_folder_is_refused(own_pai):
    """The message names the first one; a killed server leaves no lock."""
    with pytest.raises(ConfigError, match="another luigi-pai local uses the data folder") as caught:
        LocalPai(own_pai.data).start()
    assert f"process {own_pai.pid} at {own_pai.url}" in str(caught.value)
    assert "--data" in str(caught.value)
    own_pai.kill()
    own_pai.restart()


def test_a_server_ends_when_its_test_run_dies(tmp_path):
    """Its standard input closes with the process that started it; the tasks go too."""
    server = LocalPai(tmp_path / "data").start()
    client = LocalClient(server)
    name = client.submit("sleep 60")
    pid, server_process = started_pid(server, name), server._process
    server_process.stdin.close()
    assert server_process.wait(10) == 0
    assert not is_running(pid)
    server.close()


def test_killing_a_server_and_closing_leaves_no_process(tmp_path):
    """close() ends what a killed server left running."""
    server = LocalPai(tmp_path / "data").start()
    name = LocalClient(server).submit("sleep 60")
    pid = started_pid(server, name)
    server.kill()
    assert is_running(pid)
    server.close()
    wait_until(lambda: not is_running(pid))


def test_a_v2_job_that_waits_keeps_its_secrets(tmp_path):
    """Taken, killed before it began: it runs with them after the restart, and they are gone after its end."""
    with LocalPai(tmp_path / "data", max_tasks=1) as server:
        v2 = ProtocolClient(server)
        first = v2.submit(protocol("sleep 60"))
        waiting = v2.submit(protocol("echo '<% $secrets.pw %>'", secrets={"pw": "swordfish-77"}))
        v2.wait(first, "RUNNING")
        assert v2.job(waiting)["jobStatus"]["state"] == "WAITING"
        server.kill()
        server.restart()
        assert v2.job(waiting)["jobStatus"]["state"] == "WAITING"
        v2.stop(first)
        job = v2.wait(waiting)
        assert (job["jobStatus"]["state"], v2.log(job)) == ("SUCCEEDED", "swordfish-77\n")
        server.stop()
        for path in server.data.glob("server.sqlite*"):
            assert b"swordfish-77" not in path.read_bytes()
        server.start()


def test_a_v2_task_that_still_runs_is_found_again(own_pai, tmp_path):
    """The same container goes on; what it ended with is translated as ever."""
    v2 = ProtocolClient(own_pai)
    go = tmp_path / "go"
    name = v2.submit(protocol(f"echo began; until [ -e {go} ]; do sleep 0.02; done; nosuchcommand"))
    before = v2.wait(name, "RUNNING")
    wait_until(lambda: v2.log(before) == "began\n")
    own_pai.kill()
    go.touch()
    own_pai.restart()
    job = v2.wait(name)
    assert (job["jobStatus"]["appExitCode"], job["jobStatus"]["retries"]) == (220, 0)
    assert v2.task(job)["containerId"] == v2.task(before)["containerId"]


def test_a_v2_task_that_was_lost_is_run_again_as_the_platforms_fault(own_pai, tmp_path):
    """Like a pod that was deleted: -101, uncounted."""
    v2 = ProtocolClient(own_pai)
    runs = tmp_path / "runs"
    text = protocol(f"echo x >> {runs}; [ $(wc -l < {runs}) = 2 ] && exit 0; sleep 60")
    name = v2.submit(text)
    pid = started_pid(own_pai, name.split("~")[1])
    wait_until(runs.exists)
    own_pai.kill()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid))
    own_pai.restart()
    status = v2.wait(name)["jobStatus"]
    assert (status["state"], status["retryDetails"]["platform"]) == ("SUCCEEDED", 1)
    first = v2.send("GET", f"/jobs/{name}/attempts/0").json()
    assert first["jobStatus"]["appExitCode"] == -101
    assert v2.task(first)["containerExitCode"] == -101


def test_a_server_that_is_killed_in_the_middle_of_50_jobs_loses_none(tmp_path):
    """Some run, some wait for room, some are between two attempts: each ends as it would have."""
    with LocalPai(tmp_path / "data", virtual_clusters=["default:cpu=6,gpu=4"]) as server:
        v1, v2 = LocalClient(server), ProtocolClient(server)
        command = "echo $PPID >> {}; sleep 0.2; exit {}"
        files = [tmp_path / f"ran{number}" for number in range(50)]
        names = []
        for number, file in enumerate(files):
            said = command.format(file, number % 3)
            if number % 2:
                names.append(v1.submit(role(said, gpuNumber=number % 4 // 3), retryCount=number % 5))
            else:
                names.append(v2.submit(protocol(said, jobRetryCount=number % 5)))
        wait_until(lambda: sum(file.exists() for file in files) >= 20)
        server.kill()
        server.restart()
        for number, (name, file) in enumerate(zip(names, files, strict=True)):
            client, failed = (v1, number % 3) if number % 2 else (v2, 255)
            status = client.wait(name, timeout=90)["jobStatus"]
            code = failed if number % 3 else 0
            assert (status["appExitCode"], status["state"]) == (code, "FAILED" if code else "SUCCEEDED")
            least = number % 5 if code else 0
            assert least <= status["retries"] <= least + 1  # one more if the kill came between two writes
            assert least + 1 <= len(file.read_text().split()) <= status["retries"] + 1
        shown = v2.send("GET", "/virtual-clusters/default").json()["resourcesUsed"]
        assert set(shown.values()) == {0}
