"""Runtime plugins fail where those of OpenPAI 1.8 fail, as they fail there."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from protocol_client import ProtocolClient, plugin, protocol, task_role

from luigi_pai.local import LocalPai
from luigi_pai.local.container.v2.protocol_spec import job_spec
from luigi_pai.local.container.v2.role_scripts import BEFORE, INIT, role_scripts

BOTH_QUOTES = """echo "it's" """


def scripts(name, given, tmp_path, /, *, secrets=None, role=None, policy="fail", **more):
    """Return the scripts of the one task of a job with one plugin."""
    extras = plugin(name, given, failurePolicy=policy)
    document = json.loads(protocol(roles={"main": task_role("true", **(role or {}))}, extras=extras, **more))
    spec = job_spec({**document, "secrets": secrets} if secrets else document)
    return role_scripts(spec, spec["taskRoles"][0], secrets or {}, [], str(tmp_path / "main-0"))


def run(text, folder):
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path):
    """A git repository with a file, a hidden file and a folder."""
    place = tmp_path / "repository"
    me = ["-c", "user.name=zoe", "-c", "user.email=zoe@example.org"]
    subprocess.run(["git", "init", "-q", place], check=True)
    (place / "f").write_text("hello\n")
    (place / ".hidden").write_text("x\n")
    (place / "d").mkdir()
    (place / "d" / "g").write_text("deep\n")
    subprocess.run(["git", "-C", place, "add", "."], check=True)
    subprocess.run(["git", "-C", place, *me, "commit", "-qm", "x"], check=True)
    return place


# how a task ends whose plugins cannot be prepared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"extras": plugin("nosuch", {})}, "OpenPAI 1.8 has no runtime plugin nosuch"),
        ({"roles": {"My_Role": task_role("true")}}, "OpenPAI 1.8 cannot run the role My_Role"),
        ({"extras": plugin("cmd", {"preCommands": [3]})}, "the plugin cmd cannot use its parameters"),
    ],
)
def test_it_ends_with_the_code_of_an_init_container_that_failed(v2, more, said):
    """1, which no pattern knows: the phrase of unknown codes, tried again up to jobRetryCount."""
    job = v2.run("true", jobRetryCount=1, **more)
    status, role = job["jobStatus"], next(iter(job["taskRoles"]))
    assert (status["state"], status["retries"], status["appExitCode"]) == ("FAILED", 1, 1)
    assert (status["appExitSpec"]["phrase"], status["appExitSpec"]["code"]) == ("PAIRuntimeExitAbnormally", 1)
    assert status["appExitSpec"]["reaction"] == "RETRY_TO_MAX"
    assert status["appExitDiagnostics"].startswith("Pod failed: PodPattern unmatched:\n")
    assert status["appExitMessages"]["runtime"] is None
    assert status["appExitMessages"]["launcher"] == status["appExitDiagnostics"]
    assert said in status["appExitDiagnostics"]
    assert v2.task(job, role)["containerExitCode"] == 1
    assert said in v2.log(job, role, name="runtime.log")
    assert f"could not be started: {said}" in v2.log(job, role, name="stderr")


@pytest.mark.slow
def test_a_secret_is_not_in_what_is_said_of_it(v2, repository):
    """The log is the job's own."""
    secret = f"{repository}-hush-hush-17"
    job = v2.run("true", extras=plugin("git", {"repo_uri": "<% $secrets.at %>"}), secrets={"at": secret})
    assert job["jobStatus"]["appExitCode"] == 1
    assert "******" in job["jobStatus"]["appExitDiagnostics"]
    assert "hush-hush-17" not in json.dumps(job)


@pytest.mark.slow
def test_nothing_of_any_plugin_runs_where_one_cannot_be_prepared(v2):
    """All are prepared first."""
    both = [
        {"plugin": "cmd", "parameters": {"preCommands": ["echo ran"]}},
        {"plugin": "cmd", "parameters": {"callbacks": [{"commands": ["echo ran"]}]}},
    ]
    job = v2.run("echo ran", extras={"com.microsoft.pai.runtimeplugin": both})
    assert (v2.log(job), "ran\n" in v2.log(job, name="runtime.log")) == ("", False)


