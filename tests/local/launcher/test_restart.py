"""Jobs, users, tokens and files survive the server; tasks that went on without it are found again."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests
from local_client import ENDED, LocalClient, role, unique
from ports import own_port
from protocol_client import ProtocolClient, protocol, task_role
from waiting import wait_until

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow


@pytest.fixture
def own_pai(tmp_path):
    """A server that a test may stop and kill, and that kills tasks a second after SIGTERM."""
    with LocalPai(tmp_path / "data", api="v1", port=own_port(), stop_grace=1.0) as server:
        yield server


@pytest.fixture
def v2(tmp_path):
    """The administrator of such a server of 1.8."""
    with LocalPai(tmp_path / "data", port=own_port(), stop_grace=1.0) as server:
        yield ProtocolClient(server)


@pytest.fixture
def client(own_pai):
    return LocalClient(own_pai)


def sql(server, statement, *values):
    """Return the rows that a statement finds in a server's file, or change it."""
    with contextlib.closing(sqlite3.connect(server.data / "server.sqlite")) as db, db:
        return db.execute(statement, values).fetchall()


def task_pids(server):
    """Return the first processes of all tries of all tasks once each has one, in the order they began."""

    def pids():
        found = [pid for (pid,) in sql(server, "SELECT pid FROM tasks ORDER BY rowid")]
        return found if all(found) else None

    return wait_until(pids)


def is_running(pid):
    """Say whether a process is there and is not just waiting to be reaped by init."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def held(folder, command=""):
    """Return a command that says in the file ``runs`` that it runs, and goes on when there is ``go``."""
    return f"echo x >> {folder}/runs; until [ -e {folder}/go ]; do sleep 0.02; done; {command}"


def once(folder, command):
    """Return a command that says in the file ``runs`` that it runs, and succeeds when it runs again."""
    return f"echo x >> {folder}/runs; [ $(wc -l < {folder}/runs) = 2 ] && exit 0; {command}"


def left_running(client, job, ran):
    """Submit a job, and kill the server once there is a file; return the job's name and first process."""
    name = client.submit(job)
    pid = task_pids(client.server)[-1]
    wait_until(lambda: ran.exists() and ran.read_text())
    client.server.kill()
    return name, pid


def wait_for_ends(*pids):
    wait_until(lambda: not any(map(is_running, pids)))


def kill(*pids):
    """Kill processes, each before its children: it could still write an exit code."""
    for pid in pids:
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            process.kill()
    wait_for_ends(*pids)


def test_a_task_that_still_runs_is_found_again(client, own_pai, tmp_path):
    """The same process goes on; the job is not started twice, and its end is seen at once."""
    name = client.submit("echo began; " + held(tmp_path, "exit 5"))
    before = client.wait(name, "RUNNING")
    wait_until((tmp_path / "runs").exists)
    pid = task_pids(own_pai)[-1]
    own_pai.kill()
    assert is_running(pid)
    own_pai.restart()
    after = client.job(name)
    assert after["jobStatus"]["state"] == "RUNNING"
    assert after["jobStatus"]["appId"] == before["jobStatus"]["appId"]
    assert after["taskRoles"] == before["taskRoles"]
    (tmp_path / "go").touch()
    assert client.end(name) == ("FAILED", 5, 0)
    assert client.log(after) == "began\n"
    assert not is_running(pid)


def test_a_task_found_again_can_be_stopped(client, own_pai, tmp_path):
    """With all its processes."""
    began = tmp_path / "began"
    name, pid = left_running(client, f"sleep 60 & echo > {began}; sleep 60", began)
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert len(processes) >= 2
    own_pai.restart()
    client.stop(name)
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"
    assert [process for process in processes if is_running(process.pid)] == []


@pytest.mark.parametrize(
    ("api", "code", "ends", "ran"),
    [
        ("v1", 0, ("SUCCEEDED", 0, 0), 1),
        ("v1", 6, ("FAILED", 6, 0), 1),  # the task itself writes its exit code down
        ("v1", None, ("SUCCEEDED", 0, 1), 2),  # like a transient failure, which does not count
        ("v2", None, ("SUCCEEDED", 0, 1), 2),  # like a pod that was deleted
    ],
)
def test_an_end_in_the_servers_absence_is_known(api, code, ends, ran, request, tmp_path):
    """One that was lost, as by a reboot, is run again without counting; what it left running ends."""
    user = request.getfixturevalue("client" if api == "v1" else "v2")
    runs, child = tmp_path / "runs", tmp_path / "child"
    left = f"sleep 60 & echo $! > {child}; wait"
    command = once(tmp_path, left) if code is None else held(tmp_path, f"exit {code}")
    name, pid = left_running(
        user, command if api == "v1" else protocol(command), child if code is None else runs
    )
    if code is None:
        os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    wait_for_ends(pid)
    assert code is not None or is_running(int(child.read_text()))
    user.server.restart()
    assert (*user.end(name), runs.read_text()) == (*ends, "x\n" * ran)
    assert code is not None or not is_running(int(child.read_text()))
    if api == "v2":
        assert user.status(name)["retryDetails"]["platform"] == 1
        first = user.send("GET", f"/jobs/{name}/attempts/0").json()
        assert (first["jobStatus"]["appExitCode"], user.task(first)["containerExitCode"]) == (-101, -101)


