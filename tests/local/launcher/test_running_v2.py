"""v2 jobs run for real: commands, environment, plugins, secrets, storages, ends, retries, stops."""

from __future__ import annotations

import json
import stat

import container_environments
import psutil
import pytest
import requests
from local_client import roles_of
from protocol_client import plugin, protocol, task_role
from waiting import wait_until

pytestmark = pytest.mark.slow

SHOW_ENVIRONMENT = "python -c 'import json, os; print(json.dumps(dict(os.environ)))'"
HOSTILE = "\"'<b>&amp;%s $HOME `id` \\n\\ {{x}}\nsecond line\ttab ü"


def script(name, *callbacks, **more):
    """Return a prerequisite that runs commands: ("taskStarts", "command") and so on."""
    return {
        "name": name,
        "type": "script",
        "plugin": "com.microsoft.pai.runtimeplugin.cmd",
        "callbacks": [{"event": event, "commands": [command]} for event, command in callbacks],
        **more,
    }


def test_a_task_sees_every_variable_of_a_v2_container(v2, local_pai_v2):
    """The whole list, with real ports, host lists by task index, and no variable of the server."""
    roles = {
        "ps": task_role(
            SHOW_ENVIRONMENT,
            instances=2,
            resourcePerInstance={"cpu": 1, "memoryMB": 256, "gpu": 0, "ports": {"web": 2}},
            completion={"minSucceededInstances": -1},
            extraContainerOptions={"shmMB": 32},
        ),
        "worker": task_role(
            SHOW_ENVIRONMENT,
            resourcePerInstance={"cpu": 2, "memoryMB": 100, "gpu": 1},
            completion={"minFailedInstances": None, "minSucceededInstances": -1},
        ),
    }
    job = v2.run(roles=roles)
    ps, worker = placed = roles_of(job)
    assert list(ps.ports[0]) == ["web", "ssh", "http"]
    numbers = [port for role in placed for ports in role.ports for group in ports.values() for port in group]
    assert len(set(numbers)) == len(numbers) == 4 + 4 + 2
    seen = json.loads(v2.log(job, "ps", 1))
    more = {
        "PAI_WORK_DIR": seen["PWD"],
        "PAI_RESOURCE_ps": "0,1,256,32",
        "PAI_RESOURCE_worker": "1,2,100,0",
        **{f"PAI_MIN_FAILED_TASK_COUNT_{role.name}": "1" for role in placed},
        **{f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}": "-1" for role in placed},
        "NVIDIA_VISIBLE_DEVICES": "none",
    }
    expected = container_environments.v2(placed, "ps", 1, job["name"], "admin", **more)
    kept = ("PAI_", "NVIDIA_")
    kept = {key for key in {**seen, **expected} if key.startswith(kept)}
    assert {key: seen.get(key) for key in kept} == {key: expected.get(key) for key in kept}
    assert seen["LUIGI_PAI_MOUNTS"] == seen["PWD"]
    assert seen["LUIGI_PAI_WEBHDFS_URL"] == local_pai_v2.webhdfs_url
    assert "LUIGI_PAI_LOCAL_PASSWORD" not in seen
    seen = json.loads(v2.log(job, worker.name))
    assert seen["CUDA_VISIBLE_DEVICES"] == seen["NVIDIA_VISIBLE_DEVICES"]
    assert int(seen["CUDA_VISIBLE_DEVICES"]) in range(8)


# parameters, secrets


def test_secrets_arrive_unharmed_and_are_nowhere_else(v2, local_pai_v2):
    """In the command and in a plugin; not in the API, the page, the server's log or the process list."""
    shown = "cat <<'END'\n<% $secrets.pw %>\nEND"
    text = protocol(
        secrets={"pw": HOSTILE, "list": ["no", "hush-hush-7391"]},
        prerequisites=[script("greet", ("taskStarts", f"cat > greeting {shown[4:]}"))],
        roles={
            "main": task_role(
                shown, "cat greeting", "echo '<% $secrets.list[1] %>'; sleep 60", prerequisites=["greet"]
            )
        },
    )
    name = v2.submit(text)
    running = v2.wait(name, "RUNNING")
    wait_until(lambda: v2.log(running) == f"{HOSTILE}\n{HOSTILE}\nhush-hush-7391\n")
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    scripts = list(local_pai_v2.data.glob(f"jobs/*{name.split('~')[1]}*/attempt1/main-0/*.sh"))
    assert {path.name for path in scripts} == {"before.sh", "before-0.sh", "command.sh"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in scripts} == {0o600}
    v2.stop(name)
    ended = v2.wait(name)
    query = {"username": "admin", "jobName": name.split("~")[1]}
    page = requests.get(local_pai_v2.url + "/job-detail.html", params=query, timeout=20)
    assert page.status_code == 200
    paths = (f"/jobs/{name}/config", f"/jobs/{name}/events", "/jobs")
    texts = [json.dumps(ended, ensure_ascii=False), page.text, (local_pai_v2.data / "server.log").read_text()]
    texts += [v2.send("GET", path).text for path in paths] + commands
    for secret in ("hush-hush-7391", "second line\ttab"):
        assert not [text for text in texts if secret in text]
        for file in local_pai_v2.data.glob("server.sqlite*"):
            assert secret.encode() not in file.read_bytes(), file
    assert v2.send("GET", f"/jobs/{name}/config").json()["secrets"] == "******"
    assert not [path for path in scripts if path.exists()]


