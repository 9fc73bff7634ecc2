"""How many requests a job sends to HDFS."""

from __future__ import annotations

import http.client

import pytest
from train_task import Train

from luigi_pai import PaiJobFailed


@pytest.mark.parametrize("ends_as", ["SUCCEEDED", "FAILED"])
@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
@pytest.mark.usefixtures("hdfs")
def test_a_job_sends_at_most_twelve_requests_to_hdfs(pai, monkeypatch, release, ends_as):
    """From complete() to the recorded end, with the redirects to DataNodes."""
    pai.release = release
    pai.plan = {"ends_as": ends_as, "runs_for": 5.0}
    sent, put = [], http.client.HTTPConnection.putrequest

    def note(connection, method, url, *args, **kwargs):
        sent.extend([f"{method} {url}"] if "/webhdfs/v1" in url else [])
        return put(connection, method, url, *args, **kwargs)

    monkeypatch.setattr(http.client.HTTPConnection, "putrequest", note)
    task = Train()
    assert not task.complete()
    try:
        task.run()
    except PaiJobFailed:
        assert ends_as == "FAILED"
    assert task.complete() == (ends_as == "SUCCEEDED")
    assert len(sent) <= 12, sent
