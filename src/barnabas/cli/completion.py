"""``barnabas completion``: scripts for bash, zsh and fish that complete commands, options and the cluster's names.

A shell asks ``barnabas __complete SHELL WORD..`` to complete the last word, and gets one candidate a line, each
followed by a tab and its meaning. Exit code 3 means that the word is a file's name, which the shell completes itself.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from barnabas.cli.command import HELP_FLAGS, Argument, Command, CommandGroup, Parameter, RawCommand
from barnabas.cli.options import Reach
from barnabas.cli.output import CommandError

FILES: Final = 3
PATIENCE_MS: Final = 1_000
"""How long completion waits for names from a cluster."""
_FILE_WORDS: Final = ("FILE", "PATH", "DIR", "ARCHIVE", "D")

_BASH: Final = """\
_barnabas() {
    local candidate _ files IFS=$'\\n'
    COMPREPLY=()
    local answer
    answer=$("${COMP_WORDS[0]}" __complete bash "$COMP_LINE" "$COMP_POINT" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ $? == 3 ]]; then
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
        return
    fi
    for candidate in $answer; do COMPREPLY+=("${candidate%%$'\\t'*}"); done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:=] ]] && compopt -o nospace
}
complete -F _barnabas barnabas
"""

_ZSH: Final = """\
#compdef barnabas
_barnabas() {
    local answer line
    local -a candidates
    answer=$("${words[1]}" __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $? == 3 )); then _files; return; fi
    for line in "${(@f)answer}"; do
        [[ -n $line ]] && candidates+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    (( $#candidates )) && _describe -V barnabas candidates
}
if [[ $funcstack[1] == _barnabas ]]; then _barnabas "$@"; else compdef _barnabas barnabas; fi
"""

_FISH: Final = """\
function __barnabas_complete
    set -l words (commandline -opc)
    set -l answer ($words[1] __complete fish $words[2..] (commandline -ct) 2>/dev/null)
    if test $status = 3
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $answer
    end
end
complete -c barnabas -f -a '(__barnabas_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class Candidate(NamedTuple):
    word: str
    help: str = ""


def completion(shell: Annotated[str, Argument(metavar="bash|zsh|fish", complete="shell")]) -> None:
    """Print the script by which a shell completes these commands.

    bash: `eval "$(barnabas completion bash)"` in ~/.bashrc. zsh: `source <(barnabas completion zsh)` in ~/.zshrc, after
    compinit. fish: `barnabas completion fish > ~/.config/fish/completions/barnabas.fish`.
    """
    if shell not in SCRIPTS:
        raise CommandError(f"There is no completion for {shell}; the shells are {', '.join(SCRIPTS)}.", 2)
    sys.stdout.write(SCRIPTS[shell])


def answer(arguments: Sequence[str]) -> int:
    """``barnabas __complete``. bash cuts words at COMP_WORDBREAKS, so its candidates begin after the last cut."""
    shell, *words = arguments
    cut = 0
    if shell == "bash":
        line, point, breaks = words
        words = _words_of(line.encode()[: int(point)].decode(errors="replace"))
        cut = max((words[-1].rfind(character) + 1 for character in breaks if character in ":="), default=0)
    from barnabas.cli.app import ROOT

    found = candidates(ROOT, words[1:] if shell == "bash" else words)
    if found is None:
        return FILES
    for candidate in found:
        print(f"{candidate.word[cut:]}\t{candidate.help}")
    return 0


def _words_of(line: str) -> list[str]:
    """The words of an unfinished command line; the last one is empty if the line ends with a space."""
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return [*shlex.split(line + closing), *([""] if line[-1:].isspace() else [])]
    return line.split()


def candidates(root: CommandGroup, words: Sequence[str]) -> list[Candidate] | None:
    """The candidates for the last of `words`; None if it is a file's name."""
    *before, current = words or [""]
    entry: CommandGroup | Command | None = root
    while isinstance(entry, CommandGroup):
        if not before:
            commands = [Candidate(*completion) for completion in entry.completions()]
            flags = [Candidate(flag, "Show help.") for flag in HELP_FLAGS] if current.startswith("-") else []
            return _fitting([*commands, *flags], current)
        entry = entry.find(before.pop(0))
    if isinstance(entry, RawCommand):
        return None
    return [] if entry is None else _within(entry, before, current)


def _within(command: Command, before: Sequence[str], current: str) -> list[Candidate] | None:
    by_flag = {flag: parameter for parameter in command.parameters for flag in parameter.spec.flags}
    places = [parameter for parameter in command.parameters if parameter.positional]
    given: dict[str, list[str]] = {}
    waiting: Parameter | None = None
    for word in before:
        flag, equals, value = word.partition("=")
        if waiting is not None:
            given.setdefault(waiting.name, []).append(word)
            waiting = None
        elif flag in by_flag:
            parameter = by_flag[flag]
            given.setdefault(parameter.name, [])
            if equals:
                given[parameter.name].append(value)
            elif not parameter.is_flag:
                waiting = parameter
        elif not word.startswith("-"):
            place = _place(places, given)
            if place is not None:
                given.setdefault(place.name, []).append(word)
    if waiting is not None:
        return _values(waiting, given, current)
    flag, equals, value = current.partition("=")
    if equals and flag.startswith("--") and flag in by_flag:
        values = _values(by_flag[flag], given, value)
        return (
            None if values is None else [Candidate(f"{flag}={candidate.word}", candidate.help) for candidate in values]
        )
    place = _place(places, given)
    if place is not None and not current.startswith("-"):
        return _values(place, given, current)
    unused = [parameter for parameter in command.parameters if parameter.many or parameter.name not in given]
    flags = [
        Candidate(flag, parameter.spec.help)
        for parameter in unused
        for flag in parameter.spec.flags
        if flag.startswith("--")
    ]
    return _fitting([*flags, Candidate("--help", "Show help.")], current)


def _place(places: Iterable[Parameter], given: Mapping[str, object]) -> Parameter | None:
    return next((place for place in places if place.many or place.name not in given), None)


def _values(parameter: Parameter, given: Mapping[str, list[str]], current: str) -> list[Candidate] | None:
    if parameter.choices:
        return _fitting(map(Candidate, parameter.choices), current)
    if parameter.spec.complete is not None:
        taken = given.get(parameter.name, []) if parameter.many else []
        found = KINDS[parameter.spec.complete](given, current)
        return _fitting((candidate for candidate in found if candidate.word not in taken), current)
    is_file = parameter.kind is Path or parameter.metavar.strip("[].").split(".")[0] in _FILE_WORDS
    return None if is_file else []


def _fitting(found: Iterable[Candidate], current: str) -> list[Candidate]:
    return [candidate for candidate in found if candidate.word.startswith(current)]


# names from the cluster


def _topics(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    for topic in _metadata(given).topics.values():
        if not topic.is_internal or current.startswith("_"):
            yield Candidate(topic.name, f"{len(topic.partitions)} partitions")


def _partitions(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    for topic in _metadata(given).topics.values():
        for partition in topic.partitions.values():
            if not topic.is_internal or current.startswith("_"):
                yield Candidate(f"{topic.name}-{partition.partition}", f"leader {partition.leader}")


def _brokers(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    for node in _metadata(given).brokers.values():
        yield Candidate(str(node.broker_id), f"{node.host}:{node.port}")


def _resources(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    kind, colon, _ = current.partition(":")
    if not colon:
        yield Candidate("topic:")
        yield Candidate("broker:")
        return
    if kind == "broker":
        yield Candidate("broker:all", "every broker")
    for candidate in {"topic": _topics, "broker": _brokers}[kind](given, "") if kind in ("topic", "broker") else ():
        yield Candidate(f"{kind}:{candidate.word}", candidate.help)


def _groups(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    for group in _asked(given, lambda admin: admin.list_groups()):
        yield Candidate(group.group, group.state)


def _transactional_ids(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    for listing in _asked(given, lambda admin: admin.list_transactions()):
        yield Candidate(listing.transactional_id, listing.state)


def _metadata(given: Mapping[str, list[str]]) -> Any:
    return _asked(given, lambda admin: admin.cluster.refresh(None))


def _asked(given: Mapping[str, list[str]], story: Callable[[Any], Any]) -> Any:
    import asyncio

    from barnabas.cli.connect import security_of, settings_of
    from barnabas.client.admin import Admin
    from barnabas.client.cluster import ClusterClient
    from barnabas.runtime.real import real_runtime

    bootstrap, directory, file = (
        next(iter(given.get(name, [])), None) for name in ("bootstrap", "directory", "command_config")
    )
    at = Reach(bootstrap, directory, given.get("properties"), file)
    settings = settings_of(at)
    tls, login = security_of(settings)
    servers = at.servers(settings.get("bootstrap.servers"))

    async def run() -> Any:
        cluster = ClusterClient(real_runtime(), servers, retry_timeout_ms=PATIENCE_MS, tls=tls, login=login)
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                return await story(Admin(cluster))
        finally:
            await cluster.close()

    return asyncio.run(run())


def _shells(given: Mapping[str, list[str]], current: str) -> Iterator[Candidate]:
    return map(Candidate, SCRIPTS)


KINDS: Final[Mapping[str, Callable[[Mapping[str, list[str]], str], Iterator[Candidate]]]] = {
    "topic": _topics,
    "partition": _partitions,
    "broker": _brokers,
    "resource": _resources,
    "group": _groups,
    "transactional-id": _transactional_ids,
    "shell": _shells,
}
"""The kinds of values that `Option.complete` names, and how each is completed."""
