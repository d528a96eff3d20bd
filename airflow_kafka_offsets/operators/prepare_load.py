"""Prepare a load for any way of submitting Spark: EMR, Dataproc, Databricks, Livy, Kubernetes, Glue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, number_of, shorten
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.storage import LedgerPath
from airflow_kafka_offsets.offsets.windows.ledger_names import DRIVERS
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.operators.spark_operator import KafkaLoadOperator
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.references import WindowRefs
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.spark.session.release import SparkRelease, packages_in, table_confs, usual_scala
from airflow_kafka_offsets.submission.batch import Batch
from airflow_kafka_offsets.submission.confs import default_confs, token_endpoint_allowed, window_confs
from airflow_kafka_offsets.submission.prepared_load import ClusterFiles, PreparedLoad, Program
from airflow_kafka_offsets.submission.spark_arguments import PACKAGES, PY_FILES
from airflow_kafka_offsets.submission.tries import LoadTry, Outcome

if TYPE_CHECKING:
    from airflow.sdk import Context

_SECRET_ENDINGS = ("password", "sasl.jaas.config", "ssl.keystore.key", "registry.authorization")
"""Endings of the options of the Kafka Java client and the schema registry that hold a secret."""
_SECRETIVE = re.compile(r"secret|password|token|credential$|(access|account|private|shared)[._-]?key|[.]sas[.]")
_OPEN = re.compile(
    r"access[._-]?key[._-]?id$|[.](file|path|location|provider[^.]*)$|token[.]endpoint[.]url$|redaction|"
    r"^spark[.]kubernetes[.](driver|executor)[.](secrets|secretkeyref)[.]"
)
"""Match lower-cased conf names of stores, catalogs and Spark: ``_SECRETIVE`` those that hold a secret, ``_OPEN`` the
ones among them that only say where it is."""
_OWN = {
    *(driver_conf.MANIFEST, driver_conf.SHA256, driver_conf.ATTEMPT, driver_conf.COMMIT),
    *(driver_conf.ALLOW_GAPS, driver_conf.BATCH, driver_conf.BATCH_SHA256),
}
_REFERENCE = re.compile(r"[{][{]secrets/|EMR[.]secret@")
"""How a value starts that refers to the cluster's secret store, on Databricks and on EMR."""


@dataclass(slots=True)
class SparkCluster:
    """
    What a submitter's cluster has, and what it has to be given. All arguments but the last are templated.

    :param spark_version: the cluster's Spark version, such as ``3.5.6``: adds its Kafka connector to the packages. None
        (default) if the cluster has the connector, or the packages name it.
    :param files: folder that the cluster can read, for application and Python files; by default ``drivers`` in the
        pipeline's ledger. Anyone who can write there decides what the cluster runs. The URIs that it is given spell S3
        as this folder does: ``s3://`` (EMR, Glue, Databricks) or ``s3a://`` (plain Hadoop).
    :param gives_credentials: the cluster gives the driver the connection's credentials, in the environment variable
        ``KAFKA_OFFSETS_SECRETS``. Unless it is set, a connection with credentials is refused.
    """

    template_fields: ClassVar[tuple[str, ...]] = ("spark_version", "files")

    spark_version: str | None = None
    files: str | None = None
    gives_credentials: bool = False


