"""What the page shows, from the history alone. Pure but for the reading of the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import lines_of
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import REMOVED, RUNNING
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import natural_key
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import host_names

from ..history import money, record, story
from ..history.causes import WANTED
from ..history.money import NO_CHIPS, NO_PERSON, Account, Burn, Chips, Forecast
from ..history.store import GAP, LOOKED, Event, History, Span
from ..history.story import Attempt, RunStory
from ..show.spent import first_step_after, shares_text, start_text
from ..workers.ask.run_view import RunView
from . import curves, draw, first, words
from .curves import Comparison, Curve, Shape, Spark
from .draw import Axis, Tick
from .first import Need, Tile, WorkerRow

DAYS = 7.0
LEAST = 60.0
"""Seconds that a picture covers at least."""
MOST_EVENTS = 300
MOST_BADGES = 9
MOST_USERS = 5
"""Users with a colour of their own."""
BAR, BAR_TOP = 22.0, 2.0
NO_ACCOUNT = Account(0.0, [], 0.0)
READY, UNHEALTHY = "ready", "unhealthy"
ANSWERS, NOT_ASKED = "answers", "not asked"
"""States of workers."""


@dataclass(frozen=True)
class Badge:
    """The number of an interruption above its run's time line."""

    number: int
    left: str


@dataclass(frozen=True)
class RunCard:
    """Everything about a run."""

    story: RunStory
    axis: Axis
    shapes: list[Shape]
    badges: list[Badge]
    interruptions: list[tuple[int, Attempt]]
    curves: list[Curve]
    not_drawn: list[str]
    """The names of numbers without a curve."""
    spark: Spark | None
    total: int | None
    """Steps that it will do, if its program says so."""
    coming: str
    """The announced maintenance of its slice, or when it will be done."""
    anchor: str
    ticks: list[Tick]
    there: bool
    """Whether the last look has seen it."""
    troubled: bool
    goodput: float | None
    spent: str
    """For what its time was needed; empty if nothing is known of the inside of its attempts."""
    first_step: float | None
    """Seconds from the begin of the last attempt to its first step."""
    start: str
    """Of what that start consisted."""
    at_risk: float | None
    down: float
    span: float
    view: RunView
    """Its figures, as `runs` and `top` show them."""

    @property
    def use_known(self) -> bool:
        """Whether anything is known of the use of its chips."""
        use = (self.view.duty_cycle, self.view.memory, self.view.tokens_per_second, self.view.mfu)
        return any(figure is not None for figure in use)


@dataclass(frozen=True)
class SliceRow:
    """A slice, now and over time."""

    name: str
    type: str
    zone: str
    tier: str
    chips: int
    state: str
    text: str
    workers: int
    away: int
    share: float
    """Of the time, in which it was ready."""
    shapes: list[Shape]
    troubled: bool
    runs: list[str]


@dataclass(frozen=True)
class Column:
    """A day, drawn as parts that stand on each other."""

    day: str
    total: float
    parts: list[tuple[str, float]]
    """The kind and the size of each."""


NOT_READ: dict[str, Any] = {"rows": [], "more": 0, "waiting": 0, "problem": ""}
"""The queue of submitted runs, of which nothing is known."""


@dataclass(frozen=True)
class BurnCard:
    """An entry of the grant that is used up, by chip hours."""

    burn: Burn
    ticks: list[Tick]
    shapes: list[Shape]
    left: float
    wasted: float
    days: int
    """Whole days until its end."""
    last_day: str


@dataclass
class Page:
    """The whole page."""

    fleet: str
    now: float
    axis: Axis
    ticks: list[Tick] = field(default_factory=list)
    trouble: str = ""
    """How many runs are in which trouble, in a few words."""
    looked_at: float | None = None
    tiles: list[Tile] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    runs: list[RunCard] = field(default_factory=list)
    comparison: Comparison | None = None
    slices: list[SliceRow] = field(default_factory=list)
    workers: list[WorkerRow] = field(default_factory=list)
    submitted: dict[str, Any] = field(default_factory=lambda: dict(NOT_READ))
    """What waits or runs in the queue of submitted runs, as `Glance.to_dict` has it."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """What waits at the API to become a slice."""
    account: Account = NO_ACCOUNT
    users: list[str] = field(default_factory=list)
    colours: dict[str, str] = field(default_factory=dict)
    """Of the users who have one of their own, the class of their colour."""
    use: list[Column] = field(default_factory=list)
    money: list[Column] = field(default_factory=list)
    burns: list[BurnCard] = field(default_factory=list)
    coming: dict[str, str] = field(default_factory=dict)
    """The announced maintenance of slices."""
    forecast: Forecast | None = None
    endless: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    more_events: int = 0
    prices: str = ""
    beside: list[dict[str, Any]] = field(default_factory=list)
    """What costs beside the chips, as the last `tpu-fleet status` has seen it."""
    budget: list[str] = field(default_factory=list)
    chips: Chips = NO_CHIPS

    @property
    def use_known(self) -> bool:
        """Whether anything is known of the use of a run's chips."""
        return any(card.use_known for card in self.runs)


