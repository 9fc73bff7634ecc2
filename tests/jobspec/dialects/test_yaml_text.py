"""YAML means here what it means to the rest-servers, which read it with js-yaml 3 or 4; or it is refused."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from job_cases import cases
from places import DATA

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_text import Document, read_yaml, write_yaml
from luigi_pai.jobspec.paths import path_text

CASES = cases("yaml_text")

VERDICTS = [
    json.loads((DATA / name).read_text(encoding="utf-8"))
    for name in ("js_yaml_verdicts.json", "js_yaml_4_verdicts.json")
]
DIFFERENT = "OpenPAI reads this as one value, and LTP 1.1 and later as another; if you mean a string"
READ_THOUGH_REFUSED = {"&k a: 1\nb: 2\n", "x: 1\n&k a: 2\n*k : 3\n", "!!str 1: a\n", "a:\n|\n  x\n"}
"""What js-yaml refuses, and this package reads: the server then says so itself."""

NOT_READ = [*CASES["not_read"], [f"{'a' * 1025}: 1\n", "or has a key of more than 1,024 characters"]]
"""What the servers read, and this package refuses: text, message."""

WORDS = "yes N 1:30 0o17 017 1e3 .5 ~ << = - a: # 2020-01-01 --- ... %a *a &a !a @a `a` {a} [a] é"
HARD = st.sampled_from(
    [
        *WORDS.split(),
        *("", " ", "- a", "a: b", "a #b", "| x", "? a", "<% $secrets.x %>", "a" * 1500),
        *("a\nb", "a\nb\n", "a\n\nb\n\n", "\na", " a\nb", "a\n b", "a \nb", "a\tb\nc", "a\n \nb"),
        *("a\r\nb", "a\n#b\n", "\x00", "\x7f", "\x1b[0m", "\x85", "a\u2028b", "\ufeffa", "\uffff"),
    ]
)
TEXTS = st.one_of(HARD, st.text(max_size=12), st.text("ab :#-\n\t'\"{}[],&*!|>%@`?\\é", max_size=10))
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
KEYS = TEXTS.filter(lambda text: text != "__proto__")
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def as_javascript(value):
    """Return a value with its numbers as JavaScript has them, all alike."""
    if isinstance(value, dict):
        return {key: as_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_javascript(item) for item in value]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def told(value):
    """Return a value as text in which True is not 1, and 1 not 1.0."""
    return json.dumps(value, sort_keys=True)


def refusal(text, source=""):
    with pytest.raises(SpecError) as caught:
        read_yaml(text, source)
    (problem,) = caught.value.problems
    return problem


# ---------------------------------------------------------------- as js-yaml reads


def agrees(text, verdict, js_yaml_4):
    """Return whether a document has the servers' value or is refused rightly, and whether it is read."""
    try:
        document = read_yaml(text, js_yaml_4=js_yaml_4)
    except SpecError as error:
        messages = " ".join(problem.message for problem in error.problems)
        if js_yaml_4 is not None:
            return DIFFERENT not in messages, False
        known = [*(message for _, message in NOT_READ), "converts infinity and NaN to null"]
        return verdict.get("refused") or any(part in messages for part in known), False
    if verdict.get("refused"):
        return text in READ_THOUGH_REFUSED, True
    return told(document.value) == told(verdict.get("value")), True


@pytest.mark.parametrize("js_yaml_4", [None, False, True])
def test_a_text_means_what_it_means_to_the_servers(js_yaml_4):
    """Or it is refused: one of the kinds that the next test lists.

    If the version of js-yaml is known, no value is refused because the other version reads it differently.
    """
    judged = [
        (f"k: {verdict['text']}" if kind == "scalars" else verdict["text"], verdict)
        for verdicts in (VERDICTS if js_yaml_4 is None else [VERDICTS[js_yaml_4]])
        for kind in ("scalars", "documents")
        for verdict in verdicts[kind]
    ]
    found = {text: agrees(text, verdict, js_yaml_4) for text, verdict in judged}
    assert [text for text, (is_right, _) in found.items() if not is_right] == []
    assert sum(is_read for _, is_read in found.values()) > max(200, len(found) / 2)


