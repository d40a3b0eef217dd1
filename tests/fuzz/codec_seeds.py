"""What libFuzzer begins with for the codec: plans of some messages as C (``plans.h``), and messages of each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from wire_messages import ByChance, message_by, message_class, versions_of

from barnabas.wire.plans import MessagePlan, plan_of
from barnabas.wire.structs import Struct

NAMES = (
    *("ProduceRequest", "ProduceResponse", "FetchRequest", "FetchResponse", "MetadataResponse", "OffsetCommitRequest"),
    *("JoinGroupRequest", "LeaderAndIsrRequest", "UpdateMetadataRequest", "CreateTopicsRequest"),
)


def kind_of(constant: Any) -> str:
    """As `begin` in fuzz_codec.c reads it."""
    if isinstance(constant, type) or callable(constant):
        return "C"
    if isinstance(constant, Struct):
        return "S"
    if isinstance(constant, bytes):
        return "u" if constant else "y"
    return {"NoneType": "N", "bool": "b", "int": "i", "str": "s"}[type(constant).__name__]


def main(directory: Path) -> None:
    plans: list[MessagePlan] = []
    corpus = directory / "codec"
    corpus.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        versions = versions_of(name)
        for version in (versions[0], versions[-1]):
            plan = plan_of(message_class(name), version)
            assert plan is not None, "the kernel is built"
            for seed in range(20):
                encoded = message_by(ByChance((name, version, seed)), name, version).encode(version)
                (corpus / f"{name}-{version}-{seed}").write_bytes(bytes([len(plans)]) + encoded)
            plans.append(plan)
    lines = [f"enum {{ PLANS = {len(plans)} }};"]
    for number, plan in enumerate(plans):
        lines.append(f"static const unsigned char TABLE_{number}[] = {{{','.join(map(str, plan.table))}}};")
    tables = ", ".join(f"TABLE_{number}" for number in range(len(plans)))
    sizes = ", ".join(f"sizeof TABLE_{number}" for number in range(len(plans)))
    kinds = ", ".join('"' + "".join(map(kind_of, plan.constants)) + '"' for plan in plans)
    lines.append(f"static const unsigned char *const PLANS_TABLES[] = {{{tables}}};")
    lines.append(f"static const unsigned long PLANS_SIZES[] = {{{sizes}}};")
    lines.append(f"static const char *const PLANS_CONSTANTS[] = {{{kinds}}};")
    (directory / "plans.h").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
