"""Where a Python stack stands: whose line it is, and what is waited for there. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import Frame, Thread

COLLECTIVE = "collective"
DEVICE = "device"
CONNECT = "connect"
CHIPS = "chips"
COMPILE = "compile"
DATA = "data"
RESTORE = "restore"
SAVE = "save"
LOCK = "lock"
SLEEP = "sleep"
NETWORK = "network"
FILES = "files"
CHILD = "child"
PERSON = "person"
COMPUTE = "compute"
UNKNOWN = "unknown"
IDLE = "idle"
FOR_OTHERS = frozenset({COLLECTIVE, DEVICE, CONNECT})
"""What a worker does only together with the others: it waits there until all have come."""


@dataclass(frozen=True)
class Sign:
    """What a frame of a library means."""

    kind: str
    file: str
    """A pattern that is searched for in the file's path."""
    function: str = ""
    """A pattern that the whole name of the function matches; empty for every function."""
    weak: bool = False
    """Whether it means this only if no other frame means something."""

    def matches(self, function: str, file: str) -> bool:
        """Return whether it is about a frame."""
        is_named = not self.function or re.fullmatch(self.function, function)
        return bool(is_named and re.search(self.file, file))


SIGNS = (
    Sign(IDLE, r"/concurrent/futures/thread\.py$", r"_worker"),
    Sign(IDLE, r"/multiprocessing/(resource_tracker|forkserver)\.py$"),
    Sign(IDLE, r"/multiprocessing/pool\.py$", r"worker|_handle_.*"),
    Sign(IDLE, r"/multiprocessing/queues\.py$", r"_feed"),
    Sign(PERSON, r"/(pdb|bdb|cmd|code)\.py$"),
    Sign(PERSON, r"/IPython/"),
    Sign(COMPILE, r"/jax/_src/compiler\.py$"),
    Sign(COMPILE, r"/jax/_src/(interpreters/(partial_eval|mlir|ad|batching)|stages)\.py$"),
    Sign(COMPILE, r"/torch/_(dynamo|inductor|functorch)/"),
    Sign(COMPILE, r"/torch_xla/.*", r".*(compile|warm_up_cache).*"),
    Sign(CONNECT, r"/jax/_src/distributed\.py$"),
    Sign(CONNECT, r"/torch/distributed/(rendezvous|elastic/.*)\.py$"),
    Sign(
        CONNECT, r"/torch/distributed/distributed_c10d\.py$", r"init_process_group|_new_.*|_store.*"
    ),
    Sign(CHIPS, r"/jax/_src/xla_bridge\.py$"),
    Sign(CHIPS, r"/(torch_xla|torch_tpu)/", r".*(init.*(device|runtime|plugin)|initialize.*).*"),
    Sign(COLLECTIVE, r"/jax/experimental/multihost_utils\.py$"),
    Sign(COLLECTIVE, r"/jax/_src/lib/.*|/jaxlib/", r"wait_at_barrier"),
    Sign(
        COLLECTIVE,
        r"/torch/distributed/",
        r"(all_|reduce|broadcast|gather|scatter|barrier|monitored_barrier|send|recv).*",
    ),
    Sign(
        COLLECTIVE,
        r"/torch_xla/",
        r"(all_|mesh_|reduce|rendezvous|collective|optimizer_step|xrt_).*",
    ),
    Sign(DEVICE, r"/torch_xla/", r"(mark_step|sync|wait_device_ops|_maybe_.*|step_closure.*)"),
    Sign(DEVICE, r"/(torch_tpu|torch/xla|torch/tpu)/", r"(synchronize|sync|wait.*)"),
    Sign(RESTORE, r"/orbax/", r".*(restore|load|deserialize).*"),
    Sign(SAVE, r"/orbax/", r".*(save|serialize|commit|wait_until_finished|write).*"),
    Sign(
        RESTORE, r"/(tensorstore|flax/(training|serialization))", r".*(restore|read|from_bytes).*"
    ),
    Sign(RESTORE, r"/torch/(serialization|distributed/checkpoint/.*)\.py$", r".*load.*"),
    Sign(SAVE, r"/torch/(serialization|distributed/checkpoint/.*)\.py$", r".*save.*"),
    Sign(DATA, r"/torch/utils/data/"),
    Sign(DATA, r"/(grain|tensorflow_datasets|webdataset|datasets|litdata|seqio|streaming)/"),
    Sign(DATA, r"/tensorflow/python/data/"),
    Sign(DATA, r"/flax/(jax_utils|training/prefetch_iterator)\.py$", r"prefetch.*|__next__"),
    Sign(DEVICE, r"/jax/_src/(array|api|pjit|dispatch|op_shardings)\.py$"),
    Sign(DEVICE, r"/jax/_src/(interpreters/pxla|profiler|traceback_util|core|compilation).*\.py$"),
    Sign(CHILD, r"/subprocess\.py$"),
    Sign(CHILD, r"/multiprocessing/(popen_\w+|process)\.py$", r"(wait|join|poll)"),
    Sign(NETWORK, r"/(requests|urllib3|aiohttp|httpx|httpcore|gcsfs|boto3|botocore|grpc|wandb)/"),
    Sign(NETWORK, r"/google/(cloud|auth|api_core|resumable_media)/"),
    Sign(NETWORK, r"/(socket|ssl|http/client|urllib/request)\.py$"),
    Sign(DATA, r"(^|/)(multiprocessing/)?(queue|queues)\.py$", r"get|put|_?recv.*", weak=True),
    Sign(DATA, r"/multiprocessing/connection\.py$", weak=True),
    Sign(LOCK, r"(^|/)threading\.py$", weak=True),
    Sign(LOCK, r"/multiprocessing/synchronize\.py$", weak=True),
    Sign(LOCK, r"/filelock/", weak=True),
    Sign(NETWORK, r"/(selectors|asyncio/.*)\.py$", weak=True),
)
ANY_FILE = re.compile("|".join(f"(?:{one.file})" for one in SIGNS))
DEVICE_WAITS = re.compile(
    r"%?(all-reduce|all-gather|all-to-all|reduce-scatter|collective-|send|recv|partition-id|barrier)"
)
"""Where a core waits for others, by the place in its program that libtpu names."""
LIBRARY = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python\d\.\d+/|^<frozen |/sitecustomize\.py$"
)
PACKAGE = re.compile(r"/(?:site|dist)-packages/(\w+)")
STANDARD = re.compile(r"/lib(?:64)?/python\d\.\d+/([\w/]+)\.py$")
PLAIN = re.compile(r"(queue|queues|threading|socket|ssl|selectors|subprocess)\.py")
"""Files of the standard library that a stack may name without their folder."""
PLUMBING = re.compile(
    r"reraise_with_filtered_traceback|cache_miss|wrapper|wrapped|inner|_call_impl|_wrapped_call_impl"
    r"|trace_dispatch|dispatch_\w+|user_line|__enter__"
)
"""Functions that stand between a user's line and what it calls."""
INSIDE = re.compile(r"/_src/(compiler|pjit|dispatch|core|interpreters/\w+|traceback_util)\.py$")
"""Files of JAX in which a call of a compiled function stands: the user has written no such call."""
ALSO = {
    "all_reduce": "an all-reduce",
    "all_gather": "an all-gather",
    "process_allgather": "an all-gather",
    "reduce_scatter": "a reduce-scatter",
    "broadcast": "a broadcast",
    "broadcast_one_to_all": "a broadcast",
    "barrier": "a barrier",
    "wait_at_barrier": "a barrier",
    "sync_global_devices": "a barrier",
    "psum": "an all-reduce",
}
"""What people call a collective, by its function."""


