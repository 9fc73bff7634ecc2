"""complete() of many tasks: the requests of a whole DAG, of Range tasks, and of parallel scheduling."""

from __future__ import annotations

import datetime as dt

import luigi
import pytest
from luigi.tools.range import RangeDaily
from protocols import protocol

from luigi_pai import PaiNameTaken, PaiProtocolTask, PaiTask, TaskRole, reset_clusters

LIST = {
    "0.7.1": "GET /api/v1/jobs?username=admin",
    "1.8.0": "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
}
JOB = {"0.7.1": "GET /api/v1/jobs/{}", "1.8.0": "GET /api/v2/jobs/admin~{}"}


class Train(PaiTask):
    """A task as users have them."""

    name = luigi.Parameter()
    image = "ubuntu"
    tasks = (TaskRole("main", "true"),)


class Protocol(PaiProtocolTask):
    """The same for v2 clusters."""

    name = luigi.Parameter()
    protocol = protocol()


class All(luigi.WrapperTask):
    """A hundred of them."""

    def requires(self):
        return [Train(name=f"t{number}") for number in range(100)]


class Daily(PaiTask):
    """A task for each day."""

    date = luigi.DateParameter()
    image = "ubuntu"
    tasks = (TaskRole("main", "true"),)

    @property
    def name(self):
        return f"daily-{self.date}"


def asked(pai):
    return [f"{method} {path}" for method, path in pai.calls]


def all_complete(kind, names):
    return [kind(name=name).complete() for name in names]


def test_three_hundred_finished_tasks_take_three_requests(pai):
    """On one connection, without a login."""
    names = [f"t{number}" for number in range(300)]
    for name in names:
        pai.add(name)
    assert all(all_complete(Train, names))
    assert asked(pai) == ["GET /api/v1/jobs/t0", "GET /api/v1/jobs/t1", "GET /api/v1/jobs?username=admin"]
    assert pai.connections == 1


def test_what_they_ask_of_a_v2_cluster(pai):
    """A request that shows the API version, the login, one job, and a list of all others."""
    pai.release = "1.8.0"
    names = [f"t{number}" for number in range(200)]
    for name in names:
        pai.add(name)
    assert all(all_complete(Train, names))
    assert asked(pai) == [
        "GET /api/v1/jobs/t0",
        "POST /api/v1/token",
        "GET /api/v2/jobs/admin~t0",
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
    ]


@pytest.mark.slow
def test_ten_thousand_tasks_of_a_v2_cluster_take_two_pages(pai):
    """The first of 5,000 jobs, the second of all others."""
    pai.release = "1.8.0"
    row = pai.add("t0").row()
    pai.add("t1")
    rows = [row | {"name": f"t{number}"} for number in range(10_000)]
    pai.fail("GET", "offset=0", 200, body=rows[:5000])
    pai.fail("GET", "offset=5000", 200, body=rows[5000:])
    assert all(all_complete(Train, ["t0", "t1", "t2", "t4999", "t5000", "t9999"]))
    assert asked(pai)[2:] == [
        "GET /api/v2/jobs/admin~t0",
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
        "GET /api/v2/jobs?username=admin&offset=5000&limit=20000",
    ]


@pytest.mark.parametrize("release", LIST)
def test_one_task_takes_one_request(pai, release):
    """It is a lookup, however many jobs the server knows. Before it, v1 and the login may be tried."""
    pai.release = release
    for number in range(300):
        pai.add(f"t{number}")
    assert Train(name="t200").complete()
    before = {"0.7.1": [], "1.8.0": ["GET /api/v1/jobs/t200", "POST /api/v1/token"]}
    assert asked(pai) == [*before[release], JOB[release].format("t200")]


def test_what_is_not_finished_is_not_complete(pai):
    """Running, failed and new jobs in one DAG: new ones alone are looked up, as a list may lack them."""
    for number in range(50):
        pai.add(f"done{number}")
        pai.add(f"run{number}", runs_for=600)
    for number in range(3):
        pai.add(f"fail{number}", ends_as="FAILED")
    pai.add("again", ends_as="FAILED")
    pai.add("again__attempt2")
    assert all(all_complete(Train, [f"done{number}" for number in range(50)]))
    assert all_complete(Train, ["again"]) == [True]
    assert not any(all_complete(Train, [f"run{number}" for number in range(50)]))
    assert asked(pai) == [
        "GET /api/v1/jobs/done0",
        "GET /api/v1/jobs/done1",
        "GET /api/v1/jobs?username=admin",
    ]
    pai.calls.clear()
    assert not any(all_complete(Train, ["fail0", "fail1", "fail2", "new0", "new1"]))
    assert asked(pai) == [
        "GET /api/v1/jobs/new0",
        "GET /api/v1/jobs/new1",
    ]