def page_of(
    history: History, fleet: str, now: float, days: float = DAYS, logs: bool = True
) -> Page:
    """Return the page of the last days; without `logs`, nothing that programs printed is on it."""
    since = max(now - days * 86400, min(history.began() or now, now - LEAST))
    page = Page(fleet, now, axis := Axis(since, now), draw.time_ticks(axis))
    nodes, runs = history.spans("node", since), history.spans("run", since)
    workers, grant = history.spans("worker", since), history.spans("grant")
    facts = history.facts()

    def looked(kind: str) -> float:
        return facts.get(f"{LOOKED}{kind}", (0.0, None))[0]

    events = [one for one in record.events_of(history, since, logs=logs) if one.at <= now + GAP]
    mine = [span for span in nodes if span.value.get("ours")]
    stories = [
        one for one in record.stories(history, since, now, logs) if one.attempts or one.state
    ]
    zones = _body(facts, "grant", {}).get("unreachable", ())
    current = _newest(mine, looked("node"), unknown=zones)
    own = {node["name"]: node for node in _body(facts, "nodes", []) if node["ours"]}
    unusable = {name: node["unavailable"] for name, node in own.items() if node["unavailable"]}

    def now_of(spans: Sequence[Span]) -> dict[str, Span]:
        # Workers are asked slice by slice: those that the last look did not ask are as before.
        found = _newest(spans, looked(spans[0].kind) if spans else 0.0, GAP)
        asked = current.keys() - unusable.keys()
        return {name: span for name, span in found.items() if name.partition("/")[0] in asked}

    there, hosts = now_of(runs), now_of(workers)
    page.coming = {name: node["maintenance"] for name, node in own.items() if node["maintenance"]}
    page.runs = sorted(
        (_card(one, page.axis, one.name in there, page.coming) for one in stories), key=_card_order
    )
    page.comparison = curves.comparison_of([card.story for card in page.runs])
    missing = _body(facts, "slices", {})
    page.slices = _slices(page.axis, mine, current, hosts, missing, stories, own)
    reasons = _body(facts, "workers", {})
    page.workers = [
        WorkerRow(
            name.partition("/")[2],
            name.partition("/")[0],
            str(span.value.get("state")),
            str(reasons.get(name, "")),
            span.begun,
        )
        for name, span in sorted(hosts.items(), key=lambda one: natural_key(one[0]))
    ]
    page.workers += [
        WorkerRow(host, name, NOT_ASKED, f"the slice {why}")
        for name, why in sorted(unusable.items())
        for host in host_names(name, int(own[name]["workers"] or 1))
    ]
    why = _body(facts, "queued", {})
    page.requests = [
        {**span.value, "name": name, "reason": str(why.get(name, "")), "since": span.begun}
        for name, span in _newest(history.spans("queued", since), looked("queued")).items()
    ]
    page.submitted = {**NOT_READ, **_body(facts, "queue", {})}
    page.looked_at = max(map(looked, ("node", "worker", "run"))) or None
    page.account = money.account_of(mine, runs, grant, since, now)
    _use_and_money(page)
    _grant(page, grant, looked("grant"), now, _body(facts, "grant", {}).get("left", {}))
    page.prices = str(_body(facts, "grant", {}).get("prices", ""))
    page.beside = _body(facts, "beside", [])
    page.budget = lines_of(_body(facts, "budget", None))
    news = story.news_of(events)
    page.events = news[-MOST_EVENTS:][::-1]
    page.more_events = max(0, len(news) - MOST_EVENTS)
    _now(page, current, _body(facts, "grant", {}), _body(facts, "nodes", []), (mine, runs))
    return page


def _body(facts: Mapping[str, tuple[float, Any]], name: str, default: Any) -> Any:
    return facts.get(name, (0.0, default))[1]


def _newest(
    spans: Sequence[Span], last: float, seconds: float = 0.0, unknown: Sequence[str] = ()
) -> dict[str, Span]:
    """Return the intervals that the last look of that kind has seen, or one shortly before.

    What is in a zone that did not answer is there as it was before.
    """
    return {
        span.name: span
        for span in spans
        if span.seen >= last - (GAP if span.value.get("zone") in unknown else seconds)
    }


