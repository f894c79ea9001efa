# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask many hosts at once to be as they are declared; hear how it goes and how it ended."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ..module_utils._apply_agent.wish import SHARED
from ..module_utils._core.worker_words import shown
from .apply_talk import command, talk
from .apply_wish import Order
from .fan_out import Channel, Result, Settings, fan_out, make_room
from .ssh_failures import DENIED_FOR, ELSEWHERE, Kind
from .ssh_targets import Target

# Worth another try: the host may still be coming up, or goes on by itself with what it had begun.
AGAIN = frozenset({*ELSEWHERE, Kind.CUT, Kind.AUTH})
# Somebody who logs in right after a boot is told to come back: sudo or Python are not there yet.
PAUSE = 3.0
# Seconds without news for which the workers of a slice wait for what its first one finds out.
PATIENCE = 900.0
# In slices of so many workers only the first gets the collection from here. With fewer it is not
# worth that they wait for it.
SHARE_FROM = 4
# Seconds for which they do.
SHARE_PATIENCE = 30.0


@dataclass(frozen=True)
class Outcome:
    """How it ended on one host."""

    host: str
    status: str
    """ok, failed or unreachable."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of the recap; empty where there was nothing to do."""
    reasons: Sequence[str] = ()
    problem: str = ""
    findings: Mapping[str, str] = field(default_factory=dict)
    missed: bool = False
    """It was done during an earlier call, whose connection was lost."""
    no_engine: bool = False
    """The host cannot have ansible-core; nothing was applied."""
    git_users: Mapping[str, Any] | None = None
    """The public keys for git of its users, where they were asked for and noted down."""
    seconds: float = 0.0


Heard = Callable[[str, dict[str, Any]], None]
"""Gets a host, and what it said."""


class Group:
    """The workers of one slice: what the first finds out, the others take."""

    def __init__(self, hosts: Sequence[str], patience: float = PATIENCE) -> None:
        self.hosts = tuple(hosts)
        self.patience = patience
        # The first that is still at it leads.
        self._at_it = list(hosts)
        self._found: dict[str, dict[str, Any]] = {}
        # Where the first has the collection for the others; empty where they get it from here.
        self._source: str | None = None if len(hosts) >= SHARE_FROM else ""
        self._changed = asyncio.Condition()

    @property
    def _complete(self) -> bool:
        return any(set(SHARED.values()) <= set(values) for values in self._found.values())

    @property
    def shared(self) -> dict[str, Any]:
        """Return what was found out, by whoever came first in the slice."""
        found: dict[str, Any] = {}
        for host in reversed(self.hosts):
            found.update(self._found.get(host, {}))
        return found

    def leads(self, host: str) -> bool:
        """Tell whether a host is the first that is still at it."""
        return self._at_it[:1] == [host]

    async def found(self, host: str, values: Mapping[str, Any]) -> None:
        """Note what a host found out."""
        async with self._changed:
            self._found.setdefault(host, {}).update(values)
            self._changed.notify_all()

    async def serves(self, url: str) -> None:
        """Note where the first worker has the collection for the others, or that it has not."""
        async with self._changed:
            self._source = url
            self._changed.notify_all()

    async def source(self, host: str) -> str:
        """Wait until the first has it; return where, or nothing for the first and in vain."""
        async with self._changed:
            try:
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: self._source is not None or self.leads(host)),
                    SHARE_PATIENCE,
                )
            except TimeoutError:
                self._source = ""
            return "" if self.leads(host) else self._source or ""

    async def done(self, host: str) -> None:
        """Note that nothing more is to be expected of a host now."""
        async with self._changed:
            if self.leads(host):
                # It serves no longer than it is at work.
                self._source = ""
            if host in self._at_it:
                self._at_it.remove(host)
            self._changed.notify_all()

    async def peers(self, host: str) -> dict[str, dict[str, Any]]:
        """Wait until the first has found out everything, or never will; return what was found."""
        async with self._changed:
            while not self._complete and self._at_it[:1] not in ([], [host]):
                first = self._at_it[0]
                try:
                    await asyncio.wait_for(self._changed.wait(), self.patience)
                except TimeoutError:
                    # It is slow or stuck. The next one leads.
                    if self._at_it[:1] == [first]:
                        self._at_it.remove(first)
                        self._changed.notify_all()
            return dict(self._found)


class Call:
    """One call of all hosts."""

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
    ) -> None:
        # What is found out is wanted also where nobody follows.
        self.publishes = publishes
        self.git_keys = git_keys
        self.ended = ended
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
        """Ask them all; those that cannot be reached again, until the time is over."""
        make_room(len(targets))
        deadline = float("inf")
        outcomes: dict[str, Outcome] = {}
        denied_since: dict[str, float] = {}
        left = list(targets)
        while left:
            again = []
            async for result in self._once(left):
                outcomes[result.name] = outcome_of(result)
                if result.kind in AGAIN and not self._is_denied(result, denied_since):
                    again.append(result.name)
            left = [target for target in left if target.name in again]
            # From the end of the first round on, which takes as long as its slowest host.
            deadline = min(deadline, time.monotonic() + timeout)
            if time.monotonic() + PAUSE > deadline:
                break
            if left:
                await asyncio.sleep(PAUSE)
        return [outcomes[target.name] for target in targets]

    @staticmethod
    def _is_denied(result: Result, since: dict[str, float]) -> bool:
        """Say whether a host has denied the login for so long that it always will."""
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
                self.ended(result.name)
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
            # What one found out earlier is of use only to those after it, and may be long.
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
        await group.done(order.host)
        return result


def outcome_of(result: Result) -> Outcome:
    """Say in one form how it ended, wherever it ended."""
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
            seconds=result.seconds,
        )
    said = shown(result.stderr.decode("utf-8", "replace"), 4096)
    problem = " ".join(part for part in (result.says, result.remedy, said) if part)
    kind = "unreachable" if result.kind in AGAIN - {Kind.CUT} else "failed"
    if result.kind is Kind.CUT:
        problem = f"The connection was lost; the host goes on. Ask again how it went. {problem}"
    return Outcome(
        result.name,
        status=kind,
        problem=problem or f"its program ended with {result.exit_status}",
        seconds=result.seconds,
    )


def disagreements(outcomes: Sequence[Outcome], slices: Mapping[str, str]) -> list[Outcome]:
    """Return the outcomes, with those failed whose findings are not those of their slice."""
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
            problem = (
                f"What {' and '.join(different)} found on {outcome.host} is not what is on "
                f"{leader.host}, which belongs to the same slice. Undo what was changed by hand, "
                "or build it anew there, for instance with -e python_env_rebuild=true --limit "
                f"{outcome.host}"
            )
            outcome = dataclasses.replace(outcome, status="failed", problem=problem)
        told.append(outcome)
    return told
