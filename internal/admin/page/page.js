"use strict";
// What all parts of the page use: elements, numbers in words, the token, calls.
const $ = (id) => document.getElementById(id);
const make = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
};
// set writes only what differs, so that a fleet of hundreds costs little.
const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const grouped = new Intl.NumberFormat("en"); // kept, since making one is slow
const count = (n) => n == null ? "–" : n >= 1e9 ? (n / 1e9).toFixed(1) + " G" : n >= 1e6 ? (n / 1e6).toFixed(1) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : grouped.format(Math.round(n));
const percent = (x) => x == null ? "–" : (100 * x).toFixed(x < 0.0995 && x > 0 ? 1 : 0) + " %";
const seconds = (s) => s == null ? "–" : s === 0 ? "0" : s < 0.001 ? (s * 1e6).toFixed(0) + " µs" : s < 1 ? (s * 1e3).toFixed(s < 0.01 ? 1 : 0) + " ms" : s.toFixed(s < 10 ? 2 : 1) + " s";
const span = (s) => s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h" : (s / 86400).toFixed(1) + " d";
const millis = (x) => x == null ? "–" : x === 0 ? "0" : x >= 1e3 ? (x / 1000).toFixed(x >= 1e4 ? 1 : 2) + " s" : x.toFixed(x < 10 ? 1 : 0) + " ms";
const tokens = (n) => n == null ? "–" : grouped.format(n);
// brief is a name of an endpoint where there is little room: without the domain that all have in common, and without its
// middle if it is still long, since names of pods differ at their ends.
let domain = "";
function learnDomain(names) {
  domain = "";
  for (let i = 1; i + 1 < (names[0] || "").length && names.length > 1 && !domain; i++) {
    const rest = names[0].slice(i);
    if (/^\.[a-z]/i.test(rest) && names.every((n) => n.length > rest.length && n.endsWith(rest))) domain = rest;
  }
}
function brief(name, room) {
  const s = domain && name.length > room && name.endsWith(domain) ? name.slice(0, -domain.length) : name, end = room >> 1;
  return s.length <= room ? s : s.slice(0, room - 1 - end) + "…" + s.slice(-end);
}
const clock = (t) => new Date(t).toTimeString().slice(0, 8);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// headers holds the token once the listener has asked for one; it lives as long as the tab.
function headers() {
  const t = sessionStorage.getItem("warmpath-token");
  return t ? { Authorization: "Bearer " + t } : {};
}

let saying = 0;
function say(text, wrong) {
  const s = $("said");
  s.textContent = text;
  s.className = "toast shown" + (wrong ? " wrong" : "");
  clearTimeout(saying);
  saying = setTimeout(() => { s.className = "toast"; }, 6000);
}

// command posts a call of the admin API and says what came of it.
async function command(path, done) {
  try {
    const r = await fetch(path, { method: "POST", headers: headers(), signal: AbortSignal.timeout(10000) });
    const body = await r.json();
    if (r.ok) say(done);
    else say(body.error ? body.error.message : "refused with status " + r.status, true);
  } catch (e) {
    say("The router does not answer: " + e.message, true);
  }
}

// confirmed asks before something that changes traffic.
function confirmed(title, text, yes) {
  $("ask-title").textContent = title;
  $("ask-text").textContent = text;
  $("ask-yes").textContent = yes;
  const d = $("ask");
  d.returnValue = "";
  d.showModal();
  return new Promise((done) => d.addEventListener("close", () => done(d.returnValue === "yes"), { once: true }));
}

// meter is a bar with its figure; update takes the shares of its parts, 0 to 1, and the words.
function meter(...parts) {
  const box = make("div", "meter"), track = make("div", "track"), figure = make("span"), bars = parts.map((p) => make("i", p));
  track.append(...bars);
  box.append(track, figure);
  const last = bars.map(() => -1);
  return {
    box,
    update(shares, text, title) {
      shares.forEach((s, i) => {
        const w = Math.round(1000 * Math.max(0, Math.min(1, s || 0))) / 10;
        if (w !== last[i]) { bars[i].style.width = w + "%"; last[i] = w; }
      });
      set(figure, text);
      if (title !== undefined && box.title !== title) box.title = title;
    },
  };
}
