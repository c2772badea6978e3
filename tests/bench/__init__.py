"""Measures throughput and latency: `python -m bench`, or `make bench`."""
