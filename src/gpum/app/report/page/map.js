"use strict";
// Rows drawn as points on a canvas: flat (drag to move) or in three dimensions (drag to turn); wheel or + and - to zoom.
// A canvas, since thousands of points are recoloured after every label.

class PointMap {
  // box: an element; pick(row): a row was clicked; describe(row): lines of text beside the mouse.
  constructor(box, { pick, describe, label }) {
    Object.assign(this, { box, pick, describe, axes: [], lines: null, colours: [], shapes: null, rings: [], row: -1, over: -1 });
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.tip = element("div", undefined, "tip");
    this.tip.hidden = true;
    box.append(this.canvas, this.tip);
    this.reset();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(box);
  }

  reset() { Object.assign(this, { zoom: 1, shift: [0, 0], turn: 0.7, tilt: 0.6 }); }

  // axes: one, two or three arrays; lines: { axes, pairs } of further points that are joined.
  show(axes, lines, names) {
    Object.assign(this, { axes, lines, names });
    const all = axes.map((a, d) => extent(lines ? [...a, ...lines.axes[d]] : a));
    this.middle = all.map(([low, high]) => (low + high) / 2);
    const spans = all.map(([low, high]) => high - low || 1);
    const even = Math.max(...spans) < 8 * Math.min(...spans);
    this.span = this.deep ? (even ? spans.map(() => Math.max(...spans)) : spans) : spans;
    this.draw();
  }

  get deep() { return this.axes.length === 3; }

  paint(colours, rings, row, shapes) {
    Object.assign(this, { colours, rings, row, shapes });
    this.draw();
  }

  // Pixels of points given as arrays, and their depth.
  project(axes) {
    const n = axes[0].length, x = new Float64Array(n), y = new Float64Array(n), z = new Float64Array(n);
    const pad = 22, w = this.width - 2 * pad, h = this.height - 2 * pad, side = Math.min(w, h) * 1.05;
    const [ct, st, cu, su] = [Math.cos(this.turn), Math.sin(this.turn), Math.cos(this.tilt), Math.sin(this.tilt)];
    const at = (d, i) => (axes[d][i] === null ? NaN : (axes[d][i] - this.middle[d]) / this.span[d]);
    for (let i = 0; i < n; i++) {
      let a = at(0, i), b = at(1, i);
      if (this.deep) {
        const c = at(2, i), across = a * ct - b * st, away = a * st + b * ct;
        a = (across * side) / w; b = ((c * cu + away * su) * side) / h; z[i] = away * cu - c * su;
      }
      x[i] = pad + w * (0.5 + this.zoom * a) + this.shift[0];
      y[i] = pad + h * (0.5 - this.zoom * b) + this.shift[1];
    }
    return { x, y, z };
  }