# Now ----------------------------------------------------------------------------------------


def _now(
    page: Page,
    nodes: Mapping[str, Span],
    grant: Mapping[str, Any],
    everybodys: Sequence[Mapping[str, Any]],
    spans: tuple[Sequence[Span], Sequence[Span]],
) -> None:
    """Fill in what needs a person, and the tiles; `spans` are those of nodes and of runs."""
    there = [card.story for card in page.runs if card.there and card.story.state != REMOVED]
    running = [one for one in there if one.state == RUNNING]
    own = [{**span.value, "name": name} for name, span in nodes.items()]
    busy = {one.slice for one in running}
    page.chips = money.chips_of(own, busy)
    at = page.looked_at or page.now
    idle_since = _idle_since(*spans)
    resting = {name for name, since in idle_since.items() if at - since < first.IDLE_AFTER}
    lasting = money.chips_of(own, busy | resting)
    ready = (sum(row.state == READY for row in page.slices), len(page.slices))
    answer = (sum(row.state == ANSWERS for row in page.workers), len(page.workers))
    bad = Counter(card.view.state_word for card in page.runs if card.troubled)
    page.trouble = ", ".join(f"{count} {word}" for word, count in bad.most_common())
    page.needs = _needs(page, nodes, grant)
    page.needs += first.need_of_idle(lasting, idle_since)
    page.needs += first.needs_of_plans(page.coming)
    page.tiles = [
        first.tile_of_runs(there, page.submitted["waiting"]),
        first.tile_of_chips(page.chips, ready, answer, first.use_of(running)),
        first.tile_of_risk(running),
        first.tile_of_money(everybodys, page.account),
    ]
    if page.burns:
        one = page.burns[0]
        page.tiles.append(
            first.tile_of_grant(one.days, one.last_day, one.burn.used, one.burn.chips)
        )
        page.forecast = money.forecast_of(own, one.burn.ends, page.now)
    elif page.endless:
        page.tiles.append(Tile("Grant", "no end", "; ".join(page.endless[:2])))


def _needs(page: Page, nodes: Mapping[str, Span], grant: Mapping[str, Any]) -> list[Need]:
    """Return what is in trouble: runs first, then slices, workers, the grant."""
    names = Counter(card.story.run for card in page.runs)
    found = [
        first.need_of_run(card.story, card.anchor, names) for card in page.runs if card.troubled
    ]
    found += [
        Need(
            row.state,
            row.name,
            row.text or f"is {row.state}",
            nodes[row.name].begun if row.name in nodes and row.state != UNHEALTHY else None,
            ", ".join(row.runs),
            anchor=f"slice/{row.name}",
            command=first.DOCTOR,
        )
        for row in page.slices
        if row.state != READY
    ]
    found += first.needs_of_workers(page.workers, (ANSWERS, NOT_ASKED))
    return found + [
        Need("grant", "Grant", str(line), anchor="costs", command="tpu-fleet status")
        for line in grant.get("warnings", ())
    ]


def _idle_since(nodes: Sequence[Span], runs: Sequence[Span]) -> dict[str, float]:
    """Return since when each slice has no run: since its last one, or since it is ready."""
    last: dict[str, float] = {}
    for span in runs:
        if span.value.get("state") == RUNNING:
            name = span.name.partition("/")[0]
            last[name] = max(last.get(name, 0.0), span.seen)
    found: dict[str, float] = {}
    for span in nodes:
        used = last.get(span.name, 0.0)
        if span.value.get("state") == READY and span.seen >= used:
            found[span.name] = min(found.get(span.name, span.seen), max(used, span.begun))
    return found


# Runs ---------------------------------------------------------------------------------------


def _card_order(card: RunCard) -> tuple[Any, ...]:
    return (not card.there, card.view.order, card.story.name)


