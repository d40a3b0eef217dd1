"""Leader and follower of a partition: ISR, high watermark, purgatory, fetchers, fetch sessions.

`Replicas` is the broker's collection of `Partition`s and the way in for every request about them. What a partition
decides (may this follower join the ISR, where is the high watermark) is in `leading`, `partition` and `progress`,
synchronous and without a socket; `fetchers` are the stories that copy from leaders; `purgatory` holds the requests that
wait.
"""
