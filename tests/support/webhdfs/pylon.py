"""OpenPAI's Pylon as a proxy of WebHDFS (``nginx.conf.template`` of 0.7.1 and 0.7.2), for the tests."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import requests
from webhdfs_scripted import scripted

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def pylon(webhdfs_url: str, *, slip: bool) -> Iterator[str]:
    """Yield the address of a Pylon before a WebHDFS.

    Args:
        webhdfs_url: of the NameNode.
        slip: send on to ``/a/HOST/PORT/...``, as 0.7.1 does, which it does not serve.
    """
    with requests.Session() as session:

        def script(handler: Any) -> None:
            api = re.fullmatch(r"/webhdfs/api(/.*)", handler.path)
            any_server = re.fullmatch(r"/a/([^/]+:\d+)(/.*)", handler.path)
            if api:
                address = f"{webhdfs_url}/webhdfs{api[1]}"
            elif any_server:
                address = f"http://{any_server[1]}{any_server[2]}"
            else:
                handler.respond(404, b"<html>no such location")
                return
            data = handler.body()
            reply = session.request(handler.command, address, data=data, allow_redirects=False, timeout=20)
            headers = {"Content-Type": reply.headers.get("Content-Type", "")}
            if "Location" in reply.headers and api:
                between = "/" if slip else ":"
                pattern, start = r"http://([^/]+):(\d+)/(.*)", f"http://{handler.headers['Host']}"
                headers["Location"] = re.sub(
                    pattern, rf"{start}/a/\1{between}\2/\3", reply.headers["Location"]
                )
            handler.respond(reply.status_code, reply.content, **headers)

        with scripted(script) as url:
            yield url
