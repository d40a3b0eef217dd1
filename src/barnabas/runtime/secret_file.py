"""A short-lived file for secrets that OpenSSL reads only from a file, and that nobody else should read."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.runtime.descriptors import briefly, opening


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """The path of a file with `data`; in memory if the system can do that (Linux), else readable by this user alone."""
    if sys.platform == "linux":
        with briefly():
            descriptor = opening(lambda: os.memfd_create("secret", os.MFD_CLOEXEC))
            try:
                # The reader of the path needs a descriptor as well: the copy's is free for it then.
                with os.fdopen(opening(lambda: os.dup(descriptor)), "wb") as file:
                    file.write(data)
                yield f"/proc/self/fd/{descriptor}"
            finally:
                os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(data)
            named.flush()
            yield named.name
