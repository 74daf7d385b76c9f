// The fleet at a glance: totals, what is wrong, a row for each endpoint, the other routers.
const fleet = new Map(); // name -> the endpoint as it was told last
const rows = new Map(); // name -> its row on the page
const looks = new Map(); // name, "" for all -> [{at, ...counts}] of the last minute, one in five seconds
let order = [], waitingTurns = [], stats = null, seenAt = 0, sortBy = "", sortDown = true;

const columns = [
  { key: "name", head: "Endpoint", value: (e) => e.name },
  { key: "state", head: "State", value: (e) => stateWord(e) },
  { key: "load", head: "Tokens to do", title: "prompt tokens to compute and answer tokens expected, of the requests now there", cls: "wide", value: (e) => e.load.prefill_tokens + e.load.decode_tokens },
  { key: "requests", head: "Running", title: "requests there now, those in a queue included", cls: "num", value: (e) => e.load.requests },
  { key: "share", head: "Work share", title: "share of the fleet's computed tokens in the last minute", cls: "wide", value: (e) => over(e, "work_tokens") },
  { key: "hit", head: "Hit rate", title: "share of prompt tokens found in its cache in the last minute", cls: "wide", value: (e) => hitRate(e.name, e.served) ?? -1 },
  { key: "warmth", head: "Warmth", cls: "wide", title: "share of the engine's cache that is believed to hold prompts of earlier requests", value: (e) => e.cache_filled || 0 },
  { key: "set", head: "Sessions", cls: "wide", title: "what the sessions under way need of its cache (admission); empty where nothing is held for it", value: (e) => needed(e) ?? 0 },
  { key: "speed", head: "Tokens/s", cls: "num", title: "learnt: prompt tokens computed in a second", value: (e) => e.prefill_tokens_per_second || 0 },
  { key: "ttft", head: "TTFT p50", cls: "num", value: (e) => e.served?.ttft_p50_seconds ?? -1 },
  { key: "served", head: "Served", cls: "num", value: (e) => e.served?.requests || 0 },
  { key: "failed", head: "Failed", cls: "num", value: (e) => failures(e) },
];

const waits = (e) => e.sleep === "asleep" || e.sleep === "paused"; // until somebody wakes or resumes it
const stateWord = (e) => e.gone ? "removed" : e.draining ? "draining" : waits(e) ? e.sleep : e.state;
const needed = (e) => e.working_room ? (e.working_set || 0) / e.working_room : null; // of its cache, by sessions under way
const failures = (e) => Math.max(e.failures, e.served?.failed || 0);

// note remembers counts, to show what the last minute brought.
function note(name, served, at) {
  if (!served) return;
  let past = looks.get(name);
  if (!past) looks.set(name, past = []);
  const last = past[past.length - 1];
  if (last && (last.requests > served.requests || last.at > at)) past.length = 0; // it restarted, or its clock was set back
  if (!past.length || at - last.at >= 5000) past.push({ at, ...served });
  while (past.length > 2 && at - past[0].at > 65000) past.shift();
}

// grew is what a count grew by over the last minute, or from the start where the page has just been opened.
function grew(name, served, key) {
  const past = looks.get(name);
  return (served?.[key] || 0) - (past && past.length > 1 ? past[0][key] || 0 : 0);
}
const over = (e, key) => grew(e.name, e.served, key);
function hitRate(name, served) {
  const prompt = grew(name, served, "prompt_tokens");
  return prompt > 0 ? grew(name, served, "cached_tokens") / prompt : served?.hit_rate ?? null;
}

