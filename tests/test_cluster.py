"""One seam to clusters: joblib's dask backend, with a worker lost half-way."""

import threading
import time

import joblib
import numpy as np
import pytest

from gpum import heat_kernel
from gpum.heat import paths
from oracles import ROLL

distributed = pytest.importorskip("distributed")


@pytest.mark.filterwarnings("ignore")
def test_a_lost_worker_changes_nothing(monkeypatch):
    monkeypatch.setattr(paths, "UNITS", 10)  # many small tasks
    points = np.array([[6.0, 3.0], [7.0, 4.0], [9.0, 9.0], [4.0, 2.0]])
    options = {"method": "brownian", "n_paths": 2000, "random_state": 3, "step_size": 0.2}
    alone = heat_kernel(ROLL, points, None, [3.0, 8.0], **options)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(__import__, "gpum")  # the import itself is not what is tested
        victim = next(iter(cluster.workers.values()))
        killed = []

        def kill_when_busy():
            for _ in range(600):
                if any(client.processing().values()):
                    time.sleep(0.5)
                    victim.process.process._process.kill()
                    killed.append(True)
                    return
                time.sleep(0.05)

        killer = threading.Thread(target=kill_when_busy)
        killer.start()
        with joblib.parallel_config(backend="dask"):
            found = heat_kernel(ROLL, points, None, [3.0, 8.0], n_jobs=-1, **options)
        killer.join()
    assert killed
    np.testing.assert_array_equal(found, alone)
