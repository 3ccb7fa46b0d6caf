"use strict";
// Functions for both the report and the page for labels: numbers, elements, tables, colours.
const $ = (id) => document.getElementById(id);
const known = (v) => v !== null && v !== undefined;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function number(v, digits = 4) {
  if (!known(v)) return "–";
  if (v !== 0 && (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e7)) return v.toExponential(digits - 1).replace("-", "−");
  return String(Number(Math.abs(v) < 1e4 ? v.toPrecision(digits) : v.toFixed(0))).replace("-", "−");
}

function element(tag, text, cls) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

function fillTable(table, head, rows) {
  const cells = (values, tag) => {
    const line = element("tr");
    values.forEach((v, j) => {
      const cell = element(tag, typeof v === "number" || v === null ? number(v) : v);
      if (j && head && head[j].number) cell.className = "number";
      if (tag === "th") cell.scope = "col";
      line.append(cell);
    });
    return line;
  };
  table.replaceChildren();
  if (head) {
    const top = element("thead");
    top.append(cells(head.map((h) => h.name), "th"));
    table.append(top);
  }
  const body = element("tbody");
  rows.forEach((row) => body.append(cells(row, "td")));
  table.append(body);
}

// Key figures: what, how much, a note.
function fillFigures(list, figures) {
  list.replaceChildren(...figures.map(([what, value, note]) => {
    const box = element("div", undefined, note.length > 50 ? "wide" : "");
    box.append(element("dt", what), element("dd", value.replace(/^-/, "−")));
    if (note) box.append(element("dd", note, "small"));
    return box;
  }));
}

// Radio buttons in a fieldset, one of which is chosen.
function fillChoices(box, name, choices, chosen, change) {
  for (const [key, text] of choices) {
    const label = element("label"), input = element("input");
    Object.assign(input, { type: "radio", name, value: key, checked: key === chosen });
    input.addEventListener("change", () => change(key));
    label.append(input, text);
    box.append(label);
  }
}

// Colours: viridis, magma and cividis are perceptually uniform, and colour-blind people can distinguish them.
const RAMPS = {
  viridis: "440154 482677 3f4788 32648e 277f8e 1f988b 2cb17e 5cc863 9dd93b e5e419",
  magma: "0e0b2b 2d1161 56147d 792282 9e2f7f c53c74 e75263 f9785d fea571 fecf92",
  cividis: "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
};
function ramp(name) {
  const stops = RAMPS[name].split(" ").map((h) => [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)));
  return (fraction) => {
    const at = Math.max(0, Math.min(1, fraction)) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return `rgb(${stops[i].map((v, c) => Math.round(v + (at - i) * (stops[i + 1][c] - v))).join(",")})`;
  };
}

function extent(values) { // of numbers; not Math.min(...values), which has a limit
  let low = Infinity, high = -Infinity;
  for (const v of values) if (known(v)) { if (v < low) low = v; if (v > high) high = v; }
  return low < Infinity ? [low, high] : [0, 1];
}

// Ten colours for classes on light and on dark paper. Any two differ clearly also for people with protanopia,
// deuteranopia or tritanopia (at least 0.09 in OKLab). Further classes have the same colours with other shapes.
const CLASS_COLOURS = {
  light: ["#067df5", "#820305", "#86b616", "#8000a9", "#e3af9d", "#2d455f", "#d460a6", "#78732e", "#13c6f6", "#050cf3"],
  dark: ["#44e6f5", "#b60a00", "#c9e406", "#c402b4", "#e0b296", "#5048f5", "#ec6993", "#8a9500", "#989bee", "#10cd13"],
};
const SHAPES = 5; // circle, square, triangle, diamond, cross
const classColour = (k) => CLASS_COLOURS[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"][k % 10];
const classShape = (k) => (k + Math.floor(k / 10)) % SHAPES; // no two of fifty classes have the same colour and shape

// Values as colours over a range, and the key beside the picture that says so.
function scaled(values, [low, high], name) {
  const of = ramp(name), none = css("--none");
  return values.map((v) => (known(v) ? of(high > low ? (v - low) / (high - low) : 0.5) : none));
}

function fillKey(title, note, [low, high], name) {
  const of = ramp(name);
  $("key-name").textContent = title;
  $("key-note").textContent = note || "";
  $("key-low").textContent = number(low);
  $("key-high").textContent = number(high);
  $("key-scale").hidden = false;
  $("key-classes").hidden = true;
  $("key-ramp").style.background = `linear-gradient(90deg, ${[...Array(19).keys()].map((i) => of(i / 18)).join(",")})`;
}

// The key of classes: swatch(k) is an element with the colour and shape of class k.
function fillClassKey(title, note, names, swatch) {
  $("key-name").textContent = title;
  $("key-note").textContent = note || "";
  $("key-scale").hidden = true;
  $("key-classes").hidden = false;
  $("key-classes").replaceChildren(...names.map((name, k) => {
    const item = element("li");
    item.append(swatch(k), name);
    return item;
  }));
}
