"""Use a condition in your own sensor, with any rule that a function can express."""

from __future__ import annotations

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_kafka_offsets import GroupsCaughtUp, KafkaOffsetsHook

with DAG(dag_id="own_sensor", schedule=None, tags=["kafka-offsets"]):

    @task.sensor(poke_interval=2, timeout=600)
    def one_of_two_caught_up() -> PokeReturnValue:
        """Pass as soon as one of two groups has caught up."""
        groups = [GroupsCaughtUp(groups=(each,), unknown_group="wait") for each in ("flights-reader", "flights-copy")]
        with KafkaOffsetsHook().get_conn() as client:
            progress = [each.check(client) for each in groups]
        return PokeReturnValue(any(each.done for each in progress), [each.result for each in progress])

    one_of_two_caught_up()