@dataclass(frozen=True)
class Stand:
    """Where a thread stands."""

    kind: str
    call: str = ""
    """The call of a library that the user's line has made, such as `queue.get`."""
    place: str = ""
    """The user's line, such as `data.py:88`."""
    function: str = ""
    """The user's function."""
    within: str = ""
    """RESTORE, SAVE or COMPILE, if the wait is a part of that."""
    on: str = ""
    """The file or address that its system call is about."""

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits until all workers have come to the same point."""
        return self.kind in FOR_OTHERS

    @property
    def is_blind(self) -> bool:
        """Whether it waits below the user's line, in a lock or in a library without Python frames.

        So waits a program of JAX on CPUs for a step that all compute together.
        """
        return self.kind in (LOCK, UNKNOWN) and not self.call and bool(self.place)

    @property
    def collective(self) -> str:
        """What the others are waited for in, for people."""
        name = self.call.rpartition(".")[2]
        if name in ALSO:
            return ALSO[name]
        if self.kind == DEVICE:
            return "a step on the chips"
        if self.kind == CONNECT:
            return "the start of all workers"
        return f"`{self.call}`" if self.call else "a collective"

    @property
    def at(self) -> str:
        """The call and the line, as ``` `queue.get` (data.py:88) ```."""
        if self.call:
            return f"`{self.call}`" + (f" ({self.place})" if self.place else "")
        if self.function == "<module>":
            return self.place
        return f"`{self.function}` ({self.place})" if self.place else ""


def is_library(frame: Frame) -> bool:
    """Return whether a frame is of the standard library, of a package, or of our own hook."""
    return bool(LIBRARY.search(frame.file) or PLAIN.fullmatch(frame.file))


def users_frame(frames: Sequence[Frame]) -> int | None:
    """Return the place of the innermost frame that is the user's; None if there is none.

    A program that is a package itself has no such frame; then the innermost frame counts that is
    in the package in which the stack begins.
    """
    for at, frame in enumerate(frames):
        if not is_library(frame):
            return at
    begins = [frame for frame in frames if PACKAGE.search(frame.file)]
    package = _package(begins[-1]) if begins else ""
    own = [at for at, frame in enumerate(frames) if package and _package(frame) == package]
    return own[0] if own else None


def _package(frame: Frame) -> str:
    found = PACKAGE.search(frame.file)
    return found[1] if found else ""


def call_of(frame: Frame) -> str:
    """Name the function of a library for people: `queue.get`, `jax.block_until_ready`."""
    standard = STANDARD.search(frame.file)
    stem = PurePosixPath(frame.file).stem
    if standard and not PACKAGE.search(frame.file):
        module = standard[1].replace("/", ".").removesuffix(".__init__")
    else:
        # Of a special method the file says more than the package.
        module = stem if frame.function.startswith("__") else _package(frame) or stem
    return f"{module}.{frame.function}"


def place_of(frame: Frame) -> str:
    """Name a line for people: `data.py:88`."""
    return f"{PurePosixPath(frame.file).name}:{frame.line}"


Found = tuple[int, Frame, Sign]
"""A frame that means something, with its place in the stack."""


def _signs(frames: Sequence[Frame]) -> list[Found]:
    """Return what each frame means, the innermost first."""
    found = []
    for at, frame in enumerate(frames):
        sign = sign_of(frame.function, frame.file)
        if sign is not None:
            found.append((at, frame, sign))
    return found


@lru_cache(maxsize=1 << 14)
def sign_of(function: str, file: str) -> Sign | None:
    """Return what a function of a file means; None if it means nothing."""
    if not ANY_FILE.search(file):
        return None
    return next((one for one in SIGNS if one.matches(function, file)), None)


def _chosen(found: Sequence[Found]) -> Sign | None:
    """Return the sign that says most: strong before weak, the innermost first.

    A collective is waited for on the device, so of these two it is the collective.
    """
    strong = [sign for _at, _frame, sign in found if not sign.weak]
    if not strong:
        return found[-1][2] if found else None
    first = strong[0]
    if first.kind in (DEVICE, NETWORK, CHILD):
        better = (COLLECTIVE, CONNECT, COMPILE) if first.kind == DEVICE else (CONNECT, DATA)
        return next((one for one in strong if one.kind in better), first)
    return first


def by_kernel(thread: Thread) -> str:
    """Return what a thread does whose Python line says no more than that it is there."""
    wait = f"{thread.syscall} {thread.wchan}"
    if thread.state == "R":
        return COMPUTE
    if thread.state == "D":
        return FILES
    if "futex" in wait:
        return LOCK
    if "nanosleep" in wait:
        return SLEEP
    if re.search(r"nfs|fuse|rpc_|jbd2|ext4|xfs|fsync|io_schedule", wait):
        return FILES
    if re.search(r"wait4|waitid|do_wait\b", wait):
        return CHILD
    if re.search(r"recv|sk_wait|tcp_|inet_|connect|accept", wait):
        return NETWORK
    if re.search(r"tty|n_tty", f"{wait} {thread.on}") or thread.on.startswith("/dev/pts"):
        return PERSON
    return FILES if re.search(r"read|write|pipe", wait) else UNKNOWN


def stand_of(thread: Thread) -> Stand:
    """Say where a thread stands."""
    frames = thread.python or ()
    if not frames:
        kind = by_kernel(thread)
        # Without its line it may be any wait.
        return Stand(UNKNOWN if kind == LOCK else kind, on=thread.on)
    own = users_frame(frames)
    inner = frames if own is None else frames[:own]
    signs = _signs(frames)
    chosen = _chosen([one for one in signs if one[0] < len(inner)])
    # The calls around the user's innermost line say of what a wait is a part.
    around = {sign.kind for _at, _frame, sign in signs} & {RESTORE, SAVE, COMPILE}
    kind = chosen.kind if chosen else by_kernel(thread)
    if chosen is None and COMPILE in around:
        kind = COMPILE  # the user's function is being traced
    call = _call(inner, chosen)
    within = next((one for one in (RESTORE, SAVE, COMPILE) if one in around and one != kind), "")
    if own is None:
        return Stand(kind, call or call_of(frames[0]), within=within, on=thread.on)
    user = frames[own]
    return Stand(kind, call, place_of(user), user.function, within, thread.on)


def _call(inner: Sequence[Frame], chosen: Sign | None) -> str:
    """Return the call that is shown: what people call a collective, or what their line calls."""
    if not inner:
        return ""
    named = [frame for frame in inner if frame.function in ALSO]
    if chosen and chosen.kind in FOR_OTHERS and named:
        return call_of(named[-1])
    named = [frame for frame in inner if not PLUMBING.fullmatch(frame.function)]
    if chosen and chosen.kind in (COMPILE, DEVICE):
        named = [
            one for one in named if not INSIDE.search(one.file) and not one.function.startswith("_")
        ]
    return call_of(named[-1]) if named else ""
