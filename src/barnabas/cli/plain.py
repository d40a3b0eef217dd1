"""What the commands share that start without typer and rich: their parser, and the way a started server reports."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

READY_FD: Final = "BARNABAS_READY_FD"
STATUS_FILE: Final = "status.json"
"""Beside a broker's ``server.properties``: what it says of itself while it runs."""
"""The environment's variable with the descriptor on which a server says that it is ready, or why it is not."""


class Parser(argparse.ArgumentParser):
    """Usage errors in the form of all our errors."""

    def error(self, message: str) -> Any:
        print(f"barnabas: {message}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)
