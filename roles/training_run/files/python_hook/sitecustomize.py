"""Begin each Python process of a run with what tpu.fleet has in it, a file for each concern.

Every run has this folder first in PYTHONPATH. The files of tpu_fleet_hook beside this one run in
the order of their names, together in less than 5 ms; an error in one is the end of that one alone.
Whatever sitecustomize the process would have had is run as well. This runs in the programs' own
Pythons, also old ones, and imports nothing that takes time: not even contextlib or pathlib.
"""

import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120


def _begin_ours():
    folder = os.path.join(_HERE, "tpu_fleet_hook")  # noqa: PTH118
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        if name.endswith(".py"):
            _run(os.path.join(folder, name))  # noqa: PTH118


def _run(path):
    try:
        with open(path, encoding="utf-8") as stream:
            code = compile(stream.read(), path, "exec")
        exec(code, {"__name__": "tpu_fleet_hook", "__file__": path})  # noqa: S102 - root's own
    except Exception:  # noqa: S110 - the program begins without it
        pass


def _run_the_next():
    from importlib.machinery import PathFinder

    rest = [entry for entry in sys.path if os.path.realpath(entry) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:  # noqa: SIM105 - contextlib would be imported for it
    _begin_ours()
except Exception:  # noqa: S110 - the folder is being replaced
    pass
_run_the_next()
