"""A connection's answers: they leave in the order of their requests, whichever is ready first.

If a request closes the connection, the close keeps that order, too. The answers to several requests of one read leave
in one write, and so do those that become ready in one turn of the loop.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container
from functools import partial
from typing import Any, Final, Protocol

from barnabas.broker.context import Disconnect, Pending, RequestContext
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.request_figures import Timing
from barnabas.model.ids import TopicPartition
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.doors import Bytes
from barnabas.runtime.file_records import FileRecords, FileSender

JOINED_BYTES: Final = 32 * 1024
"""Answers up to this size leave as one buffer; the parts of larger ones are not copied together."""


class Abandonable(Protocol):
    """The source of a later answer: a story, or an operation in a purgatory."""

    def abandon(self) -> None:
        """The connection is closed: nobody waits for the answer any more."""
        ...


class Unanswered:
    """A request that has begun, and whose answer has to wait: for its source, or for the answers before it."""

    __slots__ = ("_connection", "_settled", "answer", "context", "refusal", "timing", "waits_for")

    def __init__(
        self, connection: AnsweringConnection, context: RequestContext | None, *, settled: bool = True
    ) -> None:
        self._connection = connection
        self._settled = settled
        self.context = context
        """The context of a request whose handler returned a coroutine, else None."""
        self.timing: Timing | None = None
        """Set when the request is measured."""
        self.waits_for: Abandonable | None = None
        self.answer: list[Bytes] = []
        """Empty when there is no answer, as after acks=0."""
        self.refusal: str | None = None
        """Why the connection ends when this request's turn comes."""

    @property
    def settled(self) -> bool:
        """Whether the next request may begin: this one only waits for its answer."""
        return self._settled if self.context is None else self.context.settled

    @property
    def replicating(self) -> DelayedProduce | None:
        return None if self.context is None else self.context.replicating

    @property
    def wants_answer(self) -> bool:
        """Whether the client waits for an answer: it does for all requests but produces with acks=0."""
        return self.context is None or getattr(self.context.request, "acks", None) != 0

    def wait_for(self, operation: DelayedOperation[Any], put: Callable[[], Any]) -> None:
        """Waits for `operation`, which the request's handler returned."""
        self.waits_for = operation
        operation.then = partial(self._connection.completed, self, put)

    def ended(self, response: Any, error: BaseException | None) -> None:
        """Takes the result, or the error, of the request's handler."""
        self.waits_for = None
        if type(response) is Pending:
            if not response.operation.completed:
                self.wait_for(response.operation, response.answer)
                return
            try:
                response = response.answer()
            except Exception as failure:
                response, error = None, failure
        self._connection.story_ended(self, response, error)


