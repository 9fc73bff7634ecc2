"""How Sphinx builds the site: ``make docs``, or ``sphinx-build -W --keep-going docs build/site``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extension"), str(HERE.parent)]

from luigi_pai import __version__  # noqa: E402  its folder had to be found first

project = "luigi_pai"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "generated_pages",
    "llms_txt",
]
exclude_patterns = ["extension", "static"]
smartquotes = False  # -- is the beginning of an option
# a11y_pygments, a style, lets all loggers print
logging.getLogger("luigi-interface").setLevel(logging.WARNING)

nitpicky = True
# Names of other libraries: their documentation is not read while this one is built.
nitpick_ignore_regex = [("py:.*", r"(?!luigi_pai\.).*")]
# Types of results and arguments that are not made or named by users.
nitpick_ignore = [
    ("py:class", f"luigi_pai.{name}")
    for name in (
        "api.caches.Lookup",
        "api.clock.Clock",
        "files.storage.volume.MountedVolume",
        "files.writer.HdfsWriter",
        "sweep.grids.T",
        "sweep.sheet.Summary",
        "tasks.job_task.JobTask",
        "tasks.task_work.Forecast",
        "jobspec.dialects.yaml_text.Document",
    )
]

html_theme = "furo"
html_title = "luigi_pai"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
