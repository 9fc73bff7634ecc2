"""The exit codes of OpenPAI 1.8: the name, the causer and the retry class of each.

The codes, phrases and classes are those of its exit specification (v1.8.0,
src/k8s-job-exit-spec); the sentences are this server's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "EXIT_JOB_ENDED",
    "EXIT_LOST",
    "EXIT_NO_PORTS",
    "EXIT_STOPPED",
    "EXIT_UNRECOGNISED",
    "exit_spec",
    "reaction",
]

EXIT_LOST = -101
"""The task's process is gone and left no exit code."""

EXIT_STOPPED = -210
"""The user stopped the job."""

EXIT_JOB_ENDED = -220
"""The task was stopped because its job attempt was over."""

EXIT_NO_PORTS = 253
"""A port that was assigned to the task is in use."""

EXIT_UNRECOGNISED = 255
"""The command failed, and nothing more is known."""

_OTHER_POSITIVE = 256
_OTHER_NEGATIVE = -8000


_REACTIONS = {
    "TRANSIENT": "ALWAYS_RETRY",
    "TRANSIENT_CONFLICT": "ALWAYS_BACKOFF_RETRY",
    "PERMANENT": "NEVER_RETRY",
    "UNKNOWN": "RETRY_TO_MAX",
}


@dataclass(frozen=True)
class _Spec:
    phrase: str
    issuer: str
    causer: str
    type: str
    stage: str
    behavior: str
    reason: str


_USER = "USER_CONTAINER"
_RUNTIME = "PAI_RUNTIME"
_USER_FAULT = "USER_FAILURE"
_PLATFORM = "PLATFORM_FAILURE"
_UNKNOWN_FAULT = "UNKNOWN_FAILURE"
_NEVER, _ALWAYS, _COUNTED = "PERMANENT", "TRANSIENT", "UNKNOWN"


def _signal(name: str, what: str, behavior: str) -> _Spec:
    """Return the spec of a command that a signal ended."""
    issuer, causer, kind = {
        _NEVER: (_USER, _USER, _USER_FAULT),
        _ALWAYS: ("PAI_OS", "PAI_OS", _PLATFORM),
        _COUNTED: (_USER, "UNKNOWN", _UNKNOWN_FAULT),
    }[behavior]
    reason = f"The command was ended by {name.upper()}: {what}"
    return _Spec(f"Container{name}Received", issuer, causer, kind, "RUNNING", behavior, reason)


def _recognised(phrase: str, reason: str) -> _Spec:
    """Return the spec of a failure that the runtime recognises by what the command wrote."""
    return _Spec(phrase, _RUNTIME, _USER, _USER_FAULT, "RUNNING", _NEVER, reason)


def _cluster(phrase: str, issuer: str, stage: str, reason: str) -> _Spec:
    """Return the spec of a fault of the cluster that passes."""
    return _Spec(phrase, issuer, "PAI_UNKNOWN", _PLATFORM, stage, _ALWAYS, reason)


def _stopped(phrase: str, reason: str) -> _Spec:
    """Return the spec of what did not end by itself."""
    return _Spec(phrase, "PAI_FC", "USER_STOP", "USER_STOP", "UNKNOWN", _NEVER, reason)


