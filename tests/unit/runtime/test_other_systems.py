"""What differs between Linux and macOS, and where there is no uvloop: by the system's own names, injected."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

from barnabas.__main__ import main
from barnabas.cli.bench import app
from barnabas.cli.output import UsageError
from barnabas.runtime import descriptors, file_records, real
from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.real import RealDisk
from barnabas.runtime.syncing import syncing


class System(ModuleType):
    """``os`` and ``fcntl`` of a system with `names`, and what it was asked for."""

    def __init__(self, *names: str, refusal: int = 0) -> None:
        super().__init__("system")
        self.asked: list[str] = []
        self.refusal = refusal
        for name in names:
            setattr(self, name, 51 if name.isupper() else lambda descriptor, name=name: self.asked.append(name))
        self.fcntl = self.control

    def control(self, descriptor: int, command: int) -> None:
        assert command == 51
        self.asked.append("F_FULLFSYNC")
        if self.refusal:
            raise OSError(self.refusal, "no")


@pytest.mark.parametrize(
    ("system", "data", "all_of_it"),
    [
        (System("fsync", "fdatasync"), ["fdatasync"], ["fsync"]),
        (System("fsync"), ["fsync"], ["fsync"]),
        (System("fsync", "F_FULLFSYNC"), ["F_FULLFSYNC"], ["F_FULLFSYNC"]),
        (System("fsync", "F_FULLFSYNC", refusal=errno.ENOTSUP), ["F_FULLFSYNC", "fsync"], ["F_FULLFSYNC", "fsync"]),
    ],
    ids=["Linux", "without fdatasync", "macOS", "a network's disk on macOS"],
)
def test_a_sync_reaches_the_platter_by_the_call_that_does_so_here(
    system: System, data: list[str], all_of_it: list[str]
) -> None:
    sync_data, sync_all = syncing(system, system)
    sync_data(7)
    assert system.asked == data
    system.asked.clear()
    sync_all(7)
    assert system.asked == all_of_it


def test_a_full_sync_that_fails_is_not_taken_for_one_that_is_not_known() -> None:
    system = System("fsync", "F_FULLFSYNC", refusal=errno.EIO)
    with pytest.raises(OSError, match="no"):
        syncing(system, system)[0](7)
    assert system.asked == ["F_FULLFSYNC"]


def test_the_disk_syncs_files_checkpoints_and_directories_in_full_where_there_is_such_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System("fsync", "F_FULLFSYNC")
    data, whole = syncing(system, system)
    monkeypatch.setattr(real, "_sync_data", data)
    monkeypatch.setattr(real, "_sync_all", whole)
    disk = RealDisk()
    file = disk.open(str(tmp_path / "log"), create=True)
    file.fsync()
    file.close()
    disk.replace(str(tmp_path / "checkpoint"), b"0")  # the file, and its directory
    assert system.asked == ["F_FULLFSYNC"] * 3


def test_without_uvloop_servers_run_on_asyncios_own_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert fastest_loop() is asyncio.SelectorEventLoop


def test_with_uvloop_servers_run_on_it() -> None:
    assert fastest_loop().__module__.startswith("uvloop")


def test_the_limit_of_open_files_is_raised_as_far_as_macos_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, resource.RLIM_INFINITY]

    def setrlimit(which: int, wanted: tuple[int, int]) -> None:
        if wanted[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        limits[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda which: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert descriptors.raise_limit() == (256, 10_240)
    assert limits == [10_240, resource.RLIM_INFINITY]
    limits[0] = 50_000
    assert descriptors.raise_limit() == (50_000, 50_000)
    assert limits[0] == 50_000


def test_what_is_sent_from_a_file_needs_no_flag_that_linux_alone_has(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(file_records.__file__).read_text()
    monkeypatch.delattr(socket, "MSG_MORE")
    there: dict[str, object] = {"__name__": "barnabas.runtime.file_records"}
    exec(compile(source, file_records.__file__, "exec"), there)
    assert there["_MORE"] == 0


def test_benches_say_that_they_want_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="Linux only"):
        app.run("barnabas bench", ["latency"])
    assert app.run("barnabas bench", ["--help"]) == 0


def test_the_command_says_in_a_sentence_that_it_does_not_run_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="inside WSL"):
        main()
