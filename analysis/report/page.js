// Draws the page from the JSON beside it. Colours: Okabe and Ito's, told apart under common colour blindness; lines
// also differ by dash, bars by pattern. Every text from the data goes in as text, never as HTML.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const PALETTE = {
  light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B58900", "#3A9BD1", "#7A6C00", "#000000"],
  dark: ["#62B5EA", "#FF8F3F", "#2FD3A2", "#E5A0C8", "#F0C040", "#9AD4F5", "#F0E442", "#E7EAEE"],
};
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", "."];
const HEAT = "Cividis";
const plots = []; // functions that draw again when the theme changes

// --- small things -------------------------------------------------------------------------------------------
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function scaled(value, units, step = 1000) {
  let index = 0;
  while (Math.abs(value) >= step * 0.9995 && index < units.length - 1) { value /= step; index += 1; }
  const size = Math.abs(value);
  const digits = index === 0 ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[index]}`.trim();
}
const showBytes = value => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
const showTime = value => scaled(value, ["ns", "µs", "ms", "s"]);
const showCount = value => scaled(value, ["", "k", "M", "G", "T"]);
const showChange = value => `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value * 100).toFixed(0)} %`;
const showShare = value => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
const showMemory = value => value ? showBytes(value) : "unlimited";
function byUnit(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (name.endsWith("memory_bytes")) return showMemory(value);
  if (name.endsWith("_bytes")) return showBytes(value);
  if (name.endsWith("_ns")) return showTime(value);
  if (name.endsWith("_share")) return showShare(value);
  return Math.abs(value) >= 1e4 ? showCount(value) : String(Number(value.toPrecision(6)));
}
function section(id, short, title, lead, classes = "") {
  const node = make("section", {id, class: classes, "aria-labelledby": `${id}-title`});
  node.append(make("h2", {id: `${id}-title`, text: title}));
  if (lead) node.append(make("p", {class: "lead", text: lead}));
  main.append(node);
  document.getElementById("nav").append(make("a", {href: `#${id}`, text: short}));
  return node;
}
function table(columns, rows) { // columns: [heading, cell(row) -> text or node, number?]
  const head = make("tr", {}, ...columns.map(([name, , number]) => make("th", {class: number ? "number" : "", scope: "col", text: name})));
  const body = rows.map(row => make("tr", {}, ...columns.map(([, cell, number]) => {
    const content = cell(row);
    return make("td", {class: number ? "number" : ""}, ...(Array.isArray(content) ? content : [content]));
  })));
  return make("div", {class: "scroll"}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}
function select(label, options, chosen) { // options: [value, text]
  const box = make("select", {}, ...options.map(([value, text]) => make("option", {value, text})));
  box.value = chosen;
  return [make("label", {}, label, box), box];
}

// --- theme and plots ----------------------------------------------------------------------------------------
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null, printing = false;
const theme = () => printing ? "light" : chosenTheme ?? (system.matches ? "dark" : "light");
function applyTheme() {
  root.dataset.theme = theme();
  for (const draw of plots) draw();
}
const colours = () => PALETTE[theme()];
function variable(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
function layout(more = {}) {
  const axis = {gridcolor: variable("--line"), zerolinecolor: variable("--line"), linecolor: variable("--line"), automargin: true};
  const {xaxis = {}, yaxis = {}, ...rest} = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: variable("--ink"), family: "system-ui, 'DejaVu Sans', sans-serif", size: 13},
    margin: {l: 60, r: 20, t: 10, b: 45}, hoverlabel: {align: "left"}, showlegend: true,
    legend: {orientation: "h", x: 0, y: 1.02, yanchor: "bottom"},
    modebar: {bgcolor: "rgba(0,0,0,0)", color: variable("--line"), activecolor: variable("--accent")},
    xaxis: {...axis, ...xaxis}, yaxis: {...axis, ...yaxis}, ...rest,
  };
}
const CONFIG = {
  responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"],
  toImageButtonOptions: {format: "svg", filename: "netfold"},
};
function plot(parent, describe, height, label) {
  const box = make("div", {class: "plot", style: `height:${height}px`, role: "img", "aria-label": label});
  parent.append(box);
  const draw = () => {
    const {traces, more} = describe();
    Plotly.react(box, traces, layout({height, ...more}), CONFIG);
  };
  plots.push(draw);
  return [box, draw];
}

