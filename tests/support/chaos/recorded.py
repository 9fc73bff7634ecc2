"""Replies of servers as they were recorded, and changes of them at random."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

from fault_server import Reply
from places import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DIGITS",
    "OTHERS",
    "RECORDINGS",
    "Recorded",
    "changed_bytes",
    "changed_json",
    "changed_value",
    "json_bytes",
]

OTHERS: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**400, 1e308, float("nan"), float("inf"), "", "x", "\x00\ud800", "1e999", "-1",
    "9" * 5000, [], [[]], [None], ["x"], {}, {"a": 1}, {"name": None}, [{"name": "x"}] * 3,
)  # fmt: skip
DIGITS = "@5000 digits"
"""Becomes an int of 5,000 digits, which Python does not print."""
MOST_REQUESTS = 300  # of one call


def changed_value(value: Any, chance: random.Random, others: tuple[Any, ...] = OTHERS) -> Any:
    """Return JSON in which one value, anywhere, is another one, or missing."""
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.15:
        return chance.choice(others)
    if isinstance(value, dict):
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: changed_value(value[key], chance, others)}
    index = chance.randrange(len(value))
    return [changed_value(one, chance, others) if at == index else one for at, one in enumerate(value)]


def json_bytes(value: Any) -> bytes:
    """Return the text of JSON; ``DIGITS`` in it becomes a number."""
    return json.dumps(value).replace(f'"{DIGITS}"', "9" * 5000).encode()


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return bytes that are cut, flipped, repeated, or have others among them."""
    at = chance.randrange(len(data) + 1)
    to = min(len(data), at + chance.randrange(1, 30))
    kind = chance.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[to:]
    if kind == 2:
        return data[:at] + data[at:to] * chance.choice((2, 50)) + data[to:]
    if kind == 3:
        odd = (
            b"\x00",
            b"\xff\xfe",
            b"\n",
            b"{",
            b"[" * 3000,
            b"}",
            b"'",
            b": ",
            b"&a *a",
            b"\xef\xbb\xbf",
            b"%",
        )
        return data[:at] + chance.choice(odd) + data[at:]
    flipped = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        if flipped:
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def changed_json(value: Any, chance: random.Random) -> bytes:
    """Return the text of JSON, changed in either way."""
    data = json_bytes(changed_value(value, chance) if chance.random() < 0.7 else value)
    return changed_bytes(data, chance) if chance.random() < 0.4 else data


RECORDINGS = ("v0.7.1", "v1.8.0", "ltp-v1.5")
KINDS = {
    "login": r"POST .*(/token|/login)$",
    "submit": r"POST .*/jobs$",
    "change": r"(PUT|DELETE) ",
    "list": r"GET .*/jobs/?(\?.*)?$",
    "config": r"GET .*/config$",
    "ssh": r"GET .*/ssh$",
    "events": r"GET .*/events",
    "logs": r"GET .*/(logs|attempts|job-attempts)",
    "clusters": r"GET .*/virtual-clusters",
    "job": r"GET .*/jobs/[^/]+$",
    "about": "",
}


def kind_of(request: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.match(pattern, request))


class Recorded:
    """Answers with a recorded reply to a request of that kind, and changes it most of the time."""

    def __init__(self, name: str, change: Callable[[Any, random.Random], bytes] = changed_json) -> None:
        self._change = change
        self.tokens: set[str] = set()  # that were sent at logins
        self.replies: dict[str, list[dict[str, Any]]] = {}
        for entry in json.loads((DATA / f"observed_{name}.json").read_text(encoding="utf-8")):
            self.replies.setdefault(kind_of(entry["req"]), []).append(entry)
        self.chance = random.Random(0)
        self.count = 0
        self.share = 0.7  # of the replies that are changed

    def answer(self, request: Any) -> Reply:
        self.count += 1
        assert self.count <= MOST_REQUESTS, "it asks for ever"
        kind = kind_of(f"{request.method} {request.path}")
        entries = self.replies.get(kind) or self.replies["job"]
        good = [entry for entry in entries if entry["status"] < 300] or entries
        entry = self.chance.choice(good if self.chance.random() < 0.8 else entries)
        headers = {"Content-Type": entry["ctype"] or "application/json", **entry["hdrs"]}
        if entry["json"] is None:
            body = (entry["text"] or "").encode()
        elif self.chance.random() < (0.1 if kind == "login" else self.share):
            body = self._change(entry["json"], self.chance)
        else:
            body = json.dumps(entry["json"]).encode()
            if kind == "login" and isinstance(entry["json"], dict) and "token" in entry["json"]:
                self.tokens.add(entry["json"]["token"])
        return Reply(entry["status"], body, headers)
