"""docs/notebook.md in the kernel of a notebook, from top to bottom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT

from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from pathlib import Path

CELLS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/notebook.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v1", "v2"])
def test_the_page_runs_and_shows_tables_and_bars(tmp_path: Path, api: str, monkeypatch: pytest.MonkeyPatch):
    import nbclient  # noqa: PLC0415  is not beside the oldest libraries
    import nbformat  # noqa: PLC0415  as above

    monkeypatch.chdir(tmp_path)
    with LocalPai(api=api) as server:
        settings = "".join(f"{key} = {value}\n" for key, value in server.luigi_section.items())
        (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{settings}")
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    _class, build, listed, wait, _thread, awaited, sweep, table, call = (
        shown(cell) for cell in notebook.cells
    )
    assert "Job notebook-0-5: SUCCEEDED" in build["text"]
    assert "DEBUG" not in build["text"] + sweep["text"]
    assert "INFO" not in build["text"] + sweep["text"]
    for each in (listed, wait, awaited):
        assert "SUCCEEDED" in each["html"]
    assert listed["html"].count("<a href=") == 1
    assert "notebook-0-5: SUCCEEDED" in wait["html"]
    assert '<progress value="1.000"' in sweep["html"]
    assert "3 points: 3 done" in sweep["html"]
    assert "Submitted job fit_" in call["text"]
    assert call["text"].endswith("\n0.75\n")
    assert table["html"].count("SUCCEEDED") == table["html"].count("<a href=") == 3


def shown(cell: Any) -> dict[str, str]:
    """Return what is below a cell: the text of its streams, and its HTML."""
    text = "".join(output.get("text", "") for output in cell.outputs)
    html = "".join(output.data.get("text/html", "") for output in cell.outputs if "data" in output)
    return {"text": text, "html": html}
