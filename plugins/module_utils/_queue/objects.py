# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the queue as typed values. What is not exactly as it must be is refused. No I/O.

Below the queue's folder:

    definitions/SHA    what a person signed: the text of a definition, and the signature
    code/SHA.tar.gz    the code as it was when the run was submitted
    runs/NAME          the state of a run, also as the metadata "run", so that a list shows it; with
                       "progress", which its owner writes with each renewal of its claim
    ended/NAME         the state of a run that ended long ago, if runs/ has none of this name
    waiting/P/T/…      a hint that a run waits: its name sorts by priority and turn
    running/PERSON/…   a hint that a run of this person has a slice, and how many chips
    slices/NAME        what an idle slice does instead of taking a run, also as the metadata "doing"
    stop/NAME          the wish to stop a run that has a slice, also as the metadata "wish"
    bell               written whenever there is something to do

Each text is canonical JSON with exactly the fields of its type. All who may write to the bucket can
write anything there: one bad object is Refused, and costs only itself.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

from .._schema.values import ENTRY_NAME, NODE_NAME, VARIABLE_NAME, ZONE_SHAPE

VERSION = 1
WAITING, RUNNING = "waiting", "running"
DONE, FAILED, STOPPED = "done", "failed", "stopped"
ENDED = (DONE, FAILED, STOPPED)
STATES = (WAITING, RUNNING, *ENDED)

MOST_TEXT = 1 << 17
"""Bytes of an object that is read."""
MOST_STATE = 7800
"""Bytes of a state, which is in metadata as well; Cloud Storage takes 8 KiB of them."""
MOST_COMMAND = 1 << 15
"""Characters of a command, with one between words."""
MOST_TURN = 10**9 - 1
MOST_COUNT = 10**6
MOST_CHIPS = 10**5
MOST_NAMES = 32
"""Names of runs, types, slices or sets of secrets in one field."""
MOST_REASON = 300
"""Characters of a reason; where they are not ASCII, fewer are written."""
MOST_WRITTEN = 400
"""Bytes of a reason that is written, so that the state of each run fits into MOST_STATE."""
MOST_GRACE = 300
"""Seconds between the signal that stops a program and SIGKILL."""
MOST_ARMS = 1000
"""Runs of one sweep."""
MOST_PARAMETERS = 900
"""Characters of the canonical text of an arm's parameters."""
MOST_USES = 12
"""Uses of slices that a state has one by one; the oldest ones become one."""
MOST_SECOND, MOST_CHIP_SECONDS = 10**11, 10**12
MOST_STEP = 10**15
NO_NUMBERS = ("nan", "inf", "-inf")
"""What a loss is that is no finite number."""

DEFINITIONS, CODE, RUNS, STOP = "definitions/", "code/", "runs/", "stop/"
ENDS, WAITS, HOLDS, BELL = "ended/", "waiting/", "running/", "bell"
SLICES = "slices/"
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
PERSON = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SHA = re.compile(r"[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{32}")
_TYPE = re.compile(r"[a-z][a-z0-9]{0,19}-[0-9]{1,6}")
_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_DURATION = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIGNAL = re.compile(r"(SIG)?(TERM|INT|HUP|QUIT|USR1|USR2)")
_HOLD = re.compile(r"running/([^/]{1,32})/([^/]{1,40})/([0-9]{1,7})")
_HINT = re.compile(r"waiting/([0-9])/([0-9]{9})/([^/]{1,32})/([^/]{1,40})")
T = TypeVar("T")


class Refused(ValueError):
    """An object, or a value of one, is not as it must be; its text has all reasons."""

    def __init__(self, why: list[str]) -> None:
        super().__init__("; ".join(why))
        self.why = why
        """Each is a field, its value, and what it must be."""


# Text


