"""The command that runs one job of a Hydra program on a slice, as Hydra would run it here. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    MOST_PARAMETERS,
    canonical,
)

FOLDER = "outputs"
"""Below the code of a run: a folder for each job, where Hydra's launchers here use a sweep's."""
# What decides on this computer how jobs are launched; a slice has one job, and runs it.
_OF_LAUNCH = re.compile(r"[+~]*hydra[./](launcher|sweeper|sweep|mode|run|job\.(num|id))\b")
_FILE = re.compile(r".+\.py")


class JobError(ValueError):
    """A program that cannot be started on a slice as it was here; the text has the remedy."""


def program_of(argv0: str, module: str | None, here: Path, prefix: Path) -> list[str]:
    """Return the words that start this program in a copy of the folder `here`.

    `module` is what `python -m` was given, `prefix` the environment of this Python. Raises
    JobError for a file outside of the folder.
    """
    if module:
        return ["python", "-m", module.removesuffix(".__main__")]
    path = Path(here, argv0).absolute()
    if path.parent == prefix / "bin":
        return [path.name]
    if not _FILE.fullmatch(path.name) or not path.resolve().is_relative_to(here.resolve()):
        raise JobError(
            f"{argv0}: this program is not in {here}, the folder whose code is submitted. Start it "
            "from the folder of its code"
        )
    return ["python", path.resolve().relative_to(here.resolve()).as_posix()]


def flags_of(given: Mapping[str, str | None], here: Path) -> list[str]:
    """Return Hydra's own options that say which configuration is read; raises JobError."""
    found = []
    for name, value in given.items():
        if value is None:
            continue
        path = PurePath(value)
        if name != "config-name" and path.is_absolute():
            if not path.is_relative_to(here):
                raise JobError(f"--{name} {value}: it is not in {here}. Copy it there")
            # A path of the configuration counts from the program, one of a folder from here.
            if name == "config-path":
                raise JobError(
                    f"--{name} {value}: it is a whole path. Write one from the program on"
                )
            value = path.relative_to(here).as_posix()
        found += [f"--{name}", value]
    return found


def command_of(
    program: Sequence[str], of_hydra: Sequence[str], of_job: Sequence[str], number: int
) -> list[str]:
    """Return the command of a job, by the overrides of Hydra's own keys and those of the job."""
    kept = [one for one in (*of_hydra, *of_job) if not _OF_LAUNCH.match(one)]
    own = [f"hydra.run.dir={FOLDER}/{number}", f"hydra.job.num={number}", f"hydra.job.id={number}"]
    return [*program, *dict.fromkeys(kept), *own, "hydra.mode=RUN", "~hydra/launcher"]


def parameters_of(of_job: Sequence[str]) -> dict[str, str]:
    """Return the values of a job by their names, for people and rules of the queue.

    In `model.lr` a dot becomes `_`. Where they are too long for the state of a run, there are none.
    """
    pairs = [one.lstrip("+").partition("=") for one in of_job if "=" in one]
    found = {re.sub(r"\W", "_", key): value for key, _sign, value in pairs if key[:1] != "~"}
    named = {key: value for key, value in found.items() if re.match("[A-Za-z_]", key)}
    return named if len(canonical(named)) <= MOST_PARAMETERS else {}
