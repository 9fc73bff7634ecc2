"""Answer for answer, a local server is the release that was recorded: 0.7.1, 1.8.0 or LTP 1.5.

tests/data/observed_*.json hold what real rest-servers answered: status, content type, error code, message
and JSON; tests/data/local/recordings.yaml what was sent.
"""

from __future__ import annotations

import pytest
from replay import RECORDINGS, Replay, recorded, shape_differences

from luigi_pai.local import LocalPai


@pytest.fixture(scope="module")
def replays():
    """The recordings, each replayed once, when its first answer is asked for."""
    made = {}

    def replay(api):
        if api not in made:
            more = {"virtual_clusters": ["vc1"]} if api == "v1" else {}
            with LocalPai(api=api, password="admin-password", **more) as server:
                made[api] = Replay(server, api)
        return made[api]

    return replay


@pytest.mark.parametrize(("api", "step"), [(api, step) for api in RECORDINGS for step in recorded(api)])
def test_the_answer_is_the_recorded_one(api, step, replays):
    """Or the one that the table has for this step."""
    replays(api).check(step)


def test_the_comparison_sees_a_difference():
    """It would fail on a missing key, an extra key and another type."""
    assert list(shape_differences("", {"a": "str"}, {})) == [".a is only in one of them"]
    assert list(shape_differences("", {}, {"a": "str"})) == [".a is only in one of them"]
    assert list(shape_differences("", [{"a": "str"}], [{"a": "num"}])) == ["[].a: str there, num here"]