@pytest.mark.parametrize(("text", "message"), CASES["odd"])
def test_an_odd_character_near_an_error_is_named(text, message):
    """Its own place comes first, then that where YAML could not go on."""
    assert refusal(text).message.startswith(message)
    assert refusal(text).line == 2


@pytest.mark.parametrize(("text", "message"), NOT_READ, ids=lambda text: repr(text)[:40])
def test_what_no_job_file_has_is_refused_even_in_a_lenient_reading(text, message):
    """The servers read these texts, and no job file at hand has any of them.

    To read them as js-yaml does took most of PyYAML's scanner to be overridden. Most are mistakes
    (a tab that indents, ``{{ name }}``), or the two js-yaml differ in them. So each is refused, with what
    to write in its place, and none is read as another value.
    """
    problem = refusal(text)
    with contextlib.suppress(SpecError):
        assert read_yaml(text, lenient=True).problems == [problem]
    assert message in problem.message
    assert problem.level is Level.REFUSED


@pytest.mark.parametrize(("text", "value"), CASES["read"])
def test_tabs_and_question_marks_within_a_text_are_text(text, value):
    """The tabs indent nothing; in brackets a question mark begins a key to PyYAML."""
    assert read_yaml(text).value == value


def test_a_lenient_reading_goes_on_where_the_server_does():
    document = read_yaml("a: .inf\nb: -.inf\n", lenient=True)
    assert document.value == {"a": math.inf, "b": -math.inf}
    assert all("converts infinity and NaN to null" in problem.message for problem in document.problems)
    assert {problem.level for problem in document.problems} == {Level.STRICTER}
    with pytest.raises(SpecError) as caught:
        read_yaml("a: .inf\nb: -.inf\n")
    assert list(caught.value.problems) == document.problems
    assert math.isnan(read_yaml("a: .nan\n", lenient=True).value["a"])


def test_unclear_values_are_reported_together():
    """Each with its line."""
    with pytest.raises(SpecError) as caught:
        read_yaml("2020-01-01: .inf\n__proto__: 1\nb:\n  c: 012\n")
    assert [(problem.line, problem.level) for problem in caught.value.problems] == [
        *((1, Level.REFUSED), (2, Level.REFUSED), (1, Level.STRICTER), (4, Level.REFUSED)),
    ]


def test_no_problem_of_a_secret_shows_it():
    assert "012" not in str(refusal("secrets: {key: 012}"))


def test_keys_keep_the_order_of_the_text_and_aliases_are_copied():
    value = read_yaml("b: &x [1]\na: *x\n<<: {z: 3}\nc: 4\n").value
    assert list(value) == ["b", "a", "z", "c"]
    value["b"].append(2)
    assert value["a"] == [1]


def test_pyyaml_itself_reads_as_before():
    read_yaml("a: yes\n")
    assert yaml.safe_load("a: yes\nb: 1:30\nc: 2020-01-01\nd: 0o17\n")["a"] is True


def test_the_text_is_kept():
    document = read_yaml("a: 1 # one\n")
    assert document.text == "a: 1 # one\n"
    assert isinstance(pickle.loads(pickle.dumps(document)), Document)


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(("text", "lines"), CASES["lines"])
def test_every_part_has_its_line(text, lines):
    """As editors count; what was merged in has the line where it stands."""
    assert read_yaml(text).lines == {tuple(path): line for path, line in [[[], 1], *lines]}


@pytest.mark.parametrize(("path", "text"), CASES["paths"])
def test_a_path_is_written_as_people_write_it(path, text):
    assert path_text(tuple(path)) == text


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(("text", "line", "column", "message"), CASES["errors"])
def test_an_error_says_where_and_what_to_do(text, line, column, message):
    problem = refusal(text)
    assert message in problem.message
    assert problem.line == line
    assert problem.message.startswith(f"column {column}: ") is bool(column)


