"""jobStatusChangeNotification: the events of a job that wants notifications."""

from __future__ import annotations

import pytest
from protocol_client import protocol
from waiting import wait_until

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import Settings

ALL = dict.fromkeys(("running", "succeeded", "stopped", "failed", "retried"), True)


def notified(v2, name):
    """Return what the events of a job tell of, the first one first."""
    events = v2.send("GET", f"/jobs/{name}/events").json()["data"]
    return [
        event["message"] for event in reversed(events) if event["reason"] == "JobStatusChangeNotification"
    ]


@pytest.mark.slow
def test_a_job_has_an_event_for_each_change_that_it_asks_for(v2):
    """And for no other; a job that does not ask has none."""
    name = v2.submit(protocol("true", extras={"jobStatusChangeNotification": ALL}))
    v2.wait(name)
    assert notified(v2, name) == [f"job {name} is running", f"job {name} has succeeded"]
    name = v2.submit(
        protocol("true", extras={"jobStatusChangeNotification": {"failed": True, "running": False}})
    )
    v2.wait(name)
    assert notified(v2, name) == []
    name = v2.submit(protocol("exit 1", extras={"jobStatusChangeNotification": {"failed": True}}))
    v2.wait(name)
    assert notified(v2, name) == [f"job {name} has failed"]
    name = v2.submit(protocol("exit 1"))
    v2.wait(name)
    assert notified(v2, name) == []


@pytest.mark.slow
def test_retries_and_stops_are_notified(v2, tmp_path):
    """Running once, however often it is tried again."""
    command = f"[ -e {tmp_path}/again ] && sleep 60; touch {tmp_path}/again; exit 1"
    name = v2.submit(protocol(command, jobRetryCount=1, extras={"jobStatusChangeNotification": ALL}))
    wait_until(lambda: len(notified(v2, name)) == 2)
    v2.stop(name)
    v2.wait(name)
    assert notified(v2, name) == [
        f"job {name} is running",
        f"job {name} is tried again",
        f"job {name} was stopped",
    ]


def test_rate_limits_are_refused_without_the_v2_api(tmp_path):
    with pytest.raises(ConfigError, match=r"^--rate-limits are of the v2 API, not of v1; leave them out"):
        Settings(tmp_path, api="v1", rate_limits="default").check()
