"""A local OpenPAI over an HDFS that is there already: another local one, and a real one if there is one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import requests
from hdfs_backend import NEEDS_REAL_HDFS
from local_cases import cases
from local_client import LocalClient, unique
from local_command import run_python
from webhdfs_server import serving

from luigi_pai.local import LocalPai
from luigi_pai.local.hdfs.command.executable import install


@dataclass(frozen=True)
class Outside:
    """An HDFS, who may do everything on it, what it calls itself, and whether it knows owners."""

    url: str
    user: str
    fs_uri: str
    has_owners: bool

    def get(self, path, operation="GETFILESTATUS"):
        query = {"op": operation, "user.name": self.user}
        return requests.get(f"{self.url}/webhdfs/v1{path}", params=query, timeout=20)


@pytest.fixture(scope="module", params=["local", pytest.param("real", marks=NEEDS_REAL_HDFS)])
def outside(request, tmp_path_factory):
    """Each HDFS in turn."""
    if request.param == "local":
        with serving(tmp_path_factory.mktemp("outside") / "root") as url:
            yield Outside(url, "admin", url.replace("http", "hdfs"), has_owners=False)
    elif "HDFS_TEST_FS_URI" not in os.environ:
        pytest.skip("HDFS_TEST_FS_URI does not say what the HDFS of HDFS_TEST_URL calls itself")
    else:
        yield Outside(
            *(os.environ[f"HDFS_TEST_{name}"] for name in ("URL", "USER", "FS_URI")), has_owners=True
        )


@pytest.fixture(scope="module")
def pai(outside):
    """A local OpenPAI over it."""
    with LocalPai(api="v1", hdfs=outside.url, username=outside.user) as server:
        yield server


def test_it_says_where_that_hdfs_is_and_serves_none_itself(pai, outside):
    """Its WebHDFS is that one, its fs_uri what that one calls itself."""
    assert (pai.webhdfs_url, pai.fs_uri) == (outside.url, outside.fs_uri)
    own = requests.get(f"{pai.url}/webhdfs/v1/?op=GETFILESTATUS", timeout=20)
    assert (own.status_code, own.json()["code"]) == (404, "NoApiError")
    assert not (pai.data / "hdfs").exists()


@pytest.mark.slow
def test_a_job_reads_and_writes_that_hdfs(pai, outside):
    """The variables of the task lead there; code and output lie there, and the output is the user's."""
    client = LocalClient(pai)
    name = unique("outside")
    code = f"{outside.url}/webhdfs/v1/{name}/code/hello?op=CREATE&user.name={outside.user}"
    requests.put(code, data=b"hello", timeout=20).raise_for_status()
    command = "echo $PAI_DEFAULT_FS_URI $LUIGI_PAI_WEBHDFS_URL; hdfs dfs -put code/hello $PAI_OUTPUT_DIR/one"
    job = client.run(command, name=name, codeDir=f"$PAI_DEFAULT_FS_URI/{name}/code")
    assert job["jobStatus"]["state"] == "SUCCEEDED", client.log(job, stream="stderr")
    assert client.log(job).split() == [outside.fs_uri, outside.url]
    assert outside.get(f"/Output/{outside.user}/{name}/one", "OPEN").text == "hello"
    folder = outside.get(f"/Output/{outside.user}/{name}").json()["FileStatus"]
    assert folder["owner"] == outside.user


@pytest.mark.slow
def test_every_user_of_the_openpai_can_have_jobs_there(pai, outside):
    """The folders of all jobs are shared; a user's own belong to that user."""
    admin = LocalClient(pai)
    user = f"u{uuid.uuid4().hex[:8]}"
    body = {"username": user, "password": "secret-1", "admin": False, "modify": False}
    assert admin.send("PUT", "/user", body).status_code == 201
    client = LocalClient(pai, user, "secret-1")
    name = unique("other-user")
    job = client.wait(client.submit("echo | hdfs dfs -put - $PAI_OUTPUT_DIR/made", name=name))
    assert job["jobStatus"]["state"] == "SUCCEEDED", client.log(job, stream="stderr")
    status = outside.get(f"/Output/{user}/{name}/made").json()["FileStatus"]
    assert status["owner"] == (user if outside.has_owners else outside.user)


