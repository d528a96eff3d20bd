"""A run: a plan done on a real cluster by a crew of workers, and what it has come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import boto3

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.publication import Publication
from airflow_kafka_offsets.offsets.window_names import window_extent, window_id
from dev.spark_cluster import SparkCluster
from tests.chaos import range_load, remade, spark_load, told
from tests.chaos.crew import Answer, Crew
from tests.chaos.diary import Diary
from tests.chaos.executors import ExecutorKiller
from tests.chaos.judge import (
    Cut,
    Piece,
    Problem,
    Seen,
    Trial,
    holes,
    judge,
    judge_cuts,
    judge_holes,
    judge_runs,
    judge_trials,
    judge_windows,
)
from tests.chaos.plan import CUT, INCREMENTS, S3, SPARK, Event, Pipeline, Plan, Task
from tests.chaos.ranges import Offsets
from tests.chaos.s3 import CREDENTIALS, FaultyS3
from tests.chaos.spark_load import Cluster, connector_jars
from tests.chaos.topics import Key, Topics
from tests.chaos.worker import Place, Settings

BUCKET = "ledgers"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of one pipeline at the end.

    :param pieces: of all its published windows.
    :param seen: what the independent reader saw.
    :param complaints: what is wrong with windows as such, and with what the ledger tells of itself.
    """

    pipeline: Pipeline
    pieces: tuple[Piece, ...]
    seen: dict[Key, Seen]
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended.

    :param outcomes: by pipeline.
    :param complaints: about what must not be published.
    :param tally: what has been there to be seen.
    """

    outcomes: tuple[Outcome, ...]
    complaints: tuple[str, ...]
    diary: Diary
    tally: Counter[str]

    def failures(self) -> list[str]:
        """What is wrong in words, each with the story of its offset; the first few."""
        problems = [(each, problem) for each in self.outcomes for problem in judge(each.pieces, each.seen)]
        complaints = [f"{each.pipeline.store}: {words}" for each in self.outcomes for words in each.complaints]
        stories = [self._tell(outcome.pipeline, problem) for outcome, problem in problems[:5]]
        return [*self.complaints[:5], *complaints[:5], *stories]

    def _tell(self, pipeline: Pipeline, problem: Problem) -> str:
        where = problem.topic, problem.partition, problem.offset
        story = self.diary.story(pipeline.store, *where, problem.windows)
        return "\n".join([f"{pipeline.store}, {pipeline.isolation_level}: {problem}", *story])


def run(plan: Plan, bootstrap_servers: str, folder: Path, spark: SparkCluster | None = None) -> Report:
    """Do a plan.

    :param folder: where local ledgers and all output go.
    :param spark: the cluster that loads; its executors are killed now and then. None for librdkafka.
    :raises ChaosError: a worker found something that must not be.
    """
    diary = Diary()
    with ExitStack() as stack:
        s3 = stack.enter_context(FaultyS3(plan.seed)) if S3 in {each.store for each in plan.pipelines} else None
        topics = stack.enter_context(closing(Topics(bootstrap_servers, plan.topics, diary)))
        killer = stack.enter_context(ExecutorKiller(spark, plan.seed)) if spark else None
        if s3:
            _create_bucket(s3)
        remade.make(bootstrap_servers, [topic for each in plan.remade for topic in each.topics])
        places = {each.store: _place(each, folder, s3) for each in (*plan.pipelines, *plan.twins, *plan.remade)}
        cluster = Cluster(spark.master_url, connector_jars()) if spark else None
        settings = Settings(
            bootstrap_servers,
            places,
            {each.store: each.cuts for each in plan.pipelines},
            folder / "output",
            str(plan.seed),
            patient=True,
            spark=cluster,
        )
        with Crew(settings, diary, size=2 if spark else 3) as crew:
            with _storm(s3):
                _do(plan.steps, topics, crew)
            meanwhile = {each.store: _Standing.of(each, places[each.store]) for each in plan.pipelines}
            with _storm(s3):
                _do(plan.late, topics, crew)
        topics.finish()
        outcomes = tuple(_outcome(each, places, topics, crew.answers, meanwhile[each.store]) for each in plan.pipelines)
        faults = Counter(s3.counts if s3 else {}) + Counter({"executor killed": killer.killed} if killer else {})
        told_of = Counter({f"{store} holes told": len(holes(each.pieces)) for store, each in meanwhile.items()})
        complaints = (*_trials(plan, places, crew.answers), *_strangers(outcomes, settings.output))
        return Report(outcomes, complaints, diary, crew.seen + topics.seen + faults + told_of)


@contextmanager
def _storm(s3: FaultyS3 | None) -> Iterator[None]:
    """As long as it lasts, the store fails now and then."""
    if s3:
        s3.stormy.set()
    yield
    if s3:
        s3.stormy.clear()


def _do(steps: Iterable[Event | Task], topics: Topics, crew: Crew) -> None:
    for step in steps:
        topics.do(step) if isinstance(step, Event) else crew.give(step)
    crew.finish()


def _create_bucket(s3: FaultyS3) -> None:
    credentials = dict(zip(("aws_access_key_id", "aws_secret_access_key"), CREDENTIALS.values(), strict=True))
    client = boto3.client("s3", endpoint_url=s3.endpoint, region_name="us-east-1", **credentials)
    client.create_bucket(Bucket=BUCKET)


def _place(pipeline: Pipeline, folder: Path, s3: FaultyS3 | None) -> Place:
    if pipeline.store not in (S3, INCREMENTS[S3]):
        root = (folder / "ledgers" / pipeline.store).as_uri()
        return Place(root, {}, pipeline.isolation_level, pipeline.topics)
    assert s3 is not None, "it was started for this pipeline"
    return Place(f"s3://{BUCKET}/{pipeline.store}", s3.options(), pipeline.isolation_level, pipeline.topics)


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is published of a pipeline at one moment.

    :param complaints: where what the ledger tells of holes and tiling isn't so.
    """

    pieces: tuple[Piece, ...]
    complaints: tuple[str, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, place: Place) -> Self:
        ledger, pieces = place.ledger(), tuple(_pieces(pipeline, place))
        claims = verify(ledger)
        told_of = told.told(ledger, sorted({each.window for each in pieces}))
        wrong = judge_holes(pieces, told.listed(claims), told_of)
        return cls(pieces, (*told.complaints(claims), *wrong))


