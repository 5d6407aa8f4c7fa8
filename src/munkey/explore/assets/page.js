"use strict";
// The views of the page. Each entry of VIEWS states which parts of `state` it depends on, and draws into the body of its
// section. `state` contains the reader's choices and is stored in the address. Text is always set as text, never as HTML.

const contents = JSON.parse(document.getElementById("contents").textContent);
const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, float32: Float32Array, float64: Float64Array };
const PROBABILITY_SCALE = 65535; // probabilities are stored in 16 bits
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#a0613d", "#9d9300", "#7a5fb5"];
// For dark mode. Any two colors differ by at least 20 (CIE76) for every kind of color blindness (tests/explore/test_colors.py).
const LIGHTER = ["#9bb9ff", "#fb6929", "#4dffb6", "#f15cc7", "#ffd33a", "#adf8ff", "#9c9c9c", "#cf9664", "#eaf98b", "#ba76ff"];
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "circle", "square", "triangle"];
const KINDS = { exact: "diamond", rows: "square", weights: "circle", anew: "cross" };

// ---------------------------------------------------------------- embedded data

function array(stored) {
  if (Array.isArray(stored)) return stored;
  const text = atob(stored.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const values = new ARRAYS[stored.type](bytes.buffer);
  return stored.type === "int64" ? Float64Array.from(values, Number) : values;
}

const samples = Object.fromEntries(["ids", "labels", "splits", "x", "y"].map((name) => [name, array(contents.samples[name])]));
const N = samples.ids.length;
const ALL = d3.range(N);
const names = contents.samples.names;
const positionOf = new Map(ALL.map((i) => [samples.ids[i], i]));
const systems = new Map(contents.systems.map((each) => [each.name, each]));
const methods = contents.systems.filter((each) => each.role === "method");
const decoded = new Map(); // cache of decoded arrays

function once(key, make) {
  if (!decoded.has(key)) decoded.set(key, make());
  return decoded.get(key);
}

// The predictions of a system; null if there are none, e.g. because it diverged.
function predictionsOf(system, seed = state.seed) {
  const subset = systems.get(system)?.role === "original" ? "full" : state.request;
  const key = `${seed}/${subset}/${system}`;
  const stored = contents.predictions[key];
  if (!stored || stored.diverged) return null;
  return once(key, () => ({ top: array(stored.top), p: array(stored.p_true) }));
}

function forgottenNow(seed = state.seed) {
  const key = `${seed}/${state.request}`;
  return once(`forgotten ${key}`, () => new Set(contents.forgotten[key] ? array(contents.forgotten[key]) : []));
}

// The neighbors in one memory ("full" or SEED/REQUEST); null if it was not searched.
function nearOf(memory) {
  const stored = contents.near[memory];
  if (!stored) return null;
  return once(`near ${memory}`, () => ({ ids: array(stored.ids), cosines: array(stored.cosines), depth: stored.depth }));
}

function neighborsOf(memory, i, withSelf = true) {
  const near = nearOf(memory);
  const list = [];
  for (let j = i * near.depth; j < (i + 1) * near.depth; j++) {
    const id = near.ids[j];
    if (id >= 0 && (withSelf || id !== samples.ids[i])) list.push({ id, cosine: near.cosines[j] });
  }
  return list;
}

// ---------------------------------------------------------------- the reader's choices

const firstOf = (kind, other) => (contents.designs.find((each) => each.kind === kind) ?? methods[other] ?? methods[0])?.name ?? "";
const DEFAULTS = { seed: String(contents.seeds[0] ?? ""), request: contents.requests[0]?.key ?? "", a: firstOf("weights", 0),
  b: firstOf("rows", 1), class: "", sample: "", area: "", wrong: "" };
const state = { ...DEFAULTS };

const isValid = {
  seed: (value) => contents.seeds.map(String).includes(value),
  request: (value) => contents.requests.some((each) => each.key === value),
  a: (value) => systems.get(value)?.role === "method",
  b: (value) => systems.get(value)?.role === "method",
  class: (value) => value === "" || (Number.isInteger(Number(value)) && contents.classes[Number(value)] !== undefined),
  sample: (value) => value === "" || positionOf.has(Number(value)),
  area: (value) => value === "" || (value.split(",").length === 4 && value.split(",").every((each) => Number.isFinite(Number(each)))),
  wrong: (value) => ["", "before", "a", "b"].includes(value),
};

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) {
    const value = parameters.get(name);
    state[name] = value !== null && isValid[name](value) ? value : DEFAULTS[name];
  }
}

function writeAddress() {
  const parameters = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS)) if (state[name] !== DEFAULTS[name]) parameters.set(name, state[name]);
  history.replaceState(null, "", `#${parameters}`);
}

// All choices are made here. Every view that depends on a changed choice is redrawn.
function choose(changes, words) {
  const start = performance.now();
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  if (!changed.length) return;
  Object.assign(state, changes);
  writeAddress();
  draw(changed);
  document.body.getBoundingClientRect(); // forces the layout, which is part of the time that a reader waits
  document.documentElement.dataset.selectionMs = (performance.now() - start).toFixed(1);
  if (words) document.getElementById("announced").textContent = words;
}

const area = () => (state.area ? state.area.split(",").map(Number) : null);

function isChosen(i) {
  if (state.class !== "" && samples.labels[i] !== Number(state.class)) return false;
  if (state.area === "") return true;
  const box = once(`area ${state.area}`, area);
  return samples.x[i] >= box[0] && samples.x[i] <= box[2] && samples.y[i] >= box[1] && samples.y[i] <= box[3];
}

// ---------------------------------------------------------------- elements

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((each) => each !== null));
  return node;
}

// Turns a sentence with commands between backticks into elements.
const coded = (sentence) => sentence.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
const isDark = matchMedia("(prefers-color-scheme: dark)");
const classColor = (label) => (isDark.matches ? LIGHTER : COLORS)[label];
const NOUN = contents.is_experiment ? "pictures" : "samples";
const percent = (value, digits = 1) => (value === null || Number.isNaN(value) ? "–" : `${value.toFixed(digits)}%`);
const points = (value) => `${value >= 0.05 ? "+" : value <= -0.05 ? "−" : "±"}${Math.abs(value).toFixed(1)}`;
const isExact = (name) => contents.designs.find((each) => each.name === name)?.kind === "exact";
const className = (label) => contents.classes[label];
const title = (name) => systems.get(name)?.title ?? name;
const nameOf = (i) => names?.[i] ?? `#${samples.ids[i]}`;

function picture(i, size) {
  if (!contents.pictures) return element("span", { hidden: true });
  const { side, columns } = contents.pictures;
  const scale = size / side;
  const rows = Math.ceil(N / columns);
  const node = element("span", { class: "picture", role: "img", "aria-label": `picture ${nameOf(i)}, class ${className(samples.labels[i])}` });
  node.style.width = node.style.height = `${size}px`;
  node.style.backgroundImage = "var(--pictures)"; // so that the image is decoded only once
  node.style.backgroundSize = `${columns * side * scale}px ${rows * side * scale}px`;
  node.style.backgroundPosition = `${-(i % columns) * size}px ${-Math.floor(i / columns) * size}px`;
  return node;
}

