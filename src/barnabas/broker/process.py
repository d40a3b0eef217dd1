"""One broker as a process in the foreground: it reads its file, starts, says so, and stops on a signal."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.broker.server import Broker, BrokerStartError
from barnabas.model.config import Config, broker_config
from barnabas.model.errors import ConfigError
from barnabas.runtime import Runtime

logger = logging.getLogger(__name__)
