"""Errors as Kafka's tools print them: with the Java exception's name and text, which is what people search for."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Final, NoReturn, ParamSpec, TextIO, TypeVar

from barnabas.model.errors import KafkaError

ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
EXECUTION: Final = "java.util.concurrent.ExecutionException"
RUNTIME: Final = "java.lang.RuntimeException"
TIMEOUT: Final = "org.apache.kafka.common.errors.TimeoutException"
KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"

_PACKAGE: Final = "org.apache.kafka.common.errors"
_OUTSIDE: Final = {"InvalidRecordException": "org.apache.kafka.common"}

P = ParamSpec("P")
T = TypeVar("T")


class ToolExit(Exception):
    """Ends the tool with this code; the reason has been printed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class JavaError(Exception):
    """The exception that a Java tool would throw. ``str`` gives what Java's ``toString`` does: the class and its
    message."""

    def __init__(self, name: str, message: str | None = None, cause: JavaError | None = None) -> None:
        super().__init__(name if message is None else f"{name}: {message}")
        self.name = name
        self.message = message
        self.cause = cause

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


def illegal_argument(message: str) -> JavaError:
    return JavaError(ILLEGAL_ARGUMENT, message)


def java_error(error: KafkaError) -> JavaError:
    """The exception that Kafka's Java client makes from an error."""
    # If an answer has no text, this client's text ends with the code's name; Kafka's client has its own text.
    own = not error.message or error.message.endswith(error.code.name)
    return java_error_of(error.code, None if own else error.message)


def java_error_of(code: int, message: str | None = None) -> JavaError:
    """The exception for an answer's error code and message; None stands for Kafka's own text for the code."""
    from barnabas.model.error_texts import ERRORS

    name, text = ERRORS[int(code)]
    return JavaError(f"{_OUTSIDE.get(name, _PACKAGE)}.{name}", text if message is None else message)


def wrapped(name: str, cause: JavaError) -> JavaError:
    """An exception that another one caused, whose description is its message."""
    return JavaError(name, str(cause), cause)


def in_future(error: KafkaError) -> JavaError:
    """The error in the form in which ``KafkaFuture.get`` throws it."""
    return wrapped(EXECUTION, java_error(error))


def at_runtime(error: KafkaError) -> JavaError:
    """The error in the form in which a method without checked exceptions throws it."""
    return wrapped(RUNTIME, in_future(error))


def of_futures(story: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Runs `story`; its errors are thrown in the form of ``KafkaFuture.get``."""

    @wraps(story)
    async def told(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await story(*arguments, **named)
        except KafkaError as error:
            raise in_future(error) from error

    return told


def check_answer(code: int, message: str | None = None) -> None:
    """If the answer has an error, raises what ``KafkaFuture.get`` throws."""
    if code:
        raise wrapped(EXECUTION, java_error_of(code, message))


def log(level: str, message: str, logger: str) -> None:
    """Prints a line to the standard error in the format of Kafka's ``tools-log4j.properties``."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    sys.stdout.flush()
    print(f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {message} ({logger})", file=sys.stderr)


def print_stack_trace(error: JavaError, stream: TextIO | None = None) -> None:
    """Prints the exception and its causes, by default to the standard error. Java's stack frames are left out."""
    sys.stdout.flush()
    print(error, file=stream or sys.stderr)
    cause = error.cause
    while cause is not None:
        print(f"Caused by: {cause}", file=stream or sys.stderr)
        cause = cause.cause


def told_with_trace(error: JavaError) -> int:
    """Prints an exception's message, then the exception as `print_stack_trace` does. Returns the exit code."""
    print(error.message, file=sys.stderr)
    print_stack_trace(error)
    print(file=sys.stderr)
    return 1


def end_with(message: str | None) -> NoReturn:
    """Prints the reason to the standard error. Raises `ToolExit` with 1."""
    sys.stdout.flush()
    print(message, file=sys.stderr)
    raise ToolExit(1)


def told_as_uncaught(error: JavaError) -> int:
    """Prints an exception as Java prints one that leaves ``main``. Returns the exit code."""
    sys.stdout.flush()
    sys.stderr.write('Exception in thread "main" ')
    print_stack_trace(error)
    return 1
