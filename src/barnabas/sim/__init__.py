"""The whole cluster in one thread: virtual time, a simulated network and disks, faults drawn from a seed.

The product's own code runs here unchanged: brokers, controller, coordinator and clients stand behind the four doors of
`runtime`, and this package is what stands on the doors' other side. A run is a seed: every delay, every order in which
ready callbacks run, every fault comes from it, so a failing run is reproduced by its number.

`loop` is asyncio's contract on virtual time; `network`, `disk` and `zookeeper` are the world outside, and a `node` is a
machine with processes that can be killed (no ``finally`` runs) or lose power (unsynced pages may go); `world` puts them
together. `draw` makes a `plan` from a seed and a profile; `nemesis` carries its faults out, `workload` its clients and
administrators; `run` does it all and lets the cluster recover. What must hold is watched through `probes` of the
product: by `watch_logs`, `watch_zookeeper` and `watch_cluster` as the run goes, by `checkers` at its end.
"""
