"""Small model files, and what their models predict: tests mutate them, and read them as files of an earlier version.

They are made anew by `python tests/fuzz/corpus.py` only where a new version need not read them any more.
"""

import json
from pathlib import Path

import numpy as np

from gpum import (
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    GraphMaternGPRegressor,
    KernelOptions,
)

CORPUS = Path(__file__).parent / "corpus"
PREDICTIONS = Path(__file__).parent / "predictions.json"


def predicted(model, rows):
    """What a model says of rows: probabilities, or mean and standard deviation."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return np.stack(model.predict(rows, return_std=True), 1)


def main():
    """Tiny models of every kind."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2))
    y = np.where(np.arange(8) < 5, X[:, 0], np.nan)
    u = np.linspace(0, 2, 14)
    curve = np.stack([np.cos(u), np.sin(u), 0.3 * u], 1)
    latent = BayesianGPLVM(1, n_inducing=4, starts="pca", tol=1.0, max_iter=200, random_state=0)
    one = {"smoothness": "heat", "hyperparameters": "evidence"}
    chart = GPUMRegressor(
        1, geometry=["chart", "atlas"], latent_model=latent, kernel=KernelOptions(boundary=0.5), random_state=0, **one
    )
    models = {
        "flat": EuclideanGPRegressor(**one).fit(X, y),
        "graph": GraphMaternGPRegressor(n_neighbors=3, **one).fit(X, y),
        "classes": GPUMClassifier(geometry="flat", smoothness="heat").fit(X, [0, 1, 0, 1, -1, -1, -1, -1]),
        "chart": chart.fit(curve, np.where(np.arange(14) % 3 == 0, np.sin(u), np.nan)),
    }
    new = np.array([[0.3, -0.2], [-0.5, 0.9], [1.1, 0.4]])
    stored = {}
    for name, model in models.items():
        model.save(CORPUS / f"{name}.gpum", force=True)
        rows = np.concatenate([curve[::5], curve[3:5] + 0.01]) if name == "chart" else np.concatenate([X[5:], new])
        stored[name] = {"rows": rows.tolist(), "predicted": predicted(model, rows).tolist()}
    PREDICTIONS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