def _card(one: RunStory, whole: Axis, there: bool, coming: Mapping[str, str]) -> RunCard:
    attempts = one.attempts
    begun = max(whole.begun, attempts[0].begun) if attempts else whole.begun
    last = attempts[-1].ended if attempts else None
    ended = last if last is not None and one.is_over else one.until
    room = max(LEAST - (ended - begun), 0.02 * (ended - begun))
    axis = Axis(begun, ended + room * 0.5)  # the first label is the time at which the bar begins
    numbered = list(enumerate([a for a in attempts if a.interrupted], start=1))
    drawn, not_drawn = curves.curves_of(one, axis)
    total = curves.total_of(one)
    return RunCard(
        story=one,
        axis=axis,
        shapes=_timeline(one, axis),
        badges=_badges(numbered, axis),
        interruptions=numbered[::-1],
        curves=drawn,
        not_drawn=not_drawn,
        spark=curves.spark_of(one),
        total=total,
        coming=_coming(one, total, coming) if there else "",
        anchor=f"run-{one.name}",
        ticks=draw.time_ticks(axis),
        there=there,
        troubled=there and one.view.is_troubled,
        goodput=one.goodput,
        spent=shares_text(one.spent) if one.knows_inside else "",
        first_step=first_step_after(attempts[-1].start_parts) if attempts else None,
        start=start_text(attempts[-1].start_parts, attempts[-1].start_counts) if attempts else "",
        at_risk=one.at_risk if there else None,
        down=one.down,
        span=one.span,
        view=one.view,
    )


def _coming(one: RunStory, total: int | None, coming: Mapping[str, str]) -> str:
    """Return what comes to a run that is running: maintenance, or its end."""
    if one.state != RUNNING or one.view.is_troubled:
        return ""
    if one.slice in coming:
        return f"maintenance {coming[one.slice]}"
    step, speed = one.view.step, one.view.speed
    if total is None or step is None or not speed or step >= total:
        return ""
    return f"done in {words.long((total - step) / speed)}"


def _timeline(one: RunStory, axis: Axis) -> list[Shape]:
    """Return attempts as bars, downtime as a thin bar, and what happened as lines below."""
    works = [(a.begun, one.until if a.ended is None else a.ended) for a in one.attempts]
    down: dict[str, list[tuple[float, float]]] = {"down": [], "paused": []}
    for attempt in one.attempts:
        if attempt.ended is not None and attempt.down:
            # A person wanted it: that is no fault.
            kind = "paused" if attempt.kind in WANTED else "down"
            down[kind].append((attempt.ended, attempt.ended + attempt.down))
    shapes = [Shape("works", draw.bars(axis, works, BAR_TOP, BAR))]
    shapes += [
        Shape(kind, draw.bars(axis, spans, BAR_TOP + 8, 6.0)) for kind, spans in down.items()
    ]
    for kind in ("note", "good", "bad"):
        times = [event.at for event in one.marks if words.kind_of(event) == kind]
        shapes.append(Shape(f"mark-{kind}", draw.ticks(axis, times, BAR_TOP + BAR + 4, 10.0)))
    return [shape for shape in shapes if shape.d]


def _badges(numbered: Sequence[tuple[int, Attempt]], axis: Axis) -> list[Badge]:
    """Return the numbers that have room; the longest interruptions come first."""
    found: list[tuple[float, Badge]] = []
    for number, attempt in sorted(numbered, key=lambda pair: -(pair[1].down or 0.0)):
        if attempt.ended is None or not axis.begun <= attempt.ended <= axis.ended:
            continue
        x = axis.x(attempt.ended + (attempt.down or 0.0) / 2)
        if len(found) < MOST_BADGES and all(abs(x - other) > 60 for other, _badge in found):
            found.append((x, Badge(number, f"{x / draw.WIDTH * 100:.2f}%")))
    return [badge for _x, badge in sorted(found, key=lambda pair: pair[0])]


# Slices -------------------------------------------------------------------------------------