  draw() {
    if (this.queued || !this.axes.length) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.drawNow(); });
  }

  drawNow() {
    const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = this.box;
    Object.assign(this, { width, height });
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const g = this.canvas.getContext("2d"), ink = css("--ink"), edge = css("--edge"), none = css("--none");
    g.scale(ratio, ratio);
    if (this.lines) {
      const p = this.project(this.lines.axes), pairs = this.lines.pairs;
      g.strokeStyle = css("--thread");
      g.lineWidth = 0.7;
      g.beginPath();
      for (let k = 0; k < pairs.length; k += 2) { g.moveTo(p.x[pairs[k]], p.y[pairs[k]]); g.lineTo(p.x[pairs[k + 1]], p.y[pairs[k + 1]]); }
      g.stroke();
    }
    const p = (this.pixels = this.project(this.axes)), n = p.x.length, size = n > 3000 ? 2.6 : n > 600 ? 3.6 : 5;
    const order = [...Array(n).keys()];
    if (this.deep) order.sort((a, b) => p.z[b] - p.z[a]);
    const last = this.rings.map(([row]) => row);
    g.lineWidth = 0.6;
    g.strokeStyle = edge;
    for (const i of [...order, ...last]) {
      g.fillStyle = this.colours[i] || none;
      this.mark(g, p.x[i], p.y[i], size, this.shapes ? this.shapes[i] : 0);
      g.fill();
      if (n <= 3000) g.stroke();
    }
    g.strokeStyle = ink;
    g.lineWidth = 1.6;
    if (last.length <= 1000) for (const i of last) { this.mark(g, p.x[i], p.y[i], size + 2.5, 0); g.stroke(); }
    if (this.row >= 0) {
      for (const [colour, width_] of [[css("--paper"), 6], [css("--mark"), 3]]) {
        g.strokeStyle = colour;
        g.lineWidth = width_;
        this.mark(g, p.x[this.row], p.y[this.row], size + 7, 0);
        g.stroke();
      }
    }
    if (!this.deep && this.names) this.title(g);
    this.drawn = (this.drawn || 0) + 1;
  }

  title(g) {
    g.fillStyle = css("--soft");
    g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    g.textAlign = "right";
    g.fillText(`${this.names[0]} →`, this.width - 6, this.height - 5);
    g.textAlign = "left";
    g.fillText(`↑ ${this.names[1]}`, 4, 12);
  }

  mark(g, x, y, r, shape) {
    g.beginPath();
    if (shape === 0) g.arc(x, y, r, 0, 2 * Math.PI);
    else if (shape === 1) g.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
    else if (shape === 2) { g.moveTo(x, y - 1.2 * r); g.lineTo(x + 1.1 * r, y + 0.8 * r); g.lineTo(x - 1.1 * r, y + 0.8 * r); g.closePath(); }
    else if (shape === 3) { g.moveTo(x, y - 1.3 * r); g.lineTo(x + 1.3 * r, y); g.lineTo(x, y + 1.3 * r); g.lineTo(x - 1.3 * r, y); g.closePath(); }
    else { const a = 0.45 * r, b = 1.2 * r; g.rect(x - b, y - a, 2 * b, 2 * a); g.rect(x - a, y - b, 2 * a, 2 * b); }
  }

  nearest(x, y, reach = 14) {
    let found = -1, best = reach ** 2;
    if (!this.pixels) return found;
    const { x: px, y: py, z } = this.pixels;
    for (let i = 0; i < px.length; i++) {
      const d = (px[i] - x) ** 2 + (py[i] - y) ** 2 + (this.deep ? 4 * z[i] : 0);
      if (d < best) { best = d; found = i; }
    }
    return found;
  }

  listen() {
    const at = (e) => { const b = this.canvas.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
    let from = null, moved = false;
    this.canvas.addEventListener("pointerdown", (e) => { from = at(e); moved = false; this.canvas.setPointerCapture(e.pointerId); });
    this.canvas.addEventListener("pointermove", (e) => {
      const here = at(e);
      if (!from) { this.point(this.nearest(...here), here); return; }
      const [dx, dy] = [here[0] - from[0], here[1] - from[1]];
      if (!moved && Math.hypot(dx, dy) < 5) return;
      moved = true;
      from = here;
      this.point(-1);
      this.move(dx, dy);
    });
    this.canvas.addEventListener("pointerup", (e) => {
      const row = from && !moved ? this.nearest(...at(e)) : -1;
      from = null;
      if (row >= 0) this.pick(row);
    });
    this.canvas.addEventListener("pointercancel", () => { from = null; });
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.magnify(Math.exp(-e.deltaY / 500)); }, { passive: false });
    this.canvas.addEventListener("dblclick", () => { this.reset(); this.draw(); });
    this.canvas.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: [-25, 0], ArrowRight: [25, 0], ArrowUp: [0, -25], ArrowDown: [0, 25] }[e.key];
      if (step) this.move(...step);
      else if (e.key === "+" || e.key === "=") this.magnify(1.25);
      else if (e.key === "-") this.magnify(0.8);
      else if (e.key === "0") { this.reset(); this.draw(); }
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
  }

  move(dx, dy) {
    if (this.deep) { this.turn += dx / 130; this.tilt = Math.max(-1.5, Math.min(1.5, this.tilt + dy / 130)); }
    else { this.shift[0] += dx; this.shift[1] += dy; }
    this.draw();
  }

  magnify(by) {
    const next = Math.max(0.5, Math.min(40, this.zoom * by));
    this.shift = this.shift.map((v) => (v * next) / this.zoom);
    this.zoom = next;
    this.draw();
  }

  point(row, here) {
    if (row < 0) { this.tip.hidden = true; this.over = -1; return; }
    if (row !== this.over) { this.over = row; this.tip.replaceChildren(...this.describe(row).map((text) => element("div", text))); }
    this.tip.hidden = false;
    const right = here[0] > this.width / 2;
    this.tip.style.left = right ? "auto" : `${here[0] + 14}px`;
    this.tip.style.right = right ? `${this.width - here[0] + 14}px` : "auto";
    this.tip.style.top = `${Math.max(0, Math.min(here[1], this.height - this.tip.offsetHeight))}px`;
  }
}