// A button that chooses a sample. The id may belong to a sample that is not on this page.
function sampleButton(id, words, kind = "") {
  const i = positionOf.get(id);
  if (i === undefined) return element("li", {}, element("span", { class: `sample ${kind}` }, `#${id}`, element("span", {}, "not on this page"), ...words.map((each) => element("span", {}, each))));
  return element("li", {}, element("button", { type: "button", class: `sample ${kind}`, "data-sample": id, "aria-pressed": String(state.sample === String(id)),
    onclick: () => choose({ sample: String(id) }, `picture ${nameOf(i)} is shown`) },
  picture(i, 48), element("span", {}, nameOf(i)), element("span", {}, `class ${className(samples.labels[i])}`), ...words.map((each) => element("span", {}, each))));
}

// A table. On a phone, each row of a table of class `cards` is a card, in which each cell has its column header above it.
// The roles are explicit because a row with another display style loses its implicit role.
function tableOf(heads, rows, caption, kind = "") {
  const cell = (each, place) => element("td", { role: place ? "cell" : "rowheader", "data-head": heads[place] }, each);
  const head = element("tr", { role: "row" }, ...heads.map((each) => element("th", { scope: "col", role: "columnheader" }, each)));
  const body = rows.map(({ cells, kind }) => element("tr", { class: kind, role: "row" }, ...cells.map(cell)));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element("table", { role: "table", class: kind }, element("caption", { class: "unseen" }, caption),
      element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...body)));
}

function chart(options, words) {
  const svg = Plot.plot({ marginTop: 32, marginBottom: 48, style: { background: "transparent", overflow: "visible", fontSize: "12px" }, ...options });
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", words);
  return svg;
}

const widthOf = (body) => Math.max(300, Math.min(1100, body.clientWidth || 800));
const symbolOf = (kind, size = 60) => element("span", {}, d3.create("svg").attr("width", 14).attr("height", 14).attr("aria-hidden", "true")
  .call((svg) => svg.append("path").attr("transform", "translate(7,7)").attr("d", d3.symbol(d3[`symbol${kind[0].toUpperCase()}${kind.slice(1)}`], size)()).attr("fill", "currentColor")).node());

function dash(color) {
  const node = symbolOf("square");
  node.querySelector("path").setAttribute("d", "M-6,-1.5h12v3h-12z");
  node.querySelector("path").setAttribute("fill", color);
  return node;
}

function hollow(color) {
  const node = symbolOf("circle", 50);
  node.querySelector("path").setAttribute("fill", "none");
  node.querySelector("path").setAttribute("stroke", color);
  return node;
}

function colored(kind, color) {
  const node = symbolOf(kind);
  node.querySelector("path").setAttribute("fill", color);
  return node;
}

const TIP = { fill: "var(--head)", stroke: "var(--muted)", fontSize: 12, lineHeight: 1.3 };

const RULER = document.createElement("canvas").getContext("2d");
RULER.font = "12px system-ui, sans-serif";

// Labels the points of a chart in order. A label is placed as close to its point as possible without covering a mark or
// another label, preferably to the right, and not closer to another point than to its own. points: x, y, r and words.
function nameAll(svg, points) {
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const boxes = points.map(({ x, y, r }) => [x - r, y - r, x + r, y + r]);
  const overlap = (one, other) => Math.max(0, Math.min(one[2], other[2]) - Math.max(one[0], other[0])) * Math.max(0, Math.min(one[3], other[3]) - Math.max(one[1], other[1]));
  const places = [4, 12, 22, 34, 48, 64, 82, 102, 124].flatMap((away) => d3.range(16).map((turn) => ({ away, angle: ([0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6, -7, 7, 8][turn] * Math.PI) / 8 })));
  const group = d3.select(svg).append("g").attr("class", "names").attr("pointer-events", "none");
  for (const own of points) {
    const { x, y, r, words } = own;
    const half = RULER.measureText(words).width / 2 + 2;
    const candidates = places.map(({ away, angle }) => {
      const cx = x + Math.cos(angle) * (r + away + half);
      const cy = y + Math.sin(angle) * (r + away + 7);
      return { away, cx, cy, box: [cx - half, cy - 7, cx + half, cy + 7] };
    }).filter(({ box }) => box[0] >= 0 && box[2] <= width && box[1] >= 18 && box[3] <= height - 44);
    const distance = (box, point) => Math.hypot(Math.max(box[0] - point.x, point.x - box[2], 0), Math.max(box[1] - point.y, point.y - box[3], 0)) - point.r;
    const isDoubtful = ({ box }) => points.some((each) => each !== own && distance(box, each) < distance(box, own) + 8);
    const free = candidates.filter(({ box }) => !boxes.some((other) => overlap(box, other)));
    const best = free.find((each) => each.away < 30 && !isDoubtful(each)) ?? free[0] ?? d3.least(candidates, ({ box }) => d3.sum(boxes, (other) => overlap(box, other)));
    if (!best) continue;
    boxes.push(best.box);
    // Connect the label to its point if it is far away, or if another point is as close.
    if (best.away > 4 || isDoubtful(best)) {
      const edge = [Math.max(best.box[0], Math.min(x, best.box[2])), Math.max(best.box[1], Math.min(y, best.box[3]))];
      group.append("line").attr("x1", x).attr("y1", y).attr("x2", edge[0]).attr("y2", edge[1]).attr("stroke", "var(--muted)").attr("stroke-width", 1);
    }
    group.append("text").attr("x", best.cx).attr("y", best.cy).attr("dy", "0.35em").attr("text-anchor", "middle").attr("fill", "currentColor")
      .attr("stroke", "var(--back)").attr("stroke-width", 3).attr("paint-order", "stroke").text(words);
  }
}

// ---------------------------------------------------------------- the selection bar

const chosenSystems = () => `A: ${title(state.a)}, B: ${title(state.b)}`;

function choices() {
  const form = document.getElementById("choices");
  const pick = (name, label, options, kind) => options.length < 2 && name !== "class" ? null
    : element("label", { class: kind }, label, (() => {
      const select = element("select", { name, onchange: (event) => choose({ [name]: event.target.value }) },
        ...options.map(([value, words]) => element("option", { value }, words)));
      select.value = state[name];
      return select;
    })());
  const listed = methods.map((each) => [each.name, each.title]);
  form.replaceChildren(...[
    pick("seed", "Seed (of single pictures)", contents.seeds.map((each) => [String(each), String(each)])),
    pick("request", "Forgotten", contents.requests.map((each) => [each.key, each.label]), "request"),
    pick("a", "Method A", listed, "a"),
    pick("b", "Method B", listed, "b"),
    pick("class", "Class", [["", "all classes"], ...contents.classes.map((each, label) => [String(label), each])]),
    element("label", {}, contents.is_experiment ? "Picture (id)" : "Sample (id)", element("input", { name: "sample", inputmode: "numeric", size: 6, value: state.sample,
      onchange: (event) => isValid.sample(event.target.value.trim()) ? choose({ sample: event.target.value.trim() })
        : event.target.setCustomValidity("This id is not on this page") || event.target.reportValidity(),
      oninput: (event) => event.target.setCustomValidity("") })),
  ].filter(Boolean));
  form.onsubmit = (event) => event.preventDefault();
}

