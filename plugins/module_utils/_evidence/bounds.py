# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much evidence there may be: the worker cuts to this, the controller refuses more.

The run agent uses this file too.
"""

ANSWER = 4 * 1024 * 1024
"""Bytes of all that a worker answers: its evidence, and the same as text for people."""
EVIDENCE = 2 * 1024 * 1024
RAW = 1024 * 1024
"""Characters of the text for people."""
PROCESSES = 200
THREADS = 2000
"""Threads of all processes together."""
FRAMES = 60
"""Frames of a thread; a deeper stack loses its outermost ones."""
LINES = 60
"""Lines of a traceback or of the log's end."""
TEXT = 300
HOLDERS = 200
LISTENING = 500
CONNECTING = 100
PEERS = 1000
CORES = 64
QUEUED = 64
METRICS = 200
DISKS = 10
PROBLEMS = 60
