"""Where the tasks of a job are, as the API shows it, for comparison with what they see themselves."""

from __future__ import annotations

from container_environments import Role


def roles_of(job):
    """Return the roles of a job, with the addresses and ports of their tasks."""
    return [_role(name, role["taskStatuses"]) for name, role in job["taskRoles"].items()]


def _role(name, tasks):
    return Role(name, [task["containerIp"] for task in tasks], [_ports(task) for task in tasks])


def _ports(task):
    ports = task["containerPorts"].items()
    return {label: [int(port) for port in group.split(",")] for label, group in ports}
