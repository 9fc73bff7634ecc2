"""The two YAML readers of the servers: agreement with the real ones, warnings, and texts that stay."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from places import DATA

from luigi_pai.errors import Level, SpecError
from luigi_pai.spec.dialects.yaml_differences import read_for_any
from luigi_pai.spec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4
from luigi_pai.spec.dialects.yaml_text import read_yaml
from luigi_pai.spec.protocol import JobProtocol
from luigi_pai.spec.submission import submission_text

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
PROTOCOL = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
parameters:
  a: %s
  list: [x, %s]
secrets:
  key: %s
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands:
      - "true"
"""


def warnings(text):
    return [str(warning) for warning in read_for_any(text).warnings]


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
    assert read_yaml(f"k: {text}").value == {"k": three}
    assert read_yaml(f"k: {text}", reader=JS_YAML_4).value == {"k": four}
    (difference,) = read_yaml(f"k: {text}").differences
    assert (difference.path, difference.line, difference.source) == (("k",), 1, text)


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "y", ".inf", "~", "2020-01-01", "1_000", "0x1F", "0b101", "1e3", ".5", "5.", "0", "'012'"],
)
def test_scalars_that_both_read_alike(text):
    assert read_yaml(f"k: {text}", lenient=True).differences == ()


# ---------------------------------------------------------------- warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k: 012", 'k: 012 is 10 on OpenPAI and 12 on LTP 1.1 and later; write 10 or "012" (line 1)'),
        ("k: 08", 'k: 08 is the text "08" on OpenPAI and 8 on LTP 1.1 and later; write 8 or "08" (line 1)'),
        (
            "- 1:30",
            f'[0]: 1:30 is 90 on OpenPAI and the text "1:30" on {LTP}; write 90 or "1:30" (line 1)',
        ),
        (
            "k:\n  09: x",
            (
                f'k.09: the key 09 is the text "09" on OpenPAI and the text "9" on {LTP}; put it into '
                "quotes (line 2)"
            ),
        ),
        (
            "secrets: {key: 012}",
            (f"secrets.key: OpenPAI and {LTP} take this for different values; put it into quotes (line 1)"),
        ),
    ],
)
def test_each_difference_is_a_warning_with_both_readings_and_the_cure(text, message):
    assert warnings(text) == [message]
    assert {warning.level for warning in read_for_any(text).warnings} == {Level.WARNING}


def test_a_place_is_warned_of_once():
    """However many aliases refer to it."""
    assert len(warnings("a: &x 012\nb: *x\nc: *x\n")) == 1


def test_what_one_reader_refuses_is_said():
    key = 'the key 012 is the text "10" on OpenPAI and the text "12" on LTP 1.1 and later; put it into quotes'
    twice = "this key is in line 1 already; the server refuses a key given twice"
    assert warnings("012: a\n10: b") == [
        f"12: {key} (line 1)",
        f"10: refused by OpenPAI, accepted by LTP 1.1 and later: column 1: {twice} (line 2)",
    ]
    assert warnings("012: a\n12: b") == [
        f"10: {key} (line 1)",
        f"12: refused by LTP 1.1 and later, accepted by OpenPAI: column 1: {twice} (line 2)",
    ]
    with pytest.raises(SpecError, match="this key is in line 1 already"):
        read_for_any("a: 1\na: 2")


def test_an_ambiguous_value_is_reported_with_both_readings():
    with pytest.raises(SpecError, match=r"LTP 1\.1 and later keep it"):
        read_for_any("__proto__: x")


# ---------------------------------------------------------------- texts that stay


@pytest.mark.parametrize(("text", "three", "four"), SCALARS)
def test_a_renamed_document_keeps_the_text_of_such_scalars(text, three, four):
    """Attempt 2 means to either server what the user's file does."""
    job = JobProtocol.from_yaml(PROTOCOL % (text, text, text))
    assert job.to_dict()["parameters"]["a"] == three
    changed = job.renamed("train__attempt2").filled(parameters={"more": 1})
    written = submission_text(changed)
    assert written == changed.to_yaml()
    assert f"  a: {text}\n" in written
    assert f"    - {text}\n" in written
    assert f"  key: {text}\n" in written
    for reader, value in ((JS_YAML_3, three), (JS_YAML_4, four)):
        document = read_yaml(written, reader=reader).value
        assert document["name"] == "train__attempt2"
        assert document["parameters"] == {"a": value, "list": ["x", value], "more": 1}
        assert document["secrets"] == {"key": value}


@pytest.mark.parametrize(("text", "three", "four"), SCALARS)
def test_a_key_keeps_its_text(text, three, four):
    job = JobProtocol.from_yaml(PROTOCOL % (f"{{{text}: x}}", "y", "z"))
    written = job.renamed("other").to_yaml()
    assert f"    {text}: x\n" in written
    for reader, value in ((JS_YAML_3, three), (JS_YAML_4, four)):
        assert read_yaml(written, reader=reader).value["parameters"]["a"] == {str(value): "x"}


def test_an_anchored_scalar_keeps_its_text():
    """The anchor, which nothing refers to any more, goes."""
    text = PROTOCOL % ("&x 012", "*x", "*x")
    written = JobProtocol.from_yaml(text).renamed("other").to_yaml()
    assert "  a: 012\n" in written
    assert "  key: 012\n" in written
    for reader in (JS_YAML_3, JS_YAML_4):
        before, after = (read_yaml(each, reader=reader).value for each in (text, written))
        assert after == {**before, "name": "other"}


def test_what_is_written_over_such_a_scalar_is_what_counts():
    """Also where it is equal to what OpenPAI read."""
    job = JobProtocol.from_yaml(PROTOCOL.replace("instances: 1", "instances: 012") % ("x", "y", "z"))
    assert "instances: 012\n" in job.renamed("other").to_yaml()
    job.taskRoles["worker"].instances = 10
    assert "instances: 10\n" in job.to_yaml()


def test_a_document_is_made_of_plain_values():
    job = JobProtocol.from_yaml(PROTOCOL % ("012", "1:30.5", "0o17"))
    document = job.to_dict()
    values = [document["parameters"]["a"], document["parameters"]["list"][1], document["secrets"]["key"]]
    assert [type(value) for value in values] == [int, float, str]
    assert type(read_yaml("012: x").value.popitem()[0]) is str
    for copied in (copy.deepcopy(job), pickle.loads(pickle.dumps(job))):
        assert copied.renamed("other").to_yaml() == job.renamed("other").to_yaml()
    assert repr(job.parameters["a"]) == "10"


def test_a_text_that_nothing_is_changed_in_stays_as_it_is():
    text = PROTOCOL % ("012", "1:30", "0o17")
    assert JobProtocol.from_yaml(text).to_yaml() == text
