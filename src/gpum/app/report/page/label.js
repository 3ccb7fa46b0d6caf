"use strict";
// The page shows the state of the server: a label appears once the server has written it to the disk. A request that
// was not answered is stored in the browser and sent again with the same id, so that it counts once.
const PENDING = `gpum pending ${location.pathname} `;
const RETRY = 700; // milliseconds between attempts to reach a server that is away
let setup = null, map = null;
let state = { version: "", belief: "", labels: [], queue: [], figures: [], last: null, value: null, spread: null };
const page = { row: -1, previous: "", jumped: false, view: 0, colour: "value", labels: new Map(), message: "", away: false, ended: false, about: new Map() };
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const waiting = () => Object.keys(localStorage).filter((key) => key.startsWith(PENDING));

// Talking to the server.

async function get(place) {
  const answer = await fetch(place, { cache: "no-store" });
  if (answer.status === 403) { end(); throw new Error("ended"); }
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function end() {
  page.ended = true;
  say("This page is of a gpum label that has ended. Open the address that it prints now.", true);
}

function away(is) {
  page.away = is;
  if (is) say(waiting().length ? "The server does not answer. Your label is stored here, and sent as soon as it is back." : "The server does not answer; waiting for it …", true);
  else if ($("status").classList.contains("wait")) say(page.message);
}

let sending = Promise.resolve(); // one at a time, in the order in which they were made
function send(place, body) {
  const id = crypto.randomUUID(), text = JSON.stringify({ place, body: { id, ...body } });
  localStorage.setItem(PENDING + id, text);
  return later(PENDING + id, text);
}

function later(key, text) {
  sending = sending.then(() => deliver(key, JSON.parse(text)));
  return sending;
}

async function deliver(key, { place, body }) {
  while (!page.ended) {
    try {
      const answer = await fetch(place, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...body, belief: state.belief }) });
      if (answer.status === 403) break;
      const plain = !(answer.headers.get("Content-Type") || "").startsWith("application/json"), said = plain ? { error: await answer.text() } : await answer.json();
      if (answer.status >= 500) throw new Error(said.error);
      localStorage.removeItem(key);
      away(false);
      if (!said.error) apply(said);
      return said;
    } catch (error) {
      away(true);
      await pause(RETRY);
    }
  }
  end();
  return { error: "This page's server has ended; the label is stored here." };
}

async function follow() {
  while (!page.ended) {
    try {
      apply(await get(`state?version=${encodeURIComponent(state.version)}&belief=${encodeURIComponent(state.belief)}`));
      away(false);
    } catch (error) {
      if (page.ended) return;
      away(true);
      await pause(RETRY);
    }
  }
}

function say(text, wait = false) {
  if (!wait) page.message = text;
  $("status").textContent = text;
  $("status").classList.toggle("wait", wait);
}

function complain(text) {
  $("trouble").textContent = text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "";
  $("trouble").hidden = !text;
}

// What is shown.

const version = (of) => of.version.split("."); // which run of the server, and a number that grows

function older(next) {
  const [[run, number], [own, last]] = [next, state].map(version);
  return run === own && Number(number) < Number(last);
}

function apply(next) {
  if (older(next)) return; // it was on its way while a label was stored
  const fresh = "value" in next, aimed = String(state.goal || "information,") !== String(next.goal || state.goal);
  state = { ...state, ...next };
  page.labels = new Map(state.labels);
  page.about.clear();
  fillFigures($("figures"), state.figures);
  $("advice").textContent = state.advice || (state.value ? "" : first());
  $("advice").classList.toggle("stop", Boolean(state.stop));
  if (aimed) showGoal();
  relevance(state.relevance || []);
  $("undo").disabled = !state.last;
  $("undo").title = state.last ? `Take back ${state.last.value} of ${state.last.name}` : "";
  $("export").disabled = !state.new;
  if (state.trouble) complain(state.trouble);
  const label = page.labels.get(page.row) || "";
  if (page.row < 0 || ((aimed || label !== page.previous) && !page.jumped && !typed())) show(state.queue[0] ?? 0);
  else { $("back").hidden = !page.jumped; detail(page.row); }
  paint();
  document.documentElement.dataset.ready = "yes";
  document.documentElement.dataset.belief = state.belief;
  document.documentElement.dataset.fitting = state.fitting ? "yes" : "no";
  return fresh;
}

function first() {
  return setup.classes ? "Predictions begin once two classes have a label. Until then rows are suggested that are far from one another." :
    "Predictions begin with the second label. Until then rows are suggested that are far from one another.";
}

