"""luigi_pai as a user meets it, in this process: luigi.cfg, luigi-pai, pipelines in Luigi, a prompt."""

from __future__ import annotations

import code
import contextlib
import io
import logging
import sys
import textwrap
import traceback
from inspect import signature

import click
import luigi
from click.testing import CliRunner
from luigi.configuration.cfg_parser import LuigiConfigParser
from luigi.setup_logging import InterfaceLogging
from luigi.task_register import Register

from luigi_pai import reset_clusters
from luigi_pai.cli import main
from luigi_pai.cli.task_argument import task_named
from luigi_pai.console import Console

__all__ = ["FrontDoor"]


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
        self.write("pipeline.py", textwrap.dedent(text))
        shown = io.StringIO()
        run = click.Context(click.Command("run"), info_name="run")
        with contextlib.redirect_stderr(shown), contextlib.suppress(SystemExit), self._modules(shown), run:
            made = task_named("pipeline", [task])
            done = luigi.build([made], local_scheduler=True, no_lock=True)
            return int(not done), shown.getvalue()
        return 1, shown.getvalue()

    def prompt(self, text):
        """Type lines at the prompt of Python; return what it shows."""
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown), self._modules(shown):
            console = code.InteractiveConsole()
            for line in [*textwrap.dedent(text).splitlines(), ""]:
                console.push(line)
        return shown.getvalue()

    @contextlib.contextmanager
    def _modules(self, shown):
        """Leave nothing of the modules that are loaded, and log to a stream meanwhile."""
        console, logger = Console(shown), logging.getLogger("luigi-interface")
        self._monkeypatch.delitem(sys.modules, "pipeline", raising=False)
        self._monkeypatch.setattr(InterfaceLogging, "_configured", True)
        self._monkeypatch.setattr(logger, "level", logging.INFO)
        logger.addHandler(console)
        known, path = Register._reg.copy(), sys.path.copy()
        # other tests of this process have tasks of the same names
        Register._reg[:] = [
            each for each in known if each.__module__.partition(".")[0] in ("luigi", "luigi_pai")
        ]
        try:
            yield
        finally:
            logger.removeHandler(console)
            Register._reg[:], sys.path[:] = known, path
            sys.modules.pop("pipeline", None)
