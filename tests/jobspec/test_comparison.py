"""Whether two jobs do the same: digests, and what differs from what a server has stored."""

from __future__ import annotations

import copy

import pytest
from job_cases import cases

from luigi_pai.jobspec.comparison import differing_fields, job_digest
from luigi_pai.jobspec.job import PaiJob, Port, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.templates.prerequisites import resolve

CASES = cases("comparison")

YAML = CASES["yaml"]


def job(name="a", **fields):
    role = TaskRole("w", fields.pop("command", "true"), portList=[Port("web")])
    return PaiJob(name, "ubuntu", [role], dataDir="$PAI_DEFAULT_FS_URI/data", **fields)


def digest(text):
    return job_digest(JobProtocol.from_yaml(text))


# ---------------------------------------------------------------- digests


def test_digests_stay_as_they_are():
    """They are kept for longer than a release of this package is in use."""
    assert digest(YAML) == "d9a1fedfc68eb40f"
    assert job_digest(job()) == "cc0cfdaeb95f51dc"


@pytest.mark.parametrize("table", ["same_digest", "other_digest"])
def test_only_what_a_job_does_is_in_its_digest(table):
    """Not its name, layout, order of keys, description and secrets."""
    for old, new in CASES[table]:
        assert old in YAML
        assert (digest(YAML.replace(old, new)) == digest(YAML)) is (table == "same_digest"), new
    assert job_digest(job("b__attempt2")) == job_digest(job("b"))
    assert job_digest(job(command="false")) != job_digest(job())
    assert job_digest(job(retryCount=1)) != job_digest(job())


# ---------------------------------------------------------------- v1 fields


def test_a_v1_job_does_not_differ_from_what_the_server_made_of_it():
    """Defaults filled in, the folder's variable replaced, an output folder made, under a later name."""
    mine = job().to_dict()
    stored = CASES["stored"]
    assert differing_fields(mine, stored) == []
    assert differing_fields({**mine, "virtualCluster": "", "outputDir": ""}, stored) == []


@pytest.mark.parametrize(("fields", "differing"), CASES["v1"])
def test_fields_of_v1_jobs_that_differ(fields, differing):
    assert differing_fields(job(**fields).to_dict(), job().to_dict()) == differing


@pytest.mark.parametrize(("mine", "theirs", "same"), CASES["folders"])
def test_folders_on_the_clusters_own_hdfs(mine, theirs, same):
    """Only its variable stands for any HDFS."""
    fields = differing_fields(job(codeDir=mine).to_dict(), job(codeDir=theirs).to_dict())
    assert fields == ([] if same else ["codeDir"])


def test_null_is_not_the_default_of_a_count_that_has_another():
    """null: no failed task fails the job; absent, which servers store as 1: the first does."""
    mine, theirs = job().to_dict(), job().to_dict()
    mine["taskRoles"][0]["minFailedTaskCount"] = None
    theirs["taskRoles"][0]["minFailedTaskCount"] = 1
    assert differing_fields(mine, theirs) == ["taskRoles[0].minFailedTaskCount"]


# ---------------------------------------------------------------- v2 fields


def protocol(text=YAML):
    return JobProtocol.from_yaml(text).to_dict()


def test_a_protocol_does_not_differ_from_what_the_server_shows_of_it():
    """As 1.8.0 showed one: secrets as one mask, the name of a later attempt; and defaults filled in."""
    mine, stored = protocol(), protocol()
    stored.update(name="train__attempt2", secrets="******", jobRetryCount=0, protocolVersion="2", extras={})
    stored["prerequisites"][0]["auth"]["password"] = "******"
    stored["defaults"] = {"virtualCluster": "default"}
    stored["taskRoles"]["worker"]["completion"] = {"minFailedInstances": 1}
    stored["taskRoles"]["worker"]["extraContainerOptions"] = {"infiniband": False}
    assert differing_fields(mine, stored) == []
    assert differing_fields({key: value for key, value in mine.items() if key != "secrets"}, stored) == []


@pytest.mark.parametrize(("old", "new", "differing"), CASES["protocols"])
def test_fields_of_protocols_that_differ(old, new, differing):
    assert old in YAML
    assert differing_fields(protocol(YAML.replace(old, new)), protocol()) == differing


def test_what_is_resolved_before_it_is_sent_does_not_differ():
    """The server has the prerequisites in the order in which they need each other."""
    mine, callback = protocol(), {"event": "containerStart", "commands": ["x"]}
    mine["prerequisites"] += [
        {"name": "a", "type": "script", "require": ["b"], "callbacks": [callback]},
        {"name": "b", "type": "script"},
    ]
    mine["taskRoles"]["worker"]["prerequisites"] = ["a"]
    assert resolve(mine) != mine
    assert differing_fields(mine, resolve(mine)) == []
    unresolvable = copy.deepcopy(mine)
    unresolvable["prerequisites"][-1]["require"] = ["a"]
    assert differing_fields(unresolvable, unresolvable) == []


def test_the_documents_are_not_changed():
    mine, theirs = protocol(), job().to_dict()
    before = copy.deepcopy((mine, theirs))
    differing_fields(mine, theirs)
    differing_fields(theirs, mine)
    assert (mine, theirs) == before
