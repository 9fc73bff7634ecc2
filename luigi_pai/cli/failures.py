"""Errors of commands: one line on standard error, and an exit code."""

from __future__ import annotations

import configparser
import contextlib
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from luigi_pai.errors import ClusterUnreachable, ConfigError, PaiError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EXIT_FAILED", "EXIT_UNREACHABLE", "EXIT_USAGE", "give_up", "plain_failures"]

EXIT_FAILED = 1
EXIT_USAGE = 2  # also a wrong configuration
EXIT_UNREACHABLE = 3


def give_up(command: str, why: object, code: int) -> NoReturn:
    """Print the reason in one line and exit."""
    click.echo(f"luigi-pai {command}: {' '.join(str(why).split())}", err=True)
    sys.exit(code)


@contextlib.contextmanager
def plain_failures(command: str, interrupted: str) -> Iterator[None]:
    """Turn errors of a command into one line and an exit code, without traceback.

    Args:
        command: its name.
        interrupted: text after Ctrl-C.
    """
    try:
        yield
    except ConfigError as error:
        give_up(command, error, EXIT_USAGE)
    except configparser.Error as error:
        give_up(command, f"luigi.cfg cannot be read: {error}", EXIT_USAGE)
    except PaiError as error:
        give_up(command, error, _code_of(error))
    except KeyboardInterrupt:
        give_up(command, interrupted, EXIT_FAILED)


def _code_of(error: PaiError) -> int:
    if isinstance(error, ClusterUnreachable):
        return EXIT_UNREACHABLE
    from luigi_pai.hdfs import HdfsError, HdfsUnreachable  # noqa: PLC0415  loaded, or it raised nothing

    if isinstance(error, HdfsUnreachable):
        return EXIT_UNREACHABLE
    is_wrong_path = isinstance(error, HdfsError) and error.operation == "resolve"
    return EXIT_USAGE if is_wrong_path else EXIT_FAILED
