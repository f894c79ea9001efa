# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a worker answers, and make text fit to be shown. No I/O.

A worker may be in other hands: it chooses every byte of its answers. The functions here make typed
and bounded values of them, or raise AnswerError, which names the worker, the field and the value.
Nothing else on the controller takes a worker's answer apart.
"""

from __future__ import annotations

import ipaddress
import json
import re
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Pattern, Tuple, Union

TEXT = 500
"""Characters of a text that is shown."""
LINES = 60
ANSWER = 1 << 22
"""Bytes of an answer."""
MANY = 10_000
"""Entries of a list."""
DEEPEST = 50
"""Levels of an answer: who copies one calls itself for each."""
LARGEST = 1 << 53
LAST_TIME = 2.2e11
"""A time in the year 8941: later ones cannot be written as dates."""

# How a run may be called. The rule of role training_run is the same.
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}|")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
WORD = re.compile(r"[a-z][a-z0-9 _-]{0,63}")
SERVICE = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
KEY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
PUBLIC_KEY = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,8192}={0,2}( [^\x00-\x1f\x7f]*)?")
ADDRESS = re.compile(r"[0-9A-Fa-f.:]{2,45}|")
URL_PATH = re.compile(r"/[A-Za-z0-9._~/%-]{0,255}")
FILE = re.compile(r"(/[A-Za-z0-9._@+-]{1,255}){1,16}|")
HASH = re.compile(r"[0-9A-Za-z-]{0,128}")

# ESC and its parameters, as for colours and for the cursor.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,32}m")
# Control characters, invisible ones (also those that turn the direction of writing), halves of
# characters, and separators of lines.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_GAP = "\ufffd"
_REQUIRED: Any = object()


class AnswerError(ValueError):
    """A worker's answer cannot be taken: which worker, which field, which value."""

    def __init__(self, worker: str, name: str, value: Any, wanted: str) -> None:
        said = value if isinstance(value, str) else _as_text(value)
        where = f"{shown(name, 120)} " if name else ""
        self.worker = worker
        self.says = f"its answer is not accepted: {where}is {shown(said, 120)!r}, not {wanted}"
        self.remedy = "Look at the worker; if it is in nobody else's hands, configure it again."
        super().__init__(f"{shown(worker, 120)}: {self.says}. {self.remedy}")


def shown(text: Any, most: int = TEXT) -> str:
    """Return one line of plain text: no control characters, no longer than this."""
    return _line(text, most).strip()


def _line(text: Any, most: int) -> str:
    whole = text if isinstance(text, str) else str(text)
    line = _SEQUENCE.sub("", whole[: 4 * most])
    line = "".join(" " if char in "\t\n\r" else _visible(char) for char in line)
    return f"{line[: most - 1]}…" if len(whole) > 4 * most or len(line) > most else line


def shown_lines(text: Any, most: int = LINES, width: int = TEXT) -> List[str]:
    """Return the last lines of a text, each as `shown` does it; empty ones are left out.

    What a carriage return overwrites is not shown, as on a terminal.
    """
    whole = text if isinstance(text, str) else str(text)
    return [line for line in shown_text(whole.rstrip("\n"), most, width).split("\n") if line]


def shown_text(text: Any, most: int = LINES, width: int = TEXT) -> str:
    """Return the last lines of a text, with indents and empty lines."""
    whole = text if isinstance(text, str) else str(text)
    lines = whole[-most * width * 4 :].split("\n")[-most:]
    return "\n".join(_line(line.rstrip("\r").rpartition("\r")[2], width).rstrip() for line in lines)


def on_terminal(text: str) -> str:
    """Return text of many lines for a terminal: it keeps its lines, tabs and colours."""
    parts = []
    at = 0
    for colour in _COLOUR.finditer(text):
        parts += [_no_controls(text[at : colour.start()]), colour.group()]
        at = colour.end()
    return "".join([*parts, _no_controls(text[at:])])


