"""A test that takes ``fs``, ``home`` or ``backend`` runs on the local WebHDFS, each real HDFS and a storage.

``make test-newest`` starts the real ones; without them, test_datanodes.py says so. For pytest by itself,
``make real-hdfs`` serves one and prints what to set; ``HDFS_TEST_URL`` and ``HDFS_TEST_USER`` may as well
name any other, and its superuser.
"""

from __future__ import annotations

import getpass
import uuid

import pytest
from hdfs_backend import BACKENDS, EACH_HADOOP, LOCAL, STORAGE, Backend, storage_backend
from hdfs_backend import real_backend as real
from webhdfs_server import serving

from luigi_pai.files import Storage


@pytest.fixture(scope="session")
def local_backend(tmp_path_factory):
    """The local WebHDFS, one for all tests of a process."""
    root = tmp_path_factory.mktemp("hdfs") / "root"
    with serving(root) as url:
        yield Backend(LOCAL, url, getpass.getuser(), root)


@pytest.fixture(params=EACH_HADOOP)
def real_backend(request):
    """Each real HDFS in turn."""
    return real(request.param)


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path_factory):
    """The local WebHDFS, each real HDFS and a storage in turn."""
    if request.param == LOCAL:
        return request.getfixturevalue("local_backend")
    if request.param == STORAGE:
        return storage_backend(tmp_path_factory.mktemp("storage"))
    return real(request.param)


@pytest.fixture
def url(backend):
    """The address of its WebHDFS."""
    return backend.url


@pytest.fixture
def fs(backend):
    """It as a file system, as its superuser."""
    return backend.fs()


@pytest.fixture
def home(fs):
    """A folder on it for one test."""
    path = f"/tmp/luigi-pai-{uuid.uuid4().hex[:10]}"
    fs.mkdir(path)
    yield path
    fs.remove(path)


@pytest.fixture
def root(tmp_path):
    """The folder of the storage."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def storage(root):
    """The storage ``nfs1``."""
    return Storage("nfs1", str(root))


@pytest.fixture
def volume(storage):
    """Its volume."""
    return storage.at("/")[0]
