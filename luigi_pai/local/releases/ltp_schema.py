"""The schema of a job protocol inside LTP 1.5's rest-server, written after its sources.

It is here, apart from `luigi_pai.spec`, because replies name its parts: ``schemaPath``, and the order
of schema_errors, which is that of its fields.
"""

from __future__ import annotations

from typing import Any

__all__ = ["JOB_TYPES", "PROTOCOL"]

JOB_TYPES = ("inference", "training", "others")

_NAME = "^[a-zA-Z_][a-zA-Z0-9_]*$"
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_WHOLE = {"type": "integer"}
_COMMANDS = {**_TEXTS, "minItems": 1}
_BASE = {
    "protocolVersion": {"enum": ["2", 2]},
    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "maxLength": 255},
    "version": {"type": ["string", "number"]},
    "contributor": _TEXT,
    "description": _TEXT,
}


def _base(*fields: str) -> dict[str, Any]:
    return {field: {"$ref": f"base.json#/properties/{field}"} for field in fields}


def _by_name(of: Any) -> dict[str, Any]:
    return {"patternProperties": {_NAME: of}, "minProperties": 1, "additionalProperties": False}


def _prerequisite(kinds: list[str], details: dict[str, Any]) -> dict[str, Any]:
    fields = {
        **_base("protocolVersion", "name", "version", "contributor", "description"),
        "type": {"type": "string", "enum": kinds},
        **details,
    }
    return {"type": "object", "properties": fields, "required": ["name", "type"]}


_ACCOUNT = {"type": "object", "properties": dict.fromkeys(("username", "password", "registryuri"), _TEXT)}
_PLUGIN = {"plugin": _TEXT, "require": _TEXTS}
_IMAGE = {
    **_prerequisite(["dockerimage"], {"auth": _ACCOUNT, "uri": _TEXT}),
    "required": ["name", "type", "uri"],
    "additionalProperties": False,
}
_RESOURCES = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("cpu", "memoryMB", "gpu"), _WHOLE),
        "ports": {"type": "object", **_by_name(_WHOLE)},
    },
    "required": ["cpu", "memoryMB", "gpu"],
    "additionalProperties": False,
}
_COUNT = {"type": ["integer", "null"]}
_ROLE = {
    "type": "object",
    "properties": {
        **_base("protocolVersion"),
        "instances": {"type": "integer", "minimum": 1},
        "completion": {
            "type": "object",
            "properties": {"minFailedInstances": _COUNT, "minSucceededInstances": _COUNT},
            "additionalProperties": False,
        },
        "taskRetryCount": _WHOLE,
        "prerequisites": _TEXTS,
        **dict.fromkeys(("dockerImage", "data", "output", "script"), _TEXT),
        "extraContainerOptions": {
            "type": "object",
            "properties": {"shmMB": _WHOLE, "additionalProperties": False},  # a slip of the server's
        },
        "resourcePerInstance": _RESOURCES,
        "commands": _COMMANDS,
    },
    "required": ["dockerImage", "resourcePerInstance", "commands"],
    "additionalProperties": False,
}
_OF_DEPLOYMENT = {
    "type": "object",
    "properties": {"preCommands": _COMMANDS, "postCommands": _COMMANDS},
    "additionalProperties": False,
}
_DEPLOYMENT = {
    "type": "object",
    "properties": {
        **_base("protocolVersion", "name"),
        "taskRoles": {"type": "object", **_by_name(_OF_DEPLOYMENT)},
    },
    "required": ["name", "taskRoles"],
}

PROTOCOL: dict[str, Any] = {
    "$defs": {f"base.json#/properties/{field}": of for field, of in _BASE.items()},
    "type": "object",
    "properties": {
        **_base("protocolVersion", "name"),
        "type": {"type": "string", "enum": ["job"]},
        **_base("version", "contributor", "description"),
        "prerequisites": {
            "type": "array",
            "items": {
                "type": "object",
                "oneOf": [
                    _prerequisite(["script", "output"], {**_PLUGIN, "uri": _TEXT}),
                    _prerequisite(["data"], {**_PLUGIN, "uri": _TEXTS}),
                    _IMAGE,
                ],
            },
            "minItems": 1,
        },
        "jobType": {"type": "string", "enum": list(JOB_TYPES)},
        "parameters": {"type": "object"},
        "secrets": {"type": "object"},
        "jobRetryCount": {"type": "integer", "minimum": 0},
        "taskRoles": {"type": "object", **_by_name(_ROLE)},
        "deployments": {"type": "array", "items": _DEPLOYMENT, "minItems": 1},
        "defaults": {"type": "object", "properties": {"deployment": _TEXT}},
        "extras": {"type": "object"},
    },
    "required": ["protocolVersion", "name", "type", "taskRoles"],
    "additionalProperties": False,
}
