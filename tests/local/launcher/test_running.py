"""Jobs run for real: commands, environment, ports, code, logs, ends, retries, stops."""

from __future__ import annotations

import json
import os
import re
import socket

import container_environments
import psutil
import pytest
import requests
from local_client import role, roles_of, unique
from waiting import wait_until

pytestmark = pytest.mark.slow

SHOW_ENVIRONMENT = "python -c 'import json, os; print(json.dumps(dict(os.environ)))'"


def put_file(server, path, data):
    """Write a file over WebHDFS in its two steps."""
    url = f"{server.webhdfs_url}/webhdfs/v1{path}?op=CREATE&overwrite=true&user.name=admin"
    step = requests.put(url, allow_redirects=False, timeout=20)
    assert step.status_code == 307, step.text
    assert requests.put(step.headers["Location"], data=data, timeout=20).status_code == 201


def processes_with(marker):
    """Return the running processes whose command line has the marker."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != "zombie" and marker in " ".join(process.info["cmdline"] or ())
    ]


def test_a_failed_job_says_which_task_and_its_last_words(client):
    """As the launcher of 0.7.1 writes it: the record of the task, a rule of underscores, the reason."""
    job = client.run(role("echo fine"), role("echo 'no data & <b>' >&2; exit 3", name="w", taskNumber=1))
    first, record, _rule, reason = re.split(
        r"\n(?=\{)|(?<=\})\n|\n(?=\[App)", job["jobStatus"]["appExitDiagnostics"]
    )
    task = json.loads(record)
    assert first == "[w]: [LastCompletedTask]: [TaskStatus]:"
    assert (task["taskRoleName"], task["taskIndex"], task["containerExitCode"]) == ("w", 0, 3)
    assert task["containerLogHttpAddress"] == job["taskRoles"]["w"]["taskStatuses"][0]["containerLog"]
    assert task["containerExitDiagnostics"] == (
        "task w-0 ended with exit code 3; the last lines of its log:\nno data & <b>"
    )
    assert reason == "[ApplicationCompletionReason]: [w]: FailedTaskCount 1 has reached MinFailedTaskCount 1."


def test_both_roles_see_every_variable_of_a_v1_container(client, local_pai_v1):
    """The whole list, with real ports, host lists by task index, and no variable of the server."""
    name = client.submit(
        role(SHOW_ENVIRONMENT, name="ps", taskNumber=2, memoryMB=256, shmMB=32, minFailedTaskCount=2),
        role(  # its success ends the job, so it waits for the others
            f"until [ -e ../../ps-0/exit -a -e ../../ps-1/exit ]; do sleep 0.05; done; {SHOW_ENVIRONMENT}",
            name="worker",
            cpuNumber=2,
            gpuNumber=2,
            minFailedTaskCount=None,
            minSucceededTaskCount=1,
            portList=[{"label": "grpc", "portNumber": 2}, {"label": "http", "portNumber": 2}],
        ),
        dataDir="$PAI_DEFAULT_FS_URI/data",
    )
    job = client.wait(name)
    status = {(r, t["taskIndex"]): t for r in job["taskRoles"] for t in job["taskRoles"][r]["taskStatuses"]}
    roles = roles_of(job)
    numbers = [port for role in roles for ports in role.ports for group in ports.values() for port in group]
    assert len(set(numbers)) == len(numbers) == 2 + 2 + 5
    assert set(roles[0].ports[0]) == {"http", "ssh"}
    uri = local_pai_v1.fs_uri
    assert uri == local_pai_v1.url.replace("http://", "hdfs://")

    seen = json.loads(client.log(job, "ps", 1))
    more = {
        "APP_ID": job["jobStatus"]["appId"],
        "PAI_CONTAINER_ID": status["ps", 1]["containerId"],
        "PAI_WORK_DIR": seen["PWD"],
        "PAI_DEFAULT_FS_URI": uri,
        "PAI_DATA_DIR": f"{uri}/data",
        "PAI_OUTPUT_DIR": f"{uri}/Output/admin/{name}",
        **dict.fromkeys(("PAI_CURRENT_TASK_ROLE_CPU_COUNT", "PAI_TASK_CPU_NUM"), "1"),
        **dict.fromkeys(("PAI_CURRENT_TASK_ROLE_MEM_MB", "PAI_TASK_MEM_MB"), "256"),
        "PAI_CURRENT_TASK_ROLE_SHM_MB": "32",
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": "2",
        "PAI_TASK_GPU_NUM": "0",
        "LUIGI_PAI_WEBHDFS_URL": local_pai_v1.webhdfs_url,
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "none",
    }
    expected = container_environments.v1(roles, "ps", 1, name, "admin", **more)
    assert {key: seen.get(key) for key in expected} == expected
    work = local_pai_v1.data / "jobs"
    assert seen["PAI_WORK_DIR"].startswith(str(work))
    assert seen["PATH"].startswith(f"{local_pai_v1.data / 'bin'}{os.pathsep}")
    assert {key for key in seen if key.startswith("PAI_")} <= {*expected}
    assert not [key for key in seen if "PASSWORD" in key or key.startswith("LUIGI_CONFIG")]
    assert local_pai_v1.password not in json.dumps(seen)

    worker = json.loads(client.log(job, "worker"))
    assert worker["PAI_CONTAINER_HOST_grpc_PORT_LIST"] == status["worker", 0]["containerPorts"]["grpc"]
    assert worker["PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT"] == ""
    assert worker["PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT"] == "1"
    numbers = worker["CUDA_VISIBLE_DEVICES"].split(",")
    assert worker["NVIDIA_VISIBLE_DEVICES"].split(",") == numbers
    assert status["worker", 0]["containerGpus"] == sum(1 << int(number) for number in numbers)
    assert len(set(numbers)) == 2


def test_begin_at_is_kept_where_free_and_replaced_where_not(client):
    """A port in use is never given away; the task's log says which one it has instead."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = taken.getsockname()[1]
        job = client.run(role("true", portList=[{"label": "web", "beginAt": wanted, "portNumber": 1}]))
        task = job["taskRoles"]["main"]["taskStatuses"][0]
        given = int(task["containerPorts"]["web"])
        assert given != wanted
        assert client.log(job, stream="stderr") == (
            f"luigi-pai local: port {wanted} (web) is in use on this machine; this task has {given}\n"
        )
    job = client.run(role("true", portList=[{"label": "web", "beginAt": given, "portNumber": 1}]))
    assert job["taskRoles"]["main"]["taskStatuses"][0]["containerPorts"]["web"] == str(given)
    assert client.log(job, stream="stderr") == ""


