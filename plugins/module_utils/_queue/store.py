# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the queue over a bucket.

A write is carried out on the condition that the object is still the one that was read. Where its
answer is lost, the object is read again: the nonce in it says whether it was this write. So a step
is done, or another was faster (None), or nothing is known (NoAnswer): then it is repeated later.
"""

from __future__ import annotations

from .access import since_boot
from .people import Exists, People
from .saying import Saying
from .seen import Listing, Seen
from .tending import Tending

__all__ = ["Exists", "Listing", "Queue", "Seen", "since_boot"]


class Queue(People, Saying, Tending):
    """The queue in a bucket's folder, for one thread.

    All methods but those that say otherwise may raise NoAnswer, and may be called again then.
    """
