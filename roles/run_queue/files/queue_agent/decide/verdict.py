"""May this run start here, by what a person signed and what the fleet file says?"""

from __future__ import annotations

from ..shared._queue.objects import Definition, Submitted, is_of
from ..shared._roles.training_run.definition import misplaced
from .settings import Settings


def refusals(definition: Definition, settings: Settings, run: str) -> list[str]:
    """Return why no slice may run this definition under this name; empty if they may."""
    person, found = definition.person, []
    if definition.name != run:
        found.append(f"name: the definition is that of {definition.name}")
    if definition.name in settings.declared:
        found.append(f"name: a run of the fleet file is called {definition.name}")
    if definition.user not in settings.users.get(person, ()):
        found.append(
            f"user: {person} may not submit as {definition.user}: see fleet_queue.submit_as"
        )
    allowed = settings.secrets.get(person, ())
    others = [name for name in definition.secrets if name not in allowed]
    if others:
        found.append(f"secrets: {person} may not use {', '.join(others)}: see fleet_queue.secrets")
    if definition.venv and definition.venv not in settings.venvs_elsewhere:
        found.append(f"venv: {definition.venv} is not in fleet_venvs")
    place = definition.checkpoint_dir or ""
    why = misplaced(place, definition.name) if place else ""
    return [*found, f"checkpoint_dir: {place}: {why}"] if why else found


def differs(run: Submitted, definition: Definition) -> str:
    """Return why a state is not that of the definition that it names; empty if it is."""
    return "" if is_of(run, definition) else "its state is not that of its definition"


def unfit(run: Submitted, settings: Settings) -> str:
    """Return why this slice, unlike others, cannot have a run; empty if it can."""
    if run.person not in settings.people:
        return f"{run.person} has no account on {settings.slice}"
    return ""
