"""Have a Python process of a run write its stacks to its standard error when it is asked to.

A run with `hang_seconds` has this folder first in PYTHONPATH. Whatever sitecustomize the process
would have had is run as well. This runs in the programs' own Pythons, also old ones.
"""

import contextlib
import sys

_SIGNAL = 59  # SIGABRT and SIGQUIT would end the process, SIGUSR1 may be the program's own


def _wait_for_the_question():
    import faulthandler

    faulthandler.register(_SIGNAL, file=sys.__stderr__, all_threads=True, chain=False)


def _run_the_next():
    import importlib.machinery
    import importlib.util
    from pathlib import Path

    here = Path(__file__).resolve().parent
    rest = [entry for entry in sys.path if Path(entry).resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


with contextlib.suppress(Exception):  # one without the module, or without a standard error
    _wait_for_the_question()
_run_the_next()
