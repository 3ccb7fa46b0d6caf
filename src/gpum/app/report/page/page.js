"use strict";
// Names from the data are shown as text nodes, or through `safe` where plotly draws them.
const data = window.contents;
const state = { target: 0, colour: "mean", selected: [] };
const N = data.rows.length, q = data.chart.dim, charted = ["learned", "known"].includes(data.chart.kind);
const safe = (s) => String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const target = () => data.targets[state.target];
const WORDS = data.words, SPREAD = WORDS.spread.toLowerCase(); // of numbers, or of classes
const said = (t, word) => (t.words && t.words[word]) || WORDS[word];
const mean = () => said(target(), "mean").toLowerCase();
const meanOf = (t) => `${said(t, "mean_of")} ${t.name}`;
const value = (t, v, digits) => (t.classes && known(v) ? t.classes[v] : number(v, digits)); // a class has a name
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "cross"];

const COLOURS = {
  y: { name: "Target (labels)", title: (t) => t.name, ramp: "viridis", note: "Rows without a label are grey.", values: (t) => t.y },
  mean: { name: said(data.targets[0], "mean"), title: meanOf, ramp: "viridis", values: (t) => t.mean },
  std: { name: WORDS.spread, title: () => WORDS.spread_title, ramp: "magma", values: (t) => t.std },
  magnification: { name: "Magnification", title: () => "Magnification", ramp: "cividis", values: () => data.magnification,
    note: "How much surface one unit of the map stands for: like a world map, it stretches some parts more than others." },
};
if (!data.magnification) delete COLOURS.magnification;
const INK = css("--ink"), EDGE = css("--edge"), THREAD = css("--thread"), CARD = css("--card"), LINE = css("--line"), BLUE = "#0072b2", ORANGE = "#d55e00";
const SMOOTH = { "heat kernel": BLUE, "Matérn 5/2": "#009e73", "Matérn 3/2": "#e69f00", "Matérn 1/2": ORANGE };
const FONT = { family: getComputedStyle(document.body).fontFamily, size: 13, color: INK };
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: true, modeBarButtons: [["lasso2d", "select2d", "zoom2d", "pan2d", "resetScale2d"]] };
const QUIET = { responsive: true, displayModeBar: false };
const AXIS = { zeroline: false, gridcolor: LINE, linecolor: THREAD, showline: true, ticks: "outside", tickcolor: THREAD, automargin: true };

