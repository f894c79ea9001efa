"""Hydra's launcher `hydra/launcher=tpu_fleet`: each job of a multirun becomes a submitted run.

Hydra imports this file in each of its programs, in any environment that has tpu-fleet. So what
submits is imported only when something is submitted.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf, open_dict

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction

    from tpu_fleet.queue.submit import Submission

log = logging.getLogger(__name__)
NEED_RESULTS = ("hydra_ax_sweeper", "hydra_nevergrad_sweeper", "hydra_optuna_sweeper")
NO_RESULT = (
    "hydra/launcher=tpu_fleet submits a job and does not wait for what it returns. A sweeper that "
    "learns from results cannot use it: use hydra/sweeper=basic, or a program that submits each "
    "trial, as examples/sweeps/optuna of tpu.fleet"
)


@dataclass
class TpuFleetConf:
    """The keys of `hydra.launcher`; each is as of `tpu_fleet.submit`."""

    _target_: str = "hydra_plugins.tpu_fleet_launcher.TpuFleetLauncher"
    name: str = ""
    """Runs are NAME-1, NAME-2, …; by default a name like the program's that is free."""
    where: list[str] = field(default_factory=list)
    """The slices and types of `on`, which YAML would read as true."""
    after: list[str] = field(default_factory=list)
    at_once: Any = None
    priority: int = 0
    venv: Any = None
    user: str = ""
    checkpoint_dir: str = ""
    retries: Any = None
    secrets: list[str] = field(default_factory=list)
    max_hours: Any = None
    key: Any = None
    again: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """More keys of a run, as `hang_after`."""


ConfigStore.instance().store(
    group="hydra/launcher", name="tpu_fleet", node=TpuFleetConf, provider="tpu_fleet"
)


class Pending:
    """What a job returned, which nothing here knows: the run is submitted, and not done."""

    def __init__(self, run: str) -> None:
        self.run = run

    def __repr__(self) -> str:
        return f"the result of run {self.run}, which is submitted and not done. {NO_RESULT}"

    def __float__(self) -> NoReturn:
        raise TypeError(repr(self))


@dataclass
class SubmittedJob(JobReturn):
    """A job whose status is unknown: it is in the queue."""

    run: str = ""

    @property
    def return_value(self) -> Any:
        """Return what refuses to be a number."""
        return Pending(self.run)

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self._return_value = value


class TpuFleetLauncher(Launcher):
    """Submits the jobs of a multirun and returns; nothing waits for them here."""

    def __init__(self, **params: Any) -> None:
        self._params = {
            key: OmegaConf.to_container(one, resolve=True) if OmegaConf.is_config(one) else one
            for key, one in params.items()
        }
        self._name = ""

    def setup(
        self, *, hydra_context: "HydraContext", task_function: "TaskFunction", config: DictConfig
    ) -> None:
        """Keep what a launch needs; refuse a sweeper that waits for results."""
        self._loader, self._config = hydra_context.config_loader, config
        sweeper = str(OmegaConf.select(config, "hydra.sweeper._target_") or "")
        if any(name in sweeper for name in NEED_RESULTS):
            raise RuntimeError(f"hydra/sweeper = {sweeper.rpartition('.')[2]}: {NO_RESULT}.")

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Submit each job as a run; all of them are composed here before, to find mistakes."""
        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        numbered = list(enumerate(map(list, job_overrides), initial_job_idx))
        jobs = [self._composed(overrides, number) for number, overrides in numbered]
        submission = self._submit(numbered, initial_job_idx)
        for job, (number, overrides) in zip(jobs, numbered, strict=True):
            job.run = f"{self._name}-{number + 1}"
            why = submission.failed.get(job.run)
            outcome = f"was not submitted: {why}" if why else "submitted"
            log.info(f"\t{job.run} : {' '.join(filter_overrides(overrides))} : {outcome}")
        log.info("Next: tpu-fleet runs --queue")
        return [_refused(job, submission) or job for job in jobs]

    def _composed(self, overrides: list[str], number: int) -> SubmittedJob:
        composed = self._loader.load_sweep_config(self._config, overrides)
        with open_dict(composed):
            composed.hydra.job.id, composed.hydra.job.num = str(number), number
            hydra = OmegaConf.create({"hydra": composed.hydra})
            task = list(composed.hydra.overrides.task)
            name = str(composed.hydra.job.name)
            del composed["hydra"]
        return SubmittedJob(overrides=task, cfg=composed, hydra_cfg=hydra, task_name=name)

    def _submit(self, numbered: list[tuple[int, list[str]]], first: int) -> "Submission":
        from tpu_fleet.queue.jobs import FOLDER, command_of, parameters_of
        from tpu_fleet.queue.submit import submit_numbered, unused_name

        program = self._program()
        of_hydra = list(self._config.hydra.overrides.hydra)
        given = {_NAMED.get(key, key): one for key, one in self._params.items()}
        asked = {key: one for key, one in given.items() if key not in _OF_CALL}
        more = {key: one for key, one in asked.items() if one not in (None, "", [])}
        # A later batch of the same multirun continues the numbers of the first.
        self._name = (
            self._name or self._params["name"] or unused_name(str(self._config.hydra.job.name))
        )
        entries = [
            {
                "command": command_of(program, of_hydra, overrides, number),
                "results": [f"{FOLDER}/{number}"],
                **more,
                **self._params["options"],
            }
            for number, overrides in numbered
        ]
        call = {key: self._params[key] for key in ("at_once", "key", "again")}
        return submit_numbered(
            entries,
            self._name,
            parameters=[parameters_of(overrides) for _number, overrides in numbered],
            first=first + 1,
            without=[Path(str(self._config.hydra.sweep.dir))],
            **call,
        )

    def _program(self) -> list[str]:
        from hydra._internal.utils import get_args_parser

        from tpu_fleet.queue.jobs import flags_of, program_of

        spec, here = getattr(sys.modules["__main__"], "__spec__", None), Path.cwd()
        asked, _rest = get_args_parser().parse_known_args()
        names = ("config-path", "config-name", "config-dir")
        flags = {name: getattr(asked, name.replace("-", "_")) for name in names}
        module = spec.name if spec is not None else None
        program = program_of(sys.argv[0], module, here, Path(sys.prefix))
        return [*program, *flags_of(flags, here)]


_OF_CALL = ("name", "at_once", "key", "again", "options")
_NAMED = {"where": "on"}


def _refused(job: SubmittedJob, submission: "Submission") -> JobReturn | None:
    """Return a job that failed because it was not submitted; None if it was."""
    why = submission.failed.get(job.run)
    if why is None:
        return None
    failed = JobReturn(job.overrides, job.cfg, job.hydra_cfg, None, job.task_name)
    failed.status, failed.return_value = JobStatus.FAILED, RuntimeError(f"{job.run}: {why}")
    return failed