def test_an_error_names_the_file_and_the_part():
    with pytest.raises(SpecError) as caught:
        read_yaml("taskRoles:\n  w: {\n  gpu: 1,\n  gpu: 2}\n", "job.yaml")
    assert str(caught.value) == (
        "job 'job.yaml' was not submitted: 1 problem in its description\n"
        "  taskRoles.w.gpu: column 3: this key is already in line 3; remove one of the two (line 4)"
    )


@pytest.mark.parametrize("line", CASES["secret_lines"])
def test_an_error_never_shows_the_text(line):
    problem = refusal(f"secrets:\n  {line}\n")
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize("depth", [150, 3000, 50_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")])
def test_deep_nesting_is_an_error_and_no_crash(depth, opened, closed):
    problem = refusal(f"{opened * depth}1{closed * depth}")
    assert "is nested more than 100 levels deep, which no job is; it is not read further" in problem.message
    assert problem.level is Level.REFUSED


CHAIN = "".join(f"- &a{n} [[[[[*a{n - 1}]]]]]\n" for n in range(1, 40))
BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"- &a0 1\n{CHAIN}", "nested more than 100 levels"),
        (f"a0: &a0 [x, x]\n{BOMB}", "more than 100,000 parts"),
    ],
    ids=["levels", "parts"],
)
def test_a_bomb_of_aliases_is_defused(text, message):
    assert message in refusal(text).message


def test_what_the_server_reads_in_a_surprising_way_is_remarked():
    document = read_yaml("a: 2020-01-01\nb:\n  - 12345678901234567890\n  - 9007199254740992\n", "job.yaml")
    assert document.value == {"a": "2020-01-01T00:00:00.000Z", "b": [12345678901234567000, 2**53]}
    quotes = "if you mean a string, put it in quotes"
    assert [str(each) for each in document.warnings] == [
        f"a: the server reads this as a date, and converts it to a time in UTC; {quotes} (line 1)",
        f"b[0]: the server rounds whole numbers beyond 9,007,199,254,740,992; {quotes} (line 3)",
    ]
    assert {each.level for each in document.warnings} == {Level.WARNING}


def test_a_version_that_a_number_shortens_is_remarked():
    document = read_yaml("parameters: {python: 3.10, rate: 0.10, half: 2.5, one: 1.0, text: '3.10'}\n")
    (said,) = map(str, document.warnings)
    assert said.startswith("parameters.python: the server reads this as the number 3.1; ")


# ---------------------------------------------------------------- written


LAYOUT = CASES["layout"]


def test_what_is_written_is_readable():
    assert write_yaml(yaml.safe_load(LAYOUT)) == LAYOUT


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=300)
@given(VALUES)
def test_what_is_written_is_read_as_it_was(value):
    """With the layout of PyYAML, which writes a document whole if it has an empty key."""
    text = write_yaml({"value": value})
    assert write_yaml({"value": value, "": 0}) == text.removesuffix("...\n") + "? ''\n: 0\n"
    assert as_javascript(read_yaml(text).value) == as_javascript({"value": value})
    assert yaml.safe_load(text) == {"value": value}
    assert yaml.safe_load(write_yaml(value)) == value


@pytest.mark.parametrize(
    "value",
    ["a\n\n", "\n", " a\n b", "...", "a\x85b", "a\nb" * 400, "x" * 2000, -0.0, 1e-9, math.inf, 10**20, True],
)
@pytest.mark.parametrize("place", [lambda value: value, lambda value: [[value], {"k.1": [value]}]])
def test_unusual_scalars_have_the_layout_of_pyyaml(value, place):
    """Blocks, blocks that keep their last line breaks, quoted and long strings, numbers."""
    text = write_yaml({"value": place(value)})
    assert write_yaml({"value": place(value), "": 0}) == text.removesuffix("...\n") + "? ''\n: 0\n"


@pytest.mark.parametrize("text", ["a: {}", "a:{} 1", "{}: 1", "{}"])
def test_many_tabs_take_no_longer_than_other_characters(text):
    """Who reads them for others has these to answer meanwhile."""
    begun = time.thread_time()
    with contextlib.suppress(SpecError):
        read_yaml(text.format("\t" * 20_000))
    assert time.thread_time() - begun < 2
