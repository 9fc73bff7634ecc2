"""The checks of ``luigi-pai doctor``: configuration, network, cluster and file system."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from luigi_pai.api.request_limits import Kind
from luigi_pai.config import OpenPai
from luigi_pai.config_file import (
    FIRST_FILE,
    SECTION,
    chosen_section,
    cluster_option,
    clusters,
    files_read,
    ignored_files,
    missing_section,
    misspelled_clusters,
    no_file,
    unknown_keys,
)
from luigi_pai.errors import AuthenticationError, ClusterUnreachable, ConfigError, PaiError
from luigi_pai.files import Storage, WebHdfs
from luigi_pai.files.small_files import create_once, read_small
from luigi_pai.files.storage.mounts import is_on_own_disk, mount_of
from luigi_pai.jobspec.demand import free_in
from luigi_pai.jobspec.job import PaiJob, TaskRole

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.server import Greeting
    from luigi_pai.config import HdfsAccount
    from luigi_pai.files import FileSystem

_MOST_SKEW = 60.0  # seconds; if the clocks are further apart, the times in tokens are unreliable
_SHORT_LIFE = 600.0
_DAY = 86400.0
_NOT_FOUND = 404
_DOTS = 2  # in a JSON Web Token
_WEBHDFS_PORTS = (50070, 50470, 9870, 9871, 14000)  # Hadoop 2, Hadoop 3 and HttpFS
_NOT_CHECKED = "the server has not said whether it accepts the token: before 1.0, only a submission shows it"
_OF_PORTAL = "is pai_url the rest-server, not the web portal?"
_DATANODES = "DataNodes must be reachable too; if not by their own addresses, set webhdfs_redirect"
_NO_STORAGE = "on OpenPAI 0.7 to 0.14 webhdfs_url = http://NAMENODE:50070 (9870 for Hadoop 3)"
_WRITTEN = b"luigi-pai\n"
_JOB_SECONDS = 300.0  # the longest that the job may wait, and then run
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")


@dataclass(frozen=True)
class Check:
    """A check and its result.

    Attributes:
        name: What is checked.
        state: ``ok``, ``warn`` or ``fail``.
        text: The result.
        mend: How to fix the problem; empty if there is none.
    """

    name: str
    state: str
    text: str
    mend: str = ""


def diagnose(image: str | None = None) -> Iterator[Check]:
    """Run the checks in order, skipping those that depend on a failed check.

    They check the cluster of ``OpenPai.current()``. They create and remove a folder in /tmp on HDFS, and in
    the storage's root folder.

    Args:
        image: The image for a job that reads and writes files on the storage; None to submit no job.
    """
    level = logging.getLogger("luigi-interface").level
    logging.getLogger("luigi-interface").setLevel(logging.ERROR)  # each problem becomes a Check instead
    try:
        for check in _configuration():
            yield check
            if check.state == "fail":
                return
        settings = OpenPai.current()
        greeting = yield from _network(settings)
        if greeting is not None:
            yield from _cluster(settings, greeting)
        yield from _files(settings, image)
    finally:
        logging.getLogger("luigi-interface").setLevel(level)


def _configuration() -> Iterator[Check]:
    files = files_read()
    if files:
        yield Check("configuration", "ok", f"read {', '.join(files)}")
    else:
        yield Check("configuration", "warn", no_file(), FIRST_FILE)
    yield from (Check("configuration", "warn", problem) for problem in ignored_files())
    for problem in misspelled_clusters().values():
        yield Check("configuration", "warn", problem, "as written, the section names no cluster")
    try:
        section = chosen_section(None)
        yield from _other_clusters(section)
        settings = OpenPai.current()
    except ConfigError as error:
        yield Check("configuration", "fail", str(error))
        return
    for key, advice in unknown_keys(section).items():
        yield Check("configuration", "warn", f"[{section}] has a key {key!r}, which does not exist", advice)
    how = "token" if settings.token else "password" if settings.password else None
    if how is None:
        problem = f"[{section}] has neither password nor token for user {settings.username}"
        problem = missing_section(section) or problem
        yield Check("configuration", "fail", problem, "write password = ... or token = ...")
        return
    yield Check("configuration", "ok", f"{settings.pai_url}, user {settings.username}, by {how}")


def _other_clusters(section: str) -> Iterator[Check]:
    """If there are [OpenPai:NAME] sections, yield a check that says which section is used.

    The check also lists the options that select the other sections.
    """
    names = [name for name in clusters() if section != f"{SECTION}:{name}"]
    if section == SECTION and not names:
        return
    options = ", ".join(cluster_option(f"{SECTION}:{name}").strip() for name in names)
    others = f"; others: {options}" if options else ""
    yield Check("configuration", "ok", f"checking the cluster of [{section}]{others}")


def _network(settings: OpenPai) -> Generator[Check, None, Greeting | None]:
    """Check the network, and return the server's response; None if it does not respond."""
    parts = urlsplit(settings.pai_url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    proxies = [name for name in _PROXIES if os.environ.get(name)]
    if proxies:
        yield Check("network", "ok", f"{', '.join(proxies)} set: requests may go through a proxy")
    else:
        try:
            addresses = sorted({entry[4][0] for entry in socket.getaddrinfo(host, port)})
        except OSError as error:
            problem = f"{host} has no address: {error.strerror or error}"
            yield Check("network", "fail", problem, "check the host in pai_url, VPN and DNS")
            return None
        yield Check("network", "ok", f"{host} is {', '.join(map(str, addresses[:3]))}")
    try:
        greeting = settings.cluster().server.greeting()
    except PaiError as error:
        yield Check("network" if isinstance(error, ClusterUnreachable) else "server", "fail", str(error))
        return None
    yield Check("network", "ok", f"{parts.scheme}://{parts.netloc} responds")
    if greeting.skew is not None and abs(greeting.skew) > _MOST_SKEW:
        ahead = "behind" if greeting.skew > 0 else "ahead of"
        problem = f"this machine's clock is {abs(greeting.skew):.0f} s {ahead} the server's"
        yield Check("clock", "warn", problem, "set it by NTP: tokens are signed with times")
    elif greeting.skew is not None:
        yield Check("clock", "ok", "agrees with the server's")
    return greeting


def _cluster(settings: OpenPai, greeting: Greeting) -> Iterator[Check]:
    cluster = settings.cluster()
    try:
        dialect = cluster.server.api_version()
    except PaiError as error:
        yield Check("server", "fail", str(error), _OF_PORTAL)
        return
    if greeting.status == _NOT_FOUND and greeting.error_code is None and not greeting.is_page:
        yield Check("server", "warn", "it responds to everything with 404: is the path in pai_url correct?")
    try:
        life = cluster.server.token_life()
        token = cluster.server.token_check() if dialect == "v2" else None
    except PaiError as error:
        mend = "" if isinstance(error, AuthenticationError) else _OF_PORTAL
        yield Check("login", "fail", str(error), mend)
        return
    version = greeting.info.get("version")  # from 0.15 on
    is_ltp = token is not None and "vcadmins" in token
    product = "LTP, based on OpenPAI" if is_ltp else "OpenPAI"
    release = f"{product} {str(version).removeprefix('v')}" if version else "an OpenPAI 0.7 to 0.14"
    yield Check("server", "ok", f"{release}, API {dialect}")
    yield _login(settings, life, is_checked=token is not None, is_ltp=is_ltp)
    yield from _to_first_error("jobs", _jobs(cluster))
    yield from _to_first_error("virtual clusters", _virtual_clusters(cluster))
    yield from _to_first_error("storages", _storages(cluster), "warn")
    limits = cluster.server.requests_left()
    for name, (left, seconds) in limits.items():
        state = "ok" if left > 0 else "warn"
        yield Check("limits", state, f"{name}: {left} requests left in the next {seconds:.0f} s")
    if limits and Kind.SUBMIT.value not in limits:
        message = f"{Kind.SUBMIT.value}: 60 an hour by default; the response to a submission shows the rest"
        yield Check("limits", "ok", message)


def _login(settings: OpenPai, life: float | None, *, is_checked: bool, is_ltp: bool) -> Check:
    if settings.token and settings.token.count(".") != _DOTS:
        problem = "the token is incomplete: tokens of OpenPAI have three parts, separated by dots"
        return Check("login", "warn", problem, "copy it again from your profile page in the web portal")
    who = f"as {settings.username}" if is_checked or not settings.token else _NOT_CHECKED
    if is_ltp and not settings.token:
        problem = f"{who}, with a password, which LTP may reject later"
        return Check("login", "warn", problem, "make an application token on your profile page: token = ...")
    if life is None:
        return Check("login", "ok", f"{who}; the token does not say when it expires")
    if life <= 0:
        return Check("login", "fail", "the token has expired", "make a new one and write it as token = ...")
    shown = f"{life / _DAY:.0f} days" if life > 2 * _DAY else f"{life / 60:.0f} min"
    if settings.token and life < _SHORT_LIFE:
        return Check("login", "warn", f"the token expires in {shown}", "make a new one")
    return Check("login", "ok", f"{who}; the token expires in {shown}")


def _to_first_error(name: str, checks: Iterator[Check], state: str = "fail") -> Iterator[Check]:
    """Yield checks until one raises an error, then yield the error as a check with this name and state."""
    try:
        yield from checks
    except PaiError as error:
        yield Check(name, state, str(error))


def _jobs(cluster: Cluster) -> Iterator[Check]:
    jobs = cluster.list()
    going_on = sum(not job.finished for job in jobs)
    yield Check("jobs", "ok", f"{len(jobs)} known, {going_on} of them waiting or running")


def _virtual_clusters(cluster: Cluster) -> Iterator[Check]:
    clusters = cluster.virtual_clusters()
    if not clusters:
        yield Check("virtual clusters", "warn", "you cannot use any", "ask the administrator for one")
        return
    shown = [f"{name} ({free})" if (free := free_in(about)) else name for name, about in clusters.items()]
    yield Check("virtual clusters", "ok", ", ".join(sorted(shown)))


def _storages(cluster: Cluster) -> Iterator[Check]:
    if not cluster.book.api.dialect.gives_logs:
        return
    names = sorted(str(storage.get("name")) for storage in cluster.server.storages())
    yield Check("storages", "ok", ", ".join(names) or "none; your jobs mount nothing")


def _files(settings: OpenPai, image: str | None) -> Iterator[Check]:
    """Check the cluster's HDFS and storage; with ``image``, also check the storage from a job."""
    account, cluster = settings.hdfs_account(), settings.section.partition(":")[2]
    if account is not None:
        yield from _to_first_error("hdfs", _hdfs(settings, account, WebHdfs.from_config(cluster)))
    if settings.storage:
        yield from _to_first_error("storage", _storage(settings, Storage.from_config(cluster), image))
    elif account is None:
        problem = "neither storage nor webhdfs_url is set: outputs and completion flags cannot be kept"
        yield Check("files", "warn", problem, f"write storage = NAME; {_NO_STORAGE}")


def _hdfs(settings: OpenPai, account: HdfsAccount, fs: WebHdfs) -> Iterator[Check]:
    fs.exists("/")
    yield Check("hdfs", "ok", f"{', '.join(account.urls)} responds, as user {account.user}")
    if urlsplit(settings.fs_uri or "").port in _WEBHDFS_PORTS:
        problem = f"fs_uri = {settings.fs_uri}: that is the WebHDFS port, not the HDFS port"
        yield Check("hdfs", "warn", problem, "write hdfs://HOST:9000, or the cluster's fs.defaultFS")
    yield _writes("hdfs", fs, "/tmp", _DATANODES)  # noqa: S108  on HDFS


def _storage(settings: OpenPai, fs: Storage, image: str | None) -> Iterator[Check]:
    here, facts = fs.local_path("/"), settings.cluster().server.storage(fs.name)
    mount = settings.cluster().storage
    source = " ".join(filter(None, (facts.type, facts.source)))
    there = "" if mount is None else f", and {mount.mount().path} in jobs"
    yield Check("storage", "ok", f"{fs.name} ({source}) is {here} here{there}")
    disk = mount_of(here)
    if is_on_own_disk(here, facts.source):
        problem = f"{here} is on the disk of this machine, so {fs.name} may not be mounted there"
        yield Check("storage", "warn", problem, "see the output of findmnt, and set storage_path")
    if disk is not None and "blobfuse" in disk.type + disk.source:
        problem = "blobfuse caches files on each machine: two machines that run one task may submit it twice"
        yield Check("storage", "warn", problem, "run a task on one machine only, or use another storage")
    yield _writes("storage", fs, "", "set output_dir and results_dir to folders where you can write")
    if image is not None:
        yield from _to_first_error("storage", _in_a_job(settings, fs, image))


def _writes(name: str, fs: FileSystem, top: str, mend: str) -> Check:
    """Write, link, rename and read a file. On HDFS, this also checks the DataNodes.

    Args:
        name: The name of the check.
        fs: The file system.
        top: The folder in which to create and remove a test folder.
        mend: How to fix a failure.
    """
    folder = f"{top}/luigi-pai-doctor-{uuid.uuid4().hex[:10]}"
    try:
        fs.mkdir(folder)
        try:
            with fs.open_writer(f"{folder}/a") as writer:
                writer.write(_WRITTEN)
            fs.rename_dont_move(f"{folder}/a", f"{folder}/b")
            with fs.open_reader(f"{folder}/b") as reader:
                same = reader.read() == _WRITTEN
            claimed = [create_once(fs, f"{folder}/c", problem) for problem in (b"1", b"2")]
        finally:
            fs.remove(folder)
    except PaiError as error:
        return Check(name, "fail", f"cannot write and read a file in {top or '/'}: {error}", mend)
    if not same:
        return Check(name, "fail", "the content read from a file differs from the written content")
    if claimed != [True, False]:
        problem = "two processes can create a file of one name, so that a job may be submitted twice"
        return Check(
            name, "fail", problem, "use another file system for output_dir; a blobfuse mount has this problem"
        )
    return Check(
        name, "ok", f"wrote, claimed, renamed, read and removed a file in {top or 'its root folder'}"
    )


def _in_a_job(settings: OpenPai, fs: Storage, image: str) -> Iterator[Check]:
    """Submit a job that reads a file written here and writes another, then look for the job's file here."""
    name = f"luigi-pai-doctor-{uuid.uuid4().hex[:10]}"
    command = 'grep -q luigi-pai "$PAI_OUTPUT_DIR/here" && id -u >"$PAI_OUTPUT_DIR/there"'
    role = TaskRole("main", command, memoryMB=512)
    volume, place = fs.at(f"/{name}")
    volume.share_folder(place)
    try:
        volume.create_file(f"{place}/here", _WRITTEN)
        job = settings.cluster().submit(PaiJob(name, image, [role], outputDir=f"/{name}"))
        end = job.wait(queue_timeout=_JOB_SECONDS, run_timeout=_JOB_SECONDS)
        found = read_small(fs, f"/{name}/there", len(_WRITTEN))
        if not end.succeeded:
            problem = f"job {name} does not see the files written by this machine: {end.raw_state}"
            yield Check("storage", "fail", problem, f"luigi-pai logs {name}")
        elif found is None:
            problem = f"the file that job {name} wrote is not in {fs.local_path(place)}"
            yield Check("storage", "fail", problem, "storage_path must be the folder that containers see")
        else:
            user = found.decode("ascii", "replace").strip()
            yield Check("storage", "ok", f"job {name} reads and writes the same files, as user {user}")
    finally:
        volume.remove(place, recursive=True)
