"""The jobs of ``barnabas spark``, each as functions that take a session and DataFrames.

The command adds only arguments, a progress bar and an output format. Decisions (the offsets of a commit, the divergence
of replicas, the epoch of an offset) are plain Python in modules that import no Spark.
"""


class JobError(RuntimeError):
    """A job can't be done; the text is a sentence that says why, and what to do."""
