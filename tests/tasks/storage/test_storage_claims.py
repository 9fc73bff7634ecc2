"""Claims on a storage: two processes that claim one submission."""

from __future__ import annotations

import json

import pytest
from chaos import processes
from luigi_process import write_config
from places import PROGRAMS


@pytest.mark.slow
def test_of_two_processes_one_has_the_claim(pai, storage, settings, tmp_path):
    """They are on two machines, and meet a hundred times; both know whose claim it is."""
    settings(storage_path=storage)
    write_config(tmp_path)
    both = [
        processes.start(
            name, tmp_path, tmp_path / f"log-{name}", PROGRAMS / "claiming.py", state=f"state-{name}"
        )
        for name in "ab"
    ]
    for process in both:
        process.join(150)
    logs = "".join((tmp_path / f"log-{name}").read_text() for name in "ab")
    assert [process.exitcode for process in both] == [0, 0], logs
    one, other = (json.loads((tmp_path / f"held-{name}.json").read_text()) for name in "ab")
    for number, (first, second) in enumerate(zip(one, other, strict=True)):
        assert [first[0], second[0]].count(True) == 1, number
        assert first[1:] == second[1:] == [first[1]] * 2
        folder = storage / f"train-{number}" / "output" / "_luigi_pai"
        (claim,) = folder.iterdir()
        assert json.loads(claim.read_text())["token"] == first[1]
    assert pai.submissions == 0
