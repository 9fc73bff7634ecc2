"""``python -m luigi_pai`` runs the command ``luigi-pai``."""

from luigi_pai.cli import main

main(prog_name="luigi-pai")
