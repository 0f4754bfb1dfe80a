"""What correlated samples are worth: n / tau, where tau is the integrated autocorrelation time of the series.

tau = 1 + 2 Σ rho_k, up to the first lag whose autocorrelation cannot be told from zero: below two standard errors of
independent noise, 2 / √n (Bartlett 1946). The sum over all lags does not converge (Sokal 1997, Monte Carlo Methods in
Statistical Mechanics, 3); Geyer's cut at the first negative pair (1992) adds up the noise of independent samples too.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onnxdyno.domain.findings import Estimate

Series = NDArray[np.float64]

LEAST_SAMPLES = 10
"""Of each launch, below which nothing is said about its autocorrelation."""


def n_eff(launches: Sequence[Sequence[int]]) -> Estimate:
    """How many independent samples would give the median as well as these do, all launches together; at most n.

    The series is the side of its launch's median that each sample is on: what the error of a median follows, and finite
    where latencies have no variance to speak of (Vehtari et al. 2021, Bayesian Analysis 16(2), for quantiles).
    """
    shortest = min(len(launch) for launch in launches)
    if shortest < LEAST_SAMPLES:
        return Estimate(value=None, reason=f"too few samples to see their autocorrelation: a launch has {shortest}")
    sides = [np.sign(np.asarray(launch, dtype=np.float64) - np.median(launch)) for launch in launches]
    if not any(side.any() for side in sides):
        return Estimate(value=None, reason="all samples of a launch are equal: nothing to correlate")
    tau = autocorrelation_time(sides)
    if tau is None:
        return Estimate(value=None, reason="the samples of a launch are correlated from its first to its last")
    return Estimate(value=sum(map(len, launches)) / tau)


def tail_n_eff(launches: Sequence[Sequence[float]], threshold: float) -> float:
    """The same for the share of samples above `threshold`: how often, and in what clumps, the tail comes."""
    above = [np.asarray(launch, dtype=np.float64) > threshold for launch in launches]
    tau = autocorrelation_time([each.astype(np.float64) for each in above])
    return sum(map(len, launches)) / (tau or 1.0)


def autocorrelation_time(launches: Sequence[Series]) -> float | None:
    """Integrated autocorrelation time, in samples, at least 1: one for all launches, each about its own mean.

    None where no launch varies, or none is long enough for its autocorrelation to die out.
    """
    products = np.zeros(max(len(launch) for launch in launches))
    for launch in launches:
        products[: len(launch)] += _lagged_products(launch)
    if products[0] <= 0:
        return None
    rho = products[1:] / products[0]
    lost = np.flatnonzero(rho < 2 / math.sqrt(sum(map(len, launches))))
    return max(1.0, 1 + 2 * float(rho[: lost[0]].sum())) if len(lost) else None


def _lagged_products(launch: Series) -> Series:
    """Σ_t d_t d_(t+k) of deviations from the mean for each lag k, by FFT; zeros keep the ends apart."""
    size = 1 << (2 * len(launch) - 1).bit_length()
    spectrum = np.fft.rfft(launch - launch.mean(), size)
    return np.fft.irfft(np.abs(spectrum) ** 2, size)[: len(launch)]
