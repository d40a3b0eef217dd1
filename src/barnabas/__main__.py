"""The command ``barnabas``. Servers, and what starts and stops them, run without the command line's libraries."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    # Imports make many objects and no garbage: until they are done the collector would only cost time.
    gc.disable()
    arguments = sys.argv[1:]
    from barnabas.cli.cluster import is_plain, run_plain

    if arguments and is_plain(arguments[0]):
        sys.exit(run_plain(arguments[0], arguments[1:]))
    from barnabas.cli.app import run

    gc.enable()
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
