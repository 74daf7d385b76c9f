
"use strict";
const $ = (id) => document.getElementById(id);
const looks = []; // one look a second, the last minute
let latest = null;

const make = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
};
const count = (n) => n >= 1e9 ? (n / 1e9).toFixed(1) + " G" : n >= 1e6 ? (n / 1e6).toFixed(1) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : String(Math.round(n));
const percent = (x) => x == null ? "–" : (100 * x).toFixed(x < 0.0995 && x > 0 ? 1 : 0) + " %";
const seconds = (s) => s == null ? "–" : s < 0.001 ? (s * 1e6).toFixed(0) + " µs" : s < 1 ? (s * 1e3).toFixed(s < 0.01 ? 1 : 0) + " ms" : s.toFixed(s < 10 ? 2 : 1) + " s";
const span = (s) => s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h" : (s / 86400).toFixed(1) + " d";

// headers holds the token once the listener has asked for one; it lives as long as the tab.
function headers() {
  const t = sessionStorage.getItem("warmpath-token");
  return t ? { Authorization: "Bearer " + t } : {};
}

// since is what grew over the last minute, or since the start when there is no earlier look.
function since(now, old, key) {
  const before = old && old.served ? old.served[key] : 0;
  const v = (now.served ? now.served[key] : 0) - before;
  return v < 0 ? now.served[key] : v; // the router restarted
}

function meter(parts, text) {
  const m = make("div", "meter"), t = make("div", "track");
  for (const [cls, share] of parts) {
    const i = make("i", cls);
    i.style.width = Math.max(0, Math.min(100, 100 * share)) + "%";
    t.append(i);
  }
  m.append(t, make("span", "", text));
  return m;
}

function stateCell(e) {
  const td = make("td"), word = e.gone ? "removed" : e.draining ? "draining" : e.state;
  td.append(make("span", "chip " + word, word));
  if (e.draining && e.state !== "up") td.append(" ", make("span", "chip " + e.state, e.state));
  let why = e.detail || "";
  if (e.until_seconds != null) why += (why ? ", " : "") + "for " + span(e.until_seconds);
  else if (e.state === "up" && e.ramp > 0 && e.ramp < 1) why = "taken in at " + percent(e.ramp);
  if (why) td.append(make("div", "under", why));
  return td;
}

function row(e, scale) {
  const tr = make("tr", e.state === "up" && !e.gone ? "" : "off"), first = make("td");
  first.append(make("div", "name", e.name));
  const shown = e.models.slice(0, 3).join(", ") + (e.models.length > 3 ? " and " + (e.models.length - 3) + " more" : "");
  const about = [e.kind || "kind unknown", e.part, shown, e.weight !== 1 ? "weight " + e.weight : ""].filter(Boolean).join(" · ");
  const under = make("div", "under", about);
  under.title = [e.url, ...e.models].join("\n");
  first.append(under);
  if (e.role) first.firstChild.append(" ", make("span", "chip role", e.role));
  const cell = (x, cls) => { const td = make("td", cls); td.append(x); return td; };
  const work = e.load.prefill_tokens + e.load.decode_tokens;
  const load = meter([["prefill", e.load.prefill_tokens / scale.work], ["decode", e.load.decode_tokens / scale.work]], count(work));
  load.title = count(e.load.prefill_tokens) + " prompt tokens to compute, " + count(e.load.decode_tokens) + " answer tokens expected" +
    (e.load.transfer_requests ? ", " + count(e.load.transfer_tokens) + " tokens of KV cache on their way for " + e.load.transfer_requests + " requests" : "");
  const waits = [[e.load.queued_requests, "here"], [e.engine.waiting, "there"]].filter((w) => w[0]).map((w) => w.join(" ")).join(", ");
  const queue = make("td", "num", e.load.requests + (waits ? " (queued: " + waits + ")" : ""));
  queue.title = e.load.requests + " requests" + (e.load.queued_requests ? ", of which " + e.load.queued_requests + " wait in the router's queue" : "") +
    (e.engine.waiting ? ", and the engine says that " + e.engine.waiting + " wait there" : "");
  const share = scale.done > 0 ? e.recent / scale.done : null;
  const s = e.served || {};
  tr.append(first, stateCell(e), cell(load),
    queue, cell(meter([["share", share || 0]], percent(share))), cell(meter([["hit", e.hit || 0]], percent(e.hit))),
    cell(seconds(s.ttft_p50_seconds), "num"), cell(percent(e.engine.kv_usage), "num"),
    cell(count(s.requests || e.requests || 0), "num"), cell(count(Math.max(e.failures, s.failed || 0)), "num"));
  return tr;
}

function total(name, value, title) {
  const d = make("div", "total");
  d.append(make("b", "", value), make("span", "quiet", name));
  if (title) d.title = title;
  return d;
}

