"""Search for good parameters with Optuna: each trial is a submitted run of the fleet's queue.

    python search.py --trials 24 --at-once 4 -- --steps 1000

It runs on your computer, in the folder of the fleet. The study is a file there. End this program at
any time: runs that are submitted go on without it, and the next start learns from them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

import tpu_fleet

EXAMPLES = Path(__file__).resolve().parents[2]
SPACE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-4, 1e-1, log=True),
    "hidden": IntDistribution(32, 256, step=32),
}


class Search:
    """A study whose trials are runs NAME-0, NAME-1, …"""

    def __init__(self, name: str, folder: Path, words: Sequence[str], key: str | None) -> None:
        self._name, self._words, self._key = name, words, key
        self.study = optuna.create_study(
            study_name=name,
            storage=JournalStorage(JournalFileBackend(str(folder / f"{name}.journal"))),
            # What is tried just now counts as bad: no other run tries the same meanwhile.
            sampler=optuna.samplers.TPESampler(constant_liar=True),
            load_if_exists=True,
        )

    def look(self) -> None:
        """Learn from the runs that have ended."""
        runs = {one["run"]: one for one in tpu_fleet.submitted()}
        for trial in self._under_way():
            run = runs.get(self._run_of(trial))
            if run is None:
                # This program was ended between the choice of the parameters and the submission.
                self._submit(trial.number, trial.params)
            elif run["submitted_at"] < trial.datetime_start.timestamp():
                raise SystemExit(f"{run['run']} is of an older search: choose another --name")
            elif run["state"] == "done":
                self._tell(trial.number, run["loss"])
            elif run["state"] in ("failed", "stopped"):
                print(f"{run['run']} {run['state']}: {run['why']}", flush=True)
                self.study.tell(trial.number, state=TrialState.FAIL)

    def fill(self, trials: int, at_once: int) -> bool:
        """Submit further trials; return whether there is still something to wait for."""
        count = len(self.study.get_trials(deepcopy=False))
        while count < trials and len(self._under_way()) < at_once:
            trial = self.study.ask(SPACE)
            self._submit(trial.number, trial.params)
            count += 1
        return bool(self._under_way())

    def _under_way(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=[TrialState.RUNNING])

    def _run_of(self, trial: FrozenTrial) -> str:
        return f"{self._name}-{trial.number}"

    def _submit(self, number: int, params: Mapping[str, Any]) -> None:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in params.items()]
        command = ["python", "jax/train.py", *options, *self._words]
        name = f"{self._name}-{number}"
        made = tpu_fleet.submit(command, name=name, code=str(EXAMPLES), key=self._key)
        # Where the bucket did not take it, the next look submits it again.
        print(f"{name}: {made.failed.get(name) or ' '.join(options)}", flush=True)

    def _tell(self, number: int, loss: float | str | None) -> None:
        """Keep a result; one that is missing or no number is that of a failed trial."""
        value = None if loss is None else float(loss)
        told = self.study.tell(number, value, state=TrialState.FAIL if value is None else None)
        print(f"{self._name}-{number}: {told.state.name} {told.value}", flush=True)


def main() -> None:
    """Submit trials, and learn from them, until the study has as many as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--at-once", type=int, default=4, help="trials that wait or run at a time")
    parser.add_argument("--name", default="search", help="of the study and its runs")
    parser.add_argument("--dir", type=Path, default=Path(), help="where the study is")
    parser.add_argument("--every", type=float, default=30, help="seconds between two looks")
    parser.add_argument("--ssh-key", help="the key that signs")
    parser.add_argument("words", nargs="*", metavar="-- OPTION", help="options of every trial")
    options = parser.parse_args()
    search = Search(options.name, options.dir, options.words, options.ssh_key)
    while True:
        try:
            search.look()
            if not search.fill(options.trials, options.at_once):
                break
        except tpu_fleet.NoAnswer as error:
            print(f"The queue does not answer, the next look is soon: {error}", flush=True)
        time.sleep(options.every)
    if search.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
        best = search.study.best_trial
        print(f"best: {options.name}-{best.number} {best.value} {best.params}", flush=True)


if __name__ == "__main__":
    main()
