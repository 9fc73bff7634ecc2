"""The declaration of each key of ``[OpenPai]``; all other code that deals with keys reads it."""

from __future__ import annotations

import argparse
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import luigi
from luigi.parameter import ParameterVisibility

from luigi_pai import config_checks as checks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from luigi_pai.config_checks import Check

P = TypeVar("P", bound="luigi.Parameter[Any]")


class Scope(enum.Enum):
    """Where else than in ``[OpenPai]`` a setting can be."""

    CLUSTER = "each ``[OpenPai:NAME]`` has its own value, or the default"
    USER = "``[OpenPai:NAME]`` takes it from ``[OpenPai]`` unless it has the key"
    TASK = "like USER; an attribute of a task with the same name overrides it for the task's job"


@dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    Attributes:
        parameter: Luigi's parameter, which has the type and the description.
        default: its default; None if it is not set.
        check: the check of its values; None if all values are valid.
        scope: where else than in ``[OpenPai]`` it can be.
        required: how to set it if its section must have it; empty if the section need not.
    """

    parameter: luigi.Parameter[Any]
    default: Any
    check: Check | None
    scope: Scope
    required: str

    @property
    def description(self) -> str:
        """Its description as a sentence."""
        text = self.parameter.description or ""
        return f"{text[0].upper()}{text[1:]}."

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return self.parameter.visibility is ParameterVisibility.PRIVATE


class _RefusedOption(argparse.Action):
    """An option that ends the command: every account of the machine can read a command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002
        values: object,  # noqa: ARG002  the secret
        option_string: str | None = None,
    ) -> NoReturn:
        key = str(option_string).rpartition("-")[2]
        parser.exit(
            2,
            f"{parser.prog}: {option_string} is not accepted, because other users can read command lines; "
            f"nothing was run. Write {key} = ${{PAI_{key.upper()}}} into luigi.cfg, and set this environment "
            "variable\n",
        )


