"""Quotas: whose counts, what is recorded, and for how long a client is throttled, as Kafka computes it."""

from __future__ import annotations

import pytest
from clocks import ManualClock

from barnabas.broker import quotas as quotas_module
from barnabas.broker.quotas import FETCH, PRODUCE, REQUEST, Quotas, RequestCost
from barnabas.broker.rates import THROTTLE_MAX_MS, SampledRate, TokenBucket, Windows
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.principal import Principal
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import ReadHeader
from barnabas.wire.messages.metadata import MetadataResponse
from barnabas.wire.messages.produce import ProduceResponse

TEN = Windows(11, 1000)


def test_a_rate_counts_windows_that_are_not_there_as_empty() -> None:
    rate = SampledRate(TEN)
    rate.record(1000, 0)
    assert rate.measure(0) == (100.0, 10_000)  # ten full windows, and nothing of the eleventh
    assert rate.measure(500) == (pytest.approx(1000 / 10.5), 10_500)
    for second in range(1, 11):
        rate.record(1000, second * 1000)
    assert rate.measure(10_500) == (pytest.approx(11_000 / 10.5), 10_500)


def test_samples_are_forgotten_once_nothing_of_them_is_in_the_windows() -> None:
    rate = SampledRate(TEN)
    rate.record(1000, 0)
    rate.record(1000, 900)
    assert rate.measure(11_000)[0] == pytest.approx(2000 / 11)  # its last event is still within
    assert rate.measure(11_900)[0] == 0


def test_the_throttle_is_what_brings_the_rate_back_to_the_quota() -> None:
    rate = SampledRate(TEN)
    rate.record(2000, 0)
    # (200 - 100) / 100 * 10 s (QuotaUtils.throttleTime)
    assert rate.throttle_ms(100, 0) == 10_000
    assert rate.throttle_ms(200, 0) == 0
    rate.record(-2000, 0)
    assert rate.throttle_ms(100, 0) == 0