_SPECS = {
    -100: _cluster("ConfigMapExternalDeleted", "PAI_FC", "UNKNOWN", "The attempt's record was deleted"),
    EXIT_LOST: _cluster("PodExternalDeleted", "PAI_FC", "UNKNOWN", "The task was deleted from outside"),
    EXIT_STOPPED: _stopped("StopFrameworkRequested", "A user stopped the job"),
    EXIT_JOB_ENDED: _stopped("FrameworkAttemptCompletion", "The task ended with its job attempt"),
    0: _Spec("Succeeded", _USER, _USER, "USER_SUCCESS", "COMPLETING", _COUNTED, ""),
    130: _signal("SigInt", "interrupted", _ALWAYS),
    131: _signal("SigQuit", "told to quit", _ALWAYS),
    132: _signal("SigIll", "an instruction that this processor does not have", _NEVER),
    134: _signal("SigAbrt", "it gave up by itself", _COUNTED),
    135: _signal("SigBus", "a memory access that the machine cannot make", _NEVER),
    136: _signal("SigFpe", "an arithmetic fault", _NEVER),
    137: _signal("SigKill", "killed, often for its memory", _ALWAYS),
    139: _signal("SigSegv", "an access to memory that is not its own", _COUNTED),
    141: _signal("SigPipe", "it wrote to a pipe that nobody reads", _NEVER),
    143: _signal("SigTerm", "told to end", _ALWAYS),
    220: _Spec(
        "UserCommandExitWithError", _USER, _USER, _USER_FAULT, "RUNNING", _NEVER, "The command was not found"
    ),
    221: _recognised("ContainerTensorflowOOMKilled", "TensorFlow ran out of memory"),
    222: _recognised("ContainerMPISegvFault", "MPI touched memory that is not mapped"),
    223: _Spec(
        "ContainerCudaUncorrectableECCError",
        _RUNTIME,
        "PAI_HW",
        _PLATFORM,
        "RUNNING",
        _ALWAYS,
        "The memory of a GPU is damaged",
    ),
    224: _recognised("ContainerCudaVersionMismatch", "The GPU driver is too old for this CUDA"),
    225: _recognised("ContainerCudaDnnVersionMismatch", "The framework and cuDNN do not fit together"),
    226: _recognised("ContainerCudaOOMKilled", "A GPU ran out of memory"),
    228: _recognised("ContainerIncorrectParameterError", "A program was called with wrong arguments"),
    229: _recognised("ContainerIncorrectDataModelError", "The data is missing or not in the expected form"),
    230: _recognised("ContainerInvalidSavePath", "The path to restore from is wrong"),
    231: _recognised("ContainerSyntaxError", "The program has a mistake in its code"),
    232: _recognised("ContainerImportError", "A module cannot be imported"),
    233: _recognised("ContainerIndexOutOfRange", "The program read past the end of a list"),
    234: _recognised("ContainerSigvFault", "The program touched memory that is not its own"),
    235: _recognised("ContainerEngineCoreDump", "The program dumped its core"),
    249: _Spec(
        "PAIRuntimeSSHBarrierTimeout",
        _RUNTIME,
        _RUNTIME,
        _PLATFORM,
        "RUNNING",
        _NEVER,
        "The ssh barrier waited in vain for other tasks",
    ),
    EXIT_NO_PORTS: _Spec(
        "ContainerPortConflict", _RUNTIME, _RUNTIME, _PLATFORM, "LAUNCHING", _ALWAYS, "No port was free"
    ),
    EXIT_UNRECOGNISED: _Spec(
        "PAIRuntimeUnknownFailed",
        _RUNTIME,
        "UNKNOWN",
        _UNKNOWN_FAULT,
        "UNKNOWN",
        _COUNTED,
        "The command failed in a way that the runtime does not recognise",
    ),
    _OTHER_POSITIVE: _Spec(
        "PAIRuntimeExitAbnormally",
        _RUNTIME,
        _RUNTIME,
        _PLATFORM,
        "UNKNOWN",
        _COUNTED,
        "The runtime itself failed, with a code that says nothing more",
    ),
    _OTHER_NEGATIVE: _Spec(
        "ContainerUndefinedNegativeExitCode",
        "UNKNOWN",
        "UNKNOWN",
        _UNKNOWN_FAULT,
        "UNKNOWN",
        _COUNTED,
        "A negative exit code that says nothing more",
    ),
}

_PERMANENT_BESIDES = frozenset({-200, -230, -1004, -1005, -1100, -1200, -1202, -1203, 252, 254})
_TRANSIENT_BESIDES = frozenset({-110, -111, -120, -1000, -1001, -1002, -1003, -1006, -1205, -1300, 250, 251})


def reaction(code: int) -> str:
    """Return ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, RETRY_TO_MAX (counted) or NEVER_RETRY for an exit code."""
    if code == 0 or code in _PERMANENT_BESIDES:
        return "NEVER_RETRY"
    if code in _TRANSIENT_BESIDES:
        return "ALWAYS_RETRY"
    return _REACTIONS[_spec(code).behavior]


def exit_spec(code: int | None) -> dict[str, Any] | None:
    """Return an exit code's description as the API shows it, its keys in alphabetical order."""
    if code is None:
        return None
    spec = _spec(code)
    shown: dict[str, Any] = {
        "behavior": spec.behavior,
        "causer": spec.causer,
        "code": code,
        "issuer": spec.issuer,
        "phrase": spec.phrase,
        "reaction": reaction(code),
    }
    if spec.reason:
        shown["reason"] = spec.reason
    shown["repro"] = [f"A task ends with exit code {code}"]
    if spec.type not in ("USER_SUCCESS", "USER_STOP"):
        shown["solution"] = ["Read the log of the task that failed"]
    shown["stage"] = spec.stage
    shown["type"] = spec.type
    return shown


def _spec(code: int) -> _Spec:
    return _SPECS.get(code) or _SPECS[_OTHER_POSITIVE if code > 0 else _OTHER_NEGATIVE]