// --- what a run is called -----------------------------------------------------------------------------------
const runs = data.runs ?? [];
const own = runs.some(run => !run.swept) ? runs.filter(run => !run.swept) : runs;
const free = own.filter(run => run.recirculation !== "tofino");
function named(run) {
  const limits = {free: "free", tofino: "Tofino"}[run.recirculation] ?? "";
  const parts = [run.in_network ? limits : "", run.swept ? showMemory(run.memory_bytes) : ""];
  const more = parts.filter(Boolean).join(", ");
  return more ? `${run.system} (${more})` : run.system;
}
// The pair that is compared most comes first: the first colours differ most, and the first line is solid.
const FIRST = ["switchgnn", "switchgnn-no-gamr", "host", "g3", "strawman", "presum", "strawman-ul"];
const place = new Map([...new Set([...FIRST, ...runs.map(run => run.system)])].map((name, index) => [name, index]));
const colourOf = run => colours()[place.get(run.system) % colours().length];
const dashOf = run => DASHES[place.get(run.system) % DASHES.length];
const options = list => list.map(run => [run.label, named(run)]);
const byLabel = new Map(runs.map(run => [run.label, run]));
const favourite = (byLabel.get("switchgnn-free") ?? free.find(run => run.in_network) ?? own[0] ?? runs[0])?.label;

