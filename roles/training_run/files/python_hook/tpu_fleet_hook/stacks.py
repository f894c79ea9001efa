"""Have the process write the stacks of all its threads to the run's own file, on a signal.

Not to its standard error: the log would have them, and a run that hangs would seem to live.
"""

import faulthandler
import os

_SIGNAL = 59  # SIGABRT and SIGQUIT would end the process, SIGUSR1 may be the program's own
_HOW = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

_file = os.open(os.environ["TPU_FLEET_STACKS"], _HOW, 0o600)
faulthandler.register(_SIGNAL, file=_file, all_threads=True, chain=False)