def _slices(
    axis: Axis,
    nodes: Sequence[Span],
    there: Mapping[str, Span],
    workers: Mapping[str, Span],
    about: Mapping[str, Mapping[str, str]],
    runs: Iterable[RunStory],
    nodes_now: Mapping[str, Mapping[str, Any]],
) -> list[SliceRow]:
    by_name: dict[str, list[Span]] = {}
    for span in nodes:
        by_name.setdefault(span.name, []).append(span)
    on_slice: dict[str, list[str]] = {}
    for one in runs:
        if not one.is_over:
            on_slice.setdefault(one.slice, []).append(one.run)
    members: dict[str, list[Span]] = {}
    for span in workers.values():
        members.setdefault(span.name.partition("/")[0], []).append(span)
    rows = []
    for name in sorted({*by_name, *about}):
        spans, told = by_name.get(name, []), about.get(name, {})
        newest = there.get(name)
        if newest is None and not told:
            continue  # it is not wanted any more
        value: Mapping[str, Any] = newest.value if newest else (spans[-1].value if spans else {})
        state = str(value.get("state")) if newest else str(told.get("phase") or "gone")
        why = str(nodes_now.get(name, {}).get("unavailable") or "") if newest else ""
        if state == READY and why:
            state = UNHEALTHY
        own = members.get(name, [])
        away = sum(span.value.get("state") != "answers" for span in own)
        good = [(s.begun, s.seen) for s in spans if s.value.get("state") == READY]
        bad = [(s.begun, s.seen) for s in spans if s.value.get("state") != READY]
        known = sum(e - max(b, axis.begun) for b, e in [*good, *bad])
        shapes = [
            Shape("works", draw.bars(axis, good, 3.0, 14.0)),
            Shape("down", draw.bars(axis, bad, 7.0, 6.0)),
        ]
        rows.append(
            SliceRow(
                name,
                str(value.get("type") or told.get("accelerator_type") or ""),
                str(value.get("zone") or told.get("zone") or ""),
                str(value.get("tier") or told.get("tier") or ""),
                int(value.get("chips") or 0),
                state,
                (why or str(told.get("text") or "")) if state != READY else "",
                len(own) or int(nodes_now.get(name, {}).get("workers") or 0),
                away,
                sum(e - max(b, axis.begun) for b, e in good) / known if known else 0.0,
                [shape for shape in shapes if shape.d],
                state != READY or away > 0,
                on_slice.get(name, []),
            )
        )
    order = {row.name: natural_key(row.name) for row in rows}
    return sorted(rows, key=lambda row: (not row.troubled, row.share > 0.999, order[row.name]))


# Chips, money, grant ------------------------------------------------------------------------


def _use_and_money(page: Page) -> None:
    page.users = users = [user for user in page.account.people if user != NO_PERSON]
    page.colours = colours = colours_of(users[:MOST_USERS])
    for day in page.account.days:
        busy = {user: use.busy for user, use in day.by_user.items()}
        parts = [(colours[user], busy.get(user, 0.0)) for user in users[:MOST_USERS]]
        parts.append((f"u{MOST_USERS}", sum(busy.get(user, 0.0) for user in users[MOST_USERS:])))
        parts.append(("idle", day.whole.idle))
        label = words.day(day.day)
        page.use.append(Column(label, sum(hours for _kind, hours in parts), parts))
        usd, full = day.whole.usd, day.whole.list_usd
        costs = [("billed", usd), ("granted", max(0.0, full - usd))]
        page.money.append(Column(label, sum(amount for _kind, amount in costs), costs))


def colours_of(users: Iterable[str]) -> dict[str, str]:
    """Return a colour for each of up to MOST_USERS users, by their names and not by their use."""
    found: dict[str, str] = {}
    for user in sorted(users):
        start = crc32(user.encode())
        colours = (f"u{(start + more) % MOST_USERS}" for more in range(MOST_USERS))
        found[user] = next(colour for colour in colours if colour not in found.values())
    return found


def _grant(
    page: Page,
    grant: Sequence[Span],
    looked: float,
    now: float,
    left: Mapping[str, Mapping[str, Any]],
) -> None:
    ends: dict[str, float] = {}
    for span in grant:
        told = span.value.get("ends")
        if isinstance(told, str):
            when = datetime.strptime(told, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            ends[span.name] = when.timestamp()
    current = _newest(grant, looked)
    for burn in money.burns_of(grant, ends):
        if burn.ends > now and burn.text in current:
            last_day = left.get(burn.text, {}).get("last_day") or words.short(burn.ends)
            page.burns.append(_burn(burn, now, last_day))
    page.endless = [name for name in current if name not in ends]


def _burn(burn: Burn, now: float, last_day: str) -> BurnCard:
    axis = Axis(burn.begun, burn.ends)
    whole = max(burn.whole, 0.001)
    y = draw.Ruler(0.0, whole, 120.0).y
    left = [(at, whole - held) for at, held in burn.points]
    rest = whole - burn.held()
    at_end = max(0.0, rest - burn.used * max(0.0, burn.ends - now) / 3600)
    shapes = [
        Shape("even", draw.line(axis, [(burn.begun, whole), (burn.ends, 0.0)], y)[0]),
        Shape("ahead", draw.line(axis, [(now, rest), (burn.ends, at_end)], y)[0]),
        Shape("curve", draw.line(axis, [*left, (now, rest)], y)[0]),
        Shape("now", draw.ticks(axis, [now], 0.0, 120.0)),
    ]
    return BurnCard(
        burn, draw.time_ticks(axis), shapes, burn.left(now), burn.wasted(now),
        int(max(0.0, burn.ends - now) // 86400), last_day,
    )  # fmt: skip
