"""The former name of ``luigi_pai.files``, before it supported storages."""

from luigi_pai import files

__all__ = [*files.__all__]  # noqa: PLE0604  a list of names


def __getattr__(name: str) -> object:
    return getattr(files, name)
