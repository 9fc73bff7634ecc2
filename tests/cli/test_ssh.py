"""luigi-pai ssh and ssh-config: what they run and show, with an ssh on PATH that records it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import responses
import yaml
from places import DATA, ROOT
from waiting import wait_until

from luigi_pai.api.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.local import LocalPai

CASES = yaml.safe_load((DATA / "cli" / "ssh.yaml").read_text("utf-8"))
URL = "http://pai.test:9186"
LINK = "http://10.0.0.4/a/10.0.0.4:5070/webhdfs/v1/Container/admin/train/ssh/keyFiles/train?op=OPEN"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nsecretsecret\n-----END RSA PRIVATE KEY-----\n"
SETTINGS = {
    "StrictHostKeyChecking": "no",
    "UserKnownHostsFile": "/dev/null",
    "LogLevel": "ERROR",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PasswordAuthentication": "no",
    "PreferredAuthentications": "publickey",
}
OPTIONS = [word for name in SETTINGS for word in ("-o", f"{name}={SETTINGS[name]}")]
OPTIONS += ["-o", "ClearAllForwardings=yes"]

SSH = """#!{python}
import json, os, stat, sys, time
words = sys.argv[1:]
key = words[words.index("-i") + 1] if "-i" in words else None
about = {{"words": words}}
if key:
    about |= {{"key": open(key).read(), "mode": stat.S_IMODE(os.stat(key).st_mode), "file": key}}
with open({record!r} + ".new", "w") as file:
    json.dump(about, file)
os.rename({record!r} + ".new", {record!r})
while os.path.exists({waits!r}):
    time.sleep(0.02)
sys.exit({code})
"""


class Ssh:
    """An ssh on PATH.

    Args:
        folder: for it and what it records.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._record = folder / "record.json"
        self.waits = folder / "waits"
        self.exits(0)

    def exits(self, code: int) -> None:
        """Let it end with an exit code."""
        text = SSH.format(python=sys.executable, record=str(self._record), waits=str(self.waits), code=code)
        (self.folder / "ssh").write_text(text)
        (self.folder / "ssh").chmod(0o755)

    @property
    def was_called(self) -> dict[str, Any] | None:
        """What it was called with; None if it was not."""
        return json.loads(self._record.read_text()) if self._record.exists() else None


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return Ssh(folder)


# ---------------------------------------------------------------- 0.7 to 0.14


def job_reply(state: str = "RUNNING", tasks: int = 1) -> dict[str, Any]:
    """Return the reply for a job, in the form that 0.7.1 sends."""
    statuses = [
        {
            "taskIndex": index,
            "containerId": f"container_e01_{index}",
            "containerIp": "127.0.0.1",
            "containerPorts": {"http": "30000", "ssh": "30001"},
            "containerGpus": 0,
            "containerLog": "http://nm:8042/node/containerlogs/x/admin/",
        }
        for index in range(tasks)
    ]
    status = {"name": "train", "username": "admin", "state": state, "createdTime": 1795161185551}
    return {
        "name": "train",
        "jobStatus": status,
        "taskRoles": {"worker": {"taskRoleStatus": {"name": "worker"}, "taskStatuses": statuses}},
    }


def ssh_reply(containers: int = 1, **about: Any) -> dict[str, Any]:
    """Return the reply of ``GET .../ssh``, in the form that the servers' API page shows."""
    return {
        "containers": [
            {"id": f"container_e01_{index}", "sshIp": f"10.0.0.{index + 5}", "sshPort": str(30010 + index)}
            | about
            for index in range(containers)
        ],
        "keyPair": {
            "folderPath": "hdfs://10.0.0.4:9000/Container/admin/train/ssh/keyFiles",
            "publicKeyFileName": "train.pub",
            "privateKeyFileName": "train",
            "privateKeyDirectDownloadLink": LINK,
        },
    }


