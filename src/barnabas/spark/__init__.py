"""Topics in and out of Spark through PySpark, with no connector JAR.

``pyspark_barnabas`` makes Spark find the source by itself: ``spark.read.format("barnabas")``. What runs in an executor
imports only `client`, `wire` and `model`, so that a Python worker starts quickly.
"""
