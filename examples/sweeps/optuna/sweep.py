"""Search for good parameters with Optuna: one study, and every slice of the run works at it.

    python sweep.py --trials 24 --steps 500

All slices see the folder of the study, TPU_FLEET_CHECKPOINT_DIR, on a share. A trial belongs to the
slice that began it. After a crash, a reboot or a preemption that slice goes on with the very same
trial, from its last checkpoint; the others go on with theirs meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "jax"))

import train  # isort: skip  # first: it prepares what JAX reads when it is imported
import jax
import numpy as np
import optuna
from jax.experimental import multihost_utils
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import Trial, TrialState

SPACE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-4, 1e-1, log=True),
    "hidden": IntDistribution(32, 256, step=32),
}
OWNER = "slice"
TRIES = 3  # how often a trial may end in an exception without having come any further


class Sweep:
    """The study, as one slice sees it."""

    def __init__(self, folder: Path, trials: int, names: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._trials, self._names = trials, names
        journal = str(folder / "study.journal")
        # What Optuna has for a file on NFS 3 or later. A process killed with the lock loses
        # it after 30 s; the symbolic link that is its default could then be taken twice.
        backend = JournalFileBackend(journal, lock_obj=JournalFileOpenLock(journal))
        self.study = optuna.create_study(
            study_name="digits",
            storage=JournalStorage(backend),
            # What others try just now counts as bad: no other slice tries the same meanwhile.
            sampler=optuna.samplers.TPESampler(constant_liar=True),
            load_if_exists=True,
        )
        self._turn = JournalFileOpenLock(str(folder / "next-trial"), grace_period=120)

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def next_trial(self) -> tuple[int, dict[str, Any]] | None:
        """Return the trial that this slice left unfinished, or a new one while there are any."""
        with self._my_turn():
            owned = []
            for trial in self.study.get_trials(deepcopy=False):
                if OWNER in trial.user_attrs:
                    owned.append(trial)
                elif trial.state == TrialState.RUNNING:
                    # The slice that asked for it was killed before it had it: it does not count.
                    self.study.tell(trial.number, state=TrialState.FAIL)
            for trial in owned:
                if trial.state == TrialState.RUNNING and trial.user_attrs[OWNER] in self._names:
                    # Also when it was another's: no third takes it over as well.
                    Trial(self.study, trial._trial_id).set_user_attr(OWNER, self._names[0])
                    return trial.number, trial.params
            if len(owned) >= self._trials:
                return None
            new = self.study.ask(SPACE)
            new.set_user_attr(OWNER, self._names[0])
            return new.number, new.params


def tell_all(value: Any) -> Any:
    """Give what the first worker of the slice knows to all of them."""
    if jax.process_count() == 1:
        return value
    text = np.frombuffer(json.dumps(value).encode().ljust(4096), np.uint8)
    return json.loads(np.asarray(multihost_utils.broadcast_one_to_all(text)).tobytes())


def note_error(folder: Path) -> int:
    """Keep the exception with the trial, and return how many there were since its checkpoint.

    Of a slice with several hosts it may only tell that another one was rebooted.
    """
    saved = [int(step.name) for step in folder.glob("steps/*") if step.name.isdigit()]
    mark = f"=== behind step {max(saved, default=0)}\n"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "errors.txt").open("a") as file:
        file.write(mark + traceback.format_exc())
    return (folder / "errors.txt").read_text().count(mark)


def main(arguments: list[str]) -> int:
    """Do one trial after the other, until the study has as many as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=24, help="how many all slices do together")
    parser.add_argument(
        "--take-over", nargs="*", default=[], metavar="SLICE", help="slices that will not return"
    )
    parser.add_argument("--dir", default=os.environ.get("TPU_FLEET_CHECKPOINT_DIR") or "sweep")
    options, rest = parser.parse_known_args(arguments)
    train.join_the_others()
    stop = train.Stop()  # after JAX, which has a handler of its own
    me = os.environ.get("TPU_FLEET_SLICE") or socket.gethostname()
    folder = Path(options.dir)
    sweep = None
    if jax.process_index() == 0:
        sweep = Sweep(folder, options.trials, [me, *options.take_over])
    while chosen := tell_all(sweep.next_trial() if sweep else None):
        number, params = chosen
        place = folder / f"trial-{number:03}"
        print(f"{me}: trial {number} with {json.dumps(params)}", flush=True)
        words = [f"--{name.replace('_', '-')}={value}" for name, value in params.items()]
        try:
            final = train.train(train.parse([*rest, *words, f"--checkpoint-dir={place}"]), stop)
        except Exception:
            # This attempt is over: the agent begins the next, with the trial or without.
            if sweep and note_error(place) >= TRIES:
                sweep.study.tell(number, state=TrialState.FAIL)
            raise
        if final is None:
            return train.STOPPED
        if sweep:
            # A loss that is no number counts as failed.
            told = sweep.study.tell(number, final["loss"])
            print(f"{me}: trial {number} {told.state.name} {told.value}", flush=True)
    if sweep and sweep.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
        best = sweep.study.best_trial
        text = {"trial": best.number, "loss": best.value, **best.params}
        print(f"{me}: nothing is left to begin; best so far {json.dumps(text)}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        # An ordinary exit would first wait for the other workers, which wait for this one.
        os._exit(1)
    sys.exit(code)
