"""What pages of other sites, and addresses that lead out of a folder, get from the local server: nothing."""

from __future__ import annotations

import contextlib
import http.client
import itertools
from urllib.parse import quote

import pytest
from local_cases import cases

pytestmark = pytest.mark.slow

HERE = "HERE"  # stands for the server's own HOST:PORT


def ask(netloc, method, path, headers=()):
    """Return the answer to a request whose address is sent as it is, and its body."""
    with contextlib.closing(http.client.HTTPConnection(netloc, timeout=20)) as connection:
        connection.request(method, path, headers=dict(headers))
        reply = connection.getresponse()
        return reply, reply.read()


def test_no_page_of_another_site_gets_an_answer(local_pai_v1):
    """Each Origin, Host and purpose that a browser sends, on every kind of route: 403, but for a link.

    Pages can link here, and cannot embed anything.
    """
    here = local_pai_v1.url.removeprefix("http://")
    routes = itertools.cycle(cases("routes"))
    wrong = []
    of_a_site = itertools.product(
        [None], [HERE], cases("fetches"), cases("routes")
    )  # what a page embeds has no Origin
    of_any = itertools.product(cases("origins"), cases("hosts"), cases("fetches"), [None])
    for origin, host, fetch, route in itertools.chain(of_a_site, of_any):
        method, path = route or next(routes)
        sent = {"Origin": origin, "Host": host}
        sent |= dict(zip(("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"), fetch, strict=True))
        headers = {name: value.replace(HERE, here) for name, value in sent.items() if value is not None}
        is_own = origin in (None, f"http://{HERE}") and host == HERE
        is_own = is_own and (fetch[0] in (None, "none", "same-origin") or fetch[2] == "document")
        reply, _ = ask(here, method, path, headers)
        is_refused = reply.status == 403 and "Access-Control-Allow-Origin" not in reply.headers
        if is_refused == is_own:
            wrong.append((method, path, headers, reply.status))
    assert wrong == []


@pytest.mark.parametrize("route", cases("served_addresses"))
def test_no_address_leads_out_of_the_data_folder(local_pai_v1, route):
    """A file beside the folders that are served, spelt in each way that some decoder takes for "up"."""
    canary = local_pai_v1.data / "canary"
    canary.write_text("the canary sings")
    here = local_pai_v1.url.removeprefix("http://")
    for up, depth in itertools.product(cases("ways_up"), (1, 2, 4, 8)):
        for target in ("canary", quote(str(canary)), "server.json"):
            path = route.format("/".join([up] * depth + [target]))
            reply, text = ask(here, "GET", path)
            assert b"sings" not in text, path
            assert b'"pid"' not in text, path
            assert reply.status < 500, (path, text)
