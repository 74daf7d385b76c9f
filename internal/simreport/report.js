// The charts of the report, drawn from the figures in #charts.
const charts = JSON.parse(document.getElementById("charts").textContent);
const ink = "#444", line = "#e4e4e4", font = "12px system-ui, sans-serif";
const mark = { stroke: line, width: 1 };
const axis = (label, more) => ({ label, labelFont: font, labelSize: 20, stroke: ink, font, grid: mark, ticks: mark, ...more });
const whole = (x) => Math.round(x).toLocaleString("en");
const plain = (u, at) => at.map((v) => v == null ? "" : String(+v.toPrecision(6)));
const decades = (u, i, low, high) => { // 1, 2 and 5 times the powers of ten
  const at = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) at.push(...[1, 2, 5].map((s) => s * 10 ** e));
  return at.filter((v) => v >= low && v <= high);
};
const plots = [];
const widthOf = (box) => Math.max(300, box.clientWidth);

// plot draws into a box, as wide as that is.
function plot(box, what, height, options, data) {
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", what);
  const u = new uPlot({ width: widthOf(box), height, ...options }, data, box);
  plots.push({ u, box, height });
}

// lines draws a share for each policy; the legend has the values under the pointer, and a click on a name hides its line.
function lines(id, what, x, unit, y, key) {
  plot(document.getElementById(id), what, 300, {
    padding: [10, 20, 0, 0],
    legend: { markers: { width: 3, dash: (u, i) => i && charts.runs[i - 1].dash.length ? "dashed" : "solid" } },
    scales: { x: { time: false, ...x.scale }, y: { range: [0, 100] } },
    axes: [axis(x.label, { space: 60, size: 36, values: plain, ...x.axis }), axis(y, { size: 50 })],
    series: [
      { label: x.name, value: (u, v) => v == null ? "–" : x.show(v) + " " + unit },
      ...charts.runs.map((r) => ({
        label: r.name, stroke: r.colour, dash: r.dash, width: 2, spanGaps: true, points: { show: r[key].filter((v) => v != null).length < 3 },
        value: (u, v) => v == null ? "–" : v.toFixed(1) + " %",
      })),
    ],
  }, [x.at, ...charts.runs.map((r) => r[key])]);
}

const ttft = charts.ttft_ms;
lines("ttft", "share of turns by time to first token", {
  name: "time to first token", label: "time to first token, ms", at: ttft, show: (v) => v < 10 ? v.toFixed(1) : whole(v),
  scale: { distr: 3, range: [ttft[0], ttft[ttft.length - 1]] }, axis: { splits: decades, filter: (u, at) => at },
}, "ms", "turns within, %", "within");
lines("hits", "share of prompt tokens found in a cache over time", {
  name: "time", label: "time, s", at: charts.time_s, show: whole, scale: { range: [0, charts.until_s] },
}, "s", "prompt tokens found, %", "hits");

// work draws the tokens of each endpoint over time, the darker the more: one measure for all policies.
const rows = charts.endpoints.length, step = charts.until_s / charts.time_s.length;
const rowHeight = Math.max(2, Math.min(16, Math.floor(8000 / rows))), named = Math.max(1, Math.ceil(14 / rowHeight));
const short = (name) => name.length > 14 ? name.slice(0, 6) + "…" + name.slice(-7) : name;
const shades = [[239, 8], [245, 48], [251, 107]]; // red, green and blue of the lightest and the darkest
const shade = (share) => `rgb(${shades.map(([from, to]) => Math.round(from + share * (to - from))).join()})`;

function work(run, box) {
  const told = document.createElement("p");
  const rest = `The darker, the more; the darkest is ${whole(charts.most_tokens)} tokens in ${+step.toPrecision(3)} s, under any policy.`;
  told.textContent = rest;
  const at = (u) => {
    const { left, top } = u.cursor, e = Math.floor(u.posToVal(top, "y")), b = Math.floor(u.posToVal(left, "x") / step);
    const tokens = left >= 0 ? run.work[e]?.[b] : undefined;
    told.textContent = tokens === undefined ? rest
      : `${charts.endpoints[e]}, ${+(b * step).toPrecision(4)} to ${+((b + 1) * step).toPrecision(4)} s: ${whole(tokens)} tokens`;
  };
  const draw = (u) => {
    const x = (v) => u.valToPos(v, "x", true), y = (v) => u.valToPos(v, "y", true), gap = rowHeight > 4 ? 1 : 0;
    run.work.forEach((row, e) => row.forEach((tokens, b) => {
      if (!(tokens > 0)) return;
      u.ctx.fillStyle = shade(Math.min(1, tokens / charts.most_tokens));
      u.ctx.fillRect(x(b * step), y(e), x((b + 1) * step) - x(b * step) + 0.5, y(e + 1) - y(e) - gap);
    }));
  };
  plot(box, "tokens computed over time by endpoint, " + run.name, rows * rowHeight + 70, {
    padding: [10, 20, 0, 0], legend: { show: false }, cursor: { points: { show: false }, drag: { x: false } },
    scales: { x: { time: false, range: [0, charts.until_s] }, y: { dir: -1, range: [0, rows] } },
    axes: [
      axis("time, s", { space: 60, size: 36, values: plain, grid: { show: false } }),
      axis("", {
        labelSize: 0, size: 110, grid: { show: false }, ticks: { show: false },
        splits: () => charts.endpoints.flatMap((_, e) => e % named ? [] : [e + 0.5]),
        values: (u, all) => all.map((v) => short(charts.endpoints[Math.floor(v)])),
      }),
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [draw], setCursor: [at] },
  }, [charts.time_s, run.work[0]]);
  box.append(told);
}
document.querySelectorAll(".work").forEach((box, i) => work(charts.runs[i], box));

addEventListener("resize", () => { for (const p of plots) p.u.setSize({ width: widthOf(p.box), height: p.height }); });