// ---------------------------------------------------------------- the views

const VIEWS = {};

VIEWS.designs = {
  depends: ["request", "a", "b"],
  draw(body) {
    const lines = contents.designs.filter((each) => each.request === state.request);
    const audited = lines.some((each) => each.kind === "weights" && each.share !== null);
    const wasAudited = lines.some((each) => each.audited);
    const y = audited ? "share" : "gap";
    const drawn = lines.filter((each) => each.TA !== null && each[y] !== null);
    const side = body.dataset.side ?? "a";
    const colorOf = (each) => each.name === state.a ? "var(--a)" : each.name === state.b ? "var(--b)" : "var(--before)";
    const bars = drawn.map((each) => ({ ...each, low: audited ? each.share_low : Math.max(0, each.gap - each.gap_sd), high: audited ? each.share_high : each.gap + each.gap_sd }));
    const n = lines[0]?.n ?? 0;
    // Error bars may extend beyond 100%, but the axis must not.
    const most = (each) => Math.min(100, each.TA + (each.TA_sd ?? 0));
    const [lowest, highest] = d3.scaleLinear([d3.min(drawn, (each) => each.TA - (each.TA_sd ?? 0)) ?? 0, d3.max(drawn, most) ?? 100], [0, 1]).nice().domain();
    const svg = chart({
      width: widthOf(body), height: 420, marginLeft: 50, marginRight: 30, grid: true,
      x: { label: "test accuracy [%] →", domain: [lowest, Math.min(100, highest)] },
      y: { label: audited ? "↑ residual share of forgotten pictures [%]" : "↑ Avg Gap, the distance to the oracle [points]", nice: true },
      r: { range: [4, 16], type: "sqrt" }, symbol: { legend: false },
      marks: [
        Plot.ruleX(bars, { x: "TA", y1: "low", y2: "high", stroke: colorOf, strokeOpacity: 0.6 }),
        Plot.ruleY(bars.filter((each) => each.TA_sd !== null), { y, x1: (each) => each.TA - each.TA_sd, x2: most, stroke: colorOf, strokeOpacity: 0.6 }),
        Plot.dot(drawn, { x: "TA", y, r: (each) => each.seconds ?? 0, symbol: (each) => KINDS[each.kind], fill: colorOf, fillOpacity: 0.65, stroke: colorOf, tip: TIP,
          title: (each) => `${each.title}: test accuracy ${each.cells.TA}, ${audited ? `residual share ${each.shareText}` : `Avg Gap ${each.cells["Avg Gap"]}`}, ${each.cells.Seconds} s` }),
      ],
    }, `${drawn.length} designs by test accuracy and ${audited ? "residual share" : "Avg Gap"}; the table below has the numbers`);
    const scales = Object.fromEntries(["x", "y", "r"].map((name) => [name, drawn.length ? svg.scale(name) : null]));
    const chosenFirst = d3.sort(drawn, (one) => one.name !== state.a && one.name !== state.b);
    nameAll(svg, chosenFirst.map((each) => ({ x: scales.x.apply(each.TA), y: scales.y.apply(each[y]), r: scales.r.apply(each.seconds ?? 0), words: each.title })));
    svg.classList.add("clickable");
    const clickable = drawn.filter((each) => each.kind !== "anew");
    svg.addEventListener("click", (event) => {
      const [px, py] = d3.pointer(event, svg);
      const nearest = d3.least(clickable, (each) => Math.hypot(svg.scale("x").apply(each.TA) - px, svg.scale("y").apply(each[y]) - py));
      if (nearest) choose({ [body.dataset.side ?? "a"]: nearest.name }, `${nearest.title} is chosen. ${chosenSystems()}`);
    });
    const sideButton = (name, words) => element("button", { type: "button", class: name, "aria-pressed": String(side === name),
      onclick: () => { body.dataset.side = name; redraw("designs"); } }, words);
    const heads = ["Design", "", "TA [%]", "RA [%]", "FA [%]", "MIA [%]", "Avg Gap", "residual share [%]", "Seconds", "Must be stored"];
    const rows = lines.map((each) => ({
      kind: each.name === state.a ? "a" : each.name === state.b ? "b" : "",
      cells: [each.title, each.kind === "anew" ? "" : element("span", {}, ...["a", "b"].map((name) => element("button", { type: "button", class: name, "aria-label": `${each.title} as ${name.toUpperCase()}`,
        "aria-pressed": String(state[name] === each.name), onclick: () => choose({ [name]: each.name }, chosenSystems()) }, name.toUpperCase()))),
      each.cells.TA, each.cells.RA, each.cells.FA, each.cells.MIA, each.bold ? element("b", {}, each.cells["Avg Gap"]) : each.cells["Avg Gap"], each.shareText, each.cells.Seconds, each.stored],
    }));
    body.replaceChildren(
      element("p", { class: "advice" }, ...coded(contents.advice), contents.requests.length > 1 ? ` These numbers are for the ${100 * contents.requests[0].rate}% request.` : ""),
      element("div", { class: "buttons" }, "Clicking the chart sets:", sideButton("a", "A"), sideButton("b", "B")),
      element("ul", { class: "legend" }, ...Object.keys(KINDS).map((kind) => drawn.find((each) => each.kind === kind)).filter(Boolean).map((each) => element("li", {}, symbolOf(KINDS[each.kind]), ` ${each.kindWords}`))),
      element("div", { class: "wide" }, svg),
      element("p", { class: "note" }, `Means over n = ${n} seed${n === 1 ? "" : "s"}. Larger marks: slower unlearning. Bars: ± one standard deviation`
        + (audited ? "; vertical bars: the 95% interval of the share, which an audit measured on its own forget sets." : wasAudited ? ". An audit was run but could not measure how much remains; the table shows why." : ". No audit was run, so it is unknown how much remains; run "),
        ...(audited || wasAudited ? [] : [element("code", {}, contents.commands.audits), " to measure it."])),
      tableOf(heads, rows, "Designs: the numbers of the main table", "cards"),
      element("p", { class: "note" }, rowsLeftOut(lines)),
    );
  },
};

// Explains which oracles are not among the designs, and what is bold.
function rowsLeftOut(lines) {
  const exact = lines.filter((each) => each.kind === "exact");
  const oracles = exact.map((each) => title(systems.get(each.name)?.oracle));
  const bold = lines.some((each) => each.bold) ? "Bold: the lowest Avg Gap, if its ± overlaps no other method's. " : "";
  if (!exact.length) return bold;
  return `${bold}${oracles.join(", ")} ${exact.length === 1 ? "has no row" : "have no rows"} here, because ${exact.map((each) => each.title).join(", ")} delete${exact.length === 1 ? "s" : ""} exactly and therefore equal${exact.length === 1 ? "s its oracle" : " their oracles"}.`;
}

