"""A run: a crew of workers performs a plan on a real cluster. And its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from dev.spark_cluster import SparkCluster
from tests.chaos import remade
from tests.chaos.crew import Answer, Crew
from tests.chaos.diary import Diary
from tests.chaos.executors import ExecutorKiller
from tests.chaos.judge import (
    Cut,
    Piece,
    Problem,
    Seen,
    Times,
    Trial,
    holes,
    judge,
    judge_cuts,
    judge_runs,
    judge_trials,
    judge_windows,
)
from tests.chaos.ledger_files import shelves
from tests.chaos.plan import CUT, INCREMENTS, REVISION, S3, TWINS, Event, Pipeline, Plan, Task
from tests.chaos.publications import judge_apart, judge_kept
from tests.chaos.s3 import CREDENTIALS, FaultyS3
from tests.chaos.spark_load import Cluster, connector_jars
from tests.chaos.standing import Standing, judge_told
from tests.chaos.topics import Key, Topics
from tests.chaos.worker import Place, Settings

BUCKET = "ledgers"
ON_S3 = (S3, INCREMENTS[S3])
"""Stores with a server each, because a server answers one request at a time, and lists a thousand names slowly."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final state of one pipeline.

    :param pieces: the pieces of all its published windows.
    :param seen: what the independent reader saw.
    :param complaints: what is wrong with whole windows, and with what the ledger reports.
    """

    pipeline: Pipeline
    pieces: tuple[Piece, ...]
    seen: dict[Key, Seen]
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run.

    :param outcomes: by pipeline.
    :param complaints: about second ledgers, and about what must not be published.
    :param tally: how often each kind of event happened.
    """

    outcomes: tuple[Outcome, ...]
    complaints: tuple[str, ...]
    diary: Diary
    tally: Counter[str]

    def failures(self) -> list[str]:
        """The first few problems in words, each with the story of its offset."""
        problems = [(each, problem) for each in self.outcomes for problem in judge(each.pieces, each.seen)]
        complaints = [f"{each.pipeline.store}: {words}" for each in self.outcomes for words in each.complaints]
        stories = [self._tell(outcome.pipeline, problem) for outcome, problem in problems[:5]]
        return [*self.complaints[:5], *complaints[:5], *stories]

    def _tell(self, pipeline: Pipeline, problem: Problem) -> str:
        where = problem.topic, problem.partition, problem.offset
        story = self.diary.story(pipeline.store, *where, problem.windows)
        return "\n".join([f"{pipeline.store}, {pipeline.isolation_level}: {problem}", *story])


def run(plan: Plan, bootstrap_servers: str, folder: Path, spark: SparkCluster | None = None) -> Report:
    """Perform a plan.

    :param folder: for local ledgers and all output.
    :param spark: the cluster that loads; its executors are killed now and then. None for librdkafka.
    :raises ChaosError: a worker found something that must not happen.
    """
    diary = Diary()
    with ExitStack() as stack:
        on_s3 = [each.store for each in plan.pipelines if each.store in ON_S3]
        servers = {store: stack.enter_context(FaultyS3(f"{plan.seed} {store}")) for store in on_s3}
        topics = stack.enter_context(closing(Topics(bootstrap_servers, plan.topics, diary)))
        killer = stack.enter_context(ExecutorKiller(spark, plan.seed)) if spark else None
        for each in servers.values():
            _create_bucket(each)
        remade.make(bootstrap_servers, [topic for each in plan.remade for topic in each.topics])
        places = {each.store: _place(each, folder, servers) for each in (*plan.pipelines, *plan.twins, *plan.remade)}
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
            with _storm(servers.values()):
                _do(plan.steps, topics, crew)
            meanwhile = {each.store: Standing.of(each, places[each.store]) for each in (*plan.pipelines, *plan.twins)}
            told_early = {
                each.store: judge_told(places[each.store], meanwhile[each.store].pieces) for each in plan.pipelines
            }
            with _storm(servers.values()):
                _do(plan.late, topics, crew)
        topics.finish()
        outcomes = tuple(
            _outcome(each, places[each.store], topics, crew.answers, meanwhile[each.store], told_early[each.store])
            for each in plan.pipelines
        )
        twins = (
            f"{each.store}: {words}"
            for each in plan.twins
            for words in _twin(each, places, topics, crew.answers, meanwhile[each.store])
        )
        faults = Counter({"executor killed": killer.killed} if killer else {})
        for server in servers.values():
            faults += Counter(server.counts)
        left_out = {each.store: holes(meanwhile[each.store].pieces) for each in plan.pipelines}
        told_of = Counter({f"{store} holes told": len(each) for store, each in left_out.items()})
        complaints = (*_trials(plan, places, crew.answers), *twins)
        return Report(outcomes, complaints, diary, crew.seen + topics.seen + faults + told_of)