# cmd


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"callbacks": [], "preCommands": ["true"]}, "exclude each other"),
        ({"callbacks": [], "postCommands": []}, "exclude each other"),
        ({"callbacks": [{"commands": ["true"]}]}, "a callback has no event"),
        ({"callbacks": [{"event": "taskStarts"}]}, "the callback of taskStarts has no commands"),
        ({"callbacks": [{"event": "taskSucceeds"}]}, "the callback of taskSucceeds has no commands"),
        ({"callbacks": 3}, "of a wrong shape"),
        ({"preCommands": ["true", None, 3]}, "of a wrong shape"),
    ],
)
def test_cmd_fails_over_the_parameters_that_the_real_one_fails_over(parameters, said, tmp_path):
    """Unless its own failures are ignored: the command runs then, without it."""
    files = scripts("cmd", parameters, tmp_path)
    done = run(files[INIT], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    ignored = scripts("cmd", parameters, tmp_path, policy="ignore")
    done = run(ignored[INIT], tmp_path)
    assert done.returncode == 0
    assert said in done.stderr
    assert BEFORE not in ignored


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"callbacks": []},
        {"callbacks": [{"event": "taskFails"}]},
        {"callbacks": [{"event": "taskStarts", "commands": []}]},
        {"preCommands": []},
    ],
)
def test_cmd_may_have_nothing_to_do(parameters, tmp_path):
    """An event that it does not know is one that never happens."""
    assert set(scripts("cmd", parameters, tmp_path)) == {"command.sh"}


@pytest.mark.parametrize("policy", ["Ignore", "IGNORE"])
def test_ignore_has_to_be_small_for_what_a_plugin_prepares(policy, tmp_path):
    """Of its commands it is read in any case."""
    assert run(scripts("cmd", {"callbacks": [{}]}, tmp_path, policy=policy)[INIT], tmp_path).returncode == 1
    files = scripts("cmd", {"preCommands": ["false", "echo went on"]}, tmp_path, policy=policy)
    done = run(files["before-0.sh"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "went on\n")


@pytest.mark.slow
def test_no_policy_forgives_what_the_runtime_does_itself(v2, tmp_path):
    """It looks for the plugin, and reads its parameters."""
    files = scripts("cmd", {"preCommands": ["echo '<% $parameters.nope %>'"]}, tmp_path, policy="ignore")
    assert run(files[INIT], tmp_path).returncode == 1
    job = v2.run("true", extras=plugin("nosuch", {}, failurePolicy="ignore"))
    assert job["jobStatus"]["appExitCode"] == 1


# parameters


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo '<% $parameters.nope %>'", "<% $parameters.nope %> refers to nothing"),
        ("echo <% $parameters.n.x %>", "<% $parameters.n.x %> refers to nothing"),
        ("echo <% $parameters.list[2] %>", "<% $parameters.list[2] %> refers to nothing"),
        ("echo <% $parameters.list.0 %>", "<% $parameters.list.0 %> refers to nothing"),
        ("echo <% $secrets.nope %>", "<% $secrets.nope %> refers to nothing"),
        ("echo <% $data.uri[0] %>", "<% $data.uri[0] %> refers to nothing"),
        ("echo <% $other.x %>", "<% $other.x %> refers to nothing"),
        ("echo <% $parameters.n %>", "<% $parameters.n %> is no text"),
        ("echo <% $parameters.list %>", "<% $parameters.list %> is no text"),
        (BOTH_QUOTES, "both kinds of quotes"),
    ],
)
def test_parameters_that_the_runtime_cannot_read_fail_the_task(command, said, tmp_path):
    """A reference to nothing or to no text, and a text that is no YAML as Python writes it."""
    given = {"n": 3, "list": ["a", "b"]}
    files = scripts("cmd", {"preCommands": [command]}, tmp_path, parameters=given, secrets={"pw": "hush"})
    done = run(files[INIT], tmp_path)
    assert done.returncode == 1
    assert "the plugin cmd cannot get its parameters: " in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "arrives"),
    [
        ("echo <% $parameters.list[1] %> <%$parameters.deep.er%>", "echo b c"),
        ("echo '<% $data.uri[0] %>'", "echo '/set'"),
        ("echo <% $parameters.list[0]x %>", "echo a"),
        ("echo '<% $secrets.pw %>'", "echo 'it's \"hush\"'"),  # exactly: the real one would fail over it
        ("echo one\necho two", "echo one\\necho two"),
        ("echo 'one'\necho two", "echo 'one'\necho two"),
        ("tr '\\n' ' '", "tr '\\n' ' '"),
        ("tr x \\\\", "tr x \\\\\\\\"),
    ],
)
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