// How much each column matters: name, relevance from 0 to 1, and in words.
function relevance(columns) {
  $("relevance-box").hidden = !columns.length;
  $("relevance").replaceChildren(...columns.map(([name, value, words]) => {
    const item = element("li"), bar = element("span", undefined, "strength");
    bar.style.width = `${100 * value}%`;
    item.append(element("span", name, "name"), element("span", words, "probability"), bar);
    return item;
  }));
}

const typed = () => $("field").value.trim() !== "" && $("field").value !== page.previous;

function show(row, jumped = false) {
  Object.assign(page, { row, jumped, previous: page.labels.get(row) || "" });
  complain("");
  $("why").textContent = jumped ? "Chosen row:" : "Suggested row:";
  $("row-name").textContent = setup.names[row];
  $("back").hidden = !jumped;
  $("field").value = page.previous;
  $("picture").hidden = true;
  detail(row);
  paint();
  rest();
}

function rest() { // where the next key goes
  if (setup.classes) $("ask").focus({ preventScroll: true });
  else { $("field").focus({ preventScroll: true }); $("field").select(); }
}

async function detail(row) {
  guess(row, {});
  let found = page.about.get(row);
  if (!found) {
    try { found = await get(`row/${row}`); } catch (error) { return; }
    page.about.set(row, found);
  }
  if (row !== page.row) return;
  guess(row, found);
  if (found.picture && $("picture").dataset.row !== String(row)) $("picture").src = `picture/${row}`;
  Object.assign($("picture"), { hidden: !found.picture, alt: `Picture of row ${found.name}` });
  $("picture").dataset.row = row;
  $("columns-box").hidden = !found.columns.length;
  fillTable($("columns"), [{ name: "column" }, { name: "value", number: true }], [...found.columns, ...(found.more ? [[`… ${found.more} more`, ""]] : [])]);
  $("near-box").hidden = !found.near.length;
  $("near-how").textContent = found.along ? "along the surface" : "in the data";
  $("near").replaceChildren(...found.near.map(([other, name, label]) => {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.setAttribute("aria-label", `Row ${name}, labelled ${label}`);
    if (setup.pictures) { const picture = element("img"); Object.assign(picture, { src: `picture/${other}`, alt: "" }); button.append(picture); }
    button.append(element("b", label), element("span", name));
    button.addEventListener("click", () => show(other, true));
    item.append(button);
    return item;
  }));
  if (state.queue[1] !== undefined && !page.about.has(state.queue[1]) && setup.pictures) new Image().src = `picture/${state.queue[1]}`; // ahead of time
}

function guess(row, found) {
  const label = page.labels.get(row), box = $("guess");
  const texts = label === undefined ? [] : [element("span", "Label now: "), element("strong", label), element("span", ". ")];
  if (!state.value) { box.replaceChildren(...texts, element("span", label === undefined ? "No prediction yet." : "")); chances(null); return; }
  if (setup.classes) {
    texts.push(element("span", "Prediction: "), element("strong", setup.classes[state.value[row]]), element("span", ` (${Math.round(100 * (1 - state.spread[row]))} %)`));
    chances(found.chances);
  } else {
    texts.push(element("span", "Prediction: "), element("strong", number(state.value[row], 3)),
      element("span", found.interval ? ` (95 %: ${number(found.interval[0], 3)} to ${number(found.interval[1], 3)})` : ` ± ${number(state.spread[row], 2)}`));
  }
  box.replaceChildren(...texts);
}

function chances(probabilities) {
  document.querySelectorAll("#classes button").forEach((button, k) => {
    const probability = probabilities ? probabilities[k] : null;
    button.querySelector(".chance").style.width = `${100 * (probability || 0)}%`;
    button.querySelector(".chance").hidden = !(probability >= 0.01);
    button.querySelector(".probability").textContent = probability === null ? "" : `${probability < 0.01 && probability > 0 ? "<1" : Math.round(100 * probability)} %`;
    button.classList.toggle("now", page.labels.get(page.row) === setup.classes[k]);
  });
}

// What labels are asked for.
const FOLLOW = "The suggestions follow in a moment.";
const GOALS = { information: "what helps all rows", maximum: "the largest value", minimum: "the smallest value", level: "where it is at" };

