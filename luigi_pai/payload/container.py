"""The payload's ``__main__``: runs ``work`` in the container, which does not have luigi.

It runs on any Python 3, so that it can report an image whose Python differs from the submitter's.
"""

import base64
import contextlib
import functools
import io
import json
import linecache
import os
import pickle
import shutil
import subprocess
import sys
import traceback
import types
import zipfile

MYPY = False
if MYPY:  # to type checkers this is true
    from typing import Any

WRONG_PYTHON, MISSING_MODULE = 121, 122
"""Exit codes: the image has a different minor version of Python; the image lacks a module."""

VALUES, SECRETS = "LUIGI_PAI_VALUES", "LUIGI_PAI_SECRETS"
"""Environment variables with the task's pickled values and pickled secrets, in base64."""

RESULT = "result: "
"""Prefix of the log line that contains the result."""

CALLER = "<luigi_pai>"
"""File name of the code that calls the user's function; tracebacks omit this code."""

LARGEST_METRICS = 64 * 2**20
"""Maximum size of ``metrics.json`` in bytes."""

_LONGEST = 10000  # longest result in the log, because only the log's last 16 KB are read


class Task:
    """``self`` in the container: has the parameters, ``name``, ``pai`` and the attributes that were sent."""

    def __getattr__(self, name: str) -> "Any":
        raise AttributeError(
            "{0}.{1} is not in the container; it is sent only if work() uses it as self.{1}".format(
                type(self).__name__, name
            )
        )


class _Unpickler(pickle.Unpickler):
    """Unpickles a payload, which refers to the task's classes by their indexes in ``classes``."""

    classes: "list[Any]" = []  # noqa: RUF012  a process has one task

    def persistent_load(self, pid: "Any") -> "Any":
        return self.classes[pid]


def main(file: str) -> int:
    """Run the task in a payload file; return the exit code."""
    with zipfile.ZipFile(file) as archive:
        about = json.loads(archive.read("task.json").decode("utf-8"))
        method = archive.read("work.pickle")
    here = "{}.{}".format(*sys.version_info)
    if here != about["python"]:
        message = (
            "this image has Python {0}, {1} needs {2}: choose an image with Python {2}, or run Luigi on {0}"
        )
        _log(message.format(here, about["task"], about["python"]))
        return WRONG_PYTHON
    try:
        _run(_loaded(about["classes"], method), about["function"])
    except ModuleNotFoundError as error:
        _show(error)
        advice = "this image has no module {!r}: use an image that has it, or send it with packages = [{!r}]"
        _log(advice.format(error.name, str(error.name).partition(".")[0]))
        return MISSING_MODULE
    except Exception as error:  # noqa: BLE001  the user's
        _show(error)
        if isinstance(error, pickle.PicklingError):
            advice = "move the function to a module, and send the module with packages"
            _log("multiprocessing imports the function that it calls: {}".format(advice))
        if isinstance(error, FileNotFoundError) and error.filename:
            advice = "send local files with uploads to data_dir, and open them in self.pai.data_dir"
            _log("{!r} is not in the container: {}".format(error.filename, advice))
        return 1
    return 0


def _loaded(described: "list[Any]", method: bytes) -> "Any":
    """Return the task, an instance of a copy of the user's class."""
    import luigi_pai.runtime as pai

    sys.modules["pai_runtime"] = pai
    classes = _Unpickler.classes = [None] * len(described)
    for index in reversed(range(len(described))):  # create bases first; they are last in an MRO
        name, bases = described[index]
        classes[index] = types.new_class(name, tuple(Task if base < 0 else classes[base] for base in bases))
    attributes, sources = _loads(method)
    for kind, members in zip(classes, attributes):  # noqa: B905  strict is of 3.10
        for key, value in members.items():
            setattr(kind, key, value)
            getattr(type(value), "__set_name__", lambda *_: None)(value, kind, key)
    for path, first, part in sources:  # for tracebacks: the container does not have these files
        lines: "list[str]" = linecache.cache.setdefault(path, (0, None, [], path))[2]  # type: ignore[misc]
        lines.extend(["\n"] * (first - 1 + len(part) - len(lines)))
        lines[first - 1 : first - 1 + len(part)] = part
    task = classes[0]()
    for variable in (VALUES, SECRETS):
        data = base64.b64decode(os.environ.pop(variable, ""))
        vars(task).update(_loads(data) if data else {})
    task.pai = pai
    return task


