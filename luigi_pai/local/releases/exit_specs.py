"""The exit codes of OpenPAI 1.8: the name, the causer and the retry class of each.

They are those of its exit specification (v1.8.0, src/k8s-job-exit-spec); the reasons are this server's own.
"""

from __future__ import annotations

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

_OTHER_POSITIVE, _OTHER_NEGATIVE = "256", "-8000"
_REACTIONS = {
    "TRANSIENT": "ALWAYS_RETRY",
    "TRANSIENT_CONFLICT": "ALWAYS_BACKOFF_RETRY",
    "PERMANENT": "NEVER_RETRY",
    "UNKNOWN": "RETRY_TO_MAX",
}
_KEYS = ("issuer", "causer", "type", "stage", "behavior")
_TABLE = """
PAI_FC PAI_UNKNOWN PLATFORM_FAILURE UNKNOWN TRANSIENT
  -100 ConfigMapExternalDeleted The attempt's record was deleted
  -101 PodExternalDeleted The task was deleted from outside
PAI_FC USER_STOP USER_STOP UNKNOWN PERMANENT
  -210 StopFrameworkRequested A user stopped the job
  -220 FrameworkAttemptCompletion The task ended with its job attempt
USER_CONTAINER USER_CONTAINER USER_SUCCESS COMPLETING UNKNOWN
  0 Succeeded
PAI_OS PAI_OS PLATFORM_FAILURE RUNNING TRANSIENT
  130 ContainerSigIntReceived The command was ended by SIGINT: interrupted
  131 ContainerSigQuitReceived The command was ended by SIGQUIT: told to quit
  137 ContainerSigKillReceived The command was ended by SIGKILL: killed, often for its memory
  143 ContainerSigTermReceived The command was ended by SIGTERM: told to end
USER_CONTAINER USER_CONTAINER USER_FAILURE RUNNING PERMANENT
  132 ContainerSigIllReceived The command was ended by SIGILL: an instruction that the processor lacks
  135 ContainerSigBusReceived The command was ended by SIGBUS: a memory access that the machine cannot make
  136 ContainerSigFpeReceived The command was ended by SIGFPE: an arithmetic fault
  141 ContainerSigPipeReceived The command was ended by SIGPIPE: it wrote to a pipe that nobody reads
  220 UserCommandExitWithError The command was not found
USER_CONTAINER UNKNOWN UNKNOWN_FAILURE RUNNING UNKNOWN
  134 ContainerSigAbrtReceived The command was ended by SIGABRT: it gave up by itself
  139 ContainerSigSegvReceived The command was ended by SIGSEGV: an access to memory that is not its own
PAI_RUNTIME USER_CONTAINER USER_FAILURE RUNNING PERMANENT
  221 ContainerTensorflowOOMKilled TensorFlow ran out of memory
  222 ContainerMPISegvFault MPI touched memory that is not mapped
  224 ContainerCudaVersionMismatch The GPU driver is too old for this CUDA
  225 ContainerCudaDnnVersionMismatch The framework and cuDNN do not fit together
  226 ContainerCudaOOMKilled A GPU ran out of memory
  228 ContainerIncorrectParameterError A program was called with wrong arguments
  229 ContainerIncorrectDataModelError The data is missing or not in the expected form
  230 ContainerInvalidSavePath The path to restore from is wrong
  231 ContainerSyntaxError The program has a mistake in its code
  232 ContainerImportError A module cannot be imported
  233 ContainerIndexOutOfRange The program read past the end of a list
  234 ContainerSigvFault The program touched memory that is not its own
  235 ContainerEngineCoreDump The program dumped its core
PAI_RUNTIME PAI_HW PLATFORM_FAILURE RUNNING TRANSIENT
  223 ContainerCudaUncorrectableECCError The memory of a GPU is damaged
PAI_RUNTIME PAI_RUNTIME PLATFORM_FAILURE RUNNING PERMANENT
  249 PAIRuntimeSSHBarrierTimeout The ssh barrier waited in vain for other tasks
PAI_RUNTIME PAI_RUNTIME PLATFORM_FAILURE LAUNCHING TRANSIENT
  253 ContainerPortConflict No port was free
PAI_RUNTIME UNKNOWN UNKNOWN_FAILURE UNKNOWN UNKNOWN
  255 PAIRuntimeUnknownFailed The command failed in a way that the runtime does not recognise
PAI_RUNTIME PAI_RUNTIME PLATFORM_FAILURE UNKNOWN UNKNOWN
  256 PAIRuntimeExitAbnormally The runtime itself failed, with a code that says nothing more
UNKNOWN UNKNOWN UNKNOWN_FAILURE UNKNOWN UNKNOWN
  -8000 ContainerUndefinedNegativeExitCode A negative exit code that says nothing more
"""
"""A line of the five `_KEYS`, then the codes for which they are so: code, phrase, reason."""


def _parse(table: str) -> dict[str, dict[str, str]]:
    specs: dict[str, dict[str, str]] = {}
    shared: dict[str, str] = {}
    for line in table.strip().splitlines():
        if line.startswith(" "):
            code, phrase, *reason = line.split(maxsplit=2)
            specs[code] = {**shared, "phrase": phrase, **({"reason": reason[0]} if reason else {})}
        else:
            shared = dict(zip(_KEYS, line.split(), strict=True))
    return specs


_SPECS = _parse(_TABLE)
_PERMANENT_BESIDES = frozenset({-200, -230, -1004, -1005, -1100, -1200, -1202, -1203, 252, 254})
_TRANSIENT_BESIDES = frozenset({-110, -111, -120, -1000, -1001, -1002, -1003, -1006, -1205, -1300, 250, 251})


def reaction(code: int) -> str:
    """Return ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, RETRY_TO_MAX (counted) or NEVER_RETRY for an exit code."""
    if code == 0 or code in _PERMANENT_BESIDES:
        return "NEVER_RETRY"
    if code in _TRANSIENT_BESIDES:
        return "ALWAYS_RETRY"
    return _REACTIONS[_spec(code)["behavior"]]


def exit_spec(code: int | None) -> dict[str, Any] | None:
    """Return an exit code's description as the API shows it, its keys in alphabetical order."""
    if code is None:
        return None
    shown: dict[str, Any] = {**_spec(code), "code": code, "reaction": reaction(code)}
    shown["repro"] = [f"A task ends with exit code {code}"]
    if shown["type"] not in ("USER_SUCCESS", "USER_STOP"):
        shown["solution"] = ["Read the log of the task that failed"]
    return dict(sorted(shown.items()))


def _spec(code: int) -> dict[str, str]:
    return _SPECS.get(str(code)) or _SPECS[_OTHER_POSITIVE if code > 0 else _OTHER_NEGATIVE]