const base = (more) => ({
  font: FONT, margin: { l: 50, r: 12, t: 30, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  showlegend: false, modebar: { bgcolor: "rgba(0,0,0,0)", color: THREAD, activecolor: INK }, hoverlabel: { bgcolor: CARD, bordercolor: THREAD, align: "left", font: { size: 12, color: INK } }, ...more,
});
const axis = (title, more) => ({ ...AXIS, title: { text: safe(title), standoff: 8 }, ...more });
const draw = (id, traces, layout, config = QUIET) => Plotly.react($(id), traces, base(layout), config);

function colours() {
  const c = COLOURS[state.colour], t = target(), values = c.values(t);
  if (classed()) {
    fillClassKey(c.title(t), c.note, t.classes, classSwatch);
    return values.map((k) => (known(k) ? classColour(k) : css("--none")));
  }
  // Labels and predictions have the same range, so that the same colour is the same value.
  const range = extent(c.ramp === "viridis" ? t.y.concat(t.mean) : values);
  fillKey(c.title(t), c.note, range, c.ramp);
  return scaled(values, range, c.ramp);
}

const classed = () => Boolean(target().classes) && COLOURS[state.colour].ramp === "viridis";
const symbols = () => (classed() ? COLOURS[state.colour].values(target()).map((k) => (known(k) ? SYMBOLS[classShape(k)] : "circle")) : null);

function classSwatch(k) { // as the map draws the class
  const ways = [`<circle cx="7" cy="7" r="5"/>`, `<rect x="2" y="2" width="10" height="10"/>`, `<path d="M7 1 13 12 1 12z"/>`, `<path d="M7 0 14 7 7 14 0 7z"/>`, `<path d="M5 1h4v4h4v4h-4v4h-4v-4h-4v-4h4z"/>`];
  const made = element("span", undefined, "swatch");
  made.innerHTML = `<svg width="14" height="14" fill="${classColour(k)}" aria-hidden="true">${ways[classShape(k)]}</svg>`;
  return made;
}

const reading = (v) => (typeof v === "string" ? safe(v) : number(v)); // words and dates are text

function hoverTexts() {
  const t = target();
  return data.rows.map((name, i) => {
    const at = data.chart.axes.map((a) => number(a[i], 3)).join(", ");
    return [
      `<b>${safe(name)}</b>`,
      `${safe(t.name)}: ${known(t.y[i]) ? safe(value(t, t.y[i])) : "no label"}`,
      `${mean()}: ${safe(value(t, t.mean[i]))}${data.confusion ? `, ${SPREAD}:` : " ±"} ${number(t.std[i], 3)}`,
      ...(charted ? [`on the map: ${at}`] : []),
      ...data.features.names.map((f, j) => `${safe(f)}: ${reading(data.features.axes[j][i])}`),
    ].join("<br>");
  });
}

const everyone = [...Array(N).keys()];
const labelled = () => everyone.filter((i) => known(target().y[i]));
const pick = (values, rows) => rows.map((i) => values[i]);
const RINGS = 500; // labelled rows above which they are not ringed
const size = N > 5000 ? 4 : N > 300 ? 6.5 : 10;

function drawSurface() {
  const t = target(), colour = colours(), symbol = symbols(), text = hoverTexts(), ring = labelled(), rings = ring.length <= RINGS;
  const kind = N > 3000 ? "scattergl" : "scatter";
  const [x, y] = [data.chart.axes[0], q > 1 ? data.chart.axes[1] : t.mean];
  const lines = q === 2 ? t.outline : [];
  const above = { type: kind, x: pick(x, ring), y: pick(y, ring), mode: "markers", hoverinfo: "skip", selectedpoints: bright(ring), unselected: { marker: { opacity: 0.3 } } };
  const join = (c) => lines.flatMap((line) => [...line[c], null]);
  draw("map", [
    { x: join(0), y: join(1), mode: "lines", line: { color: THREAD, width: 1.3 }, hoverinfo: "skip" },
    { type: kind, x, y, mode: "markers", text, hoverinfo: "text", selectedpoints: bright(everyone),
      marker: { color: colour, size, symbol: symbol || "circle", line: { color: EDGE, width: N > 3000 ? 0 : 0.6 } },
      unselected: { marker: { opacity: 0.15 } } },
    { ...above, marker: { color: pick(colour, ring), size, symbol: symbol ? pick(symbol, ring) : "circle", line: { color: EDGE, width: 0.6 } } },
    { ...above, visible: rings, marker: { symbol: "circle-open", color: INK, size: size + 6, line: { width: 1.6 } } },
  ], {
    xaxis: axis(data.chart.names[0]), yaxis: axis(q > 1 ? data.chart.names[1] : meanOf(t)),
    dragmode: "lasso", hovermode: "closest", uirevision: `${q > 1 || state.target}`,
    shapes: q > 1 ? [] : t.outline.map(([[a, b]]) => ({ type: "line", xref: "x", yref: "paper", x0: a, x1: b, y0: 0, y1: 0, line: { color: THREAD, width: 6 } })),
  }, CONFIG);
  drawCloud(colour, text, ring, rings);
  drawChosen();
}

function drawCloud(colour, text, ring, rings) {
  const t = target(), [a, b, c] = data.cloud.axes, names = data.cloud.fractions.length ? [1, 2, 3].map((i) => `component ${i}`) : data.cloud.names, flat = data.cloud.axes.length < 3;
  const at = [a, b || a.map(() => 0), flat ? t.mean : c];
  const of = (rows) => ({ type: "scatter3d", mode: "markers", x: pick(at[0], rows), y: pick(at[1], rows), z: pick(at[2], rows) });
  const axis3 = (title) => ({ title: { text: safe(title), font: { size: 12 } }, backgroundcolor: CARD, gridcolor: LINE, zeroline: false, showbackground: false, tickfont: { size: 10 }, nticks: 5, showspikes: false });
  const back = $("cloud").clientWidth < 450 ? 1.5 : 1.1;
  const spans = at.map((v) => extent(v)).map(([l, h]) => h - l), longest = Math.max(...spans), even = !flat && longest < 8 * Math.min(...spans);
  const [sx, sy, sz] = spans.map((span) => (even ? span / longest : 1)); // the longest side has the length 1, so that titles of axes are in the picture
  const edges = data.atlases[t.atlas], line = edges ? [...edges.axes, ...(flat ? [edges.near.map((i) => t.mean[i])] : [])] : [];
  if (line.length === 2) line.splice(1, 0, line[0].map(() => 0));
  const ends = (c) => (edges ? edges.pairs.flatMap((node, k) => (k % 2 ? [line[c][node], null] : [line[c][node]])) : []);
  draw("cloud", [
    { ...of(everyone), text, hoverinfo: "text", marker: { color: colour, size: size / 2 + 1, opacity: 1, line: { width: 0 } } },
    { ...of(rings ? ring : []), hoverinfo: "skip", marker: { symbol: "circle-open", color: INK, size: size / 2 + 5, line: { color: INK, width: 2 } } },
    { ...of(state.selected), hoverinfo: "skip", marker: { symbol: "square-open", color: ORANGE, size: size / 2 + 3, line: { color: ORANGE, width: 2 } } },
    { type: "scatter3d", mode: "lines", x: ends(0), y: ends(1), z: ends(2), hoverinfo: "skip", visible: Boolean(edges), line: { color: THREAD, width: 1.5 } },
  ], {
    margin: { l: 0, r: 0, t: 0, b: 0 }, uirevision: "keep", scene: {
      xaxis: axis3(names[0]), yaxis: axis3(names[1] || ""), zaxis: axis3(flat ? mean() : names[2]),
      aspectmode: "manual", aspectratio: { x: sx, y: sy, z: sz }, camera: { eye: { x: 0.9 * back, y: -0.9 * back, z: 1.3 * back }, center: { x: 0, y: 0, z: -0.1 } },
    },
  });
}

function turn(way) {
  const eye = { ...$("cloud")._fullLayout.scene.camera.eye }, step = Math.PI / 9;
  const reach = Math.hypot(eye.x, eye.y, eye.z);
  let along = Math.atan2(eye.y, eye.x), up = Math.asin(eye.z / reach);
  along += way === "left" ? step : way === "right" ? -step : 0;
  up = Math.max(-1.4, Math.min(1.4, up + (way === "up" ? step : way === "down" ? -step : 0)));
  const flat = reach * Math.cos(up);
  Plotly.relayout($("cloud"), { "scene.camera.eye": { x: flat * Math.cos(along), y: flat * Math.sin(along), z: reach * Math.sin(up) } });
}

const HEAD = () => [{ name: "row" }, ...[target().name, mean(), WORDS.spread_head, ...(charted ? data.chart.axes.map((_, d) => `map ${d + 1}`) : []), ...data.features.names]
  .map((name) => ({ name, number: true }))];
const LISTED = 500;

function bright(rows) { // which of rows stay bright: the selected ones, or all
  const chosen = new Set(state.selected);
  return chosen.size ? rows.flatMap((row, k) => (chosen.has(row) ? [k] : [])) : null;
}

function line(i) {
  const t = target();
  const shown = (v) => (t.classes ? value(t, v) : v);
  return [data.rows[i], shown(t.y[i]), shown(t.mean[i]), t.std[i], ...(charted ? data.chart.axes.map((a) => a[i]) : []), ...data.features.axes.map((f) => f[i])];
}

function drawChosen() {
  const rows = state.selected, more = rows.length > LISTED ? `; the first ${LISTED} are listed, a copy has all` : "";
  $("status").textContent = rows.length ? `${rows.length} of ${N} rows selected${more}.` : "No row is selected.";
  if (rows.length) fillTable($("table"), HEAD(), rows.slice(0, LISTED).map(line));
  else $("table").replaceChildren();
}

function select(rows) {
  state.selected = rows;
  const ring = bright(labelled());
  Plotly.restyle($("map"), { selectedpoints: [bright(everyone), ring, ring] }, [1, 2, 3]);
  const at = (c) => pick($("cloud").data[0][c], rows);
  Plotly.restyle($("cloud"), { x: [at("x")], y: [at("y")], z: [at("z")] }, [2]);
  drawChosen();
}

async function copy() {
  const plain = (v) => (v === null ? "" : String(v).replace(/[\t\r\n]+/g, " "));
  const lines = [HEAD().map((h) => h.name), ...state.selected.map(line)].map((row) => row.map(plain).join("\t"));
  let done = true;
  try { await navigator.clipboard.writeText(lines.join("\n")); } catch (error) { // not allowed here: use the older method
    const box = element("textarea", lines.join("\n"));
    document.body.append(box);
    box.select();
    done = document.execCommand("copy");
    box.remove();
    $("copy").focus();
  }
  $("status").textContent = done ? `${state.selected.length} rows copied: paste them into a spreadsheet.` : "The browser does not allow copying: select the table instead.";
}

function drawLeftOut() {
  const l = target().left_out, few = l && l.of < 10, mixed = data.confusion;
  $("confusion-box").hidden = !mixed;
  if (mixed) {
    $("left-out").hidden = true;
    $("left-out-text").textContent = mixed.text;
    fillTable($("confusion"), [{ name: "true class" }, ...mixed.classes.map((name) => ({ name, number: true }))],
      mixed.classes.map((name, i) => [name, ...mixed.counts[i]]));
    return;
  }
  $("left-out").hidden = !l;
  if (!l) { $("left-out-text").textContent = "With fewer than two labels nothing can be left out."; return; }
  $("left-out-text").textContent = "Each dot is a labelled row whose label was hidden: its true value, and what the others predict with a 95 % " +
    `interval. Good predictions lie on the line. ${l.inside} of ${l.of} intervals (${l.fraction}) hold the truth` +
    (few ? "; with so few labels that says little." : "; about 95 % should.") + (l.rows.length < l.of ? ` ${l.rows.length} of them are drawn.` : "");
  const ends = extent([...l.y, ...l.mean]), pad = 0.04 * (ends[1] - ends[0]);
  const many = l.rows.length > 200;
  const group = (inside, colour, symbol, name) => {
    const k = l.rows.map((_, i) => i).filter((i) => (l.low[i] <= l.y[i] && l.y[i] <= l.high[i]) === inside);
    return { x: pick(l.y, k), y: pick(l.mean, k), mode: "markers", name, hoverinfo: "text", marker: { color: colour, symbol, size: many ? 5 : 8 },
      text: k.map((i) => `<b>${safe(data.rows[l.rows[i]])}</b><br>label: ${number(l.y[i])}<br>predicted: ${number(l.mean[i])}<br>95 %: ${number(l.low[i])} to ${number(l.high[i])}`),
      error_y: { type: "data", symmetric: false, array: k.map((i) => l.high[i] - l.mean[i]), arrayminus: k.map((i) => l.mean[i] - l.low[i]), color: many ? `${colour}55` : colour, thickness: 1.2, width: 0 } };
  };
  const line = [ends[0] - pad, ends[1] + pad];
  draw("left-out", [
    { x: line, y: line, mode: "lines", line: { color: THREAD, width: 1.2 }, hoverinfo: "skip", showlegend: false },
    group(true, BLUE, "circle", "truth inside its interval"), group(false, ORANGE, "diamond", "truth outside"),
  ], { xaxis: axis(`true ${target().name}`), yaxis: axis("predicted from the other labels"), hovermode: "closest", showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } });
}