@pytest.mark.slow
def test_a_prerequisite_needs_no_dot_before_the_name_of_its_plugin(v2):
    """The runtime cuts one character, whatever it is; of the bare prefix nothing is left."""
    kind = "com.microsoft.pai.runtimeplugin"
    roles = {"main": task_role("true", prerequisites=["p"])}
    script = {"name": "p", "type": "script", "callbacks": [{"event": "taskStarts", "commands": ["echo ran"]}]}
    job = v2.run(roles=roles, prerequisites=[{**script, "plugin": f"{kind}.cmd"}])
    assert v2.log(job, name="runtime.log") == "ran\n"
    job = v2.run(roles=roles, prerequisites=[{**script, "plugin": kind}])
    assert job["jobStatus"]["appExitCode"] == 1


@pytest.mark.slow
def test_plugins_that_are_no_list_fail_the_task(v2):
    """An object has keys, and they are no plugins; the server looks at them only for want of storages."""
    one = {"plugin": "cmd", "parameters": {"preCommands": ["true"]}}
    extras = {"com.microsoft.pai.runtimeplugin": one, "storages": [{"name": "nfs1"}]}
    assert v2.run("true", extras=extras)["jobStatus"]["appExitCode"] == 1


# git


@pytest.mark.slow
def test_git_brings_what_can_be_seen(repository, v2):
    """Its files are moved by ``*``: no .git, and nothing that begins with a dot."""
    parameters = {"repo_uri": str(repository), "options": ["--depth 1 --no-local"], "clone_dir": "a/code"}
    job = v2.run("ls -A a/code", "cat a/code/f a/code/d/g", extras=plugin("git", parameters))
    assert v2.log(job) == "d\nf\nhello\ndeep\n", v2.log(job, name="runtime.log")


@pytest.mark.slow
def test_git_leaves_no_address_behind(repository, v2, local_pai):
    """There may be a token in it."""
    job = v2.run("true", extras=plugin("git", {"repo_uri": f"file://{repository}"}))
    assert job["jobStatus"]["state"] == "SUCCEEDED"
    folder = next(local_pai.data.glob(f"jobs/*{job['name']}/attempt1/main-0"))
    assert sorted(path.name for path in (folder / "code").iterdir()) == [".hidden", "d", "f"]


@pytest.mark.parametrize("parameters", [{}, {"clone_dir": "there"}, {"repo_uri": "/nowhere/at/all"}])
@pytest.mark.parametrize(("policy", "code"), [("fail", 1), ("ignore", 0)])
def test_git_needs_a_repository_that_it_can_clone(parameters, policy, code, tmp_path):
    """With and without a place for it."""
    (tmp_path / "main-0").mkdir()
    done = run(scripts("git", parameters, tmp_path, policy=policy)[INIT], tmp_path)
    assert done.returncode == code
    assert "the plugin git cannot" in done.stderr


@pytest.mark.slow
def test_git_moves_nothing_where_its_failure_is_ignored(v2):
    """There is nothing to move."""
    parameters = {"repo_uri": "/nowhere/at/all", "clone_dir": "there"}
    job = v2.run("ls", extras=plugin("git", parameters, failurePolicy="ignore"))
    assert (job["jobStatus"]["state"], v2.log(job)) == ("SUCCEEDED", "")


@pytest.mark.slow
def test_git_takes_no_folder_that_has_something_in_it(repository, v2):
    """That is found out before the command, so 255."""
    first = {"plugin": "cmd", "parameters": {"preCommands": ["mkdir there", "touch there/x"]}}
    clone = {"plugin": "git", "parameters": {"repo_uri": str(repository), "clone_dir": "there"}}
    job = v2.run("echo ran", extras={"com.microsoft.pai.runtimeplugin": [first, clone]})
    assert (job["jobStatus"]["appExitCode"], v2.log(job)) == (255, "")
    assert "destination path 'there' already exists" in v2.log(job, name="runtime.log")


@pytest.mark.slow
def test_two_repositories_are_one_too_many(repository, v2):
    """Both are cloned into one folder."""
    clones = [
        {"plugin": "git", "parameters": {"repo_uri": str(repository), "clone_dir": place}} for place in "ab"
    ]
    job = v2.run("true", extras={"com.microsoft.pai.runtimeplugin": clones})
    assert job["jobStatus"]["appExitCode"] == 1


# ssh, tensorboard


