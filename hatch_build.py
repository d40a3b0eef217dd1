"""Builds what is faster in C, where that can be; the package works without it.

The kernel (``src/barnabas/wire/_kernel.c``) takes a C compiler. The hot path, Python that mypyc translates, also takes
Python's headers; a broker's process then runs it compiled (``barnabas/runtime/compiled.py``).

Hatchling builds both for each wheel and editable install. ``python hatch_build.py`` builds them into the source tree.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent
PACKAGE = ROOT / "src" / "barnabas"
WIRE = PACKAGE / "wire"
SOURCES = (
    WIRE / "_kernel.c",
    *(WIRE / f"_{name}.h" for name in ("avro", "codec", "columns", "python", "scan", "slabs")),
)
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


def complaints(missing: str | None, interpreted: str | None) -> list[str]:
    """What is slower than it could be, and why."""
    said = [] if missing is None else [f"barnabas checks records in Python, slowly: {missing}"]
    return said if interpreted is None else [*said, f"barnabas runs its hot path interpreted, slowly: {interpreted}"]


HOT_PATH = (
    *("broker/answering_connection.py", "broker/authorize.py", "broker/connection.py", "broker/context.py"),
    *("broker/framed_connection.py", "broker/guarded_connection.py", "broker/handlers/fetch.py"),
    *("broker/handlers/produce.py", "broker/quotas.py", "broker/repeated_fetch.py", "broker/request_channel.py"),
    *("broker/request_cost.py", "broker/request_figures.py", "broker/request_memory.py", "broker/request_metrics.py"),
    *("client/connection.py", "client/exchange.py"),
    *("log/batches.py", "log/copying.py", "log/following.py", "log/index_file.py", "log/leader_epoch_cache.py"),
    *("log/log.py", "log/log_dir.py", "log/log_segments.py", "log/offset_index.py", "log/producer_state.py"),
    *("log/readable_log.py", "log/refusals.py", "log/results.py", "log/segment.py", "log/settings.py"),
    *("log/time_index.py", "log/txn_index.py", "log/validation.py"),
    *("model/leadership.py",),
    *("replica/appending.py", "replica/delayed_delete_records.py", "replica/delayed_fetch.py"),
    *("replica/delayed_produce.py", "replica/fetch_session.py", "replica/fetch_session_handler.py"),
    *("replica/fetch_state.py", "replica/fetchers.py"),
    *("replica/fetching.py", "replica/followed_partitions.py", "replica/hosted_partitions.py", "replica/leading.py"),
    *("replica/one_partition_fetch.py", "replica/partition.py", "replica/progress.py", "replica/purgatories.py"),
    *("replica/purgatory.py", "replica/readable_partition.py", "replica/replication_quota.py", "replica/traffic.py"),
    "replica/truncation.py",
    *("runtime/file_records.py", "runtime/real.py"),
    *("security/authorizer.py", "wire/coding.py", "wire/frames.py", "wire/plans.py", "wire/varint.py"),
)
"""What a produce and a fetch spend their time in. A class here has no base and no subclass that is not here as well."""
MYPYC = ("mypy==2.4.1", "setuptools>=80")
TO_C = """
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext


class OnEveryCore(build_ext):
    def build_extensions(self):
        compiles = self.compiler.compile

        def beside_others(sources, **how):
            with ThreadPoolExecutor(cpu_count()) as pool:
                return [made for each in pool.map(lambda source: compiles([source], **how), sources) for made in each]

        self.compiler.compile = beside_others
        super().build_extensions()


modules = mypycify({}, opt_level="1", debug_level="0", multi_file=True)
setup(name="barnabas", ext_modules=modules, cmdclass={{"build_ext": OnEveryCore}})
"""
"""A C file for each module, and a compiler for each core: all of them in one file, as mypyc does by itself, take the
compiler three times as long."""


def compiled_from() -> list[str]:
    """The hot path, and the modules whose constants mypyc writes into it: those that it imports."""
    found = {*HOT_PATH}
    for name in HOT_PATH:
        for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("barnabas."):
                module = PACKAGE.parent / str(node.module).replace(".", "/")
                inside = [module / f"{alias.name}.py" for alias in node.names]
                files = (module.with_suffix(".py"), module / "__init__.py", *inside)
                found.update(file.relative_to(PACKAGE).as_posix() for file in files if file.exists())
    return sorted(found)


def in_the_package() -> ModuleType:
    """``barnabas/runtime/compiled.py``, which says what is current, without the package and what that needs."""
    spec = importlib.util.spec_from_file_location("compiled", PACKAGE / "runtime" / "compiled.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cannot_compile() -> str | None:
    """Why mypyc is of no use here, were it installed; None where it is of use."""
    if not has_stable_abi():
        return "it is not CPython with a GIL"
    if compiler() is None:
        return "there is no C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return f"Python's headers are not in {sysconfig.get_path('include')}"
    return None


def compile_hot_path() -> str | None:
    """Why the hot path is interpreted now; None where it is compiled."""
    compiled = in_the_package()
    place, suffix = compiled.PLACE, compiled.SUFFIX
    note = place / f"sources{suffix}.txt"
    made_from = compiled_from()
    sources = "\n".join((compiled.digest_of(made_from, PACKAGE), *made_from)) + "\n"
    there = {made.name.removesuffix(suffix) for made in place.glob(f"barnabas.*{suffix}")}
    wanted = {f"barnabas.{name.removesuffix('.py').replace('/', '.')}" for name in HOT_PATH}
    if note.exists() and note.read_text() == sources and there == wanted:
        return None
    for stale in place.glob(f"*{suffix}*"):
        stale.unlink()
    missing, command = cannot_compile(), compiler()
    if missing is None and not all(map(importlib.util.find_spec, ("mypyc", "setuptools"))):
        missing = "mypyc is not installed"
    if missing is not None or command is None:
        return missing
    with tempfile.TemporaryDirectory() as directory:
        at = Path(directory)
        shutil.copytree(PACKAGE, at / "barnabas", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        (at / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n")
        (at / "setup.py").write_text(TO_C.format([f"barnabas/{name}" for name in HOT_PATH]))
        run = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=at,
            env={**os.environ, "CC": shlex.join(command)},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            return f"mypyc failed:\n{run.stdout}{run.stderr}"
        place.mkdir(exist_ok=True)
        for made in sorted(at.rglob(f"*{suffix}")):
            if "build" not in made.relative_to(at).parts:
                shutil.move(made, place / ".".join(made.relative_to(at).parts))
    note.write_text(sources)
    return None


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    pass
else:

    class FasterInC(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
        """A wheel with a kernel is one for this platform and CPython from 3.11 on; one without is for all. An sdist has
        the sources, of which its wheel is built."""

        def dependencies(self) -> list[str]:
            return [] if self.target_name == "sdist" or cannot_compile() else list(MYPYC)

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.target_name == "sdist":
                return
            missing, interpreted = build(), compile_hot_path()
            for said in complaints(missing, interpreted):
                self.app.display_warning(said)
            if missing is None and self.target_name == "wheel" and version == "standard":
                build_data["pure_python"] = False
                build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
                build_data["artifacts"].append(f"/{BUILT.relative_to(Path(self.root)).as_posix()}")
                if interpreted is None:
                    build_data["artifacts"].append("/src/barnabas/_compiled/*")


if __name__ == "__main__":
    print(*complaints(build(), compile_hot_path()), sep="\n", end="", file=sys.stderr)