function ticks(low, high) { // of a logarithmic axis
  const inside = (digits) => {
    const all = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) all.push(...digits.map((d) => d * 10 ** k));
    return all.filter((v) => v > 0.999 * low && v < 1.001 * high);
  };
  const few = inside([1]), many = inside([1, 2, 5]);
  if (few.length > 3) return few;
  return many.length > 2 ? many : [0, 1 / 3, 2 / 3, 1].map((f) => low * (high / low) ** f);
}

function drawScale() {
  const s = target().scale;
  $("scale").parentElement.hidden = !s.scales.length;
  $("left-out").parentElement.classList.toggle("whole", !s.scales.length && !charted);
  if (!s.scales.length) return;
  const at = ticks(s.scales[0], s.scales.at(-1));
  const other = target().geometries.length > 1 ? ` The picture is of ${s.geometry}; other geometries have scales of their own.` : "";
  $("scale-text").textContent = `How quickly ${WORDS.changes} may change as one walks along the surface: short scales mean that a label says something only about ` +
    "its near neighbours, long ones that it reaches far. " + (s.chosen ? "The fit chose the single best setting." :
      "All settings take part, each with the weight that the labels give it. Heat kernels stand for smooth targets, Matérn 1/2 for rough ones. The axis covers every scale tried.") + other;
  draw("scale", [...s.series.map((c) => ({ x: s.scales, y: c.weight, mode: "lines", stackgroup: "all", name: safe(`${c.name} ${c.fraction}`),
    line: { width: 0.8, color: SMOOTH[c.name] || INK }, hovertemplate: "scale %{x:.3g}: %{y:.1%}<extra></extra>" })),
  ], { xaxis: axis("", { title: { text: lines(s.unit, narrow("scale")), standoff: 8 }, type: "log", tickvals: at, ticktext: at.map((v) => number(v, 2)) }), showlegend: true,
    yaxis: axis("weight", { tickformat: ".0%", rangemode: "tozero" }), legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } });
}

