"""The figures of one kind of request, and the times of one request (`barnabas.broker.request_metrics`)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.runtime import Histogram


class RequestFigures:
    """One kind of request: how many in which version, answered with which errors, and their times."""

    __slots__ = (
        "errors",
        "local",
        "name",
        "queue",
        "remote",
        "request_bytes",
        "requests",
        "response_queue",
        "send",
        "throttle",
        "total",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: dict[int, int] = {}
        self.errors: dict[int, int] = {}
        """Error codes, including 0, of answers or of single topics and partitions in them."""
        self.request_bytes = 0
        self.queue = Histogram()
        """Time until a request began, after the earlier ones that had to be answered first."""
        self.local = Histogram()
        """Time until it was answered, or began to wait."""
        self.remote = Histogram()
        """Time of waiting: for followers, for records, for the controller."""
        self.throttle = Histogram()
        self.response_queue = Histogram()
        """Time from the answer until its turn to leave."""
        self.send = Histogram()
        self.total = Histogram()

    def count(self, version: int, requests: int = 1) -> None:
        self.requests[version] = self.requests.get(version, 0) + requests

    def count_error(self, code: int, times: int = 1) -> None:
        self.errors[code] = self.errors.get(code, 0) + times


class Timing:
    """The times of one measured request; made when the request begins."""

    __slots__ = ("_began_ns", "_clock", "_ended_ns", "_local_ns", "_queue_ns", "_weight", "figures", "waits")

    def __init__(self, clock: Callable[[], int], arrived_ns: int, weight: int = 1) -> None:
        self.figures: RequestFigures | None = None
        """None until the request's kind is known."""
        self.waits = False
        """Whether another part tells when the request is answered."""
        self._clock = clock
        self._weight = weight
        self._began_ns = clock()
        self._queue_ns = self._began_ns - arrived_ns if arrived_ns else 0
        self._local_ns = 0
        self._ended_ns = 0

    def begun(self) -> None:
        """Notes that the request is answered, or waits from now on."""
        self._ended_ns = self._clock()
        self._local_ns = self._ended_ns - self._began_ns

    def ended(self) -> None:
        """Notes that the request waits no longer."""
        self._ended_ns = self._clock()

    def sent(self, since_ns: int = 0) -> None:
        """Notes that the answer has left; `since_ns` is when its turn came, if it had to wait for that."""
        figures, weight, now_ns = self.figures, self._weight, self._clock()
        assert figures is not None, "what is answered has a name"
        turn_ns = since_ns or self._ended_ns
        figures.queue.observe(self._queue_ns, weight)
        figures.local.observe(self._local_ns, weight)
        figures.remote.observe(self._ended_ns - self._began_ns - self._local_ns, weight)
        figures.response_queue.observe(turn_ns - self._ended_ns, weight)
        figures.send.observe(now_ns - turn_ns, weight)
        figures.total.observe(now_ns - self._began_ns + self._queue_ns, weight)
