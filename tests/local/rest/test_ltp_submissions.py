"""What a local LTP 1.5 takes as a job, and the codes with which it refuses one."""

from __future__ import annotations

import pytest
from job_files import all_files
from protocol_client import ProtocolClient, protocol

from luigi_pai.local import LocalPai
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.releases import LTP_1_5, OPENPAI_1_8
from luigi_pai.local.rest.v2.submission import read_protocol


@pytest.fixture(scope="module")
def admin():
    with LocalPai(api="ltp") as server:
        yield ProtocolClient(server)


def said(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body["message"]


def verdict(text, release):
    try:
        return read_protocol(text, release)["name"]
    except ApiError as error:
        return error.status, error.code


NOBODY_MEANS = (
    "indented_by_tabs.yaml",
    "item_left_out.yaml",
    "octal_key.yaml",
    "taken_and_breaks_later.yaml",
    "words_and_numbers.yaml",
)
"""Files that the reader of 1.8 takes for something not meant, or LTP for something else: here a 500."""


@pytest.mark.slow
def test_protocols_have_the_verdict_of_their_server():
    """Those of 1.8 are taken or refused as 1.8 did, and by LTP too unless it was seen to judge otherwise."""
    files = [file for file in all_files("v2") if file.name not in NOBODY_MEANS]
    for file in files:
        on_ltp = file.verdicts.get("ltp-v1.5", file.verdicts["v1.8.0"])
        for release, expected in ((OPENPAI_1_8, file.verdicts["v1.8.0"]), (LTP_1_5, on_ltp)):
            found = verdict(file.text, release)
            if expected["accept"]:
                assert isinstance(found, str), (file.name, found)
            else:
                error = expected["error"]
                assert found == (error["status"], error.get("code")), file.name
    assert len(files) > 20


# ---------------------------------------------------------------- types of jobs


def test_a_job_of_inference_names_what_its_address_is_made_of(admin):
    status, code, message = said(admin.post(protocol("true", jobType="inference")))
    assert (status, code) == (400, "InvalidProtocolError")
    assert "parameters: is missing; it must be a mapping with INTERNAL_SERVER_IP" in message
    known = {"INTERNAL_SERVER_IP": "1", "INTERNAL_SERVER_PORT": "2"}
    reply = admin.post(protocol("true", jobType="inference", parameters=known))
    assert said(reply)[2].startswith("parameters.API_KEY: is missing")
    whole = protocol("true", jobType="inference", parameters={**known, "API_KEY": "k"})
    assert admin.post(whole).status_code == 202


def test_1_8_has_no_administered_virtual_clusters(local_pai_v2):
    client = ProtocolClient(local_pai_v2)
    assert "vcadmins" not in client.send("GET", "/tokens/check").json()
