"""Users of both APIs, and a job of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from local_client import LocalClient, unique
from protocol_client import ProtocolClient, protocol

BOBS = "bobpassword"


@dataclass(frozen=True)
class Users:
    """The administrator of a server, a user without rights, and an ended job of the administrator's."""

    admin: Any
    bob: Any
    job: str


@pytest.fixture(scope="module")  # another module may empty the server
def v1_users(client, local_pai_v1):
    """Of the session's OpenPAI 0.7.1."""
    name = unique("bob").replace("-", "_")
    assert (
        client.send("PUT", "/user", {"username": name, "password": BOBS, "modify": False}).status_code == 201
    )
    bob = LocalClient(local_pai_v1, name, BOBS)
    bob.username = name
    return Users(client, bob, client.run("true")["name"])


@pytest.fixture(scope="session")
def with_bob():
    """Makes the other user and the job, from the administrator of a 1.8 or LTP."""

    def users(admin):
        name = unique("bob").replace("-", "_")
        new = {"username": name, "password": BOBS, "virtualCluster": ["default"]}
        assert admin.send("POST", "/users", new).status_code == 201
        job = admin.submit(protocol("true"))
        admin.wait(job)
        return Users(admin, ProtocolClient(admin.server, name, BOBS), job)

    return users


@pytest.fixture(scope="module")  # another module may empty the server
def v2_users(v2, with_bob):
    """Of the session's 1.8."""
    return with_bob(v2)


@pytest.fixture(scope="module")  # another module may empty the server
def ltp_users(storage_pai_ltp, with_bob):
    """Of the session's LTP 1.5 without HDFS."""
    return with_bob(ProtocolClient(storage_pai_ltp))