def _outcome(
    pipeline: Pipeline, places: Mapping[str, Place], topics: Topics, answers: Sequence[Answer], meanwhile: _Standing
) -> Outcome:
    last = _Standing.of(pipeline, places[pipeline.store])
    ours = [each for each in answers if each.task.store == pipeline.store]
    complaints = [f"with windows left out: {each}" for each in meanwhile.complaints] + [*last.complaints]
    complaints += [f"a hole is left: {each}" for each in holes(last.pieces)]
    published = {each.window for each in last.pieces}
    if pipeline.windows:
        early = {each.window for each in meanwhile.pieces}
        complaints += judge_windows(early, set(pipeline.windows) - set(pipeline.left_out))
        complaints += judge_windows(published, pipeline.windows)
        ledger = places[pipeline.store].ledger()
        cuts = [_cut(each, ledger) for each in ours if each.task.kind == CUT]
        complaints += judge_cuts(last.pieces, cuts)
    else:
        runs = [(each.task.start_ms, each.said.window) for each in ours if each.said.window]
        complaints += judge_runs(published, runs)
    return Outcome(pipeline, last.pieces, topics.judged(pipeline.isolation_level), tuple(complaints))


def _strangers(outcomes: Sequence[Outcome], output: Path) -> Iterator[str]:
    """Where Spark's plain paths have other windows than those that are published."""
    for each in outcomes:
        if each.pipeline.store in SPARK:
            published = {piece.window for piece in each.pieces}
            found = [window_extent(name) for name in spark_load.plain_windows(output, each.pipeline.store)]
            yield from (f"{each.pipeline.store}-plain: {words}" for words in judge_windows(found, published))


def _trials(plan: Plan, places: Mapping[str, Place], answers: Sequence[Answer]) -> Iterator[str]:
    """What is wrong with those pipelines that must not publish."""
    for each, why in (
        *((twin, "of a second ledger in the output of the first") for twin in plan.twins),
        *((other, "though its topic was re-created") for other in plan.remade),
    ):
        ledger = places[each.store].ledger()
        published = {window_extent(one.id) for one in ledger.windows() if ledger.window_folders.published(one.id)}
        trials = [
            Trial((answer.task.start_ms, answer.task.end_ms), "refused" in answer.said.words)
            for answer in answers
            if answer.task.store == each.store and answer.task.load and answer.said.words != "twin waits"
        ]
        yield from (f"{each.store}: {words}" for words in judge_trials(published, trials, why))


def _cut(answer: Answer, ledger: Ledger) -> Cut:
    task, said = answer.task, answer.said
    offsets = {(topic, partition): range(start, end) for topic, partition, start, end in said.ranges}
    stands = any(each.is_settled for each in ledger.window_folders.live(window_id(task.start_ms, task.end_ms)))
    return Cut((task.start_ms, task.end_ms), offsets, answer.before, said.window, stands)


def _pieces(pipeline: Pipeline, place: Place) -> Iterator[Piece]:
    """What the pipeline's published windows say. Of a partition that a window doesn't know it should have no rows.

    :raises AssertionError: one is published from another manifest.
    """
    ledger = place.ledger()
    for window in dict.fromkeys(each.id for each in ledger.windows()):
        folder = ledger.window_folders.published(window)
        if folder is None:
            continue
        pinned, publication = folder.pinned(), folder.publication()
        assert pinned is not None and publication is not None  # noqa: PT018
        assert publication.manifest_sha256 == pinned.sha256, f"{folder.id} is published from another manifest"
        manifest, output = pinned.manifest, dict(_published_offsets(pipeline.store, publication))
        for each in manifest.ranges:
            yield Piece(
                topic=each.topic,
                partition=each.partition,
                start_ms=manifest.start_ms,
                end_ms=manifest.end_ms,
                start_offset=each.start_offset,
                end_offset=each.end_offset,
                lost_offsets=each.lost_offsets,
                end_evidence=str(each.end_evidence),
                published=tuple(output.pop((each.topic, each.partition), ())),
            )
        for (topic, partition), offsets in output.items():
            yield Piece(topic, partition, manifest.start_ms, manifest.end_ms, 0, 0, 0, "unknown", tuple(offsets))


def _published_offsets(store: str, publication: Publication) -> Offsets:
    by = spark_load if store in SPARK else range_load
    return by.published_offsets(publication)
