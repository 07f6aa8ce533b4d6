// Charts of numbers over time. What they draw stands in their place as data; a table beside them has the same.
"use strict";
(() => {
  const drawn = new Map();
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A custom property may hold light-dark(); only a real element resolves it.
  const colour = name => { const probe = document.createElement("i"); probe.className = `ink-${name}`; document.body.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return found };
  const zone = document.documentElement.dataset.zone;
  const clock = s => new Date(s * 1000).toLocaleTimeString("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit" });
  const lengthOf = s => s === null ? "" : s < 1 ? `${Math.round(s * 1000)} ms` : s < 60 ? `${s.toFixed(s < 10 ? 1 : 0)} s` : s < 3600 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
  // Of a logarithmic axis: each of its labels is about as far from the next one, and few enough of them are shown.
  const LATENESS = [0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400];
  const kinds = {
    activity: data => ({ rows: [data.at, data.ended, data.failed.map(v => v || null)], series: [{ stroke: colour("line"), width: 1.5 }, { stroke: colour("failed"), fill: colour("failed"), width: 1, paths: uPlot.paths.bars({ size: [0.8, 4] }) }], value: v => String(+(v ?? 0).toFixed(2)), log: false }),
    lateness: data => ({ rows: [data.at, data.p50, data.p99].map((row, n) => n ? row.map(v => v === null ? null : Math.max(v, 0.006)) : row), series: [{ stroke: colour("line"), width: 1.5 }, { stroke: colour("line"), width: 1.2, dash: [3, 3] }], value: lengthOf, log: true }),
  };
  function draw(node) {
    drawn.get(node)?.destroy();
    const { rows, series, value, log } = kinds[node.dataset.chart](JSON.parse(node.dataset.series));
    const font = `11px ${style("--sans")}`, axis = { stroke: colour("faint"), font, ticks: { show: false }, grid: { stroke: colour("grid"), width: 1 } };
    node.replaceChildren();
    drawn.set(node, new uPlot({
      width: node.clientWidth, height: 132, legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false } },
      tzDate: s => uPlot.tzDate(new Date(s * 1000), zone),
      scales: { x: { time: true }, y: log ? { distr: 3, range: (u, min, max) => [0.005, Math.max((max ?? 1) * 1.5, 1.5)] } : { range: (u, min, max) => [0, max || 1] } },
      series: [{}, ...series.map(each => ({ ...each, points: { show: log && each.width > 1.2, size: 3 }, spanGaps: log }))],
      axes: [{ ...axis, space: 90, size: 28, values: (u, at) => at.map(clock), grid: { show: false } }, { ...axis, size: 48, ...(log ? { splits: (u, n, min, max) => LATENESS.filter(v => v >= min && v <= max), filter: (u, splits) => splits } : {}), values: (u, at) => at.map(v => v === null ? "" : value(v)) }],
      hooks: { setCursor: [u => { const n = u.cursor.idx; node.title = n == null ? "" : `${clock(u.data[0][n])}: ${u.data.slice(1).map(row => value(row[n])).join(", ")}` }] },
    }, rows, node));
  }
  const all = node => [...(node ?? document).querySelectorAll("[data-chart]")];
  const redraw = node => { for (const each of all(node)) draw(each) };
  redraw();
  document.addEventListener("evertick:theme", () => redraw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  document.addEventListener("evertick:filled", event => redraw(event.detail));
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw() } });
})();
