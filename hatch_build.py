"""Builds the kernel (``src/barnabas/wire/_kernel.c``) where there is a C compiler; the package works without it.

Hatchling runs it for each wheel and editable install. ``python hatch_build.py`` builds it into the source tree.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

WIRE = Path(__file__).parent / "src" / "barnabas" / "wire"
SOURCES = tuple(WIRE / name for name in ("_kernel.c", "_codec.h", "_columns.h", "_python.h", "_scan.h", "_slabs.h"))
BUILT = WIRE / "_kernel.abi3.so"
FLAGS = ["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]


def compiler() -> list[str] | None:
    """The command of ``CC``, of the first C compiler on PATH, or of PyPI's ``ziglang``; None where there is none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def has_stable_abi() -> bool:
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def build() -> str | None:
    """Why there is no kernel now; None where there is one."""
    if not has_stable_abi():
        BUILT.unlink(missing_ok=True)
        return "this Python has no stable ABI"
    if BUILT.exists() and all(BUILT.stat().st_mtime_ns > source.stat().st_mtime_ns for source in SOURCES):
        return None
    BUILT.unlink(missing_ok=True)
    command = compiler()
    if command is None:
        return "there is no C compiler"
    made = BUILT.with_name(f"{BUILT.name}.{os.getpid()}")
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    try:
        run = subprocess.run(
            [*command, *FLAGS, *undefined, "-o", str(made), str(SOURCES[0])],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            return f"{shlex.join(command)} failed:\n{run.stderr}"
        made.replace(BUILT)
    except OSError as error:
        return f"{shlex.join(command)} cannot be run: {error}"
    finally:
        made.unlink(missing_ok=True)
    return None


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    pass
else:

    class KernelHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
        """A wheel with a kernel is one for this platform and CPython from 3.11 on; one without is for all."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            missing = build()
            if missing is not None:
                self.app.display_warning(f"barnabas checks records in Python, slowly: {missing}")
            elif self.target_name == "wheel" and version == "standard":
                build_data["pure_python"] = False
                build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
                build_data["artifacts"].append(f"/{BUILT.relative_to(Path(self.root)).as_posix()}")


if __name__ == "__main__":
    reason = build()
    if reason is not None:
        print(f"barnabas checks records in Python, slowly: {reason}", file=sys.stderr)