// The selected forgotten samples, those that A keeps most first.
function keptByA(seed = state.seed) {
  const oracle = predictionsOf(systems.get(state.a)?.oracle, seed);
  const after = predictionsOf(state.a, seed);
  const list = [...forgottenNow(seed)].filter(isChosen).map((i) => ({
    i, kept: after && oracle ? (100 * (after.p[i] - oracle.p[i])) / PROBABILITY_SCALE : 0,
  }));
  return list.sort((one, other) => other.kept - one.kept || one.i - other.i);
}

VIEWS.samples = {
  depends: ["seed", "request", "a", "b", "class", "area", "sample"],
  draw(body, changed) {
    const list = keptByA();
    // If only the chosen sample changes, keep the columns and move the mark.
    if (changed.length === 1 && changed[0] === "sample" && body.querySelector(".columns")) {
      markColumn(body, list);
    } else {
      drawColumns(body, list);
    }
    const i = chosenSample(list);
    body.querySelector(".one").replaceChildren(...(i === null ? [] : oneSample(i)));
  },
};

// The chosen sample or, if there is none, the forgotten sample that A keeps most.
function chosenSample(list = keptByA()) {
  if (state.sample !== "") return positionOf.get(Number(state.sample));
  return list.length ? list[0].i : null;
}

function drawColumns(body, list) {
  const series = [
    ["before forgetting (original of A)", systems.get(state.a)?.original, "circle", "var(--before)"],
    [`after A (${title(state.a)})`, state.a, "circle", "var(--a)"],
    [`after B (${title(state.b)})`, state.b, "triangle", "var(--b)"],
    [`oracle of A, which never saw it`, systems.get(state.a)?.oracle, "dash", "var(--oracle)"],
  ];
  const oracleOfB = systems.get(state.b)?.oracle;
  if (oracleOfB !== systems.get(state.a)?.oracle) series.push(["oracle of B", oracleOfB, "dash", "var(--b)"]);
  const drawn = series.map(([words, name, symbol, color]) => {
    const predictions = predictionsOf(name);
    return { words, name, symbol, color, values: predictions ? list.map(({ i }, rank) => ({ rank: rank + 1, p: (100 * predictions.p[i]) / PROBABILITY_SCALE })) : null };
  });
  const half = Math.min(0.45, Math.max(0.3, list.length / 400));
  const marks = drawn.filter((each) => each.values).map((each) => each.symbol === "dash"
    ? Plot.ruleY(each.values, { y: "p", x1: (d) => d.rank - half, x2: (d) => d.rank + half, stroke: each.color, strokeWidth: 2.5 })
    : Plot.dot(each.values, { x: "rank", y: "p", symbol: each.symbol, r: 3.2, fill: each.name === systems.get(state.a)?.original ? "none" : each.color, stroke: each.color }));
  // One tooltip per column, with the predictions of all systems.
  const columns = list.map(({ i }, rank) => ({ rank: rank + 1, p: 100, words: [`${nameOf(i)}, class ${className(samples.labels[i])}`,
    ...drawn.filter((each) => each.values).map((each) => `${each.words}: ${percent(each.values[rank].p)}`)].join("\n") }));
  marks.push(Plot.tip(columns, Plot.pointerX({ x: "rank", y: "p", title: "words", anchor: "top", ...TIP })));
  // The axis stays in place while the columns scroll.
  const height = 320;
  const y = { label: "↑ probability of the true class [%]", domain: [0, 100] };
  const axis = chart({ width: 50, height, marginLeft: 50, marginRight: 0, x: { axis: null }, y, marks: [Plot.axisY()] }, "");
  axis.classList.add("axis");
  axis.removeAttribute("role");
  axis.removeAttribute("aria-label");
  axis.setAttribute("aria-hidden", "true");
  const svg = chart({
    width: Math.max(widthOf(body), Math.min(list.length * 9, 3000)), height, marginLeft: 50,
    x: { label: "forgotten pictures, sorted by how much A keeps →", domain: [0.4, Math.max(list.length, 1) + 0.6], ticks: 8, tickFormat: "d" },
    y: { ...y, axis: null, grid: true }, marks,
  }, `Probability of the true class of ${list.length} forgotten pictures, before, after A, after B and of the oracle`);
  svg.classList.add("clickable");
  svg.addEventListener("click", (event) => {
    const rank = Math.round(svg.scale("x").invert(d3.pointer(event, svg)[0]));
    const picked = list[Math.min(Math.max(rank, 1), list.length) - 1];
    if (picked) choose({ sample: String(samples.ids[picked.i]) }, `picture ${nameOf(picked.i)} is shown`);
  });
  const range = element("input", { type: "range", min: 1, max: Math.max(list.length, 1), value: 1, "aria-label": "Forgotten picture, sorted by how much A keeps",
    oninput: (event) => { const { i } = list[event.target.value - 1]; choose({ sample: String(samples.ids[i]) }, `picture ${nameOf(i)} is shown`); } });
  const means = ["a", "b"].map((side) => {
    const name = state[side];
    const after = predictionsOf(name);
    const oracle = predictionsOf(systems.get(name)?.oracle);
    if (!after || !oracle) return `${side.toUpperCase()} (${title(name)}) has no predictions here, because it diverged or was not run.`;
    const kept = d3.mean(list, ({ i }) => (100 * (after.p[i] - oracle.p[i])) / PROBABILITY_SCALE) ?? 0;
    const [word, size] = kept <= -0.05 ? ["lower", -kept] : ["higher", Math.max(kept, 0)];
    return `On average, ${side.toUpperCase()} (${title(name)}) gives the true class a probability ${size.toFixed(1)} points ${word} than its oracle does.`;
  });
  const best = list.slice(0, 10).filter(({ kept }) => kept >= 0.05).map(({ i, kept }) => sampleButton(samples.ids[i], [`A keeps ${points(kept)}`]));
  body.replaceChildren(
    element("ul", { class: "legend" }, ...drawn.map((each, place) => element("li", {}, each.symbol === "dash" ? dash(each.color) : place ? colored(each.symbol, each.color) : hollow(each.color),
      ` ${each.words}${each.values ? "" : " (no predictions)"}`))),
    element("div", { class: "wide columns" }, axis, svg),
    list.length ? range : element("p", {}, "No forgotten picture is selected. Choose another class, or clear the area on the map."),
    element("p", { class: "note" }, `n = ${list.length} forgotten pictures of seed ${state.seed}. ${means.join(" ")} What A keeps of a picture is the probability of its true class after A minus that of A's oracle, in points. Training runs also differ by chance, so a difference does not prove that A remembers the picture.`),
    element("h3", {}, `Remembered best by A (${title(state.a)}), seed ${state.seed}`),
    element("p", { class: "note" }, mostKeptBySeed()),
    best.length ? element("ul", { class: "pictures kept" }, ...best) : element("p", {}, "None. No picture has a higher probability under A than under its oracle."),
    element("div", { class: "one", id: "picture" }),
    classTable(),
  );
  body.querySelector(".columns").chart = { svg, list };
  markColumn(body, list);
}

