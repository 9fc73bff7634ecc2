"""What every page and the list of jobs have in common."""

from __future__ import annotations

import re

import pytest
import requests


def get(server, path="/", **query):
    return requests.get(server.url + path, params=query, timeout=20).text


@pytest.mark.slow
def test_gpus_are_shown_as_numbers_not_as_a_count(local_pai_v1, client):
    name = client.run({"name": "m", "command": "true", "cpuNumber": 1, "memoryMB": 1, "gpuNumber": 2})["name"]
    text = get(local_pai_v1, "/job-detail.html", username="admin", jobName=name)
    assert re.search(r'data-label="GPUs">no. \d, \d</td>', text)


def test_every_page_names_the_product(local_pai_v1):
    text = get(local_pai_v1)
    assert "<title>Jobs - luigi-pai local</title>" in text
    assert '<span class="product">luigi-pai local</span>' in text


def test_a_foreign_host_gets_advice_on_proxies(local_pai_v1):
    """Which passes on another name than this server's."""
    reply = requests.get(local_pai_v1.url, headers={"Host": "pai.example"}, timeout=20)
    assert reply.status_code == 403
    netloc = local_pai_v1.url.partition("//")[2]
    assert f'A proxy in front of it must send "Host: {netloc}"' in reply.json()["message"]
