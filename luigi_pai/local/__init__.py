"""An OpenPAI on this machine, for development and tests."""

from luigi_pai.local.local_pai import LocalPai

__all__ = ["LocalPai"]
