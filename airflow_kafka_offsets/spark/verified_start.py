"""Start a stored application, if it is the one that was submitted. Its text is sent to the driver's node in a command.

``python -c <this text> <file> <sha256> <arguments>``: whoever can write to the store can swap the file after the
operator has checked it, but can't change the command. Nothing in the file is imported, and no credential is read,
before its bytes match that hash. Executors then get this node's copy, not the store's. Uses only the standard library
and PySpark.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # don't import other files in this folder

import hashlib  # noqa: E402  # not from this folder
import runpy  # noqa: E402
from pathlib import Path  # noqa: E402


def verified(name: str, sha256: str) -> Path:
    """The file, after its bytes match the hash."""
    file = Path(name).absolute()
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        sys.exit(
            f"LedgerCorruptError: {name} was changed after it was submitted: its sha256 is {found}, expected {sha256}. "
            "Nothing in it was run. Check who can write to the folder drivers in the ledger, delete the file there, "
            "and run the task again, which stores it again."
        )
    return file


def give_to_executors(file: Path) -> None:
    """Have executors fetch the file from this driver: Spark would have them fetch it from the store, where it may have
    changed."""
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
