"""Fill in the pages that are made of something else: settings, commands, errors, and pages beside docs/.

A page has the line ``<!-- generated: NAME -->`` where the text of ``GENERATORS[NAME]`` goes when the site is
built. What must also be readable without the site is written into the page, after ``<!-- keys: NAME -->``:
``python docs/extension/generated_pages.py`` (``make tables``) writes the text of ``KEYS[NAME]`` there.
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import luigi_pai.errors
from luigi_pai.cli import main
from luigi_pai.settings import SETTINGS, Scope, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

__all__ = ["GENERATORS", "KEYS", "beside_docs", "commands", "error_tree", "settings", "setup", "write_keys"]

PROJECT = Path(__file__).parents[2]
PLACE = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)
WRITTEN = re.compile(r"^(<!-- keys: ([a-z ]+) -->)$.*?^(<!-- end -->)$", re.MULTILINE | re.DOTALL)
FIRST = ("pai_url", "username", "password", "token", "storage", "fs_uri", "webhdfs_url")
SCOPES = {
    Scope.USER: "`[OpenPai:NAME]` takes it from `[OpenPai]` unless it has the key.",
    Scope.TASK: "A task can override it; `[OpenPai:NAME]` takes it from `[OpenPai]` unless it has the key.",
}


def settings() -> str:
    """Return an entry for each key of ``[OpenPai]``, in the order of their declarations."""
    return "\n".join(_setting(key, setting) for key, setting in SETTINGS.items())


def _setting(key: str, setting: Setting) -> str:
    sentences = [_literal(setting.description)]
    sentences += ["Never shown."] if setting.is_secret else []
    sentences += ["`[OpenPai:NAME]` must have it."] if setting.required else []
    sentences += [SCOPES[setting.scope]] if setting.scope in SCOPES else []
    return f"```{{confval}} {key}\n:default: {_default(setting)}\n\n{' '.join(sentences)}\n```\n"


def _default(setting: Setting) -> str:
    return "not set" if setting.default is None else f"`{setting.default}`"


def _table(keys: Iterable[str]) -> str:
    """Return a table of keys with their defaults and descriptions."""
    rows = [
        f"| `{key}` | {_default(SETTINGS[key])} | {_literal(SETTINGS[key].description)} |" for key in keys
    ]
    return "\n".join(["| key | default | |", "|---|---|---|", *rows])


def _of(*scopes: Scope) -> list[str]:
    return [key for key, setting in SETTINGS.items() if setting.scope in scopes]


def write_keys(text: str) -> str:
    """Return a page with the current text at each ``<!-- keys: NAME -->``, up to ``<!-- end -->``."""
    return WRITTEN.sub(lambda place: f"{place[1]}\n\n{KEYS[place[2]]()}\n\n{place[3]}", text)


def _literal(text: str) -> str:
    """Return a text in which what looks like a variable, a URL or a placeholder is code."""
    return re.sub(r"(?<![\w`])(\$\w+|\w+://[^\s,;]*[^\s,;.](?:;URL)?|URL;URL)", r"`\1`", text)


def commands() -> str:
    """Return a section for each command, with its arguments and options."""
    context = click.Context(main)
    found = [(name, main.get_command(context, name)) for name in main.list_commands(context)]
    return "\n".join(_command(name, command, "luigi-pai") for name, command in found if command is not None)


def _command(name: str, command: click.Command, parent: str) -> str:
    path = f"{parent} {name}"
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [
        f"## {name}",
        "",
        "```text",
        usage,
        "```",
        "",
        *_help(command),
        f"```{{program}} {path}\n```",
        "",
    ]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and "--help" not in parameter.opts:
            lines += [f"````{{option}} {record[0]}", "", _escaped(record[1]), "````", ""]
    return "\n".join(lines)


def _help(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a command's help; those after a backspace are shown as they are."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{inspect.cleandoc(paragraph.removeprefix(chr(8)).strip(chr(10)))}\n```\n"
        else:
            yield f"{_escaped(paragraph)}\n"


def _escaped(text: str) -> str:
    """Return a text of the terminal as Markdown."""
    return re.sub(r"([<>*_\[\]])", r"\\\1", text) if "`" not in text else _between_backticks(text)


def _between_backticks(text: str) -> str:
    parts = text.split("`")
    return "`".join(part if index % 2 else _escaped(part) for index, part in enumerate(parts))


def error_tree() -> str:
    """Return the tree of errors as ``luigi_pai.errors`` draws it."""
    documentation = inspect.cleandoc(luigi_pai.errors.__doc__ or "")
    tree = documentation.partition("::\n\n")[2].partition("\n\nThe second")[0]
    return f"```text\n{inspect.cleandoc(tree)}\n```"


def beside_docs(name: str) -> str:
    """Return a page of the project's folder, with its links as a page of docs/ has them."""
    text = (PROJECT / name).read_text(encoding="utf-8")
    text = re.sub(rf"{re.escape(_repository())}/docs/([\w-]+\.md)", r"\1", text)
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\]\((?!https?://)((?:\w+/|[A-Z])[^)]*)\)", rf"]({_repository()}/\1)", text)


def _to_repository(page: Path, text: str) -> str:
    """Return a page whose links to folders and pages outside of docs/ lead to the repository.

    Links to other files stay: Sphinx copies those into the site.
    """

    def address(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if target.is_relative_to(PROJECT / "docs") or not (target.is_dir() or target.suffix == ".md"):
            return link[0]
        return f"]({_repository()}/{target.relative_to(PROJECT)})"

    return re.sub(r"\]\((\.\./[^)#]+)\)", address, text)


def _repository() -> str:
    """Return the address of the project's folder, as pyproject.toml has it."""
    source = re.search(r'^Source = "([^"]+)"$', (PROJECT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    if source is None:
        raise LookupError("[project.urls] of pyproject.toml has no Source")
    return f"{source[1]}/blob/main"


GENERATORS = {
    "settings": settings,
    "commands": commands,
    "error tree": error_tree,
    "changelog": partial(beside_docs, "CHANGELOG.md"),
    "contributing": partial(beside_docs, "CONTRIBUTING.md"),
    "security": partial(beside_docs, "SECURITY.md"),
}


KEYS = {
    "first": lambda: _table(FIRST),
    "of tasks": lambda: _table(_of(Scope.TASK)),
    "taken from the first section": lambda: (
        ", ".join(f"`{key}`" for key in _of(Scope.USER, Scope.TASK)) + "."
    ),
}


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the places of a page by what is made for them, and links that leave the site."""
    text = PLACE.sub(lambda place: GENERATORS[place[1]](), source[0])
    source[0] = _to_repository(Path(app.env.doc2path(page)), text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for page in (PROJECT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if (rewritten := write_keys(text)) != text:
            page.write_text(rewritten, encoding="utf-8")
            click.echo(page)
