"""What a local LTP 1.5 takes as a job, and the words in which it refuses one."""

from __future__ import annotations

import copy
import json
import random
from datetime import datetime, timedelta, timezone

import pytest
from job_files import all_files
from local_client import unique
from protocol_client import ProtocolClient, plugin, protocol, task_role

from luigi_pai.local import LocalPai
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.releases.ltp_rules import javascript_date
from luigi_pai.local.releases.release import LTP_1_5, OPENPAI_1_8
from luigi_pai.local.rest.v2.submission import read_protocol

LATER = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()
BEFORE = "2020-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def admin():
    """The administrator of an LTP; those without leave for anything have none, either."""
    with LocalPai(api="ltp") as server:
        yield ProtocolClient(server)


@pytest.fixture(scope="module")
def anna(admin):
    body = {"username": "anna", "password": "annas-password", "virtualCluster": []}
    assert admin.send("POST", "/users", body).status_code == 201
    return ProtocolClient(admin.server, "anna", "annas-password")


def gives(admin, **extension):
    """Give anna's record an extension."""
    fields = {"quota": None, "jobPriority": None, "jobExpiration": None, **extension}
    reply = admin.send("PUT", "/users/anna/extension", {"extension": fields})
    assert reply.status_code == 201, reply.text


def said(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body["message"]


# ---------------------------------------------------------------- the schema

WRONG = [None, True, -1, 1.5, "", "a b", [], [None], {"zz": {}}, {}, 10**30]
FULL = {
    "version": 1,
    "contributor": "c",
    "description": "d",
    "jobType": "training",
    "parameters": {"a": 1},
    "secrets": {"k": "v"},
    "deployments": [{"name": "d", "taskRoles": {"main": {"preCommands": ["x"]}}}],
    "defaults": {"deployment": "d"},
    "extras": {},
}
ROLE = {
    "completion": {"minFailedInstances": 1},
    "taskRetryCount": 0,
    "prerequisites": ["s"],
    "extraContainerOptions": {"shmMB": 1},
}


def full():
    """Return a protocol that has every field."""
    more = [{"name": "s", "type": "script", "uri": "x", "plugin": "p", "require": []}]
    return json.loads(protocol(prerequisites=more, roles={"main": task_role("true", **ROLE)}, **FULL))


def places(value, path=()):
    """Yield the place of every field of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def wrong_protocols(count, seed):
    """Yield documents with one field that the schema refuses, and the place of that field."""
    dice = random.Random(seed)
    everywhere = list(places(full()))
    while count:
        document = full()
        *above, last = place = dice.choice(everywhere)
        parent = document
        for step in above:
            parent = parent[step]
        how = dice.choice(["wrong", "missing", "unknown"])
        if how == "wrong":
            parent[last] = copy.deepcopy(dice.choice(WRONG))
        elif how == "missing" and isinstance(parent, dict):
            del parent[last]
        elif isinstance(parent, dict):
            parent["nonsense field"] = 1
            place = (*above, "nonsense field")
        if LTP_1_5.schema_errors(document):
            count -= 1
            yield document, place


@pytest.mark.slow
def test_every_refusal_names_the_field(admin):
    """100 protocols, each with one wrong, missing or unknown field."""
    asked = list(wrong_protocols(100, seed=20260209))
    named = 0
    for document, place in asked:
        status, code, message = said(admin.post(json.dumps(document)))
        assert (status, code) == (400, "InvalidProtocolError")
        told = set()
        for item in json.loads(message):
            params = item["params"]
            last = params.get("missingProperty", params.get("additionalProperty"))
            told.add(item["instancePath"] + ("" if last is None else f"/{last}"))
        here = "".join(f"/{step}" for step in place)
        named += any(path == here or path.startswith(f"{here}/") for path in told)
    assert named == len(asked) == 100


def verdict(text, release):
    try:
        return read_protocol(text, release)["name"]
    except ApiError as error:
        return error.status, error.code


NOBODY_MEANS = ("indented_by_tabs.yaml", "item_left_out.yaml", "taken_and_breaks_later.yaml")
"""What the reader of 1.8 takes for another thing than is meant: the local server answers 500."""


@pytest.mark.slow
def test_protocols_have_the_verdict_of_their_server():
    """Those of 1.8 are taken or refused as 1.8 did, and by LTP too unless it was seen to judge otherwise."""
    files = [file for file in all_files("v2") if file.name not in NOBODY_MEANS]
    for file in files:
        on_ltp = file.verdicts.get("ltp-v1.5", file.verdicts["v1.8.0"])
        for release, expected in ((OPENPAI_1_8, file.verdicts["v1.8.0"]), (LTP_1_5, on_ltp)):
            found = verdict(file.text, release)
            if expected["accept"]:
                assert isinstance(found, str), (file.name, found)
            else:
                error = expected["error"]
                assert found == (error["status"], error.get("code")), file.name
    assert len(files) > 20


def test_a_yaml_error_and_missing_instances_are_failures(admin):
    """As on 1.8."""
    assert admin.post("a: [1, 2").status_code == 500
    role = task_role("true")
    del role["instances"]
    assert admin.post(protocol(roles={"main": role})).status_code == 500


# ---------------------------------------------------------------- types of jobs


def test_a_job_of_inference_names_what_its_address_is_made_of(admin):
    status, code, message = said(admin.post(protocol("true", jobType="inference")))
    assert (status, code) == (400, "InvalidProtocolError")
    assert message.startswith("The following parameters must be specified for inference job:\n")
    known = {"INTERNAL_SERVER_IP": "1", "INTERNAL_SERVER_PORT": "2"}
    reply = admin.post(protocol("true", jobType="inference", parameters=known))
    assert said(reply)[2] == "Parameter API_KEY must be specified for inference job."
    whole = protocol("true", jobType="inference", parameters={**known, "API_KEY": "k"})
    assert admin.post(whole).status_code == 202


def test_what_1_8_refuses_of_names_is_refused(admin):
    reply = admin.post(protocol(roles={"main": task_role("true", dockerImage="nope")}))
    assert said(reply) == (400, "InvalidProtocolError", "Prerequisite nope does not exist.")


# ---------------------------------------------------------------- leave


def job_of(gpus, instances=1, **extras):
    role = task_role("true", instances=instances)
    role["resourcePerInstance"]["gpu"] = gpus
    return protocol(roles={"main": role, "other": task_role("true")}, extras=extras)


@pytest.mark.slow
def test_a_quota_of_gpus_holds_until_it_ends(admin, anna):
    """For all instances together; -1 is none."""
    gives(admin, quota={"maxGpusPerJob": 3, "expiration": LATER})
    assert said(anna.post(job_of(2, 2))) == (
        403,
        "NoEnoughQuotaError",
        "You have exceeded the maximum number of GPUs allowed per job. Max GPUs per job: 3",
    )
    assert anna.post(job_of(3)).status_code == 202
    for quota in (
        {"maxGpusPerJob": 3, "expiration": BEFORE},
        {"maxGpusPerJob": -1, "expiration": LATER},
        {"maxGpusPerJob": 3},
        {"expiration": LATER},
    ):
        gives(admin, quota=quota)
        assert anna.post(job_of(2, 2)).status_code == 202
    assert admin.post(job_of(2, 2)).status_code == 202


@pytest.mark.slow
def test_a_quota_comes_before_the_name_and_after_the_schema(admin, anna):
    """The order of the checks."""
    gives(admin)
    name = unique()
    assert anna.post(protocol("true", name=name)).status_code == 202
    gives(admin, quota={"maxGpusPerJob": 0, "expiration": LATER})
    again = json.loads(job_of(1))
    assert anna.post(json.dumps({**again, "name": name})).status_code == 403
    assert anna.post(json.dumps({**again, "name": name, "type": "x"})).status_code == 400
    assert anna.post(protocol("true", name=name)).status_code == 409


@pytest.mark.parametrize(
    ("extension", "code"),
    [
        ({}, "NoJobPriorityError"),
        ({"jobPriority": 2, "jobExpiration": LATER}, "NoJobPriorityError"),
        ({"jobPriority": 1, "jobExpiration": "soon"}, "InvalidJobPriorityExpirationError"),
        ({"jobPriority": 1, "jobExpiration": BEFORE}, "ExpiredJobPriorityExpirationError"),
        ({"jobPriority": 1}, "ExpiredJobPriorityExpirationError"),
    ],
)
def test_the_class_prod_needs_leave(admin, anna, extension, code):
    """The other classes need none."""
    gives(admin, **extension)
    assert said(anna.post(job_of(0, hivedScheduler={"jobPriorityClass": "prod"})))[:2] == (403, code)
    for other in ("oppo", "default"):
        assert anna.post(job_of(0, hivedScheduler={"jobPriorityClass": other})).status_code == 202


def test_who_has_leave_may_submit_with_the_class_prod(admin, anna):
    gives(admin, jobPriority=1, jobExpiration=LATER)
    assert anna.post(job_of(0, hivedScheduler={"jobPriorityClass": "prod"})).status_code == 202


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        (None, 0),
        (5, 5),
        ("1970-01-02", 86_400_000),
        ("1970-01", 0),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("Thu, 01 Jan 1970 00:00:02 GMT", 2000),
    ],
)
def test_dates_are_read_as_javascript_reads_them(text, milliseconds):
    """What is none is not a number."""
    assert javascript_date(text) == milliseconds
    assert javascript_date("soon") != javascript_date("soon")
    assert javascript_date("1970-13-01") != javascript_date("1970-13-01")


# ---------------------------------------------------------------- extras


@pytest.mark.parametrize(
    ("storage", "code"),
    [
        ({"enabled": True}, "MissingMountPathError"),
        ({"enabled": True, "hostpath": "/a", "mntpath": ""}, "MissingMountPathError"),
        ({"enabled": True, "hostpath": "/a:/b", "mntpath": "/c"}, "MountPathMismatchError"),
        ({"enabled": True, "hostpath": "/a", "mntpath": "c"}, "InvalidPathError"),
        ({"enabled": True, "hostpath": "/a b", "mntpath": "/c"}, "InvalidPathError"),
    ],
)
def test_folders_of_nodes_are_asked_for_in_pairs(admin, storage, code):
    status, found, message = said(admin.post(protocol("true", extras={"enableLocalStorage": storage})))
    assert (status, found) == (400, code)
    if code == "InvalidPathError":
        assert message.startswith("Invalid Linux path provided for hostpath (/a")


@pytest.mark.parametrize(
    "storage",
    [{"enabled": False}, {"hostpath": "/a"}, {"enabled": True, "hostpath": "/a/", "mntpath": "/c.d-e"}],
)
def test_folders_of_nodes_are_taken(admin, storage):
    assert admin.post(protocol("true", extras={"enableLocalStorage": storage})).status_code == 202


def test_only_nodes_that_take_no_jobs_may_be_forced(admin):
    """The one here takes jobs; the server fails over those that it does not know."""
    reply = admin.post(protocol("true", extras={"forceNodes": "x, localhost"}))
    assert said(reply) == (400, "SchedulableNodeError", "The following nodes are schedulable: localhost")
    status, code, _ = said(admin.post(protocol("true", extras={"forceNodes": "x"})))
    assert (status, code) == (500, None)
    assert admin.post(protocol("true", extras={"forceNodes": ""})).status_code == 202


def test_storages_come_before_folders_of_nodes(admin):
    extras = {"storages": [{"name": "nope"}], "enableLocalStorage": {"enabled": True}}
    assert said(admin.post(protocol("true", extras=extras)))[:2] == (404, "NoStorageError")


def test_1_8_takes_all_of_it(local_pai_v2):
    """The fields of LTP mean nothing there; only the type of a job is none of its fields."""
    client = ProtocolClient(local_pai_v2)
    extras = {
        "enableLocalStorage": {"enabled": True},
        "forceNodes": "localhost",
        "hivedScheduler": {"jobPriorityClass": "prod"},
        **plugin("cmd", {}),
    }
    assert client.post(protocol("true", extras=extras)).status_code == 202
    assert client.post(protocol("true", jobType="others")).status_code == 400
