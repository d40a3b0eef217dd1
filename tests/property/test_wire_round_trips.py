"""Every message that Hypothesis can think of survives the wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_messages import ALL_MESSAGES, message_class, messages


@pytest.mark.parametrize("name", ALL_MESSAGES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_message_comes_back_as_it_was(name: str, data: Any) -> None:
    version, message = data.draw(messages(name))
    encoded = message.encode(version)
    found, end = message_class(name).decode(encoded, version)
    assert found == message
    assert end == len(encoded)
    assert found.encode(version) == encoded