class SecretParameter(luigi.OptionalParameter):
    """A setting that is in no log, task ID or message to the scheduler, and refused on a command line."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(significant=False, visibility=ParameterVisibility.PRIVATE, **declared)

    @classmethod
    def _parser_kwargs(cls, *names: Any) -> dict[str, Any]:
        """Return the arguments of ``add_argument`` for the option that Luigi makes of each parameter."""
        return {**super()._parser_kwargs(*names), "action": _RefusedOption}  # type: ignore[no-untyped-call]


_TEXT = luigi.Parameter[str] if TYPE_CHECKING else luigi.Parameter
_OPTIONAL, _INT, _FLOAT = luigi.OptionalParameter, luigi.IntParameter, luigi.FloatParameter
_BOOL, _OPTIONAL_FLOAT = luigi.BoolParameter, luigi.OptionalFloatParameter
_CLUSTER, _USER, _TASK = Scope.CLUSTER, Scope.USER, Scope.TASK
_DECLARED: dict[luigi.Parameter[Any], Setting] = {}


def _key(
    kind: type[P], default: object, check: Check | None, scope: Scope, text: str, required: str = ""
) -> P:
    """Declare a setting. The arguments are those of ``Setting``; ``text`` is the description."""
    parameter = kind(default=default, description=text)
    _DECLARED[parameter] = Setting(parameter, default, check, scope, required)
    return parameter


# A table: the class of the parameter, default, check, scope; then the description.
# fmt: off
class Settings:
    """The keys of ``[OpenPai]``, in the order of their documentation."""

    pai_url = _key(_TEXT, "http://127.0.0.1:9186", checks.URL, _CLUSTER,
        "rest-server of the cluster, with its path if it has one: http://HOST:9186, or "
        "https://HOST/rest-server", required="pai_url = http://HOST:9186, the URL of its rest-server")
    username = _key(_TEXT, "admin", checks.USER, _CLUSTER,
        "your name on the cluster", required="username = ..., your user name there")
    password = _key(SecretParameter, None, None, _CLUSTER, "your password")
    expiration = _key(_INT, 3600, checks.LIFETIME, _CLUSTER,
        "lifetime of a login in seconds, 60 to 604800; renewed automatically")
    token = _key(SecretParameter, None, None, _CLUSTER, "application token, used instead of the password")
    api_version = _key(_TEXT, "auto", checks.one_of("auto", "v1", "v2"), _CLUSTER,
        "API of the cluster: v1 (OpenPAI 0.7 to 0.14), v2 (0.15 to 1.8, LTP), auto to detect it")
    fs_uri = _key(_OPTIONAL, None, checks.HDFS_URI, _CLUSTER,
        "value of $PAI_DEFAULT_FS_URI on the cluster: hdfs://HOST:PORT")
    webhdfs_url = _key(_OPTIONAL, None, checks.URLS, _CLUSTER,
        "WebHDFS of that file system: http://HOST:PORT; with several NameNodes URL;URL")
    webhdfs_redirect = _key(_OPTIONAL, None, checks.REDIRECT, _CLUSTER,
        "URL of DataNodes, if not the one that the NameNode sends: http://PROXY/{host}:{port}")
    hdfs_user = _key(_OPTIONAL, None, checks.USER, _CLUSTER, "user on HDFS; default: username")
    hdfs_auth = _key(_TEXT, "simple", checks.one_of("simple", "kerberos"), _CLUSTER,
        "authentication on HDFS: simple, or kerberos (needs a ticket)")
    storage = _key(_OPTIONAL, None, checks.STORAGE, _CLUSTER,
        "the storage of the cluster where your jobs' files are, from 0.16 on: nfs1, for example")
    storage_path = _key(_OPTIONAL, None, checks.FOLDER, _CLUSTER,
        "where this machine has the files of the storage, if its mounts do not show it")
    storage_mount = _key(_OPTIONAL, None, checks.FOLDER, _CLUSTER,
        "where containers mount the storage; default: /mnt/NAME (0.16, 0.17: as the cluster says)")
    portal_url = _key(_OPTIONAL, None, checks.URL, _CLUSTER, "web portal, for the links to a job's page")
    verify = _key(_TEXT, "true", checks.TLS_VERIFY, _CLUSTER,
        "check TLS certificates: true, false, or a file of CA certificates")
    connect_timeout = _key(_FLOAT, 10.0, checks.SECONDS, _USER, "seconds to wait for a connection")
    read_timeout = _key(_FLOAT, 30.0, checks.SECONDS, _USER, "seconds to wait for a reply")
    poll_min = _key(_FLOAT, 0.1, checks.SECONDS, _USER, "shortest wait between two lookups of a job")
    poll_max = _key(_FLOAT, 30.0, checks.SECONDS, _USER, "longest wait between two lookups of a job")
    poll_patience = _key(_FLOAT, 1800.0, checks.SECONDS, _USER,
        "how long transient errors are retried while a job runs")
    queue_timeout = _key(_OPTIONAL_FLOAT, None, checks.SECONDS, _TASK,
        "seconds that a job may wait in the queue before it is stopped")
    run_timeout = _key(_OPTIONAL_FLOAT, None, checks.SECONDS, _TASK,
        "seconds that a job may run before it is stopped")
    on_forgotten = _key(_TEXT, "fail", checks.one_of("fail", "submit"), _TASK,
        "what a run does if the job was submitted and the server no longer has its result: fail, or submit "
        "it again")
    on_kill = _key(_TEXT, "leave", checks.one_of("leave", "stop"), _TASK,
        "what becomes of a job when the process that watches it is ended: leave it to the next run, or "
        "stop it")
    logs = _key(_TEXT, "none", checks.one_of("none", "stream"), _TASK,
        "what Luigi's log shows of the containers' output while a job runs: none of it, or stream (all "
        "lines of all tasks)")
    keep_logs = _key(_BOOL, False, checks.BOOL, _TASK,  # noqa: FBT003
        "keep the logs of ended jobs in OUTPUT_DIR/_logs, on the cluster's file system")
    max_attempts = _key(_INT, 1, checks.COUNT, _TASK,
        "how often one run submits a job that fails, the first time included; a job that was stopped, by a "
        "user or at a timeout, is not submitted again")
    retry_exit_codes = _key(_OPTIONAL, None, checks.EXIT_CODES, _TASK,
        "exit codes, of the job or its command, after which the same run submits the job again, such as "
        "75, 134-139; default: all")
    tags = _key(_OPTIONAL, None, checks.WORDS, _TASK,
        "tags of jobs besides luigi and luigi:FAMILY, separated by commas (OpenPAI 1.3 and later)")
    notify = _key(
        _OPTIONAL, None, checks.some_of("running", "succeeded", "stopped", "failed", "retried"), _TASK,
        "changes of a job's state that the cluster notifies you of: some of running, succeeded, stopped, "
        "failed, retried (OpenPAI 1.5 and later)")
    console = _key(_TEXT, "luigi", checks.one_of("luigi", "quiet"), _USER,
        "what a terminal shows: all that luigi logs, or quiet, a line for each change of a job")
    server_retention = _key(_OPTIONAL_FLOAT, None, checks.SECONDS, _CLUSTER,
        "seconds for which the server keeps an ended job; default: that of the release")
# fmt: on


SETTINGS: Mapping[str, Setting] = {
    key: _DECLARED[value] for key, value in vars(Settings).items() if isinstance(value, luigi.Parameter)
}
"""All settings by their keys."""

OF_TASKS = {key: known.check for key, known in SETTINGS.items() if known.scope is Scope.TASK and known.check}
"""The keys that attributes of tasks override, with the checks of their values."""
