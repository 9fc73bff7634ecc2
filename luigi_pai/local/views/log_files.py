"""Task logs over HTTP, as plain text: complete or in part, even while they grow."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlencode

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from luigi_pai.local.json_http import SmallBodyHandler
from luigi_pai.local.store.records import framework_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.rest.base import Api
    from luigi_pai.local.store.records import Job, Task

_CHUNK = 256 * 1024
_TAIL = "bytes=-16384"
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))")
_FILES = {
    "user-all": ("stdout", "stderr"),
    "user-stdout": ("stdout",),
    "user-stderr": ("stderr",),
    "runtime.log": ("runtime",),
}
_NAMES = {"all": "user-all", "runtime.log": "runtime.log", "stderr": "user-stderr", "stdout": "user-stdout"}


def log_locations(api: Api, job: Job, task: Task, *, tail: bool) -> list[dict[str, str]]:
    """Return the names and paths of a v2 task's logs; with ``tail``, paths serve only the last 16 KiB.

    The paths contain a token that is valid for 12 to 24 hours. With it, anyone can read this task's logs, and
    nothing else.
    """
    query = {
        "username": job.username,
        "framework-name": framework_name(job),
        "pod-uid": task.container_id,
        "taskrole": task.role,
        "token": api.tokens.log_token(task.container_id),
    }
    if tail:
        query["tail-mode"] = "true"
    root = f"/log-manager/{api.address.netloc}/api/v1/logs"
    return [{"name": name, "uri": f"{root}/{file}?{urlencode(query)}"} for name, file in _NAMES.items()]


class _Log(SmallBodyHandler):
    def files(self, container_id: str) -> TaskFiles:
        """Return a task's files; raises HTTPError 404 if there is no such task."""
        task = self.api.store.task(container_id)
        if task is None:
            raise HTTPError(404)
        return self.api.folders.task_files(task.folder)

    def set_log_headers(self) -> None:
        """Set headers: the log is plain text, and must not be cached because it may grow."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")

    async def send(self, path: Path, start: int, end: int | None) -> None:
        """Send bytes from a file, if it exists; ``start`` and ``end`` work as in a Python slice."""
        with ExitStack() as opened:
            files, lengths = _opened([path], opened)
            await self._send(files, lengths, range(sum(lengths))[start:end])

    async def send_range(self, paths: Sequence[Path], asked: str) -> None:
        """Send the range that a Range header requests.

        If the header is invalid or the log is empty, send the whole log. If the range is empty, send 416.
        """
        with ExitStack() as opened:
            files, lengths = _opened(paths, opened)
            whole = sum(lengths)
            part = _range(asked, whole)
            if part is not None and whole:
                self.set_status(206 if part else 416)
                place = f"{part.start}-{part.stop - 1}" if part else "*"
                self.set_header("Content-Range", f"bytes {place}/{whole}")
            part = range(whole) if part is None else part
            self.set_header("Accept-Ranges", "bytes")
            self.set_header("Content-Length", str(len(part)))
            await self._send(files, lengths, part)

    async def _send(self, files: Sequence[BinaryIO], lengths: Sequence[int], part: range) -> None:
        """Send part of the joined files in chunks, without bytes appended after ``lengths`` was read."""
        before = 0
        for file, length in zip(files, lengths, strict=True):
            start, end = max(0, part.start - before), min(length, part.stop - before)
            before += length
            file.seek(start)
            while start < end:
                piece = await asyncio.to_thread(file.read, min(_CHUNK, end - start))
                if not piece:
                    return
                start += len(piece)
                self.write(piece)
                try:
                    await self.flush()
                except StreamClosedError:
                    return


class LogPage(_Log):
    """A task's output, at the URL that 0.7.1 uses; all releases' job pages use this URL."""

    async def get(self, container_id: str, _user: str, stream: str | None) -> None:
        """Send the part selected by the Range header or, as on YARN, by ``start`` and ``end`` in the query.

        A negative ``start`` counts from the end. If the URL has a ``stream``, the default ``start`` is -4096.
        Without a ``stream``, send stdout, then stderr, and ignore any Range header.
        """
        folder = self.files(container_id).folder
        start, end = self._number("start"), self._number("end")
        self.set_log_headers()
        if stream and "Range" in self.request.headers:
            await self.send_range([folder / stream], self.request.headers["Range"])
            return
        if stream:
            await self.send(folder / stream, -4096 if start is None else start, end)
            return
        for name in ("stdout", "stderr"):
            self.write(f"==> {name} <==\n")
            await self.send(folder / name, start or 0, end)
            self.write("\n")

    def _number(self, name: str) -> int | None:
        value = self.get_query_argument(name, None)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise HTTPError(400) from None


class LogFile(_Log):
    """A log at a URL from `log_locations`. It is served as nginx serves files, although it may grow."""

    async def get(self, name: str) -> None:
        """Send the whole log as it is now, the requested range or, with ``tail-mode``, the last 16 KiB.

        ``user-all`` is stdout followed by stderr, because nothing records the order they were written in.
        """
        container_id = self.get_query_argument("pod-uid", "")
        if self.api.tokens.opened_log(self.get_query_argument("token", "")) != container_id:
            raise HTTPError(403)
        if name not in _FILES:
            raise HTTPError(404)
        paths = [self.files(container_id).folder / stream for stream in _FILES[name]]
        self.set_log_headers()
        # logs have no ETag or Last-Modified, so If-Range cannot match: send the whole log
        asked = "" if "If-Range" in self.request.headers else self.request.headers.get("Range", "")
        is_tail = self.get_query_argument("tail-mode", "") == "true"
        await self.send_range(paths, _TAIL if is_tail else asked)


def _opened(paths: Sequence[Path], opened: ExitStack) -> tuple[list[BinaryIO], list[int]]:
    """Open the files that exist, and return them with their current lengths."""
    files: list[BinaryIO] = [opened.enter_context(path.open("rb")) for path in paths if path.exists()]
    return files, [os.fstat(file.fileno()).st_size for file in files]


def _range(asked: str, length: int) -> range | None:
    """Return a Range header's range, up to ``length``; None if it is invalid or has several ranges."""
    ends = _RANGE.fullmatch(asked)
    if ends is None:
        return None
    first, last, count = (None if digits is None else int(digits) for digits in ends.groups())
    if first is None:
        return range(max(0, length - (count or 0)), length)
    return range(first, length if last is None else min(length, last + 1))