class KafkaPrepareLoadOperator(KafkaLoadOperator):
    """
    Prepares the load of pinned windows for any operator that submits Spark. The next task submits it;
    ``KafkaVerifyWindowOperator`` with ``load=`` then waits for the driver's counts and publishes the window.

    It checks that every record of the window is still there, begins an attempt in the ledger, stores the application
    and the driver's part of this package where the cluster can read them, and returns what to submit. That contains no
    secret: the cluster's own secret store has to give credentials to the driver.

    If the window is published already, or somebody's driver has loaded and counted it, or it has no offsets, nothing
    needs to be submitted: then ``needs_driver`` is false, and the window is published.

    A retry of this task begins another attempt. A retry of the submitting task may submit the same load again: its
    drivers make the same attempt, and only one of them is published.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, of any pipelines with one Kafka
        connection: one application loads them all. An empty list skips the task. (templated)
    :param reload: load the window again, though it is published: once in a run of this task, however often it is
        retried. Readers keep the old rows until the new ones are published. (templated)
    :param application: the ready-made load, as a :class:`~airflow_kafka_offsets.spark.table_load.TableLoad`; or
        your own application, a file on this worker or a URI that the cluster can read. (templated)
    :param application_args: arguments of the application. (templated)
    :param conf: more Spark confs; the ones that name the window aren't allowed. ``spark.jars.packages`` are further
        packages. ``spark.submit.pyFiles`` are further Python files: URIs, or files on this worker, which are stored.
        (templated)
    :param cluster: what the cluster has, and where it reads files. (templated)

    ``on_data_loss`` and ``allow_gaps`` are those of
    :class:`~airflow_kafka_offsets.operators.spark_operator.KafkaLoadOperator`.

    XCom: ``{"window", "ref", "attempt", "needs_driver", "conf", "application", "py_files", "packages", "arguments",
    "conf_args", "options_text", "submit"}``. ``attempt`` is the attempt's number. ``conf`` includes the packages, as
    ``spark.jars.packages``. ``conf_args`` holds the confs as words (``--conf``, ``name=value``), ``submit`` everything
    after ``spark-submit``, and ``options_text`` what of that comes before the application, as one string. Each of them
    is an XCom of its own too: ``prepare.output["conf"]``. Of a list of windows, ``window``, ``ref`` and ``attempt`` are
    lists; a window that can't be loaded, such as one whose records are gone, has no number in ``attempt``: the log says
    why, and verify fails for it.
    """

    template_fields: Sequence[str] = ("window", "reload", "application", "application_args", "conf", "cluster", "table")
    ui_color = "#fdebd0"

    def __init__(
        self, *, conf: Mapping[str, str] | None = None, cluster: SparkCluster | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**{"multiple_outputs": True, **kwargs})
        self.conf = conf
        self.cluster = SparkCluster() if cluster is None else cluster
        if isinstance(conf, Mapping):
            self._given()

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render a copy of the cluster: Airflow renders an object in place, and tasks may share it."""
        self.cluster = copy(self.cluster)
        super().render_template_fields(context, jinja_env)

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Check the window, store the files, begin an attempt, and return what to submit."""
        refs = WindowRefs.from_json(self.window)
        if not refs.refs:
            raise AirflowSkipException("There are no windows to load, and so nothing to submit.")
        load = self._load(context, refs)
        settings, given = refs.driver_options(), self._given()
        if settings.secret and not self.cluster.gives_credentials:
            raise ConfigurationError(
                f"The connection of {refs.refs[0].pipeline} has credentials ({', '.join(sorted(settings.secret))}), "
                "which this task never stores or returns. Have the cluster's secret store give them to the driver as "
                f"{driver_conf.SECRETS_VARIABLE}, then set cluster=SparkCluster(gives_credentials=True)."
            )
        program = self._program(load, given)
        load = self._reloaded(load)
        outcomes, batch = load.begin()
        attempts = self._attempts(load, outcomes, batch)
        needed = batch.numbers or [(each, number) for each, number in attempts.items() if number is not None]
        confs = {
            **table_confs(self._kinds),
            **default_confs(settings.plain, given),
            **given,
            **token_endpoint_allowed(settings.plain, given),
            **window_confs(needed, given, allow_gaps=self.allow_gaps),
            **({PACKAGES: ",".join(program.packages)} if program.packages else {}),
        }
        confs.pop(PY_FILES, None)  # they are among the program's
        numbers = [attempts[each] for each in load.windows]
        return PreparedLoad(load.refs, numbers, bool(batch.attempts), confs, program).to_json()

    def _attempts(self, load: LoadTry, outcomes: Mapping[Wanted, Outcome], batch: Batch) -> dict[Wanted, int | None]:
        """The number of the attempt at each window: the one that a driver has to make, or that is published; None for a
        window that can't be loaded.

        :raises WindowsFailedError: when none can be; the reason itself if there is only one.
        """
        failed = [each for each, found in outcomes.items() if isinstance(found, Exception)]
        failure = load.failure(outcomes)
        if failure is not None and len(failed) == len(load.windows):
            raise failure
        if failure is not None:
            self.log.error("%s", failure)
        published = {each: found.attempt for each, found in outcomes.items() if isinstance(found, Published)}
        self.log.info(
            "%s to be submitted: %s; published already: %s",
            number_of(len(batch.attempts), "window"),
            shorten(f"{each.name} (attempt {number})" for each, number in batch.numbers),
            shorten(f"{each.name} (attempt {number})" for each, number in published.items()),
        )
        return dict.fromkeys(failed) | published | dict(batch.numbers)

    def _program(self, load: LoadTry, given: Mapping[str, str]) -> Program:
        folder = (
            load.windows[0].ledger.folder / DRIVERS
            if self.cluster.files is None
            else LedgerPath.of(ObjectStoragePath(self.cluster.files))
        )
        files, packages = ClusterFiles(folder), packages_in(given.get(PACKAGES))
        if self.cluster.spark_version is not None:
            release = SparkRelease(self.cluster.spark_version, usual_scala(self.cluster.spark_version))
            release.refuse_other(*packages)
            packages = release.with_packages(self._kinds, packages, None)
        return Program(
            application=files.python_file(self.application),
            py_files=[files.bundle(), *map(files.python_file, packages_in(given.get(PY_FILES)))],
            packages=packages,
            arguments=[str(word) for word in self.application_args or ()],
        )

    @property
    def _kinds(self) -> tuple[str, ...]:
        return () if self.table is None else self.table.kinds

    def _given(self) -> dict[str, str]:
        """The user's confs.

        :raises ConfigurationError: for those that this task sets, and those that hold a secret.
        """
        given = {name: str(value) for name, value in (self.conf or {}).items()}
        if taken := sorted(given.keys() & _OWN):
            raise ConfigurationError(f"conf= can't set {', '.join(taken)}: this task sets that itself.")
        if secret := sorted(name for name, value in given.items() if _holds_a_secret(name, value)):
            raise ConfigurationError(
                f"conf= can't set {', '.join(secret)}: this task's XCom would show the secret. Have the cluster's "
                f"secret store give Kafka's secrets to the driver in {driver_conf.SECRETS_VARIABLE}, and keep those of "
                "other systems in the cluster's own configuration."
            )
        return given


def _holds_a_secret(name: str, value: str) -> bool:
    """Whether a conf holds a secret, of Kafka or of another system, that belongs in the cluster's secret store."""
    own = name.removeprefix(driver_conf.PREFIX).lower()
    if name.startswith(driver_conf.PREFIX):
        return name == driver_conf.SECRETS or own.endswith(_SECRET_ENDINGS)
    return bool(_SECRETIVE.search(own)) and not _OPEN.search(own) and not _REFERENCE.match(value)
