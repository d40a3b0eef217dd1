"""The command ``barnabas``. A broker and the coordinator start without the command line's libraries."""

from __future__ import annotations

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["broker"] and "--help" not in arguments:
        from barnabas.cli.process import broker_main

        sys.exit(broker_main(arguments[1:]))
    if arguments[:1] == ["coordinator"] and "--help" not in arguments:
        from barnabas.cli.process import coordinator_main

        sys.exit(coordinator_main(arguments[1:]))
    from barnabas.cli.app import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
