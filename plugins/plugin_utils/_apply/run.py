# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send wishes to many hosts at once, and collect progress and results."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._apply_agent.wish import SHARED
from ...module_utils._core.plain_text import shown
from .._ssh.failures import DENIED_FOR, ELSEWHERE, Kind
from .._ssh.fan_out import Channel, Result, Settings, fan_out, make_room
from .._ssh.targets import Target
from .talk import command, talk
from .wish import Order

# Failures after which another try may help: the host is booting, or continues its work alone.
AGAIN = frozenset({*ELSEWHERE, Kind.CUT, Kind.AUTH})
# Seconds between tries; right after a boot, sudo or Python may not be ready yet.
PAUSE = 3.0
# Seconds within which a host that is lost at work may come back, as after a reboot.
BACK_WITHIN = 180.0
# Seconds after which a host that is away may have another address, and between two looks for it.
LOOK_AFTER, LOOK_AGAIN = 10.0, 10.0
# Seconds between signs of life; after three without an answer a host is lost.
KEEPALIVE = 5.0
# Seconds without news for which a slice's workers wait for the findings of its first one.
PATIENCE = 900.0
# From this number of workers, only the first of a slice gets the collection from the controller.
# In smaller slices, waiting for it would not pay.
SHARE_FROM = 4
# Seconds for which the others wait for it.
SHARE_PATIENCE = 30.0
# What to do about workers of a slice that differ, by the role whose results differ.
REMEDIES = {
    "code_checkout": "Apply again. If it stays, undo what was changed by hand in the code there.",
    "python_env": "Undo manual changes, or build it again there: -e fleet_rebuild_venvs=true "
    "--limit {host}",
}


