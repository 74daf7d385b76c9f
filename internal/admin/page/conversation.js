// A conversation's way through the fleet: a lane for each endpoint, a dot for each turn, and the same as a table.
let following = "", turns = [], chosen = false;

// follow shows one conversation and goes on showing it: first what the page has of it, then what the router keeps.
async function follow(id, silent) {
  following = id;
  if ($("conversation").value !== id) $("conversation").value = id;
  turns = id ? decisions.filter((d) => d.conversation === id).reverse() : [];
  showWay();
  if (!id) return;
  try {
    const r = await fetch("/admin/decisions?last=200&conversation=" + encodeURIComponent(id), { headers: headers(), signal: AbortSignal.timeout(5000) });
    const kept = r.ok ? (await r.json()).decisions.reverse() : turns;
    if (following !== id) return; // another one has been chosen
    turns = kept;
    showWay();
  } catch (e) {
    if (!silent) say("The router does not answer: " + e.message, true);
  }
}

// travel adds new decisions, and begins with a conversation that has come back where none was chosen.
function travel(newest) {
  const ids = [...new Set(decisions.map((d) => d.conversation).filter(Boolean))].slice(0, 20);
  $("way").hidden = !ids.length && !following;
  $("recent").replaceChildren(...ids.map((id) => new Option(id, id)));
  if (!following && !chosen) {
    const back = newest.find((d) => d.conversation && !d.first_turn);
    if (back) { chosen = true; follow(back.conversation, true); }
    return;
  }
  const mine = newest.filter((d) => d.conversation === following && !turns.some((t) => t.number === d.number));
  if (mine.length) {
    turns = turns.concat(mine.reverse()).slice(-200);
    showWay();
  }
}

const cachedShare = (d) => { const p = d.observed.prompt_tokens || d.predicted.prompt_tokens; return p ? (d.observed.cached_tokens ?? d.predicted.cached_tokens) / p : null; };

function showWay() {
  const names = [...new Set(turns.map((d) => d.endpoint || "none"))], moves = turns.filter((d, i) => i && d.endpoint !== turns[i - 1].endpoint).length;
  set($("travelled"), !following ? "" : turns.length ? turns.length + (turns.length === 1 ? " turn" : " turns") + " among the decisions kept, " + moves + (moves === 1 ? " move" : " moves") : "No decision of this conversation is kept.");
  $("lanes").hidden = !turns.length;
  $("lanes").replaceChildren(...(turns.length ? [lanes(names)] : []));
  $("turns").replaceChildren(...turns.map((d, i) => {
    const tr = make("tr"), n = make("th", "", String(i + 1)), where = make("td", "", brief(d.endpoint || "none", 24)), m = meter("hit"), cached = make("td"), reason = make("td");
    n.scope = "row";
    where.title = d.endpoint || "";
    if (i && d.endpoint !== turns[i - 1].endpoint) where.append(" ", make("span", "chip busy", "moved"));
    if (d.leg) where.append(" ", make("span", "chip", d.leg));
    reason.append(make("span", "chip", d.reason.replaceAll("_", " ")));
    m.update([cachedShare(d)], percent(cachedShare(d)), d.observed.cached_tokens == null ? "predicted" : "found by the engine");
    cached.append(m.box);
    tr.append(n, make("td", "", clock(d.at)), where, reason,
      make("td", "num", tokens(d.observed.prompt_tokens ?? (d.predicted.prompt_tokens || null))), cached, make("td", "num", millis(d.observed.ttft_ms)), make("td", "reason", d.why));
    return tr;
  }));
}

function lanes(names) {
  const ns = "http://www.w3.org/2000/svg", step = Math.max(22, Math.min(64, 900 / turns.length)), left = 190, high = 30;
  const el = (tag, attrs, text) => { const e = document.createElementNS(ns, tag); for (const k in attrs) e.setAttribute(k, attrs[k]); if (text !== undefined) e.textContent = text; return e; };
  const width = left + step * turns.length + 10, height = high * names.length + 8;
  const svg = el("svg", { width, height, viewBox: "0 0 " + width + " " + height, role: "img" });
  svg.setAttribute("aria-label", "Way of the conversation: " + turns.map((d, i) => "turn " + (i + 1) + " at " + (d.endpoint || "none")).slice(-20).join(", "));
  const x = (i) => left + step * (i + 0.5), y = (d) => high * (names.indexOf(d.endpoint || "none") + 0.5) + 4;
  names.forEach((n, i) => {
    const at = high * (i + 0.5) + 4;
    svg.append(el("line", { x1: left, x2: width, y1: at, y2: at, class: "lane" }), el("text", { x: 12, y: at + 4 }, brief(n, 24)));
  });
  svg.append(el("polyline", { points: turns.map((d, i) => x(i) + "," + y(d)).join(" "), class: "path" }));
  turns.forEach((d, i) => {
    const s = cachedShare(d), dot = el("circle", { cx: x(i), cy: y(d), r: 7, class: "dot" }), fill = el("circle", { cx: x(i), cy: y(d), r: 7 * Math.sqrt(s || 0), class: "warm" });
    fill.append(el("title", {}, "turn " + (i + 1) + " at " + (d.endpoint || "none") + ": " + percent(s) + " cached, first token after " + millis(d.observed.ttft_ms)));
    svg.append(dot, fill);
  });
  return svg;
}

$("conversation").addEventListener("change", () => follow($("conversation").value.trim()));
