"""``python -m luigi_pai`` is ``luigi-pai``."""

from luigi_pai.cli import main

main(prog_name="luigi-pai")