def test_a_password_of_a_registry_is_not_shown(v2):
    """A reference in its place is."""
    auth = {"username": "zoe", "password": "plain-password", "registryuri": "<% $secrets.uri %>"}
    image = {"name": "private", "type": "dockerimage", "uri": "x", "auth": auth}
    text = protocol("true", prerequisites=[image], secrets={"uri": "registry"})
    config = v2.send("GET", f"/jobs/{v2.submit(text)}/config").json()
    assert config["prerequisites"][1]["auth"]["password"] == "******"
    assert config["prerequisites"][1]["auth"]["registryuri"] == "<% $secrets.uri %>"


# plugins


def test_the_ssh_barrier_waits_for_every_task(v2, tmp_path):
    """A task that is held up before its own ssh plugin holds up the others."""
    go = tmp_path / "go"
    barrier = plugin("ssh", {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": 1})
    roles = {
        "slow": task_role("echo up", prerequisites=["wait"], completion={"minSucceededInstances": -1}),
        "fast": task_role("echo up", instances=2, completion={"minSucceededInstances": -1}),
    }
    wait = script("wait", ("taskStarts", f"until [ -e {go} ]; do sleep 0.05; done"))
    name = v2.submit(protocol(roles=roles, prerequisites=[wait], extras=barrier))
    running = v2.wait(name, "RUNNING")
    wait_until(lambda: "waiting for slow-0" in v2.log(running, "fast", 1, "runtime.log"))
    assert v2.log(running, "fast") == ""
    go.touch()
    job = v2.wait(name)
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert [v2.log(job, "slow"), v2.log(job, "fast"), v2.log(job, "fast", 1)] == ["up\n"] * 3


# storages


# completion, retries, stops


def test_every_attempt_can_be_looked_at(v2):
    """attempts/N, from 0; the log of each stays."""
    job = v2.run("echo $FC_FRAMEWORK_ATTEMPT_ID; exit 1", jobRetryCount=1)
    name = f"admin~{job['name']}"
    first = v2.send("GET", f"/jobs/{name}/attempts/0").json()
    assert (first["jobStatus"]["attemptId"], first["jobStatus"]["attemptState"]) == (0, "FAILED")
    assert [v2.log(first), v2.log(job)] == ["0\n", "1\n"]
    assert v2.send("GET", f"/jobs/{name}/attempts/2").status_code == 404


def test_logs_can_be_read_while_the_job_runs_and_from_their_end(v2):
    """All of it, or the last 16 KiB; whoever changes the address sees nothing else."""
    name = v2.submit(protocol("seq 10000; echo oops >&2; sleep 60"))
    running = v2.wait(name, "RUNNING")
    wait_until(lambda: v2.log(running, name="stderr") == "oops\n")
    whole = v2.log(running)
    assert whole == "".join(f"{number}\n" for number in range(1, 10001))
    assert v2.log(running, name="all") == f"{whole}oops\n"
    tail = v2.logs(running, **{"tail-mode": "true"})
    reply = requests.get(tail["stdout"], timeout=20)
    assert (reply.status_code, reply.text) == (206, whole[-16384:])
    assert requests.get(tail["all"], timeout=20).text == f"{whole}oops\n"[-16384:]
    address = tail["stdout"]
    assert requests.get(address.replace("token=", "token=x"), timeout=20).status_code == 403
    assert requests.get(address.replace("user-stdout", "command.sh"), timeout=20).status_code == 404
    v2.stop(name)


def test_what_happened_is_listed(v2):
    """Events, the latest first."""
    job = v2.run("exit 1")
    events = v2.send("GET", f"/jobs/admin~{job['name']}/events").json()
    assert events["totalCount"] == 3
    assert [event["reason"] for event in events["data"]] == ["JobEnded", "TaskEnded", "AttemptBegan"]
    assert events["data"][1]["taskName"] == "main-0"
    warnings = v2.send("GET", f"/jobs/admin~{job['name']}/events", type="Warning").json()
    assert warnings["totalCount"] == 2


def test_without_gang_allocation_tasks_are_tried_again_one_by_one(v2, tmp_path):
    """By the class of the exit code, up to taskRetryCount; the job's attempt goes on."""
    runs = tmp_path / "runs"
    command = f"echo $FC_TASK_ATTEMPT_ID; echo x >> {runs}; [ $(wc -l < {runs}) = 4 ] || exit 1"
    roles = {
        "main": task_role(command, taskRetryCount=3),
        "other": task_role("sleep 60", completion={"minSucceededInstances": -1}),
    }
    job = v2.run(roles=roles, extras={"gangAllocation": False})
    status, task = job["jobStatus"], v2.task(job)
    assert (status["state"], status["retries"]) == ("SUCCEEDED", 0)
    assert (task["attemptId"], task["retries"], task["accountableRetries"]) == (3, 3, 3)
    path = task["containerLog"].removeprefix("/api/v2").rpartition("/attempts/")[0]
    tries = v2.send("GET", f"{path}/attempts").json()["attempts"]
    codes = {item["attemptId"]: item["containerExitCode"] for item in tries}
    assert list(codes.items()) == [(3, 0), (2, 255), (1, 255), (0, 255)]
    assert v2.log(job) == "3\n"
    first = v2.send("GET", f"{path}/attempts/0/logs").json()["locations"]
    stdout = next(item["uri"] for item in first if item["name"] == "stdout")
    assert requests.get(v2.server.url + stdout, timeout=20).text == "0\n"
    assert v2.send("GET", f"{path}/attempts/9/logs").json()["code"] == "NoTaskLogError"