@dataclass(frozen=True)
class Outcome:
    """The result of one host."""

    host: str
    status: str
    """ok, failed or unreachable."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """From the recap; empty if nothing was applied."""
    reasons: Sequence[str] = ()
    problem: str = ""
    findings: Mapping[str, str] = field(default_factory=dict)
    missed: bool = False
    """An earlier call, whose connection was lost, did the work."""
    no_engine: bool = False
    """The host cannot have ansible-core; nothing was applied."""
    git_users: Mapping[str, Any] | None = None
    """The public keys for git of its users, if they were asked for and are recorded."""
    idle_runs: Sequence[Mapping[str, str]] | None = None
    """The declared runs that do not run; None if that was not looked at, or may change at once."""
    seconds: float = 0.0


Find = Callable[[Sequence[str]], Mapping[str, Target]]
"""Returns how hosts are reached now, by name; those that it does not know are left out."""
Heard = Callable[[str, dict[str, Any]], None]
"""Called with a host and a message of it."""


class Group:
    """The workers of one slice, which share what the first one finds out."""

    def __init__(self, hosts: Sequence[str], patience: float = PATIENCE) -> None:
        self.hosts = tuple(hosts)
        self.patience = patience
        # The hosts that are not done, in order; the first one leads.
        self._at_it = list(hosts)
        self._found: dict[str, dict[str, Any]] = {}
        self._well = False
        # The collection's URL at the first worker; empty if the others get it from the controller.
        self._source: str | None = None if len(hosts) >= SHARE_FROM else ""
        self._changed = asyncio.Condition()

    @property
    def _complete(self) -> bool:
        # Not every slice has code and an environment: a first worker that is well has found all.
        return self._well or any(
            set(SHARED.values()) <= set(values) for values in self._found.values()
        )

    @property
    def shared(self) -> dict[str, Any]:
        """Return the findings; those of the earliest worker count."""
        found: dict[str, Any] = {}
        for host in reversed(self.hosts):
            found.update(self._found.get(host, {}))
        return found

    def leads(self, host: str) -> bool:
        """Return whether a host is the first that is not done."""
        return self._at_it[:1] == [host]

    async def found(self, host: str, values: Mapping[str, Any]) -> None:
        """Record what a host found out."""
        async with self._changed:
            self._found.setdefault(host, {}).update(values)
            self._changed.notify_all()

    async def serves(self, url: str) -> None:
        """Record where the first worker serves the collection; empty if it does not."""
        async with self._changed:
            self._source = url
            self._changed.notify_all()

    async def source(self, host: str) -> str:
        """Wait until the first worker serves; return the URL, or an empty text without one."""
        async with self._changed:
            try:
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: self._source is not None or self.leads(host)),
                    SHARE_PATIENCE,
                )
            except TimeoutError:
                self._source = ""
            return "" if self.leads(host) else self._source or ""

    async def done(self, host: str, well: bool = False) -> None:
        """Record that a host has finished, well or not."""
        async with self._changed:
            if self.leads(host):
                self._well = self._well or well
                # It stops serving when its work ends.
                self._source = ""
            if host in self._at_it:
                self._at_it.remove(host)
            self._changed.notify_all()

    async def peers(self, host: str) -> dict[str, dict[str, Any]]:
        """Wait until the first worker has found everything, or is done; return the findings."""
        async with self._changed:
            while not self._complete and self._at_it[:1] not in ([], [host]):
                first = self._at_it[0]
                try:
                    await asyncio.wait_for(self._changed.wait(), self.patience)
                except TimeoutError:
                    # It is slow or stuck, so the next one leads.
                    if self._at_it[:1] == [first]:
                        self._at_it.remove(first)
                        self._changed.notify_all()
            return dict(self._found)


class Call:
    """One call to all hosts."""

    def __init__(
        self,
        orders: Sequence[Order],
        agent: bytes,
        who: str,
        heard: Heard,
        settings: Settings,
        publishes: bool = False,
        git_keys: bool = False,
        ended: Callable[[str], None] = lambda _host: None,
        find: Find = lambda _hosts: {},
    ) -> None:
        # Publishing needs the shared findings even if no host follows.
        self.publishes = publishes
        self.git_keys = git_keys
        self.ended = ended
        self.find = find
        self._outcomes: dict[str, Outcome] = {}
        self._targets: dict[str, Target] = {}
        self._rounds: list[asyncio.Future[None]] = []
        # The hosts that are called again in a moment, and since when each is away.
        self._away: list[str] = []
        self._away_since: dict[str, float] = {}
        self._denied_since: dict[str, float] = {}
        # The hosts whose work had begun when they were lost.
        self._begun: set[str] = set()
        self._next_look = 0.0
        self.orders = {order.host: order for order in orders}
        self.agent = agent
        self.who = who
        self.heard = heard
        self.settings = settings
        by_slice: dict[str, list[str]] = {}
        for order in orders:
            by_slice.setdefault(order.slice, []).append(order.host)
        self.groups = {name: Group(hosts) for name, hosts in by_slice.items()}

    async def run(self, targets: Sequence[Target], timeout: float) -> list[Outcome]:
        """Call all hosts, and call each that is lost or away again until its time is over.

        `timeout` is in seconds, from the first failure. A host whose work has begun has at least
        BACK_WITHIN.
        """
        make_room(len(targets))
        self._timeout = timeout
        self._targets = {target.name: target for target in targets}
        self._news = asyncio.Event()
        self._start(targets)
        while self._rounds or self._away:
            if self._away:
                await asyncio.sleep(PAUSE)
                self._ask_for_addresses()
                away, self._away = self._away, []
                self._start([self._targets[name] for name in away])
            else:
                await self._news.wait()
            self._news.clear()
            for one in [one for one in self._rounds if one.done()]:
                self._rounds.remove(one)
                one.result()
        return [self._outcomes[target.name] for target in targets]

    def _start(self, targets: Sequence[Target]) -> None:
        """Call hosts beside those that are being called."""
        self._rounds.append(asyncio.ensure_future(self._round(targets)))

    async def _round(self, targets: Sequence[Target]) -> None:
        try:
            async for result in self._once(targets):
                self._outcomes[result.name] = outcome_of(result)
                if self._may_come_back(result):
                    self._away.append(result.name)
                    self._news.set()
                else:
                    self.ended(result.name)
        finally:
            self._news.set()

    def _may_come_back(self, result: Result) -> bool:
        if result.kind not in AGAIN or self._is_denied(result, self._denied_since):
            return False
        now = time.monotonic()
        patience = self._timeout
        if result.kind is Kind.CUT:
            self._away_since[result.name] = now
            self._begun.add(result.name)
        if result.name in self._begun:
            patience = max(patience, BACK_WITHIN)
        return now + PAUSE <= self._away_since.setdefault(result.name, now) + patience

    def _ask_for_addresses(self) -> None:
        """Take the present addresses of hosts that have been away for some time."""
        now = time.monotonic()
        long = [name for name in self._away if now - self._away_since[name] >= LOOK_AFTER]
        if not long or now < self._next_look:
            return
        for name, target in self.find(long).items():
            if target.address != self._targets[name].address:
                self.heard(name, {"say": "moved", "address": target.address})
            self._targets[name] = target
        self._next_look = time.monotonic() + LOOK_AGAIN

    @staticmethod
    def _is_denied(result: Result, since: dict[str, float]) -> bool:
        """Return whether a host has denied the login for so long that retries are useless."""
        if result.kind is not Kind.AUTH:
            since.pop(result.name, None)
            return False
        now = time.monotonic()
        return now - since.setdefault(result.name, now) >= DENIED_FOR

    async def _once(self, targets: Sequence[Target]) -> Any:
        def line(target: Target) -> str:
            return command(self.agent, become=target.user != "root")

        async with aclosing(
            fan_out(targets, line, talk=self._talk, settings=self.settings)
        ) as stream:
            async for result in stream:
                await self.groups[self.orders[result.name].slice].done(result.name)
                yield result

    async def _talk(self, channel: Channel) -> dict[str, Any]:
        order = self.orders[channel.target.name]
        group = self.groups[order.slice]
        leads = group.leads(order.host)
        tasks = []

        def heard(said: dict[str, Any]) -> None:
            if said["say"] == "serves":
                url = f"http://{order.address}:{said['port']}"
                tasks.append(asyncio.ensure_future(group.serves(url if said["port"] else "")))
            elif said.get("event") == "shared":
                values = {said["name"]: said["value"]} if said["name"] in SHARED.values() else {}
                tasks.append(asyncio.ensure_future(group.found(order.host, values)))
            else:
                self.heard(order.host, said)

        async def peers() -> dict[str, Any]:
            found = await group.peers(order.host)
            return {host: {**values, "tpu_vm_name": order.slice} for host, values in found.items()}

        async def elsewhere(name: str) -> str:
            nearer = await group.source(order.host) if name == order.wish["code"] else ""
            return f"{nearer}/{name}" if nearer else ""

        serve = order.address if leads and len(group.hosts) >= SHARE_FROM else ""
        if leads and not serve:
            await group.serves("")
        request = {
            "wish": order.wish,
            "serve": serve,
            "peers": [self.orders[name].address for name in group.hosts] if serve else [],
            "who": self.who,
            # Earlier findings may be large, and only later workers need them.
            "lead": leads and (len(group.hosts) > 1 or self.publishes),
            "follow": not leads,
            "git_keys": self.git_keys,
        }
        result = await talk(
            channel, request, order.files, self.agent, heard, peers, elsewhere, order.host
        )
        await asyncio.gather(*tasks)
        shared = result.pop("shared")
        await group.found(order.host, {n: v for n, v in shared.items() if n in SHARED.values()})
        # What one that followed did not look for, the others may lack.
        await group.done(order.host, well=leads and result["status"] == "ok")
        return result


def outcome_of(result: Result) -> Outcome:
    """Return the outcome for a result of the call, wherever it ended."""
    if isinstance(result.value, dict):
        value = result.value
        return Outcome(
            result.name,
            status="ok" if value["status"] == "ok" else "failed",
            counts=value.get("counts", {}),
            reasons=value.get("reasons", ()),
            problem=value.get("problem", ""),
            findings=value.get("findings", {}),
            missed=bool(value.get("missed")),
            no_engine=bool(value.get("no_engine")),
            git_users=value.get("git_users"),
            idle_runs=value.get("idle_runs"),
            seconds=result.seconds,
        )
    said = shown(result.stderr.decode("utf-8", "replace"), 4096)
    problem = " ".join(part for part in (result.says, result.remedy, said) if part)
    kind = "unreachable" if result.kind in AGAIN - {Kind.CUT} else "failed"
    if result.kind is Kind.CUT:
        problem = f"The connection was lost; the host continues. Run this again later. {problem}"
    return Outcome(
        result.name,
        status=kind,
        problem=problem or f"the program on the host ended with {result.exit_status}",
        seconds=result.seconds,
    )


def disagreements(outcomes: Sequence[Outcome], slices: Mapping[str, str]) -> list[Outcome]:
    """Return the outcomes, failed where a host's findings differ from those of its slice."""
    first: dict[str, Outcome] = {}
    told = []
    for outcome in outcomes:
        if outcome.status != "ok":
            told.append(outcome)
            continue
        leader = first.setdefault(slices[outcome.host], outcome)
        different = [
            role
            for role, found in outcome.findings.items()
            if leader.findings.get(role, found) != found
        ]
        if different:
            remedies = [REMEDIES[role].format(host=outcome.host) for role in different]
            problem = (
                f"What {' and '.join(different)} installed on {outcome.host} differs from what is "
                f"on {leader.host}, which belongs to the same slice. {' '.join(remedies)}"
            )
            outcome = dataclasses.replace(outcome, status="failed", problem=problem)
        told.append(outcome)
    return told
