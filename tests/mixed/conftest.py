"""The one cluster of both kinds of the tests here: its brokers are started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apache import require
from mixed_brokers import BothKinds, both_kinds


@pytest.fixture(scope="session")
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothKinds]:
    """Brokers 0 and 1 are Apache's, 2 and 3 ours. Its parameter is their inter.broker.protocol.version."""
    require()
    with both_kinds(tmp_path_factory.mktemp("both"), 2, 2, inter_broker_protocol_version=request.param) as made:
        yield made