function bars(id, names, series, xaxis, yaxis) {
  const traces = series.map((c, k) => ({ type: "bar", x: names, y: c.values, name: c.name, marker: { color: [BLUE, "#e69f00"][k] }, text: c.text.map(safe),
    textposition: "outside", textangle: 0, cliponaxis: false, constraintext: "none", hoverinfo: "skip" }));
  const room = names.length > 1 ? 0 : 0.5;
  draw(id, traces, { xaxis: axis(xaxis, { type: "category", ticks: "", range: [-0.5 - room, names.length - 0.5 + room] }), bargap: series.length > 1 ? 0.5 : 0.35,
    yaxis: axis(yaxis, { nticks: 5, range: [0, 1.15 * extent(series.flatMap((c) => c.values))[1] || 1], tickformat: ".0%" }),
    showlegend: series.length > 1, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } });
}

const narrow = (id) => $(id).clientWidth < 420; // a telephone
const lines = (text, several) => (several ? safe(text).replace(", ", ",<br>") : safe(text)); // in two lines at its comma

function weights(id, found, title) {
  const tall = narrow(id);
  $(id).style.height = `${3 + (tall ? 2.6 : 1.9) * found.length}rem`;
  draw(id, [{ type: "bar", orientation: "h", y: found.map((g) => lines(g[0], tall)), x: found.map((g) => g[1]), text: found.map((g) => safe(g[2])), marker: { color: BLUE },
    textposition: "outside", textangle: 0, cliponaxis: false, constraintext: "none", hoverinfo: "skip" }],
  { margin: { l: 10, r: 56, t: 4, b: 36 }, bargap: 0.35, yaxis: axis("", { autorange: "reversed", ticks: "", type: "category" }), xaxis: axis(title, { range: [0, 1], tickformat: ".0%", tickangle: 0, dtick: tall ? 1 : $(id).clientWidth < 500 ? 0.5 : 0.2 }) });
}