function showGoal() { // also if another tab has chosen it
  const [goal, level] = state.goal;
  $("goal").value = goal;
  $("level").hidden = goal !== "level";
  if (known(level)) $("level").value = level;
  if (page.message === FOLLOW) say("");
}

function aim() {
  const goal = $("goal").value, level = $("level").value.trim();
  $("level").hidden = goal !== "level";
  if (goal === "level" && !level) { $("level").focus(); return; }
  complain("");
  act("goal", { goal, level }, FOLLOW);
}

const COLOURS = {
  value: { name: "Prediction", title: () => `Prediction of ${setup.target}`, ramp: "viridis", values: () => state.value },
  spread: { name: "Uncertainty", title: () => (setup.classes ? "Chance that the class is wrong" : "Uncertainty: ± one standard deviation"), ramp: "magma", values: () => state.spread },
  geometry: { name: "Geometry", title: () => setup.views[page.view].geometry_name, ramp: "cividis", values: () => setup.views[page.view].geometry, note: () => setup.views[page.view].geometry_note },
};

function paint() {
  if (!setup || !map) return;
  const c = COLOURS[page.colour], values = c.values(), classes = setup.classes && page.colour === "value", N = setup.names.length;
  const note = c.note ? c.note() : values ? "Rows with a label are ringed." : "Nothing is predicted yet. Rows with a label are ringed.";
  let colours, shapes = null;
  $("key-scale").hidden = Boolean(classes) || !values;
  $("key-classes").hidden = !classes;
  if (classes) {
    const of = setup.classes.map((_, k) => classColour(k));
    fillClassKey(c.title(), note, setup.classes, classSwatch);
    const codes = new Map(setup.classes.map((name, k) => [name, k]));
    const now = Array.from({ length: N }, (_, i) => (page.labels.has(i) ? codes.get(page.labels.get(i)) : values ? values[i] : null));
    colours = now.map((k) => (known(k) ? of[k] : null));
    shapes = now.map((k) => (known(k) ? classShape(k) : 0));
  } else if (values) {
    const labels = page.colour === "value" ? [...page.labels.values()].map(Number) : [];
    const range = extent(labels.concat(values)), shown = [...values];
    if (page.colour === "value") for (const [row, text] of page.labels) shown[row] = Number(text); // a label is its own colour
    fillKey(c.title(), note, range, c.ramp);
    colours = scaled(shown, range, c.ramp);
  } else {
    colours = Array(N).fill(null);
    $("key-name").textContent = c.title();
    $("key-note").textContent = note;
  }
  const view = setup.views[page.view], line = view.axes.length === 1;
  if (line) map.show([view.axes[0], state.value || view.axes[0].map(() => 0)], null, [view.names[0], `prediction of ${setup.target}`]);
  map.paint(colours, [...page.labels], page.row, shapes);
}

function choose(k) {
  page.view = k;
  const view = setup.views[k];
  map.reset();
  if (view.axes.length > 1) map.show(view.axes, view.lines || null, view.names);
  $("map-text").textContent = (view.axes.length === 3 ? "Drag, or the arrow keys, turn it; " : "Drag, or the arrow keys, move it; ") +
    "wheel, + and − zoom; 0 resets. Click a row to choose it; the one that is asked for has a thick ring." + (view.lines ? " Thin lines are the edges of the atlas." : "");
  paint();
}

// What people do.

async function label(text) {
  const row = page.row, answer = await send("label", { row, value: text, previous: page.previous });
  if (answer.error) {
    page.previous = page.labels.get(row) || "";
    complain(answer.error);
    if (!setup.classes) $("field").focus();
    return;
  }
  say(`${setup.names[row]} is labelled ${page.labels.get(row) ?? text}.`);
  if (page.row === row) show(state.queue[0] ?? row); // not if the person has gone elsewhere meanwhile
}

async function act(action, body, message) {
  const answer = await send(action, body);
  if (answer.error) complain(answer.error);
  else say(answer.done || message);
  return !answer.error;
}

async function skip() {
  const row = page.row;
  if (await act("skip", { row }, `${setup.names[row]} is skipped.`)) show(state.queue[0] ?? row);
}

async function undo() {
  if (!state.last) return;
  const { id, row, name, value } = state.last;
  if (await act("undo", { of: id }, `${value} of ${name} is taken back.`)) show(row, true);
}

