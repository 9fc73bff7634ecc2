"""Write ``llms.txt``: each page of the site with its first sentence, for readers that are programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

__all__ = ["setup"]

NAME = "llms.txt"
SHORTEST = 20  # characters of a sentence that says something


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write the file beside the home page, when the pages are there."""
    if failure is None and app.builder.format == "html":
        Path(app.outdir, NAME).write_text("\n".join(_lines(app)), encoding="utf-8")


def _lines(app: Sphinx) -> Iterator[str]:
    home = app.config.root_doc
    yield f"# {app.config.project} {app.config.release}"
    yield ""
    yield f"> {_first_sentence(app, home)}"
    for toctree in app.env.get_doctree(home).findall(addnodes.toctree):
        yield ""
        yield f"## {toctree['caption']}"
        yield ""
        for _, page in toctree["entries"]:
            title = app.env.titles[page].astext()
            address = app.builder.get_target_uri(page)  # type: ignore[no-untyped-call]
            yield f"- [{title}]({address}): {_first_sentence(app, page)}"
    yield ""


def _first_sentence(app: Sphinx, page: str) -> str:
    for paragraph in app.env.get_doctree(page).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(paragraph.astext().split())
            end = text.find(". ", SHORTEST)
            return text if end < 0 else text[: end + 1]
    return ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