@pytest.mark.parametrize(("exit_code", "ends"), [(6, ("FAILED", 6, 0)), (0, ("SUCCEEDED", 0, 1))])
def test_what_a_task_decided_stays_decided_if_others_are_lost(exit_code, ends, client, own_pai, tmp_path):
    """The first one failed before the machine went down: the job has failed, and is not run again."""
    go, again = tmp_path / "go", tmp_path / "again"
    first = f"[ -e {again} ] && exit 0; until [ -e {go} ]; do sleep 0.02; done; exit {exit_code}"
    name = client.submit(
        role(f"[ -e {again} ] && exit 0; sleep 60", "others", taskNumber=2), role(first, "one")
    )
    wait_until(lambda: len(sql(own_pai, "SELECT * FROM tasks")) == 3)
    pids = task_pids(own_pai)
    own_pai.kill()
    go.touch()
    wait_for_ends(pids[2])
    kill(*pids[:2])
    again.touch()
    own_pai.restart()
    assert client.end(name) == ends
    assert (own_pai.data / "start.log").read_text() == ""


def test_a_pid_that_is_another_process_now_is_not_taken_for_the_task(client, own_pai):
    """The start of a process is part of its identity: a stranger is neither waited for nor killed."""
    name = client.submit(role("sleep 60", minFailedTaskCount=1), retryCount=0)
    pid = task_pids(own_pai)[-1]
    own_pai.kill()
    kill(pid)
    sql(own_pai, "UPDATE tasks SET pid = ?", os.getpid())
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
    assert client.end(stopped)[:2] == ("STOPPED", 214)
    wait_for_ends(*pids)
    wait_until(lambda: not list((own_pai.data / "jobs").glob(f"*-{deleted}")))


@pytest.mark.parametrize("cut_short", [False, True])
def test_a_shutdown_ends_tasks_and_the_next_start_runs_them_again(cut_short, client, own_pai, tmp_path):
    """No job is unfinished for ever: exit codes of tasks that the server ends are not the job's.

    Also if it is killed while it waits for its tasks.
    """
    name = client.submit(once(tmp_path, DEAF if cut_short else "echo $$; exec sleep 60"))
    pid = deaf_pid(client, name)
    if cut_short:
        os.kill(own_pai.pid, signal.SIGTERM)
        time.sleep(0.3)
        own_pai.kill()
        os.kill(pid, signal.SIGKILL)  # or the next server would wait out its grace as well
    else:
        own_pai.stop()
        assert not is_running(pid)
    own_pai.restart()
    assert client.end(name) == ("SUCCEEDED", 0, 1)


def test_users_tokens_passwords_and_files_survive(client, own_pai):
    """A token of before the restart is taken; a user made before can log in."""
    body = {"username": "bob", "password": "bobpassword", "modify": False}
    assert client.send("PUT", "/user", body).status_code == 201
    url = f"{own_pai.webhdfs_url}/webhdfs/v1/kept?user.name=admin"
    assert requests.put(f"{url}&op=MKDIRS", timeout=20).json() == {"boolean": True}
    own_pai.stop()
    own_pai.restart()
    assert client.run("true")["jobStatus"]["state"] == "SUCCEEDED"
    assert LocalClient(own_pai, "bob", "bobpassword").token
    assert requests.get(f"{url}&op=GETFILESTATUS", timeout=20).status_code == 200


def test_ports_of_running_tasks_stay_theirs(client, own_pai):
    """A server that was started again does not give them to others."""
    port_list = [{"label": "web", "beginAt": 12_345, "portNumber": 1}]
    name = client.submit(role("sleep 60", portList=port_list))
    job = client.wait(name, "RUNNING")
    held = job["taskRoles"]["main"]["taskStatuses"][0]["containerPorts"]["web"]
    task_pids(own_pai)[-1]
    own_pai.kill()
    own_pai.restart()
    port_list[0]["beginAt"] = int(held)
    other = client.run(role("true", portList=port_list))
    assert other["taskRoles"]["main"]["taskStatuses"][0]["containerPorts"]["web"] != held
    client.stop(name)


