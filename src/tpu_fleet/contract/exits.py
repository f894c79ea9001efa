"""The exit codes of all commands: one table, which `--help` and docs/commands.md show."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """An exit code; what it means for a command is in its family."""

    DONE = 0
    FAILED = 1
    UNKNOWN = 2
    INTERRUPTED = 130
    """After Ctrl-C, as shells have it."""
    READER_GONE = 141
    """Whatever read the output closed the pipe, as shells have it."""


UNREACHED = 4
"""What ansible-playbook ends with if a worker was not reached."""
INTERRUPTED_TEXT = "130 after Ctrl-C"
WRONG_CALL = "an option or argument is wrong"
FAMILIES: dict[str, dict[int, str]] = {
    "here": {0: "done", 1: "refused or failed", 2: WRONG_CALL},
    "workers": {
        0: "done on all workers",
        1: "there is no such run or worker, or it was refused or failed on a worker",
        2: f"a worker gave no answer, or {WRONG_CALL}",
    },
    "playbook": {
        0: "all is as declared",
        1: "refused before anything was changed",
        2: f"something failed, or {WRONG_CALL}",
        UNREACHED: "a worker was not reached",
    },
    "plan": {
        0: "there is nothing to do",
        1: "it could not be found out",
        2: f"there is something to do, or {WRONG_CALL}",
    },
    "doctor": {
        0: "all is well",
        1: "there are warnings",
        2: f"there are failures, the checks could not run, or {WRONG_CALL}",
    },
    "drill": {
        0: "the run survived",
        1: "refused before anything was done",
        2: f"the run did not survive, or {WRONG_CALL}",
        UNREACHED: "a worker was not reached",
    },
    "ssh": {
        0: "the command or shell ended with 0; other codes are its own",
        1: "there is no such worker or run",
        2: f"workers that may have the run were not reached, or {WRONG_CALL}",
        255: "the worker was not reached, as with ssh",
    },
    "cloud": {0: "done", 1: "refused or failed", 2: WRONG_CALL},
}
"""What the codes mean. 130 and 141 mean the same for all."""
_MEMBERS: dict[str, str] = {
    "here": "init, grant import, grant show, completion, status, top, page, history, checkpoints, "
    "compare, submit, tunnel, watch install, watch status, watch uninstall",
    "workers": "runs, why, profile, logs, attach, sync, fetch, stop, start, retry, exec, cp",
    "playbook": "apply, slice create, slice delete, slice finish, slice wake, repair, invite, "
    "grant expire, project setup, watch run",
    "plan": "plan",
    "doctor": "doctor",
    "drill": "drill",
    "ssh": "ssh",
}
FAMILY_OF: Mapping[str, str] = {
    command: family for family, members in _MEMBERS.items() for command in members.split(", ")
}
"""The family of each command, by its words after `tpu-fleet`."""


OWN: dict[str, dict[int, str]] = {
    "attach": {0: "you detached", 1: "there is nothing to attach to (any more)"},
    "checkpoints": {0: "everything was seen and done"},
    "compare": {1: "there is no such run, or a file cannot be written"},
    "grant import": {1: "lines of the mail are unclear"},
    "logs": {
        0: "everything was shown, with -f to the end of the run",
        1: "there is no such run, or its log may not be read",
    },
    "runs": {0: "every worker answered", 1: "there is no such run, or an answer is invalid"},
    "profile": {0: "each worker has a profile", 1: "a worker has none"},
    "why": {
        0: "every worker of the run answered",
        1: "there is no such run, or an answer is invalid",
    },
    "stop": {
        0: "all have stopped or had ended",
        1: "there is no such run, or one has not stopped in time and goes on to",
    },
    "start": {
        0: "all run, have ended, or wait for another run to leave the TPU",
        1: "there is no such run, or one is refused or has not begun in time",
    },
    "retry": {
        0: "the next attempts have begun, or wait for another run to leave the TPU",
        1: "there is no such run, or one is refused or has not begun in time",
    },
    "submit": {0: "all runs are in the queue"},
    "sync": {
        0: "all workers have the version",
        1: "it was refused and nothing was changed, or the program failed at once",
        2: f"a worker was not reached and nothing was changed, or {WRONG_CALL}",
    },
    "exec": {
        0: "success on every worker",
        1: "a command ended with another status, or names or the fleet file are wrong",
        2: f"a worker was not reached, refused the login, was lost or too slow, or {WRONG_CALL}",
    },
    "fetch": {0: "everything is here", 1: "there is no such run, or a worker failed"},
}
"""Where a command says more than its family."""


def meanings(command: str) -> dict[int, str]:
    """Return what the codes of a command mean; all commands of the local cloud are alike."""
    family = "cloud" if command.split(" ")[0] == "cloud" else FAMILY_OF[command]
    return {**FAMILIES[family], **OWN.get(command, {})}


def sentence(command: str) -> str:
    """Return the line of `--help` about a command's exit codes."""
    told = "; ".join(f"{code} {meaning}" for code, meaning in meanings(command).items())
    return f"Exit codes: {told}; {INTERRUPTED_TEXT}."