// A single seed's list says little about other seeds, so also show the largest value of each.
function mostKeptBySeed() {
  if (contents.seeds.length < 2) return "This list is for the only seed of the run.";
  const listed = contents.seeds.map((seed) => ({ seed, first: keptByA(String(seed))[0] })).filter(({ first }) => first);
  const place = contents.seeds.map(String).indexOf(state.seed) + 1;
  const words = listed.map(({ seed, first }) => `seed ${seed}: ${nameOf(first.i)}, ${points(first.kept)}`);
  return `This list is only for seed ${state.seed} (${place} of ${contents.seeds.length}); other seeds forget other pictures. The picture that A keeps most, by seed: ${words.join("; ")} points.`;
}

function markColumn(body, list) {
  const { svg } = body.querySelector(".columns").chart;
  const chosen = chosenSample(list);
  const rank = list.findIndex(({ i }) => i === chosen);
  d3.select(svg).selectAll(".chosen").remove();
  const range = body.querySelector("input[type=range]");
  if (rank < 0) return;
  const x = svg.scale("x").apply(rank + 1);
  d3.select(svg).append("rect").attr("class", "chosen").attr("x", x - 4).attr("width", 8).attr("y", svg.scale("y").apply(100)).attr("height", svg.scale("y").apply(0) - svg.scale("y").apply(100))
    .attr("fill", "none").attr("stroke", "var(--text)").attr("stroke-width", 2).attr("pointer-events", "none");
  range.value = rank + 1;
  const columns = body.querySelector(".columns"); // a phone shows only some of them: scroll to the chosen one
  columns.scrollLeft = x - columns.clientWidth / 2;
  range.setAttribute("aria-valuetext", `${nameOf(chosen)}, class ${className(samples.labels[chosen])}, A keeps ${points(list[rank].kept)} points`);
  body.querySelectorAll(".kept .sample").forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.sample === String(samples.ids[chosen]))));
}

// One sample: its picture, the predictions of all systems, and the neighbors that A's and B's predictions are based on.
function oneSample(i) {
  // An oracle has seen the pictures that were not forgotten, so a comparison with it would be meaningless.
  const isForgotten = forgottenNow().has(i);
  const rows = contents.systems.map((each) => {
    const predictions = predictionsOf(each.name);
    const oracle = each.role === "method" && isForgotten ? predictionsOf(each.oracle) : null;
    const differences = isForgotten ? [oracle && predictions ? points((100 * (predictions.p[i] - oracle.p[i])) / PROBABILITY_SCALE) : ""] : [];
    return {
      kind: each.name === state.a ? "a" : each.name === state.b ? "b" : "",
      cells: predictions ? [each.title, className(predictions.top[i]) + (predictions.top[i] === samples.labels[i] ? "" : " ✗ wrong"), percent((100 * predictions.p[i]) / PROBABILITY_SCALE),
        ...differences] : [each.title, "no prediction", "–", ...differences],
    };
  });
  const rests = ["a", "b"].flatMap((side) => {
    const count = systems.get(state[side])?.restsOn;
    const memory = `${state.seed}/${state.request}`;
    if (!count || !nearOf(memory)) return [element("p", { class: "note" }, `${side.toUpperCase()} (${title(state[side])}) does not use neighbors. Its predictions depend on ${isExact(state[side]) ? "all keys together" : "its weights"}.`)];
    return [element("p", { class: "note" }, `${side.toUpperCase()} (${title(state[side])}) bases its prediction on ${count} neighbors${count > nearOf(memory).depth ? ` (the first ${nearOf(memory).depth} are shown)` : ""}:`), stoodIn(i, count)];
  });
  const isKept = !isForgotten && samples.splits[i] === "train";
  const state_ = isForgotten ? "forgotten" : isKept ? "training, not forgotten" : samples.splits[i];
  const heads = ["Model", "prediction", "probability of the true class", ...(isForgotten ? ["minus its oracle's [points]"] : [])];
  const saw = isForgotten ? null : isKept ? "It was not forgotten, so the oracles were also trained on it." : "No model was trained on it.";
  return [
    element("h3", {}, `Picture ${nameOf(i)}, class ${className(samples.labels[i])} (${state_})`),
    element("div", { class: "detail" },
      element("figure", { "data-shown": samples.ids[i] }, picture(i, 160), element("figcaption", {}, `id ${samples.ids[i]}, ${samples.splits[i]}`)),
      element("div", {}, tableOf(heads, rows, `Predictions of all models for picture ${nameOf(i)}, seed ${state.seed}`), saw && element("p", { class: "note" }, saw), ...rests)),
  ];
}

function stoodIn(i, count) {
  const before = new Set(neighborsOf("full", i).slice(0, count).map(({ id }) => id));
  const after = neighborsOf(`${state.seed}/${state.request}`, i).slice(0, count);
  const allAreKnown = count <= nearOf("full").depth; // otherwise, the page lacks some of the earlier neighbors
  return element("ul", { class: "pictures" }, ...after.map(({ id, cosine }) => {
    const isNew = allAreKnown && !before.has(id);
    return sampleButton(id, [`similarity ${cosine.toFixed(3)}`, isNew ? "▲ moved up" : "as before"].slice(0, allAreKnown ? 2 : 1), isNew ? "new" : "");
  }));
}

// The mean accuracy over seeds for each class, followed by that for all classes, as in the main table.
function classAccuracies(system, part) {
  const each = contents.seeds.map((seed) => {
    const correct = contents.correct[`${seed}/${state.request}/${system}`];
    const counts = contents.counts[`${seed}/${state.request}`];
    if (!correct || !counts) return null;
    return [...contents.classes.map((_, label) => (100 * correct[part][label]) / counts[part][label]), (100 * d3.sum(correct[part])) / d3.sum(counts[part])];
  }).filter(Boolean);
  // If a seed has no sample of a class in this part, average over the other seeds.
  return d3.range(contents.classes.length + 1).map((k) => d3.mean(each, (values) => values[k]) ?? NaN);
}