def test_a_second_server_on_the_same_folder_is_refused(own_pai):
    """The message names the first one; a killed server leaves no lock."""
    with pytest.raises(ConfigError, match="another luigi-pai local uses the data folder") as caught:
        LocalPai(own_pai.data, api="v1").start()
    assert f"process {own_pai.pid} at {own_pai.url}" in str(caught.value)
    assert "--data" in str(caught.value)
    own_pai.kill()
    own_pai.restart()


@pytest.mark.parametrize("killed", [False, True])
def test_a_server_and_its_tasks_end_with_its_test_run(killed, tmp_path):
    """Its standard input closes with the process that started it; close() ends what a killed one left."""
    server = LocalPai(tmp_path / "data", api="v1").start()
    LocalClient(server).submit("sleep 60")
    pid = task_pids(server)[-1]
    if killed:
        server.kill()
        assert is_running(pid)
    else:
        server._process.stdin.close()
        assert server._process.wait(10) == 0
        assert not is_running(pid)
    server.close()
    wait_for_ends(pid)


def test_a_v2_job_that_waits_keeps_its_secrets(tmp_path):
    """Taken, killed before it began: it runs with them after the restart, and they are gone after its end."""
    with LocalPai(tmp_path / "data", port=own_port(), max_tasks=1) as server:
        v2 = ProtocolClient(server)
        first = v2.submit(protocol("sleep 60"))
        waiting = v2.submit(protocol("echo '<% $secrets.pw %>'", secrets={"pw": "swordfish-77"}))
        task_pids(server)[-1]
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


@pytest.mark.parametrize("gang", [True, False])
def test_a_task_that_was_started_in_the_servers_last_moment_is_found(gang, v2, tmp_path):
    """Killed before it could write the process down: the task says itself whose it is."""
    runs = tmp_path / "runs"
    command = held(tmp_path, "(setsid sleep 60 &)")
    name, pid = left_running(v2, protocol(command, extras={"gangAllocation": gang}), runs)
    sql(v2.server, "UPDATE tasks SET pid = NULL, pid_started = NULL, launched = NULL")
    v2.server.restart()
    assert task_pids(v2.server) == [pid]
    running = v2.job(name)
    assert (running["jobStatus"]["state"], v2.task(running)["taskState"]) == ("RUNNING", "RUNNING")
    (tmp_path / "go").touch()
    assert (*v2.end(name), runs.read_text()) == ("SUCCEEDED", 0, 0, "x\n")


def test_a_lost_task_without_gang_allocation_is_tried_again_by_itself(v2, tmp_path):
    """As the platform's fault, uncounted; the job's other tasks, and its attempt, go on."""
    go, runs = tmp_path / "go", tmp_path / "runs"
    command = (
        f"echo $PAI_TASK_INDEX.$FC_TASK_ATTEMPT_ID >> {runs}; "
        f"[ $PAI_TASK_INDEX.$FC_TASK_ATTEMPT_ID = 0.0 ] && sleep 60; until [ -e {go} ]; do sleep 0.02; done"
    )
    name = v2.submit(
        protocol(roles={"main": task_role(command, instances=2)}, extras={"gangAllocation": False})
    )
    wait_until(lambda: runs.exists() and len(runs.read_text().split()) == 2)
    first, second = task_pids(v2.server)
    v2.server.kill()
    os.kill(first, signal.SIGKILL)
    wait_for_ends(first)
    v2.server.restart()
    wait_until(lambda: len(runs.read_text().split()) == 3)
    go.touch()
    job = v2.wait(name)
    assert (job["jobStatus"]["state"], job["jobStatus"]["retries"]) == ("SUCCEEDED", 0)
    tasks = job["taskRoles"]["main"]["taskStatuses"]
    assert [(task["retries"], task["accountableRetries"]) for task in tasks] == [(1, 0), (0, 0)]
    assert sorted(runs.read_text().split()) == ["0.0", "0.1", "1.0"]
    rows = sql(v2.server, "SELECT task_index, number, exit_code FROM tasks ORDER BY rowid")
    assert rows == [(0, 0, -101), (1, 0, 0), (0, 1, 0)]
    assert not is_running(second)


