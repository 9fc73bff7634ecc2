"""``luigi-pai clusters`` and ``doctor``: what is free in a cluster, and whether it can be used from here."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, plain_failures
from luigi_pai.cli.job_argument import connect, on_cluster
from luigi_pai.cli.tables import coloured, table, tell
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
@click.option("--json", "as_json", is_flag=True, help="As JSON, a list with an object for each.")
@on_cluster
def clusters(*, as_json: bool) -> None:
    """Show the virtual clusters that you may use: GPUs, CPUs, memory, and jobs that wait.

    Releases up to 0.13 report what is in use, but no totals.
    """
    with plain_failures():
        found = _virtual_clusters(connect())
    if as_json:
        click.echo(json.dumps([_facts(each) for each in found], indent=2))
        return
    if not found:
        click.echo("no virtual cluster that you may use", err=True)
        return
    titles = ["NAME", *_RESOURCES.values(), "WAITING"]
    has_shares = all(each.total == Resources() and each.share is not None for each in found)
    rows = []
    for each in found:
        waiting = "" if each.jobs_waiting is None else str(each.jobs_waiting)
        row = [each.name, *(_amount(each, resource) for resource in _RESOURCES), waiting]
        rows.append([*row, f"{each.load or 0:.0f} of {each.share or 0:.0f} %"] if has_shares else row)
    for line in table([*titles, "OF THE CLUSTER"] if has_shares else titles, rows):
        click.echo(line)


def _virtual_clusters(cluster: Cluster) -> list[VirtualCluster]:
    """Return the virtual clusters, sorted by name; count waiting jobs if the server sends no number."""
    answer = cluster.virtual_clusters()
    found = [VirtualCluster.of(name, answer[name]) for name in sorted(answer)]
    if all(each.jobs_waiting is not None for each in found):
        return found
    waiting = Counter(job.virtual_cluster for job in cluster.list(username=None, states=["WAITING"]))
    return [dataclasses.replace(each, jobs_waiting=waiting[each.name]) for each in found]


def _facts(of: VirtualCluster) -> dict[str, Any]:
    parts = {"total": of.total, "used": of.used, "free": of.free}
    resources = {
        resource: {key: getattr(part, resource) for key, part in parts.items()} for resource in _RESOURCES
    }
    rest = {"share_percent": of.share, "load_percent": of.load, "jobs_waiting": of.jobs_waiting}
    return {"name": of.name, **resources, **rest}


def _amount(of: VirtualCluster, resource: str) -> str:
    """Return ``3 of 8 free``, or ``5 in use`` if there is no total; empty if there is no number at all."""
    total, used, free = (getattr(part, resource) for part in (of.total, of.used, of.free))
    if total is not None:
        return f"{_number(free, resource)} of {_number(total, resource)}{_unit(resource)} free"
    return "" if used is None else f"{_number(used, resource)}{_unit(resource)} in use"


def _number(value: float, resource: str) -> str:
    return f"{round(value / _MIB_PER_GIB, 1) if resource == 'memory_mb' else value:g}"


def _unit(resource: str) -> str:
    return " GiB" if resource == "memory_mb" else ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, a list with an object for each check.")
@click.option("--job", "image", metavar="IMAGE", help="Submit a short job that uses the storage.")
@on_cluster
def doctor(*, as_json: bool, image: str | None) -> None:
    """Check the configuration, the connection, the cluster, and its HDFS or storage.

    One line a check: ok, warn or fail, and how to mend it. A folder is made and removed
    in /tmp on HDFS, or at the top of the storage. Nothing is submitted without --job.
    Exit code 0 if nothing fails, 2 for the configuration, 3 if the cluster cannot be
    reached, else 1.
    """
    checks: list[Check] = []
    with plain_failures():
        from luigi_pai.cli.diagnosis import diagnose  # noqa: PLC0415  loads Luigi, which reads luigi.cfg

        for check in diagnose(image):
            checks.append(check)
            if not as_json:
                state = coloured(f"{check.state:4}", _COLOURS[check.state])
                lines = f"{_MARGIN}{check.name}: {printable(check.text)}"
                click.echo(f"{state}  {wrapped(lines, sys.stdout).lstrip()}")
                if check.mend:
                    tell(f"{_MARGIN}{check.mend}")
    if as_json:
        click.echo(json.dumps([check.__dict__ for check in checks], indent=2))
    failed = [check for check in checks if check.state == "fail"]
    sys.exit(_EXIT_CODES.get(failed[0].name, EXIT_FAILED) if failed else 0)