def unfinished(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a colour."""
    begins = text.rfind("\x1b", max(0, len(text) - 34))
    rest = text[begins:] if begins >= 0 else ""
    return len(rest) if re.fullmatch(r"\x1b(\[[0-9;:]*)?", rest) else 0


def _no_controls(text: str) -> str:
    return "".join(char if char in "\t\n\r" else _visible(char) for char in text)


def _visible(char: str) -> str:
    if " " <= char <= "~":
        return char
    return _GAP if unicodedata.category(char) in _HIDDEN else char


def _as_text(value: Any) -> str:
    """Write a value of JSON for an error; long ones are not written whole."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return "nothing" if value is None else str(value)[:TEXT]


def parsed(worker: str, answer: Union[str, bytes, None], most: int = ANSWER) -> Any:
    """Return the JSON of an answer."""
    if not isinstance(answer, (str, bytes)):
        raise AnswerError(worker, "", answer, "text")
    if len(answer) > most:
        raise AnswerError(worker, "", f"{len(answer)} bytes", f"at most {most} bytes")
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerError(worker, "", text, "JSON") from None
    if _is_deeper(answer, DEEPEST):
        raise AnswerError(worker, "", text, f"JSON of at most {DEEPEST} levels")
    return answer


def _is_deeper(value: Any, levels: int) -> bool:
    """Say whether objects and lists are nested deeper than this."""
    level = [value]
    for _level in range(levels + 1):
        level = [one for one in level if isinstance(one, (dict, list))]
        if not level:
            return False
        level = [
            one for each in level for one in (each.values() if isinstance(each, dict) else each)
        ]
    return True


class Words:
    """An object of an answer, of which one value after the other is taken."""

    def __init__(self, worker: str, value: Any, name: str = "") -> None:
        self.worker = worker
        self.name = name
        if not isinstance(value, Mapping):
            raise AnswerError(worker, name, value, "an object")
        self.value = value

    def refuse(self, key: str, value: Any, wanted: str) -> NoReturn:
        """Raise the error for one of its values."""
        raise AnswerError(self.worker, f"{self.name}.{key}" if self.name else key, value, wanted)

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a value as it is."""
        value = self.value.get(key)
        if value is None:
            if default is _REQUIRED:
                self.refuse(key, None, "there")
            return default
        return value

    def word(self, key: str, pattern: Pattern[str], default: Any = _REQUIRED) -> str:
        """Return a name that matches a pattern."""
        value = self.raw(key, default)
        if value is default:
            return str(value)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.refuse(key, value, f"like {pattern.pattern}")
        return value

    def text(self, key: str, default: Any = "", most: int = TEXT) -> str:
        """Return a text, fit to be shown."""
        value = self.raw(key, default)
        if not isinstance(value, str):
            self.refuse(key, value, "text")
        return shown(value, most)

    def texts(self, key: str, most: int = LINES) -> Tuple[str, ...]:
        """Return a list of texts, fit to be shown."""
        return tuple(self._text(key, value) for value in self.items(key, most))

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            self.refuse(key, value, "text")
        return shown(value)

    def items(self, key: str, most: int = MANY, needed: bool = False) -> List[Any]:
        """Return a list; without one an empty one, if it is not needed."""
        value = self.raw(key) if needed else self.raw(key, [])
        if not isinstance(value, (list, tuple)):
            self.refuse(key, value, "a list")
        if len(value) > most:
            self.refuse(key, value, f"a list of at most {most}")
        return list(value)

    def words(self, key: str, pattern: Pattern[str], most: int = MANY) -> Tuple[str, ...]:
        """Return a list of names that match a pattern."""
        values = self.items(key, most)
        for value in values:
            if not isinstance(value, str) or not pattern.fullmatch(value):
                self.refuse(key, value, f"like {pattern.pattern}")
        return tuple(values)

    def number(
        self, key: str, least: int = 0, most: int = LARGEST, default: Any = _REQUIRED
    ) -> Any:
        """Return a whole number within bounds."""
        value = self.raw(key, default)
        if value is default:
            return value
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            self.refuse(key, value, f"a whole number from {least} to {most}")
        return value

    def real(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a number of seconds, or a time."""
        value = self.raw(key, default)
        if value is default:
            return value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not -LAST_TIME < value < LAST_TIME:
            self.refuse(key, value, "a time or a number of seconds")
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """Return true or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.refuse(key, value, "true or false")
        return value

    def objects(self, key: str, most: int = MANY, needed: bool = True) -> List[Words]:
        """Return a list of objects."""
        name = f"{self.name}.{key}" if self.name else key
        return [
            Words(self.worker, value, f"{name}[{number}]")
            for number, value in enumerate(self.items(key, most, needed))
        ]

    def object(self, key: str, default: Any = _REQUIRED) -> Words:
        """Return an object."""
        name = f"{self.name}.{key}" if self.name else key
        return Words(self.worker, self.raw(key, default), name)

    def keys_of(self, pattern: Pattern[str], most: int = MANY) -> List[str]:
        """Return the keys, which are names."""
        if len(self.value) > most:
            raise AnswerError(self.worker, self.name, self.value, f"an object of at most {most}")
        for key in self.value:
            if not isinstance(key, str) or not pattern.fullmatch(key):
                raise AnswerError(self.worker, self.name, key, f"like {pattern.pattern}")
        return list(self.value)

    def named(self, pattern: Pattern[str], most: int = MANY) -> Dict[str, Words]:
        """Return the objects of an object whose keys are names."""
        return {key: self.object(key) for key in self.keys_of(pattern, most)}

    def texts_by_name(self, pattern: Pattern[str]) -> Dict[str, str]:
        """Return the texts of an object whose keys are names."""
        return {key: self.text(key) for key in self.keys_of(pattern)}

    def numbers_by_name(self, pattern: Pattern[str]) -> Dict[str, int]:
        """Return the whole numbers of an object whose keys are names."""
        return {key: self.number(key) for key in self.keys_of(pattern)}


# Runs


@dataclass(frozen=True)
class Ending:
    """What the log of a run says of its end. Its user writes this log."""

    reason: str = ""
    tail: Tuple[str, ...] = ()


@dataclass(frozen=True)
class RunStatus:
    """A run on a worker, as its agent describes it."""

    run: str
    user: str = ""
    state: str = ""
    attempt: int = 0
    run_id: str = ""
    boot_id: str = ""
    worker: int = 0
    workers: int = 0
    pid: Optional[int] = None
    step: Optional[int] = None
    step_at: Optional[float] = None
    start: Optional[float] = None
    end: Optional[float] = None
    since: Optional[float] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    reason: str = ""
    problems: Tuple[str, ...] = ()
    behind: str = ""
    behind_user: str = ""
    log_path: str = ""
    ending: Ending = field(default_factory=Ending)

    def to_dict(self) -> Dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "problems": list(self.problems)}


def run_status(words: Words) -> RunStatus:
    """Read a status; agents of other versions write more or less."""
    queue = words.object("queue", {})
    return RunStatus(
        run=words.word("run", RUN),
        user=words.word("user", USER, "") if words.value.get("user") else "",
        state=words.word("state", WORD, "") if words.value.get("state") else "",
        attempt=words.number("attempt", default=0),
        run_id=words.word("run_id", IDENTITY, ""),
        boot_id=words.word("boot_id", HASH, ""),
        worker=words.number("worker", default=0),
        workers=words.number("workers", default=0),
        pid=words.number("pid", default=None),
        step=words.number("step", -LARGEST, default=None),
        step_at=words.real("step_at", None),
        start=words.real("start", None),
        end=words.real("end", None),
        since=words.real("since", None),
        exit_code=words.number("exit_code", -LARGEST, default=None),
        signal=words.number("signal", default=None),
        reason=words.text("reason"),
        problems=words.texts("problems"),
        behind=queue.text("behind"),
        behind_user=queue.text("user"),
        log_path=words.text("log_path", most=4096),
        ending=_ending(words),
    )


def _ending(words: Words) -> Ending:
    """Read the end of a log; what the run's user wrote there wrongly is left out."""
    event = words.value.get("event")
    event = event if isinstance(event, Mapping) else {}
    reason, tail = event.get("reason"), event.get("tail") or words.value.get("tail") or []
    if isinstance(tail, str):
        tail = tail[-LINES * TEXT :].split("\n")
    lines = [line for line in tail[-LINES:] if isinstance(line, str)] if _is_list(tail) else []
    return Ending(
        shown(reason) if isinstance(reason, str) else "",
        tuple(line for text in lines for line in shown_lines(text, LINES))[-LINES:],
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def runs_of(worker: str, answer: Union[str, bytes]) -> List[RunStatus]:
    """Read the status files of a worker, as playbook status reads them."""
    whole = Words(worker, {"runs": parsed(worker, answer)})
    return _distinct(whole, [run_status(one) for one in whole.objects("runs", 1000)])


def _distinct(words: Words, runs: List[RunStatus]) -> List[RunStatus]:
    names = set()
    for run in runs:
        if run.run in names:
            words.refuse("runs", run.run, "there once")
        names.add(run.run)
    return runs


@dataclass(frozen=True)
class Listing:
    """All runs of a worker, and by which clock and since which boot they are told."""

    now: float
    boot_id: str
    runs: Tuple[RunStatus, ...]


def listing(worker: str, answer: Union[str, bytes]) -> Listing:
    """Read what `on_worker/run_reader.py` lists."""
    words = Words(worker, parsed(worker, answer))
    runs = [run_status(one) for one in words.objects("runs", 1000)]
    return Listing(words.real("now"), words.word("boot_id", HASH), tuple(_distinct(words, runs)))


@dataclass(frozen=True)
class Standing:
    """How a worker and its runs stand."""

    boot_id: str
    set_up: bool
    applied: str
    used: Tuple[str, ...]
    runs: Tuple[RunStatus, ...]


def standing(worker: str, answer: Union[str, bytes]) -> Standing:
    """Read what `on_worker/how_it_stands.py` prints."""
    words = Words(worker, parsed(worker, answer))
    runs = [run_status(one) for one in words.objects("runs", 1000)]
    return Standing(
        boot_id=words.word("boot_id", HASH),
        set_up=words.flag("set_up"),
        applied=words.word("applied", HASH),
        used=words.texts("used", 1000),
        runs=tuple(_distinct(words, runs)),
    )


# Logs


@dataclass(frozen=True)
class Piece:
    """A piece of what the reader of logs sends; what it does not say is None."""

    bytes: int = 0
    at: Optional[Tuple[str, int, int]] = None
    run: Optional[RunStatus] = None
    none: Optional[Tuple[str, ...]] = None
    end: Optional[str] = None
    error: Optional[str] = None
    remedy: str = ""
    lost: str = ""


def piece(worker: str, line: bytes, most: int) -> Piece:
    """Read the line before a piece of a log, which has so many bytes at most."""
    words = Words(worker, parsed(worker, line))
    at = words.value.get("at")
    run = words.value.get("run")
    return Piece(
        bytes=words.number("bytes", 0, most, 0),
        at=None if at is None else _place(words, at),
        run=None if run is None else _announced(words.object("run")),
        none=None if words.value.get("none") is None else words.words("none", RUN, 1000),
        end=None if words.value.get("end") is None else words.word("end", _MAYBE_WORD),
        error=None if words.value.get("error") is None else words.text("error"),
        remedy=words.text("remedy"),
        lost=words.text("lost"),
    )


_MAYBE_WORD = re.compile(WORD.pattern + "|")
_IDENTITY = re.compile(r"[0-9.-]{0,64}")


def _place(words: Words, at: Any) -> Tuple[str, int, int]:
    if not _is_list(at) or len(at) != 3:
        words.refuse("at", at, "a file, an offset and a sum")
    told = Words(words.worker, {"file": at[0], "offset": at[1], "sum": at[2]}, "at")
    return told.word("file", _IDENTITY), told.number("offset"), told.number("sum")


def _announced(words: Words) -> RunStatus:
    """Read the status of a run whose log is asked for: it may have none yet."""
    return run_status(words) if words.value.get("run") else RunStatus("")


# Services


@dataclass(frozen=True)
class Service:
    """A notebook, a board or another service of a worker."""

    name: str
    user: str
    address: str
    port: int
    kind: str
    description: str
    url_path: str
    enabled: bool
    token_file: str


def services_of(worker: str, answer: Union[str, bytes]) -> List[Service]:
    """Read the services that a worker says it has; only those count that have a port."""
    return services_in(Words(worker, {"services": parsed(worker, answer)}))


def services_in(words: Words) -> List[Service]:
    """Read a list of services."""
    return [_service(one) for one in words.objects("services", 1000) if one.value.get("port")]


def _service(words: Words) -> Service:
    return Service(
        name=words.word("name", SERVICE),
        user=words.word("user", USER),
        address=words.word("address", ADDRESS, ""),
        port=words.number("port", 1, 65535),
        kind=words.word("kind", WORD, "") if words.value.get("kind") else "",
        description=words.text("description"),
        url_path=words.word("url_path", URL_PATH, "/"),
        enabled=words.flag("enabled", True),
        token_file=words.word("token_file", FILE, ""),
    )


# What a run left


@dataclass(frozen=True)
class Left:
    """Something that a run left: into which folder it is brought, from which, and its name."""

    to: str
    base: str
    name: str


@dataclass(frozen=True)
class LeftByRun:
    """What a run left on a worker, as `playbooks/files/what_a_run_left.py` prints it."""

    runs: Tuple[str, ...]
    rsync: bool
    left: Tuple[Left, ...]
    missing: Tuple[str, ...]


FOLDERS = ("", "results/")


def left_by_run(worker: str, answer: Union[str, bytes]) -> LeftByRun:
    """Read what a run left; all of it is to be brought into one folder."""
    words = Words(worker, parsed(worker, answer, 1 << 26))
    rsync = words.flag("rsync")
    found = []
    for number, entry in enumerate(words.items("left", 1_000_000)):
        name = f"left[{number}]"
        if not _is_list(entry) or len(entry) != 3 or not all(isinstance(e, str) for e in entry):
            raise AnswerError(worker, name, entry, "three texts")
        to, base, path = entry
        if to not in FOLDERS:
            raise AnswerError(worker, name, to, "one of the folders '' and 'results/'")
        if not _is_plain(base) or not base.startswith("/") or ".." in base.split("/"):
            raise AnswerError(worker, name, base, "an absolute path")
        # rsync brings a folder as a whole.
        if not inside(path) and not (rsync and path == "."):
            raise AnswerError(worker, name, path, "a path inside of a folder")
        found.append(Left(to, base, path))
    return LeftByRun(words.words("runs", RUN), rsync, tuple(found), words.texts("missing"))


def inside(path: str) -> bool:
    """Say whether a path leads to something below the folder that it begins in."""
    # Halves of characters, which are not plain, cannot be encoded.
    if not _is_plain(path) or path.startswith("-"):
        return False
    parts = path.split("/")
    return all(part not in ("", ".", "..") and len(part.encode()) < 256 for part in parts)


def _is_plain(path: str) -> bool:
    hidden = any(unicodedata.category(char) in _HIDDEN for char in path if char > "~" or char < " ")
    return not hidden and 0 < len(path) < 4096


# Keys for git


def git_users(worker: str, answer: Union[str, bytes]) -> Dict[str, Any]:
    """Read the public keys that a worker's users have, as git_access.json has them."""
    users = Words(worker, parsed(worker, answer)).object("users").named(USER, 1000)
    return {
        user: {"keys": {key: _public(one) for key, one in _keys(words).items()}}
        for user, words in users.items()
    }


def _keys(words: Words) -> Dict[str, Words]:
    return words.object("keys", {}).named(KEY_NAME, 100)


def _public(words: Words) -> Dict[str, str]:
    return {"public": words.word("public", PUBLIC_KEY, "") if words.value.get("public") else ""}


# Our address, as a worker sees it


def seen_address(worker: str, answer: Union[str, bytes]) -> str:
    """Read the first word of SSH_CONNECTION: an address, never a range."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    first = (text if isinstance(text, str) else "").split(" ")[0]
    try:
        return str(ipaddress.ip_address(first))
    except ValueError:
        raise AnswerError(worker, "SSH_CONNECTION", text, "an address") from None


# What the doctor finds on a worker


def doctor_answer(worker: str, answer: Any) -> Dict[str, Any]:
    """Read the result of the module host_doctor, or how it failed."""
    words = Words(worker, answer)
    if not words.value.get("findings"):
        ways = {key: True for key in ("failed", "unreachable", "skipped") if words.value.get(key)}
        said = words.value.get("msg")
        return {**ways, "msg": shown(said if isinstance(said, str) else "")} if ways else {}
    clock = words.object("clock", {})
    return {
        "findings": [_finding(one) for one in words.objects("findings", 1000)],
        "fixed": [_step(one) for one in words.objects("fixed", 1000, needed=False)],
        "status": words.word("status", STATUS, "ok"),
        "clock": {
            "started": clock.real("started", 0.0),
            "synchronized": clock.flag("synchronized", False)
            if clock.value.get("synchronized") is not None
            else None,
            "container": clock.text("container"),
        },
        "seconds": words.real("seconds", 0.0),
        "compare": _compare(words.object("compare", {})),
    }


STATUS = re.compile(r"ok|skipped|warn|fail")
_CHECK = re.compile(r"[a-z][a-z0-9_]{0,63}")
_THING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}")


def _finding(words: Words) -> Dict[str, str]:
    return {
        "check": words.word("check", _CHECK),
        "status": words.word("status", STATUS),
        **{key: words.text(key) for key in ("says", "remedy", "subject", "case", "fix")},
    }


def _step(words: Words) -> Dict[str, str]:
    names = ("check", "subject", "problem", "did", "failed")
    return {key: words.text(key) for key in names}


def _compare(words: Words) -> Dict[str, Any]:
    """Read what is compared between the workers of a slice; empty when it was not told."""
    if not words.value:
        return {}
    venvs, code = words.object("venvs", {}), words.object("code", {})
    runs = words.object("runs", {}).named(RUN, 1000)
    return {
        "venvs": {
            name: {
                "python": one.text("python"),
                "packages": one.object("packages", {}).texts_by_name(_THING),
            }
            for name, one in venvs.named(_THING, 1000).items()
        },
        "code": code.texts_by_name(_THING),
        "runs": {
            name: {"definition": one.text("definition"), "attempt": one.number("attempt")}
            for name, one in runs.items()
        },
    }


# Drills


def drill_look(worker: str, answer: Any) -> Dict[str, Any]:
    """Read how a run is, as the module drill saw it."""
    words = Words(worker, answer, "look")
    whole = ("pid", "parent", "agent_pid", "first_step", "step", "told_step")
    times = ("start", "agent_since", "first_step_at", "saved_at")
    kinds = ("attempt", "exit_code", "signal", "step")
    return {
        "now": words.real("now"),
        "machine_boot_id": words.word("machine_boot_id", HASH, ""),
        "boot_id": words.word("boot_id", HASH) if words.value.get("boot_id") else None,
        "state": words.word("state", WORD) if words.value.get("state") else "",
        "reason": words.text("reason"),
        "attempt": words.number("attempt"),
        **{key: words.flag(key, False) for key in ("program_alive", "agent_alive", "harm")},
        **{key: words.number(key, -LARGEST, default=None) for key in whole},
        **{key: words.real(key, None) for key in times},
        "history": [
            {
                "cause": one.text("cause"),
                **{key: one.number(key, -LARGEST, default=None) for key in kinds},
            }
            for one in words.objects("history", 1000, needed=False)
        ],
    }


# Workers that apply the roles to themselves

_STORED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ROLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_VARIABLE = re.compile(r"[a-z_][a-z0-9_]{0,63}")
APPLIES = re.compile(r"agent|need|peers|result|serves|event|begin|waiting|alive")
SHARED_MOST = 1 << 18
"""Characters of what one worker of a slice found out for the others."""


def applied_word(worker: str, line: bytes) -> Dict[str, Any]:
    """Read a line of a worker that applies roles to itself."""
    words = Words(worker, parsed(worker, line))
    what = words.word("say", APPLIES)
    read: Dict[str, Callable[[Words], Dict[str, Any]]] = {
        "need": lambda one: {
            "files": list(one.words("files", _STORED)),
            "direct": one.flag("direct", False),
        },
        "serves": lambda one: {"port": one.number("port", 0, 65535)},
        "begin": _begin,
        "waiting": lambda one: {"holder": {"who": one.object("holder", {}).text("who")}},
        "event": _applied_event,
        "result": _applied_result,
    }
    return {"say": what, **(read[what](words) if what in read else {})}


def _begin(words: Words) -> Dict[str, Any]:
    return {"roles": list(words.words("roles", _ROLE, 100)), "reasons": _reasons(words)}


def _reasons(words: Words) -> List[str]:
    return list(words.texts("reasons", 1000))


def _applied_event(words: Words) -> Dict[str, Any]:
    event = words.word("event", WORD)
    if event == "shared":
        name = words.word("name", _VARIABLE)
        return {"event": event, "name": name, "value": _shared(words, "value")}
    if event != "task":
        return {"event": event}
    long = {
        key: "\n".join(shown_lines(words.value[key], 200, 2000))
        for key in ("msg", "stderr", "stdout", "diff")
        if words.value.get(key)
    }
    return {
        "event": event,
        "task": words.text("task"),
        "status": words.word("status", WORD),
        **long,
    }


def _applied_result(words: Words) -> Dict[str, Any]:
    counts = words.object("counts", {})
    shared = words.object("shared", {})
    return {
        "status": words.word("status", WORD),
        "counts": counts.numbers_by_name(_ROLE),
        "reasons": _reasons(words),
        "problem": "\n".join(shown_lines(words.raw("problem", ""), 40, 2000)),
        "findings": words.object("findings", {}).texts_by_name(_ROLE),
        "missed": words.flag("missed", False),
        "roles": list(words.words("roles", _ROLE, 100)),
        "shared": {key: _shared(shared, key) for key in shared.keys_of(_VARIABLE)},
    }


def _shared(words: Words, key: str) -> Dict[str, Any]:
    """Return what one worker found out for the others of its slice, who take it for nobody's."""
    value = words.object(key).value
    if len(json.dumps(value)) > SHARED_MOST:
        words.refuse(key, value, f"at most {SHARED_MOST} characters")
    return dict(value)


def plain(answer: Any) -> Any:
    """Return what one of these functions read as plain data, for a playbook."""
    if isinstance(answer, (list, tuple)):
        return [plain(one) for one in answer]
    if hasattr(answer, "__dataclass_fields__"):
        return plain(asdict(answer))
    if isinstance(answer, Mapping):
        return {key: plain(value) for key, value in answer.items()}
    return answer


READERS: Dict[str, Callable[[str, Any], Any]] = {
    "address": seen_address,
    "git_users": git_users,
    "left": left_by_run,
    "runs": runs_of,
    "services": services_of,
    "standing": standing,
}
"""What playbooks ask for, by the name that they give it."""
