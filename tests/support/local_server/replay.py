"""The recorded requests, sent to a local server, and its answers compared with the recorded ones."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import requests
import yaml
from local_client import unique
from places import DATA
from waiting import wait_until

RECORDINGS = {  # API -> the recording, and the name of its run
    "v1": ("observed_v0.7.1.json", "q6afffc61"),
    "v2": ("observed_v1.8.0.json", "p6afffdb1"),
    "ltp": ("observed_ltp-v1.5.json", "p6b027e99"),
}
OWN_WORDS = (None, "InvalidParametersError", "InvalidProtocolError", "ERR_INVALID_ARG_TYPE")
"""Codes of errors whose message is the local server's own."""


def recorded(api):
    """Return the steps of a recording."""
    return {entry["step"]: entry for entry in json.loads((DATA / RECORDINGS[api][0]).read_text())}


class Replay:
    """Sends the recorded requests in their order, with names of this run, and keeps the answers."""

    def __init__(self, server, api):
        self.server = server
        self.recorded = recorded(api)
        self.renamed = RECORDINGS[api][1], unique("p").replace("-", "")
        text = (DATA / "local" / "recordings.yaml").read_text().replace("NAME", self.renamed[1])
        sent = yaml.safe_load(text)
        self.api = sent["v1" if api == "v1" else "v2"]
        self.steps = self.api["steps"]
        for step, more in sent["ltp"].items() if api == "ltp" else ():
            self.steps[step] = {**self.steps[step], **more}
        self.tokens = {"none": None}
        self.answers = {}
        for step in self.recorded:
            self.send(step, **self.steps.get(step, {}))

    def send(self, step, until=None, keep=None, **about):
        method, path = self.recorded[step]["req"].split(" ", 1)
        path = path.replace(*self.renamed).replace("<jwt>", quote(self.tokens.get("application", "")))
        body, kind = self.body(**about)
        headers = {"Authorization": self.authorization(about.get("as", self.api["as"]))}
        headers |= {"Content-Type": kind, "Accept": about.get("accept")}

        def reply():
            self.answers[step] = requests.request(
                method,
                self.server.url + path,
                data=body,
                headers=headers,
                timeout=20,
                allow_redirects=False,
            )
            return until is None or self.answers[step].json()["jobStatus"]["state"] == until

        wait_until(reply)
        if keep is not None:
            self.tokens[keep] = self.answers[step].json()["token"]

    def body(self, **about):
        """Return the body of a request, and its content type."""
        if "json" in about:
            return json.dumps(about["json"]), "application/json"
        if "form" in about:
            return about["form"], None
        text = about.get("text")
        if "job" in about:
            text = yaml.safe_dump({**self.api["job"], **about["job"]}) + "#" * about.get("pad", 0)
        return text, about.get("type", "text/yaml") if text is not None else None

    def authorization(self, who):
        if who == "basic application":
            words = f"admin:{self.tokens['application']}"
            return f"Basic {base64.b64encode(words.encode()).decode()}"
        if who.startswith("Bearer "):
            return who
        token = self.tokens.get(who)
        return token and f"Bearer {token}"

    def check(self, step):
        """Compare an answer with the recorded one: status, content type, error code, message, JSON shape."""
        mine, theirs, about = self.answers[step], self.recorded[step], self.steps.get(step, {})
        if "here" in about:
            assert [mine.status_code, mine.json().get("code")] == about["here"]
            return
        assert mine.status_code == theirs["status"]
        assert mine.headers["Content-Type"] == theirs["ctype"]
        if theirs["json"] is None:
            assert mine.text == theirs["text"]
            return
        body = mine.json()
        if about.get("shape", True):
            assert list(shape_differences("", shape(theirs["json"]), shape(body))) == []
        if isinstance(body, dict) and "message" in body:
            assert body.get("code") == theirs["code"]
            if theirs["status"] < 400 or theirs["code"] not in OWN_WORDS:
                assert body["message"] == theirs["message"].replace(*self.renamed)
        values = {path: value_at(theirs["json"], path) for path in about.get("same", ())}
        values |= about.get("values", {})
        assert {path: value_at(body, path) for path in values} == values


def value_at(body, path):
    """Return what is at a path of keys and numbers; of an empty one, all."""
    for key in path.split(".") if path else ():
        body = body[int(key) if isinstance(body, list) else key]
    return body


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