function heads() {
  $("heads").replaceChildren(...columns.map((c) => {
    const th = make("th", "of-" + c.key + " " + (c.cls || "")), b = make("button", "sort", c.head);
    th.scope = "col";
    b.type = "button";
    if (c.title) b.title = c.title;
    if (sortBy === c.key) th.setAttribute("aria-sort", sortDown ? "descending" : "ascending");
    b.addEventListener("click", () => {
      if (sortBy === c.key && !sortDown) sortBy = ""; // the third press brings the declared order back
      else if (sortBy === c.key) sortDown = false;
      else { sortBy = c.key; sortDown = c.key !== "name" && c.key !== "state"; }
      const at = [...$("heads").children].indexOf(th);
      heads();
      showFleet();
      $("heads").children[at].firstChild.focus();
    });
    th.append(b);
    return th;
  }));
  const last = make("th", "num");
  last.scope = "col";
  last.append(make("span", "hidden", "Actions"));
  $("heads").append(last);
}

// newRow makes a row once; update writes what has changed into it.
function newRow(name) {
  const tr = make("tr"), cells = columns.map((c) => make(c.key === "name" ? "th" : "td", "of-" + c.key + (c.cls && c.cls !== "wide" ? " " + c.cls : "")));
  cells[0].scope = "row";
  const title = make("div", "name"), about = make("div", "under"), chip = make("span", "chip"), why = make("div", "under");
  cells[0].append(title, about);
  cells[1].append(chip, why);
  const load = meter("prefill", "decode"), share = meter("share"), hit = meter("hit"), warm = meter("warm"), needs = meter("warm");
  const now = make("div"), queued = make("div", "under");
  queued.title = "the engine's queue is as it reports";
  cells[2].append(load.box);
  cells[3].append(now, queued);
  cells[4].append(share.box);
  cells[5].append(hit.box);
  cells[6].append(warm.box);
  cells[7].append(needs.box);
  const act = make("td", "num"), button = make("button", "small");
  button.type = "button";
  act.append(button);
  button.addEventListener("click", () => drain(fleet.get(name)));
  tr.append(...cells, act);
  const update = (e, scale) => {
    const cls = e.state === "up" && !e.gone ? "" : "off", word = stateWord(e);
    if (tr.className !== cls) tr.className = cls;
    set(title, brief(e.name, 48) + (e.role ? " (" + e.role + ")" : ""));
    if (title.title !== e.name) title.title = e.name;
    const models = e.models.slice(0, 3).join(", ") + (e.models.length > 3 ? " and " + (e.models.length - 3) + " more" : "");
    set(about, [e.kind || "kind unknown", e.part, models, e.weight !== 1 ? "weight " + e.weight : ""].filter(Boolean).join(" · "));
    about.title = [e.url, ...e.models].join("\n");
    if (chip.className !== "chip " + word) chip.className = "chip " + word;
    set(chip, word + (e.draining && e.state !== "up" ? ", " + e.state : ""));
    let told = e.detail || "";
    if (e.until_seconds != null) told += (told ? ", " : "") + "for " + span(e.until_seconds);
    else if (e.state === "up" && e.ramp > 0 && e.ramp < 1) told = "taken in at " + percent(e.ramp);
    else if (!told && e.sleep) told = e.sleep;
    set(why, told);
    const work = e.load.prefill_tokens + e.load.decode_tokens;
    load.update([e.load.prefill_tokens / scale.work, e.load.decode_tokens / scale.work], count(work),
      count(e.load.prefill_tokens) + " prompt tokens to compute, " + count(e.load.decode_tokens) + " answer tokens expected" +
      (e.load.transfer_requests ? ", " + count(e.load.transfer_tokens) + " tokens of KV cache on their way for " + e.load.transfer_requests + " requests" : ""));
    set(now, String(e.load.requests));
    set(queued, [[e.load.queued_requests, "at router"], [e.engine.waiting, "at engine"]].filter((w) => w[0]).map((w) => w.join(" ").replaceAll(" ", "\u00a0")).join(", "));
    const part = scale.done > 0 ? over(e, "work_tokens") / scale.done : null, found = hitRate(e.name, e.served);
    share.update([part], percent(part));
    hit.update([found], percent(found));
    warm.update([e.cache_filled], percent(e.cache_filled || 0), (e.assumed_cache_tokens ? "of about " + count(e.assumed_cache_tokens) + " tokens" : "size not known yet") +
      (e.engine.kv_usage == null ? "" : "; running requests use " + percent(e.engine.kv_usage) + " of the KV cache"));
    needs.box.hidden = !e.working_room;
    needs.update([needed(e)], percent(needed(e)), count(e.working_set || 0) + " of " + count(e.working_room) + " tokens");
    set(cells[8], e.prefill_tokens_per_second ? count(e.prefill_tokens_per_second) : "–");
    set(cells[9], seconds(e.served?.ttft_p50_seconds));
    set(cells[10], count(e.served?.requests || e.requests || 0));
    set(cells[11], count(failures(e)));
    button.hidden = e.gone;
    set(button, e.draining ? "Undrain" : "Drain");
    const label = (e.draining ? "Undrain " : "Drain ") + e.name;
    if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
  };
  return { tr, update };
}