function classTable() {
  const { original, oracle } = systems.get(state.a) ?? {};
  const columns = [original, state.a, oracle, systems.get(state.b)?.original, state.b].map((name) => [name, classAccuracies(name, "test")]);
  const forgotten = [state.a, oracle].map((name) => classAccuracies(name, "forget"));
  const loss = d3.range(contents.classes.length).map((k) => columns[1][1][k] - columns[0][1][k]);
  const worst = d3.minIndex(loss);
  const order = d3.sort(d3.range(contents.classes.length), (k) => loss[k]);
  const cellsOf = (k, name) => [name, points(columns[1][1][k] - columns[0][1][k]), ...columns.map(([, values]) => percent(values[k], 2)), ...forgotten.map((values) => percent(values[k], 2))];
  const rows = [{ kind: "all", cells: cellsOf(contents.classes.length, "all classes") }, ...order.map((k) => ({
    kind: state.class === String(k) ? "a" : "",
    cells: cellsOf(k, element("button", { type: "button", "aria-pressed": String(state.class === String(k)), onclick: () => choose({ class: state.class === String(k) ? "" : String(k) }) }, className(k))),
  }))];
  const heads = ["Class", "test: A − before [points]", "test: before A", `test: A, ${title(state.a)}`, "test: oracle of A", "test: before B", `test: B, ${title(state.b)}`, "forgotten: A", "forgotten: oracle of A"];
  const table = tableOf(heads, rows, "Accuracy by class, mean over seeds", "cards");
  table.classList.add("by-class");
  return element("div", {}, element("h3", {}, loss[worst] < 0 ? `Class by class: under A (${title(state.a)}), class ${className(worst)} loses the most, ${points(loss[worst])} points of test accuracy` : `Class by class: under A (${title(state.a)}), no class loses test accuracy`),
    element("p", { class: "note" }, `Share of pictures that are classified correctly, mean over n = ${contents.seeds.length} seed${contents.seeds.length === 1 ? "" : "s"}. The class that loses the most under A is first.`), table);
}

const MAX_CHANGES = 200; // rows of the list; a method that ruins the model changes most predictions

// The forgotten pictures and the test pictures whose prediction differs between A's original and A.
VIEWS.changes = {
  depends: ["seed", "request", "a", "class", "area"],
  draw(body) {
    const { original, oracle: oracleName } = systems.get(state.a) ?? {};
    const [before, after, oracle] = [original, state.a, oracleName].map((name) => predictionsOf(name));
    if (!before || !after) return body.replaceChildren(element("p", {}, `A (${title(state.a)}) or its original has no predictions here, because it diverged or was not run.`));
    const forgotten = forgottenNow();
    const parts = { forgotten: ALL.filter((i) => forgotten.has(i)), test: ALL.filter((i) => samples.splits[i] === "test" && !forgotten.has(i)) };
    const isChanged = (i) => before.top[i] !== after.top[i];
    const counts = Object.entries(parts).map(([part, all]) => {
      const asked = all.filter(isChosen);
      const changed = asked.filter(isChanged);
      const alike = oracle ? `; the oracle agrees with ${changed.filter((i) => oracle.top[i] === after.top[i]).length} of these` : "";
      return `${changed.length} of ${asked.length} ${part} pictures${changed.length ? alike : ""}`;
    });
    const change = (i) => Math.abs(after.p[i] - before.p[i]);
    const orders = { part: ["forgotten or test", (i) => !forgotten.has(i)], class: ["class", (i) => samples.labels[i]], before: ["before", (i) => before.top[i]],
      after: ["after A", (i) => after.top[i]], oracle: ["oracle of A", (i) => oracle?.top[i] ?? 0], change: ["change of probability", (i) => -change(i)] };
    const order = orders[body.dataset.order] ? body.dataset.order : "part";
    const listed = d3.sort([...parts.forgotten, ...parts.test].filter((i) => isChosen(i) && isChanged(i)), orders[order][1], (i) => -change(i));
    const select = element("select", { onchange: (event) => { body.dataset.order = event.target.value; redraw("changes"); } }, ...Object.entries(orders).map(([value, [words]]) => element("option", { value }, words)));
    select.value = order;
    const named = (predictions, i) => predictions ? className(predictions.top[i]) + (predictions.top[i] === samples.labels[i] ? "" : " ✗") : "–";
    const shown = (predictions, i) => percent((100 * predictions.p[i]) / PROBABILITY_SCALE);
    const rows = listed.slice(0, MAX_CHANGES).map((i) => ({ cells: [
      element("button", { type: "button", "data-sample": samples.ids[i], onclick: () => choose({ sample: String(samples.ids[i]) }, `picture ${nameOf(i)} is shown`) }, picture(i, 32), nameOf(i)),
      forgotten.has(i) ? "forgotten" : "test", className(samples.labels[i]), named(before, i), named(after, i), named(oracle, i), `${shown(before, i)} → ${shown(after, i)}`] }));
    const heads = ["Picture", "", "class", "before", "after A", "oracle of A", "probability of the true class"];
    const cut = listed.length > rows.length ? ` The first ${rows.length} of ${listed.length} are listed.` : "";
    body.replaceChildren(
      element("p", { class: "note" }, `Of the pictures on this page, with seed ${state.seed}, A (${title(state.a)}) changed the prediction of ${counts.join(", and of ")}. ✗: wrong.${cut}`),
      ...(rows.length ? [element("div", { class: "buttons" }, element("label", {}, "Sort by", select)), tableOf(heads, rows, `Pictures whose prediction A (${title(state.a)}) changed`, "cards")] : []),
    );
  },
};

VIEWS.map = {
  depends: ["seed", "request", "a", "b", "class", "area", "wrong", "sample"],
  draw(body, changed) {
    const marks = state.wrong === "" ? ["sample", "a", "b"] : ["sample"]; // A and B only matter if their errors are marked
    if (!body.map || changed.some((each) => !marks.includes(each))) drawMap(body);
    else if (contents.is_experiment) body.querySelector(".wrong").replaceWith(wrongMenu()); // its options name A and B
    markOnMap(body);
  },
};

function wrongMenu() {
  const options = [["", "not marked"], ["before", "before forgetting"], ["a", `after A (${title(state.a)})`], ["b", `after B (${title(state.b)})`]];
  const select = element("select", { onchange: (event) => choose({ wrong: event.target.value }) }, ...options.map(([value, words]) => element("option", { value }, words)));
  select.value = state.wrong;
  return element("label", { class: "wrong" }, "Crosses: misclassified", select);
}

