"""The paper's heat-kernel experiment: learned metrics against the exact kernel."""

import pytest

from gpum.app.reproduce import kernels


@pytest.fixture(scope="module", params=list(kernels.MODELS))
def learned(request):
    """Name of the model, its chart without edges in z, and the 29 targets in it."""
    _, targets, wide = kernels.learn(request.param)
    return request.param, wide, targets


@pytest.mark.slow
def test_spectral_kernel(learned):
    name, chart, targets = learned
    found = kernels.rms(kernels.on_chart(chart, targets, "spectral", 20_000), kernels.exact(False))
    print(f"{name}, spectral: rms difference {found:.2e}")
    assert found < (1e-5 if name == "B-GPLVM" else kernels.PRINTED["GPLVM"])


@pytest.mark.slow
def test_brownian_kernel(learned):
    name, chart, targets = learned
    exact = kernels.exact(False)
    found = [kernels.rms(kernels.on_chart(chart, targets, "brownian", 20_000, k), exact) for k in range(3)]
    print(f"{name}, Brownian, 20 000 paths, three seeds: rms differences {', '.join(f'{x:.2e}' for x in found)}")
    assert max(found) < (5e-5 if name == "B-GPLVM" else kernels.PRINTED["GPLVM"])