def canonical(value: Any) -> str:
    """Return the one text of a value of JSON: ASCII, keys in order, no spaces.

    Raises Refused for what JSON has not, such as infinity.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused([f"this is no JSON: {error}"]) from None


def sha_of(text: str) -> str:
    """Return the SHA-256 of a text, by which a definition is named."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def one_line(text: Any, most: int = MOST_REASON) -> str:
    """Return a text on one line that can be a reason."""
    words = "".join(part if part.isprintable() else " " for part in str(text)[: 4 * most]).split()
    line = " ".join(words)[:most]
    while len(json.dumps(line)) > max(most, MOST_WRITTEN):
        line = line[:-1]
    return line


def _object(data: bytes, most: int) -> dict[str, Any]:
    """Return the object of JSON whose canonical text this is."""
    if len(data) > most:
        raise Refused([f"it has {len(data)} bytes: at most {most} are read"])
    try:
        text = data.decode("ascii")
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(["it is no JSON: tpu-fleet writes it"]) from None
    if not isinstance(found, dict):
        raise Refused(["it is no object of JSON: tpu-fleet writes it"])
    if canonical(found) != text:
        raise Refused(["it is not canonical JSON: tpu-fleet writes it"])
    return found


# Rules for values


class Rule(NamedTuple):
    """What a value must be."""

    holds: Callable[[Any], bool]
    must: str


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < 1e11


def _is_text(value: Any, most: int) -> bool:
    """Say whether this is text that a file or an argument can have."""
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _is_line(value: Any, most: int) -> bool:
    return _is_text(value, most) and (not value or value.isprintable())


def _matching(shape: re.Pattern[str], must: str) -> Rule:
    return Rule(lambda value: isinstance(value, str) and bool(shape.fullmatch(value)), must)


def _whole(least: int, most: int) -> Rule:
    return Rule(lambda value: _is_whole(value, least, most), f"a whole number {least}…{most}")


def _one_of(*values: str) -> Rule:
    return Rule(lambda value: isinstance(value, str) and value in values, " or ".join(values))


def _or_none(rule: Rule) -> Rule:
    return Rule(lambda value: value is None or rule.holds(value), f"{rule.must}, or null")


def _or_empty(rule: Rule) -> Rule:
    return Rule(lambda value: value == "" or rule.holds(value), f"{rule.must}, or ''")


def _list_of(rule: Rule, most: int = MOST_NAMES) -> Rule:
    def holds(value: Any) -> bool:
        if not isinstance(value, (list, tuple)) or len(value) > most:
            return False
        return all(map(rule.holds, value)) and len(set(map(repr, value))) == len(value)

    return Rule(holds, f"at most {most} different entries, each {rule.must}")


