"""What tests of whole pipelines share: code on HDFS, a build, and a process that remembers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import luigi
import requests

from luigi_pai import HdfsTarget, reset_clusters

if TYPE_CHECKING:
    from luigi_pai.local import LocalPai


class Code(luigi.Task):
    """Puts code on HDFS."""

    name = luigi.Parameter()

    def output(self):
        return HdfsTarget(f"$PAI_DEFAULT_FS_URI/{self.name}/code/lib/hello.txt")

    def run(self):
        with self.output().open("w") as file:
            file.write("from HDFS")


class CodeFolder:
    """Of a PaiTask with a ``name``: it needs that code."""

    def requires(self):
        return Code(self.name)

    @property
    def code_dir(self):
        return f"$PAI_DEFAULT_FS_URI/{self.name}/code/lib"


def new_process() -> None:
    """Forget what this process remembers, as a new one would."""
    reset_clusters()


def build(*tasks: luigi.Task) -> bool:
    return luigi.build(list(tasks), local_scheduler=True, log_level="WARNING")


def ask(server: LocalPai, path: str, method: str = "GET") -> requests.Response:
    """Send a request to a local OpenPAI as its user."""
    login = {"username": server.username, "password": server.password}
    token = requests.post(f"{server.url}/api/v1/token", json=login, timeout=5).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    return requests.request(method, f"{server.url}{path}", headers=headers, timeout=5)


def jobs_of(server: LocalPai, name: str) -> list[str]:
    """Return the names of the jobs whose names start so."""
    listed = ask(server, "/api/v2/jobs")
    if listed.status_code == requests.codes.not_found:
        listed = ask(server, "/api/v1/jobs")
    return sorted(row["name"] for row in listed.json() if row["name"].startswith(name))
