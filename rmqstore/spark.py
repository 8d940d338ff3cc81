"""Stores as a data source of Spark.

    import rmqstore.spark
    rmqstore.spark.register(spark)
    spark.read.format("rocketmq").option("where", "topic = 'orders'").load("/data/broker-*/store")
    rmqstore.spark.findings(spark, "/data/broker-*/store").groupBy("store", "severity").count()

docs/tables.md has the tables, their columns and the options.
"""

from rmqstore.pipeline.spark.findings import findings
from rmqstore.pipeline.spark.source import FORMAT, register

__all__ = ["FORMAT", "findings", "register"]
