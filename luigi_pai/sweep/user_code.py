"""What the user's own code raises, in a line with the place in the user's own file."""

from __future__ import annotations

import traceback
from pathlib import Path

from luigi_pai.errors import PaiError
from luigi_pai.sweep.jobs import first_line

__all__ = ["user_error"]

_OURS = str(Path(__file__).resolve().parents[1])


def user_error(error: BaseException, function: str = "") -> str:
    """Return a line for what a function of the user's raised: ``tell() raised KeyError: 'x' (study.py:12)``.

    Args:
        error: what was raised.
        function: ``tell()``, or empty.
    """
    what = f"{function} raised " if function else ""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((frame for frame in reversed(frames) if not _is_library(frame.filename)), None)
    place = f" ({Path(own.filename).name}:{own.lineno})" if own is not None else ""
    is_ours = isinstance(error, PaiError) or (own is None and isinstance(error, ValueError))
    kind = "" if is_ours else f"{type(error).__name__}: "
    return f"{what}{kind}{first_line(error)}{place}"


def _is_library(file: str) -> bool:
    return file.startswith((_OURS, "<frozen")) or "site-packages" in file
