"""A run: a crew of workers performs a plan on a real cluster. And its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from dev.spark_cluster import SparkCluster
from tests.chaos import remade
from tests.chaos.crew import Answer, Crew
from tests.chaos.diary import Diary
from tests.chaos.executors import ExecutorKiller
from tests.chaos.judge import Key, Piece, Problem, Seen, judge
from tests.chaos.judge_windows import Remade, holes, judge_remade, judge_runs, judge_windows
from tests.chaos.plan import INCREMENTS, S3, TWINS, Event, Kind, Pipeline, Plan, Task
from tests.chaos.publications import judge_apart, judge_kept
from tests.chaos.s3 import CREDENTIALS, FaultyS3
from tests.chaos.settings import Place, Settings
from tests.chaos.spark_load import Cluster, connector_jars
from tests.chaos.standing import Standing
from tests.chaos.topics import Topics

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
    :param complaints: about second ledgers, and about topics that were re-created.
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
    diary, everyone = Diary(), (*plan.pipelines, *plan.twins, *plan.remade)
    with ExitStack() as stack:
        on_s3 = [each.store for each in plan.pipelines if each.store in ON_S3]
        servers = {store: stack.enter_context(FaultyS3(f"{plan.seed} {store}")) for store in on_s3}
        topics = stack.enter_context(closing(Topics(bootstrap_servers, plan.topics, diary)))
        killer = stack.enter_context(ExecutorKiller(spark, plan.seed)) if spark else None
        for each in servers.values():
            _create_bucket(each)
        remade.make(bootstrap_servers, [topic for each in plan.remade for topic in each.topics])
        places = {each.store: _place(each, folder, servers) for each in everyone}
        cluster = Cluster(spark.master_url, connector_jars()) if spark else None
        planned = {each.store: frozenset(each.windows) for each in everyone}
        settings = Settings(bootstrap_servers, places, planned, folder / "output", str(plan.seed), True, cluster)
        with Crew(settings, diary, size=2 if spark else 3) as crew:
            with _storm(servers.values()):
                _do(plan.steps, topics, crew)
            early = {each.store: Standing.of(places[each.store]) for each in (*plan.pipelines, *plan.twins)}
            with _storm(servers.values()):
                _do(plan.late, topics, crew)
        topics.finish()
        last = {each.store: Standing.of(places[each.store]) for each in everyone}
        outcomes = tuple(
            _outcome(each, early[each.store], last[each.store], topics, crew.answers) for each in plan.pipelines
        )
        faults = Counter({"executor killed": killer.killed} if killer else {})
        for server in servers.values():
            faults += Counter(server.counts)
        left_out = {each.store: holes(early[each.store].pieces) for each in plan.pipelines}
        told_of = Counter({f"{store} holes told": len(each) for store, each in left_out.items()})
        complaints = (
            *(words for each in plan.remade for words in _remade(each, last[each.store], bootstrap_servers, crew)),
            *(words for each in plan.twins for words in _twin(each, early, last, topics, crew.answers)),
        )
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


def _outcome(pipeline: Pipeline, early: Standing, last: Standing, topics: Topics, answers: Sequence[Answer]) -> Outcome:
    """The outcome of a pipeline.

    :param early: what was published while windows were left out.
    """
    complaints = [f"with windows left out: {each}" for each in early.complaints]
    complaints += [*last.complaints, *judge_kept(early.holding, last.holding)]
    complaints += [f"a hole is left: {each}" for each in holes(last.pieces)]
    if pipeline.windows:
        requested = set(pipeline.windows) - set(pipeline.left_out)
        complaints += judge_windows(early.windows, requested, pipeline.shaken)
        complaints += judge_windows(last.windows, pipeline.windows)
    else:
        ours = (each for each in answers if each.task.store == pipeline.store)
        complaints += judge_runs(
            last.windows, [(each.task.start_ms, each.said.window) for each in ours if each.said.window]
        )
    return Outcome(pipeline, last.pieces, topics.judged(pipeline.isolation_level), tuple(complaints))


def _twin(
    twin: Pipeline,
    early: Mapping[str, Standing],
    last: Mapping[str, Standing],
    topics: Topics,
    answers: Sequence[Answer],
) -> Iterator[str]:
    """What is wrong with a second ledger, and with the first one because of it."""
    first = next(last[store] for store, each in TWINS.items() if each == twin.store)
    before, after, seen = early[twin.store], last[twin.store], topics.judged(twin.isolation_level)
    asked = {each.task.times for each in answers if each.task.store == twin.store}
    words = [*before.complaints, *after.complaints, *judge_kept(before.holding, after.holding)]
    words += [*judge_windows(after.windows, asked), *judge_apart(first.log.windows, after.log.windows)]
    for window in sorted(after.windows):  # they have holes between them
        words += map(str, judge([each for each in after.pieces if each.window == window], seen))
    return (f"{twin.store}: {each}" for each in words)


def _remade(pipeline: Pipeline, last: Standing, bootstrap_servers: str, crew: Crew) -> Iterator[str]:
    """What is wrong with a pipeline whose topic was re-created."""
    (topic,), level = pipeline.topics, pipeline.isolation_level
    tried = (each for each in crew.answers if each.task.store == pipeline.store and each.task.kind is Kind.REMADE)
    found = Remade(
        refused=["refused" in each.said.words for each in tried],
        pieces=last.pieces,
        first=pipeline.windows[0],
        visible=remade.visible(bootstrap_servers, topic, level),
        left={(name, partition): range(start, end) for name, partition, start, end in last.taken},
        records=remade.RECORDS,
    )
    return (f"{pipeline.store}: {words}" for words in (*last.complaints, *judge_remade(found)))
