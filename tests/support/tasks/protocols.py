"""A job of the YAML protocol, as short as it can be."""

from __future__ import annotations

import yaml

__all__ = ["protocol"]


def protocol(command: str = "true", **fields: object) -> str:
    """Return the YAML text of a job with one task role.

    Args:
        command: of the role ``main``; several lines are several commands.
        fields: of the document, beside those that it always has, or in place of them.
    """
    role = {
        "instances": 1,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": command.split("\n"),
    }
    document = {
        "protocolVersion": 2,
        "name": "any",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "python:3"}],
        "taskRoles": {"main": role},
    }
    return yaml.safe_dump({**document, **fields}, sort_keys=False)