class AnsweringConnection(asyncio.BufferedProtocol, ABC):
    """Keeps the unanswered requests of a connection, and sends the answers."""

    __slots__ = (
        "_channel",
        "_closed",
        "_corked",
        "_corked_bytes",
        "_ending",
        "_file_sender",
        "_flush_is_due",
        "_transport",
        "_unanswered",
        "_waiting",
        "sends_files",
    )

    def __init__(self, channel: RequestChannel) -> None:
        self._channel = channel
        self._transport: asyncio.Transport | None = None
        self._file_sender: FileSender | None = None
        self.sends_files = False
        """Whether answers may hold `FileRecords`."""
        self._unanswered: deque[Unanswered] = deque()
        self._waiting: deque[bytearray] = deque()
        """Requests that may not begin yet."""
        self._corked: list[Bytes] | None = None
        """Answers that leave together, at the end of the present step; None when each leaves at once."""
        self._corked_bytes = 0
        self._flush_is_due = False
        self._ending: str | None = None
        """Why the connection ends once the begun requests are answered; empty when the client has ended it."""
        self._closed = False

    @abstractmethod
    def _begin_waiting(self) -> None:
        """Begins requests that waited until earlier ones were answered."""

    @abstractmethod
    def _answer(self, context: RequestContext, response: Any, error: BaseException | None) -> list[Bytes]:
        """The parts to send; none when there is no response. Raises `Disconnect` when the connection has to end."""

    @abstractmethod
    def _abort(self, reason: str) -> None:
        """Ends the connection, and says why."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection; waiting requests are abandoned, but what was written is still sent."""

    @abstractmethod
    def files_wait(self) -> None:
        """A client reads slowly, and parts of files wait for it (`SendsFiles`): no request may begin."""

    @abstractmethod
    def files_sent(self) -> None:
        """The parts of files are sent."""

    @property
    def busy(self) -> bool:
        return bool(self._unanswered)

    def story_ended(self, unanswered: Unanswered, response: Any, error: BaseException | None) -> None:
        context, timing = unanswered.context, unanswered.timing
        assert context is not None
        if timing is not None:
            timing.ended()
        try:
            unanswered.answer = self._answer(context, response, error)
        except Disconnect as end:
            unanswered.refusal = str(end)
        if self._closed:
            return
        if unanswered is not self._unanswered[0]:
            self._not_first(unanswered)
            return
        if len(self._unanswered) == 1:
            self._flush()
        else:
            self._flush_soon()

    def completed(self, unanswered: Unanswered, put: Callable[[], Any]) -> None:
        """Takes the answer of a request whose operation is complete.

        This may be called in the middle of another request's append or fetch: no request begins before it ends.
        """
        unanswered.waits_for = None
        context = unanswered.context
        try:
            answer = put() if context is None else self._answer(context, put(), None)
        except Exception as error:
            try:
                if context is None:
                    raise Disconnect(f"its answer cannot be put ({error})") from error
                answer = self._answer(context, None, error)
            except Disconnect as end:
                answer, unanswered.refusal = [], str(end)
        unanswered.answer = answer
        timing = unanswered.timing
        if timing is not None:
            timing.ended()
        queue = self._unanswered
        if self._closed:
            return
        if unanswered is not queue[0]:
            self._not_first(unanswered)
            return
        if len(queue) > 1 or unanswered.refusal is not None:
            self._flush_soon()
            return
        queue.clear()
        if len(answer) == 1 and self._corked is None:
            self._transport.write(answer[0])  # type: ignore[union-attr]
        elif answer:
            self._send(answer)
        if timing is not None:
            timing.sent()
        if self._waiting or self._ending is not None:
            asyncio.get_running_loop().call_soon(self._begin_waiting)

    def _not_first(self, answered: Unanswered) -> None:
        """Keeps an answer until the earlier ones have left."""
        if answered.replicating is not None and answered.replicating.urgent:
            self._hasten(answered)

    def led_no_more(self, partitions: Container[TopicPartition]) -> None:
        """Answers about `partitions`, which this broker no longer leads, are not to wait for earlier answers."""
        for unanswered in reversed(self._unanswered):
            replicating = unanswered.replicating
            if replicating is not None and replicating.completed and replicating.is_about(partitions):
                self._hasten(unanswered)
                return

    def _hasten(self, urgent: Unanswered) -> None:
        """Completes the requests before `urgent`, where they can complete now."""
        for before in tuple(self._unanswered):
            if before is urgent:
                return
            if before.replicating is not None:
                before.replicating.hasten()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            # Later requests may end in the same turn of the loop: one write sends all their answers.
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Sends the answers whose turn has come, and begins the requests that waited for them."""
        self._flush_is_due = False
        if self._closed:
            return
        answers: list[Bytes] = []
        timings: list[Timing] = []
        unanswered = self._unanswered
        while unanswered and unanswered[0].waits_for is None:
            first = unanswered.popleft()
            if first.refusal is not None:
                self._write(answers)
                self._abort(first.refusal)
                return
            answers += first.answer
            if first.timing is not None:
                timings.append(first.timing)
        if timings:
            since_ns = self._channel.requests.clock()
            self._write(answers)
            for timing in timings:
                timing.sent(since_ns)
        else:
            self._write(answers)
        self._begin_waiting()

    def _send(self, answer: list[Bytes], timing: Timing | None = None) -> None:
        """Sends an answer, after the ones that have to leave before it."""
        if self._closed:
            return
        if self._unanswered:
            behind = Unanswered(self, None)
            behind.answer = answer
            behind.timing = timing
            self._unanswered.append(behind)
            return
        if self._corked is None:
            self._write(answer)
        else:
            self._corked += answer
            self._corked_bytes += sum(map(len, answer))
            if self._corked_bytes > JOINED_BYTES:
                self._uncork()
                self._corked = []
        if timing is not None:
            timing.sent()

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        self._corked_bytes = 0
        if corked:
            self._write(corked)

    def _write(self, parts: list[Bytes]) -> None:
        if not parts or self._closed:
            return
        if self._file_sender is not None and self._file_sender.waits:
            self._file_sender.send(parts)
            return
        transport = self._transport
        assert transport is not None
        if len(parts) == 1:
            transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_BYTES:
            transport.write(b"".join(parts))
        elif self.sends_files and any(isinstance(part, FileRecords) for part in parts):
            self._write_files(transport, parts)
        else:
            transport.writelines(parts)

    def _write_files(self, transport: asyncio.Transport, parts: list[Any]) -> None:
        if self._file_sender is None:
            try:
                self._file_sender = FileSender(transport, self)
            except OSError as error:  # no descriptor is left, and this may be in the middle of another request's append
                self._abort(f"its answer cannot be sent ({error})")
                return
        joined: list[Bytes | FileRecords] = []
        before: list[Bytes] = []
        for part in parts:
            if isinstance(part, FileRecords):
                joined += (b"".join(before), part)
                before.clear()
            else:
                before.append(part)
        self._file_sender.send([*joined, *before])