@pytest.fixture
def rest(settings: Callable[..., None]) -> Iterator[responses.RequestsMock]:
    """A rest-server of 0.7.1 with a running job, its ssh and its key; none of it has to be asked for."""
    settings(pai_url=URL, username="admin", password="admin-password", api_version="v1", poll_patience=0.1)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(f"{URL}/api/v1/jobs", json=[])
        mock.get(f"{URL}/api/v1/jobs/train", json=job_reply())
        mock.get(f"{URL}/api/v1/jobs/train/ssh", json=ssh_reply())
        missing = {"code": "NoJobError", "message": "Job train__attempt2 is not found."}
        mock.get(f"{URL}/api/v1/jobs/train__attempt2", status=404, json=missing)
        mock.get(LINK, body=KEY)
        yield mock


def test_a_shell_with_the_key_of_the_job(rest, ssh, pai_command):
    """The key is in a private file while ssh runs, and gone afterwards; the token is not sent to its host."""
    pai_command("ssh", "train")
    called = ssh.was_called
    file = called["file"]
    ending = ["-i", file, "-o", "IdentitiesOnly=yes", "root@10.0.0.5"]
    assert called["words"] == ["-p", "30010", *OPTIONS, *ending]
    assert (called["key"], called["mode"]) == (KEY, 0o600)
    assert not Path(file).exists()
    (fetched,) = (call.request for call in rest.calls if call.request.url == LINK)
    assert "Authorization" not in fetched.headers


@pytest.mark.usefixtures("rest")
@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["--", "nvidia-smi | head"], ["root@10.0.0.5", "--", "nvidia-smi | head"]),
        (["worker", "--", "python", "-c", "print('a b')"], None),
        (["worker/0", "-l", "anna", "--", "ls"], ["anna@10.0.0.5", "--", "ls"]),
    ],
)
def test_a_command(words, ending, ssh, pai_command):
    """One word is a line for the shell, several are a program and its arguments."""
    pai_command("ssh", "train", *words)
    said = ssh.was_called["words"]
    assert said[-3:] == (ending or ["root@10.0.0.5", "--", """python -c 'print('"'"'a b'"'"')'"""])


@pytest.mark.usefixtures("rest")
@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_that_of_ssh(code, ssh, pai_command):
    """Which is that of the command, or 255."""
    ssh.exits(code)
    pai_command("ssh", "train", "--", "true", expect=code)
    assert ssh.was_called is not None


@pytest.mark.usefixtures("rest")
def test_no_ssh_on_this_machine(tmp_path, monkeypatch, pai_command):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = pai_command("ssh", "train", expect=2).stderr
    assert said == "luigi-pai ssh: there is no ssh on this machine's PATH: install the OpenSSH client\n"


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_refusal(case, rest, ssh, pai_command):
    """A line and an exit code, and no ssh is started: tests/data/cli/ssh.yaml has the cases."""
    replies = case.get("replies", {})
    if "job" in replies:
        rest.replace("GET", f"{URL}/api/v1/jobs/train", json=job_reply(**replies["job"]))
    if "ssh" in replies:
        reply = ssh_reply(**replies["ssh"]) | replies.get("changes", {})
        rest.replace("GET", f"{URL}/api/v1/jobs/train/ssh", json=reply)
    if "error" in replies:
        rest.replace("GET", f"{URL}/api/v1/jobs/train/ssh", status=404, json=replies["error"])
    if "key" in replies:
        rest.replace("GET", LINK, **replies["key"])
    for words, (code, message) in case["refused"].items():
        said = pai_command(*shlex.split(words), expect=code).stderr
        assert message in said
        assert said.startswith("luigi-pai ssh") or "is not a user name" in said
        assert "secret" not in said
    assert ssh.was_called is None


def test_each_task_has_its_address(rest, ssh, pai_command):
    rest.replace("GET", f"{URL}/api/v1/jobs/train", json=job_reply(tasks=3))
    rest.replace("GET", f"{URL}/api/v1/jobs/train/ssh", json=ssh_reply(2))
    pai_command("ssh", "train", "worker/1")
    assert ssh.was_called["words"][:2] == ["-p", "30011"]
    assert ssh.was_called["words"][-1] == "root@10.0.0.6"


