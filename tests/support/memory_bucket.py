"""A bucket in memory, with preconditions, for what asks it through _queue.bucket.Bucket."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping

from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import PAGE, Stored


class MemoryBucket:
    """Objects by name. All that is asked is counted."""

    def __init__(self) -> None:
        self.items: dict[str, Stored] = {}
        self.asked: Counter[str] = Counter()
        self._names: list[str] = []
        self._generation = 0

    def get(self, name: str) -> Stored | None:
        self.asked["get"] += 1
        return self.items.get(name)

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Mapping[str, str],
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        self.asked["put"] += 1
        before = self.items.get(name)
        if generation is not None and generation != (before.generation if before else 0):
            return None
        if metageneration is not None and (not before or before.metageneration != metageneration):
            return None
        if before is None:
            insort(self._names, name)
        self._generation += 1
        self.items[name] = Stored(name, self._generation, 1, dict(metadata), data)
        return self._generation

    def patch(
        self, name: str, metadata: Mapping[str, str], generation: int, metageneration: int
    ) -> int | None:
        self.asked["patch"] += 1
        before = self.items.get(name)
        if before is None or before[1:3] != (generation, metageneration):
            return None
        self.items[name] = before._replace(
            metageneration=metageneration + 1, metadata={**before.metadata, **metadata}
        )
        return metageneration + 1

    def list(self, prefix: str, token: str = "", most: int = PAGE) -> tuple[list[Stored], str]:
        self.asked["list"] += 1
        begins = bisect_left(self._names, token or prefix)
        names = self._names[begins : begins + most + 1]
        fit = [name for name in names if name.startswith(prefix)]
        more = fit[most] if len(fit) > most else ""
        return [self.items[name]._replace(data=b"") for name in fit[:most]], more

    def delete(self, name: str, generation: int | None = None) -> bool:
        self.asked["delete"] += 1
        before = self.items.get(name)
        if before is None or generation not in (None, before.generation):
            return False
        del self.items[name]
        del self._names[bisect_left(self._names, name)]
        return True
