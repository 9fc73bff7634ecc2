"""Book.latest: the newest submission of a piece of work. On a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from api_stories import lookups

from luigi_pai.api.book.search import Search
from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.submitting import Posting
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiNameTaken, ServerFault
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.names import array_name, attempt_name

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

ROLE = TaskRole("main", "true")


@pytest.fixture
def cluster(faulty, new_cluster, clock):
    return new_cluster(faulty.url, clock=clock, polling=Polling(patience=100))


@dataclass(frozen=True)
class Record:
    """A recorded submission."""

    number: int
    job: str
    has_failed: bool = False


class Known:
    """What was recorded of a piece of work, and whether it has outputs."""

    def __init__(self, record=None, *, ran=False, is_durable=True):
        self.record, self.ran, self.asked, self.is_durable = record, ran, 0, is_durable

    def last(self):
        self.asked += 1
        return self.record

    def may_have_run(self):
        return self.ran


def test_a_recorded_submission_is_looked_up_without_a_list(faulty, cluster):
    """The first two are no longer known; what comes after the recorded one is found, too."""
    faulty.add("train__attempt3", ends_as="FAILED")
    faulty.add("train__attempt4")
    assert cluster.book.latest("train", Known(Record(3, "train__attempt3"))).number == 4
    assert lookups(faulty) == ["train", "train__attempt3", "train__attempt4"]
    assert faulty.lists == 0


@pytest.mark.parametrize("number", [1, 2])
def test_a_recorded_submission_that_the_server_does_not_know_is_said(faulty, cluster, number):
    """Its entry has no status; nothing is looked up twice."""
    if number == 2:
        faulty.add("train", ends_as="FAILED")
    name = attempt_name("train", number)
    entry = cluster.book.latest("train", Known(Record(number, name)))
    assert (entry.number, entry.job, entry.status) == (number, name, None)
    assert lookups(faulty) == [attempt_name("train", each) for each in range(1, number + 1)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_job_that_comes_and_fails_between_its_lookup_and_its_record(faulty, cluster, number):
    """Another process has posted it meanwhile: it is not taken for one that the server has forgotten."""
    if number == 2:
        faulty.add("train", ends_as="FAILED")
    name = attempt_name("train", number)

    class Late(Known):
        def last(self):
            faulty.add(name, ends_as="FAILED")
            return super().last()

    entry = cluster.book.latest("train", Late(Record(number, name, has_failed=True)))
    assert (entry.number, entry.failed) == (number, True)


@pytest.mark.parametrize("state", [None, "FAILED"])
def test_records_of_one_machine_do_not_replace_the_list(faulty, cluster, state):
    """A sweep on another machine may have submitted the work again, as a part of an array."""
    faulty.release = "1.8.0"
    if state:
        faulty.add("train", ends_as=state)
    record = Record(1, "train")
    cluster.book.latest("train", Known(record))
    assert faulty.lists == 0
    entry = cluster.book.latest("train", Known(record, is_durable=False))
    assert (entry.number, entry.status is None) == (1, state is None)
    assert faulty.lists == 1


def test_the_record_of_an_end_that_the_server_knows_is_not_needed(faulty, cluster):
    """HDFS is not asked about work that runs or has succeeded."""
    faulty.add("train", runs_for=3600)
    known = Known()
    cluster.book.latest("train", known)
    faulty.jobs["train"].runs_for = 0
    cluster.book.latest("train", known)
    assert known.asked == 0


@pytest.mark.parametrize(("ran", "lists"), [(False, 0), (True, 1)])
def test_new_work_without_record_and_outputs_needs_no_list(faulty, cluster, ran, lists):
    """On v1, where names are shared by all users. With outputs it may have been forgotten by the server."""
    cluster.book.latest("train", Known(ran=ran))
    assert faulty.lists == lists


def test_a_submission_that_was_just_posted_is_the_newest(faulty, cluster):
    """It is known without a lookup."""
    entry = cluster.book.record_posted("train", 2, JobStatus("train__attempt2", JobState.WAITING))
    assert (entry.number, entry.job, entry.posted) == (2, "train__attempt2", True)
    assert cluster.book.cached_entry("train") is cluster.book.latest("train", max_age=30) is entry
    assert faulty.calls == []


def test_an_answer_may_be_used_again_within_seconds(faulty, cluster, clock):
    """Luigi calls complete() right before run(), each with a lookup of its own."""
    faulty.add("train", runs_for=3600)
    found = cluster.book.latest("train")
    assert cluster.book.latest("train", max_age=30) is found
    clock.advance(31)
    assert lookups(faulty) == ["train"]
    cluster.book.latest("train", max_age=30)
    assert lookups(faulty) == ["train"] * 2


def test_a_failed_submission_is_not_the_newest_for_ever(faulty, cluster, in_forks):
    """Another process of the family has submitted the next one: whoever asks now finds it."""
    faulty.add("train", ends_as="FAILED")
    assert cluster.book.latest("train").failed

    def child(_number):
        assert cluster.book.latest("train").failed
        faulty_server_has_next()

    def faulty_server_has_next():
        Posting(cluster.book, "train__attempt2").post(PaiJob("train__attempt2", "x", [ROLE]))

    in_forks(child)
    assert cluster.book.latest("train").number == 2


@pytest.mark.parametrize("posted", [False, True])
def test_a_list_of_this_moment_shows_which_failed_submission_is_the_newest(faulty, cluster, posted, clock):
    """Of a thousand failed tasks, none but the first two is looked for; a post makes the list an old one."""
    names = [f"j{number}" for number in range(20)]
    for name in names:
        faulty.add(name, ends_as="FAILED")
    for name in names[:3]:
        cluster.book.latest(name)
    assert lookups(faulty) == ["j0", "j0__attempt2", "j1", "j1__attempt2"]
    if posted:
        cluster.book.record_post("other")
    for name in names[3:]:
        cluster.book.latest(name)
    assert len(lookups(faulty)) == (4 + 17 if posted else 4)
    clock.advance(3)
    cluster.book.latest("j3")
    assert lookups(faulty)[-1] == "j3__attempt2"


def test_a_name_of_somebody_else_is_an_error(faulty, cluster):
    """With whose it is, and where to look."""
    faulty.add("train", username="bob")
    with pytest.raises(PaiNameTaken) as caught:
        cluster.book.latest("train")
    assert str(caught.value) == (
        f"the name 'train' belongs to a job of user 'bob' ({faulty.url}/view.html?jobName=train); "
        "names are shared by all users of a cluster, so choose another name for the task"
    )
    assert caught.value.job_name == "train"


def test_a_server_that_stays_away_is_given_up_after_poll_patience(faulty, cluster, clock):
    """That of the caller, where it names one: complete() asks for seconds only."""
    cluster.book.latest("other")
    faulty.fail("GET", "/jobs/", 500, times=float("inf"))
    began = clock.monotonic()
    with pytest.raises(ServerFault):
        cluster.book.latest("train", patience=2)
    assert 2 <= clock.monotonic() - began < 3


def test_an_address_without_a_server_is_found_out_once(faulty, cluster, clock, in_forks):
    """A thousand tasks do not each find it out: for ten seconds they are told what the first has met."""
    faulty.down()

    def child(_number):
        with pytest.raises(ClusterUnreachable, match="Connection refused"):
            cluster.book.latest("train")

    in_forks(child)
    faulty.up()
    for _ in range(2):
        child(0)
        clock.set_wall_clock(-86400)
    assert faulty.calls == []
    clock.advance(10.5)
    assert cluster.book.latest("train") is None


# ---------------------------------------------------------------- the list


def test_the_list_is_one_for_a_family_of_processes(faulty, cluster, clock, in_forks):
    """v2 servers give it out 60 times a minute."""
    faulty.add("a__attempt2")

    def child(_number):
        assert cluster.book.listed_number("a", is_needed=True) == 2

    in_forks(child)
    child(0)
    assert faulty.lists == 1
    clock.advance(11)
    child(0)
    assert faulty.lists == 2


def test_work_that_no_list_shows_is_unlisted(faulty, known_cluster, clock):
    """Neither under its names, nor in an array that may contain it, for as long as the list is a new one."""
    faulty.release = "1.8.0"
    array = array_name(["rate-1", "rate-2"])
    for name in (array, "old", "again__attempt2"):
        faulty.add(name)
    book = known_cluster().book

    def unlisted(*, is_corrected=True):
        names = ("rate-1", "rate-9", "old", "again", "new")
        return [name for name in names if book.is_unlisted(name, is_corrected=is_corrected)]

    assert unlisted() == []
    assert book.listed_number("new", is_needed=True) == 0
    assert unlisted() == unlisted(is_corrected=False) == ["new"]
    book.record_members(array, ["rate-1", "rate-2"])
    clock.advance(3)
    assert unlisted(is_corrected=False) == []
    book.statuses(["old"])
    assert unlisted() == unlisted(is_corrected=False) == ["rate-9", "new"]
    book.api.dialect.whole_lists = False  # as on LTP
    assert unlisted(is_corrected=False) == []


CLAIMED = Record(1, "train-array-0123456789ab")


def test_an_array_that_appears_while_it_is_looked_for_is_not_one_without_the_point(cluster, monkeypatch):
    """Else the point would be submitted once more, under the next number."""
    looks = iter([JobNotFound("not there yet")])

    def members(_book, _array):
        for error in looks:
            raise error
        return ["train"]

    monkeypatch.setattr(type(cluster.book), "members", members)
    entry = Search(cluster.book, "train").recorded(CLAIMED)
    assert (entry.status, entry.void) == (None, False)


def test_an_array_without_the_point_will_never_run_it(cluster, monkeypatch):
    """It was sent with fewer points than were claimed for it."""
    monkeypatch.setattr(type(cluster.book), "members", lambda *_: ["other"])
    assert Search(cluster.book, "train").recorded(CLAIMED).void