@pytest.mark.slow
def test_an_ssh_barrier_of_no_minutes_fails_the_job_at_once(v2):
    """With 249, which is not tried again."""
    parameters = {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": 0}
    roles = {"main": task_role("true"), "other": task_role("true", prerequisites=["p"])}
    slow = {
        "name": "p",
        "type": "script",
        "plugin": "com.microsoft.pai.runtimeplugin.cmd",
        "callbacks": [{"event": "taskStarts", "commands": ["sleep 60"]}],
    }
    job = v2.run(roles=roles, prerequisites=[slow], extras=plugin("ssh", parameters), jobRetryCount=1)
    assert (job["jobStatus"]["appExitCode"], job["jobStatus"]["retries"]) == (249, 0)


def barrier(timeout, tmp_path, policy="fail"):
    """Return the script of a barrier that waits for a task that has not come up."""
    parameters = {"jobssh": True, "sshbarrier": True, "sshbarrierTimeout": timeout}
    document = json.loads(
        protocol(
            roles={"main": task_role("true", instances=2)},
            extras=plugin("ssh", parameters, failurePolicy=policy),
        )
    )
    spec = job_spec(document)
    (tmp_path / "main-0").mkdir()
    return role_scripts(spec, spec["taskRoles"][0], {}, ["main-1"], str(tmp_path / "main-0"))["before-0.sh"]


@pytest.mark.parametrize("timeout", [0, -1, None, True, "NOT_SET"])
def test_an_ssh_barrier_of_no_minutes_does_not_wait(timeout, tmp_path):
    """A word is a variable of bash; one that is not set is 0."""
    done = run(barrier(timeout, tmp_path), tmp_path)
    assert (done.returncode, done.stdout) == (10, "")


@pytest.mark.parametrize(("timeout", "minutes"), [("", "300"), ("5 6", "300"), (7, "7")])
def test_an_ssh_barrier_takes_one_word_for_its_minutes(timeout, minutes, tmp_path):
    """None, and more than one, are as good as none."""
    assert f"seconds=$(( {minutes} * 60 ))" in barrier(timeout, tmp_path)


@pytest.mark.parametrize("timeout", [0.5, "5m"])
def test_an_ssh_barrier_counts_in_whole_minutes(timeout, tmp_path):
    """Bash cannot reckon with anything else."""
    done = run(barrier(timeout, tmp_path), tmp_path)
    assert done.returncode == 1
    assert "sshbarrierTimeout is no whole number of minutes" in done.stderr


def test_an_ssh_barrier_that_waits_in_vain_can_be_ignored(tmp_path):
    """Then the command runs without the others."""
    done = run(barrier(0, tmp_path, "ignore"), tmp_path)
    assert done.returncode == 0
    assert "SSH barrier reaches max retry count" in done.stderr


@pytest.mark.parametrize(
    ("user", "fails"),
    [
        ({"type": "custom", "value": "ssh-rsa AAAA"}, False),
        ({"type": "custom", "value": ""}, False),
        (None, False),
        (True, True),
        ({"type": "custom", "value": 5}, True),
    ],
)
def test_ssh_fails_over_a_userssh_that_the_real_one_fails_over(user, fails, tmp_path):
    assert (INIT in scripts("ssh", {"userssh": user}, tmp_path)) is fails


@pytest.mark.slow
def test_tensorboard_has_strict_variables(v2):
    """Its script runs under nounset."""
    parameters = {"port": 6006, "logdir": {"run": "$NOT_SET_ANYWHERE"}}
    job = v2.run("true", extras=plugin("tensorboard", parameters))
    assert job["jobStatus"]["appExitCode"] == 255
    assert "NOT_SET_ANYWHERE: unbound variable" in v2.log(job, name="runtime.log")


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
    history = v2.send("GET", f"/jobs/admin~{job['name']}/job-attempts").json()
    uid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    assert uid.fullmatch(said.pop("FC_TASKROLE_UID"))
    assert said == {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": "main",
        "FC_TASK_INDEX": "0",
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-main-0",
        "FC_FRAMEWORK_UID": history[0]["uid"],
        "FC_FRAMEWORK_ATTEMPT_ID": "1",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": status["appId"],
        "FC_CONFIGMAP_UID": status["appId"].removeprefix("1_"),
        "FC_TASK_UID": task["taskUid"],
        "FC_TASK_ATTEMPT_ID": "0",
        "FC_POD_UID": task["containerId"],
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"0_{task['containerId']}",
    }
    assert re.fullmatch("[0-9a-f]{32}", name)