def test_a_key_that_cannot_be_fetched(rest, ssh, pai_command):
    rest.replace("GET", LINK, body=ConnectionResetError("reset"))
    pai_command("ssh", "train", expect=3)
    assert ssh.was_called is None


@pytest.mark.usefixtures("rest")
def test_a_key_is_in_no_repr():
    access = Cluster(URL, "admin", password="x", api_version="v1").ssh("train")
    assert access.key == KEY
    assert "secret" not in repr(access)


@pytest.mark.usefixtures("rest")
def test_the_configuration_of_ssh(tmp_path, pai_command, monkeypatch):
    """A Host for each container; the key is kept where it is said, for the user only."""
    monkeypatch.chdir(tmp_path)
    said = pai_command("ssh-config", "train", "--key", "train key")
    assert said.stdout == (
        "Host train-worker-0\n"
        "    HostName 10.0.0.5\n"
        "    Port 30010\n"
        "    User root\n"
        + "".join(f"    {name} {value}\n" for name, value in SETTINGS.items())
        + f'    IdentityFile "{tmp_path / "train key"}"\n'
        "    IdentitiesOnly yes\n"
    )
    key = tmp_path / "train key"
    assert key.read_text() == KEY
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert pai_command("ssh-config", "train", "--key", "train key").stdout == said.stdout
    key.write_text("mine")
    refused = pai_command("ssh-config", "train", "--key", "train key", expect=2).stderr
    assert "train key already exists with different content: choose a new file" in refused
    assert key.read_text() == "mine"
    refused = pai_command("ssh-config", "train", "--key", "none/key", expect=2).stderr
    assert "none/key cannot be written: No such file or directory" in refused
    refused = pai_command("ssh-config", "train", expect=2).stderr
    assert "job train has a private key: use --key FILE, the file to store it in" in refused


SHOWN = """
import sys
import responses
sys.path[:0] = {folders!r}
from test_ssh import KEY, LINK, URL, job_reply, ssh_reply
from luigi_pai.cli import main
with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
    mock.get(URL + "/api/v1/jobs", json=[])
    mock.get(URL + "/api/v1/jobs/train", json=job_reply())
    mock.get(URL + "/api/v1/jobs/train/ssh", json=ssh_reply())
    mock.get(LINK, body=KEY)
    main(["ssh", "train"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_key_is_removed_when_the_command_is_ended(number, ssh, tmp_path):
    """The temporary file of it, as when a terminal is closed."""
    (tmp_path / "luigi.cfg").write_text(
        f"[OpenPai]\npai_url = {URL}\nusername = admin\npassword = x\napi_version = v1\n"
    )
    ssh.waits.touch()
    script = SHOWN.format(folders=[str(Path(__file__).parent), str(ROOT / "tests" / "support")])
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=dict(os.environ)) as process:
        file = Path(wait_until(lambda: ssh.was_called)["file"])
        assert file.exists()
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not file.exists()
    ssh.waits.unlink()


# ---------------------------------------------------------------- 0.15 and later


CMD = {"plugin": "cmd", "parameters": {"callbacks": [{"event": "taskStarts", "commands": ["true"]}]}}
USER_SSH = {"plugin": "ssh", "parameters": {"userssh": {"type": "custom", "value": "ssh-rsa AAAA anna"}}}


@pytest.fixture
def run(
    local_pai_v2: LocalPai, as_settings, settings, name, protocol_file, pai_command
) -> Iterator[Callable]:
    """Submit a job of two roles with these plugins, and wait until it runs, or waits for ever."""
    as_settings(local_pai_v2)
    settings(api_version="v2")
    here = Cluster(local_pai_v2.url, "admin", password=local_pai_v2.password, api_version="v2")

    def submit(plugins: list[dict[str, Any]] | None, *, waits: bool = False) -> str:
        rule = {"waits": True} if waits else {"after": None}
        local_pai_v2.script_jobs(job=name, **rule)
        file = Path(protocol_file(name, instances=2))
        document = yaml.safe_load(file.read_text())
        document["taskRoles"]["other"] = {**document["taskRoles"]["worker"], "instances": 1}
        document["extras"] = {} if plugins is None else {"com.microsoft.pai.runtimeplugin": plugins}
        file.write_text(json.dumps(document))
        pai_command("submit", str(file))
        while here.job(name).status().state.value != ("WAITING" if waits else "RUNNING"):
            time.sleep(0.02)
        return name

    yield submit
    here.stop(name)


def ports(server: LocalPai, name: str) -> dict[str, str]:
    """Return the port of ssh of each task, as the server shows it."""
    cluster = Cluster(server.url, "admin", password=server.password, api_version="v2")
    return {f"{role}/{index}": str(port) for (role, index), (_, port) in cluster.ssh(name).addresses.items()}


def test_a_shell_by_the_plugin(run, local_pai_v2, ssh, tmp_path, pai_command):
    """With the user's own key: what ssh finds, or a file."""
    name = run([USER_SSH])
    pai_command("ssh", name, "worker/1")
    port = ports(local_pai_v2, name)["worker/1"]
    assert ssh.was_called == {"words": ["-p", port, *OPTIONS, "root@127.0.0.1"]}
    key = tmp_path / "id_rsa"
    key.write_text("mine")
    pai_command("ssh", name, "other", "-i", str(key), "--", "ls")
    ending = ["-i", str(key), "-o", "IdentitiesOnly=yes", "root@127.0.0.1", "--", "ls"]
    assert ssh.was_called["words"][-7:] == ending
    assert key.exists()


