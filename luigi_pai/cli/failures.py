"""How commands report errors: a message on standard error, and an exit code."""

from __future__ import annotations

import configparser
import contextlib
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

import click

from luigi_pai.cli.tables import echo
from luigi_pai.config_file import addressed
from luigi_pai.errors import ClusterUnreachable, ConfigError, PaiApiError, PaiError, ServerFault, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_FAILED = 1
EXIT_USAGE = 2  # also an invalid configuration
EXIT_UNREACHABLE = 3


def complain(message: object) -> None:
    """Print a message on standard error, after the command's name."""
    echo(f"luigi-pai {click.get_current_context().info_name}: {message}", err=True)


def give_up(why: object, code: int = EXIT_USAGE) -> NoReturn:
    """Print the reason and exit. Any reason except a SpecError is printed on one line."""
    complain(why if isinstance(why, SpecError) else " ".join(str(why).split()))
    sys.exit(code)


@contextlib.contextmanager
def plain_failures(interrupted: str = "stopped") -> Iterator[None]:
    """Turn a command's error, or Ctrl-C, into a one-line message and an exit code, without a traceback."""
    try:
        yield
    except ConfigError as error:
        give_up(error)
    except configparser.Error as error:
        give_up(f"luigi.cfg cannot be read: {_without_lines(error)}")
    except UnicodeDecodeError as error:
        file = _configuration_read(error)
        if file is None:
            raise
        give_up(f"luigi.cfg cannot be read: {file} is not {error.encoding.upper()}; save it as UTF-8")
    except PaiApiError as error:
        explained = addressed(error)
        give_up(explained, _code_of(explained))
    except PaiError as error:
        give_up(error, _code_of(error))
    except KeyboardInterrupt:
        give_up(interrupted, EXIT_FAILED)


def _without_lines(error: configparser.Error) -> str:
    """Return what is wrong with luigi.cfg, without quoting lines that may contain the password."""
    if isinstance(error, configparser.MissingSectionHeaderError) and "\ufeff" in error.line:
        return f"{error.source} starts with a byte order mark (BOM); save it as UTF-8 without BOM"
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"{error.source}, line {error.lineno}: this line is not in a section; write [OpenPai] above it"
    if isinstance(error, configparser.ParsingError):
        numbers = ", ".join(str(number) for number, _ in error.errors)
        return f"{error.source}, line {numbers}: this is not key = value"
    if isinstance(error, configparser.InterpolationSyntaxError):
        return f"{error.option} of [{error.section}] contains a single %; write %%"
    return str(error)


def _configuration_read(error: UnicodeDecodeError) -> str | None:
    """Return the configuration file that could not be decoded; None if the error comes from elsewhere."""
    for frame, _line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == configparser.__file__ and "filename" in frame.f_locals:
            return str(frame.f_locals["filename"])
    return None


def _code_of(error: PaiError) -> int:
    # HdfsError: checked only if its module is already loaded, because importing it loads Luigi
    files = sys.modules.get("luigi_pai.files.errors")
    is_wrong_path = files is not None and isinstance(error, files.HdfsError) and error.operation == "resolve"
    if is_wrong_path or str(error).startswith("pai_url is not set"):
        return EXIT_USAGE
    # a ServerFault, for example because the rest-server lost its database
    away = (ClusterUnreachable, ServerFault, *([files.HdfsUnreachable] if files else []))
    return EXIT_UNREACHABLE if isinstance(error, away) else EXIT_FAILED
