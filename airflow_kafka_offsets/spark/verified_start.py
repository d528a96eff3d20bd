"""Start a stored application, if it is the one that was submitted. Sent to the driver's node as text of a command.

``python -c <this text> <file> <sha256> <arguments>``: whoever may write to the store can swap the file after the
operator has looked at it, and can't change the command. Nothing of the file is imported, and no credential is read,
before its bytes have that hash; executors then get this node's copy, and not the store's. Standard library and PySpark.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # what else lies in this folder is no module

import hashlib  # noqa: E402  # not from this folder
import runpy  # noqa: E402
from pathlib import Path  # noqa: E402


def verified(name: str, sha256: str) -> Path:
    """The file, once its bytes are the expected ones."""
    file = Path(name).absolute()
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        sys.exit(
            f"LedgerCorruptError: {name} was changed after it was submitted: its sha256 is {found}, expected {sha256}. "
            "Nothing of it was run. See who may write to the ledger's folder drivers, delete the file "
            "there, and run the task again, which writes it again."
        )
    return file


def give_to_executors(file: Path) -> None:
    """Have them fetch the file from this driver: Spark would have them fetch it from the store, as it is by then."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    system = SparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    for conf in ("spark.jars", "spark.files", "spark.submit.pyFiles"):
        given = (system.getProperty(conf) or "").split(",")
        others = [place for place in given if place and Path(place).name != file.name]
        system.setProperty(conf, ",".join([*others, f"file:{file}"]))


if __name__ == "__main__":
    application = verified(*sys.argv[1:3])
    give_to_executors(application)
    sys.argv = [str(application), *sys.argv[3:]]
    runpy.run_path(str(application), run_name="__main__")
