"""What a notebook shows, as HTML."""

from __future__ import annotations

import pickle

import pytest

from luigi_pai.api.status import JobList, JobState, JobStatus
from luigi_pai.notebook import Link, html_table, is_notebook


def test_texts_of_servers_are_escaped_and_printable():
    shown = html_table(["<b>"], [["<script>\x1b[31m"], [Link("job", "javascript:alert(1)")]], note="<i>")
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "\x1b" not in shown
    assert "<a " not in shown
    assert '<a href="https://pai/?a=&quot;&amp;b"' in html_table(["x"], [[Link("job", 'https://pai/?a="&b')]])


@pytest.mark.parametrize("count", [1, 50, 51, 1234])
def test_long_lists_are_cut(count):
    jobs = [JobStatus(f"job-{number}", JobState.RUNNING) for number in range(count)]
    shown = JobList(jobs, lambda name, _user: f"http://pai/{name}")._repr_html_()
    assert shown.count("<a href=") == min(count, 50)
    assert (f"50 of {count:,} jobs" in shown) == (count > 50)


def test_long_names_are_broken_and_wide_tables_scroll():
    shown = html_table(["job"], [["x" * 200]])
    assert shown.startswith('<div style="overflow-x:auto"><table>')
    assert "max-width:40ch;overflow-wrap:break-word" in shown


def test_a_list_of_jobs_is_a_list():
    jobs = JobList([JobStatus("a", JobState.RUNNING)], lambda name, _user: name)
    assert pickle.loads(pickle.dumps(jobs)) == jobs == [JobStatus("a", JobState.RUNNING)]
    assert not is_notebook()
