"""What has no effect in a task's class is warned of, once, and what has one is left alone."""

from __future__ import annotations

import textwrap

import pytest
import yaml
from places import ROOT

CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "class_checks.yaml").read_text("utf-8"))
HEAD = """
import hashlib, time
import luigi
from luigi_pai import PaiProtocolTask, PaiTask, TaskRole

class Base(PaiTask):
    image = "python:3"
    name = property(lambda self: f"checked-{self.task_family}")
    tasks = [TaskRole("main", "true")]

def command_of(task):
    return f"train {task.rate}"

"""


@pytest.mark.parametrize("case", CASES)
def test_a_class(load, caplog, case):
    members, *words = CASES[case]
    base = "PaiProtocolTask" if "protocol =" in members else "Base"
    task = load(f"{HEAD}class Checked({base}):\n{textwrap.indent(members, '    ')}").Checked()
    task._check_class()
    task._check_class()
    found = [record.getMessage().partition("): ")[2] for record in caplog.records]
    assert [text[: len(word)] for text, word in zip(found, words, strict=True)] == words
