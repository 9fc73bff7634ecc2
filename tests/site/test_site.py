"""The site as it is built: no warning, no link that leads nowhere, nothing public without an entry."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from cli_commands import cli_commands
from places import ROOT

from luigi_pai.config import OpenPai

PUBLIC_MODULES = (
    "luigi_pai",
    "luigi_pai.api.logs.reader",
    "luigi_pai.files",
    "luigi_pai.local",
    "luigi_pai.optuna",
    "luigi_pai.runtime",
    "luigi_pai.jobspec.protocol",
    "luigi_pai.testing",
)

pytestmark = [pytest.mark.tree, pytest.mark.slow]


@dataclass
class Page(HTMLParser):
    """A page that was built: the places in it that links can name, and where its own links lead."""

    text: str
    ids: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)

    def __post_init__(self):
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        if tag in ("a", "link", "img", "script"):
            self.links.add(values.get("href") or values.get("src") or "")


def build(site):
    """Build the site, as `make docs` does; return what Sphinx has to say."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-d", f"{site}.doctrees"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(site)], capture_output=True, text=True, check=False, timeout=150
    )
    return done.stdout + done.stderr


def entries(site):
    """Return what the site has an entry for: kind -> names."""
    header, _, body = (site / "objects.inv").read_bytes().partition(b"using zlib.\n")
    assert header.startswith(b"# Sphinx inventory version 2")
    found = {}
    for line in zlib.decompress(body).decode().splitlines():
        name, kind = re.fullmatch(r"(.+?) (\S+:\S+) -?\d+ \S+ .*", line).groups()
        found.setdefault(kind, set()).add(name)
    return found


def dead_links(site):
    """Return the links between pages that lead to no file, or to no place in it."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 30
    dead = []
    for path, page in pages.items():
        for link in page.links - {"", "#"}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("http", "https") or not parts.netloc or " " in link:
                    dead.append(f"{path.name}: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].ids):
                dead.append(f"{path.name}: {link}")
    return dead


def without_entry(found):
    """Return the public names, settings and options that have no entry."""
    python = {name for kind, names in found.items() if kind.startswith("py:") for name in names}
    missing = []
    for home in PUBLIC_MODULES:
        module = importlib.import_module(home)
        for name in module.__all__:
            origin = getattr(getattr(module, name), "__module__", home)
            if not python & {f"{home}.{name}", f"{origin}.{name}", f"luigi_pai.{name}"}:
                missing.append(f"{home}.{name}")
    missing += {name for name, _ in OpenPai.get_params()} - found["std:confval"]
    for command in cli_commands().values():
        options = [option for parameter in command.params for option in parameter.opts if option[0] == "-"]
        missing += {f"luigi-pai-{command.name}.{option}" for option in options} - found["std:cmdoption"]
    return missing


def test_the_site_is_whole(tmp_path):
    """Built once: it takes seconds."""
    site = tmp_path / "site"
    assert build(site) == ""
    assert dead_links(site) == []
    assert without_entry(entries(site)) == []
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# luigi_pai ")
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")
    }
    assert set(re.findall(r"\]\((\S+)\): \S", listed)) == pages - {"index.html"}