@pytest.mark.slow
def test_a_command_gets_a_configuration_that_leads_there(outside):
    """The luigi.cfg of `local --hdfs URL -- COMMAND`, its variables, and the hdfs command on its PATH."""
    code = (
        "import json, os, subprocess, luigi.configuration\n"
        "section = dict(luigi.configuration.get_config().items('OpenPai'))\n"
        "names = ('PAI_DEFAULT_FS_URI', 'LUIGI_PAI_WEBHDFS_URL', 'HADOOP_USER_NAME')\n"
        "subprocess.run(['hdfs', 'dfs', '-test', '-d', '/Output'], check=True)\n"
        "print(json.dumps({'section': section, 'variables': [os.environ[name] for name in names]}))\n"
    )
    words = ["--hdfs", f"{outside.url}/webhdfs/v1/", "--user", outside.user]
    seen = json.loads(run_python(code, "--port", "0", *words).stdout)
    assert seen["variables"] == [outside.fs_uri, outside.url, outside.user]
    keys = ("fs_uri", "webhdfs_url", "hdfs_user")
    assert [seen["section"][key] for key in keys] == [outside.fs_uri, outside.url, outside.user]


@pytest.mark.slow
def test_fs_uri_is_taken_as_it_is_given(outside):
    """--fs-uri is for an HDFS that does not say, or that jobs know under another name."""
    with LocalPai(hdfs=outside.url, fs_uri="hdfs://mycluster/", username=outside.user) as server:
        assert server.fs_uri == "hdfs://mycluster"


@pytest.mark.slow
@NEEDS_REAL_HDFS
def test_a_large_put_that_is_refused_says_why(tmp_path):
    """A real DataNode refuses before it has read everything; the command shows its reason, no broken pipe."""
    install(tmp_path / "bin")
    (tmp_path / "big").write_bytes(bytes(50_000_000))
    done = subprocess.run(
        [str(tmp_path / "bin" / "hdfs"), "dfs", "-put", str(tmp_path / "big"), "/refused"],
        env={"LUIGI_PAI_WEBHDFS_URL": os.environ["HDFS_TEST_URL"], "HADOOP_USER_NAME": "nobody"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith('put: Permission denied: user=nobody, access=WRITE, inode="/"')


# ---------------------------------------------------------------- what is wrong with it


@pytest.mark.slow
def test_an_hdfs_that_goes_away_refuses_the_job_and_says_so(tmp_path):
    """A submission needs its folders: without HDFS it is an unknown error, as there, and no job is taken."""
    with serving(tmp_path / "root") as url:
        server = LocalPai(tmp_path / "data", api="v1", hdfs=url).start()
        client = LocalClient(server)
    try:
        reply = client.post("lost", "true")
        assert (reply.status_code, reply.json()["code"]) == (500, "UnknownError")
        host = url.removeprefix("http://")
        assert reply.json()["message"].startswith(f"HDFS at {url}: Call to {host} failed on connection ex")
        assert client.call("GET", "/jobs/lost").status_code == 404
    finally:
        server.close()


@contextmanager
def answering(*replies):
    """A server that gives each connection the next (head, body), and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve():
            for head, body in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    more = f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                    connection.sendall(f"HTTP/1.1 {head.replace('HOST', host)}\r\n{more}".encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://{host}"
        thread.join(20)


def refusal(exception, message):
    return json.dumps({"RemoteException": {"exception": exception, "message": message}})


ROOT = ("200 OK", '{"FileStatus": {"type": "DIRECTORY", "length": 0}}')


@pytest.mark.parametrize(("replies", "said"), cases("what_is_no_usable_hdfs_is_refused"))
def test_what_is_no_usable_hdfs_is_refused_at_the_start(replies, said, refused):
    """Exit code 2, one line that says what it is and what to do; no command is run."""
    with answering(*replies) as url:
        errors = refused("--hdfs", url, "--", "echo", "ran")
    assert errors.startswith(f"luigi-pai local: the HDFS at {url} cannot be used: ")
    assert said in errors
    assert len(errors.splitlines()) == 1


def test_a_folder_that_may_not_be_made_is_named(tmp_path, refused):
    """With whom to ask, and the commands to give them."""
    missing = refusal("FileNotFoundException", "File does not exist: /Output")
    denied = refusal("AccessControlException", "Permission denied: user=admin")
    replies = [ROOT, ("404 Not Found", missing), ("403 Forbidden", denied)]
    with answering(*replies) as url:
        words = ("--hdfs", url, "--fs-uri", "hdfs://nn:8020", "--data", str(tmp_path / "d"))
        errors = refused(*words, "--", "true")
    assert "user admin may not make /Output (Permission denied: user=admin); use --user to name" in errors
    assert "hdfs dfs -mkdir -p /Output && hdfs dfs -chmod 777 /Output" in errors
    assert not (tmp_path / "d").exists()