// --- sections of a run --------------------------------------------------------------------------------------
function about() {
  const node = section("about", "Run", "What was run", "");
  const list = make("dl", {class: "facts"});
  for (const [name, text] of data.about) list.append(make("dt", {text: name}), make("dd", {text}));
  node.append(list);
  for (const [name, why] of Object.entries(data.failures)) node.append(make("p", {class: "up", text: `${name} failed: ${why}`}));
  for (const [name, why] of Object.entries(data.skipped ?? {})) node.append(make("p", {class: "up", text: `skipped ${name}: ${why}`}));
}
function changed(value) {
  if (value === null || value === undefined) return "–";
  return make("span", {class: value < -0.005 ? "down" : value > 0.005 ? "up" : "", text: showChange(value)});
}
function headline() {
  if (!data.headline.length) return;
  const node = section("headline", "Headline", "Headline", "One epoch. Traffic is what crosses the hosts' links, headers included; times come with recirculation free, as in the paper's simulation, and within a Tofino's limits.");
  const rows = new Map(data.headline.map(row => [row.system, row]));
  const ours = rows.get("switchgnn"), host = rows.get("host"), random = rows.get("switchgnn-no-gamr");
  const tiles = make("div", {class: "tiles"});
  const tile = (big, small) => tiles.append(make("div", {class: "tile"}, make("b", {text: big}), make("span", {text: small})));
  if (ours && host) {
    tile(showChange(ours.traffic_vs_host), "traffic, SwitchGNN against host-based");
    if (ours.epoch_vs_host !== null) tile(showChange(ours.epoch_vs_host), "epoch time, recirculation free");
    if (ours.epoch_tofino_vs_host !== null) tile(showChange(ours.epoch_tofino_vs_host), "epoch time within a Tofino's limits");
  }
  if (ours && random && random.backlog_max_bytes) tile(showChange(ours.backlog_max_bytes / random.backlog_max_bytes - 1), "longest queue, with GAMR against without");
  if (tiles.children.length) node.append(tiles);
  const figure = (name, show) => row => row[name] === null || row[name] === undefined ? "–" : show(row[name]);
  node.append(table([
    ["System", row => [row.system, make("small", {text: row.title})]],
    ["Traffic", figure("total_bytes", showBytes), true],
    ["vs host", row => changed(row.traffic_vs_host), true],
    ["Backlog p99", figure("backlog_p99_bytes", showBytes), true],
    ["Backlog max", figure("backlog_max_bytes", showBytes), true],
    ["Bypassed", figure("bypassed_share", showShare), true],
    ["Epoch, free", figure("epoch_free_ns", showTime), true],
    ["vs host", row => changed(row.epoch_vs_host), true],
    ["Epoch, Tofino", figure("epoch_tofino_ns", showTime), true],
    ["vs host", row => changed(row.epoch_tofino_vs_host), true],
  ], data.headline));
}
function unpack(run) { // rows of the ports' backlog in bytes: one Float32Array per port
  if (run.unpacked) return run.unpacked;
  const ports = run.ports, bytes = Uint8Array.from(atob(ports.packed), letter => letter.charCodeAt(0));
  const steps = new Uint16Array(bytes.buffer), bins = ports.time_ms.length;
  run.unpacked = ports.names.map((_, row) => Float32Array.from(steps.subarray(row * bins, (row + 1) * bins), step => step * ports.largest_bytes / 65535));
  return run.unpacked;
}
function portText(name) {
  const [where, number] = name.split(":"), port = Number(number), {leaves, spines, workers} = data.topology;
  if (where.startsWith("spine")) return `${where} → leaf${port}`;
  const hosts = leaves ? workers / leaves : workers;
  if (port < hosts) return `${where} → worker${port + (leaves ? Number(where.slice(4)) * hosts : 0)}`;
  return `${where} → spine${port - hosts}`;
}
function backlog() {
  const node = section("backlog", "Backlog", "Backlog over time", "Bytes queued at egress ports, the maximum in each sampling interval. Drag to zoom, double-click to see all; a click on a name hides or shows it.");
  const areas = new Map();
  for (const run of own) run.ports.names.forEach((name, row) => areas.set(name, Math.max(areas.get(name) ?? 0, run.ports.area_byte_s[row])));
  const busiest = [...areas].sort((a, b) => b[1] - a[1]).filter(([, area]) => area > 0).slice(0, 200);
  const [label, box] = select("Port", [["", "longest of all ports"], ...busiest.map(([name]) => [name, portText(name)])], "");
  const [modeLabel, mode] = select("Recirculation", [["free", "free"], ["tofino", "within a Tofino's limits"]], free.length ? "free" : "tofino");
  node.append(make("div", {class: "controls"}, label, own.some(run => run.recirculation === "tofino") && free.length ? modeLabel : ""));
  const pair = ["switchgnn", "switchgnn-no-gamr"], both = pair.every(name => own.some(run => run.system === name));
  const [element, draw] = plot(node, () => {
    const shown = own.filter(run => run.recirculation === mode.value || !run.recirculation);
    const traces = shown.map(run => {
      const row = box.value ? run.ports.names.indexOf(box.value) : -1;
      const y = box.value ? (row < 0 ? [] : Array.from(unpack(run)[row])) : run.backlog.bytes;
      return {
        type: "scatter", mode: "lines", name: run.system, x: box.value ? run.ports.time_ms : run.backlog.time_ms, y,
        line: {color: colourOf(run), dash: dashOf(run), width: 1.7, shape: "hv"},
        visible: !both || pair.includes(run.system) ? true : "legendonly",
        hovertemplate: "%{x:.4g} ms: %{y:.4s}B<extra>%{fullData.name}</extra>",
      };
    });
    return {traces, more: {xaxis: {title: {text: "simulated time (ms)"}}, yaxis: {title: {text: "backlog (bytes)"}, rangemode: "tozero", exponentformat: "SI", ticksuffix: "B"}}};
  }, 400, "Backlog over time");
  element.id = "backlog-plot";
  for (const control of [box, mode]) control.addEventListener("change", draw);
  if (both) node.append(make("p", {class: "note", text: "SwitchGNN with GAMR and without (random order within the same blocks) are shown at first."}));
}
// The topology as it is drawn twice: workers in a row, switches above them.
function draughtsman({leaves, spines, workers}) {
  const hosts = leaves ? workers / leaves : workers, span = Math.max(workers, 2);
  const at = index => leaves > 1 ? (index + 0.5) * workers / leaves : span / 2;
  function where(name) {
    const index = Number(name.match(/\d+$/)?.[0] ?? 0);
    if (name.startsWith("worker")) return [index + 0.5, 0];
    return name.startsWith("spine") ? [(index + 0.5) * span / Math.max(1, spines), 2] : [at(index), 1];
  }
  function towards(from, to, share) { // a point on the way from one node to another
    const [a, b] = [where(from), where(to)];
    return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share];
  }
  const some = (count, name) => [...Array(count).keys()].map(index => `${name}${index}`);
  const switches = leaves ? [...some(leaves, "leaf"), ...some(spines, "spine")] : ["switch"];
  const links = {x: [], y: []};
  const line = (a, b) => { links.x.push(a[0], b[0], null); links.y.push(a[1], b[1], null); };
  some(workers, "worker").forEach((worker, index) => line(where(worker), where(leaves ? `leaf${Math.floor(index / hosts)}` : "switch")));
  for (const leaf of some(leaves, "leaf")) for (const spine of some(spines, "spine")) line(where(leaf), where(spine));
  const wires = () => [
    {type: "scatter", mode: "lines", x: links.x, y: links.y, line: {color: variable("--line"), width: 1}, hoverinfo: "skip", showlegend: false},
    {type: "scatter", mode: "markers+text", x: switches.map(one => where(one)[0]), y: switches.map(one => where(one)[1]), text: switches, textposition: switches.map(one => where(one)[1] === 2 || !leaves ? "top center" : "bottom center"),
     textfont: {size: switches.length > 24 ? 9 : 11}, marker: {symbol: "square", size: 15, color: variable("--soft")}, hoverinfo: "text", showlegend: false},
  ];
  const bare = {visible: false, showgrid: false, zeroline: false};
  const frame = {margin: {l: 10, r: 10, t: 10, b: 10}, xaxis: {...bare, range: [-1, span + 1]}, yaxis: {...bare, range: [-0.15, leaves ? 2.35 : 1.35]}, showlegend: false};
  return {leaves, hosts, span, towards, wires, frame};
}
const drawing = data.topology ? draughtsman(data.topology) : null;
function heatMap() {
  const node = section("queues", "Queues", "Queues over the topology", "Each square is a port: its colour is the longest it was queued in the interval under the slider. Below, the same for all ports and all times.");
  const [label, box] = select("Run", options(runs), favourite);
  const {leaves, hosts, span, towards} = drawing;
  const slider = make("input", {type: "range", min: 0, max: 0, value: 0, id: "time-slider", "aria-label": "Simulated time"});
  const shown = make("output", {id: "time-shown"}), play = make("button", {type: "button", text: "▶ play"});
  node.append(make("div", {class: "controls"}, label, play, make("label", {class: "wide"}, "Time", slider, shown)));
  function spot(name) { // where a port is drawn, and the link it leads onto
    const [where, number] = name.split(":"), port = Number(number), leaf = leaves ? Number(where.slice(4)) : 0;
    if (where.startsWith("spine")) return towards(where, `leaf${port}`, 0.16 + 0.05 * (port % 3));
    if (port < hosts) return [leaf * hosts + port + 0.5, 0.12];
    return towards(where, `spine${port - hosts}`, 0.16 + 0.05 * ((port - hosts) % 3));
  }
  const run = () => byLabel.get(box.value);
  const size = Math.max(3, Math.min(11, 900 / span));
  const now = () => unpack(run()).map(row => row[Number(slider.value)] ?? 0);
  const [map, drawMap] = plot(node, () => {
    const spots = run().ports.names.map(spot), values = now();
    const traces = [
      ...drawing.wires(),
      {type: "scatter", mode: "markers", x: spots.map(s => s[0]), y: spots.map(s => s[1]), text: run().ports.names.map(portText), customdata: values.map(showBytes),
       marker: {symbol: "square", size, color: values, colorscale: HEAT, cmin: 0, cmax: run().ports.largest_bytes || 1, line: {width: 0.5, color: variable("--soft")},
                colorbar: {title: {text: "backlog"}, thickness: 12, exponentformat: "SI", ticksuffix: "B"}},
       hovertemplate: "%{text}: %{customdata}<extra></extra>", showlegend: false},
    ];
    return {traces, more: drawing.frame};
  }, 340, "Topology with the backlog of every port");
  map.id = "topology-plot";
  const [grid, drawGrid] = plot(node, () => {
    const ports = run().ports, names = ports.names, height = names.length;
    return {
      traces: [{type: "heatmap", x: ports.time_ms, y: names.map((_, row) => row), z: unpack(run()), colorscale: HEAT, zmin: 0, zmax: ports.largest_bytes || 1, showscale: false,
                customdata: names.map(name => Array(ports.time_ms.length).fill(portText(name))), hovertemplate: "%{customdata} at %{x:.4g} ms: %{z:.4s}B<extra></extra>"}],
      more: {margin: {l: 60, r: 20, t: 5, b: 45}, xaxis: {title: {text: "simulated time (ms)"}}, yaxis: {title: {text: `${height} egress ports`}, autorange: "reversed", showgrid: false, tickfont: {size: 10}, ...ticks(names)},
             shapes: [marker()], showlegend: false},
    };
  }, 300, "Backlog of every port over time");
  grid.id = "heat-plot";
  function ticks(names) { // one per switch, in the middle of its ports
    const sizes = new Map(), groups = new Map();
    names.forEach(name => sizes.set(name.split(":")[0], (sizes.get(name.split(":")[0]) ?? 0) + 1));
    names.forEach((name, row) => {
      const one = name.split(":")[0], key = sizes.get(one) < names.length / 18 ? one.replace(/\d+$/, "s") : one; // small ones share a tick
      groups.set(key, [...(groups.get(key) ?? []), row]);
    });
    if (groups.size < 2) return {showticklabels: false};
    return {tickmode: "array", tickvals: [...groups.values()].map(rows => rows[Math.floor(rows.length / 2)]), ticktext: [...groups.keys()]};
  }
  function marker() {
    const time = run().ports.time_ms[Number(slider.value)] ?? 0;
    return {type: "line", xref: "x", yref: "paper", x0: time, x1: time, y0: 0, y1: 1, line: {color: "#D55E00", width: 2}};
  }
  function moved() {
    const values = now(), time = run().ports.time_ms[Number(slider.value)] ?? 0;
    shown.value = `${time.toPrecision(4)} ms`;
    Plotly.restyle(map, {"marker.color": [values], customdata: [values.map(showBytes)]}, [2]);
    Plotly.relayout(grid, {shapes: [marker()]});
  }
  function chosen() {
    const last = Math.max(0, run().ports.time_ms.length - 1), sums = run().ports.time_ms.map((_, bin) => unpack(run()).reduce((sum, row) => sum + row[bin], 0));
    slider.max = last;
    slider.value = sums.indexOf(Math.max(...sums)) < 0 ? 0 : sums.indexOf(Math.max(...sums)); // start where most is queued
    shown.value = `${(run().ports.time_ms[Number(slider.value)] ?? 0).toPrecision(4)} ms`;
  }
  chosen();
  slider.addEventListener("input", moved);
  box.addEventListener("change", () => { chosen(); drawMap(); drawGrid(); });
  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "▶ play"; return; }
    play.textContent = "⏸ pause";
    timer = setInterval(() => { slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1); moved(); }, 120);
  });
}
function blocks() {
  const able = runs.filter(run => run.blocks.block.length);
  if (!able.length) return;
  const node = section("blocks", "Blocks", "Block timeline", "When each block of a propagation was aggregated: hosts run blocks in step. A row is a block level; level −1 is the part that goes host-based.");
  const [label, box] = select("Run", options(able), able.find(run => run.label === favourite)?.label ?? able[0].label);
  const note = make("p", {class: "note", id: "blocks-note"});
  node.append(make("div", {class: "controls"}, label));
  const [element, draw] = plot(node, () => {
    const run = byLabel.get(box.value), all = run.blocks, levels = [...new Set(all.level)].sort((a, b) => a - b);
    const traces = levels.map((level, index) => {
      const rows = all.level.map((one, row) => [one, row]).filter(([one]) => one === level).map(([, row]) => row);
      return {
        type: "bar", orientation: "h", name: level < 0 ? "host-based" : `level ${level}`, y: rows.map(() => level < 0 ? "host-based" : `level ${level}`),
        base: rows.map(row => all.start_ms[row]), x: rows.map(row => all.end_ms[row] - all.start_ms[row]),
        text: rows.map(row => `block ${all.block[row]}, layer ${all.layer[row]} ${all.direction[row]}, ${all.vertices[row]} vertices`), textposition: "none",
        customdata: rows.map(row => [all.start_ms[row], all.end_ms[row]]),
        marker: {color: colours()[index % colours().length], pattern: {shape: PATTERNS[index % PATTERNS.length], fillmode: "overlay", size: 6}, line: {width: 0.6, color: variable("--card")}},
        hovertemplate: "%{text}<br>%{customdata[0]:.4f} to %{customdata[1]:.4f} ms<extra></extra>",
      };
    });
    const left = all.left_out ? `; the ${all.left_out} shortest blocks are not drawn` : "";
    note.textContent = `${all.block.length + all.left_out} blocks; ${all.gap_ms.toPrecision(3)} ms lie between blocks of a propagation${left}.`;
    return {traces, more: {barmode: "overlay", bargap: 0.25, xaxis: {title: {text: "simulated time (ms)"}}, yaxis: {autorange: "reversed", type: "category"}}};
  }, 300, "Block timeline");
  element.id = "blocks-plot";
  node.append(note);
  box.addEventListener("change", draw);
}
function traffic() {
  const node = section("traffic", "Traffic", "Traffic by link", "Bytes of one epoch on each class of links: hosts to switches, switches to hosts, and between leaves and spines. Values apart from headers and control packets.");
  const hops = [["up", "hosts → switches"], ["down", "switches → hosts"], ["fabric", "leaf ↔ spine"]].filter(([hop]) => hop !== "fabric" || data.topology.leaves);
  const shown = free.length ? free : own;
  const [element] = plot(node, () => {
    const traces = hops.flatMap(([hop, name], index) => [["payload", ""], ["rest", "/"]].map(([part, pattern]) => ({
      type: "bar", orientation: "h", name: part === "payload" ? `${name}: values` : `${name}: headers, control`, legendgroup: hop,
      y: shown.map(run => run.system), x: shown.map(run => part === "payload" ? run.traffic[hop].payload_bytes : run.traffic[hop].bytes - run.traffic[hop].payload_bytes),
      text: shown.map(run => Object.entries(run.traffic[hop].frames).map(([kind, count]) => `${kind}: ${showCount(count)} frames`).join("<br>")), textposition: "none",
      customdata: shown.map(run => [showBytes(run.traffic[hop].bytes), run.utilisation[`${hop}_utilisation`] === null ? "" : `${(100 * run.utilisation[`${hop}_utilisation`]).toFixed(1)} % of the capacity while communicating`]),
      marker: {color: colours()[index], opacity: part === "payload" ? 1 : 0.55, pattern: {shape: pattern, fillmode: "overlay"}},
      hovertemplate: `%{y}, ${name}: %{customdata[0]} in all<br>%{customdata[1]}<br>%{text}<extra></extra>`,
    })));
    return {traces, more: {barmode: "stack", xaxis: {title: {text: "bytes"}, exponentformat: "SI", ticksuffix: "B"}, yaxis: {autorange: "reversed", type: "category"}, legend: {orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: {size: 11}}}};
  }, 150 + 42 * shown.length, "Traffic by link class");
  element.id = "traffic-plot";
  singleLinks(node);
}
function singleLinks(node) {
  const able = runs.filter(run => run.links.source.length);
  if (!able.length) {
    node.append(make("p", {class: "note", text: "Single links were not recorded by the version of netfold that made this run."}));
    return;
  }
  const [label, box] = select("Run", options(able), able.find(run => run.label === favourite)?.label ?? able[0].label);
  const links = () => byLabel.get(box.value).links, name = row => `${links().source[row]} → ${links().target[row]}`;
  const upward = row => links().target[row].startsWith("spine") || links().hop[row] === "up";
  const share = row => links().utilisation[row] === null ? "–" : showShare(links().utilisation[row]);
  function spot(row) { // each direction of a link near the end it leaves, crossing links one beside the other
    const [from, to] = [links().source[row], links().target[row]];
    if (links().hop[row] === "fabric") return drawing.towards(from, to, 0.16 + 0.05 * (Number(to.match(/\d+$/)[0]) % 3));
    const worker = Number((upward(row) ? from : to).match(/\d+$/)[0]);
    return [worker + 0.5, upward(row) ? 0.08 : 0.24];
  }
  node.append(make("p", {class: "lead", text: "Every link, each way: its colour is the share of its capacity that the run's own frames took while it communicated. Triangles point the way they go."}), make("div", {class: "controls"}, label));
  const [map, drawMap] = plot(node, () => {
    const rows = links().source.map((_, row) => row), spots = rows.map(spot), values = rows.map(row => links().utilisation[row] ?? 0);
    return {traces: [...drawing.wires(), {
      type: "scatter", mode: "markers", x: spots.map(s => s[0]), y: spots.map(s => s[1]), text: rows.map(name),
      customdata: rows.map(row => [share(row), showBytes(links().bytes[row]), showCount(links().packets[row]), links().background_bytes[row] ? `<br>others' traffic: ${showBytes(links().background_bytes[row])}` : ""]),
      marker: {symbol: rows.map(row => upward(row) ? "triangle-up" : "triangle-down"), size: Math.max(4, Math.min(12, 1000 / drawing.span)), color: values, colorscale: HEAT, cmin: 0, cmax: Math.max(...values) || 1,
               line: {width: 0.5, color: variable("--soft")}, colorbar: {title: {text: "utilisation"}, thickness: 12, tickformat: ".0%"}},
      hovertemplate: "%{text}: %{customdata[0]}<br>%{customdata[1]} in %{customdata[2]} packets%{customdata[3]}<extra></extra>", showlegend: false,
    }], more: drawing.frame};
  }, 340, "Topology with the use of every link");
  map.id = "links-plot";
  const kinds = [["up", "up", "worker → switch"], ["down", "down", "switch → worker"], ["fabric", "up", "leaf → spine"], ["fabric", "down", "spine → leaf"]];
  const list = make("div", {id: "links-table"});
  function drawTable() { // by kind of link, its busiest beside the mean: are they used alike?
    const found = kinds.map(([hop, way, text]) => {
      const rows = links().source.map((_, row) => row).filter(row => links().hop[row] === hop && upward(row) === (way === "up"));
      const busiest = rows.reduce((best, row) => links().bytes[row] > links().bytes[best] ? row : best, rows[0]);
      return {text, rows, busiest, bytes: rows.reduce((sum, row) => sum + links().bytes[row], 0)};
    }).filter(one => one.rows.length);
    list.replaceChildren(table([
      ["Links", one => one.text], ["of them", one => String(one.rows.length), true], ["Bytes in all", one => showBytes(one.bytes), true], ["Mean of a link", one => showBytes(one.bytes / one.rows.length), true],
      ["Busiest", one => name(one.busiest)], ["its bytes", one => showBytes(links().bytes[one.busiest]), true], ["its packets", one => showCount(links().packets[one.busiest]), true], ["its utilisation", one => share(one.busiest), true],
    ], found));
  }
  drawTable();
  node.append(list);
  box.addEventListener("change", () => { drawMap(); drawTable(); });
}
function epochs() {
  const node = section("epoch", "Epoch", "Epoch breakdown", "Where an epoch's time goes, mean over workers: compute before a propagation, in it (waiting included), and after it. Where a system overlaps them, the parts add up to more than the epoch.");
  const [element] = plot(node, () => {
    const parts = [["before_ms", "compute before"], ["comm_ms", "in propagations"], ["after_ms", "compute after"]];
    const traces = parts.map(([key, name], index) => ({
      type: "bar", orientation: "h", name, y: own.map(named), x: own.map(run => run.epochs.reduce((sum, phase) => sum + phase[key], 0)),
      text: own.map(run => run.epochs.map(phase => `${phase.layer ? `layer ${phase.layer} ${phase.direction}` : "all-reduce"}: ${phase[key].toPrecision(3)} ms`).join("<br>")), textposition: "none",
      marker: {color: colours()[[2, 0, 4][index]], pattern: {shape: ["", "/", "\\"][index], fillmode: "overlay"}},
      hovertemplate: "%{y}, %{fullData.name}: %{x:.4g} ms<br>%{text}<extra></extra>",
    }));
    traces.push({type: "scatter", mode: "markers", name: "epoch", y: own.map(named), x: own.map(run => run.epoch_ns / 1e6),
                 marker: {symbol: "diamond", size: 11, color: variable("--ink")}, hovertemplate: "%{y}: epoch %{x:.4g} ms<extra></extra>"});
    return {traces, more: {barmode: "stack", xaxis: {title: {text: "ms"}, type: spread(own.map(run => run.epoch_ns)) > 50 ? "log" : "linear"}, yaxis: {autorange: "reversed", type: "category"}}};
  }, 140 + 40 * own.length, "Epoch breakdown");
  element.id = "epoch-plot";
}
const spread = values => Math.max(...values) / Math.max(1, Math.min(...values));
function memory() {
  if (!data.memory.length) return;
  const node = section("memory", "Memory", "Switch memory", "The same systems with more and less memory for aggregators, recirculation free. A vertex that finds no room costs another block, or goes unaggregated.");
  const systems = [...new Set(data.memory.map(row => row.system))];
  const sizes = [...new Set(data.memory.map(row => row.memory_bytes))].sort((a, b) => (a || Infinity) - (b || Infinity)).map(showMemory);
  const lines = (column, factor) => systems.map(name => {
    const rows = data.memory.filter(row => row.system === name), run = {system: name};
    return {type: "scatter", mode: "lines+markers", name, x: rows.map(row => showMemory(row.memory_bytes)), y: rows.map(row => row[column] * factor),
            line: {color: colourOf(run), dash: dashOf(run)}, marker: {size: 8, symbol: place.get(name) % 20}};
  });
  const shape = title => ({xaxis: {type: "category", categoryorder: "array", categoryarray: sizes, title: {text: "switch memory"}}, yaxis: {title: {text: title}, rangemode: "tozero"}});
  const [traffic] = plot(node, () => {
    const traces = lines("total_bytes", 1e-9);
    if (data.host_bytes) traces.push({type: "scatter", mode: "lines", name: "host-based", x: sizes, y: sizes.map(() => data.host_bytes / 1e9), line: {color: variable("--ink"), dash: "dot"}});
    return {traces, more: shape("traffic (GB)")};
  }, 330, "Traffic against switch memory");
  traffic.id = "memory-plot";
  plot(node, () => ({traces: lines("epoch_time_ns", 1e-6), more: shape("epoch (ms)")}), 300, "Epoch time against switch memory");
}
function published() {
  const node = section("paper", "Paper", "Beside the paper", "Figures of the SwitchGNN paper (USENIX ATC 2025), and this run's where the setting is the same.");
  const columns = [
    ["Claim", row => [row.text, make("small", {text: row.place})]],
    ["Paper", row => row.paper, true],
    ["Here", row => row.ours, true],
    ["Setting", row => row.note],
  ];
  const beside = data.published.filter(row => row.ours !== "-"), apart = data.published.filter(row => row.ours === "-");
  if (beside.length) node.append(table(columns, beside));
  else node.append(make("p", {text: "This run has none to set beside them: its graph, workers or network are others."}));
  if (apart.length) node.append(make("details", {}, make("summary", {text: `${apart.length} figures that are not comparable, and why`}), table(columns, apart)));
}
function rerun() {
  const node = section("rerun", "Run again", "Run it again", "The same scenario, seed and versions give byte-identical records.", "long");
  node.append(make("pre", {text: data.commands.join("\n")}));
  if (data.scenario) node.append(make("details", {}, make("summary", {text: "scenario.toml, every parameter as it was used"}), make("pre", {text: data.scenario})));
}

