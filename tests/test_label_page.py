"""The page for labels in a browser, and kills: nothing is lost, nothing doubled."""

import http.client
import json
import random
import threading
import time

import numpy as np
import pytest

from gpum.app.cli.address import redirect
from gpum.app.labelling.pictures import Pixels
from gpum.app.tables import tables
from gpum.app.tables.labels import beside
from gpum.estimators.beliefs import parse_number
from label_child import (
    TOKEN,
    Child,
    N,
    closing,
    give,
    lines_of,
    make_session,
    new_id,
    serving,
    settled,
    truth,
    write_table,
)

ENTER = "\ue007"


def post(port, action, body, patience=30.0):
    """What the page does: the same request under the same id until it is answered."""
    end = time.monotonic() + patience
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/{TOKEN}/{action}", json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < end, "the server did not come back"
            time.sleep(0.02)
        finally:
            connection.close()


def check_stored(table, rows):
    """Every label once, and as it was given."""
    given = [line for line in lines_of(table) if line["action"] == "label"]
    assert len(given) == len({line["id"] for line in given}) == len(rows)
    assert [(int(line["row"]) - 1, line["value"]) for line in given] == [(r, parse_number(truth(r))) for r in rows]


@pytest.mark.slow
def test_ten_kills_lose_and_double_nothing(label_table):
    """SIGKILL between a request and its answer; the same request again, to the server that comes back."""
    child, rng = Child(label_table), random.Random(0)
    post(child.port, "skip", {"id": new_id(), "row": N - 1})  # it is up
    rows = rng.sample(range(N - 1), 10)
    try:
        for row in rows:
            timer = threading.Timer(rng.uniform(0.0, 0.004), child.process.kill)
            timer.start()
            body, answers = {"id": new_id(), "row": row, "value": truth(row), "previous": ""}, []
            asking = threading.Thread(target=lambda body=body, to=answers: to.append(post(child.port, "label", body)))
            asking.start()
            timer.join()
            child.process.join()
            child.start()
            asking.join(60)
            assert answers[0][0] == 200, answers
    finally:
        child.kill()
    check_stored(label_table, rows)


TEXT = "return document.getElementById('{}').textContent"


def shown_row(browser):
    return int(browser.run(TEXT.format("row-name"))[1:])


def faults(browser):
    """What went wrong in the page, but for a server that was away, and answers that refuse a label."""
    return [e for e in browser.errors() if "net::ERR_" not in e["message"] and "status of 400" not in e["message"]]


def type_label(browser, text=None):
    """A label by keyboard for the row that is asked for; which row that was."""
    row = shown_row(browser)
    browser.keys((truth(row) if text is None else text) + ENTER)
    browser.wait(f"return document.getElementById('row-name').textContent !== 'r{row}'", 60)
    return row


def labels_shown(browser):
    return dict(browser.run("return [...page.labels]"))


