"""Which v2 jobs a list has."""

from __future__ import annotations

import pytest

from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import NewJob
from luigi_pai.local.views.job_lists import JobSearch

ROLE = {"name": "m", "taskNumber": 1, "gpuNumber": 0}
NAMES = ["Na_b", "NaXb", "nax", "100-percent", "a0b"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("search") / "server.sqlite")
    for number, name in enumerate(NAMES):
        spec = {"taskRoles": [ROLE]}
        store.add_job(NewJob(name, "anna", ("default", "night*[shift]?")[number % 2], {}, spec))
    yield store
    store.close()


def found(store, query):
    ids = JobSearch(query).ids(store)
    names = {row["id"]: row["name"] for row in store.rows("SELECT id, name FROM jobs")}
    return {names[number] for number in ids}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("keyword=Na_b", ["Na_b"]),
        ("keyword=", NAMES),
        ("keyword=ax", ["nax"]),
        ("keyword=nn", NAMES),
        ("keyword=NAX", []),
        ("keyword=%2A[shift]?", ["NaXb", "100-percent"]),
        ("keyword='", []),
        ("username=anna,zoe", NAMES),
        ("username=ann_", []),
        ("username=Anna", []),
        ("username=", []),
        ("vc=d%25", []),
        ("state=WAITING,FAILED", NAMES),
        ("state=WAIT%25", []),
        ("limit=2&order=jobName,ASC", ["100-percent", "NaXb"]),
        ("limit=2&offset=1&order=jobName,ASC", ["NaXb", "Na_b"]),
        ("limit=0", []),
    ],
)
def test_a_list_has_the_jobs_that_the_query_selects(store, query, names):
    """The keyword is part of user, name or virtual cluster; all else is compared exactly."""
    assert found(store, query) == set(names)


def test_a_list_may_be_limited_to_virtual_clusters(store):
    ids = JobSearch("", clusters=["default"]).ids(store)
    assert len(ids) == 3
    assert JobSearch("vc=night*[shift]?", clusters=["default"]).ids(store) == []


def test_the_server_answers_so(v2):
    """Through the whole of a request."""
    counted = v2.send("GET", "/jobs?withTotalCount=true&limit=0").json()
    assert set(counted) == {"totalCount", "data"}
