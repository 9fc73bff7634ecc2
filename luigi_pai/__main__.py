"""``python -m luigi_pai`` runs the ``luigi-pai`` command."""

import os
import sys

if not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109  as -m writes it
    del sys.path[0]  # no command imports a module from the current folder unintentionally

from luigi_pai.cli import main

main(prog_name="luigi-pai")
