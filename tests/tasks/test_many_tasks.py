"""complete() of many tasks: the requests of a whole DAG, of Range tasks, and of parallel scheduling."""

from __future__ import annotations

import datetime as dt

import luigi
import pytest
from lives import Life, lives
from luigi.tools.range import RangeDaily
from protocols import protocol
from train_task import Train

from luigi_pai import PaiProtocolTask, PaiTask, TaskRole


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


class Many(Life):
    """Lives of many tasks."""

    def have(self, given):
        stem, count, *fields = given
        for number in range(count):
            self._pai.add(f"{stem}{number}", **(fields[0] if fields else {}))

    def has(self, numbers):
        """Compare attributes of the server, the numbers of lists by their lengths."""
        found = {name: getattr(self._pai, name) for name in numbers}
        assert {name: len(it) if isinstance(it, list) else it for name, it in found.items()} == numbers


@lives("many_tasks")
def test_a_life(pai, settings, caplog, steps):
    Many(pai, settings, caplog).play(steps)


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
