"""Environments of containers, written from OpenPAI's documentation of both APIs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Role", "v1", "v2"]


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


def v1(roles, own, index, job="train", user="alice", **more):
    """Return what a container of OpenPAI 0.7 has."""
    mine = next(role for role in roles if role.name == own)
    total = str(sum(len(role.hosts) for role in roles))
    names = ",".join(role.name for role in roles)
    return {
        "APP_ID": "application_1540000000000_0001",
        "FRAMEWORK_NAME": job,
        "HADOOP_USER_NAME": user,
        "PAI_WORK_DIR": "/root/work",
        "PAI_DEFAULT_FS_URI": "hdfs://10.0.0.1:9000",
        "PAI_JOB_NAME": job,
        "PAI_JOB_VC_NAME": "default",
        "PAI_USER_NAME": user,
        "PAI_USERNAME": user,
        "PAI_DATA_DIR": "hdfs://10.0.0.1:9000/data",
        "PAI_OUTPUT_DIR": f"hdfs://10.0.0.1:9000/{job}/output",
        "PAI_CODE_DIR": "",
        "PAI_CURRENT_TASK_ROLE_NAME": own,
        "PAI_CURRENT_TASK_ROLE_TASK_COUNT": str(len(mine.hosts)),
        "PAI_CURRENT_TASK_ROLE_CPU_COUNT": "4",
        "PAI_CURRENT_TASK_ROLE_MEM_MB": "8192",
        "PAI_CURRENT_TASK_ROLE_SHM_MB": "64",
        "PAI_CURRENT_TASK_ROLE_GPU_COUNT": str(mine.gpus),
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": "1",
        "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": "",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
        "PAI_JOB_TASK_COUNT": total,
        "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_TASK_INDEX": str(index),
        "PAI_TASK_ROLE_NAME": own,
        "PAI_TASK_ROLE_NUM": str(len(mine.hosts)),
        "PAI_TASK_ROLE_INDEX": str(index),
        "PAI_TASK_ROLE_LIST": names,
        "PAI_TASKS_NUM": total,
        "PAI_TASK_ROLES_NUM": str(len(roles)),
        "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM": "",
        "PAI_CONTAINER_ID": "container_1540000000000_0001_01_000002",
        "PAI_CONTAINER_HOST_IP": mine.hosts[index],
        "PAI_CURRENT_CONTAINER_IP": mine.hosts[index],
        **_own_ports(mine.ports[index]),
        **{
            f"PAI_TASK_ROLE_{role.name}_HOST_LIST": ",".join(
                f"{host}:{ports['http'][0]}" for host, ports in zip(role.hosts, role.ports, strict=True)
            )
            for role in roles
        },
        **more,
    }


def v2(roles, own, index, job="train", user="alice", placed=None, **more):
    """Return what a container of OpenPAI 1.8 has; placed: the tasks that have an address, all if None."""
    mine = next(role for role in roles if role.name == own)
    total = str(sum(len(role.hosts) for role in roles))
    names = ",".join(role.name for role in roles)
    environ = {
        "FC_FRAMEWORK_NAME": "0123456789abcdef",
        "FC_TASKROLE_NAME": _lower(own),
        "PAI_JOB_NAME": f"{user}~{job}",
        "PAI_FRAMEWORK_NAME": f"{user}~{job}",
        "PAI_USER_NAME": user,
        "PAI_USERNAME": user,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": "default",
        "PAI_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_TASK_ROLE_LIST": names,
        "PAI_TASKS_NUM": total,
        "PAI_JOB_TASK_COUNT": total,
        "PAI_TASK_ROLES_NUM": str(len(roles)),
        "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_TASK_INDEX": str(index),
        "PAI_WORK_DIR": "/root",
        "PAI_CURRENT_TASK_ROLE_NAME": own,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
        "PAI_CONTAINER_HOST_IP": mine.hosts[index],
        "PAI_CURRENT_CONTAINER_IP": mine.hosts[index],
        "PAI_TASK_ROLE_INSTANCES": ",".join(
            f"{_lower(role.name)}:{number}" for role in roles for number in range(len(role.hosts))
        ),
        **_own_ports(mine.ports[index], end=";"),
    }
    for role in roles:
        lower = _lower(role.name)
        environ[f"PAI_TASK_ROLE_TASK_COUNT_{role.name}"] = str(len(role.hosts))
        environ[f"PAI_RESOURCE_{role.name}"] = f"{role.gpus},4,8192,512"
        listed = []
        for number, (host, ports) in enumerate(zip(role.hosts, role.ports, strict=True)):
            if placed is None or (role.name, number) in placed:
                environ[f"PAI_HOST_IP_{lower}_{number}"] = host
                listed.append(f"{host}:{ports['http'][0]}")
            for label, numbers in ports.items():
                value = ",".join(map(str, numbers))
                environ[f"PAI_PORT_LIST_{lower}_{number}_{label}"] = value
                environ[f"PAI_{lower}_{number}_{label}_PORT"] = value
        environ[f"PAI_TASK_ROLE_{lower}_HOST_LIST"] = ",".join(listed)
    return environ | more
