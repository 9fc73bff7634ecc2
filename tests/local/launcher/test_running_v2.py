"""v2 jobs run for real: commands, environment, plugins, secrets, storages, ends, retries, stops."""

from __future__ import annotations

import json
import stat

import container_environments
import psutil
import pytest
import requests
from local_cases import cases
from placed_roles import roles_of
from protocol_client import plugin, protocol, task_role
from waiting import wait_until

pytestmark = pytest.mark.slow

SHOW_ENVIRONMENT = "python -c 'import json, os; print(json.dumps(dict(os.environ)))'"
HOSTILE = "\"'<b>&amp;%s $HOME `id` \\n\\ {{x}}\nsecond line\ttab ü"


def plugins(*extras):
    """Return the extras of several plugins."""
    return {key: [one for each in extras for one in each[key]] for key in extras[0]}


def script(name, *callbacks, **more):
    """Return a prerequisite that runs commands: ("taskStarts", "command") and so on."""
    return {
        "name": name,
        "type": "script",
        "plugin": "com.microsoft.pai.runtimeplugin.cmd",
        "callbacks": [{"event": event, "commands": [command]} for event, command in callbacks],
        **more,
    }


@pytest.mark.parametrize(("command", "code"), cases("the_exit_code_is_the_one_of_1_8s_runtime"))
def test_the_exit_code_is_the_one_of_1_8s_runtime(command, code, v2):
    """Strict bash, then the known codes and patterns, then 255."""
    job = v2.run(command)
    status = job["jobStatus"]
    assert (status["state"], status["appExitType"]) == (
        ("FAILED", "Failed") if code else ("SUCCEEDED", "Succeeded")
    )
    assert status["appExitCode"] == v2.task(job)["containerExitCode"] == status["appExitSpec"]["code"] == code
    assert status["createdTime"] <= status["appLaunchedTime"] <= status["appCompletedTime"]


def test_a_failed_job_says_what_the_runtime_says(v2):
    """The runtime's message, the trigger and the exit spec."""
    roles = {
        "ok": task_role("sleep 60"),
        "w": task_role("echo fine", "echo 'no data & <b>' >&2; exit 3"),
    }
    job = v2.run(roles=roles)
    status = job["jobStatus"]
    runtime = status["appExitMessages"]["runtime"]
    assert (runtime["exitCode"], runtime["originUserExitCode"]) == (255, 3)
    assert runtime["errorLogs"]["user"] == "fine\nno data & <b>"
    assert status["appExitDiagnostics"].startswith("Pod failed: PodPattern matched:\ncontainers:\n")
    assert "no data & <b>" in status["appExitDiagnostics"]
    assert status["appExitSpec"]["phrase"] == "PAIRuntimeUnknownFailed"
    assert (status["appExitTriggerTaskRoleName"], status["appExitTriggerTaskIndex"]) == ("w", 0)
    rule = "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    assert status["appExitTriggerMessage"] == rule
    other = v2.task(job, "ok")
    assert (other["containerExitCode"], other["taskState"]) == (-220, "STOPPED")
    assert other["containerExitSpec"]["phrase"] == "FrameworkAttemptCompletion"


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


def test_commands_are_filled_in_as_the_server_does(v2):
    """Parameters and prerequisites by the server, around them the default deployment."""
    around = {"preCommands": ["echo before"], "postCommands": ["echo after"]}
    job = v2.run(
        roles={"main": task_role("echo <% $parameters.lr %> <% $data.uri[1] %>", data="set")},
        parameters={"lr": 0.1},
        prerequisites=[{"name": "set", "type": "data", "uri": ["/a", "/b"]}],
        deployments=[{"name": "d", "taskRoles": {"main": around}}],
        defaults={"deployment": "d"},
    )
    assert v2.log(job) == "before\n0.1 /b\nafter\n"


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


def test_a_secret_that_a_failing_command_prints_is_masked_in_its_diagnostics(v2, local_pai_v2):
    """The log is the job's own; what the API and the page say of it is not."""
    job = v2.run("echo 'cannot log in with <% $secrets.pw %>' >&2; exit 1", secrets={"pw": "open-sesame-42"})
    assert "cannot log in with ******" in job["jobStatus"]["appExitDiagnostics"]
    assert "open-sesame-42" not in json.dumps(job)
    query = {"username": "admin", "jobName": job["name"]}
    page = requests.get(local_pai_v2.url + "/job-detail.html", params=query, timeout=20)
    assert "cannot log in with ******" in page.text


def test_a_password_of_a_registry_is_not_shown(v2):
    """A reference in its place is."""
    auth = {"username": "zoe", "password": "plain-password", "registryuri": "<% $secrets.uri %>"}
    image = {"name": "private", "type": "dockerimage", "uri": "x", "auth": auth}
    text = protocol("true", prerequisites=[image], secrets={"uri": "registry"})
    config = v2.send("GET", f"/jobs/{v2.submit(text)}/config").json()
    assert config["prerequisites"][1]["auth"]["password"] == "******"
    assert config["prerequisites"][1]["auth"]["registryuri"] == "<% $secrets.uri %>"


# plugins


def test_plugins_run_in_order_before_and_in_reverse_after(v2):
    """First the role's prerequisites, then extras; the output is the runtime's, not the command's."""
    third = {"preCommands": ["echo <% $parameters.x %> >> order"], "postCommands": ["echo end three"]}
    job = v2.run(
        roles={"main": task_role("echo command; cat order", prerequisites=["one", "two"])},
        prerequisites=[
            script("two", ("taskStarts", "echo two >> order"), ("taskSucceeds", "echo end two")),
            script("one", ("taskStarts", "echo one >> order"), ("taskSucceeds", "echo end one")),
        ],
        extras=plugins(
            plugin("cmd", third),
            plugin("cmd", {"preCommands": ["echo never >> order"]}, taskroles=["other"]),
        ),
        parameters={"x": "three"},
    )
    assert v2.log(job) == "command\none\ntwo\nthree\n"
    assert v2.log(job, name="runtime.log") == "end three\nend two\nend one\n"


