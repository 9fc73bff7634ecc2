"""What luigi-pai says of what a release does not have."""

from __future__ import annotations

import json

import pytest

WARNING = "warning: this OpenPAI does not support tags (1.3 and later do), so --tag finds no jobs"


@pytest.mark.parametrize(("release", "warns"), [("0.7.1", True), ("1.0.1", True), ("1.8.0", False)])
def test_tags_of_a_release_without_tags(pai, pai_command, release, warns):
    """That nothing is found is no news of the jobs then."""
    pai.release = release
    pai.add("train", runs_for=60)
    listed = pai_command("list", "-t", "good")
    assert (f"luigi-pai list: {WARNING}" in " ".join(listed.stderr.split())) == warns
    stopped = pai_command("stop", "-t", "good", "--yes")
    assert (f"luigi-pai stop: {WARNING}" in " ".join(stopped.stderr.split())) == warns
    assert pai.jobs["train"].state == "RUNNING"


@pytest.mark.parametrize("release", ["0.7.1", "0.15.0", "1.0.1", "1.8.0"])
def test_a_job_too_large_is_warned_of_where_the_api_is_not_known(pai, pai_command, tmp_path, release):
    """0.15 to 1.0 fail the first request for virtual clusters, which is that of v1."""
    pai.release = release
    pai.virtual_clusters = {"default": {"resourcesTotal": {"GPUs": 8, "vCores": 64, "memory": 99999}}}
    role = {"name": "main", "gpuNumber": 9, "cpuNumber": 1, "memoryMB": 100, "command": "true"}
    (tmp_path / "train.json").write_text(json.dumps({"jobName": "train", "image": "x", "taskRoles": [role]}))
    result = pai_command("submit", str(tmp_path / "train.json"))
    assert "8 GPUs in all, the job wants 9: it would wait forever" in " ".join(result.stderr.split())
    assert pai.posts() == ["train"]
