"""The facts about a storage from the rest-server, which each release sends in its own form, or not at all."""

from __future__ import annotations

import json
import logging
import os

import pytest
import responses
from file_cases import table

from luigi_pai.api.dialects.storages import JobStorage, StorageFacts
from luigi_pai.api.session import Session
from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.wire.transport import Account
from luigi_pai.errors import ClusterUnreachable, ConfigError, PaiHttpError

URL = "http://pai.test:9186"
V2, CONFIG, SERVER = f"{URL}/api/v2/storages", f"{URL}/api/v2/storage/config", f"{URL}/api/v2/storage/server"
NO_API = {"code": "NoApiError", "message": "API is not found."}


@pytest.fixture
def rest():
    """A mocked rest-server; routes need not all be requested."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def storage():
    """Make the storage ``nfs1`` of user anna; forked processes share its facts."""
    state = SharedDocument()
    session = Session(Account(URL, username="anna", token="t"), state)

    def make(name="nfs1", mount_path=None):
        return JobStorage(session, state, name, mount_path)

    yield make
    session.close()


def asked(rest):
    return [str(call.request.url).removeprefix(f"{URL}/api/v2") for call in rest.calls]


# 1.0 and later


@table("storages of 1.0", "detail facts")
def test_a_storage_of_1_0_and_later(detail, facts, rest, storage, caplog):
    """Keys and passwords are in nothing that is kept, shown or logged."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "luigi_pai.http")
    rest.get(f"{V2}/nfs1", json={"name": "nfs1", "volumeName": "v", "default": True, **detail})
    one = storage()
    assert one.facts() == StorageFacts(**facts)
    shown = f"{one!r} {one.facts()!r} {vars(one)} {json.dumps(one._state.read())} {caplog.text}"
    assert "SECRET" not in shown


def test_how_a_job_mounts_it(rest, storage):
    rest.get(f"{V2}/nfs1", json={"type": "nfs", "data": {"server": "nas", "path": "/data"}})
    mounts = [storage(mount_path=path).mount() for path in (None, "/data", "/data/")]
    assert [(one.name, one.path, one.by_plugin) for one in mounts] == [
        ("nfs1", "/mnt/nfs1", False),
        ("nfs1", "/data", False),
        ("nfs1", "/data", False),
    ]


def test_names_are_quoted(rest, storage):
    rest.get(f"{V2}/a%2Fb%3Fc", json={"type": "nfs", "data": {"server": "n", "path": "/d"}})
    assert storage("a/b?c").facts().source == "n:/d"


# 0.16 and 0.17


def old(rest, config, **server):
    """Let the server be one of 0.16 or 0.17."""
    rest.get(f"{V2}/nfs1", status=404, json=NO_API)
    rest.get(f"{CONFIG}/nfs1", json={"name": "nfs1", "default": True, "servers": ["srv"], **config})
    rest.get(f"{SERVER}/srv", json={"spn": "srv", "extension": {}, **server})


@table("storages of 0.16", "mount kind data source")
def test_a_storage_of_0_16(mount, kind, data, source, rest, storage):
    """It is mounted by the plugin, where the server says."""
    old(rest, {"mountInfos": [mount]}, type=kind, data=data)
    one = storage()
    assert one.facts() == StorageFacts(kind, source, mount_path="/data")
    assert (one.mount().path, one.mount().by_plugin) == ("/data", True)
    assert "SECRET" not in f"{one.facts()!r} {one._state.read()}"
    assert asked(rest) == ["/storages/nfs1", "/storage/config/nfs1", "/storage/server/srv"]


@pytest.mark.parametrize(
    ("mount_path", "facts"),
    [
        (None, StorageFacts("nfs", "nas:/e/a", mount_path="/data")),
        ("/b", StorageFacts("nfs", "nas:/e/b", read_only=True, mount_path="/b")),
    ],
)
def test_one_of_several_mounts(mount_path, facts, rest, storage):
    """It is the one that storage_mount names, else the first."""
    mounts = [
        {"mountPoint": "/data", "path": "a", "server": "srv", "permission": "rw"},
        {"mountPoint": "/b", "path": "b", "server": "srv", "permission": "ro"},
    ]
    old(rest, {"mountInfos": mounts}, type="nfs", data={"address": "nas", "rootPath": "/e"})
    assert storage(mount_path=mount_path).facts() == facts


# errors


@table("storages that jobs cannot use", "routes messages")
def test_a_storage_that_jobs_cannot_use(routes, messages, rest, storage):
    """The error has the reason and the next step."""
    for path, (status, document) in routes.items():
        rest.get(f"{URL}/api/v2/{path}", status=status, json=document)
    with pytest.raises(ConfigError) as caught:
        storage().mount()
    assert str(caught.value).startswith("storage = nfs1 in [OpenPai] ")
    assert [message for message in messages if message not in str(caught.value)] == []


def test_a_network_that_is_down(rest, storage):
    """It is no word about the storage, and is asked again."""
    with pytest.raises(ClusterUnreachable):
        storage().facts()
    rest.get(f"{V2}/nfs1", json={"type": "nfs", "data": {"server": "nas", "path": "/d"}})
    assert storage().facts().source == "nas:/d"


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails(status, rest, storage):
    """Also an UnknownError of 1.0 is not a fact about the storage."""
    rest.get(f"{V2}/nfs1", status=status, json={"code": "UnknownError", "message": "Kubernetes is away"})
    with pytest.raises(PaiHttpError) as caught:
        storage().facts()
    assert not isinstance(caught.value, ConfigError)


def test_it_is_asked_once_for_all_forks(rest, storage):
    rest.get(f"{V2}/nfs1", json={"type": "nfs", "data": {"server": "nas", "path": "/d"}})
    storage()._state.read()
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        code = 1
        try:
            code = int(storage().facts().source != "nas:/d" or len(asked(rest)) != 1)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(3):
        assert storage().facts().source == "nas:/d"
        assert storage().mount().path == "/mnt/nfs1"
    assert asked(rest) == []
