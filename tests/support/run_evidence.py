"""Evidence of the workers of a run, as they write it, for tests of `tpu-fleet why`."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import evidence_of

from tpu_fleet.why.case import Case, Worker

AT = 1_795_644_000.0
SITE = "/opt/venvs/jax/lib/python3.12/site-packages"
STD = "/usr/lib/python3.12"
CODE = "/home/alice/digits"
Frames = list[list[Any]]

MAIN = ["main", f"{CODE}/train.py", 51]
MODULE = ["<module>", f"{CODE}/train.py", 90]
TRAIN: Frames = [MAIN, MODULE]
ALL_REDUCE: Frames = [
    ["_value", f"{SITE}/jax/_src/array.py", 634],
    ["process_allgather", f"{SITE}/jax/experimental/multihost_utils.py", 120],
    *TRAIN,
]
TORCH_REDUCE: Frames = [
    ["all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 2810],
    ["wrapper", f"{SITE}/torch/distributed/c10d_logger.py", 81],
    *TRAIN,
]
STEP: Frames = [
    ["__call__", f"{SITE}/jax/_src/interpreters/pxla.py", 1297],
    ["cache_miss", f"{SITE}/jax/_src/pjit.py", 340],
    ["reraise_with_filtered_traceback", f"{SITE}/jax/_src/traceback_util.py", 180],
    *TRAIN,
]
QUEUE_GET: Frames = [
    ["wait", f"{STD}/threading.py", 355],
    ["get", f"{STD}/queue.py", 171],
    ["next_batch", f"{CODE}/data.py", 88],
    *TRAIN,
]
QUEUE_PUT: Frames = [
    ["wait", f"{STD}/threading.py", 355],
    ["put", f"{STD}/queue.py", 140],
    ["feed", f"{CODE}/data.py", 88],
    *TRAIN,
]
LOADER: Frames = [
    ["wait", f"{STD}/threading.py", 359],
    ["get", f"{STD}/multiprocessing/queues.py", 113],
    ["_try_get_data", f"{SITE}/torch/utils/data/dataloader.py", 1133],
    ["__next__", f"{SITE}/torch/utils/data/dataloader.py", 630],
    ["batches", f"{CODE}/data.py", 31],
    *TRAIN,
]
CONNECT: Frames = [
    ["initialize", f"{SITE}/jax/_src/distributed.py", 132],
    ["initialize", f"{SITE}/jax/_src/distributed.py", 247],
    ["setup", f"{CODE}/train.py", 20],
    MODULE,
]
COMPILE: Frames = [
    ["backend_compile_and_load", f"{SITE}/jax/_src/compiler.py", 390],
    ["compile_or_get_cached", f"{SITE}/jax/_src/compiler.py", 480],
    ["cache_miss", f"{SITE}/jax/_src/pjit.py", 340],
    *TRAIN,
]
RESTORE: Frames = [
    ["select", f"{STD}/selectors.py", 468],
    ["run_until_complete", f"{STD}/asyncio/base_events.py", 674],
    ["restore", f"{SITE}/orbax/checkpoint/checkpointers/checkpointer.py", 280],
    ["load", f"{CODE}/ckpt.py", 12],
    *TRAIN,
]
SAVE: Frames = [
    ["join", f"{STD}/threading.py", 1149],
    ["wait_until_finished", f"{SITE}/orbax/checkpoint/checkpoint_manager.py", 1900],
    ["save", f"{CODE}/ckpt.py", 30],
    *TRAIN,
]
BARRIER_OF_SAVE: Frames = [
    ["sync_global_devices", f"{SITE}/jax/experimental/multihost_utils.py", 91],
    ["sync_global_processes", f"{SITE}/orbax/checkpoint/multihost/utils.py", 170],
    ["save", f"{SITE}/orbax/checkpoint/checkpoint_manager.py", 1300],
    ["save", f"{CODE}/ckpt.py", 30],
    *TRAIN,
]
CHIPS: Frames = [
    ["make_c_api_client", f"{SITE}/jax/_src/xla_bridge.py", 200],
    ["backends", f"{SITE}/jax/_src/xla_bridge.py", 850],
    ["devices", f"{SITE}/jax/_src/xla_bridge.py", 950],
    ["setup", f"{CODE}/train.py", 25],
    MODULE,
]
BREAKPOINT: Frames = [
    ["interaction", f"{STD}/pdb.py", 430],
    ["user_line", f"{STD}/pdb.py", 340],
    ["trace_dispatch", f"{STD}/bdb.py", 90],
    ["loss", f"{CODE}/model.py", 40],
    *TRAIN,
]
REQUEST: Frames = [
    ["recv_into", f"{STD}/socket.py", 707],
    ["getresponse", f"{STD}/http/client.py", 1428],
    ["send", f"{SITE}/requests/adapters.py", 667],
    ["get", f"{SITE}/requests/api.py", 73],
    ["report", f"{CODE}/log.py", 9],
    *TRAIN,
]
CHILD: Frames = [
    ["_try_wait", f"{STD}/subprocess.py", 2011],
    ["wait", f"{STD}/subprocess.py", 1264],
    ["convert", f"{CODE}/data.py", 44],
    *TRAIN,
]


def own(function: str, file: str, line: int) -> Frames:
    """Return the stack of a line of the user, called by the training."""
    return [[function, f"{CODE}/{file}", line], *TRAIN]


def thread(tid: int, frames: Frames | None, **told: Any) -> dict[str, Any]:
    """Return a thread that waits, with these frames."""
    waits = {"state": "S", "wchan": "futex_wait_queue", "syscall": "futex"}
    return {"tid": tid, "name": "python", **waits, "python": frames, **told}


def process(pid: int, *threads: dict[str, Any], **told: Any) -> dict[str, Any]:
    """Return a process; its first thread is the main one."""
    whole = {"state": "S", "command": "python train.py", "age_s": 900.0, "parent": 1}
    return {"pid": pid, **whole, "threads": list(threads), **told}


def seen(number: int, frames: Frames | None = None, **told: Any) -> dict[str, Any]:
    """Return the evidence of a worker whose program stands at these frames, quiet for 14 min.

    `run` and other keys of `told` change it; `waits` has what the kernel says of the thread.
    """
    run = {"name": "digits", "attempt": 1, "state": "running", "program": "running"}
    run |= {"step": 812, "step_age_s": 840.0, "step_s": 0.5, "log_age_s": 840.0, "workers": 4}
    run |= {"started_age_s": 7200.0, "agent": True, **told.pop("run", {})}
    pid = 4000 + number
    waits = told.pop("waits", {})
    whole = {"worker": number, "host": f"pod-w{number}", "at": AT, "run": run}
    if "processes" not in told:
        told["processes"] = [process(pid, thread(pid, frames or STEP, **waits))]
    return {**whole, **told}


def worker(told: dict[str, Any] | str | Worker) -> Worker:
    """Return a worker with evidence; of a text, `2: why`, one that has none."""
    if isinstance(told, Worker):
        return told
    if isinstance(told, str):
        number, _colon, why = told.partition(": ")
        return Worker(int(number), f"pod-w{number}", None, why)
    return Worker(told["worker"], told["host"], evidence_of(told["host"], told))


def case(*told: dict[str, Any] | str | Worker) -> Case:
    """Return one look at these workers."""
    return Case("digits", "pod", tuple(worker(one) for one in told))


def with_odd(
    one: dict[str, Any] | str | Worker, count: int = 4, others: Frames | None = None
) -> Case:
    """Return a run whose last worker is `one`, while all others wait in an all-reduce."""
    waiting = [seen(number, others or ALL_REDUCE) for number in range(count - 1)]
    return case(*waiting, one)
