"""Completion as a user has it: words typed into a real bash, zsh and fish, and the Tab key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running

BEGIN, END = "<<", ">>"
HOW = {
    "bash": (["bash", "--norc", "-i"], 'bind "set bell-style none"; eval "$(barnabas completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit && compinit -D; source <(barnabas completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "barnabas completion fish | source"),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("completion"), 1) as started:
        made = barnabas("topic", "create", "flights", "orders", "-b", started.bootstrap)
        assert made.returncode == 0, made.stderr
        yield started


class Terminal:
    """A shell at a terminal of ours."""

    def __init__(self, shell: str, place: Path, directory: Path) -> None:
        words, setup = HOW[shell]
        (place / "afile.properties").write_text("")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(place),
            "TERM": "xterm",
            "BARNABAS_DIR": str(directory),
            "PS1": "$ ",
        }
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(place)
            os.execvpe(words[0], words, environment)
        self.type(f"{setup}; echo rea''dy\r")
        self.until("ready")

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def until(self, wanted: str) -> str:
        """What the pattern's group is, when it is shown, without the terminal's control sequences."""
        shown = ""
        deadline = time.monotonic() + 60
        while (found := re.search(wanted, shown)) is None:
            ready, _, _ = select.select([self.descriptor], [], [], deadline - time.monotonic())
            assert ready, f"{wanted!r} is not shown, but {shown!r}"
            data = os.read(self.descriptor, 65536).decode(errors="replace")
            # fish asks the terminal what it is before it reads a line.
            if "\x1b[0c" in data or "\x1b[c" in data:
                self.type("\x1b[?62c")
            shown += re.sub(r"\x1b\[[0-9;?>=]*[a-zA-Z@]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()=>].?", "", data)
        return found[found.re.groups]

    def completed(self, line: str) -> str:
        """The line after Tab: Ctrl-A and Ctrl-E put words around it that show it."""
        self.type(f"{line}\t")
        self.type(f"\x01echo '{BEGIN}\x05{END}'\r")
        return self.until(f"[\r\n]{BEGIN}(.*?){END}")

    def close(self) -> None:
        os.close(self.descriptor)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module", params=list(HOW))
def terminal(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    name = str(request.param)
    if shutil.which(name) is None:
        if os.environ.get("CI") != "true":
            pytest.skip(f"{name} is not installed (apt-get install {name})")
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", name]):
            subprocess.run(command, check=True, capture_output=True)
    shell = Terminal(name, tmp_path_factory.mktemp(name), cluster.directory)
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("barnabas top", "barnabas topic"),
        ("barnabas topic des", "barnabas topic describe"),
        ("barnabas topic create t --rep", "barnabas topic create t --replica"),
        ("barnabas topic describe fl", "barnabas topic describe flights"),
        ("barnabas topic describe flights ", "barnabas topic describe flights orders"),
        ("barnabas consume -t ord", "barnabas consume -t orders"),
        ("barnabas topic list --format js", "barnabas topic list --format json"),
        ("barnabas topic list --format=js", "barnabas topic list --format=json"),
        ("barnabas config describe topic:or", "barnabas config describe topic:orders"),
        ("barnabas partition elect orders-", "barnabas partition elect orders-0"),
        ("barnabas broker af", "barnabas broker afile.properties"),
    ],
)
def test_a_word_is_completed(terminal: Terminal, typed: str, completed: str) -> None:
    assert terminal.completed(typed).rstrip() == completed