async function drain(e) {
  const path = "/admin/endpoints/" + encodeURIComponent(e.name);
  if (e.draining) return command(path + "/undrain", e.name + " takes new requests again.");
  const running = e.load.requests === 1 ? "1 running request ends" : e.load.requests + " running requests end";
  if (await confirmed("Drain " + e.name + "?", "It gets no new requests. " + running + " in their time, and its conversations move to other endpoints.", "Drain"))
    command(path + "/drain", e.name + " is draining.");
}

function total(name, value, title) {
  const d = make("div", "total");
  d.append(make("b", "", value), make("span", "quiet", name));
  if (title) d.title = title;
  return d;
}

function showTotals() {
  let running = 0, queued = 0, up = 0;
  for (const e of fleet.values()) {
    running += e.load.requests;
    queued += e.load.queued_requests || 0;
    if (e.state === "up" && !e.draining && !e.gone && !waits(e)) up++;
  }
  const s = stats.served || {}, past = looks.get(""), from = past && past.length > 1 ? past[0].at : seenAt - 1000 * stats.uptime_seconds;
  // what admission says is shown where it may hold anybody
  const holds = stats.held > 0 || [...fleet.values()].some((e) => e.working_room > 0);
  $("heads").parentNode.parentNode.classList.toggle("unheld", !holds);
  const rate = grew("", s, "requests") / Math.max(1, (seenAt - from) / 1000);
  $("totals").replaceChildren(
    total("endpoints", up + "/" + fleet.size, "that take requests, of all"),
    total("requests/s", rate < 10 ? rate.toFixed(1) : count(rate), "over the last minute"),
    total("running", count(running)),
    total("queued", count(queued), "requests that wait in the router"),
    ...holds ? [total("held", count(stats.held || 0), "sessions whose next turn waits until the engines' caches have room (admission)")] : [],
    total("hit rate", percent(hitRate("", s)), "share of prompt tokens found in engines' caches, over the last minute"),
    total("TTFT p50", seconds(s.ttft_p50_seconds), "of the newest 256 streamed answers"),
    total("TTFT p90", seconds(s.ttft_p90_seconds), "of the newest 256 streamed answers"),
    total("conversations", count(stats.sessions)),
    total("answered", count(s.requests || 0), "requests that have ended, the router's own answers such as 404 included"),
    total("failed", count(s.failed || 0)));
}

function showAbout() {
  const c = stats.config;
  $("ready").textContent = stats.ready ? "ready" : "not ready";
  $("ready").className = "chip " + (stats.ready ? "up" : "down");
  set($("about"), [stats.version, "up " + span(stats.uptime_seconds), c && "configuration " + c.hash].filter(Boolean).join(" · "));
  $("about").title = c ? "read " + new Date(c.since).toLocaleString() : "";
}

