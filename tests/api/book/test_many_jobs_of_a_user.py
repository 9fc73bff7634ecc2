"""Many jobs looked up one by one: answered by one list, within forks and threads, on both dialects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from mocked_rest import URL, reply

from luigi_pai.api.dialects.job_replies import JobRow
from luigi_pai.errors import JobNotFound
from luigi_pai.jobspec.names import array_name

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

RELEASES = ["0.7.1", "0.15.0", "1.0.1", "1.8.0", "ltp-1.5"]
ROW = {"username": "admin", "createdTime": 1}


def requests(pai):
    """Return the number of lookups and of lists."""
    single = pai.count("GET", r"/api/v\d/jobs/[^/?]+$")
    return single, pai.lists


def names(count):
    return [f"j{number}" for number in range(count)]


def add_jobs(pai, count, **about):
    for name in names(count):
        pai.add(name, **about)


def states(cluster, jobs):
    """Look jobs up one by one, each as one of many."""
    return {cluster.book.status(name, of_many=True).raw_state for name in jobs}


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_that_nobody_asks_for_cost_nothing_but_a_row(faulty, known_cluster, monkeypatch, release):
    """Of a list with hundreds of old jobs, the statuses that are made are those of the jobs in question."""
    faulty.release = release
    add_jobs(faulty, 300)
    known, made, status = known_cluster(), [], JobRow.status
    monkeypatch.setattr(JobRow, "status", lambda row: made.append(row.name) or status(row))
    assert states(known, names(10)) == {"SUCCEEDED"}
    assert requests(faulty) == (2, 1)
    assert made == names(10)[2:]


@pytest.mark.slow
def test_lists_take_a_fifth_of_the_time(faulty, known_cluster, clock, slow_lists):
    """One that takes 4 s is made every 20 s."""
    add_jobs(faulty, 5, runs_for=3600)
    known = known_cluster()
    slow_lists(4)
    for _ in range(100):
        for name in names(5):
            known.book.status(name, of_many=True)
        clock.advance(1)
    assert 4 <= faulty.lists <= 7


def test_a_list_that_took_very_long_holds_up_the_next_for_half_a_minute(
    faulty, known_cluster, clock, slow_lists
):
    """The process may have been suspended in the middle of it."""
    add_jobs(faulty, 5, runs_for=3600)
    known = known_cluster()
    known.book.status("j0", of_many=True)
    slow_lists(600)
    known.book.statuses(names(5))
    slow_lists(0)
    assert known.book.list_wait() == pytest.approx(30)
    clock.advance(30)
    assert known.book.list_wait() == 0
    assert set(known.book.statuses(names(5))) == set(names(5))
    assert faulty.lists == 2


@pytest.mark.slow
def test_a_list_that_answers_nothing_is_made_every_ten_seconds_at_most(faulty, known_cluster, clock):
    """Work that is new is not in any list: what the last one lacks is looked up alone."""
    known = known_cluster()
    for number in range(300):
        with pytest.raises(JobNotFound):
            known.book.status(f"new{number}", of_many=True)
        clock.advance(1)
    assert 20 <= faulty.lists <= 30


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
def test_forks_share_the_list(faulty, known_cluster, in_forks, release):
    """With ``--parallel-scheduling`` each process looks up some of the tasks."""
    faulty.release = release
    add_jobs(faulty, 100)
    known = known_cluster()
    known.book.status("j0", of_many=True)

    def child(number):
        for name in names(100)[number::4]:
            assert known.book.status(name, of_many=True).succeeded

    in_forks(child, 4)
    assert faulty.lists == 1
    assert requests(faulty)[0] <= 1 + 4 * 2
    child(3)
    assert faulty.lists == 1


@pytest.mark.parametrize("release", RELEASES)
def test_a_list_is_older_than_an_end_that_a_fork_has_seen(faulty, known_cluster, in_forks, release):
    """So Luigi's worker for the next task does not find that the one before is still running."""
    faulty.release = release
    add_jobs(faulty, 10, runs_for=60)
    known = known_cluster()
    assert states(known, names(3)) == {"RUNNING"}
    assert faulty.lists == 1
    faulty.jobs["j9"].runs_for = 0.0

    def child(_number):
        assert known.book.status("j9").succeeded

    in_forks(child)
    assert known.book.status("j9", of_many=True).succeeded


