"""Which v2 jobs a list has: patterns in keywords, lists in place of texts, as on 1.8 and its database."""

from __future__ import annotations

import pytest

from luigi_pai.local.node.http import ApiError
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import NewJob
from luigi_pai.local.views.v2.search import JobSearch

ROLE = {"name": "m", "taskNumber": 1, "gpuNumber": 0}
NAMES = ["Na_b", "NaXb", "nax", "100-percent", "a0b"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("search") / "server.sqlite")
    for number, name in enumerate(NAMES):
        spec = {"taskRoles": [ROLE]}
        store.add_job(NewJob(name, "anna", ("default", "night*[shift]?")[number % 2], {}, spec, api="v2"))
    yield store
    store.close()


def found(store, query):
    ids = JobSearch(query).ids(store)
    names = {row["id"]: row["name"] for row in store.rows("SELECT id, name FROM jobs")}
    return {names[number] for number in ids}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("keyword=Na_b", ["Na_b", "NaXb"]),
        ("keyword=Na%5C_b", ["Na_b"]),
        ("keyword=N%25b", ["Na_b", "NaXb"]),
        ("keyword=%25", NAMES),
        ("keyword=", NAMES),
        ("keyword=ax", ["nax"]),
        ("keyword=nn", NAMES),
        ("keyword=NAX", []),
        ("keyword=%5C%5C", []),
        ("keyword=b%5C", []),  # the backslash makes the last % one that has to be there
        ("keyword=%5Cn%5Ca%5Cx", ["nax"]),
        ("keyword=%2A[shift]?", ["NaXb", "100-percent"]),
        ("keyword=N%2Ab", []),
        ("keyword=a%00b", ["a0b"]),
        ("keyword[]=nax", ["nax"]),
        ("keyword=n&keyword=a", []),  # it is n,a
        ("keyword[x]=nax", []),  # it is [object Object]
        ("keyword='", []),
        ("username=anna,zoe", NAMES),
        ("username=ann_", []),
        ("username=Anna", []),
        ("username=", []),
        ("vc=d%25", []),
        ("state=WAITING,FAILED", NAMES),
        ("state=WAIT%25", []),
        ("keyword=nobody&jobPriority=default", NAMES),
        ("jobPriority=test", []),
    ],
)
def test_a_list_has_the_jobs_that_the_database_would_find(store, query, names):
    """The keyword is a pattern of LIKE, in which nothing is escaped; all else is compared exactly."""
    assert found(store, query) == set(names)


@pytest.mark.parametrize("key", ["username", "vc", "state", "tagsContain", "tagsNotContain", "order"])
@pytest.mark.parametrize("query", ["{0}[]=a", "{0}[0]=a", "{0}[x]=a", "{0}=a&{0}=b", "{0}%5B%5D=a"])
def test_a_list_where_a_text_is_wanted_is_a_failure(key, query):
    """As there: only texts have a method split."""
    with pytest.raises(ApiError, match=f"req.query.{key}.split is not a function") as failure:
        JobSearch(query.format(key))
    assert failure.value.status == 500


def test_numbers_are_read_from_lists_too(store):
    """As parseInt does it: the first one counts; an object is none."""
    search = JobSearch("limit[]=2&limit=7&offset[0]=1&withTotalCount=true")
    assert (search.limit, search.offset, search.counts) == (2, 1, True)
    assert len(search.ids(store)) == 2
    assert not JobSearch("withTotalCount[]=true").counts
    with pytest.raises(ApiError, match="nan"):
        JobSearch("limit[x]=1")


def test_the_server_answers_so(v2):
    """Through the whole of a request."""
    assert v2.send("GET", "/jobs?state[]=WAITING").status_code == 500
    counted = v2.send("GET", "/jobs?withTotalCount=true&limit=0").json()
    assert set(counted) == {"totalCount", "data"}