// --- sections of a sweep ------------------------------------------------------------------------------------
function interval(name) {
  return row => {
    const [low, high] = [row[`${name}_low`], row[`${name}_high`]];
    return low === null || low === undefined ? byUnit(name, row[name]) : [byUnit(name, row[name]), make("small", {text: `${byUnit(name, low)} to ${byUnit(name, high)}`})];
  };
}
function sweepChart() {
  const node = section("chart", "Chart", "Chart", "Means over seeds; whiskers are 95 % bootstrap intervals. Lines join runs that differ in nothing else.");
  const [xLabel, x] = select("Across", data.keys.map(name => [name, name]), data.keys[0]);
  const [yLabel, y] = select("Up", data.metrics.map(name => [name, name]), data.metrics[0]);
  node.append(make("div", {class: "controls"}, xLabel, yLabel));
  const [element, draw] = plot(node, () => {
    const groups = new Map(), value = row => byUnit(x.value, row[x.value]);
    for (const row of data.rows) {
      const key = data.columns.filter(name => name !== x.value).filter(name => row[name] !== "").map(name => `${name === "system" ? "" : `${name} `}${byUnit(name, row[name])}`).join(", ");
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
    const order = [...new Set(data.rows.map(row => row[x.value]))].sort((a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    const inMs = y.value.endsWith("_ns"), factor = inMs ? 1e-6 : 1, title = inMs ? `${y.value.slice(0, -3).replaceAll("_", " ")} (ms)` : y.value.replaceAll("_", " ");
    const at = (row, end) => (row[`${y.value}${end}`] ?? row[y.value]) * factor;
    const traces = [...groups].map(([name, rows], index) => {
      rows = [...rows].sort((a, b) => order.indexOf(a[x.value]) - order.indexOf(b[x.value]));
      const known = rows.some(row => row[`${y.value}_low`] !== null);
      return {type: "scatter", mode: "lines+markers", name, x: rows.map(value), y: rows.map(row => at(row, "")),
              error_y: {type: "data", symmetric: false, visible: known, array: rows.map(row => at(row, "_high") - at(row, "")), arrayminus: rows.map(row => at(row, "") - at(row, "_low"))},
              line: {color: colours()[index % colours().length], dash: DASHES[index % DASHES.length]}, marker: {size: 8, symbol: index % 20}};
    });
    return {traces, more: {xaxis: {type: "category", categoryorder: "array", categoryarray: order.map(one => byUnit(x.value, one)), title: {text: x.value}}, yaxis: {title: {text: title}, rangemode: "tozero", exponentformat: "SI"}}};
  }, 460, "Metric against a key");
  element.id = "sweep-plot";
  for (const control of [x, y]) control.addEventListener("change", draw);
}
function sweepTable() {
  const node = section("table", "Settings", "All settings", "Mean and 95 % interval over seeds.", "long");
  node.append(table([...data.columns.map(name => [name, row => byUnit(name, row[name])]), ["runs", row => String(row.runs), true], ...data.metrics.map(name => [name, interval(name), true])], data.rows));
  if (data.rows_left_out) node.append(make("p", {class: "note", text: `and ${data.rows_left_out} more`}));
}

// --- all of it ----------------------------------------------------------------------------------------------
document.getElementById("title").textContent = data.title;
document.getElementById("provenance").textContent = data.provenance;
root.dataset.theme = theme();
const parts = data.kind === "sweep" ? [about, sweepChart, sweepTable, rerun] : [about, headline, backlog, heatMap, blocks, traffic, epochs, memory, published, rerun];
for (const part of parts) part();
applyTheme();
document.getElementById("theme").addEventListener("click", () => { chosenTheme = theme() === "dark" ? "light" : "dark"; applyTheme(); });
system.addEventListener("change", applyTheme);
window.addEventListener("beforeprint", () => { printing = true; applyTheme(); });
window.addEventListener("afterprint", () => { printing = false; applyTheme(); });
root.dataset.ready = "yes";
})();