def test_the_code_folder_is_fetched_under_its_own_name(client, local_pai_v1):
    """codeDir is there before the command, as a folder of its base name."""
    put_file(local_pai_v1, "/code/train/main.py", b"from part import word; print(word)")
    put_file(local_pai_v1, "/code/train/part.py", b"word = 'fetched'")
    job = client.run("python train/main.py; ls", codeDir="$PAI_DEFAULT_FS_URI/code/train")
    assert job["jobStatus"]["state"] == "SUCCEEDED", client.log(job, stream="stderr")
    assert client.log(job) == "fetched\ntrain\n"


def test_a_code_folder_over_200_mb_ends_the_task(client, local_pai_v1):
    """The bound of OpenPAI's bootstrap, looked at before anything is copied."""
    big = local_pai_v1.data / "hdfs" / "big" / "code"
    big.mkdir(parents=True)
    with (big / "weights").open("wb") as file:
        file.truncate(200_000_001)
    job = client.run("echo never", codeDir="$PAI_DEFAULT_FS_URI/big/code")
    assert job["jobStatus"]["appExitCode"] == 1
    assert "of 200000001 bytes; OpenPAI takes 200000000" in job["jobStatus"]["appExitDiagnostics"]


def test_the_default_output_folder_is_made_and_a_given_one_is_not(client, local_pai_v1):
    """As the real server does."""
    hdfs = local_pai_v1.data / "hdfs"
    name = client.submit("true")
    assert (hdfs / "Output" / "admin" / name).is_dir()
    name = client.submit("echo $PAI_OUTPUT_DIR", outputDir="$PAI_DEFAULT_FS_URI/given/out")
    assert not (hdfs / "given").exists()
    assert not (hdfs / "Output" / "admin" / name).exists()
    assert client.log(client.wait(name)) == f"{local_pai_v1.fs_uri}/given/out\n"


