"""Jobs that run on Spark: what ``barnabas spark`` does, each as functions that take a session and DataFrames.

The command adds arguments, a progress bar and an output format, and nothing else. Whatever decides (what a commit
covers, where replicas part, which epoch an offset has) is plain Python in modules that import no Spark.
"""


class JobError(RuntimeError):
    """A job can't do what it was asked for; the text is a sentence that says why, and what to do."""
