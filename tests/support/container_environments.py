"""Environments of containers, written from OpenPAI's documentation of both APIs."""

from __future__ import annotations

from dataclasses import dataclass

import yaml
from places import DATA

__all__ = ["Role", "v1", "v2"]


_VARIABLES = yaml.safe_load((DATA / "jobspec" / "container.yaml").read_text(encoding="utf-8"))


@dataclass
class Role:
    """A task role: where each of its tasks is, and the ports of each by label."""

    name: str
    hosts: list[str]
    ports: list[dict[str, list[int]]]
    gpus: int = 0


def _own_ports(ports, end=""):
    lists = {label: ",".join(map(str, numbers)) for label, numbers in ports.items()}
    return {
        "PAI_CONTAINER_HOST_PORT_LIST": ";".join(f"{label}:{value}" for label, value in lists.items()) + end,
        "PAI_CONTAINER_HOST_PORT": str(ports["http"][0]),
        "PAI_CURRENT_CONTAINER_PORT": str(ports["http"][0]),
        "PAI_CONTAINER_SSH_PORT": str(ports["ssh"][0]),
        **{f"PAI_CONTAINER_HOST_{label}_PORT_LIST": value for label, value in lists.items()},
    }


def _lower(role):
    """Return a role's name as v2 has it where Kubernetes knows it."""
    return "".join(letter for letter in role.lower() if letter.isalnum())


def _written(api, roles, own, index, **about):
    """Return the variables whose values are the same for each task, or of this one."""
    mine = next(role for role in roles if role.name == own)
    about |= {
        "own": own,
        "lower": _lower(own),
        "index": index,
        "host": mine.hosts[index],
        "tasks": len(mine.hosts),
        "gpus": mine.gpus,
        "total": sum(len(role.hosts) for role in roles),
        "count": len(roles),
        "names": ",".join(role.name for role in roles),
        "instances": ",".join(
            f"{_lower(role.name)}:{number}" for role in roles for number in range(len(role.hosts))
        ),
    }
    written = {name: value.format(**about) for name, value in _VARIABLES[api].items()}
    return written | _own_ports(mine.ports[index], end=";" if api == "v2" else "")


def _hosts(role, numbers):
    return ",".join(f"{role.hosts[number]}:{role.ports[number]['http'][0]}" for number in numbers)


def v1(roles, own, index, job="train", user="alice", **more):
    """Return what a container of OpenPAI 0.7 has."""
    environ = _written("v1", roles, own, index, job=job, user=user)
    for role in roles:
        environ[f"PAI_TASK_ROLE_{role.name}_HOST_LIST"] = _hosts(role, range(len(role.hosts)))
    return environ | more


def v2(roles, own, index, job="train", user="alice", placed=None, **more):
    """Return what a container of OpenPAI 1.8 has; placed: the tasks that have an address, all if None."""
    environ = _written("v2", roles, own, index, job=job, user=user)
    for role in roles:
        lower = _lower(role.name)
        environ[f"PAI_TASK_ROLE_TASK_COUNT_{role.name}"] = str(len(role.hosts))
        environ[f"PAI_RESOURCE_{role.name}"] = f"{role.gpus},4,8192,512"
        numbers = range(len(role.hosts))
        listed = [number for number in numbers if placed is None or (role.name, number) in placed]
        for number in listed:
            environ[f"PAI_HOST_IP_{lower}_{number}"] = role.hosts[number]
        for number, ports in enumerate(role.ports):
            for label, own_ports in ports.items():
                value = ",".join(map(str, own_ports))
                environ[f"PAI_PORT_LIST_{lower}_{number}_{label}"] = value
                environ[f"PAI_{lower}_{number}_{label}_PORT"] = value
        environ[f"PAI_TASK_ROLE_{lower}_HOST_LIST"] = _hosts(role, listed)
    return environ | more
