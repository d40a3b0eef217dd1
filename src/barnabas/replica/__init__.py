"""Leader and follower of a partition: ISR, high watermark, purgatory, fetchers, fetch sessions.

`Replicas` is the broker's collection of `Partition`s and the entry for every request about them. A partition's
decisions (may this follower join the ISR, where is the high watermark) are in `leading`, `partition` and `progress`,
synchronous and without a socket; `fetchers` are the stories that copy from leaders; `purgatory` holds the waiting
requests.
"""
