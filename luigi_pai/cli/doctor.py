"""``luigi-pai doctor``: check the configuration, the network, the cluster, and its HDFS."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from luigi_pai.cli.failures import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, plain_failures
from luigi_pai.cli.job_argument import on_cluster
from luigi_pai.cli.tables import coloured, tell
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from luigi_pai.diagnosis import Check

_COLOURS = {"ok": "SUCCEEDED", "warn": "WAITING", "fail": "FAILED"}
_EXIT_CODES = {"configuration": EXIT_USAGE, "network": EXIT_UNREACHABLE}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, a list with an object for each check.")
@on_cluster
def doctor(*, as_json: bool) -> None:
    """Check the configuration, the connection to the cluster, the cluster, and its HDFS.

    One line a check: ok, warn or fail, and how to mend it. A folder is made and removed in /tmp
    on HDFS; nothing is submitted. Exit code 0 if nothing fails, 2 for the configuration, 3 if
    the cluster cannot be reached, else 1.
    """
    checks: list[Check] = []
    with plain_failures():
        from luigi_pai.diagnosis import diagnose  # noqa: PLC0415  loads Luigi, which reads luigi.cfg

        for check in diagnose():
            checks.append(check)
            if not as_json:
                state = coloured(f"{check.state:4}", _COLOURS[check.state])
                click.echo(f"{state}  {check.name}: {printable(check.text)}")
                if check.mend:
                    tell(f"      {check.mend}")
    if as_json:
        click.echo(json.dumps([check.__dict__ for check in checks], indent=2))
    failed = [check for check in checks if check.state == "fail"]
    sys.exit(_EXIT_CODES.get(failed[0].name, EXIT_FAILED) if failed else 0)