def _loads(data: bytes) -> "Any":
    return _Unpickler(io.BytesIO(data)).load()


def _run(task: "Any", function: str) -> None:
    called = function or "work"
    result = task.work()
    if result is not None and not isinstance(result, dict):
        message = "work() of {} returned {}: return a dict, such as {{'accuracy': 0.97}}"
        raise TypeError(message.format(type(task).__name__, type(result).__name__))
    here = task.pai.current()
    if result is None or here.index:  # only the first instance reports the result
        return
    whole = result.get("result") if function else result
    body = json.dumps(result, default=functools.partial(_json_value, called, whole, is_strict=bool(function)))
    if len(body) > LARGEST_METRICS:
        message = "{}() returned {:,} bytes of JSON; {:,} at most: write large results to files in output_dir"
        raise ValueError(message.format(called, len(body), LARGEST_METRICS))
    folder = here._read("output_dir") if here.api else None  # noqa: SLF001  of this package; a job may have none
    try:
        is_kept = _write_metrics((folder or "").rstrip("/"), body)
    except (OSError, subprocess.SubprocessError) as error:
        is_kept = False
        _log("metrics.json is not written: {}".format(error))
    if len(body) > _LONGEST and not is_kept:
        message = "{}() returned {} characters of JSON; where no output folder can be written, {} at most"
        raise ValueError(message.format(called, len(body), _LONGEST))
    sys.stdout.flush()
    sys.stderr.write(RESULT + body + "\n" if len(body) <= _LONGEST else "")


def _json_value(called: str, whole: "Any", value: "Any", *, is_strict: bool) -> "Any":
    """Return a set or an array as a list, a number of numpy or torch as a number, anything else as a string.

    If ``is_strict``, raise a TypeError for anything else, with the value's key in the ``whole`` result.
    """
    import luigi_pai.runtime as pai

    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    plain = pai._plain(value)  # noqa: SLF001  of this package
    if isinstance(plain, str) and hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(plain, str):
        keys = [key for key, part in whole.items() if part is value] if isinstance(whole, dict) else []
        place = " as {!r}".format(keys[0]) if keys else ""
        message = "{}() returned a {}{}".format(called, type(value).__name__, place)
        if is_strict:
            raise TypeError(
                message + ", which JSON does not have: return numbers, strings, lists and dicts of these"
            )
        _log("{}, which is written as a string: {:.80}".format(message, plain))
    return plain


def _write_metrics(folder: str, body: str) -> bool:
    """Write ``metrics.json`` to a folder on HDFS or a storage; return False if the image cannot access it."""
    path = folder[len("file://") :] if folder.startswith("file://") else folder
    if "://" in path and shutil.which("hdfs"):
        command = ["hdfs", "dfs", "-put", "-f", "-", path + "/metrics.json"]
        subprocess.run(command, input=body.encode(), timeout=120, check=True)  # noqa: S603  fixed words
        return True
    if "://" in path or not os.path.isdir(_mount_of(path)):
        return False
    import luigi_pai.runtime as pai

    pai._make_folder(path)  # noqa: SLF001  of this package
    with open(path + "/metrics.json.part", "w") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(OSError):  # so that the user can change what a container writes as root
        os.chmod(path + "/metrics.json.part", 0o666)  # noqa: S103  as above
    os.replace(path + "/metrics.json.part", path + "/metrics.json")
    return True


def _mount_of(path: str) -> str:
    """Return the folder that exists if ``path`` is on a mount: the storage, or the path's first folder."""
    storage = os.environ.get("PAI_DEFAULT_FS_URI", "").rstrip("/")
    is_on_storage = storage.startswith("/") and (path + "/").startswith(storage + "/")
    return storage if is_on_storage else "/".join(path.split("/")[:2])


def _show(error: BaseException) -> None:
    """Print the traceback without its first frames, which are in this package or, for a result, in json."""
    sys.stdout.flush()
    frames, ours = error.__traceback__, (__file__, CALLER, json.__file__, json.encoder.__file__)
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _log(message: str) -> None:
    sys.stdout.flush()
    sys.stderr.write("luigi_pai: {}\n".format(message))


if __name__ == "__main__":
    sys.exit(main(sys.argv[0]))