def test_tokens_come_back_and_may_be_owed() -> None:
    bucket = TokenBucket(TEN, 5)
    bucket.take(55, 1000)  # all there are
    assert bucket.throttle_ms(1000) == 0
    bucket.take(10, 1000)
    assert bucket.throttle_ms(1000) == 2000
    assert bucket.throttle_ms(2000) == 1000
    assert bucket.throttle_ms(60_000) == 0
    bucket.take(55, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 0, "no more than all windows have is saved"
    bucket.take(1, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 200


class Connection:
    def __init__(self) -> None:
        self.throttled_ms: list[int] = []

    def throttle(self, milliseconds: int) -> None:
        self.throttled_ms.append(milliseconds)


class Context:
    """As much of a request's as quotas look at."""

    def __init__(self, user: str, client_id: str, api_key: ApiKey, version: int = 9, size: int = 0) -> None:
        self.principal = Principal("User", user)
        self.client_id = client_id
        self.header = ReadHeader(int(api_key), version, 1, client_id)
        self.version = version
        self.connection = Connection()
        self.cost = RequestCost(size, 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quotas(clock: ManualClock) -> Quotas:
    return Quotas(clock, broker_config({}))


LEVELS = [
    "clients/<default>", "clients/c", "users/<default>", "users/<default>/clients/<default>",
    "users/<default>/clients/c", "users/u", "users/u/clients/<default>", "users/u/clients/c",
]  # fmt: skip
"""From the one that gives way to all to the one that gives way to none."""


def test_the_most_specific_quota_counts(quotas: Quotas) -> None:
    for limit, level in enumerate(LEVELS, 1):
        quotas.set(level, {PRODUCE: str(limit)})
        assert quotas._limit(PRODUCE, "u", "c")[1] == limit
    for limit, level in reversed(list(enumerate(LEVELS, 1))):
        assert quotas._limit(PRODUCE, "u", "c")[1] == limit
        quotas.set(level, {})
    assert not quotas.active


@pytest.mark.parametrize(
    ("level", "counted"),
    [
        ("users/u", ("u", "")), ("users/<default>", ("u", "")),
        ("clients/c", ("", "c")), ("clients/<default>", ("", "c")),
        ("users/u/clients/<default>", ("u", "c")), ("users/<default>/clients/c", ("u", "c")),
    ],
)  # fmt: skip
def test_a_quota_is_one_client_s_or_a_user_s_together(quotas: Quotas, level: str, counted: tuple[str, str]) -> None:
    quotas.set(level, {FETCH: "5"})
    assert quotas._limit(FETCH, "u", "c") == (counted, 5.0)
    assert quotas._limit(PRODUCE, "u", "c")[1] is None


def test_who_produces_too_much_is_told_so_and_not_read_from(quotas: Quotas, clock: ManualClock) -> None:
    quotas.set("clients/c", {PRODUCE: "100"})
    assert quotas.active
    context = Context("u", "c", ApiKey.PRODUCE, size=2000)
    answer = ProduceResponse()
    quotas.settle(context, answer)
    assert answer.throttle_time_ms == 10_000
    assert context.connection.throttled_ms == [10_000]
    other = Context("u", "d", ApiKey.PRODUCE, size=2000)
    quotas.settle(other, ProduceResponse())
    assert not other.connection.throttled_ms
    silent = Context("u", "c", ApiKey.PRODUCE)
    quotas.settle(silent, None)  # acks=0 is throttled by muting alone
    assert silent.connection.throttled_ms == [10_000]


def test_a_changed_quota_counts_what_was_recorded_before(quotas: Quotas) -> None:
    quotas.set("users/u", {PRODUCE: "1000"})
    quotas.settle(Context("u", "c", ApiKey.PRODUCE, size=2000), ProduceResponse())
    quotas.set("users/u", {PRODUCE: "100"})
    context = Context("u", "d", ApiKey.PRODUCE)
    quotas.settle(context, ProduceResponse())
    assert context.connection.throttled_ms == [10_000]


def test_a_quota_counts_for_whom_it_was_asked_before_and_no_longer_than_it_is_set(quotas: Quotas) -> None:
    quotas.set("clients/other", {"producer_byte_rate": "1"})

    def throttles() -> bool:
        context = Context("u", "c", ApiKey.PRODUCE, size=100_000)
        quotas.settle(context, ProduceResponse())
        return bool(context.connection.throttled_ms)

    assert not throttles()
    quotas.set("clients/c", {"producer_byte_rate": "1"})
    assert throttles()
    quotas.set("users/u", {"producer_byte_rate": "1000000"})
    assert not throttles(), "a user's own goes before it"
    quotas.set("users/u", {})
    assert throttles()
    quotas.set("clients/c", {})
    assert not throttles()


def test_a_throttled_fetch_does_not_count(quotas: Quotas) -> None:
    quotas.set("users/u", {FETCH: "100"})
    context = Context("u", "c", ApiKey.FETCH)
    assert quotas.fetch_max_bytes(context) == 1000
    assert quotas.fetched(context, 3000) == 20_000
    assert context.connection.throttled_ms == [20_000]
    assert quotas.fetched(context, 1000) == 0
    quotas.settle(context, ProduceResponse())
    assert context.connection.throttled_ms == [20_000], "a fetch is settled where it is read"


def test_time_is_a_share_and_a_throttle_for_it_lasts_a_window(quotas: Quotas, clock: ManualClock) -> None:
    quotas.set("users/<default>", {REQUEST: "1"})
    context = Context("u", "c", ApiKey.METADATA)
    context.cost.busy_ns = 200_000_000  # a fifth of a second: 2 % of the ten windows
    answer = MetadataResponse()
    quotas.settle(context, answer)
    assert answer.throttle_time_ms == 1000
    exempt = Context("u", "c", ApiKey.LEADER_AND_ISR)
    quotas.settle(exempt, None)
    assert not exempt.connection.throttled_ms


def test_mutations_are_refused_once_the_quota_is_used_up_and_never_before(quotas: Quotas, clock: ManualClock) -> None:
    quotas.set("users/u", {"controller_mutation_rate": "1"})
    first = Context("u", "c", ApiKey.CREATE_TOPICS, version=6)
    quotas.mutations(first, strict_since=6).record(20)  # 11 there were
    quotas.settle(first, MetadataResponse())
    assert not first.connection.throttled_ms
    second = Context("u", "c", ApiKey.CREATE_TOPICS, version=6)
    with pytest.raises(KafkaError) as refused:
        quotas.mutations(second, strict_since=6).record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    quotas.settle(second, MetadataResponse())
    assert second.connection.throttled_ms == [9000]
    old = Context("u", "c", ApiKey.CREATE_TOPICS, version=5)
    quotas.mutations(old, strict_since=6).record(1)
    quotas.settle(old, MetadataResponse())
    assert old.connection.throttled_ms == [10_000]


def test_an_address_that_connects_too_often_waits_and_is_refused(quotas: Quotas, clock: ManualClock) -> None:
    quotas.set("ips/10.0.0.1", {"connection_creation_rate": "1"})
    assert quotas.limits_addresses
    assert not quotas.active
    assert [quotas.refuse_address("10.0.0.1") for _ in range(10)] == [0] * 10
    assert quotas.refuse_address("10.0.0.1") == 1000
    assert quotas.refuse_address("10.0.0.2") == 0
    quotas.set("ips/<default>", {"connection_creation_rate": "1"})
    assert [quotas.refuse_address("10.0.0.2") for _ in range(11)][-1] == 1000
    quotas.set("ips/%3A%3A1", {"connection_creation_rate": "100"})
    assert [quotas.refuse_address("0:0:0:0:0:0:0:1") for _ in range(11)][-1] == 0


def test_connections_of_a_listener_that_come_too_often_are_delayed_and_count(
    quotas: Quotas, clock: ManualClock
) -> None:
    """Those that an address makes beyond its own rate are refused, and do not count (``ConnectionQuotas``)."""
    assert [quotas.delay_connection(1.0) for _ in range(10)] == [0] * 10
    assert quotas.delay_connection(1.0) == 1000
    assert [quotas.delay_connection(1.0, "OTHER") for _ in range(11)][-1] == 1000, "each listener has its own rate"
    clock.ms += 2_000
    assert quotas.delay_connection(1.0) == 1000, "twelve within ten seconds"
    quotas.set("ips/10.0.0.1", {"connection_creation_rate": "1"})
    refused = [quotas.refuse_address("10.0.0.1") for _ in range(20)]
    assert refused == [0] * 10 + [1000] * 10
    clock.ms += 1_100
    assert quotas.refuse_address("10.0.0.1") == 900, "the refused ones do not count"


def test_names_in_paths_are_sanitized(quotas: Quotas) -> None:
    quotas.set("users/a%20b/clients/%3Cdefault%3E", {PRODUCE: "1"})
    context = Context("a b", "<default>", ApiKey.PRODUCE, size=100)
    quotas.settle(context, ProduceResponse())
    assert context.connection.throttled_ms
    other = Context("a b", "x", ApiKey.PRODUCE, size=100)
    quotas.settle(other, ProduceResponse())
    assert not other.connection.throttled_ms


def test_names_that_strangers_make_up_are_forgotten_and_do_not_make_every_request_dear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas_module, "METERS_MAX", 10)
    clock = ManualClock()
    quotas = Quotas(clock, broker_config({}))
    quotas.set("clients/<default>", {PRODUCE: "1000"})
    looked = 0

    class Counting(dict):  # type: ignore[type-arg]
        def items(self):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += 1
            return super().items()

    quotas._meters = Counting()
    for number in range(100):
        quotas.settle(Context("u", f"c{number}", ApiKey.PRODUCE, size=1), ProduceResponse())  # type: ignore[arg-type]
    assert looked == 1
    assert len(quotas._meters) == 100
    clock.ms += 60_000
    quotas.settle(Context("u", "late", ApiKey.PRODUCE, size=1), ProduceResponse())  # type: ignore[arg-type]
    assert len(quotas._meters) == 1


def test_a_quota_of_next_to_nothing_throttles_for_as_long_as_a_response_can_say() -> None:
    next_to_nothing = 1e-310  # what is owed, divided by it, is more than a double holds
    rate = SampledRate(TEN)
    rate.record(1_000_000, 0)
    bucket = TokenBucket(TEN, next_to_nothing)
    bucket.take(1_000_000, 0)
    assert rate.throttle_ms(next_to_nothing, 0) == bucket.throttle_ms(0) == THROTTLE_MAX_MS