// Points are drawn on a canvas, which is fast even with thousands. An SVG on top has the brush and the chosen sample.
function drawMap(body) {
  const few = contents.classes.length <= COLORS.length;
  const forgotten = forgottenNow();
  const wrongOf = { before: systems.get(state.a)?.original, a: state.a, b: state.b }[state.wrong];
  const predictions = wrongOf ? predictionsOf(wrongOf) : null;
  const width = widthOf(body);
  const height = Math.min(560, width);
  const x = d3.scaleLinear(d3.extent(samples.x), [14, width - 14]);
  const y = d3.scaleLinear(d3.extent(samples.y), [height - 14, 14]);
  const style = getComputedStyle(document.documentElement);
  const colorOf = (name) => style.getPropertyValue(`--${name}`).trim();
  const gray = colorOf("before");
  const canvas = element("canvas", { role: "img", width: width * devicePixelRatio, height: height * devicePixelRatio });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(devicePixelRatio, devicePixelRatio);
  const shapes = SYMBOLS.map((name) => new Path2D(d3.symbol(d3[`symbol${name[0].toUpperCase()}${name.slice(1)}`], 22)()));
  const paint = (i, draw) => {
    context.save();
    context.translate(x(samples.x[i]), y(samples.y[i]));
    draw();
    context.restore();
  };
  const chosen = ALL.filter(isChosen);
  const isIn = new Set(chosen);
  context.globalAlpha = 0.35;
  context.fillStyle = gray;
  for (const i of ALL) if (!isIn.has(i)) context.fillRect(x(samples.x[i]) - 1.5, y(samples.y[i]) - 1.5, 3, 3);
  context.globalAlpha = isDark.matches ? 0.95 : 0.8;
  for (const i of chosen) {
    context.fillStyle = few ? classColor(samples.labels[i]) : state.class === "" ? gray : colorOf("a");
    paint(i, () => context.fill(shapes[few ? samples.labels[i] : 0]));
  }
  context.globalAlpha = 1;
  context.strokeStyle = colorOf("text");
  const ring = new Path2D();
  ring.arc(0, 0, 5.5, 0, 2 * Math.PI);
  const crossed = new Path2D("M-5,-5L5,5M-5,5L5,-5");
  let wrong = 0;
  for (const i of chosen) {
    if (forgotten.has(i)) paint(i, () => context.stroke(ring));
    if (predictions && predictions.top[i] !== samples.labels[i]) {
      wrong += 1;
      context.lineWidth = 2;
      paint(i, () => context.stroke(crossed));
      context.lineWidth = 1;
    }
  }
  canvas.setAttribute("aria-label", `${N} ${NOUN} in the plane, ${chosen.length} selected, ${forgotten.size} forgotten${predictions ? `, ${wrong} misclassified` : ""}`);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("aria-hidden", "true").node();
  const brush = d3.brush().extent([[0, 0], [width, height]]).on("end", (event) => {
    if (!event.sourceEvent) return;
    if (event.selection) {
      const [[x0, y0], [x1, y1]] = event.selection;
      const box = [x.invert(x0), y.invert(y1), x.invert(x1), y.invert(y0)].map((each) => each.toFixed(3));
      choose({ area: box.join(",") }, "an area of the map is selected");
      return;
    }
    const [px, py] = d3.pointer(event.sourceEvent, svg);
    const nearest = d3.least(ALL, (i) => Math.hypot(x(samples.x[i]) - px, y(samples.y[i]) - py));
    if (state.area !== "") choose({ area: "", sample: String(samples.ids[nearest]) });
    else choose({ sample: String(samples.ids[nearest]) }, `picture ${nameOf(nearest)} is shown`);
  });
  const group = d3.select(svg).append("g").attr("class", "brush").call(brush);
  const box = area();
  if (box) group.call(brush.move, [[x(box[0]), y(box[3])], [x(box[2]), y(box[1])]]);
  const classes = few ? contents.classes.map((each, label) => element("li", {}, element("button", { type: "button", "aria-pressed": String(state.class === String(label)),
    onclick: () => choose({ class: state.class === String(label) ? "" : String(label) }) }, colored(SYMBOLS[label], classColor(label)), ` ${each}`))) : [element("li", {}, "Choose a class above to color its pictures.")];
  body.replaceChildren(
    element("ul", { class: "legend" }, ...classes),
    element("div", { class: "buttons" }, contents.is_experiment ? wrongMenu() : null,
      element("button", { type: "button", disabled: state.area === "", onclick: () => choose({ area: "" }, "the whole map is selected") }, "Clear the area")),
    element("div", { class: "wide map" }, canvas, svg),
    element("div", { class: "pointed" }),
    element("p", { class: "note" }, `${contents.projection} ${N.toLocaleString("en")} ${NOUN}; ${contents.is_experiment ? `${forgotten.size} forgotten ones are ringed; ` : ""}selected: ${chosen.length.toLocaleString("en")}.${predictions ? ` Misclassified among these: ${wrong}.` : ""} Drag to select an area. The other views then show only its ${NOUN}. Without a mouse, choose a class or an id at the top.`),
  );
  body.map = { svg, x, y }; // so that the mark can move without a redraw
}

function markOnMap(body) {
  const i = contents.is_experiment ? chosenSample() : state.sample === "" ? null : chosenSample([]);
  const { svg, x, y } = body.map;
  d3.select(svg).selectAll(".chosen").remove();
  body.querySelector(".pointed").replaceChildren();
  if (i === null || i === undefined) return;
  d3.select(svg).append("circle").attr("class", "chosen").attr("cx", x(samples.x[i])).attr("cy", y(samples.y[i]))
    .attr("r", 9).attr("fill", "none").attr("stroke", "var(--text)").attr("stroke-width", 3).attr("pointer-events", "none");
  body.querySelector(".pointed").replaceChildren(element("ul", { class: "pictures" }, sampleButton(samples.ids[i], [forgottenNow().has(i) ? "forgotten" : samples.splits[i]])));
}

VIEWS.neighbors = {
  depends: ["seed", "request", "a", "b", "class", "area", "sample"],
  draw(body) {
    if (!nearOf("full")) return body.replaceChildren(element("p", {}, "No neighbors were computed."));
    const memory = contents.is_experiment ? `${state.seed}/${state.request}` : "full";
    const key = [memory, state.class, state.area].join(" ");
    const asked = contents.is_experiment ? [...forgottenNow()].filter(isChosen) : ALL.filter(isChosen);
    const alike = once(`alike ${key}`, () => d3.sort(asked.map((i) => ({ i, near: neighborsOf(memory, i, false)[0] })).filter((each) => each.near), (each) => -each.near.cosine));
    const i = contents.is_experiment ? chosenSample() : state.sample !== "" ? chosenSample([]) : alike[0]?.i ?? null;
    if (!body.querySelector(".alike") || body.dataset.key !== key) {
      body.dataset.key = key;
      const svg = chart({
        width: widthOf(body), height: 180, marginLeft: 50, x: { label: "similarity to the nearest (cosine) →" }, y: { label: `↑ ${NOUN}`, grid: true },
        marks: [Plot.rectY(alike, Plot.binX({ y: "count" }, { x: (each) => each.near.cosine, fill: "var(--a)", thresholds: 30 })), Plot.ruleY([0])],
      }, `How similar the nearest remaining picture is, for ${alike.length} pictures`);
      const about = contents.is_experiment ? "forgotten pictures, by their nearest remaining look-alike" : "samples of the memory, by their nearest other";
      body.replaceChildren(element("div", { class: "two" }), element("h3", {}, contents.is_experiment ? "Remaining look-alikes" : "Nearest pairs"), element("div", { class: "wide" }, svg),
        element("p", { class: "note" }, `n = ${alike.length} ${about}. Similarity: cosine between the two keys (1 = identical). The closest pairs:`), element("ul", { class: "pictures alike" }));
    }
    body.querySelector(".alike").replaceChildren(...alike.slice(0, 10).map(({ i: each, near }) => sampleButton(samples.ids[each], [`like #${near.id}`, near.cosine.toFixed(3)])));
    body.querySelector(".two").replaceChildren(...(i === null || i === undefined ? [element("p", {}, "Choose a picture.")] : neighborRows(i, memory)));
  },
};

