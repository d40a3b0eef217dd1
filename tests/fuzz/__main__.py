"""As `strangers` tells, against what brokers run: the hot path compiled, where it is."""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.runtime.compiled import is_taken, take_compiled

take_compiled()
sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.strangers import main  # noqa: E402 -- nothing of it may be imported before

main("compiled" if is_taken() else "interpreted")
