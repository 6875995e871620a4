// Values under the pointer and under the arrow keys, for charts of lines. All that is shown is read
// from data-* attributes; nothing is fetched, and no style is written.

const SVG = "http://www.w3.org/2000/svg";
const PAD = 9;
const LINE = 18;

const make = (name, attributes, words) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (words !== undefined) element.textContent = words;
  return element;
};

/** The points of a chart: where they are, what they say, and the line they belong to. */
const read = (chart) =>
  [...chart.querySelectorAll(".series[data-name]")].map((series) => ({
    name: series.dataset.name,
    tone: [...series.classList].find((one) => /^c\d$/.test(one)) ?? "c9",
    points: [...series.querySelectorAll(".dot[data-x]")].map((dot) => {
      dot.querySelector("title")?.remove(); // shown here instead
      return {
        dot,
        x: Number(dot.getAttribute("cx")),
        y: Number(dot.getAttribute("cy")),
        value: Number(dot.dataset.x),
        words: dot.dataset.words,
      };
    }),
  }));

const nearest = (points, x) =>
  points.reduce((best, one) => (Math.abs(one.x - x) < Math.abs(best.x - x) ? one : best));

class Reader {
  constructor(chart) {
    this.chart = chart;
    this.series = read(chart).filter((one) => one.points.length);
    this.places = [...new Set(this.series.flatMap((one) => one.points.map((p) => p.x)))];
    this.places.sort((one, other) => one - other);
    this.line = chart.querySelector(".crosshair");
    this.tip = make("g", { "aria-hidden": "true", "pointer-events": "none" });
    this.said = document.createElement("p");
    this.said.className = "visually-hidden";
    this.said.setAttribute("aria-live", "polite");
    this.place = -1;
    chart.append(this.tip);
    chart.after(this.said);
    chart.setAttribute("tabindex", "0");
    chart.addEventListener("pointermove", (event) => this.point(event));
    chart.addEventListener("pointerdown", (event) => this.point(event));
    chart.addEventListener("pointerleave", () => this.clear());
    chart.addEventListener("blur", () => this.clear());
    chart.addEventListener("keydown", (event) => this.key(event));
  }

  point(event) {
    const matrix = this.chart.getScreenCTM();
    if (!matrix) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const places = this.places;
    if (at.x < places[0] - 14 || at.x > places[places.length - 1] + 14) {
      this.clear();
      return;
    }
    const near = places.reduce((best, one) =>
      Math.abs(one - at.x) < Math.abs(best - at.x) ? one : best,
    );
    this.show(places.indexOf(near), false);
  }

  key(event) {
    const last = this.places.length - 1;
    const moves = {
      ArrowLeft: this.place < 0 ? last : Math.max(this.place - 1, 0),
      ArrowRight: Math.min(this.place + 1, last),
      Home: 0,
      End: last,
    };
    if (event.key === "Escape") {
      this.clear();
    } else if (event.key in moves) {
      event.preventDefault();
      this.show(moves[event.key], true);
    }
  }

  show(place, aloud) {
    const x = this.places[place];
    this.clear();
    this.place = place;
    const here = this.series
      .map((one) => ({ ...one, point: one.points.find((p) => p.x === x) }))
      .filter((one) => one.point)
      .sort((one, other) => one.point.y - other.point.y);
    if (!here.length) return;
    for (const one of here) one.point.dot.classList.add("chosen");
    const [low, high] = this.span();
    this.line?.setAttribute("d", `M${x} ${low}V${high}`);
    const [head] = here[0].point.words.split(":");
    this.card(x, low, head, here);
    if (aloud) {
      const values = here.map(
        (one) => `${one.name} ${one.point.words.slice(head.length + 1).trim()}`,
      );
      this.said.textContent = `${head}: ${values.join("; ")}`;
    }
  }

  /** Draw the values beside the line, on the side where there is room. */
  card(x, top, head, here) {
    const box = make("rect", { class: "tip-box", rx: 6 });
    this.tip.append(box, make("text", { class: "tip-head", x: 0, y: 0 }, head));
    here.forEach((one, row) => {
      const words = `${one.point.words.slice(head.length + 1).trim()}  ${one.name}`;
      this.tip.append(
        make("text", { class: `tip-text name ${one.tone}`, x: 0, y: LINE * (row + 1) }, words),
      );
    });
    const wide = Math.max(...[...this.tip.querySelectorAll("text")].map((t) => t.getBBox().width));
    const width = wide + 2 * PAD;
    const height = LINE * (here.length + 1) + PAD;
    const total = this.chart.viewBox.baseVal.width;
    const right = x + 14 + width <= total && (x < total / 2 || x - 14 - width < 2);
    const left = right ? x + 14 : Math.max(2, x - 14 - width);
    const lift = Math.max(2, top + 4);
    box.setAttribute("width", width);
    box.setAttribute("height", height);
    box.setAttribute("x", -PAD);
    box.setAttribute("y", -LINE + 2);
    this.tip.setAttribute("transform", `translate(${left + PAD} ${lift + LINE})`);
  }

  /** The top and the foot of the axes. */
  span() {
    const grid = [...this.chart.querySelectorAll(".base")].map((one) => one.getBBox());
    const lines = [...this.chart.querySelectorAll(".grid")].map((one) => one.getBBox());
    const foot = grid.length ? grid[0].y : 0;
    return [Math.min(foot, ...lines.map((one) => one.y)), foot];
  }

  clear() {
    for (const dot of this.chart.querySelectorAll(".dot.chosen")) dot.classList.remove("chosen");
    this.tip.replaceChildren();
    this.line?.setAttribute("d", "");
    this.place = -1;
  }
}

/** Make the charts under a node answer; safe to call again after a part of the page was replaced. */
export const readCharts = (root = document) => {
  for (const chart of root.querySelectorAll("svg.chart.lines")) {
    if (chart.dataset.read) continue;
    chart.dataset.read = "yes";
    new Reader(chart);
  }
};

readCharts();
