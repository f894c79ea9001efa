"""The forms of what `--json` prints, one for each command, as JSON Schema.

`make docs` writes them into `schemas/`, which the distribution has. A key that is added needs a
line here; none is removed, and none changes its meaning, but with a new major version. Objects
without named keys are those of Google's APIs, of the fleet file, or of the run agent.
"""

from __future__ import annotations

from typing import Any

Form = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT: Form = {"type": "string"}
WHOLE: Form = {"type": "integer"}
NUMBER: Form = {"type": "number"}
FLAG: Form = {"type": "boolean"}
OPEN: Form = {"type": "object"}
ANY: Form = {}


def told(form: Form, meaning: str) -> Form:
    """Return a form with what it means."""
    return {**form, "description": meaning}


def maybe(form: Form) -> Form:
    """Return a form that may be null."""
    return {"anyOf": [form, {"type": "null"}]}


def many(form: Form) -> Form:
    """Return a list."""
    return {"type": "array", "items": form}


def by_name(form: Form) -> Form:
    """Return an object whose keys are names."""
    return {"type": "object", "additionalProperties": form}


def one_of(*words: str) -> Form:
    """Return one of these words."""
    return {"enum": list(words)}


def shape(may_have: Form | None = None, /, **keys: Form) -> Form:
    """Return an object with these keys, and others that it may have."""
    properties = {**keys, **(may_have or {})}
    return {"type": "object", "properties": properties, "required": list(keys)}


def file_name(command: str) -> str:
    """Return the name of the file of a command's form."""
    return f"{command.replace(' --', '-').replace(' ', '-')}.json"


