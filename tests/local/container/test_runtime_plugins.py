"""Runtime plugins fail where those of OpenPAI 1.8 fail, as they fail there."""

from __future__ import annotations

import json
import re
import subprocess
import time

import pytest
from local_cases import cases
from protocol_client import ProtocolClient, plugin, protocol, task_role

from luigi_pai.local import LocalPai
from luigi_pai.local.container.protocol_spec import job_spec
from luigi_pai.local.container.runtime import BEFORE, role_scripts, runtime_exit
from luigi_pai.local.container.task_files import redactor


def scripts(name, given, tmp_path, /, *, secrets=None, role=None, policy="fail", **more):
    """Return the scripts of the one task of a job with one plugin."""
    extras = plugin(name, given, failurePolicy=policy)
    document = json.loads(protocol(roles={"main": task_role("true", **(role or {}))}, extras=extras, **more))
    spec = job_spec({**document, "secrets": secrets} if secrets else document)
    return role_scripts(spec["taskRoles"][0], secrets or {}, str(tmp_path / "main-0"), [])


def run(text, folder):
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False)


# how a task ends whose plugins cannot be prepared


# cmd


@pytest.mark.parametrize(
    ("parameters", "said"),
    cases("cmd_fails_over_the_parameters_that_the_real_one_fails_over"),
)
def test_cmd_fails_over_the_parameters_that_the_real_one_fails_over(parameters, said, tmp_path):
    """Unless its own failures are ignored: the command runs then, without it."""
    with pytest.raises(ValueError, match=said):
        scripts("cmd", parameters, tmp_path)
    assert BEFORE not in scripts("cmd", parameters, tmp_path, policy="ignore")


@pytest.mark.parametrize("parameters", cases("cmd_may_have_nothing_to_do"))
def test_cmd_may_have_nothing_to_do(parameters, tmp_path):
    """An event that it does not know is one that never happens."""
    assert set(scripts("cmd", parameters, tmp_path)) == {"command.sh"}


# parameters


@pytest.mark.parametrize(("command", "said"), cases("parameters_that_the_runtime_cannot_read_fail_the_task"))
def test_parameters_that_the_runtime_cannot_read_fail_the_task(command, said, tmp_path):
    """A reference to nothing or to no text, and a text that is no YAML as Python writes it."""
    given = {"n": 3, "list": ["a", "b"]}
    said = f"the plugin cmd cannot get its parameters: .*{re.escape(said)}"
    for policy in ("fail", "ignore"):  # no policy forgives the runtime's own work
        more = {"parameters": given, "secrets": {"pw": "hush"}, "policy": policy}
        with pytest.raises(ValueError, match=said):
            scripts("cmd", {"preCommands": [command]}, tmp_path, **more)


@pytest.mark.parametrize(("command", "arrives"), cases("parameters_arrive_as_the_runtime_reads_them"))
def test_parameters_arrive_as_the_runtime_reads_them(command, arrives, tmp_path):
    """It writes them down as Python does, and reads that as YAML."""
    files = scripts(
        "cmd",
        {"preCommands": [command]},
        tmp_path,
        parameters={"list": ["a", "b"], "deep": {"er": "c"}},
        secrets={"pw": 'it\'s "hush"'},
        prerequisites=[{"name": "set", "type": "data", "uri": ["/set"]}],
        role={"data": "set"},
    )
    assert files["before-0.sh"] == f"set -o errexit\n{arrives}\n"


# those that are left out


# where the other tasks are


HOSTS = "env | grep -E '^PAI_(HOST_IP|TASK_ROLE_main_HOST_LIST|PORT_LIST_main_._http)' | sort"


@pytest.fixture
def own_cluster(tmp_path):
    """A server on which two tasks run at once."""
    with LocalPai(tmp_path / "data", virtual_clusters=["default:cpu=2"]) as server:
        yield ProtocolClient(server)


@pytest.mark.slow
def test_tasks_that_wait_for_resources_have_no_address_yet(own_cluster):
    """Without gang allocation: their ports are known, as there; who has ended keeps its address."""
    role = task_role(HOSTS, instances=3, resourcePerInstance={"cpu": 1, "memoryMB": 100, "gpu": 0})
    job = own_cluster.run(roles={"main": role}, extras={"gangAllocation": False})
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    for place, seen in enumerate([2, 2, 3]):
        said = dict(line.split("=") for line in own_cluster.log(job, index=place).splitlines())
        ports = [own_cluster.task(job, index=index)["containerPorts"]["http"] for index in range(3)]
        assert [said[f"PAI_PORT_LIST_main_{index}_http"] for index in range(3)] == ports
        assert [name for name in said if "HOST_IP" in name] == [
            f"PAI_HOST_IP_main_{index}" for index in range(seen)
        ]
        hosts = [f"127.0.0.1:{port}" for port in ports[:seen]]
        assert said["PAI_TASK_ROLE_main_HOST_LIST"] == ",".join(hosts)


# FrameworkController's own


@pytest.mark.slow
def test_every_variable_of_the_launcher_is_set(v2):
    """Names and UIDs are those that the API shows."""
    job = v2.run("env | grep ^FC_ | sort; exit 1", jobRetryCount=1)
    said = dict(line.split("=", 1) for line in v2.log(job).splitlines())
    status, task = job["jobStatus"], v2.task(job)
    name = job["debugId"]
    uid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    assert all(uid.fullmatch(said.pop(f"FC_{word}_UID")) for word in ("TASKROLE", "FRAMEWORK"))
    assert said == {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": "main",
        "FC_TASK_INDEX": "0",
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-main-0",
        "FC_FRAMEWORK_ATTEMPT_ID": "1",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": status["appId"],
        "FC_CONFIGMAP_UID": status["appId"].removeprefix("1_"),
        "FC_TASK_UID": task["taskUid"],
        "FC_TASK_ATTEMPT_ID": "0",
        "FC_POD_UID": task["containerId"],
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"0_{task['containerId']}",
    }
    assert re.fullmatch("[0-9a-f]{32}", name)


# the exit code after the command


@pytest.fixture
def translate(tmp_path):
    """Return what a code and an output become."""

    def translated(code, stdout="", stderr="", runtime=""):
        for name, text in (("stdout", stdout), ("stderr", stderr), ("runtime", runtime)):
            (tmp_path / name).write_bytes(text.encode())
        logs = (tmp_path / "stdout", tmp_path / "stderr")
        return runtime_exit(code, logs, tmp_path / "runtime", redactor({}))

    return translated


@pytest.mark.parametrize(("code", "stdout", "expected", "matched"), cases("the_first_pattern_that_fits_wins"))
def test_the_first_pattern_that_fits_wins(code, stdout, expected, matched, translate):
    """Within one line, whatever the case."""
    found, info = translate(code, stdout)
    assert found == expected
    assert info.get("matchedUserLogString") == matched


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["tensorflow ", "torch/install/share/lua.c.", "nameerror: name", "indexerror:"]
)
def test_a_log_that_is_one_long_line_is_searched_in_no_time(word, translate):
    """A progress bar writes no newline; the whole server would wait."""
    begun = time.thread_time()
    assert translate(1, word * (4_000_000 // len(word)))[0] == 255
    assert time.thread_time() - begun < 10


def test_secrets_are_hidden_line_by_line_but_for_the_shortest():
    """A brace is everywhere; a secret of one line is hidden however short it is."""
    hide = redactor(
        {"pin": "77\n", "key": "{\n  private one\n}", "more": [None, {"y": "deep-one"}], "n": 12345}
    )
    assert hide("{ 77 private one deep-one 12345 }") == "{ ****** ****** ****** ****** }"
