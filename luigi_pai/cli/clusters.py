"""``luigi-pai clusters`` and ``doctor``: show free resources, and check access to a cluster."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, plain_failures
from luigi_pai.cli.job_argument import connect, on_cluster
from luigi_pai.cli.tables import coloured, echo, json_option, show, table
from luigi_pai.jobspec.demand import Resources, VirtualCluster
from luigi_pai.redaction import printable, wrapped

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.cli.diagnosis import Check

_RESOURCES = {"gpus": "GPUS", "cpus": "CPUS", "memory_mb": "MEMORY"}
_MIB_PER_GIB = 1024
_MARGIN = " " * len("fail  ")
_COLOURS = {"ok": "SUCCEEDED", "warn": "WAITING", "fail": "FAILED"}
_EXIT_CODES = {"configuration": EXIT_USAGE, "network": EXIT_UNREACHABLE}


@click.command()
@json_option(", a list with an object for each")
@on_cluster
def clusters(*, as_json: bool) -> None:
    """Show the GPUs, CPUs, memory and waiting jobs of each virtual cluster that you can use.

    Releases up to 0.13 report only the resources in use, not the totals.
    """
    with plain_failures():
        found = _virtual_clusters(connect())
    has_shares = all(each.total == Resources() and each.share is not None for each in found)
    titles = ["NAME", *_RESOURCES.values(), "WAITING", *(["OF THE CLUSTER"] if has_shares else [])]
    lines = table(titles, [_row(each, with_share=has_shares) for each in found])
    show(list(map(_facts, found)), lines, as_json=as_json, empty="you cannot use any virtual cluster")


def _virtual_clusters(cluster: Cluster) -> list[VirtualCluster]:
    """Return the virtual clusters by name; count waiting jobs if the server does not."""
    clusters = cluster.virtual_clusters()
    found = [VirtualCluster.of(name, clusters[name]) for name in sorted(clusters)]
    if all(each.jobs_waiting is not None for each in found):
        return found
    waiting = Counter(job.virtual_cluster for job in cluster.list(username=None, states=["WAITING"]))
    return [dataclasses.replace(each, jobs_waiting=waiting[each.name]) for each in found]


def _row(found: VirtualCluster, *, with_share: bool) -> list[str]:
    waiting = "" if found.jobs_waiting is None else str(found.jobs_waiting)
    share = [f"{found.load or 0:.0f} of {found.share or 0:.0f} %"] if with_share else []
    return [found.name, *(_amount(found, resource) for resource in _RESOURCES), waiting, *share]


def _facts(found: VirtualCluster) -> dict[str, Any]:
    parts = {"total": found.total, "used": found.used, "free": found.free}
    resources = {
        resource: {key: getattr(part, resource) for key, part in parts.items()} for resource in _RESOURCES
    }
    rest = {"share_percent": found.share, "load_percent": found.load, "jobs_waiting": found.jobs_waiting}
    return {"name": found.name, **resources, **rest}


def _amount(found: VirtualCluster, resource: str) -> str:
    """Return ``3 of 8 free``, or ``5 in use`` if the total is unknown, or '' if nothing is known."""
    amounts = [getattr(part, resource) for part in (found.total, found.used, found.free)]
    unit = ""
    if resource == "memory_mb":
        unit = " GiB"
        amounts = [None if each is None else round(each / _MIB_PER_GIB, 1) for each in amounts]
    total, used, free = amounts
    if total is not None:
        return f"{free:g} of {total:g}{unit} free"
    return "" if used is None else f"{used:g}{unit} in use"


@click.command()
@json_option(", a list with an object for each check")
@click.option("--job", "image", metavar="IMAGE", help="Submit a short job that uses the storage.")
@on_cluster
def doctor(*, as_json: bool, image: str | None) -> None:
    """Check the configuration, the connection, the cluster, and its HDFS or storage.

    Each check prints ok, warn or fail, and how to fix the problem. A folder is created and
    removed in /tmp on HDFS, or at the top of the storage. Nothing is submitted without --job.
    Exit code: 0 if nothing fails, 2 if the configuration is wrong, 3 if the cluster cannot be
    reached, otherwise 1.
    """
    checks: list[Check] = []
    with plain_failures():
        from luigi_pai.cli.diagnosis import diagnose  # noqa: PLC0415  loads Luigi, which reads luigi.cfg

        for check in diagnose(image):
            checks.append(check)
            if not as_json:
                _print(check)
    show([check.__dict__ for check in checks], (), as_json=as_json)
    failed = [check for check in checks if check.state == "fail"]
    sys.exit(_EXIT_CODES.get(failed[0].name, EXIT_FAILED) if failed else 0)


def _print(check: Check) -> None:
    state = coloured(f"{check.state:4}", _COLOURS[check.state])
    lines = f"{_MARGIN}{check.name}: {printable(check.text)}"
    click.echo(f"{state}  {wrapped(lines, sys.stdout).lstrip()}")
    if check.mend:
        echo(f"{_MARGIN}{check.mend}")
