"""The command ``barnabas``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    if sys.platform == "win32":
        sys.exit("barnabas runs on Linux and macOS. On Windows, install and run it inside WSL.")
    # Imports make many objects and no garbage: until a command runs the collector would only cost time.
    gc.disable()
    try:
        from barnabas.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
