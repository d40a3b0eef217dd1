"""Who may do what by which ACLs: the rules of Kafka's ``AclAuthorizer``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.security.acls import EVERYBODY, MAX_DECISIONS, WILDCARD, Acl, AclAuthorizer, AclFilter, Resource
from barnabas.security.principal import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PREFIXED = PatternType.PREFIXED


def with_acls(*acls: tuple[Resource, Acl], allow_everyone: bool = False) -> AclAuthorizer:
    authorizer = AclAuthorizer([Principal("User", "root")], allow_everyone_if_no_acl_found=allow_everyone)
    for resource in dict.fromkeys(resource for resource, _ in acls):
        authorizer.update(resource, [acl for of, acl in acls if of == resource])
    return authorizer


def topic(name: str, pattern_type: PatternType = PatternType.LITERAL) -> Resource:
    return Resource(TOPIC, name, pattern_type)


def acl(
    principal: str = "User:alice",
    operation: Operation = READ,
    permission: Permission = ALLOW,
    host: str = WILDCARD,
) -> Acl:
    return Acl(principal, host, operation, permission)


def test_without_an_acl_only_super_users_may() -> None:
    authorizer = with_acls()
    assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    assert authorizer.allows(Principal("User", "root"), HOST, READ, TOPIC, "orders")
    assert not authorizer.allows(Principal("Group", "root"), HOST, READ, TOPIC, "orders")


def test_everyone_may_where_no_acl_is_found_and_the_broker_says_so() -> None:
    authorizer = with_acls((topic("orders"), acl()), allow_everyone=True)
    assert authorizer.allows(BOB, HOST, READ, TOPIC, "others")
    assert not authorizer.allows(BOB, HOST, READ, TOPIC, "orders")
    assert not authorizer.allows(ALICE, HOST, WRITE, TOPIC, "orders")


@pytest.mark.parametrize(
    ("resource", "name", "allowed"),
    [
        (topic("orders"), "orders", True),
        (topic("orders"), "orders-eu", False),
        (topic("orders", PREFIXED), "orders-eu", True),
        (topic("orders", PREFIXED), "orders", True),
        (topic("orders", PREFIXED), "order", False),
        (topic(WILDCARD), "orders", True),
        (topic(WILDCARD, PREFIXED), "orders", False),
        (topic(WILDCARD, PREFIXED), "*orders", True),
        (Resource(GROUP, "orders"), "orders", False),
    ],
)
def test_names_are_literal_prefixes_or_all(resource: Resource, name: str, allowed: bool) -> None:
    assert with_acls((resource, acl())).allows(ALICE, HOST, READ, TOPIC, name) is allowed


@pytest.mark.parametrize("denied", [topic("orders"), topic("ord", PREFIXED), topic(WILDCARD)])
@pytest.mark.parametrize("allowed", [topic("orders"), topic("ord", PREFIXED), topic(WILDCARD)])
def test_who_is_denied_is_denied_whoever_allows_it(denied: Resource, allowed: Resource) -> None:
    authorizer = with_acls((allowed, acl(operation=ALL)), (denied, acl(permission=DENY)))
    assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    assert authorizer.allows(ALICE, HOST, WRITE, TOPIC, "orders")
    assert not authorizer.allows(BOB, HOST, WRITE, TOPIC, "orders")


def test_hosts_and_everybody() -> None:
    authorizer = with_acls((topic("orders"), acl(EVERYBODY)), (topic("orders"), acl(permission=DENY, host="10.0.0.2")))
    assert authorizer.allows(BOB, "10.0.0.2", READ, TOPIC, "orders")
    assert authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    assert not authorizer.allows(ALICE, "10.0.0.2", READ, TOPIC, "orders")
    assert not authorizer.allows(Principal("Group", "alice"), HOST, READ, TOPIC, "others")


IMPLIED = {
    (DESCRIBE, given)
    for given in (READ, WRITE, Operation.DELETE, Operation.ALTER)
} | {(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)}  # fmt: skip


@pytest.mark.parametrize("asked", [each for each in Operation if each > ALL])
@pytest.mark.parametrize("given", [each for each in Operation if each >= ALL])
def test_what_one_right_implies(asked: Operation, given: Operation) -> None:
    expected = given in (ALL, asked) or (asked, given) in IMPLIED
    assert with_acls((topic("t"), acl(operation=given))).allows(ALICE, HOST, asked, TOPIC, "t") is expected
    # A denial implies nothing but all.
    denied = with_acls((topic("t"), acl(operation=ALL)), (topic("t"), acl(operation=given, permission=DENY)))
    assert denied.allows(ALICE, HOST, asked, TOPIC, "t") is (given not in (ALL, asked))


def test_a_decision_lasts_until_an_acl_changes() -> None:
    authorizer = with_acls((topic("orders"), acl()))
    assert authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    authorizer.update(topic("ord", PREFIXED), [acl(permission=DENY)])
    assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    authorizer.update(topic("ord", PREFIXED), [])
    assert authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    authorizer.update(topic("orders"), [])
    assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    assert not authorizer.acls


def test_names_that_strangers_make_up_do_not_fill_the_memory() -> None:
    authorizer = with_acls((topic("orders"), acl()))
    for number in range(MAX_DECISIONS + 10):
        assert not authorizer.allows(BOB, HOST, READ, TOPIC, str(number))
    assert len(authorizer._decisions) <= MAX_DECISIONS


def test_what_a_newer_version_permits_permits_nothing_and_is_an_acl_all_the_same() -> None:
    unknown = Acl("User:alice", WILDCARD, Operation.UNKNOWN, ALLOW), Acl("User:alice", WILDCARD, READ, Permission(0))
    authorizer = with_acls(*((topic("orders"), each) for each in unknown), allow_everyone=True)
    assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (AclFilter(), {"foo", "foobar", "fo", "*"}),
        (AclFilter(TOPIC, "foobar", PatternType.MATCH), {"foobar", "fo", "*"}),
        (AclFilter(TOPIC, "foo", PatternType.LITERAL), {"foo"}),
        (AclFilter(TOPIC, "fo", PatternType.LITERAL), set()),
        (AclFilter(TOPIC, "fo", PatternType.ANY), {"fo"}),
        (AclFilter(TOPIC, None, PREFIXED), {"fo"}),
        (AclFilter(GROUP), set()),
        (AclFilter(operation=WRITE), set()),
        (AclFilter(permission=DENY), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host=HOST), set()),
        (
            AclFilter(principal="User:alice", host=WILDCARD, operation=READ, permission=ALLOW),
            {"foo", "foobar", "fo", "*"},
        ),
    ],
)
def test_filters_take_what_they_ask_for(wanted: AclFilter, taken: set[str]) -> None:
    names = [topic("foo"), topic("foobar"), topic("fo", PREFIXED), topic(WILDCARD)]
    authorizer = with_acls(*((each, acl()) for each in names))
    assert {resource.name for resource, _ in authorizer.find(wanted)} == taken


NAMES = st.sampled_from([WILDCARD, "a", "ab", "abc", "b"])
ACLS = st.lists(
    st.tuples(
        st.builds(Resource, st.just(TOPIC), NAMES, st.sampled_from([PatternType.LITERAL, PREFIXED])),
        st.builds(
            Acl,
            st.sampled_from(["User:alice", "User:bob", EVERYBODY]),
            st.sampled_from([HOST, WILDCARD]),
            st.sampled_from([WRITE, ALL, READ]),
            st.sampled_from([ALLOW, DENY]),
        ),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(ACLS)
def test_any_topic_may_be_written_if_and_only_if_one_may(acls: list[tuple[Resource, Acl]]) -> None:
    authorizer = with_acls(*(each for each in acls if each[0] != topic(WILDCARD, PREFIXED)))
    names = ["a", "ab", "abc", "b", "x", "aX", "abX", "abcX", "bX"]
    # Kafka looks at no name but those in ACLs: `*` counts as allowed by itself, unless denied by itself.
    everywhere = {each for of, each in acls if of == topic(WILDCARD)}
    some = any(authorizer.allows(ALICE, HOST, WRITE, TOPIC, name) for name in names)
    found = authorizer.allows_on_any(ALICE, HOST, WRITE, TOPIC)
    assert found >= some
    if not everywhere:
        assert found == some


def test_any_topic_may_be_written_where_no_acl_is_found_unless_all_are_denied() -> None:
    root, denied = Principal("User", "root"), acl(EVERYBODY, WRITE, DENY)
    for allow_everyone in (True, False):
        nothing = with_acls(allow_everyone=allow_everyone)
        assert nothing.allows_on_any(ALICE, HOST, WRITE, TOPIC) is allow_everyone
        one = with_acls((topic("orders"), denied), allow_everyone=allow_everyone)
        assert one.allows_on_any(ALICE, HOST, WRITE, TOPIC) is allow_everyone
        every = with_acls((topic(WILDCARD), denied), (topic("a"), acl()), allow_everyone=allow_everyone)
        assert not every.allows_on_any(ALICE, HOST, WRITE, TOPIC)
        assert every.allows_on_any(root, HOST, WRITE, TOPIC)


def test_an_acl_of_another_host_or_type_opens_nothing_on_any_topic() -> None:
    elsewhere = with_acls((topic("orders"), acl(operation=WRITE, host="10.0.0.2")), (Resource(GROUP, "g"), acl()))
    assert elsewhere.allows_on_any(ALICE, "10.0.0.2", WRITE, TOPIC)
    assert not elsewhere.allows_on_any(ALICE, HOST, WRITE, TOPIC)
    assert not elsewhere.allows_on_any(ALICE, HOST, READ, TOPIC)
    assert elsewhere.allows_on_any(ALICE, HOST, READ, GROUP)