LOOSE = {"gangAllocation": False}
SECOND = "[ $FC_TASK_ATTEMPT_ID -ge 1 ]"  # a kill may lose a try, whose number is not given again
NEVER_FITS = {"resourcePerInstance": {"cpu": 99, "memoryMB": 1, "gpu": 0}}
KINDS = {  # kind -> command, fields of the role and of the job, retries, how often tasks begin
    "gang": ("true", {"instances": 2}, {}, 0, 2),
    "retries": ("exit 3", {}, {"jobRetryCount": 1}, 1, 2),
    "loose": (SECOND, {"instances": 2, "taskRetryCount": 1}, {"extras": LOOSE}, 0, 4),
    "sleeps": ("sleep 60", {}, {}, 0, 1),
    "loose sleeps": ("sleep 60", {}, {"extras": LOOSE}, 0, 1),
    "waits": ("true", NEVER_FITS, {}, 0, 0),
}


def test_a_server_that_is_killed_in_the_middle_of_30_jobs_loses_none(tmp_path):
    """Running, waiting, being stopped, between attempts and between tries: each ends as it would have."""
    ending, sleeping = ["gang", "retries", "loose"], ["sleeps", "loose sleeps"]
    with LocalPai(tmp_path / "data", port=own_port(), virtual_clusters=["default:cpu=24,gpu=4"]) as server:
        client = ProtocolClient(server)
        jobs = {}
        for number, kind in enumerate([*ending, *sleeping * 3, *ending * 6, *["waits"] * 3]):
            command, fields, more, *_ = KINDS[kind]
            file = tmp_path / f"ran{number}"
            main = task_role(f"echo x >> {file}; sleep 0.1; {command}", **fields)
            jobs[client.submit(protocol(roles={"main": main}, **more))] = kind, file
        wait_until(lambda: sum(file.exists() for _, file in jobs.values()) >= 16)
        sleep = [name for name, (kind, _) in jobs.items() if "sleeps" in kind]
        wait = [name for name, (kind, _) in jobs.items() if kind == "waits"]
        for name in sleep[:3] + wait[:2]:
            client.stop(name)
        done = {name: client.job(name) for name in jobs}
        done = {name: job for name, job in done.items() if job["jobStatus"]["state"] in ENDED}
        server.kill()
        assert done
        server.restart()
        for name in sleep[3:] + wait[2:]:
            client.wait(name, "RUNNING", "WAITING")
            client.stop(name)
        for name, (kind, file) in jobs.items():
            *_, retries, began = KINDS[kind]
            job = client.wait(name)
            status = job["jobStatus"]
            if name in done:
                assert job == done[name]
            if "sleeps" in kind or "waits" in kind:
                assert (kind, status["state"], status["appExitCode"]) == (kind, "STOPPED", -210)
            else:
                code = 255 if kind == "retries" else 0
                assert (kind, status["appExitCode"]) == (kind, code)
                again = status["retries"] - retries
                if kind == "loose":
                    tasks = job["taskRoles"]["main"]["taskStatuses"]
                    assert [task["accountableRetries"] for task in tasks] == [1, 1]
                    again += sum(task["retries"] - 1 for task in tasks)
                ran = len(file.read_text().split())
                assert ran == began if not again else began <= ran <= began + 2  # killed between two writes
                assert 0 <= again <= (2 if kind == "loose" else 1)
        used = client.send("GET", "/virtual-clusters/default").json()["resourcesUsed"]
        assert set(used.values()) == {0}
        assert psutil.Process(server.pid).children(recursive=True) == []


def test_a_server_that_is_killed_in_the_middle_of_submissions_has_all_it_took(tmp_path):
    """Whoever had a 202 finds the job; of the others it is there once, or not at all."""
    accepted, asked = [], []

    def post(client):
        while True:
            name = unique()
            asked.append(name)
            try:
                reply = client.post(protocol("true", name=name))
            except requests.RequestException:
                return
            assert reply.status_code == 202, reply.text
            accepted.append(name)

    with LocalPai(tmp_path / "data", port=own_port()) as server, ThreadPoolExecutor() as threads:
        client = ProtocolClient(server)
        posts = [threads.submit(post, client) for _ in range(4)]
        wait_until(lambda: len(accepted) >= 30 or any(done.done() for done in posts))
        server.kill()
        for done in posts:
            done.result(30)
        server.restart()
        for name in accepted:
            assert client.wait(f"{client.username}~{name}")["jobStatus"]["state"] == "SUCCEEDED"
        names = [row["name"] for row in client.send("GET", "/jobs").json()]
    assert len(names) == len(set(names))
    assert set(accepted) <= set(names) <= set(asked)