function drawGeometry() {
  const t = target(), found = t.geometries, many = found.length > 1;
  $("geometry-text").textContent = t.geometry_text + (many ? " The bars show how much the labels favour each geometry; all of them take part in the prediction." : "");
  $("geometry").hidden = !many;
  if (many) weights("geometry", found, "weight");
  $("relevance-card").hidden = !t.relevance.length;
  if (t.relevance.length) weights("relevance", t.relevance, "relevance for the target");
}

function drawCandidates() {
  const found = target().candidates;
  $("candidates-text").textContent = found.text;
  const density = found.known ? ["left-out density"] : [];
  fillTable($("candidates"), ["geometry", "smoothness", "scale", ...density, "weight"].map((name, k) => ({ name, number: k > 1 })),
    found.rows.map((row) => [...row.slice(0, 3 + density.length), row[5]]));
  const heaviest = found.rows.length ? found.rows[0][4] || 1 : 1;
  document.querySelectorAll("#candidates tbody tr").forEach((line, k) => {
    const bar = element("span", undefined, "bar-of-weight");
    bar.style.width = `${(5 * found.rows[k][4]) / heaviest}rem`;
    line.lastElementChild.prepend(bar);
  });
}

function drawBars() {
  const levels = target().levels, many = levels.length > 1;
  $("levels").parentElement.hidden = !many;
  $("ard").parentElement.hidden = !charted;
  $("ard").parentElement.classList.toggle("whole", !many);
  $("levels-text").textContent = "The edge of the surface is not known either. Level 0 keeps only narrow bridges between neighbouring rows, higher levels fill wider gaps, " +
    "“none” ignores gaps altogether. The bars show how much the labels favour each" + (target().geometries.length > 1 ? " on the map's chart, whatever the chart itself weighs" : "") + "; all of them take part in the prediction.";
  if (many) bars("levels", levels.map(([name]) => safe(name.replace("no boundary", "none").replace("level ", ""))), [{ values: levels.map((l) => l[1]), text: levels.map((l) => l[2]) }], "boundary level", "weight");
  if (!charted) return;
  const relative = (values, name) => { const top = extent(values)[1] || 1; return { name, values: values.map((v) => (v || 0) / top), text: values.map((v) => number(v, 3)) }; };
  $("ard-text").textContent = "Length: how far the rows spread along a coordinate, measured on the surface in the units of the data; a coordinate with hardly any length could have been left out." +
    (data.ard ? " Bend: how much the surface curves along it (relevance 1/ℓ²); a long coordinate with little bend is a straight direction." : "") + " Bars are relative to the largest.";
  bars("ard", data.ard ? data.extents.map((_, d) => `${d + 1}`) : data.chart.names.map(safe), [relative(data.extents, "length"), ...(data.ard ? [relative(data.ard, "bend")] : [])], "map coordinate", "fraction of the largest");
}

