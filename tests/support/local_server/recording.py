"""Comparing answers with recorded ones."""

from __future__ import annotations


def shape(value):
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool):
        return "bool"
    if value is None:
        return "null"
    return "num" if isinstance(value, (int, float)) else "str"


def shape_differences(path, theirs, mine):
    """Yield where two shapes differ; null may stand for any value, an empty list for any list."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted({*theirs, *mine}):
            if key not in mine or key not in theirs:
                yield f"{path}.{key} is only in one of them"
            else:
                yield from shape_differences(f"{path}.{key}", theirs[key], mine[key])
    elif isinstance(theirs, list) and isinstance(mine, list):
        if theirs and mine:
            yield from shape_differences(f"{path}[]", theirs[0], mine[0])
    elif theirs != mine and "null" not in (theirs, mine):
        yield f"{path}: {theirs} there, {mine} here"


OWN_WORDS = (None, "InvalidParametersError", "InvalidProtocolError", "ERR_INVALID_ARG_TYPE")
"""Codes of errors whose message is the local server's own."""


def check_answer(mine, theirs, renamed=("", "")):
    """Compare an answer with the recorded one: status, content type, error code, message, JSON shape.

    Args:
        mine: the response.
        theirs: what was recorded.
        renamed: a name of the recording, and what it is called here.
    """
    assert mine.status_code == theirs["status"]
    assert mine.headers["Content-Type"] == theirs["ctype"]
    if theirs["json"] is None:
        assert mine.text == theirs["text"]
        return
    body = mine.json()
    assert list(shape_differences("", shape(theirs["json"]), shape(body))) == []
    if isinstance(body, dict) and "message" in body:
        assert body.get("code") == theirs["code"]
        if theirs["status"] < 400 or theirs["code"] not in OWN_WORDS:
            assert body["message"] == theirs["message"].replace(*renamed)
