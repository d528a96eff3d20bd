"""Whether a window's records are there still: before Spark starts, and when it has failed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError, SparkFailedError, WindowError, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.pipelines.preflight import readable

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordsLeft:
    """What can be read of the windows of a pipeline.

    :param kafka: the Kafka connection.
    :param ledger: where losses are noted.
    :param on_data_loss: what to do about them.
    """

    kafka: KafkaOffsetsHook
    ledger: Ledger
    on_data_loss: DataLossPolicy

    def of(self, pinned: PinnedManifest) -> PinnedManifest:
        """What is to be read of a window that isn't published.

        :returns: the window; or its next revision, where it is to be loaded without what is gone.
        :raises WindowError: when it can't be read as it was pinned, and is to fail then.
        """
        with self.kafka.get_conn() as client:
            pinned = readable(client, self.ledger, pinned, self.on_data_loss)
        if pinned.manifest.lost_offsets:
            log.warning(
                "Window %s is loaded without %s offsets that are gone: %s",
                pinned.manifest.window,
                pinned.manifest.lost_offsets,
                shorten(f"{each.topic}-{each.partition}: {each.lost_offsets}" for each in pinned.manifest.lost()),
            )
        return pinned

    def explain(self, pinned: PinnedManifest, failure: Exception) -> Exception:
        """Spark fails when records vanish while it reads them (S13). The ledger notes which they are.

        :param failure: what a load failed with.
        :returns: that; or a DataLossError with partitions and exact counts, where that is what happened; or what else
            became of the window's topics, as when one was re-created. Where the next try loads what is left, it is one
            that is tried again.
        """
        try:
            with self.kafka.get_conn() as client:
                readable(client, self.ledger, pinned)
        except DataLossError as loss:
            if self.on_data_loss == "fail":
                return loss
            log.warning("%s The next try loads what is left.", loss)
            return SparkFailedError(str(failure)) if isinstance(failure, DataLossError) else failure
        except WindowError as changed:
            return changed
        except KafkaOffsetsError:
            log.warning("Whether records vanished while Spark read them isn't known: Kafka can't be asked.")
        return failure