function drawWords() {
  const t = target();
  fillFigures($("figures"), t.figures);
  $("verdict").textContent = t.verdict;
  $("h-map").textContent = data.chart.title;
  if (["relevant", "directions"].includes(data.chart.kind)) $("h-surface").textContent = "The rows";
  $("loop-in").textContent = charted ? "flat map" : `picture called “${data.chart.title}”`;
  $("left-out-note").textContent = WORDS.left_out;
  const found = [...t.cautions, ...data.cautions];
  $("cautions").replaceChildren(...(found.length ? found : [WORDS.nothing]).map((text) => element("li", text)));
  const outline = !charted ? "" : !t.outline.length && q < 3 ? t.outline_text : q === 1 ? "The thick line at the bottom is the part of the coordinate that belongs to the surface." :
    q > 2 ? `The map has ${q} coordinates; the first two, which matter most, are drawn, and no outline.` : t.outline_text;
  const about = !charted ? (q === 1 ? `The height is the ${mean()}. ` : "") : data.chart.kind === "known" ? "Each dot is a row of the data, at its coordinates in the chart that was given. " : "Each dot is a row of the data. The curved surface on which the rows lie has been unrolled" +
    (q === 1 ? ` to a line, drawn with the ${mean()} as height. ` : " to a flat map: neighbours on the surface are neighbours here, but distances are stretched. ");
  $("map-text").textContent = `${t.map_text ? `${t.map_text} ` : ""}${about}${labelled().length > RINGS ? "" : "Labelled rows are ringed. "}${outline}`;
  const atlas = data.atlases[t.atlas], drawn = atlas ? atlas.pairs.length / 2 : 0;
  const edges = atlas ? ` The thin lines are the ${t.atlas}: small maps, glued at these edges` + (drawn < atlas.of ? ` (${drawn} of ${atlas.of} are drawn).` : ".") : "";
  $("cloud-text").textContent = (data.cloud.fractions.length ? `The same rows in the ${data.features.of} columns of the data, seen along their three main directions (principal components, which hold ${data.cloud.fractions.join(", ")} of the variance).` :
    data.cloud.axes.length < 3 ? `The same rows in the columns of the data; the height is the ${mean()}.` : "The same rows in the columns of the data.") + edges + " Drag to turn it.";
}

