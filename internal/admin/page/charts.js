// TTFT, hit rate, balance and rate over the last hour, beside what another policy would have come to.
let past = [], beside = "", charted = "";
const charts = [];
const shown = (at) => { const end = at[at.length - 1] ?? Date.now() / 1000; return [Math.min(at[0] ?? end, end - 60), end]; }; // at least a minute
const shadowOf = (p, key) => { const m = (p.policies || []).find((q) => q.policy === beside); return m ? m[key] : null; };
const actingOf = (p, key) => beside && p.policies ? p.policies[0][key] : null;

const plots = [
  { title: "Time to first token", unit: seconds, from: 0, series: [
    { name: "p50", colour: "--c1", of: (p) => p.ttft_p50_seconds },
    { name: "p90", colour: "--c2", of: (p) => p.ttft_p90_seconds },
    { name: () => "this policy, model's mean", colour: "--c1", dash: [2, 3], of: (p) => actingOf(p, "ttft_seconds"), model: true },
    { name: () => beside + ", model's mean", colour: "--c3", dash: [6, 4], of: (p) => shadowOf(p, "ttft_seconds"), model: true }] },
  { title: "Hit rate", unit: percent, from: 0, to: 1, series: [
    { name: "of prompt tokens", colour: "--c1", of: (p) => p.hit_rate },
    { name: () => "this policy, model", colour: "--c1", dash: [2, 3], of: (p) => actingOf(p, "hit_rate"), model: true },
    { name: () => beside + ", model", colour: "--c3", dash: [6, 4], of: (p) => shadowOf(p, "hit_rate"), model: true }] },
  { title: "Balance", unit: (x) => x == null ? "–" : x.toFixed(2) + " ×", from: 1, series: [
    { name: "busiest endpoint ÷ mean", colour: "--c1", of: (p) => p.balance }] },
  { title: "Requests a second", unit: (x) => x == null ? "–" : x >= 100 ? x.toFixed(0) : x.toFixed(1), from: 0, series: [
    { name: "all", colour: "--c1", of: (p) => p.requests / 10 },
    { name: "failed", colour: "--c4", of: (p) => p.failed / 10 }] },
];
const named = (s) => typeof s.name === "function" ? s.name() : s.name;

// draw makes all charts anew: colours, size or series have changed.
function draw() {
  for (const c of charts) c.plot.destroy();
  charts.length = 0;
  $("charts").replaceChildren(...plots.map((p) => {
    const box = make("figure", "card"), head = make("figcaption"), legend = make("div", "legend"), canvas = make("div", "canvas");
    const series = p.series.filter((s) => !s.model || beside), figures = [];
    head.append(make("h3", "", p.title));
    for (const s of series) {
      const item = make("span"), mark = make("i", s.dash ? "line dashed" : "line"), figure = make("b");
      mark.style.borderTopColor = colour(s.colour);
      item.append(mark, named(s) + " ", figure);
      legend.append(item);
      figures.push(figure);
    }
    canvas.setAttribute("role", "img");
    box.append(head, legend, canvas);
    charts.push({ of: p, series, canvas, figures });
    return box;
  }));
  const ink = colour("--quiet"), grid = colour("--line"), font = "12px system-ui, sans-serif";
  for (const c of charts) {
    const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    c.plot = new uPlot({
      width: Math.max(200, c.canvas.clientWidth), height: 150, legend: { show: false },
      cursor: { y: false, points: { size: 6 } }, padding: [10, 28, 0, 0],
      scales: { x: { time: true, range: (u) => shown(u.data[0]) }, y: { range: (u, low, high) => [c.of.from, c.of.to || Math.max(c.of.from + 1e-3, (high ?? c.of.from) * 1.1)] } },
      axes: [{ ...axis, space: 64, size: 36, values: (u, at) => at.map((t) => clock(1000 * t).slice(0, at.length > 1 && at[1] - at[0] < 60 ? 8 : 5)) }, { ...axis, size: 62, values: (u, at) => at.map(c.of.unit) }],
      series: [{}, ...c.series.map((s) => ({ stroke: colour(s.colour), width: 2, dash: s.dash, points: { show: past.length < 3, size: 5, filter: lone }, spanGaps: false }))],
      hooks: { setCursor: [(u) => figures(c, u.cursor.idx)] },
    }, data(c), c.canvas);
  }
  charted = past.length < 3 ? "few" : "many";
  charts.forEach((c) => figures(c, null));
}

// lone lists the samples without a neighbour, which a line does not show.
function lone(u, series, show) {
  const y = u.data[series];
  return show ? null : y.flatMap((v, i) => (v != null && y[i - 1] == null && y[i + 1] == null ? [i] : []));
}

const data = (c) => [past.map((p) => p.at), ...c.series.map((s) => past.map((p) => s.of(p) ?? null))];

// figures writes the values under the pointer into the legend, or the newest.
function figures(c, at) {
  const p = past[at ?? past.length - 1];
  c.series.forEach((s, i) => set(c.figures[i], p ? c.of.unit(s.of(p)) : ""));
  if (at == null) c.canvas.setAttribute("aria-label", c.of.title + " over the last hour, now: " + (p ? c.series.map((s) => named(s) + " " + c.of.unit(s.of(p))).join(", ") : "no traffic yet"));
}

function showHistory(h) {
  past = past.filter((p) => p.at < h.points[0].at).concat(h.points).slice(-360); // the clock may have been set back
  const last = past[past.length - 1], others = last && last.policies ? last.policies.slice(1).map((p) => p.policy) : [];
  if (others.length && !others.includes(beside)) {
    beside = others[0];
    $("beside").replaceChildren(...others.map((o) => new Option(o, o)));
    charted = "";
  }
  $("beside-label").hidden = !beside;
  if (beside) $("beside-none").hidden = true;
  if (!charts.length || charted !== (past.length < 3 ? "few" : "many")) return draw();
  for (const c of charts) {
    c.plot.setData(data(c));
    figures(c, null);
  }
}

$("beside").addEventListener("change", () => { beside = $("beside").value; draw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.length && draw());
new ResizeObserver(() => { for (const c of charts) c.plot.setSize({ width: Math.max(200, c.canvas.clientWidth), height: 150 }); }).observe($("charts"));
