"""Run the program of fleet_queue.on_result beside the loop: as the run's user, in its folder.

Root waits for nothing of it. It has a time limit, its answer a size, and it gets no secrets.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from run_agent.act import as_user, environment
from run_agent.decide.values import one_line

from ..decide.rule import MOST_SAID, SECONDS, Rule, Subject, question
from ..shared._queue.objects import Submitted

_THERE = 'cd "$0" && exec "$@"'


class Answer(NamedTuple):
    """What the program said about the arms that it was asked about."""

    subject: Subject
    arms: Sequence[Submitted]
    said: bytes
    problem: str
    """Why that counts for nothing; empty if it counts."""


class Ruling:
    """Asks the program, one question at a time."""

    def __init__(self, rule: Rule, seconds: float = SECONDS) -> None:
        self._rule, self._seconds = rule, seconds
        self._thread: threading.Thread | None = None
        self._answer: Answer | None = None
        self._unwanted = threading.Event()

    @property
    def is_busy(self) -> bool:
        """Return whether it is being asked, or its answer was not taken yet."""
        return self._thread is not None

    def ask(self, subject: Subject, arms: Sequence[Submitted]) -> None:
        """Begin to ask, unless it is being asked."""
        if not self.is_busy:
            self._thread = threading.Thread(target=self._ask, args=(subject, arms), daemon=True)
            self._thread.start()

    def answer(self) -> Answer | None:
        """Return the answer once; None while there is none."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._answer

    def close(self) -> None:
        """End the program."""
        self._unwanted.set()

    def _ask(self, subject: Subject, arms: Sequence[Submitted]) -> None:
        try:
            said, problem = self._run(subject, question(subject, arms))
        except (OSError, as_user.UserError) as error:
            said, problem = b"", str(error)
        except Exception as error:  # whatever it is, it ends only this question
            said, problem = b"", f"unexpected {type(error).__name__}: {error}"
        self._answer = Answer(subject, arms, said, one_line(problem))

    def _run(self, subject: Subject, asked: bytes) -> tuple[bytes, str]:
        account = as_user.account_of(subject.user)
        if account is None:
            return b"", f"there is no user {subject.user} on this machine"
        words = ["/bin/sh", "-c", _THERE, subject.folder or account.pw_dir, *self._rule.command]
        done = as_user.run_as(
            account,
            words,
            self._environment(subject, as_user.environment_of(account)),
            seconds=self._seconds,
            most_bytes=MOST_SAID,
            unwanted=self._unwanted,
            given=asked,
        )
        if done.code == 0:
            return done.out, ""
        lines = done.err.decode("utf-8", "replace").strip().splitlines()
        return b"", f"exit {done.code}: {lines[-1] if lines else 'it wrote no error'}"

    def _environment(self, subject: Subject, basis: dict[str, str]) -> dict[str, str]:
        """Return that of the run's program, without what is of its attempt or secret."""
        found = {
            **basis,
            **environment.of_machine(),
            "TPU_FLEET_RUN": subject.run.name,
            "TPU_FLEET_SWEEP": subject.run.sweep,
            # The chips are the run's.
            "JAX_PLATFORMS": "cpu",
        }
        if subject.venv:
            found.update(VIRTUAL_ENV=subject.venv, PATH=f"{subject.venv}/bin:{found['PATH']}")
        return found