def _is_command(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value or not value[0]:
        return False
    if not all(_is_text(word, MOST_COMMAND) for word in value):
        return False
    return sum(len(word) + 1 for word in value) <= MOST_COMMAND


def _is_grace(value: Any) -> bool:
    if not _SPAN.holds(value):
        return False
    unit = value.lstrip("0123456789.")
    return float(value[: -len(unit)]) * _SECONDS[unit] <= MOST_GRACE


def _is_options(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(key in OPTIONS and OPTIONS[key].holds(found) for key, found in value.items())


def _is_parameters(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    fits = all(
        isinstance(key, str) and VARIABLE_NAME.fullmatch(key) and _is_text(found, MOST_COMMAND)
        for key, found in value.items()
    )
    return fits and len(canonical(dict(value))) <= MOST_PARAMETERS


def _is_loss(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value in NO_NUMBERS if isinstance(value, str) else is_number and abs(value) < 1e300


def _is_uses(value: Any) -> bool:
    is_list = isinstance(value, (list, tuple)) and len(value) <= MOST_USES
    return is_list and all(map(_is_use, value))


def _is_use(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return False
    is_time = all(_is_whole(one, 0, MOST_SECOND) for one in value[:2]) and value[0] <= value[1]
    return is_time and _is_whole(value[2], 0, MOST_CHIP_SECONDS)


_NAME = _matching(NAME, "a name: a small letter, then up to 39 small letters, digits and dashes")
_PERSON = _matching(PERSON, "the name of a person in fleet_users")
_SHA = _matching(SHA, "a SHA-256 of 64 hexadecimal digits")
_ENTRY_NAME = _matching(ENTRY_NAME, "a name as in the fleet file")
_VENV = _or_empty(_ENTRY_NAME)
_TIME = Rule(_is_time, "seconds since 1970")
_LINE = Rule(lambda value: _is_line(value, MOST_REASON), f"a line of at most {MOST_REASON} letters")
_SHORT = Rule(lambda value: _is_line(value, 100), "a line of at most 100 letters")
_TEXT = Rule(lambda value: _is_line(value, 1000), "a line of at most 1000 letters")
_SPAN = _matching(_DURATION, "a duration such as 30s, 10m or 1h")
_FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
_COUNT, _ROUND = _whole(0, MOST_COUNT), _whole(1, MOST_COUNT)
_PRIORITY = _whole(0, 9)
_KIND = _matching(_TYPE, "an accelerator type such as v4-8")
_TYPES = _list_of(_KIND)
_SLICE = _matching(NODE_NAME, "the name of a slice")
_SLICES = _list_of(_SLICE)
_ZONE = Rule(
    lambda value: _is_line(value, 40) and bool(ZONE_SHAPE.fullmatch(value)),
    "a zone such as us-central2-b",
)
_RUNS = _list_of(_NAME)
_SWEEP = Rule(_or_empty(_NAME).holds, "the name of a sweep, or ''")
_AT_ONCE = _or_none(_whole(1, MOST_ARMS))
_PARAMETERS = Rule(
    _is_parameters,
    f"values of a sweep by name, {MOST_PARAMETERS} letters in all: put longer ones into a file",
)
_STEP = _or_none(_whole(0, MOST_STEP))
_LOSS = _or_none(Rule(_is_loss, f"a number, or {', '.join(NO_NUMBERS)}"))
_USES = Rule(_is_uses, f"at most {MOST_USES} uses: first second, last second, chip seconds")
_COMMAND = Rule(_is_command, f"words of at most {MOST_COMMAND} letters in all, without NUL")
_OWNER = Rule(lambda value: value is None or isinstance(value, Owner), "an owner, or null")
_SIGNED = Rule(lambda value: _is_text(value, MOST_TEXT), "the text of a definition")
_SIGNATURE = Rule(lambda value: _is_text(value, 1 << 14), "what ssh-keygen -Y sign writes")
_VERSION = Rule(lambda value: _is_whole(value, VERSION, VERSION), f"{VERSION}, or update tpu.fleet")

OPTIONS: dict[str, Rule] = {
    "checkpoint_command": _TEXT,
    "checkpoint_lead": _SPAN,
    "checkpoint_signal": _matching(_SIGNAL, "a signal such as SIGUSR1"),
    "compile_cache_size": _or_none(_TEXT),
    "fail_fast_window": _SPAN,
    "fence": _one_of("folder", "attempt"),
    "grace": Rule(_is_grace, f"a duration of at most {MOST_GRACE}s"),
    "hang_after": _SPAN,
    "min_free": _or_none(_TEXT),
    "needs_tpu": _FLAG,
    "no_retry_exit_codes": _list_of(_whole(0, 255)),
    "results": _list_of(_TEXT, 256),
    "step_pattern": _TEXT,
    "stop_signal": _matching(_SIGNAL, "a signal such as SIGTERM"),
}
"""The keys of a run, as in training_run_runs, that a submitted one may have in its `options`."""
_OPTIONS = Rule(_is_options, f"keys of a run: {', '.join(sorted(OPTIONS))}")


# Values: each field has its rule beside its type


@dataclass(frozen=True)
class Definition:
    """What a person submits, and signs."""

    name: Annotated[str, _NAME]
    person: Annotated[str, _PERSON]
    user: Annotated[str, _matching(PERSON, "the name of a Unix user")]
    """The Unix user that the program runs as."""
    command: Annotated[tuple[str, ...], _COMMAND]
    """Words, not a line for a shell."""
    venv: Annotated[str, _VENV]
    """The name of an environment of the fleet file; empty: none."""
    submitted_at: Annotated[float, _TIME]
    """Seconds since 1970, by the clock of the person's computer."""
    code: Annotated[str | None, _or_none(_SHA)] = None
    """SHA-256 of the archive in code/."""
    secrets: Annotated[tuple[str, ...], _list_of(_ENTRY_NAME)] = ()
    """Names of sets."""
    checkpoint_dir: Annotated[str | None, _or_none(_TEXT)] = None
    """As in training_run_runs; empty: the folder that it would have by default; None: none."""
    retries: Annotated[int, _whole(0, 1000)] = 3
    priority: Annotated[int, _PRIORITY] = 0
    """9 goes first."""
    types: Annotated[tuple[str, ...], _TYPES] = ()
    """Accelerator types that it may run on; none: any."""
    slices: Annotated[tuple[str, ...], _SLICES] = ()
    """Slices that it may run on; none: any."""
    after: Annotated[tuple[str, ...], _RUNS] = ()
    """Runs that must be done before."""
    max_hours: Annotated[int | None, _or_none(_whole(1, 10000))] = None
    """Hours after which an attempt is ended, and the run has failed."""
    options: Annotated[Mapping[str, Any], _OPTIONS] = field(default_factory=dict)
    """OPTIONS that it has."""
    sweep: Annotated[str, _SWEEP] = ""
    """The sweep of which it is an arm; empty: of none."""
    at_once: Annotated[int | None, _AT_ONCE] = None
    """Arms of its sweep that may run at the same time; None: all."""
    parameters: Annotated[Mapping[str, str], _PARAMETERS] = field(default_factory=dict)
    """The values of the sweep that this arm has."""
    version: Annotated[int, _VERSION] = VERSION


@dataclass(frozen=True)
class Owner:
    """The slice that has a run, as long as it is this machine's life."""

    slice: Annotated[str, _SLICE]
    zone: Annotated[str, _ZONE]
    type: Annotated[str, _KIND]
    """Its accelerator type."""
    chips: Annotated[int, _whole(0, MOST_CHIPS)]
    node: Annotated[str, _matching(_IDENTITY, "an id of a node")]
    """An id that another node under the same name has not."""
    boot: Annotated[str, _matching(_IDENTITY, "an id of a boot")]
    """The boot id of its leader."""

    def is_same_machine(self, other: Owner) -> bool:
        """Say whether both are the same node, however often it has booted."""
        return (self.slice, self.zone, self.node) == (other.slice, other.zone, other.node)


@dataclass(frozen=True)
class Submitted:
    """The state of a submitted run."""

    name: Annotated[str, _NAME]
    definition: Annotated[str, _SHA]
    """The SHA-256 of the definition's text."""
    person: Annotated[str, _PERSON]
    turn: Annotated[int, _whole(0, MOST_TURN)]
    """See limits.turn_of: the smaller goes first within a priority."""
    submitted_at: Annotated[float, _TIME]
    """Seconds since 1970, as are all times here. They are for people, and order equals."""
    changed_at: Annotated[float, _TIME]
    priority: Annotated[int, _PRIORITY] = 0
    venv: Annotated[str, _VENV] = ""
    types: Annotated[tuple[str, ...], _TYPES] = ()
    slices: Annotated[tuple[str, ...], _SLICES] = ()
    after: Annotated[tuple[str, ...], _RUNS] = ()
    state: Annotated[str, _one_of(*STATES)] = WAITING
    round: Annotated[int, _ROUND] = 1
    """How often it was submitted, or retried, by a person."""
    claims: Annotated[int, _COUNT] = 0
    """How often a slice took it."""
    attempt: Annotated[int, _whole(0, 10**9)] = 0
    """The number of its last attempt, as its last owner said; the next one is higher."""
    failures: Annotated[int, _COUNT] = 0
    """Failures of its program in this round; never those of machines."""
    owner: Annotated[Owner | None, _OWNER] = None
    nonce: Annotated[str, _matching(_NONCE, "32 hexadecimal digits")] = ""
    """Drawn for each write: who has lost an answer reads whether it was carried out."""
    reason: Annotated[str, _LINE] = ""
    """Why it is in this state, for people."""
    exit_code: Annotated[int | None, _or_none(_whole(-255, 255))] = None
    started_at: Annotated[float | None, _or_none(_TIME)] = None
    """When its present or last owner took it."""
    ended_at: Annotated[float | None, _or_none(_TIME)] = None
    last: Annotated[str, _or_empty(_SLICE)] = ""
    """The slice that had it last."""
    sweep: Annotated[str, _SWEEP] = ""
    at_once: Annotated[int | None, _AT_ONCE] = None
    parameters: Annotated[Mapping[str, str], _PARAMETERS] = field(default_factory=dict)
    step: Annotated[int | None, _STEP] = None
    """How far its program is; while it runs, as its owner said with its last renewal."""
    loss: Annotated[float | str | None, _LOSS] = None
    """A number, or one of NO_NUMBERS."""
    used: Annotated[tuple[tuple[int, int, int], ...], _USES] = ()
    """When slices had it before: first and last second, and chip seconds. See hours.py."""
    version: Annotated[int, _VERSION] = VERSION

    @property
    def is_open(self) -> bool:
        """Return whether it waits or runs."""
        return self.state not in ENDED

    @property
    def swept(self) -> tuple[str, float]:
        """Return what all arms of a person that were submitted together, and only they, share."""
        return self.sweep, self.submitted_at


@dataclass(frozen=True)
class Signed:
    """A definition's text with the person's signature."""

    signed: Annotated[str, _SIGNED]
    """Canonical text of a Definition."""
    signature: Annotated[str, _SIGNATURE]
    """What ssh-keygen -Y sign wrote."""


@dataclass(frozen=True)
class Wish:
    """The wish that a run which has a slice is stopped."""

    name: Annotated[str, _NAME]
    person: Annotated[str, _PERSON]
    round: Annotated[int, _ROUND]
    """Of the run: a wish from before a retry is not carried out after it."""
    at: Annotated[float, _TIME]
    rule: Annotated[str, _SHORT] = ""
    """What fleet_queue.on_result said of an arm that it stops; empty: a person wishes it."""
    version: Annotated[int, _VERSION] = VERSION

    @property
    def why(self) -> str:
        """Return the reason of a run that is stopped so."""
        return f"stopped by on_result: {self.rule}" if self.rule else f"stopped by {self.person}"


@dataclass(frozen=True)
class Progress:
    """How far a run is, as its owner says with each renewal of its claim."""

    step: Annotated[int | None, _STEP] = None
    loss: Annotated[float | str | None, _LOSS] = None


@dataclass(frozen=True)
class Doing:
    """What a slice without a submitted run does, or why it takes none; for people and slices."""

    slice: Annotated[str, _SLICE]
    why: Annotated[str, _LINE]
    """In words; empty: nothing, it waits for a run."""
    since: Annotated[float, _TIME]
    """From when it is so."""
    at: Annotated[float, _TIME]
    """When this was written; it is written again at least every DOING seconds while it is so."""
    run: Annotated[str, _or_empty(_NAME)] = ""
    """The run that it is about; empty: none in particular."""
    venv: Annotated[str, _VENV] = ""
    """The environment that the slice builds for the run at this time; empty: none."""
    version: Annotated[int, _VERSION] = VERSION


DOING = 60.0
"""Seconds after which a slice says again what it does."""


@functools.cache
def _rules_of(kind: type) -> dict[str, Rule]:
    """Return the rule of each field of a type."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def _complaints(kind: type, found: Mapping[str, Any], where: str = "") -> list[str]:
    """Return all that is wrong with the fields of an object of a type."""
    rules = _rules_of(kind)
    bad = [
        f"{where}{key}: {one_line(repr(found[key]), 60)} must be {rule.must}"
        for key, rule in rules.items()
        if key in found and not rule.holds(found[key])
    ]
    bad += [f"{where}{key}: it is missing" for key in rules if key not in found]
    bad += [
        f"{where}{one_line(key, 60)}: there is no such field" for key in found if key not in rules
    ]
    return bad[:20]


def _made(kind: type[T], found: Mapping[str, Any], where: str = "") -> T:
    """Return the value of a type that these fields make; lists become tuples. Raises Refused."""
    bad = _complaints(kind, found, where)
    if bad:
        raise Refused(bad)
    return kind(**{key: _fixed(it) for key, it in found.items()})


def _fixed(value: Any) -> Any:
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def _plain(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


# Reading: each raises Refused


def definition_of(text: str) -> Definition:
    """Return the definition whose canonical text this is."""
    found = _object(text.encode("utf-8", "replace"), MOST_TEXT)
    made = _made(Definition, found)
    bad = _about_sweep(made)
    if bad:
        raise Refused(bad)
    return made


def signed_of(data: bytes) -> Signed:
    """Return what an object below definitions/ has. Its signature is not verified here."""
    return _made(Signed, _object(data, 2 * MOST_TEXT))


def run_of(data: bytes) -> Submitted:
    """Return the state of a run, from an object below runs/ or from its metadata."""
    found = _object(data, MOST_STATE)
    owner = found.get("owner")
    if isinstance(owner, dict):
        found["owner"] = _made(Owner, owner, "owner.")
    return _sound(_made(Submitted, found))


def wish_of(data: bytes) -> Wish:
    """Return the wish that an object below stop/ has."""
    return _made(Wish, _object(data, MOST_STATE))


def doing_of(data: bytes) -> Doing:
    """Return what an object below slices/ has."""
    return _made(Doing, _object(data, MOST_STATE))


def progress_of(data: bytes) -> Progress:
    """Return what the owner of a run said of it, from its metadata."""
    return _made(Progress, _object(data, 200))


def _about_sweep(one: Definition | Submitted) -> list[str]:
    """Return what of a sweep does not fit together."""
    if one.sweep:
        is_arm = one.name.startswith(f"{one.sweep}-")
        return [] if is_arm else [f"sweep: {one.name} is no name of a run of {one.sweep}"]
    if one.at_once is not None or one.parameters:
        return ["sweep: it is missing, and at_once or parameters are not"]
    return []


def _sound(run: Submitted) -> Submitted:
    """Return a run whose fields fit together."""
    bad = _about_sweep(run)
    if (run.state == RUNNING) != (run.owner is not None):
        bad.append(f"owner: a run that is {run.state} has {'an' if run.owner else 'no'} owner")
    if (run.state in ENDED) != (run.ended_at is not None):
        bad.append(f"ended_at: {run.ended_at} does not fit a run that is {run.state}")
    if run.name in run.after:
        bad.append("after: a run cannot wait for itself")
    if bad:
        raise Refused(bad)
    return run


# Writing: each raises Refused for a value that no reader would take


def definition_text(definition: Definition) -> str:
    """Return the canonical text that a person signs."""
    text = canonical(asdict(definition))
    definition_of(text)
    return text


def signed_bytes(signed: Signed) -> bytes:
    """Return the object below definitions/."""
    definition_of(signed.signed)
    return canonical(asdict(signed)).encode("ascii")


def run_text(run: Submitted) -> str:
    """Return the text of the object below runs/, which is its metadata as well."""
    found = _plain(run)
    found["owner"] = None if run.owner is None else _plain(run.owner)
    text = canonical(found)
    bad = _complaints(Submitted, _plain(run))
    if run.owner is not None:
        bad += _complaints(Owner, found["owner"], "owner.")
    if len(text) > MOST_STATE:
        fields_of = "after, types, slices, parameters"
        bad.append(f"{fields_of}: they have too many letters, {len(text)} > {MOST_STATE}")
    if bad:
        raise Refused(bad)
    _sound(run)
    return text


def progress_text(progress: Progress) -> str:
    """Return the metadata that says how far a run is."""
    text = canonical(asdict(progress))
    progress_of(text.encode("ascii"))
    return text


def wish_bytes(wish: Wish) -> bytes:
    """Return the object below stop/."""
    data = canonical(asdict(wish)).encode("ascii")
    wish_of(data)
    return data


def doing_bytes(doing: Doing) -> bytes:
    """Return the object below slices/."""
    data = canonical(asdict(doing)).encode("ascii")
    doing_of(data)
    return data


# Names


class Hint(NamedTuple):
    """What the name of an object below waiting/ says."""

    priority: int
    turn: int
    person: str
    run: str


def hint_name(run: Submitted) -> str:
    """Return the name of the hint that a run waits; names sort in the order of the queue."""
    return f"{WAITS}{9 - run.priority}/{run.turn:09}/{run.person}/{run.name}"


def hint_of(name: str) -> Hint:
    """Return what the name of a hint says. Raises Refused."""
    found = _HINT.fullmatch(name)
    if not found or not PERSON.fullmatch(found[3]) or not NAME.fullmatch(found[4]):
        raise Refused([f"{one_line(name, 100)}: this is no hint of a run that waits"])
    return Hint(9 - int(found[1]), int(found[2]), found[3], found[4])


class Hold(NamedTuple):
    """What an object below running/ says."""

    person: str
    run: str
    claims: int
    chips: int


def hold_name(run: Submitted) -> str:
    """Return the name of the hint that a run of a person has a slice: one for each claim."""
    return f"{HOLDS}{run.person}/{run.name}/{run.claims}"


def hold_of(name: str, metadata: Mapping[str, str]) -> Hold:
    """Return what such a hint says. Raises Refused."""
    found, chips = _HOLD.fullmatch(name), metadata.get("chips", "")
    is_good = isinstance(chips, str) and bool(re.fullmatch("[0-9]{1,5}", chips))
    if not found or not PERSON.fullmatch(found[1]) or not NAME.fullmatch(found[2]) or not is_good:
        raise Refused([f"{one_line(name, 100)}: this is no hint of a run that has a slice"])
    return Hold(found[1], found[2], int(found[3]), int(chips))


def of_definition(definition: Definition, turn: int, nonce: str, now: float) -> Submitted:
    """Return the first state of a run that is submitted."""
    return Submitted(
        name=definition.name,
        definition=sha_of(definition_text(definition)),
        person=definition.person,
        turn=turn,
        submitted_at=definition.submitted_at,
        changed_at=now,
        priority=definition.priority,
        venv=definition.venv,
        types=definition.types,
        slices=definition.slices,
        after=definition.after,
        sweep=definition.sweep,
        at_once=definition.at_once,
        parameters=definition.parameters,
        nonce=nonce,
    )


def is_of(run: Submitted, definition: Definition) -> bool:
    """Say whether a state is that of a definition: an owner starts nothing else."""
    made = of_definition(definition, run.turn, run.nonce, run.changed_at)
    kept = replace(run, **{one: getattr(made, one) for one in _FROM_DEFINITION})
    return kept == run


_FROM_DEFINITION = (
    *("name", "definition", "person", "submitted_at", "priority"),
    *("venv", "types", "slices", "after", "sweep", "at_once", "parameters"),
)