@pytest.mark.slow
def test_a_tour_of_the_page(browser, label_table, tmp_path):
    """Ten labels by keyboard, undo, reload, two tabs, a kill and a new start, export."""
    child = Child(label_table)
    try:
        post(child.port, "skip", {"id": new_id(), "row": N - 1})  # it is up
        browser.open(child.address)
        rows = [type_label(browser) for _ in range(10)]
        assert labels_shown(browser) == {row: parse_number(truth(row)) for row in rows}
        check_stored(label_table, rows)
        browser.run("apply({ ...state, version: `${state.version.split('.')[0]}.0`, labels: [] })")  # a late answer
        assert set(labels_shown(browser)) == set(rows)
        browser.wait(f"return state.value && state.value.length === {N} && !state.fitting", 60)
        assert browser.run("return document.querySelectorAll('#figures > div').length") == 4
        assert browser.run("return map.drawn") > 0
        browser.keys("u")  # undo
        browser.wait("return page.labels.size === 9")
        browser.wait(f"return document.getElementById('row-name').textContent === 'r{rows[-1]}'")
        assert type_label(browser) == rows[-1]
        assert set(labels_shown(browser)) == set(rows)
        browser.keys("1,5" + ENTER)
        assert browser.wait(TEXT.format("trouble")).startswith("'1,5' is not a number; write a decimal point")
        browser.open(child.address)  # reload
        assert set(labels_shown(browser)) == set(rows)
        first, second = browser.tabs()[0], browser.tab()
        browser.open(child.address)
        eleventh = type_label(browser)
        browser.use(first)
        browser.wait(f"return page.labels.has({eleventh})")
        assert shown_row(browser) != eleventh  # it moves on with the news, since nothing was typed
        browser.use(second)
        browser.close_tab()
        browser.use(first)
        child.kill()
        last = shown_row(browser)
        browser.keys(truth(last) + ENTER)
        browser.wait("return document.getElementById('status').textContent.includes('stored here')")
        assert last not in labels_shown(browser)  # not before it is on the disk
        child.start()
        browser.wait(f"return page.labels.has({last})", 60)
        check_stored(label_table, [*rows[:9], rows[9], rows[9], eleventh, last])
        browser.run("document.getElementById('export').click()")
        browser.wait("return document.getElementById('status').textContent === '12 labels written into data.csv.'")
        y = tables.read(label_table).numbers("y", "")
        assert {int(row) for row in np.flatnonzero(np.isfinite(y))} == {*rows, eleventh, last}
        assert faults(browser) == []
    finally:
        child.kill()


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_and_is_accessible(browser, label_server, width):
    for row in range(0, N, 4):
        give(label_server.session, row)
    settled(label_server.session)
    browser.open(label_server.address, width)
    browser.wait("return state.value && state.advice && document.querySelectorAll('#near b').length === 5")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    names = browser.run(
        "const named = (e) => e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label') || e.alt;"
        "const all = [...document.querySelectorAll('button, input, select, canvas')].filter((e) => e.offsetParent);"
        "return all.filter((e) => !named(e)).map((e) => e.id)"
    )
    assert names == []
    assert browser.run("return document.activeElement.id") == "field"
    seen = set()
    for colour in ("value", "spread", "geometry"):
        browser.run(f"document.querySelector('input[value={colour}]').click()")
        seen.add(browser.run("return map.colours.join()"))
    assert len(seen) == 3
    browser.run("document.querySelector('input[value=value]').click()")
    x, y = browser.run(
        "map.canvas.scrollIntoView({block: 'center'});"
        "const c = map.canvas.getBoundingClientRect(); return [c.left + map.pixels.x[17], c.top + map.pixels.y[17]]"
    )
    browser.hover(x, y)
    assert "r17" in browser.wait("const t = document.querySelector('.tip'); return !t.hidden && t.textContent")
    browser.drag([(x, y)])
    assert shown_row(browser) == 17
    browser.run("document.getElementById('find').focus()")
    browser.keys("r3" + ENTER)
    assert shown_row(browser) == 3
    assert browser.run("return [...document.querySelectorAll('#near b')].length") == 5
    data = "const view = document.getElementById('view'); view.value = setup.views.length - 1;"
    browser.run(data + "view.dispatchEvent(new Event('change'))")  # three directions, which can be turned
    turn = browser.run("map.canvas.focus(); return map.turn")
    browser.keys("\ue014")
    assert browser.run("return map.turn") != turn
    browser.run("document.getElementById('back').click()")
    skipped = shown_row(browser)
    browser.keys("s")
    browser.wait(f"return document.getElementById('row-name').textContent !== 'r{skipped}'")
    assert faults(browser) == []


def test_a_file_leads_to_the_page(browser, label_server, tmp_path):
    """Which is gone as soon as the page is there."""
    path = redirect(tmp_path / "data.csv", label_server.address)
    label_server.opened = path.unlink
    browser.open(path)
    assert browser.run("return location.href") == label_server.address
    browser.wait("return document.getElementById('row-name').textContent.startsWith('r')")
    assert not path.exists()
    assert faults(browser) == []


def test_classes_by_keys(browser, tmp_path):
    path = tmp_path / "data.csv"
    write_table(path)
    with closing(make_session(path, classes=["low", "<b>high</b>"])) as session, serving(session) as server:
        browser.open(server.address)
        for _ in range(6):
            row = shown_row(browser)
            browser.keys("1" if row < N / 2 else "2")
            browser.wait(f"return document.getElementById('row-name').textContent !== 'r{row}'")
        browser.wait("return state.value", 30)
        browser.wait("return document.querySelector('#classes .probability').textContent")
        assert browser.run("return document.querySelectorAll('#classes button')[1].textContent").startswith("<b>high")
        assert browser.run("return new Set(map.shapes).size") == 2  # distinguished without colours
        assert faults(browser) == []


