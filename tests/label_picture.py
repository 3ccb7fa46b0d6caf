"""Draws docs/_static/label.png, the labelling page in use: `python tests/label_picture.py [FILE]`.

500 handwritten digits of scikit-learn; the rows that the page asks for get their true class, 30 of them.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from browser import Browser
from gpum.app.tables import tables

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "label.png"
ROWS, LABELS = 500, 30
SHOWN = "return document.querySelector('#classes .probability').textContent !== ''"
NAME = "return document.getElementById('row-name').textContent"


def main(path):
    """Label in a headless browser, then take a picture of the window."""
    X, y = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "digits.csv"
        columns = {f"pixel_{k + 1}": X[:ROWS, k] for k in range(X.shape[1])}
        tables.write(table, {"id": [str(k + 1) for k in range(ROWS)], **columns, "digit": [""] * ROWS})
        options = ("--index", "id", "--classes", ",".join("0123456789"), "--image-shape", "8x8", "--no-browser")
        command = (sys.executable, "-u", "-m", "gpum", "label", table.name, "--target", "digit", *options)
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        browser = Browser()
        try:
            address = next(line.split()[-1] for line in server.stdout if line.startswith("Label at"))
            browser.open(address, 1280, 800)
            for _ in range(LABELS):
                row = browser.run(NAME)
                browser.keys(str(y[int(row) - 1]))
                browser.wait(f"{NAME} !== '{row}'", 60)
            browser.wait("return document.documentElement.dataset.fitting === 'no'", 60)
            browser.wait(SHOWN)
            browser.screenshot(path)
            Image.open(path).crop((0, 0, 1280, 776)).quantize(256).save(path, optimize=True)  # one screen
        finally:
            browser.close()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
