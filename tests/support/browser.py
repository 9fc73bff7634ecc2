"""A headless Chromium, driven over its remote debugging port by tornado's websocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from tornado.websocket import websocket_connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_LONGEST_SCRIPT = 64 * 1024  # bytes


def is_snap(path):
    """Say whether a command is a snap, as Ubuntu's Chromium is: it sees no temporary folder of a test."""
    command = Path(path).resolve()
    if command.name == "snap" or "snap" in command.parts:
        return True
    begin = command.read_bytes()[:_LONGEST_SCRIPT]
    return begin.startswith(b"#!") and b"/snap/bin/" in begin


_FOUND = [path for path in map(shutil.which, _NAMES) if path]
CHROMIUM = next((path for path in _FOUND if not is_snap(path)), None)
_GET = "on Debian: sudo apt install chromium; on Ubuntu, where that is a snap: the .deb of Google Chrome"
MISSING = (
    f"the Chromium on the PATH is a snap, which cannot be driven here; {_GET}"
    if _FOUND
    else f"there is no Chromium on the PATH; {_GET}"
)
_REPLACED = ("context", "navigated or closed")
"""What Chromium says of a page that is being replaced while it is asked."""

KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowLeft": (37, ""), "ArrowRight": (39, "")}


class ScriptFailed(AssertionError):
    """An expression could not be evaluated: it failed, or the page was just being replaced."""


class Browser:
    """One page.

    Attributes:
        complaints: what the browser said was wrong: errors of scripts, what the policy forbade.
    """

    def __init__(self, folder):
        self._loop = asyncio.new_event_loop()
        self._ids = itertools.count(1)
        self.complaints = []
        flags = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        if os.getuid() == 0:
            flags.append("--no-sandbox")  # as root it does not start with one
        self._process = subprocess.Popen(
            [CHROMIUM, *flags, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._attach(Path(folder))
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._loop.close()
            raise

    def _attach(self, folder):
        port = self._port(folder / "DevToolsActivePort")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/json/list", timeout=20
        ) as answer:
            address = next(
                item["webSocketDebuggerUrl"] for item in json.load(answer) if item["type"] == "page"
            )
        self._socket = self._loop.run_until_complete(self._connect(address))
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    @staticmethod
    async def _connect(address):
        return await websocket_connect(address, max_message_size=2**26)

    def _port(self, file):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if file.exists() and file.read_text().strip():
                return int(file.read_text().splitlines()[0])
            assert self._process.poll() is None, "Chromium did not start"
            time.sleep(0.02)
        raise AssertionError("Chromium did not say its port in 30 s")

    def call(self, method, **parameters):
        """Call a method of the debugging protocol and return its result."""
        return self._loop.run_until_complete(asyncio.wait_for(self._call(method, parameters), 30))

    async def _call(self, method, parameters):
        number = next(self._ids)
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(await self._socket.read_message())
            if said.get("id") == number:
                problem = said.get("error", {}).get("message", "")
                if any(word in problem for word in _REPLACED):
                    raise ScriptFailed(problem)
                assert "error" not in said, said
                return said["result"]
            if said.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(said["params"])

    def run(self, script):
        """Return the value of an expression on the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise ScriptFailed(result)
        return result["result"].get("value")

    def wait(self, script, timeout=20):
        """Return the first true value of an expression, on whatever page is there by then."""
        deadline = time.monotonic() + timeout
        problem = None
        while time.monotonic() < deadline:
            try:
                value, problem = self.run(script), None
            except ScriptFailed as failed:  # what it asks of is not there yet
                value, problem = None, failed
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(
            f"not true after {timeout} s: {script}; the page: {self.run('document.body.innerText')}"
        ) from problem

    def open(self, url):
        self.run("window.leaving = true")
        self.call("Page.navigate", url=url)
        self.wait("!window.leaving && document.readyState === 'complete'")

    def press(self, key):
        code, text = KEYS[key]
        key_event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **key_event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key_event)

    def screen(self, width, *, height=800, dark=False):
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    async def _hang_up(self):
        self._socket.close()

    def close(self):
        try:
            self._loop.run_until_complete(self._hang_up())
        finally:
            self._process.terminate()
            self._process.wait(20)
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()
