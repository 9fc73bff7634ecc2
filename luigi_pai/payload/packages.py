"""Collects the files in the local packages and modules that a PaiPythonTask sends."""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.outgoing.folder import folder_contents, shown
from luigi_pai.outgoing.never_sent import NeverSent, log_left_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec

# Not "*.pyc": a package without sources consists of these files, and Python can import them from a zip.
_CACHES = ("__pycache__/", ".venv/")


def package_files(packages: Sequence[str], problems: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files in packages and modules, each with its name in the zip; add errors to ``problems``.

    For a package, these are the files that an upload of its folder would send.
    """
    for package in packages or ():
        found = _spec(package) if isinstance(package, str) else None
        if found is None or found.origin is None or not found.has_location:
            problem = f"{package!r} is not a package or module that can be imported here"
            problems.append(
                f"packages: {problem}; write names as after import, such as packages = ['helpers']"
            )
            continue
        place = Path(found.origin)
        files, unsent = _folder(place.parent) if found.submodule_search_locations else _module(place)
        compiled = next((name for name in files if name.endswith((".so", ".pyd"))), "")
        if compiled and _is_installed(found.origin):
            problem = f"contains compiled modules ({compiled}), which Python cannot import from a zip"
            problems.append(f"packages: {package!r} {problem}: use an image that has the package")
            continue
        for name, path in files.items():
            try:
                yield name, path.read_bytes()
            except OSError as error:
                unsent.append(Problem(shown(str(path)), f"it cannot be read ({error.strerror})"))
        problems += (f"packages: {package!r}: {problem}" for problem in unsent)


def is_of_python(module: str) -> bool:
    """Return whether a module belongs to the standard library, which its name alone does not tell."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.stdlib_module_names
    return _is_below(file, "stdlib") and not is_third_party(module)


def is_beside(module: str, file: Path) -> bool:
    """Return whether a module or package is in the folder of a file."""
    found = _spec(module)
    origin = found.origin if found is not None and found.has_location else None
    return origin is not None and file.parent in Path(origin).resolve().parents[:2]


def is_third_party(module: str) -> bool:
    """Return whether a module belongs to a package installed in this environment."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and _is_installed(file)


def _is_installed(file: str) -> bool:
    return _is_below(file, "purelib") or _is_below(file, "platlib")


def _is_below(file: str, scheme: str) -> bool:
    return Path(sysconfig.get_path(scheme)).resolve() in Path(file).resolve().parents


def _spec(package: str) -> ModuleSpec | None:
    try:
        return None if "." in package else importlib.util.find_spec(package)
    except ValueError:  # the name is empty, or the module has no spec, like __main__
        return None


def _module(place: Path) -> tuple[dict[str, Path], list[Problem]]:
    why = NeverSent().problem(place)
    return ({}, [Problem(shown(str(place)), why)]) if why else ({place.name: place}, [])


def _folder(folder: Path) -> tuple[dict[str, Path], list[Problem]]:
    found = folder_contents(folder, caches=_CACHES)
    if found.left_out:
        _log_once(str(folder), tuple(found.left_out))
    files = {f"{folder.name}/{name}": Path(entry.path) for name, entry in found.files.items()}
    return files, found.problems


_log_once = functools.lru_cache(log_left_out)  # each task's payload is created several times
