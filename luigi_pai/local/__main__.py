"""The server of a `LocalPai`, which ends with its standard input.

SETTINGS is JSON of `settings.Settings`; the password comes in LUIGI_PAI_LOCAL_PASSWORD.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import PASSWORD_VARIABLE, Settings
from luigi_pai.local.serve import serve

if TYPE_CHECKING:
    from luigi_pai.local.server import LocalServer

_EXIT_USAGE = 2


def _silent(_server: LocalServer) -> None:
    """Print nothing: there is no reader."""


def main() -> int:
    """Serve until standard input ends, and return the exit code."""
    given = json.loads(sys.argv[1])
    settings = Settings(
        **{**given, "data": Path(given["data"]), "virtual_clusters": tuple(given["virtual_clusters"])}
    )
    settings = replace(settings, password=os.environ.pop(PASSWORD_VARIABLE))
    try:
        asyncio.run(serve(settings, _silent, _silent, until_stdin_closes=True))
    except ConfigError as error:
        sys.stderr.write(f"luigi-pai local: {error}\n")
        return _EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