EXIT_CODE = told(WHOLE, "The exit code of this call.")
TIME = told(TEXT, "Like 2026-11-29T10:00:00Z, in UTC.")
SECONDS = told(NUMBER, "Seconds.")
SINCE_1970 = told(NUMBER, "Seconds since 1970, in UTC.")
USD = told(NUMBER, "US dollars.")
USE: Form = {
    "duty_cycle_percent": maybe(NUMBER),
    "hbm_used_bytes": maybe(NUMBER),
    "hbm_bytes": maybe(NUMBER),
    "tokens_per_second": maybe(NUMBER),
    "mfu": told(maybe(NUMBER), "Model FLOPs utilisation, from 0 to 1, where the program says it."),
}
"""How the chips of a run are used."""
NO_RESULT = shape(worker=TEXT, kind=TEXT, says=TEXT, remedy=TEXT)
RUN_STATE = told(TEXT, "running, pending, waiting, completed, failed, stopped, unknown or another.")
RUN = shape(
    run=TEXT,
    slice=TEXT,
    user=TEXT,
    submitted=told(FLAG, "From the queue, and not from the fleet file."),
    state=RUN_STATE,
    attempt=WHOLE,
    step=told(maybe(WHOLE), "Of the worker that is least far."),
    furthest_step=maybe(WHOLE),
    steps_per_second=maybe(NUMBER),
    seconds_without_step=told(maybe(SECONDS), "Null while steps come as usual."),
    loss=maybe(NUMBER),
    loss_trouble=maybe(TEXT),
    **USE,
    seconds_since_checkpoint=maybe(SECONDS),
    since=maybe(TIME),
    seconds=maybe(SECONDS),
    workers=many(TEXT),
    workers_in_this_state=WHOLE,
    start_parts=told(by_name(SECONDS), "From attempt to first step, by its parts."),
    start_counts=by_name(NUMBER),
    seconds_by_kind=told(by_name(SECONDS), "Where the time of the attempt went."),
    waits_for=maybe(TEXT),
    failed_with=maybe(TEXT),
    exit_code=told(maybe(WHOLE), "Of the program's last attempt that ended."),
    signal=maybe(WHOLE),
    reasons=many(TEXT),
    problems=many(TEXT),
    troubled=told(FLAG, "Whether a person should look at it."),
    log=maybe(TEXT),
)
GRANT = told(OPEN, "As the module tpu.fleet.fleet_info returns it.")
OUTCOME = shape(
    {"workers": many(TEXT), "step": maybe(WHOLE), "seconds": SECONDS},
    run=TEXT,
    slice=maybe(TEXT),
    state_before=maybe(RUN_STATE),
    state=RUN_STATE,
    attempt=WHOLE,
    why=maybe(TEXT),
    done=told(FLAG, "Whether what was asked for has become so."),
)
VERB = shape(runs=many(OUTCOME), no_result=many(NO_RESULT), exit_code=EXIT_CODE)
WORKER = shape(
    **dict.fromkeys(("host", "slice", "type", "zone", "tier", "state"), TEXT),
    **dict.fromkeys(("external_ip", "internal_ip", "problem", "maintenance"), TEXT),
    api=one_of("tpu", "compute"),
    runs=told(many(OPEN), "As the worker's run agent describes them."),
)
FINDING = shape(
    dict.fromkeys(("subject", "case", "fix"), TEXT),
    hosts=told(many(TEXT), "Each worker; or the slice, or controller."),
    **dict.fromkeys(("host", "check", "status", "says", "remedy"), TEXT),
)
FINDING_OF_WHY: Form = {
    "cause": TEXT,
    "grade": one_of("trouble", "wait", "fine", "note"),
    "sentence": TEXT,
    "workers": many(TEXT),
    "seconds": told(maybe(SECONDS), "For how long."),
    "remedy": maybe(TEXT),
    "command": maybe(TEXT),
}
CHECKPOINT = shape(
    name=TEXT,
    step=maybe(WHOLE),
    state=TEXT,
    leftover=told(FLAG, "Unfinished, and a later whole one replaces it."),
    time=TIME,
    seconds=SECONDS,
    bytes=maybe(WHOLE),
    objects=maybe(WHOLE),
    usd_per_month=maybe(USD),
)
EVENT = shape(
    at=SINCE_1970,
    time=TIME,
    slice=TEXT,
    run=TEXT,
    worker=told(WHOLE, "-1 for what the watcher reports."),
    name=TEXT,
    attempt=WHOLE,
    detail=OPEN,
    title=TEXT,
)
QUEUED = shape(
    run=TEXT,
    state=RUN_STATE,
    person=TEXT,
    position=told(maybe(WHOLE), "Its turn among those that wait."),
    why=maybe(TEXT),
    slice=maybe(TEXT),
    last_slice=maybe(TEXT),
    attempt=WHOLE,
    failures=WHOLE,
    round=WHOLE,
    priority=WHOLE,
    exit_code=maybe(WHOLE),
    submitted_at=maybe(SINCE_1970),
    started_at=maybe(SINCE_1970),
    ended_at=maybe(SINCE_1970),
    after=many(TEXT),
    types=many(TEXT),
    slices=many(TEXT),
    venv=maybe(TEXT),
    sweep=maybe(TEXT),
    parameters=OPEN,
    step=maybe(WHOLE),
    loss=maybe(NUMBER),
)
FORMS: dict[str, Form] = {
    "status": shape(
        workers=many(WORKER),
        runs=many(RUN),
        grant=GRANT,
        nodes=told(many(OPEN), "As fleet_info returns them."),
        queued=told(many(OPEN), "Requests that wait at Google."),
        warnings=many(TEXT),
        prices=OPEN,
        now=TEXT,
        unreachable_zones=many(TEXT),
        missing=told(maybe(many(OPEN)), "Declared slices that are not there."),
        problem=told(TEXT, "Why grant and costs are unknown; empty if they are known."),
        beside=told(maybe(many(OPEN)), "What costs beside the chips."),
        budget=maybe(OPEN),
    ),
    "plan": shape(
        slices=told(many(OPEN), "What would be done to slices, with prices."),
        slices_that_wait=many(shape(slice=TEXT, why=TEXT)),
        slices_on_queue=many(shape(slice=TEXT, comes=FLAG, why=TEXT)),
        machines=told(many(OPEN), "Machines that would be set up."),
        runs=told(many(OPEN), "Runs that would start, restart or stop."),
        around=many(TEXT),
        unknown=many(shape(worker=TEXT, why=TEXT)),
        not_declared=many(ANY),
        beside=many(OPEN),
        usd_per_hour=maybe(USD),
        usd_per_hour_billed=told(maybe(USD), "What the grant does not pay."),
        budget=maybe(OPEN),
        failures=many(shape(host=TEXT, text=TEXT)),
        exit_code=EXIT_CODE,
    ),
    "grant show": shape(grant=GRANT, warnings=many(TEXT)),
    "doctor": shape(
        status=TEXT,
        exit_code=EXIT_CODE,
        rows=many(FINDING),
        fixed=told(many(OPEN), "Repairs that --fix made."),
    ),
    "history": shape(
        verdict=shape(
            seconds=SECONDS,
            failed=told(many(TEXT), "Runs that failed for good, as slice/run."),
            ends=by_name(WHOLE),
            chip_hours=NUMBER,
            lost_chip_hours=NUMBER,
            lost_checkpoints=many(TEXT),
        ),
        runs=many(
            shape(
                run=TEXT,
                slice=TEXT,
                user=TEXT,
                state=RUN_STATE,
                seconds=SECONDS,
                seconds_down=SECONDS,
                goodput=told(maybe(NUMBER), "From 0 to 1."),
                seconds_by_kind=by_name(SECONDS),
                seconds_since_checkpoint=maybe(SECONDS),
                seconds_at_risk=maybe(SECONDS),
                chips=maybe(WHOLE),
                **USE,
                attempts=many(OPEN),
            )
        ),
        events=many(EVENT),
    ),
    "watch status": shape(
        alive=told(FLAG, "Whether it runs."),
        service=maybe(
            shape(
                name=TEXT,
                state=told(TEXT, "As systemd says; empty if it does not answer."),
                pid=told(WHOLE, "Its process; 0 while it has none."),
            )
        ),
        schema=WHOLE,
        pid=WHOLE,
        holder=told(TEXT, "The person and the computer."),
        began=SINCE_1970,
        now=SINCE_1970,
        works=told(FLAG, "False while it stands by for another watcher."),
        stands_by_for=maybe(TEXT),
        looked_at=maybe(SINCE_1970),
        next_look=maybe(SINCE_1970),
        project=maybe(TEXT),
        slices=many(
            shape(name=TEXT, phase=TEXT, text=TEXT, due=many(TEXT), failures=WHOLE, away=many(TEXT))
        ),
        runs=many(OPEN),
        budget=maybe(OPEN),
        playbooks=many(shape(slices=many(TEXT), why=many(TEXT), log=TEXT)),
        troubles=by_name(shape(since=SINCE_1970, text=TEXT, count=WHOLE)),
        messages=by_name(shape(waiting=WHOLE, failures=WHOLE, lost=WHOLE)),
    ),
    "runs": shape(runs=many(RUN), no_result=many(NO_RESULT), exit_code=EXIT_CODE),
    "why": shape(
        at=SINCE_1970,
        verdicts=many(
            shape(
                run=TEXT,
                slice=TEXT,
                **FINDING_OF_WHY,
                more=told(many(shape(**FINDING_OF_WHY)), "What else was seen."),
                standing=many(
                    shape(
                        hosts=many(TEXT),
                        state=TEXT,
                        step=maybe(WHOLE),
                        age_s=maybe(SECONDS),
                        doing=TEXT,
                        blamed=told(FLAG, "Whether the answer names them."),
                    )
                ),
            )
        ),
        folder=told(maybe(TEXT), "Where all that was seen is kept."),
        no_result=many(shape(worker=TEXT, says=TEXT, remedy=TEXT)),
        exit_code=EXIT_CODE,
    ),
    "profile": shape(
        run=TEXT,
        folder=maybe(TEXT),
        profiles=many(
            shape(
                worker=TEXT,
                process=WHOLE,
                file=TEXT,
                bytes=WHOLE,
                framework=maybe(TEXT),
                late_seconds=told(maybe(SECONDS), "After the moment for all."),
                seconds=maybe(SECONDS),
                first_step=maybe(WHOLE),
                last_step=maybe(WHOLE),
                devices=WHOLE,
                idle=told(maybe(NUMBER), "From 0 to 1, as the next two."),
                input=maybe(NUMBER),
                collectives=maybe(NUMBER),
            )
        ),
        missing=many(shape(worker=TEXT, says=TEXT)),
        operations=many(
            shape(name=TEXT, kind=maybe(TEXT), seconds=SECONDS, calls=WHOLE, share=NUMBER)
        ),
        notes=many(TEXT),
        while_idle=told(
            many(shape(name=TEXT, seconds=SECONDS, calls=WHOLE, share=NUMBER)),
            "What the training loops did while no operation ran.",
        ),
        no_result=many(NO_RESULT),
        exit_code=EXIT_CODE,
    ),
    "runs --queue": shape(
        queue=told(TEXT, "The address of the queue."),
        runs=many(QUEUED),
        refused=told(by_name(TEXT), "Objects in the queue that count as nothing, and why."),
        exit_code=EXIT_CODE,
    ),
    "checkpoints": shape(
        runs=many(
            shape(
                run=TEXT,
                place=TEXT,
                worker=maybe(TEXT),
                bytes=maybe(WHOLE),
                usd_per_month=maybe(USD),
                checkpoints=many(CHECKPOINT),
                deleted=many(TEXT),
                notes=many(TEXT),
                problem=maybe(TEXT),
            )
        )
    ),
    "sync": shape(
        slices=many(
            shape(
                slice=TEXT,
                workers=WHOLE,
                version=TEXT,
                same=FLAG,
                files=WHOLE,
                bytes=WHOLE,
                runs=many(OPEN),
                seconds=SECONDS,
            )
        ),
        refused=told(by_name(TEXT), "Why workers refused, by their names."),
    ),
    "fetch": shape(
        fetched=many(shape(run=TEXT, worker=TEXT, folder=TEXT, files=WHOLE, missing=many(TEXT))),
        failed=many(OPEN),
        exit_code=EXIT_CODE,
    ),
    "compare": shape(
        by=TEXT,
        runs=many(
            shape(
                run=TEXT,
                slice=TEXT,
                state=RUN_STATE,
                attempt=WHOLE,
                key=maybe(TEXT),
                keys=many(TEXT),
                points=many(shape(time=SINCE_1970, step=maybe(WHOLE), value=NUMBER)),
                declared=told(maybe(by_name(TEXT)), "Null if it is not known."),
            )
        ),
        differs=many(TEXT),
    ),
    "submit": shape(
        runs=told(many(OPEN), "What was submitted, with why it waits."),
        submitted=many(TEXT),
        failed=by_name(TEXT),
    ),
    "stop": VERB,
    "start": VERB,
    "retry": VERB,
    "exec": shape(
        workers=many(
            shape(
                worker=TEXT,
                ok=FLAG,
                kind=TEXT,
                exit_status=maybe(WHOLE),
                stdout=TEXT,
                stderr=TEXT,
                says=TEXT,
                remedy=TEXT,
                seconds=SECONDS,
            )
        ),
        summary=shape(ok=WHOLE, failed=WHOLE, no_result=WHOLE),
        exit_code=EXIT_CODE,
    ),
}
"""The form of each command, by its words, and an option that changes what it prints."""


def schema(command: str) -> Form:
    """Return the whole JSON Schema of a command."""
    head = {"$schema": DRAFT, "title": f"tpu-fleet {command} --json"}
    return {**head, **FORMS[command]}