def test_output_can_be_read_while_the_task_runs(client):
    """containerLog is a URL of plain text; markup in it stays text."""
    name = client.submit("echo '<script>1</script>'; echo oops >&2; sleep 60")
    job = client.wait(name, "RUNNING")
    url = job["taskRoles"]["main"]["taskStatuses"][0]["containerLog"]
    wait_until(lambda: "oops" in requests.get(url, timeout=20).text)
    reply = requests.get(url, timeout=20)
    assert reply.text == "==> stdout <==\n<script>1</script>\n\n==> stderr <==\noops\n\n"
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert requests.get(url + "stdout?start=-4", timeout=20).text == "pt>\n"
    assert requests.get(url + "stdout/?start=8", timeout=20).text == "1</script>\n"
    assert requests.get(url + "stdout?start=x", timeout=20).status_code == 400
    assert requests.get(url.replace("container_1", "container_2"), timeout=20).status_code == 404
    client.stop(name)


def test_what_a_command_leaves_behind_ends_with_it(client):
    """As with a container: a daemon that it started does not outlive the task."""
    mark = unique("9753")
    daemon = f"(setsid python -c 'import time; time.sleep(60)' {mark} &); "
    for pause in ("", "sleep 0.002; ", "sleep 0.2; "):
        assert client.run(daemon + pause + "true")["jobStatus"]["state"] == "SUCCEEDED"
        assert processes_with(mark) == []


def test_a_deleted_job_is_gone_with_its_processes_and_its_name_is_free(client, local_pai_v1):
    """DELETE ends a running job and forgets it; the name can be used again."""
    mark = unique("8642")
    name = client.submit(f"python -c 'import time; time.sleep(60)' {mark}")
    wait_until(lambda: processes_with(mark))
    assert client.send("DELETE", f"/jobs/{name}").status_code == 202
    assert client.call("GET", f"/jobs/{name}").status_code == 404
    again = client.run("echo new", name=name)
    assert client.log(again) == "new\n"
    wait_until(lambda: not processes_with(mark))
    wait_until(lambda: len(list((local_pai_v1.data / "jobs").glob(f"*-{name}"))) == 1)


COUNTING = "cd ../../..; n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; "


def test_retry_count_minus_2_goes_on_after_success(client):
    """A service; it ends when it is stopped."""
    name = client.submit("true", retryCount=-2)
    wait_until(lambda: client.status(name)["retries"] >= 2)
    client.stop(name)
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"


def test_each_attempt_has_its_own_ids_and_folder(client, local_pai_v1):
    """A retried job shows its newest attempt."""
    job = client.run(COUNTING + "echo attempt $n; [ $n = 1 ]", retryCount=1)
    assert job["jobStatus"]["appId"].startswith("application_")
    container = job["taskRoles"]["main"]["taskStatuses"][0]["containerId"]
    assert container.startswith(job["jobStatus"]["appId"].replace("application", "container"))
    assert client.log(job) == "attempt 1\n"
    folder = next((local_pai_v1.data / "jobs").glob(f"*-{job['name']}"))
    assert sorted(path.name for path in folder.iterdir()) == ["attempt1", "attempt2", "n"]


@pytest.mark.parametrize("name", ["...", "-rf", "x" * 255])
def test_any_name_that_openpai_takes_has_a_folder_of_its_own(name, client):
    """Names are never paths here."""
    assert client.run("pwd", name=name)["jobStatus"]["state"] == "SUCCEEDED"
    assert client.send("DELETE", f"/jobs/{name}").status_code == 202
