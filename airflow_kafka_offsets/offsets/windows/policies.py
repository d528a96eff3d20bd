"""Policies: the words that an argument takes for what to do in a special case. Each one's default is ``fail``."""

from __future__ import annotations

from typing import Literal, TypeAlias

DataLossPolicy: TypeAlias = Literal["fail", "load_rest"]
"""``on_data_loss``: Kafka no longer has records of the window. ``load_rest`` loads the others, and records the loss."""
FuturePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_future_record``: a boundary is at a record from the future, so that windows up to its time will be empty."""
HolePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_hole``: offsets before the window are in no published window, and nobody loads them."""
IncompletePolicy: TypeAlias = Literal["fail", "warn"]
"""``on_incomplete``: an audited table isn't complete."""
UnknownPolicy: TypeAlias = Literal["fail", "warn"]
"""``on_unknown``: it can't be told when retention deletes records that aren't loaded."""
