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

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
MISSING = "there is no Chromium on the PATH; on Debian and Ubuntu: sudo apt install chromium"
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " ")}


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
                assert "error" not in said, said
                return said["result"]
            if said.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(said["params"])

    def run(self, script):
        """Return the value of an expression on the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script, timeout=20):
        """Return the first true value of an expression."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(
            f"not true after {timeout} s: {script}; the page: {self.run('document.body.innerText')}"
        )

    def open(self, url):
        self.run("window.leaving = true")
        self.call("Page.navigate", url=url)
        self.wait("!window.leaving && document.readyState === 'complete'")

    def press(self, key):
        code, text = KEYS[key]
        key_event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **key_event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key_event)

    def screen(self, width, *, dark=False):
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self._socket.close()
        self._process.terminate()
        self._process.wait(20)
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()
