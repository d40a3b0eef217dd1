"""The doors to the world (clock, disk, network, entropy) and how stories run behind them."""

from barnabas.runtime.doors import Bytes, Clock, Disk, Entropy, File, Listener, Lock, Network, Runtime
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.sparing_log import SparingLog
from barnabas.runtime.story import Condition, Story, Tasks, and_then, drive, ended, to_its_end, within
from barnabas.runtime.unreached import cause_of, handshake_failed

__all__ = [
    "Bytes",
    "Clock",
    "Condition",
    "Disk",
    "Entropy",
    "File",
    "Histogram",
    "Listener",
    "Lock",
    "Network",
    "Runtime",
    "SparingLog",
    "Story",
    "Tasks",
    "and_then",
    "cause_of",
    "drive",
    "ended",
    "handshake_failed",
    "to_its_end",
    "within",
]