def test_a_job_that_ends_is_complete_when_it_is_asked_again(pai):
    """The list of a moment ago is not the answer twice: it has become news of nothing."""
    names = [f"t{number}" for number in range(20)]
    for name in names:
        pai.add(name, runs_for=600)
    assert not any(all_complete(Train, names))
    for job in pai.jobs.values():
        job.runs_for = 0.0
    assert all(all_complete(Train, names))


def test_a_name_of_another_user_is_an_error_among_many(pai):
    """The list does not have it; its own lookup says whose it is."""
    names = [f"t{number}" for number in range(20)]
    for name in names:
        pai.add(name, username="bob" if name == "t10" else "admin")
    assert all(all_complete(Train, names[:10]))
    with pytest.raises(PaiNameTaken, match="belongs to a job of user 'bob'"):
        Train(name="t10").complete()


def test_protocol_tasks_share_the_list(pai):
    """Each of them fixes the API version for itself; the stored configs of ten are compared with theirs."""
    pai.release = "1.8.0"
    names = [f"t{number}" for number in range(100)]
    for name in names:
        pai.add(name)
    assert all(all_complete(Protocol, names))
    assert pai.count("GET", "/config$") == 10
    assert [line for line in asked(pai) if not line.endswith("/config")] == [
        "POST /api/v1/token",
        "GET /api/v2/jobs/admin~t0",
        "GET /api/v2/jobs/admin~t1",
        "GET /api/v2/jobs?username=admin&offset=0&limit=5000",
    ]


def test_a_run_after_a_list_looks_at_its_job(pai):
    """A job that the list has as running is taken over, watched by lookups of its own, and not submitted."""
    for number in range(10):
        pai.add(f"t{number}", runs_for=0.3)
    all_complete(Train, [f"t{number}" for number in range(10)])
    Train(name="t9").run()
    assert pai.submissions == 0
    assert Train(name="t9").complete()


def test_range_tasks_look_up_all_days_at_once(pai):
    """Of 30 days all but two are complete: three requests and one for each of the two."""
    start = dt.date(2024, 1, 1)
    days = [start + dt.timedelta(days=number) for number in range(30)]
    for day in days:
        if day.day not in (7, 9):
            pai.add(f"daily-{day}")
    days_range = RangeDaily(
        of=Daily, start=start, stop=start + dt.timedelta(days=30), now=1_706_745_600, param_name="date"
    )
    assert sorted(task.name for task in days_range.requires()) == ["daily-2024-01-07", "daily-2024-01-09"]
    assert asked(pai) == [
        "GET /api/v1/jobs/daily-2024-01-01",
        "GET /api/v1/jobs/daily-2024-01-02",
        "GET /api/v1/jobs?username=admin",
        "GET /api/v1/jobs/daily-2024-01-07",
        "GET /api/v1/jobs/daily-2024-01-09",
    ]


@pytest.mark.parametrize(
    "parameters", [[("t1",), ("new",)], [["t1"], ["new"]], ["t1", "new"], [{"name": "t1"}, {"name": "new"}]]
)
def test_bulk_complete_takes_what_luigi_gives(pai, parameters):
    """Tuples, lists, dicts, or the only parameter of each task."""
    pai.add("t1")
    assert Train.bulk_complete(parameters) == parameters[:1]
    assert Train.bulk_complete(iter(parameters)) == parameters[:1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.timeout(60)
def test_parallel_scheduling_shares_the_list(pai):
    """Each of its processes looks up two tasks at most before it uses the list that one of them makes."""
    for number in range(100):
        pai.add(f"t{number}")
    assert luigi.build(
        [All()],
        local_scheduler=True,
        parallel_scheduling=True,
        parallel_scheduling_processes=3,
        log_level="WARNING",
    )
    assert pai.lists == 1
    assert len(pai.calls) <= 1 + 3 * 2


def test_a_new_process_begins_anew(pai):
    """What a list said is not kept on disk."""
    names = [f"t{number}" for number in range(10)]
    for name in names:
        pai.add(name)
    for _ in range(2):
        assert all(all_complete(Train, names))
        reset_clusters()
    assert len(pai.calls) == 6
