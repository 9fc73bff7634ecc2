"""What a cluster says of the storage that its jobs mount: each release has its way, or none."""

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
NO_CONFIG = {"code": "UnknownError", "message": "Config not found."}


@pytest.fixture
def rest():
    """A mocked rest-server; routes need not all be requested."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def storage():
    """Make the storage ``nfs1`` of user anna; processes that fork share what they know."""
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


def test_a_read_only_storage_takes_no_results(rest, storage):
    rest.get(f"{V2}/nfs1", json={"type": "nfs", "readOnly": True, "data": {"server": "n", "path": "/d"}})
    with pytest.raises(
        ConfigError, match=r"^storage = nfs1 in \[OpenPai\] is read-only, so no job can write"
    ):
        storage().mount()


@pytest.mark.parametrize(
    ("status", "code", "found", "may"),
    [
        (404, "NoStorageError", [{"name": "nfs2"}, {"name": "blob"}], "you may use blob, nfs2"),
        (403, "ForbiddenUserError", [], "you may use none"),
    ],
)
def test_a_storage_that_one_may_not_use(status, code, found, may, rest, storage):
    rest.get(f"{V2}/nfs1", status=status, json={"code": code, "message": "Storage nfs1 is not found."})
    rest.get(V2, json={"storages": found})
    with pytest.raises(ConfigError) as caught:
        storage().facts()
    assert str(caught.value) == (f"storage = nfs1 in [OpenPai] does not exist, or you may not use it; {may}")


def test_names_are_quoted(rest, storage):
    rest.get(f"{V2}/a%2Fb%3Fc", json={"type": "nfs", "data": {"server": "n", "path": "/d"}})
    assert storage("a/b?c").facts().source == "n:/d"


# 0.16 and 0.17


def old(rest, config, **server):
    """Let the server be one of 0.16 or 0.17."""
    rest.get(f"{V2}/nfs1", status=404, json=NO_API)
    rest.get(f"{CONFIG}/nfs1", json={"name": "nfs1", "default": True, "servers": ["srv"], **config})
    rest.get(f"{SERVER}/srv", json={"spn": "srv", "extension": {}, **server})


def mounting(**about):
    return {"mountPoint": "/data", "path": "", "server": "srv", "permission": "rw", **about}


@table("storages of 0.16", "mount kind data source")
def test_a_storage_of_0_16(mount, kind, data, source, rest, storage):
    """It is mounted by the plugin, where the server says."""
    old(rest, {"mountInfos": [mount]}, type=kind, data=data)
    one = storage()
    assert one.facts() == StorageFacts(kind, source, mount_path="/data")
    assert (one.mount().path, one.mount().by_plugin) == ("/data", True)
    assert "SECRET" not in f"{one.facts()!r} {one._state.read()}"
    assert asked(rest) == ["/storages/nfs1", "/storage/config/nfs1", "/storage/server/srv"]


def test_one_of_several_mounts(rest, storage):
    """It is the one that storage_mount names, else the first."""
    mounts = [mounting(path="a"), mounting(path="b", mountPoint="/b", permission="ro")]
    old(rest, {"mountInfos": mounts}, type="nfs", data={"address": "nas", "rootPath": "/e"})
    facts = storage(mount_path="/b").facts()
    assert facts == StorageFacts("nfs", "nas:/e/b", read_only=True, mount_path="/b")
    with pytest.raises(ConfigError, match="is read-only"):
        storage(mount_path="/b").mount()


def test_the_first_of_several_mounts(rest, storage):
    mounts = [mounting(path="a"), mounting(path="b", mountPoint="/b")]
    old(rest, {"mountInfos": mounts}, type="nfs", data={"address": "nas", "rootPath": "/e"})
    assert storage().facts().source == "nas:/e/a"


def test_a_config_without_mounts(rest, storage):
    old(rest, {"mountInfos": []}, type="nfs", data={})
    with pytest.raises(
        ConfigError, match=r"^storage = nfs1 .* mounts nothing, as the server says; name another"
    ):
        storage().facts()


def test_a_missing_config(rest, storage):
    """These releases answer 500 then."""
    rest.get(f"{V2}/nfs1", status=404, json=NO_API)
    rest.get(f"{CONFIG}/nfs1", status=500, json=NO_CONFIG)
    rest.get(CONFIG, json=[{"name": "b", "mountInfos": []}, {"name": "a"}])
    with pytest.raises(ConfigError, match=r"does not exist, or you may not use it; you may use a, b$"):
        storage().facts()


# releases without storages, and faults


def test_a_release_without_storages(rest, storage):
    """0.7 to 0.15: the error says what these have."""
    for path in (f"{V2}/nfs1", f"{CONFIG}/nfs1"):
        rest.get(path, status=404, json=NO_API)
    with pytest.raises(ConfigError) as caught:
        storage().facts()
    text = str(caught.value)
    assert text.startswith("storage = nfs1 in [OpenPai] cannot be used: this server has no storages; ")
    assert "storages came with OpenPAI 0.16" in text
    assert "Releases up to 0.14 have HDFS: set webhdfs_url. On 0.15, remove the key" in text


def test_a_network_that_is_down(rest, storage):
    """It is no word about the storage, and is asked again."""
    with pytest.raises(ClusterUnreachable):
        storage().facts()
    rest.get(f"{V2}/nfs1", json={"type": "nfs", "data": {"server": "nas", "path": "/d"}})
    assert storage().facts().source == "nas:/d"


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails(status, rest, storage):
    """On 1.0, an UnknownError is no answer, either."""
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
