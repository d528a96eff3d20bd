"""Arguments: what users may write, what is refused, and that it means the same in every process."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_offsets.arguments import as_flag, as_milliseconds, as_name, as_names
from airflow_kafka_offsets.errors import ConfigurationError


class TestNames:
    def test_they_keep_the_order_in_which_they_were_written(self) -> None:
        assert as_names(["b", "a"], "topics") == as_names(("b", "a"), "topics") == ("b", "a")

    def test_those_of_a_set_have_the_same_order_in_every_process(self) -> None:
        """What is kept for a retry, or for a watcher, is found again by them."""
        program = "from airflow_kafka_offsets.arguments import as_names; print(as_names(set('abcdefg'), 'topics'))"
        for seed in "1", "2", "3":
            environment = os.environ | {"PYTHONHASHSEED": seed}
            ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
            assert ran.stdout.strip() == str(tuple("abcdefg"))

    def test_each_counts_once(self) -> None:
        assert as_names(["b", "a", "b"], "topics") == ("b", "a")

    @pytest.mark.parametrize("value", [None, "", [], ["a"], 7])
    def test_a_single_one_is_a_text_that_is_not_empty(self, value: Any) -> None:
        assert as_name("g", "group") == "g"
        with pytest.raises(ConfigurationError, match="group must be a name"):
            as_name(value, "group")

    @pytest.mark.parametrize("value", [None, "", [], set(), {"a", 1}, [""], 7, {"a": 1}])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="topics must be a name or a list of names"):
            as_names(value, "topics")

    @pytest.mark.parametrize("value", ["\udcff", "t" * 40_000, "é" * 20_000])
    def test_one_that_no_broker_could_be_sent_is_refused(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="group must be UTF-8, of 32767 bytes at most"):
            as_name(value, "group")
        with pytest.raises(ConfigurationError, match="topics must be UTF-8, of 32767 bytes at most"):
            as_names(["t", value], "topics")


class TestDurations:
    @pytest.mark.parametrize(("value", "ms"), [(None, None), (0, 0), (1.5, 1500), (timedelta(minutes=1), 60_000)])
    def test_they_are_seconds_or_a_timedelta(self, value: Any, ms: int | None) -> None:
        assert as_milliseconds(value, "max_age") == ms

    @pytest.mark.parametrize("value", [-1, True, "60", math.inf, -math.inf, math.nan, 1e12, timedelta(seconds=-1)])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="max_age must be a timedelta or a number of seconds"):
            as_milliseconds(value, "max_age")


class TestFlags:
    @pytest.mark.parametrize("value", [True, 1, "true", "True", " yes ", "1"])
    def test_yes(self, value: Any) -> None:
        assert as_flag(value, "reload") is True

    @pytest.mark.parametrize("value", [False, 0, None, "", " ", "false", "No", "0", "None"])
    def test_no(self, value: Any) -> None:
        """Also what a template leaves empty."""
        assert as_flag(value, "reload") is False

    @pytest.mark.parametrize("value", ["perhaps", 2, 1.0, [], {}])
    def test_what_is_neither_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="reload must be True or False"):
            as_flag(value, "reload")