def test_a_plugin_that_fails_fails_the_task_unless_it_is_to_be_ignored(v2):
    """failurePolicy."""
    failing = [("taskStarts", "echo tried; false; echo went on")]
    roles = {"main": task_role("echo command", prerequisites=["p"])}
    job = v2.run(roles=roles, prerequisites=[script("p", *failing)])
    assert job["jobStatus"]["appExitCode"] == 255
    assert (v2.log(job), v2.log(job, name="runtime.log")) == ("", "tried\n")
    assert "tried" in job["jobStatus"]["appExitMessages"]["runtime"]["errorLogs"]["platform"]
    job = v2.run(roles=roles, prerequisites=[script("p", *failing, failurePolicy="ignore")])
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert (v2.log(job), v2.log(job, name="runtime.log")) == ("command\n", "tried\nwent on\n")


def test_callbacks_of_success_run_only_after_success(v2):
    """And fail the task if they fail."""
    roles = {"main": task_role("exit 1", prerequisites=["p"])}
    job = v2.run(roles=roles, prerequisites=[script("p", ("taskSucceeds", "echo end"))])
    assert v2.log(job, name="runtime.log") == ""
    job = v2.run("true", extras=plugin("cmd", {"postCommands": ["exit 3"]}))
    assert job["jobStatus"]["appExitMessages"]["runtime"]["originUserExitCode"] == 3


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


@pytest.mark.parametrize(
    ("role", "more"),
    [
        ({"resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0, "ports": {"http": 0}}}, {}),
        ({}, {"extras": plugin("cmd", {"callbacks": "a text"})}),
        ({}, {"extras": {"storages": [{"name": "nfs1", "mountPath": "/../out"}]}}),
    ],
)
def test_what_cannot_be_started_fails_once(role, more, v2):
    """The v2 API takes all of this; none of it may be tried for ever, or keep the server from its work."""
    job = v2.wait(v2.submit(protocol(roles={"main": {**task_role("true"), **role}}, **more)))
    assert (job["jobStatus"]["state"], job["jobStatus"]["retries"]) == ("FAILED", 0)
    assert "could not be started" in v2.log(job, name="stderr")


# storages


def test_a_storage_appears_at_its_mount_path(v2, local_pai_v2):
    """Whether it is mounted there or, where this machine does not allow that, below the working folder."""
    extras = {"storages": [{"name": "nfs1"}, {"name": "nfs1", "mountPath": "/data/own", "share": False}]}
    job = v2.run(
        "for at in mnt/nfs1 data/own; do echo $at > $LUIGI_PAI_MOUNTS/$at/f-$(basename $at); done",
        extras=extras,
    )
    assert job["jobStatus"]["state"] == "SUCCEEDED", v2.log(job, name="stderr")
    assert (local_pai_v2.data / "storages/nfs1/f-nfs1").read_text() == "mnt/nfs1\n"
    assert (local_pai_v2.data / "storages/nfs1/f-own").read_text() == "data/own\n"


# completion, retries, stops


@pytest.mark.parametrize(("completion", "commands", "state"), cases("completion_has_the_servers_defaults"))
def test_completion_has_the_servers_defaults(completion, commands, state, v2):
    """A missing, null or 0 count is 1 failure, and all instances for success; -1 is never."""
    command = f"if [ $PAI_TASK_INDEX = 0 ]; then {commands[0]}; else {commands[1]}; fi"
    more = {} if completion is None else {"completion": completion}
    job = v2.run(roles={"main": task_role(command, instances=2, **more)})
    assert job["jobStatus"]["state"] == state


@pytest.mark.parametrize(
    ("command", "bound", "user", "platform", "code"),
    cases("a_failure_is_retried_by_its_class"),
)
def test_a_failure_is_retried_by_its_class(command, bound, user, platform, code, v2):
    """jobRetryCount bounds those that count."""
    status = v2.run(command, jobRetryCount=bound)["jobStatus"]
    assert (status["retries"], status["attemptId"]) == (user + platform, user + platform)
    assert status["retryDetails"] == {"user": user, "platform": platform, "resource": 0}
    assert (status["appExitCode"], status["state"]) == (code, "FAILED" if code else "SUCCEEDED")


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


@pytest.mark.parametrize(
    ("command", "bound", "retries", "counted", "code"),
    cases("a_task_is_tried_again_by_its_class"),
)
def test_a_task_is_tried_again_by_its_class(command, bound, retries, counted, code, v2):
    """As its job would be; a negative taskRetryCount sets no bound, and -2 goes on after a success."""
    job = v2.run(roles={"main": task_role(command, taskRetryCount=bound)}, extras={"gangAllocation": False})
    task = v2.task(job)
    assert (job["jobStatus"]["appExitCode"], job["jobStatus"]["retries"]) == (code, 0)
    assert (task["retries"], task["accountableRetries"]) == (retries, counted)
    assert task["containerExitCode"] == code


def test_all_instances_of_a_role_that_succeed_end_the_job(v2):
    """A missing minSucceededInstances is the number of instances: the other role is stopped."""
    job = v2.run(roles={"chief": task_role("true"), "ps": task_role("sleep 60")})
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    assert v2.task(job, "ps")["containerExitCode"] == -220


def test_with_gang_allocation_a_task_is_not_tried_again(v2):
    """taskRetryCount counts only without."""
    job = v2.run(roles={"main": task_role("exit 1", taskRetryCount=2)})
    assert v2.task(job)["retries"] == 0
