"""What a test gets wrong, or leaves behind."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from places import DATA

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TESTS = (DATA / "plugin" / "mistakes.txt").read_text(encoding="utf-8").removeprefix("==== ").split("\n==== ")
CONFTEST = """
import json, pathlib

def pytest_runtest_logreport(report):
    about = {"outcome": report.outcome, "when": report.when, "xfail": hasattr(report, "wasxfail")}
    about["text"] = str(report.longrepr) + str(report.sections) * report.failed
    with pathlib.Path("reports").open("a") as file:
        print(json.dumps({"test": report.nodeid, **about}), file=file)
"""


@pytest.fixture(scope="module")
def reports(run_files):
    """Run the tests of all files in one pytest with the plugin; return the reports of each file."""
    parts = [re.fullmatch(r"[^\n]*\n(.*)\n---- [^\n]*.*", text, re.DOTALL)[1] for text in TESTS]
    files = {f"test_{number:02}.py": f"from pipeline import *\n{part}" for number, part in enumerate(parts)}
    folder, _code, out = run_files(files | {"conftest.py": CONFTEST})
    assert (folder / "reports").exists(), out
    found = [json.loads(line) for line in (folder / "reports").read_text().splitlines()]
    return [[one for one in found if one["test"].startswith(name)] for name in files]


@pytest.mark.parametrize("number", range(len(TESTS)), ids=[text.partition("\n")[0] for text in TESTS])
def test_a_file_of_a_user(reports, number):
    """So many of its tests fail, and the reports have these texts."""
    counts, *said = TESTS[number].rpartition("\n---- ")[2].splitlines()
    ends = Counter(
        _end(one) for one in reports[number] if one["when"] == "call" or one["outcome"] != "passed"
    )
    kinds = ("failed", "passed", "skipped", "xfailed", "errors")
    text = "\n".join(one["text"] for one in reports[number])
    assert ", ".join(f"{ends[kind]} {kind}" for kind in kinds if ends[kind]) == counts, text
    for line in said:
        assert line in text.replace("\\n", "\n")


def _end(report):
    if report["outcome"] == "failed":
        return "failed" if report["when"] == "call" else "errors"
    return "xfailed" if report["xfail"] else report["outcome"]
