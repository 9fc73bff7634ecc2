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
        "work/record.py", "    evidence.read_again()  # another process may have submitted", "    # may"
    ),
    "the journal's queue is emptied before the write": HiddenBug(
        "sweep/journal/journal.py",
        "                lines = list(self._unwritten)\n",
        "                lines, self._unwritten = list(self._unwritten), []\n",
    ),
    "the journal is not read again before a failure counts": HiddenBug(
        "sweep/starting.py", "                self._journal.read()\n", "                pass\n"
    ),
    "an old flag stays when the work is submitted again": HiddenBug(
        "work/evidence.py", "            self.flag.discard(self._work.name)\n", "            pass\n"
    ),
    "claims are given back though the job may be there": HiddenBug(
        "work/submit.py",
        "            if not posting.may_be_submitted:\n",
        "            if posting is not None:\n",
    ),
    "a released claim takes the next one with it": HiddenBug(
        "sweep/journal/journal.py", 'record.claim.token == event["token"]', "record.claim.token"
    ),
    "a search is not checked after its proposal": HiddenBug(
        "sweep/journal/journal.py",
        "            self.write(event)\n            self.check_newest()\n",
        "            self.write(event)\n",
    ),
    "the local journal is not locked": HiddenBug(
        "sweep/journal/files.py", "            fcntl.flock(file, fcntl.LOCK_EX)", "            # no lock"
    ),
    "the claim of another process is released": HiddenBug(
        "work/evidence.py", "if not self.is_mine or claim is None:", "if claim is None:"
    ),
    "any file is the own one after a lost reply": HiddenBug(
        "files/small_files.py", "return read_small(fs, path, _SMALL) == data", "return True"
    ),
    "an existing link counts as made": HiddenBug(
        "files/storage/posix.py", "return now.st_nlink == before.st_nlink + 1 and", "return True or"
    ),
    "an existing claim on this machine counts as made": HiddenBug(
        "work/local_claims.py", "return temporary.stat().st_nlink > 1", "return True"
    ),
    "a killed run gives new attempts": HiddenBug(
        "sweep/journal/journal.py", "        if self.over:\n", "        if self.over or self.info:\n"
    ),
    "an end counts before it is recorded": HiddenBug(
        "sweep/table.py", '"" if ended.unrecorded else _url_of(point)', "_url_of(point)"
    ),
    "a point without a job fails for ever": HiddenBug(
        "sweep/source.py", "self._ended_before(point) or point", "self._table.known(point) or point"
    ),
    "the flag of other work is removed": HiddenBug("work/flag.py", "if not others:", "if names:"),
    "arrays are claimed in their own order": HiddenBug(
        "work/submit.py",
        "for member in sorted(members, key=lambda each: each.own_name):",
        "for member in members:",
    ),
    "whoever finds a claim posts its job": HiddenBug(
        "work/submit.py", "not has_ended and not is_on_its_way(member.work.book.api, held)", "not has_ended"
    ),
    "a job that the server forgets for a moment is lost": HiddenBug(
        "api/watching.py", "now - job.unknown_since >= _LOST_AFTER", "now >= job.unknown_since"
    ),
    "a submission without a reply was not sent": HiddenBug(
        "api/submitting.py", "self.may_be_submitted |= may_be_accepted\n", "pass\n"
    ),
    "a claimed job is sent again at once": HiddenBug(
        "work/decide.py", "_ON_ITS_WAY = 10.0", "_ON_ITS_WAY = 0.0"
    ),
    "files are remembered as sent before they are": HiddenBug(
        "files/transfer/staging.py",
        "        entries = self._entries()\n",
        "        entries = self._entries()\n        self._write_manifest({**there.manifest, **entries})\n",
    ),
}
"""By their names."""
