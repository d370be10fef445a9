"""What would be if an application had other rates: it and its stages stay in step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.core.application import Application, Stage
from gpuyard.core.service import Service
from gpuyard.policies.partition.deployment import Deployment, known_models, serving_cluster
from gpuyard.policies.partition.elastic import Elastic
from gpuyard.policies.partition.what_if import changed, outlook

DIGITS = Application(
    "digits", 50.0, 100.0, (Stage("cut", "lenet", per_request=2.0), Stage("read", "lenet", ("cut",), per_request=3.0))
)
"""Each of its requests is two of the first stage and three of the second."""


@pytest.mark.parametrize(
    ("change", "rate", "stages"),
    [
        ("digits=80", 80.0, [160.0, 240.0]),
        ("+10%", 55.0, [110.0, 165.0]),
        ("digits/cut=120", 60.0, [120.0, 150.0]),  # the first stage says how often the application is asked
        ("lenet=100", 50.0, [100.0, 100.0]),  # a model, whatever it is a stage of
    ],
)
def test_an_application_and_its_stages_have_rates_that_go_together(
    change: str, rate: float, stages: list[float]
) -> None:  # fmt: skip
    services = (Service("digits/cut", "lenet", 100.0, 50.0), Service("digits/read", "lenet", 150.0, 50.0))
    cluster, policy = serving_cluster("1x2080ti"), Elastic()
    plan = policy.plan(services, cluster, known_models(cluster))
    after = outlook(Deployment(services, cluster, plan, applications=(DIGITS,)), [change], policy).deployment
    assert [each.rate_per_s for each in after.services] == pytest.approx(stages)
    assert [each.rate_per_s for each in after.applications] == [pytest.approx(rate)]


def test_one_more_of_a_model_that_is_there_is_a_service_of_its_own() -> None:
    services = (Service("lenet", "lenet", 10.0, 20.0), Service("lenet-2", "lenet", 10.0, 20.0))
    [*kept, more] = changed(services, "+lenet:5:40")
    assert tuple(kept) == services
    assert more == Service("lenet-3", "lenet", 5.0, 40.0)


def test_the_largest_factor_is_one_that_fits_and_two_percent_more_is_none() -> None:
    services, cluster, policy = (Service("faces", "bert", 100.0, 22.0),), serving_cluster("1x2080ti"), Elastic()
    known = known_models(cluster)
    present = Deployment(services, cluster, policy.plan(services, cluster, known))
    factor = outlook(present, (), policy).fits_until
    unserved = [
        policy.plan([replace(services[0], rate_per_s=100.0 * each)], cluster, known).unserved
        for each in (factor, factor * 1.02)
    ]
    assert [bool(each) for each in unserved] == [False, True]