@contextmanager
def _storm(servers: Collection[FaultyS3]) -> Iterator[None]:
    """During the block, the stores fail now and then."""
    for each in servers:
        each.stormy.set()
    yield
    for each in servers:
        each.stormy.clear()


def _do(steps: Iterable[Event | Task], topics: Topics, crew: Crew) -> None:
    for step in steps:
        topics.do(step) if isinstance(step, Event) else crew.give(step)
    crew.finish()


def _create_bucket(s3: FaultyS3) -> None:
    credentials = dict(zip(("aws_access_key_id", "aws_secret_access_key"), CREDENTIALS.values(), strict=True))
    client = boto3.client("s3", endpoint_url=s3.endpoint, region_name="us-east-1", **credentials)
    client.create_bucket(Bucket=BUCKET)


def _place(pipeline: Pipeline, folder: Path, servers: Mapping[str, FaultyS3]) -> Place:
    if pipeline.store not in ON_S3:
        root = (folder / "ledgers" / pipeline.store).as_uri()
        return Place(root, {}, pipeline.isolation_level, pipeline.topics)
    options = servers[pipeline.store].options()
    return Place(f"s3://{BUCKET}/{pipeline.store}", options, pipeline.isolation_level, pipeline.topics)


def _outcome(
    pipeline: Pipeline,
    place: Place,
    topics: Topics,
    answers: Sequence[Answer],
    early: Standing,
    told_early: Sequence[str],
) -> Outcome:
    """The outcome of a pipeline.

    :param early: what was published while windows were left out.
    :param told_early: what was wrong at that time with what the ledger reported.
    """
    last = Standing.of(pipeline, place)
    ours = [each for each in answers if each.task.store == pipeline.store]
    complaints = [f"with windows left out: {each}" for each in (*early.complaints, *told_early)]
    complaints += [*last.complaints, *judge_kept(early.holding, last.holding), *judge_told(place, last.pieces)]
    complaints += [f"a hole is left: {each}" for each in holes(last.pieces)]
    if pipeline.windows:
        complaints += judge_windows(early.windows, set(pipeline.windows) - set(pipeline.left_out))
        complaints += judge_windows(last.windows, pipeline.windows)
        revised = {each.task.window[1:] for each in ours if each.task.kind == REVISION}
        cuts = [_cut(each, place.ledger(), revised) for each in ours if each.task.kind == CUT]
        complaints += judge_cuts(last.pieces, cuts)
    else:
        runs = [(each.task.start_ms, each.said.window) for each in ours if each.said.window]
        complaints += judge_runs(last.windows, runs)
    return Outcome(pipeline, last.pieces, topics.judged(pipeline.isolation_level), tuple(complaints))


def _twin(
    twin: Pipeline, places: Mapping[str, Place], topics: Topics, answers: Sequence[Answer], early: Standing
) -> Iterator[str]:
    """What is wrong with a second ledger, and with the first one because of it."""
    first = next(store for store, each in TWINS.items() if each == twin.store)
    last, seen = Standing.of(twin, places[twin.store]), topics.judged(twin.isolation_level)
    asked = {each.task.window[1:] for each in answers if each.task.store == twin.store}
    yield from (*early.complaints, *last.complaints, *judge_kept(early.holding, last.holding))
    yield from judge_windows(last.windows, asked)
    yield from judge_apart(shelves(places[first].path(places[first].root) / "loads"), last.shelves)
    for window in sorted(last.windows):  # they have holes between them
        yield from map(str, judge([each for each in last.pieces if each.window == window], seen))


def _trials(plan: Plan, places: Mapping[str, Place], answers: Sequence[Answer]) -> Iterator[str]:
    """What is wrong with the pipelines that must not publish."""
    for each in plan.remade:
        published = Standing.of(each, places[each.store]).windows
        trials = [
            Trial((answer.task.start_ms, answer.task.end_ms), "refused" in answer.said.words)
            for answer in answers
            if answer.task.store == each.store and answer.task.load
        ]
        complaints = judge_trials(published, trials, "though its topic was re-created")
        yield from (f"{each.store}: {words}" for words in complaints)


def _cut(answer: Answer, ledger: Ledger, revised: Set[Times]) -> Cut:
    """A cut that was requested.

    :param revised: windows whose offsets changed during the run.
    """
    task, said = answer.task, answer.said
    stands = any(each.is_settled for each in ledger.window_folders.live(window_id(task.start_ms, task.end_ms)))
    ranges = () if said.window in revised else said.ranges
    offsets = {(topic, partition): range(start, end) for topic, partition, start, end in ranges}
    return Cut((task.start_ms, task.end_ms), offsets, answer.before - revised, said.window, stands)
