"""What a task does for the tasks behind it in the same Python worker.

Spark's worker collects all garbage after each task, and looks through every object for it: with numpy, pyarrow and
numba there that was two thirds of what a stream's tasks cost. What libraries make stays as long as the process.
"""

from __future__ import annotations

import gc
import sys

_modules_kept = 0


def keep_libraries() -> None:
    """Keeps all present objects out of later collections, where more was imported since the last call.

    Called at the beginning of a task: there is no garbage then.
    """
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        gc.freeze()
        _modules_kept = len(sys.modules)
