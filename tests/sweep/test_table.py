"""The rows of a sweep, while it runs."""

from __future__ import annotations

from clocks import MovableClock

from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.table import Table


class Slow(SweepResults):
    """A table on an HDFS that does not answer, which takes a minute to find out."""

    def __init__(self, clock):
        super().__init__("nowhere")
        self._clock = clock

    def write(self, *_):
        self._clock.advance(60)
        raise OSError("no reply")


def test_a_table_that_cannot_be_written_does_not_hold_up_the_sweep(caplog):
    """A sweep does nothing else while it writes; it tries again after some minutes."""
    clock = MovableClock()
    table = Table(Slow(clock), "study", Journal("nowhere", clock), clock)
    clock.advance(table.idle())
    table.write_if_due()
    assert "Sweep study: its table could not be written: no reply" in caplog.text
    assert 240 < table.idle() <= 300
