"""What two moments of a cluster's tree have in common, whoever its brokers were meanwhile."""

import json

EVENTS = ("/config/changes/", "/isr_change_notification/", "/log_dir_event_notification/")
"""Below these lie notices that whoever comes by removes."""


def comparable(znodes):
    """Without what a restart alone changes: who is controller, epochs, times, leaders, and the order of an ISR."""
    kept = {}
    for path, data in znodes.items():
        if path.startswith(EVENTS):
            continue
        held = json.loads(data) if data.startswith(b"{") else data
        if path in ("/controller", "/controller_epoch", "/latest_producer_id_block"):
            held = "there"
        elif path.startswith("/brokers/ids/"):
            held.pop("timestamp")
        elif path.endswith("/state"):
            held = sorted(held["isr"])
        kept[path] = held
    return kept


def exported(file):
    """What every znode holds, by its path, and ACLs that are not open to all: from ``barnabas zk export``."""
    znodes = [each for each in map(json.loads, file.read_text().splitlines()) if "path" in each]
    return (
        {each["path"]: (each.get("data") or "").encode() for each in znodes},
        {each["path"]: each["acl"] for each in znodes if "acl" in each and not each["path"].startswith(EVENTS)},
    )
