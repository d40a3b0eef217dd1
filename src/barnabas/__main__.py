"""The command ``barnabas``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    if sys.platform == "win32":
        sys.exit("barnabas runs on Linux and macOS. On Windows, install and run it inside WSL.")
    _fill_closed_descriptors()
    # Imports make many objects and no garbage: until a command runs the collector would only cost time.
    gc.disable()
    try:
        from barnabas.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


def _fill_closed_descriptors() -> None:
    """As gnulib's stdopen: no file or socket of ours gets the number of a standard stream that was closed. Who reads or
    writes one learns it; complaints have nobody to hear them."""
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    if sys.stdin is None:
        sys.stdin = open(0)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115


if __name__ == "__main__":
    main()