function jump(text) {
  const part = text.trim().toLowerCase(), names = setup.names.map((name) => name.toLowerCase());
  const tests = [(name) => name === part, (name) => name.startsWith(part), (name) => name.includes(part)];
  const found = part ? tests.map((test) => names.findIndex(test)).find((k) => k >= 0) : undefined;
  if (found === undefined) say(`No row's name contains “${text.trim()}”.`);
  else { show(found, true); say(`Row ${setup.names[found]} is chosen.`); }
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !$("keys").checked) return;
  const typing = ["find", "level"].includes(event.target.id) || event.target.tagName === "SELECT";
  if (typing) return;
  const k = event.key, digit = setup.classes ? setup.classes.find((_, i) => classKey(i) === k) : undefined;
  const found = { s: skip, u: undo, b: () => page.jumped && show(state.queue[0] ?? page.row), "/": () => $("find").focus() }[k];
  if (digit !== undefined) label(digit);
  else if (found) found();
  else return;
  event.preventDefault();
}

function classKey(k) { // classes that are digits have their own key, others 1 to 9 in their order
  return setup.classes.every((name) => /^[0-9]$/.test(name)) ? setup.classes[k] : k < 9 ? String(k + 1) : "";
}

function describe(row) {
  const text = page.labels.get(row), more = !state.value ? [] : setup.classes ? [`prediction: ${setup.classes[state.value[row]]} (${Math.round(100 * (1 - state.spread[row]))} %)`] :
    [`prediction: ${number(state.value[row], 3)} ± ${number(state.spread[row], 2)}`];
  return [setup.names[row], text === undefined ? "no label" : `label: ${text}`, ...more];
}

function classSwatch(k) { // as the map draws the class
  const made = element("canvas"), g = made.getContext("2d");
  Object.assign(made, { width: 28, height: 28 });
  g.fillStyle = classColour(k);
  PointMap.prototype.mark(g, 14, 14, 9, classShape(k));
  g.fill();
  return made;
}

function classButtons() {
  $("classes").hidden = false;
  $("digits").hidden = false;
  $("classes-name").textContent = setup.target;
  setup.classes.forEach((name, k) => {
    const button = element("button"), chance = element("span", undefined, "chance");
    button.type = "button";
    button.append(element("span", name, "name"), element("span", "", "probability"), chance);
    if (classKey(k)) { button.append(element("kbd", classKey(k))); button.setAttribute("aria-keyshortcuts", classKey(k)); }
    button.addEventListener("click", () => label(name));
    $("classes").append(button);
  });
}

async function start() {
  while (!setup && !page.ended) {
    try { setup = await get("setup"); } catch (error) { if (page.ended) return; away(true); await pause(RETRY); }
  }
  if (!setup) return;
  document.title = `Label ${setup.title}`;
  $("title").textContent = `Label ${setup.title}`;
  $("storage").textContent = `Every label is in ${setup.file} before this page shows it, and gpum fit reads it from there. Nothing leaves this machine.`;
  $("field-name").textContent = setup.target;
  $("number").hidden = Boolean(setup.classes);
  $("picture").classList.toggle("pixels", setup.pictures === "pixels");
  if (setup.classes) classButtons();
  map = new PointMap($("map"), { pick: (row) => show(row, true), describe, label: "The rows of the table as points. Rows can also be chosen by name, below." });
  setup.views.forEach((view, k) => { const o = element("option", view.title); o.value = k; $("view").append(o); });
  $("view-choice").hidden = setup.views.length < 2;
  $("view").addEventListener("change", (e) => choose(Number(e.target.value)));
  fillChoices($("colour"), "colour", Object.entries(COLOURS).map(([k, c]) => [k, c.name]), page.colour, (k) => { page.colour = k; paint(); });
  $("form").addEventListener("submit", (e) => { e.preventDefault(); if (!setup.classes) label($("field").value); });
  $("goal-choice").hidden = Boolean(setup.classes);
  for (const [name, text] of Object.entries(GOALS)) { const o = element("option", text); o.value = name; $("goal").append(o); }
  $("goal").addEventListener("change", aim);
  $("level").addEventListener("change", aim);
  $("level").addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); aim(); } });
  $("skip").addEventListener("click", skip);
  $("undo").addEventListener("click", undo);
  $("back").addEventListener("click", () => show(state.queue[0] ?? page.row));
  $("export").addEventListener("click", () => act("export", {}, ""));
  $("jump").addEventListener("submit", (e) => { e.preventDefault(); jump($("find").value); });
  document.addEventListener("keydown", key);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  for (const key of waiting()) later(key, localStorage.getItem(key)); // of a page that was closed too early
  choose(0);
  follow();
}

start();