function neighborRows(i, memory) {
  const forgotten = forgottenNow();
  const before = neighborsOf("full", i, contents.is_experiment);
  const buttons = (list, kindOf) => element("ul", { class: "pictures" }, ...list.map(({ id, cosine }) => {
    const [kind, words] = kindOf(id);
    return sampleButton(id, [`similarity ${cosine.toFixed(3)}`, words].filter(Boolean), kind);
  }));
  const chosen = element("ul", { class: "pictures" }, sampleButton(samples.ids[i], [forgotten.has(i) ? "forgotten" : samples.splits[i]], forgotten.has(i) ? "forgotten" : ""));
  if (!contents.is_experiment) return [element("h3", {}, "This sample"), chosen, element("h3", {}, "Its nearest others in the memory"), buttons(before, () => ["", ""])];
  const isForgotten = (id) => forgotten.has(positionOf.get(id));
  const after = neighborsOf(memory, i);
  // The neighbors that a method uses: the first few, before and after forgetting.
  const counts = contents.systems.map((each) => each.restsOn).filter((count) => count && count <= nearOf("full").depth);
  const first = counts.length ? Math.min(...counts) : nearOf("full").depth;
  const firstBefore = new Set(before.slice(0, first).map(({ id }) => id));
  const wordsOf = (id) => {
    const rank = after.findIndex((each) => each.id === id);
    if (rank >= first) return ["", ""];
    return firstBefore.has(id) ? ["", "as before"] : ["new", `▲ moved up into the first ${first}`];
  };
  const users = contents.systems.filter((each) => each.role === "method" && each.restsOn).map((each) => `${each.title} bases its predictions on the first ${each.restsOn}`);
  return [
    element("h3", {}, "This picture"), chosen,
    element("h3", {}, "Before: nearest in the whole memory"), buttons(before, (id) => isForgotten(id) ? ["forgotten", id === samples.ids[i] ? "itself, forgotten" : "forgotten"] : ["", ""]),
    element("h3", {}, "After: nearest in the remaining memory"), buttons(after, wordsOf),
    element("p", { class: "note" }, `${users.join("; ") || "No method of this run uses neighbors"}. Similarity: cosine between the two keys (1 = identical).`),
  ];
}

VIEWS.requests = {
  depends: ["a", "b"],
  draw(body) {
    const parts = [];
    const wanted = new Set([state.a, state.b, systems.get(state.a)?.oracle, systems.get(state.b)?.oracle]);
    const curves = contents.streams.filter((each) => wanted.has(each.name));
    if (curves.length) {
      const colorOf = (name) => name === state.a || name === systems.get(state.a)?.oracle ? "var(--a)" : "var(--b)";
      const isOracle = (each) => systems.get(each.name)?.role === "oracle";
      const means = d3.rollups(curves, (some) => ({ ...some[0], TA: d3.mean(some, (each) => each.TA) }), (each) => each.name, (each) => each.done)
        .flatMap(([, steps]) => steps.map(([, each]) => each)).sort((one, other) => one.done - other.done);
      const models = d3.max(d3.rollups(curves, (some) => new Set(some.map((each) => each.seed)).size, (each) => each.name), ([, count]) => count);
      const last = d3.max(curves, (each) => each.done);
      const lines = (some, z, opacity, strokeWidth) => [false, true].map((oracles) => Plot.lineY(some.filter((each) => isOracle(each) === oracles),
        { x: "done", y: "TA", z, stroke: (each) => colorOf(each.name), strokeOpacity: opacity, strokeWidth, strokeDasharray: oracles ? "5 4" : null }));
      const svg = chart({
        width: widthOf(body), height: 360, marginLeft: 50, marginRight: 110, x: { label: "requests so far →", ticks: d3.range(last + 1).filter((each) => each % Math.ceil((last + 1) / 12) === 0), tickFormat: "d" }, y: { label: "↑ test accuracy [%]", grid: true },
        marks: [...lines(curves, (each) => `${each.name} ${each.seed}`, 0.25, 1), ...lines(means, "name", 1, 2.5)],
      }, "Test accuracy after each request, for A, B and their oracles");
      const ends = means.filter((each) => each.done === d3.max(means.filter((one) => one.name === each.name), (one) => one.done));
      nameAll(svg, ends.map((each) => ({ x: svg.scale("x").apply(each.done), y: svg.scale("y").apply(each.TA), r: 2, words: each.title })));
      parts.push(element("div", { class: "wide" }, svg), element("p", { class: "note" }, `Bold: mean over n = ${models} trained models; thin: each of them. Dashed: the oracle of the same color, retrained without the samples that were forgotten so far. A line should stay level and close to its oracle's.`));
    } else {
      const why = contents.streams.length ? "A and B did not take part in the stream." : `No stream of requests was run. To run one: \`${contents.commands.streams}\`.`;
      parts.push(element("p", {}, ...coded(why)));
    }
    const heads = ["Request", "", "TA [%]", "FA [%]", "MIA [%]", "Avg Gap", "Seconds"];
    const rows = contents.requests.flatMap((request) => ["a", "b"].map((side) => {
      const line = contents.designs.find((each) => each.request === request.key && each.name === state[side]);
      return { kind: side, cells: [request.label, `${side.toUpperCase()} (${title(state[side])})`, ...["TA", "FA", "MIA", "Avg Gap", "Seconds"].map((each) => line?.cells[each] ?? "–")] };
    }));
    parts.push(element("h3", {}, "Each kind of request on its own"), element("p", { class: "note" }, `Mean ± one standard deviation over n = ${contents.seeds.length} seed${contents.seeds.length === 1 ? "" : "s"}. A good method's numbers are near its oracle's, whatever is forgotten: its Avg Gap is small.`), tableOf(heads, rows, "A and B after each kind of request that was run", "cards"));
    if (!contents.requests.some((each) => each.case)) parts.push(element("p", {}, ...coded(`Only random requests were run. To forget a class, look-alikes and the hardest pictures, run \`${contents.commands.scenarios}\`.`)));
    body.replaceChildren(...parts);
  },
};

// ---------------------------------------------------------------- drawing

const bodies = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, document.querySelector(`#${name} > .body`)]).filter(([, body]) => body));

const spent = {}; // milliseconds of each view's last drawing, for measurements

function redraw(name, changed = VIEWS[name].depends) {
  const start = performance.now();
  VIEWS[name].draw(bodies[name], changed);
  spent[name] = performance.now() - start;
}

function draw(changed) {
  choices();
  for (const name of Object.keys(bodies)) if (VIEWS[name].depends.some((each) => changed.includes(each))) redraw(name, changed.filter((each) => VIEWS[name].depends.includes(each)));
}

if (contents.pictures) document.documentElement.style.setProperty("--pictures", `url(${contents.pictures.uri})`);
readAddress();
draw(Object.keys(DEFAULTS));
document.documentElement.dataset.drawn = "true";
addEventListener("hashchange", () => { readAddress(); draw(Object.keys(DEFAULTS)); });
isDark.addEventListener("change", () => draw(Object.keys(DEFAULTS))); // a canvas does not adapt its colors by itself
let resizing = 0;
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return; // only the height changed, e.g. because a phone's address bar was hidden
  width = innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(() => draw(Object.keys(DEFAULTS)), 150);
});