function drawAll() {
  drawWords(); drawGeometry(); drawCandidates(); drawSurface(); drawLeftOut(); drawScale(); drawBars();
  document.querySelectorAll(".js-plotly-plot").forEach((plot) => plot.offsetParent && Plotly.Plots.resize(plot)); // now that all text is there
}

function start() {
  $("about").textContent = data.about.map(([key, value]) => `${key}: ${value}`).join(" · ");
  $("messages-box").hidden = !data.messages.length;
  $("messages-count").textContent = `Messages of the fit (${data.messages.length})`;
  $("messages").replaceChildren(...data.messages.map((text) => element("li", text)));
  fillTable($("settings"), null, data.settings);
  $("target-choice").hidden = data.targets.length < 2;
  data.targets.forEach((t, k) => { const o = element("option", t.name); o.value = k; $("target").append(o); });
  $("target").addEventListener("change", (e) => { state.target = Number(e.target.value); drawAll(); });
  const choices = Object.entries(COLOURS).map(([key, c]) => [key, c.name]);
  fillChoices($("colour"), "colour", choices, state.colour, (key) => { state.colour = key; drawSurface(); });
  drawAll();
  // A plot follows its box, whatever changes that: the window, a larger font, a page around this one.
  const follow = new ResizeObserver((boxes) => boxes.forEach(({ target: plot }) => plot.offsetParent && plot.data && Plotly.Plots.resize(plot)));
  document.querySelectorAll(".plot").forEach((plot) => follow.observe(plot));
  // The loop is removed once it is closed; otherwise rows under it could not be selected.
  const chosen = (rows) => { Plotly.relayout($("map"), { selections: [] }); select(rows); };
  $("map").on("plotly_selected", (e) => { if (e) chosen([...new Set(e.points.filter((p) => p.curveNumber === 1).map((p) => p.pointIndex))]); });
  $("map").on("plotly_deselect", () => select([]));
  $("find").addEventListener("input", (e) => {
    const part = e.target.value.trim().toLowerCase();
    chosen(part ? data.rows.flatMap((name, i) => (name.toLowerCase().includes(part) ? [i] : [])) : []);
  });
  $("pick-labelled").addEventListener("click", () => chosen(labelled()));
  $("next-text").textContent = data.next.text;
  $("pick-next").hidden = !data.next.rows.length;
  $("pick-next").addEventListener("click", () => chosen(data.next.rows));
  $("clear").addEventListener("click", () => { $("find").value = ""; chosen([]); });
  $("copy").addEventListener("click", copy);
  document.querySelectorAll("[data-turn]").forEach((b) => b.addEventListener("click", () => turn(b.dataset.turn)));
  document.documentElement.dataset.ready = "yes";
}

start();