def test_threads_share_the_list(faulty, known_cluster):
    """The first that needs it makes it, the others wait for it."""
    add_jobs(faulty, 100)
    known = known_cluster()
    states(known, names(2))
    with ThreadPoolExecutor(8) as pool:
        assert all(
            status.succeeded for status in pool.map(partial(known.book.status, of_many=True), names(100))
        )
    assert faulty.lists == 1
    assert requests(faulty)[0] <= 2 + 8


def test_a_full_status_is_looked_up(faulty, known_cluster):
    """What a list says is enough to know that a job has ended, not for ``status``."""
    add_jobs(faulty, 10)
    known = known_cluster()
    states(known, names(10))
    assert known.book.status("j9", of_many=True).tasks == ()
    assert [str(task) for task in known.book.status("j9").tasks] == ["main[0]"]
    assert [str(task) for task in known.book.status("j9", of_many=True).tasks] == ["main[0]"]
    assert requests(faulty) == (3, 1)


# ---------------------------------------------------------------- v1 lists of 0.8 to 0.14, mocked tests


def listing(rest, *rows):
    rest.get(f"{URL}/api/v1/jobs?username=admin", json=[{"state": "SUCCEEDED"} | ROW | row for row in rows])


def answers(rest, *known):
    for name in ("a", "b", "c", "d"):
        found = reply("SUCCEEDED", **ROW) if name in known else None
        rest.get(
            f"{URL}/api/v1/jobs/{name}",
            json=found or {"code": "NoJobError", "message": "not found"},
            status=200 if found else 404,
        )


def looked_up(rest):
    return [call.request.url.rpartition("/")[2] for call in rest.calls]


def test_jobs_of_the_other_api_are_not_those_of_a_name(new_cluster, rest):
    """USER~c is listed as ``c``; those that are looked up by their name alone are marked."""
    listing(rest, {"name": "a", "legacy": True}, {"name": "b", "legacy": True}, {"name": "c"})
    answers(rest, "a", "b")
    known = new_cluster(api_version="v1")
    assert known.book.status("a", of_many=True).succeeded
    assert known.book.status("b", of_many=True).succeeded
    with pytest.raises(JobNotFound):
        known.book.status("c", of_many=True)
    assert looked_up(rest) == ["a", "b", "jobs?username=admin", "c"]


def test_a_list_of_unmarked_jobs_is_used_once_one_was_looked_up(new_cluster, rest):
    """All may be of the other API. One that a lookup of its name has found shows that they are not."""
    listing(rest, *({"name": name} for name in "abcd"))
    answers(rest, "c", "d")
    known = new_cluster(api_version="v1")
    for name in "ab":
        with pytest.raises(JobNotFound):
            known.book.status(name, of_many=True)
    assert known.book.status("c", of_many=True).succeeded
    assert known.book.status("d", of_many=True).succeeded
    assert looked_up(rest) == ["a", "b", "jobs?username=admin", "c"]


@pytest.mark.parametrize("api_version", ["auto", "v1"])
def test_bare_replies_of_mocked_tests_need_no_list(new_cluster, rest, api_version):
    """Only the lookups are made that such a test has answers for."""
    for name in "abcd":
        rest.get(f"{URL}/api/v1/jobs/{name}", json=reply("SUCCEED"))
    rest.get(f"{URL}/api/v1/jobs/new", json={}, status=404)
    known = new_cluster(api_version=api_version)
    for name in "abcd":
        assert known.book.status(name, of_many=True).succeeded
        with pytest.raises(JobNotFound):
            known.book.status("new", of_many=True)
    assert looked_up(rest) == ["a", "new", "b", "new", "c", "new", "d", "new"]


@pytest.mark.slow
def test_more_jobs_than_are_kept(new_cluster, rest, clock):
    """The newest 20,000 are; older ones are looked up alone. Arrays come newest first."""
    rows = [{"name": f"j{number}", "createdTime": number + 1} for number in range(21_000)]
    old, new = array_name(["p1", "p2"]), array_name(["q1", "q2"])
    rows += [{"name": old, "createdTime": 19_000}, {"name": new, "createdTime": 22_000}]
    listing(rest, *rows)
    for number in (20_998, 20_999, 500):
        rest.get(
            f"{URL}/api/v1/jobs/j{number}", json=reply("SUCCEEDED", username="admin", createdTime=number + 1)
        )
    known = new_cluster(api_version="v1", clock=clock)
    for number in (20_998, 20_999, 1002, 500):
        assert known.book.status(f"j{number}", of_many=True).succeeded
    assert looked_up(rest) == ["j20998", "j20999", "jobs?username=admin", "j500"]
    assert known.book.arrays() == [new, old]
