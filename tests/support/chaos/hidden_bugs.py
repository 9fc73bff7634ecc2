"""Bugs at places where a review would hardly look, and the tests that have to find them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HIDDEN_BUGS", "HiddenBug"]


@dataclass(frozen=True)
class HiddenBug:
    """A bug that replaces a text, which occurs once in a module, by another one.

    Attributes:
        file: the module, below ``luigi_pai``.
        text: what is replaced.
        by: what replaces it.
        test: the file and the name of a test that fails then.
    """

    file: str
    text: str
    by: str
    test: str = ""


HIDDEN_BUGS = {
    "a late failure removes the flag of a later success": HiddenBug(
        "work/record.py",
        "    evidence.read_again()  # another process may have submitted",
        "    # may",
        "tests/tasks/meetings/test_two_processes.py::test_a_late_failure_leaves_the_flag_of_a_later_success",
    ),
    "the journal's queue is emptied before the write": HiddenBug(
        "sweep/journal/journal.py",
        "                lines = list(self._unwritten)\n",
        "                lines, self._unwritten = list(self._unwritten), []\n",
        "tests/sweep/test_journal.py::test_a_write_that_fails_once_loses_no_event",
    ),
    "the journal is not read again before a failure counts": HiddenBug(
        "sweep/starting.py",
        "                self._journal.read()\n",
        "                pass\n",
        "tests/sweep/test_meeting_sweeps.py::test_a_failure_that_another_process_has_seen_is_an_attempt_of_both",
    ),
    "an old flag stays when the work is submitted again": HiddenBug(
        "work/evidence.py",
        "            self.flag.discard(self._work.name)\n",
        "            pass\n",
        "tests/tasks/meetings/test_two_processes.py::test_a_submission_removes_the_flag_of_an_earlier_one",
    ),
    "claims are given back though the job may be there": HiddenBug(
        "work/submit.py",
        "            if not posting.may_be_submitted:\n",
        "            if posting is not None:\n",
        "tests/tasks/test_claims.py::test_an_unknown_error_after_a_job_was_taken_keeps_its_claim",
    ),
    "a released claim takes the next one with it": HiddenBug(
        "sweep/journal/journal.py",
        'record.claim.token == event["token"]',
        "record.claim.token",
        "tests/sweep/test_journal.py::test_a_released_claim_takes_no_later_one_with_it",
    ),
    "a search is not checked after its proposal": HiddenBug(
        "sweep/journal/journal.py",
        "            self.write(event)\n            self.check_newest()\n",
        "            self.write(event)\n",
        "tests/sweep/test_meeting_sweeps.py::test_a_search_that_another_process_has_taken_over_submits_nothing_more",
    ),
    "the local journal is not locked": HiddenBug(
        "sweep/journal/files.py",
        "            fcntl.flock(file, fcntl.LOCK_EX)",
        "            # no lock",
        "tests/sweep/test_journal.py::test_a_claim_waits_for_a_process_that_is_writing",
    ),
    "the claim of another process is released": HiddenBug(
        "work/evidence.py",
        "if not self.is_mine or claim is None:",
        "if claim is None:",
        "tests/tasks/meetings/test_two_processes.py::test_a_refused_submission_keeps_the_claim_of_another_process",
    ),
    "any file is the own one after a lost reply": HiddenBug(
        "files/small_files.py",
        "return read_small(fs, path, _SMALL) == data",
        "return True",
        "tests/files/test_small_files.py::test_a_file_whose_temporary_file_was_tidied_meanwhile_is_not_created",
    ),
    "an existing link counts as made": HiddenBug(
        "files/storage/posix.py",
        "return now.st_nlink == before.st_nlink + 1 and",
        "return True or",
        "tests/files/storage/test_atomic.py::test_one_of_two_processes_creates_a_file",
    ),
    "an existing claim on this machine counts as made": HiddenBug(
        "work/local_claims.py",
        "return temporary.stat().st_nlink > 1",
        "return True",
        "tests/work/test_local_claims.py::test_of_many_processes_and_threads_one_wins_each_submission",
    ),
    "a killed run gives new attempts": HiddenBug(
        "sweep/journal/journal.py",
        "        if self.over:\n",
        "        if self.over or self.info:\n",
        "tests/sweep/test_killed_sweeps.py::test_killed_while_points_fail",
    ),
    "an end counts before it is recorded": HiddenBug(
        "sweep/table.py",
        '"" if ended.unrecorded else _url_of(point)',
        "_url_of(point)",
        "tests/sweep/test_storage_away.py::test_ends_that_could_not_be_recorded_are_recorded_later",
    ),
    "a point without a job fails for ever": HiddenBug(
        "sweep/source.py",
        "self._ended_before(point) or point",
        "self.table.recorded_end(point) or point",
        "tests/sweep/test_storage_away.py::test_a_point_without_a_job_is_tried_again_after_a_run_that_could_not_record_its_end",
    ),
    "the flag of other work is removed": HiddenBug(
        "work/flag.py",
        "if not others:",
        "if names:",
        "tests/files/test_small_files.py::test_flags",
    ),
    "a job that the server forgets for a moment is lost": HiddenBug(
        "api/watching.py",
        "now - job.unknown_since >= _LOST_AFTER",
        "now >= job.unknown_since",
        "tests/api/test_watching.py::test_the_story_of_a_job",
    ),
    "a submission without a reply was not sent": HiddenBug(
        "api/submitting.py",
        "self.may_be_submitted |= may_be_accepted\n",
        "pass\n",
        "tests/api/test_submitting.py::test_a_name_in_use_is_said_where_an_answer_was_lost",
    ),
    "a claimed job is sent again at once": HiddenBug(
        "work/decide.py",
        "_ON_ITS_WAY = 10.0",
        "_ON_ITS_WAY = 0.0",
        "tests/work/test_decide.py::test_the_decision",
    ),
    "files are remembered as sent before they are": HiddenBug(
        "files/staging.py",
        "        entries = self._entries()\n",
        "        entries = self._entries()\n        self._write_manifest({**there.manifest, **entries})\n",
        "tests/files/storage/test_atomic.py::test_an_upload_that_is_killed_at_any_call",
    ),
}
"""By their names."""