def test_the_configuration_by_the_plugin(run, local_pai_v2, tmp_path, pai_command):
    """A Host for each of three tasks; there is no key to keep."""
    name = run([USER_SSH])
    shown = pai_command("ssh-config", name, "-l", "anna").stdout
    for task, port in ports(local_pai_v2, name).items():
        host = f"{name}-{task.replace('/', '-')}"
        assert f"Host {host}\n    HostName 127.0.0.1\n    Port {port}\n    User anna\n" in shown
    assert shown.count("Host ") == 3
    assert "IdentityFile" not in shown
    refused = pai_command("ssh-config", name, "--key", str(tmp_path / "key"), expect=2).stderr
    assert "has no key, because its ssh accepts yours: use --identity instead of --key" in refused
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        (None, "it has no ssh plugin; submit it with an ssh plugin that has your public key"),
        ([CMD], "it has no ssh plugin"),
        ([{"plugin": "ssh", "parameters": {"jobssh": True}}], "its ssh plugin is for its containers only"),
    ],
)
def test_a_job_whose_ssh_lets_no_user_in(plugins, text, run, ssh, pai_command):
    name = run(plugins)
    said = pai_command("ssh", name, "other", expect=1).stderr
    assert said.startswith(f"luigi-pai ssh: job {name} has no ssh: {text}")
    assert ssh.was_called is None


def test_a_plugin_for_some_roles(run, local_pai_v2, ssh, pai_command):
    """The others have no ssh."""
    name = run([{**USER_SSH, "taskroles": ["worker"]}])
    assert sorted(ports(local_pai_v2, name)) == ["worker/0", "worker/1"]
    said = pai_command("ssh", name, "other/0", expect=1).stderr
    assert said == f"luigi-pai ssh: job {name} has ssh only in the tasks of worker\n"
    assert ssh.was_called is None


def test_a_job_in_the_queue(run, ssh, pai_command):
    name = run([USER_SSH], waits=True)
    assert "is not running yet" in pai_command("ssh", name, "worker/0", expect=1).stderr
    assert ssh.was_called is None


def test_nobody_there(settings, ssh, pai_command):
    settings(pai_url="http://127.0.0.1:9", username="anna", password="secret-1")
    assert "cannot reach" in pai_command("ssh", "train", expect=3).stderr
    assert ssh.was_called is None