// configuration says which configuration runs, since when, and what became of a newer one.
function configuration(c) {
  if (!c) return [];
  const told = ["config " + c.hash + " since " + new Date(c.since).toLocaleString()];
  if (c.restart) told.push("restart needed for: " + c.restart.join(", "));
  if (c.fault) told.push("reload rejected " + new Date(c.fault_at).toLocaleString() + ": " + c.fault);
  return told;
}

function show() {
  const data = latest, old = looks.length > 1 ? looks[0] : null;
  const before = new Map((old ? old.endpoints : []).map((e) => [e.name, e]));
  let done = 0, largest = 1, outstanding = 0, up = 0;
  for (const e of data.endpoints) {
    const was = before.get(e.name);
    e.recent = since(e, was, "work_tokens");
    const prompt = since(e, was, "prompt_tokens"), cached = since(e, was, "cached_tokens");
    e.hit = prompt > 0 ? cached / prompt : e.served ? e.served.hit_rate : null;
    done += e.recent;
    largest = Math.max(largest, e.load.prefill_tokens + e.load.decode_tokens);
    outstanding += e.load.requests;
    if (e.state === "up" && !e.draining && !e.gone) up++;
  }
  const st = data.stats, served = st.served || {};
  const over = old ? (data.at - old.at) / 1000 : 0;
  const rate = old && over > 0 ? since(st, old.stats, "requests") / over : null;
  const prompt = since(st, old && old.stats, "prompt_tokens"), cached = since(st, old && old.stats, "cached_tokens");
  $("ready").textContent = st.ready ? "ready" : "not ready";
  $("ready").className = "chip " + (st.ready ? "up" : "down");
  $("about").textContent = [st.version, "up " + span(st.uptime_seconds), ...configuration(st.config), st.why].filter(Boolean).join(" · ");
  $("totals").replaceChildren(
    total("usable", up + " / " + data.endpoints.length),
    total("requests / s", rate == null ? "–" : rate.toFixed(rate < 10 ? 1 : 0), "over the last minute"),
    total("running", count(outstanding)),
    total("token hit rate", percent(prompt > 0 ? cached / prompt : served.hit_rate), "prompt tokens found in engines' caches, over the last minute"),
    total("TTFT p50", seconds(served.ttft_p50_seconds), "the newest 256 answers"),
    total("TTFT p90", seconds(served.ttft_p90_seconds), "the newest 256 answers"),
    total("conversations", count(st.sessions)),
    total("served", count(served.requests || st.decisions)),
    total("failed", count(served.failed || 0)));
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const match = (e) => { const t = [e.name, e.kind, e.role, e.state, e.draining ? "draining" : "", ...e.models].join(" ").toLowerCase(); return words.every((w) => t.includes(w)); };
  const found = data.endpoints.filter(match), limit = 500;
  $("rows").replaceChildren(...found.slice(0, limit).map((e) => row(e, { work: largest, done })));
  $("shown").textContent = found.length > limit ? "the first " + limit + " of " + found.length : words.length ? found.length + " of " + data.endpoints.length : "";
  $("share-head").textContent = old ? "Work share, last " + span(over) : "Work share";
  $("none").hidden = found.length > 0;
  $("none").textContent = data.endpoints.length ? "No endpoint matches." : "No endpoint is declared yet.";
  $("main").hidden = false;
  $("links").hidden = "Authorization" in headers(); // a link cannot carry the token
}

async function poll() {
  let pause = 1000;
  try {
    const r = await fetch("/admin/endpoints", { headers: headers(), signal: AbortSignal.timeout(5000) });
    if (r.status === 401) {
      $("wrong").textContent = sessionStorage.getItem("warmpath-token") ? "That was not it." : "";
      sessionStorage.removeItem("warmpath-token");
      $("login").hidden = false;
      $("main").hidden = $("links").hidden = true;
      $("ready").textContent = "locked";
      $("token").focus();
      return; // the form starts polling again
    }
    if (!r.ok) throw new Error(r.status);
    latest = await r.json();
    latest.at = Date.now();
    looks.push(latest);
    if (looks.length > 60) looks.shift();
    document.body.classList.remove("stale");
    if (!document.hidden) show();
  } catch (e) {
    document.body.classList.add("stale");
    $("ready").textContent = "no answer";
    $("ready").className = "chip down";
    pause = 2000;
  }
  setTimeout(poll, pause);
}

$("login").addEventListener("submit", (ev) => {
  ev.preventDefault();
  sessionStorage.setItem("warmpath-token", $("token").value);
  $("token").value = "";
  $("login").hidden = true;
  poll();
});
$("filter").addEventListener("input", () => latest && show());
poll();