function showFleet() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const match = (e) => { const t = [e.name, e.kind, e.role, e.state, e.draining ? "draining" : "", e.sleep || "", ...e.models].join(" ").toLowerCase(); return words.every((w) => t.includes(w)); };
  let all = order.map((n) => fleet.get(n)).filter(Boolean);
  const scale = { work: 1, done: 0 };
  for (const e of all) {
    scale.work = Math.max(scale.work, e.load.prefill_tokens + e.load.decode_tokens);
    scale.done += over(e, "work_tokens");
  }
  let found = all.filter(match);
  if (sortBy) {
    const { value } = columns.find((c) => c.key === sortBy), sign = sortDown ? -1 : 1;
    found = found.map((e) => [value(e), e]).sort((a, b) => sign * (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)).map((p) => p[1]);
  }
  const limit = 500, shown = found.slice(0, limit), body = $("rows");
  const want = shown.map((e) => {
    let r = rows.get(e.name);
    if (!r) rows.set(e.name, r = newRow(e.name));
    r.update(e, scale);
    return r.tr;
  });
  let at = body.firstChild;
  for (const tr of want) { // moves only what stands elsewhere, so that focus stays where it is
    if (tr === at) at = at.nextSibling;
    else body.insertBefore(tr, at);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
  set($("shown"), found.length > limit ? "the first " + limit + " of " + found.length : words.length ? found.length + " of " + all.length : "");
  $("none").hidden = found.length > 0;
  $("none").textContent = all.length ? "No endpoint matches." : "No endpoint is declared yet.";
}

const severities = { bad: "Fault", warn: "Warning", note: "Note" };
function showTroubles(list) {
  const items = list.map((t) => {
    const li = make("li", t.severity), text = make("div");
    const what = make("p");
    what.append(make("strong", "", (t.endpoint ? t.endpoint + ": " : "")), t.what);
    text.append(what, make("p", "do", t.do));
    li.append(make("span", "chip " + { bad: "down", warn: "busy", note: "" }[t.severity], severities[t.severity]), text);
    return li;
  });
  if (!items.length) {
    const li = make("li", "fine");
    li.append(make("span", "chip up", "Fine"), make("p", "", "Nothing is wrong."));
    items.push(li);
  }
  $("troubles").replaceChildren(...items);
}

function showReplicas(r) {
  $("replicas").hidden = false;
  set($("told"), "this is " + r.self + " of the fleet " + r.fleet + ", " + tokens(r.frames_received) + " messages heard, " + tokens(r.gaps) + " gaps");
  const row = (p) => {
    const tr = make("tr"), name = make("th", "", p.router), state = make("td");
    name.scope = "row";
    state.append(make("span", "chip " + (p.synced ? "up" : "busy"), p.synced ? "in step" : "catching up"));
    tr.append(name, state, make("td", "num", tokens(p.leases)), make("td", "num", millis(p.delay_ms)), make("td", "", p.differs || "nothing"));
    return tr;
  };
  $("peers").replaceChildren(...(r.peers || []).map(row));
}

// showHeld lists the sessions that are held before they are placed, the one with the nearest bound first.
function showHeld() {
  $("held").hidden = !waitingTurns.length;
  if (!waitingTurns.length) return;
  const n = stats.held || waitingTurns.length;
  set($("held-about"), (n === 1 ? "1 turn waits" : count(n) + " turns wait") + " until the caches have room; the nearest bound is first" + (n > waitingTurns.length ? ", " + waitingTurns.length + " are shown" : ""));
  $("held-rows").replaceChildren(...waitingTurns.map((h) => {
    const tr = make("tr"), name = make("th", "", h.request);
    const of = make("td", "", h.conversation || "–");
    name.scope = "row";
    name.title = h.request; // a narrow screen cuts both
    of.title = h.conversation || "";
    tr.append(name, of, make("td", "", h.pool), make("td", "", h.tenant || "–"), make("td", "", h.priority), make("td", "", h.home || "nowhere yet"),
      make("td", "num", tokens(h.tokens)), make("td", "num", span(h.held_seconds)), make("td", "num", span(h.seconds_left)));
    return tr;
  }));
}

$("filter").addEventListener("input", () => stats && showFleet());
heads();
