"""A Python of an image, and clusters of all APIs with HDFS and without."""

from __future__ import annotations

import subprocess
import sys
import uuid

import luigi
import pytest
from python_clusters import CLUSTERS, Cluster, label
from python_tasks import InImage


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """The Python of a virtual environment without luigi: what an image has."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python")


@pytest.fixture(params=CLUSTERS, ids=label)
def any_cluster(request, settings, bare_python, monkeypatch, tmp_path):
    """Each API, with HDFS and without any files; results and the like go to the folder of the test."""
    api, has_hdfs = request.param
    server = request.getfixturevalue(f"local_pai_{api}")
    section = {**server.luigi_section, "poll_min": 0.05, "poll_max": 0.5}
    if not has_hdfs:
        section = {
            key: value for key, value in section.items() if key not in ("webhdfs_url", "fs_uri", "storage")
        }
    settings(**section)
    monkeypatch.setattr(InImage, "python", bare_python)
    monkeypatch.chdir(tmp_path)
    luigi.task_register.Register.clear_instance_cache()
    return Cluster(server, api, has_hdfs, section)


@pytest.fixture
def run_id():
    """A text that no other test has: jobs of a session's servers need names of their own."""
    return uuid.uuid4().hex[:8]
