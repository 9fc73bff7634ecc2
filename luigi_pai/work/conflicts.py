"""Finds two tasks of one process that would share a job or an output folder by mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import Problem, SpecError

if TYPE_CHECKING:
    from luigi_pai.work.piece import Work


def check_unique(work: Work) -> None:
    """Check that no other work of this process has this name and a different job, or this output folder.

    Nothing is checked if the last submission of the other work failed, because the next may be another job.

    Raises:
        SpecError: other work has the name and a different job, or has the output folder.
    """
    first = _first(work, ("work", work.name))
    if first is not None and first.digest != work.digest:
        wrong = (
            f"two different tasks have it: {first.origin} and {work.origin}. One of them would get the "
            "result of the other; put what tells them apart into the name, such as "
            'name = f"train-{self.rate}"'
        )
        raise SpecError(work.name, [Problem("name", wrong)])
    if work.folder is None or work.name in work.folder.split("/"):  # such a folder belongs to the name
        return
    first = _first(work, ("folder", work.folder))
    if first is not None and first.name != work.name:
        wrong = (
            f"{work.folder} is the output folder of two tasks, {first.origin} and {work.origin}. One of them "
            "would overwrite the output of the other; give each a folder of its own, for example one that "
            "contains self.name"
        )
        raise SpecError(work.name, [Problem("output_dir", wrong)])


def _first(work: Work, key: tuple[str, str]) -> Work | None:
    """Return the other work that has used a name or folder before; None for none, or if it has failed."""
    origin = work.book.remembered(key, lambda: work.origin)
    if origin is work.origin or origin.task_id == work.origin.task_id:
        return None
    first = work.of_origin(origin)
    known = work.book.known(first.name)
    if known is not None and known.failed:
        work.book.remember(key, work.origin)
        return None
    return first