@pytest.mark.parametrize(("dark", "height"), [(False, 657), (True, 800)])
def test_a_laptop_shows_all_that_labelling_needs(browser, tmp_path, dark, height):
    """Map, picture, ten classes and progress, also at 1280 × 657, between a browser's bars; bars end below words."""
    path, names = tmp_path / "data.csv", [f"class {k}" for k in range(10)]
    X = write_table(path)
    session = make_session(path, classes=names, pictures=Pixels(X, (1, 3)))
    with closing(session), serving(session) as server:
        for row in range(0, N, 2):
            give(session, row, names[row // 4])
        settled(session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.command("Emulation.setEmulatedMedia", features=[scheme])
        browser.open(server.address, 1280, height)
        browser.wait("return !document.getElementById('picture').hidden && document.querySelectorAll('#near b').length")
        ends = browser.run(
            "return ['map', 'picture', 'classes', 'figures', 'advice', 'skip', 'near'].map("
            "id => document.getElementById(id).getBoundingClientRect()).map(r => [r.top, r.bottom, r.width])"
        )
        assert all(top >= 0 and bottom <= height and width > 100 for top, bottom, width in ends[:5])
        assert all(bottom <= height for _, bottom, _ in ends)
        assert browser.run("return new Set(setup.classes.map((_, k) => classColour(k))).size") == 10
        struck = browser.run(
            "return [...document.querySelectorAll('#classes button')].filter(b => {"
            "const bar = b.querySelector('.chance').getBoundingClientRect(), range = document.createRange();"
            "range.selectNodeContents(b.querySelector('.name'));"
            "return bar.width && bar.top < range.getBoundingClientRect().bottom - 4}).length"
        )
        assert struck == 0
        assert faults(browser) == []


def test_the_goal_is_chosen_on_the_page(browser, label_table):
    """The next row follows the goal; map, row, choice and counters fit into 1280 × 657."""
    session = make_session(label_table)
    with closing(session), serving(session) as server:
        for row in (0, 5, 12, 19, 29, 34):
            give(session, row)
        settled(session)
        browser.open(server.address, 1280, 657)
        browser.wait("return state.value && state.advice")
        choose = "const g = document.getElementById('goal'); g.value = '{}'; g.dispatchEvent(new Event('change'))"
        browser.run(choose.format("maximum"))
        browser.wait("return state.goal[0] === 'maximum' && state.advice.includes('best value so far')", 30)
        assert min(abs(shown_row(browser) - row) for row in (8, 39)) <= 3
        browser.run(choose.format("level"))
        browser.keys("0.5" + ENTER)
        browser.wait("return state.goal[1] === 0.5", 30)
        assert min(abs(shown_row(browser) - row) for row in (3, 13, 34)) <= 3
        ends = browser.run(
            "return ['map', 'figures', 'advice', 'goal', 'level', 'skip', 'near'].map("
            "id => document.getElementById(id).getBoundingClientRect()).map(r => [r.top, r.bottom, r.width])"
        )
        assert all(top >= 0 and bottom <= 657 and width > 40 for top, bottom, width in ends)
        assert session.labels == {row: parse_number(truth(row)) for row in (0, 5, 12, 19, 29, 34)}
        browser.open(server.address, 1280, 657)  # a reload shows what is asked for
        browser.wait("return document.getElementById('goal').value === 'level'")
        assert browser.run("return document.getElementById('level').value") == "0.5"
        assert faults(browser) == []


@pytest.mark.slow
def test_two_hundred_kills_between_key_and_answer(browser, label_table):
    """A label by keyboard, SIGKILL at a random moment of it, a new start, and the page goes on."""
    child, rng = Child(label_table), random.Random(1)
    post(child.port, "skip", {"id": new_id(), "row": N - 1})  # it is up
    browser.open(child.address)
    rows, before = [], 0
    try:
        for k in range(200):
            row = k % (N - 1)
            browser.run(f"show({row}, true)")
            begin = beside(label_table).stat().st_size
            text = f"{rng.uniform(-1, 1):.4f}"
            browser.run(f"document.getElementById('field').value = '{text}'")
            timer = threading.Timer(rng.uniform(0.0, 0.12), child.process.kill)
            timer.start()
            browser.keys(ENTER)
            timer.join()
            child.process.join()
            before += beside(label_table).stat().st_size == begin
            child.start()
            browser.wait(f"return page.labels.get({row}) === '{parse_number(text)}' && !waiting().length", 60)
            rows.append((row, parse_number(text)))
    finally:
        child.kill()
    given = [line for line in lines_of(label_table) if line["action"] == "label"]
    assert [(int(line["row"]) - 1, line["value"]) for line in given] == rows
    assert len({line["id"] for line in given}) == 200
    print(f"{before} kills before the label was on the disk, {200 - before} after")
    assert 10 < before < 190  # both kinds were met
