"""Benchmarks: this package against named peers, on real brokers, in one run. Run them with ``make bench``."""
