"""What Apache Kafka's brokers write into their logs, without whom they write of: sets of messages can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_LINE = re.compile(r"\[[0-9:, -]+\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)")
_LOGGER = re.compile(r"\(([A-Za-z0-9_.$]+)\)$")
_COMPLAINTS = frozenset({"WARN", "ERROR", "FATAL"})
_STORIES = ("kafka.controller.", "state.change.logger")
STORY_LEVELS = {"kafka.controller": "DEBUG", "state.change.logger": "DEBUG", "kafka.request.logger": "DEBUG"}
"""Levels by logger, for `ApacheCluster`, with which `stories` has all it may have."""
_REQUESTS = "kafka.request.logger"
_UNFORESEEN = re.compile(r'"errorCode":-1\b')
_API = re.compile(r'"requestApiKeyName":"([A-Z_]+)"')


def normalised(message: str) -> str:
    """What was said, without whom it was said about: the text up to its first details, and the logger's name."""
    logger = _LOGGER.search(message)
    text = message[: logger.start()] if logger is not None else message
    while text.startswith("["):
        text = text.partition("]")[2].lstrip(" :")
    text = re.split(r"[\[({=]|\b(Hash)?(Set|Map)\b|\bList\b", text)[0]
    text = re.sub(r"0x[0-9a-f]+", "N", text)
    # Which of the controller's events its session expires in the midst of is chance.
    text = re.sub(r"^(Error processing event) \w+", r"\1 EVENT", text)
    text = re.sub(r"\b(__\w+|t|u|v|judge-\w+-(registers|transfers|list-append|bank))-\d+", "PARTITION", text)
    text = re.sub(r"(PARTITION)([, ]+PARTITION)+", r"\1", text)
    text = re.sub(r"\bjudge-\w+-(rd-)?(committeds?|readers|copiers|auditors)\b", "GROUP", text)
    text = re.sub(r"\bjudge-\w+-(rd-)?(copier|transactor-\d+|teller-\d+)\b", "TRANSACTIONAL_ID", text)
    text = re.sub(r"[\w.]*/?N?[\d.]+:\d+|\d+", "N", text)
    text = re.sub(r"\bN(,N)+\b", "N", text)
    return " ".join(text.split()) + (f" ({logger[1]})" if logger is not None else "")


def _lines(directory: Path) -> Iterator[tuple[str, str]]:
    """Level and message, of every broker's log below `directory`."""
    for log in directory.glob("broker-*/server.log"):
        with log.open(errors="replace") as lines:
            for line in lines:
                told = _LINE.match(line.rstrip())
                if told is not None:
                    yield told[1], told[2]


def complaints(directory: Path) -> set[str]:
    """WARN and above."""
    return {f"{level} {normalised(message)}" for level, message in _lines(directory) if level in _COMPLAINTS}


def stories(directory: Path) -> set[str]:
    """Complaints, all that the controller and the state changes tell, and which requests ended in an unforeseen error.

    The brokers' loggers have `STORY_LEVELS`.
    """
    found: set[str] = set()
    for level, message in _lines(directory):
        logger = _LOGGER.search(message)
        name = "" if logger is None else logger[1]
        if name == _REQUESTS:
            api = _API.search(message)
            if api is not None and _UNFORESEEN.search(message):
                found.add(f"{level} UNKNOWN_SERVER_ERROR is the answer to {api[1]} ({name})")
        elif level in _COMPLAINTS or name.startswith(_STORIES):
            found.add(f"{level} {normalised(message)}")
    return found
