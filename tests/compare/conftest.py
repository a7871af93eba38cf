"""Reports of small experiments: a test of them needs no thousands of resamples."""

import pytest

from glassformer.compare import results
from glassformer.compare.statistics import bootstrap_mean, paired

FEW = 100


@pytest.fixture(scope="module", autouse=True)
def _few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        for name, function in (("paired", paired), ("bootstrap_mean", bootstrap_mean)):
            patch.setattr(results, name, _with_few(function))
        yield


def _with_few(function):
    return lambda *given, **settings: function(*given, **{**settings, "resamples": FEW})
