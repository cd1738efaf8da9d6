# SPDX-License-Identifier: Apache-2.0
"""The metrics registry and its text format."""

import pytest

from rdd.base.metrics import Registry


def test_renders_families_in_the_order_of_declaration() -> None:
    registry = Registry()
    counter = registry.counter("b_total", "Counts.", "verb", "code")
    registry.gauge("a", "Reads.").read(lambda: 2.5)
    registry.counter("unused_total", "Has no sample.")
    counter.add("get", 404)
    counter.add("get", 200, by=1_234_567)
    assert registry.render() == (
        "# HELP b_total Counts.\n"
        "# TYPE b_total counter\n"
        'b_total{verb="get",code="200"} 1234567\n'
        'b_total{verb="get",code="404"} 1\n'
        "# HELP a Reads.\n"
        "# TYPE a gauge\n"
        "a 2.5\n"
    )


def test_histogram_buckets_are_cumulative_and_include_their_limit() -> None:
    registry = Registry()
    histogram = registry.histogram("d_seconds", "Times.", "verb", limits=(0.1, 1.0))
    for seconds in (0.1, 0.5, 7.0):
        histogram.observe(seconds, "get")
    assert registry.render().splitlines()[2:] == [
        'd_seconds_bucket{verb="get",le="0.1"} 1',
        'd_seconds_bucket{verb="get",le="1.0"} 2',
        'd_seconds_bucket{verb="get",le="+Inf"} 3',
        'd_seconds_sum{verb="get"} 7.6',
        'd_seconds_count{verb="get"} 3',
    ]


def test_histogram_without_labels() -> None:
    registry = Registry()
    registry.histogram("d", "Times.", limits=(1,), sum_format=".6f").observe(0.5)
    assert 'd_bucket{le="1"} 1\n' in registry.render()
    assert "d_sum 0.500000\nd_count 1\n" in registry.render()


def test_escapes_label_values() -> None:
    registry = Registry()
    registry.counter("c_total", "Counts.", "name").add('a"\\\n')
    assert 'c_total{name="a\\"\\\\\\n"} 1\n' in registry.render()


def test_returns_the_value_of_a_sample() -> None:
    registry = Registry()
    registry.counter("c_total", "Counts.", "name").add("x", by=3)
    registry.gauge("g", "Reads.", "name").read(lambda: 4, "x")
    histogram = registry.histogram("h", "Times.", "name", limits=(1,))
    histogram.observe(0.5, "x")
    histogram.observe(5, "x")
    assert registry.value("c_total", name="x") == 3
    assert registry.value("c_total", name="other") == 0
    assert registry.value("g", name="x") == 4
    assert registry.value("h", name="x") == 2
    assert registry.value("h", name="other") == 0


def test_rejects_a_second_declaration() -> None:
    registry = Registry()
    registry.counter("c_total", "Counts.")
    with pytest.raises(ValueError, match="c_total is declared twice"):
        registry.gauge("c_total", "Reads.")
