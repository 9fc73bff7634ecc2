"""The two YAML readers of the servers: agreement with the real ones, and what they read otherwise."""

from __future__ import annotations

import json

import pytest
from places import DATA

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.protocol import JobProtocol

VERDICTS = json.loads((DATA / "js_yaml_4_verdicts.json").read_text(encoding="utf-8"))
TEXTS = [
    (f"k: {each['text']}" if kind == "scalars" else each["text"], each)
    for kind in ("scalars", "documents")
    for each in VERDICTS[kind]
]
LTP = "LTP 1.1 and later"

# text, to OpenPAI, to LTP 1.1 and later
SCALARS = [
    ("012", 10, 12),
    ("-012", -10, -12),
    ("0777", 511, 777),
    ("07_7", 63, 77),
    ("08", "08", 8),
    ("09", "09", 9),
    ("0o17", "0o17", 15),
    ("+0o17", "+0o17", 15),
    ("0o1_7", "0o1_7", 15),
    ("1:30", 90, "1:30"),
    ("10:00", 600, "10:00"),
    ("190:20:30", 685230, "190:20:30"),
    ("1:30.5", 90.5, "1:30.5"),
]


# ---------------------------------------------------------------- as js-yaml 4 reads


@pytest.mark.parametrize(("text", "verdict"), TEXTS, ids=[repr(text) for text, _ in TEXTS])
def test_a_text_means_what_it_means_to_ltp(text, verdict):
    try:
        document = read_yaml(text, lenient=True, reader=JS_YAML_4)
    except SpecError:
        assert verdict.get("refused")
        return
    if verdict.get("refused"):
        is_infinite = any("makes null of infinity" in problem.message for problem in document.problems)
        assert is_infinite or Level.REFUSED in {problem.level for problem in document.problems}
    else:
        assert json.dumps(document.value, sort_keys=True) == json.dumps(verdict["value"], sort_keys=True)


@pytest.mark.parametrize(("text", "three", "four"), SCALARS)
def test_scalars_that_the_readers_take_for_different_values(text, three, four):
    for reader, value in ((JS_YAML_3, three), (JS_YAML_4, four)):
        assert read_yaml(f"k: {text}", reader=reader).value == {"k": value}
    document = read_yaml(f"k: {text}", lenient=True)
    assert document.value == {"k": three}
    assert [problem.path for problem in document.problems] == ["k"]


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "y", "~", "2020-01-01", "1_000", "0x1F", "0b101", "1e3", ".5", "5.", "0", "'012'"],
)
def test_scalars_that_both_read_alike(text):
    assert read_yaml(f"k: {text}").problems == ()


# ---------------------------------------------------------------- where the server is not known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k: 012", f'k: column 4: 012 is 10 on OpenPAI and 12 on {LTP}; write 10 or "012" (line 1)'),
        (
            "k: 08",
            f'k: column 4: 08 is the text "08" on OpenPAI and 8 on {LTP}; write 8 or "08" (line 1)',
        ),
        (
            "- 1:30",
            f'[0]: column 3: 1:30 is 90 on OpenPAI and the text "1:30" on {LTP}; write 90 or "1:30" (line 1)',
        ),
        (
            "k:\n  09: x",
            (f'k: column 3: 09 is the text "09" on OpenPAI and the text "9" on {LTP}; write "09" (line 2)'),
        ),
        (
            "secrets: {key: 012}",
            (
                f"secrets.key: column 16: OpenPAI and {LTP} take this for different values; put it into "
                "quotes (line 1)"
            ),
        ),
    ],
)
def test_each_difference_is_a_problem_with_both_readings_and_the_cure(text, message):
    with pytest.raises(SpecError) as caught:
        read_yaml(text)
    assert [str(problem) for problem in caught.value.problems] == [message]
    assert caught.value.problems[0].level is Level.STRICTER


def test_a_place_is_named_once():
    """However many aliases refer to it."""
    assert len(read_yaml("a: &x 012\nb: *x\nc: *x\n", lenient=True).problems) == 1


def test_a_key_that_openpai_loses_is_named_with_both_readings():
    with pytest.raises(SpecError, match=r"LTP 1\.1 and later keep it"):
        read_yaml("__proto__: x")


def test_a_protocol_with_such_a_scalar_is_not_read():
    """Written anew under another name, it would have one meaning, and maybe not that of the user's file."""
    with pytest.raises(SpecError, match='1:30 is 90 on OpenPAI and the text "1:30" on LTP'):
        JobProtocol.from_yaml("protocolVersion: 2\nname: train\ntype: job\nparameters: {time: 1:30}\n")
