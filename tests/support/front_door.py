"""luigi_pai as a user meets it, in this process: a luigi.cfg, luigi-pai, and a pipeline that Luigi runs."""

from __future__ import annotations

import importlib
import io
import logging
import sys
import textwrap
import traceback
from inspect import signature

import luigi
from click.testing import CliRunner
from luigi.configuration.cfg_parser import LuigiConfigParser
from luigi.task_register import Register

from luigi_pai import reset_clusters
from luigi_pai.cli import main
from luigi_pai.console import Console

__all__ = ["FrontDoor"]

IMPORTS = "import luigi\nfrom luigi_pai import PaiProtocolTask, PaiTask, Port, TaskRole\n\n"


class FrontDoor:
    """A folder with a luigi.cfg.

    Args:
        folder: the current folder.
        monkeypatch: of the test.
    """

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setattr(LuigiConfigParser, "_config_paths", [str(folder / "luigi.cfg")])
        monkeypatch.setattr(LuigiConfigParser, "_instance", None)
        reset_clusters()

    def write(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    def command(self, *words):
        """Run luigi-pai; return its exit code and all that it printed."""
        apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
        result = CliRunner(**apart).invoke(main, list(words), prog_name="luigi-pai")
        unexpected = result.exception is not None and not isinstance(result.exception, SystemExit)
        error = "".join(traceback.format_exception(result.exception)) if unexpected else ""
        return result.exit_code, result.stdout + result.stderr + error

    def pipeline(self, text, task):
        """Run a task of a pipeline with Luigi; return 1 or 0 and what `luigi-pai run` shows of it."""
        self.write("pipeline.py", IMPORTS + textwrap.dedent(text))
        shown = io.StringIO()
        console, logger = Console(shown), logging.getLogger("luigi-interface")
        self._monkeypatch.delitem(sys.modules, "pipeline", raising=False)
        self._monkeypatch.syspath_prepend(self.folder)
        logger.addHandler(console)
        known = Register._reg.copy()
        try:
            module = importlib.import_module("pipeline")
            done = luigi.build(
                [getattr(module, task)()], local_scheduler=True, no_lock=True, log_level="WARNING"
            )
        except (TypeError, ValueError, luigi.parameter.MissingParameterException) as error:
            return 1, f"{type(error).__name__}: {error}"
        finally:
            logger.removeHandler(console)
            Register._reg[:] = known
            sys.modules.pop("pipeline", None)
        return int(not done), shown.getvalue()
