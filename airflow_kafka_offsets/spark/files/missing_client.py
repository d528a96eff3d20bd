"""What a Spark session lacks to reach a store: Hadoop's client of it, or credentials.

Another try lacks it too, so that it is an error of configuration, told with what brings it.
"""

from __future__ import annotations

import re

_NO_CLIENT = re.compile(r'ClassNotFoundException: Class \S+FileSystem not found|No FileSystem for scheme "')
"""How Hadoop says that it has no class for a store: of some it knows the name."""
_PACKAGES = dict.fromkeys(("s3", "s3a"), "hadoop-aws") | dict.fromkeys(("abfs", "abfss"), "hadoop-azure")
_NO_CREDENTIALS = "NoAuthWithAWSException"


def what_is_missing(uri: str, said: str, hadoop: str | None) -> str | None:
    """What a session lacks to reach a place, and what to do, in a sentence; None where it lacks nothing.

    :param said: the first line of Hadoop's error.
    :param hadoop: the session's version of Hadoop; None where it isn't known, as of a server of Spark Connect.
    """
    scheme = uri.partition("://")[0]
    if _NO_CLIENT.search(said):
        package = "the package with its Hadoop FileSystem"
        if scheme in _PACKAGES:
            package = f"org.apache.hadoop:{_PACKAGES[scheme]}:{hadoop or '<version of its Hadoop>'}"
        return f"Spark has no client for {scheme}://: add {package} to packages= (--packages of spark-submit)."
    if _NO_CREDENTIALS in said:
        return (
            "Spark's driver has no credentials for S3, and doesn't see Airflow's connection: put AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY into the environment of the worker (in cluster mode: of the driver), or name where "
            "they come from by the conf spark.hadoop.fs.s3a.aws.credentials.provider."
        )
    return None
