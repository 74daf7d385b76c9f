// Decisions: the newest ones, and why. They are left as they are while a reader holds them or has one open.
const terms = ["wait", "prefill", "transfer", "fixed", "others", "spread"];
const meaning = {
  wait: "wait for prompts in front and for a place", prefill: "compute what is not cached", transfer: "fetch what is not cached from where it was computed", fixed: "first token when nothing is to compute",
  others: "delay of requests that come later", spread: "more new conversations than its share",
};
const term = (c, t) => Math.max(0, c.terms_ms[t] || 0); // transfer is there with decode legs only
const asked = location.hash.startsWith("#request=") ? decodeURIComponent(location.hash.slice(9)) : ""; // one decision, linked to
let decisions = [], opened = null, held = false, drawn = "", kept = 0;

function costOf(c) { return terms.reduce((sum, t) => sum + term(c, t), 0); }

// mini draws one small column a candidate, the chosen one first.
function mini(d) {
  const box = make("div", "mini"), shown = d.candidates.slice(0, 8), most = Math.max(1e-9, ...shown.map(costOf));
  for (const c of shown) {
    const b = make("b", c.chosen ? "chosen" : "");
    b.title = c.endpoint + ": " + millis(c.cost_ms);
    b.style.height = "100%";
    for (const t of terms) {
      const i = make("i", "t-" + t);
      i.style.height = 100 * term(c, t) / most + "%";
      b.append(i);
    }
    box.append(b);
  }
  return box;
}

// bars draws the terms of each candidate at full length, with what they add up to.
function bars(d) {
  const took = d.observed.ttft_ms, grid = make("div", "terms"), most = Math.max(1e-9, took || 0, ...d.candidates.map(costOf));
  for (const h of ["Candidate", "Predicted cost", "cost", "first token", "cached · requests"]) grid.append(make("span", "head", h));
  for (const c of d.candidates) {
    const track = make("div", "track");
    for (const t of terms) {
      const i = make("i", "t-" + t);
      i.style.width = 100 * term(c, t) / most + "%";
      i.title = t + " " + millis(term(c, t)) + ": " + meaning[t];
      track.append(i);
    }
    if (c.chosen && took != null) {
      const mark = make("i", "mark");
      mark.style.left = "min(" + 100 * took / most + "%, 100% - 3px)";
      mark.title = "first token observed after " + millis(took) + ", due after " + millis(d.predicted.ttft_ms);
      track.append(mark);
    }
    track.title = terms.map((t) => t + " " + millis(term(c, t))).join(", ");
    const who = make("span", "who" + (c.chosen ? " chosen" : ""), brief(c.endpoint, 34));
    who.title = c.endpoint + (c.weight !== 1 ? ", weight " + c.weight : "") + (c.full ? ", cache full" : "") + ", busy " + percent(c.busy);
    grid.append(who, track, make("span", "", millis(c.cost_ms)), make("span", "", millis(c.ttft_ms)),
      make("span", "", tokens(c.cached_tokens) + " · " + c.requests));
  }
  return grid;
}

function story(d) {
  const tr = make("tr", "story"), td = make("td"), inner = make("div", "inner");
  td.colSpan = 11;
  inner.append(make("p", "", d.why));
  const facts = ["request " + d.request, d.conversation && "conversation " + d.conversation, d.first_turn ? "first turn" : "", d.pool && "pool " + d.pool,
    d.model && d.model !== d.pool ? "model " + d.model : "", d.policy && "policy " + d.policy, d.tenant && "tenant " + d.tenant, d.client && "client " + d.client, d.class !== "turn" ? d.class : d.stream ? "stream" : "not streamed",
    d.outcome.replaceAll("_", " ") + " after " + millis(d.observed.duration_ms), d.split ? (d.leg ? "split: " : "not split: ") + d.split.why.replaceAll("_", " ") + (d.split.whole_ms ? ", " + millis(d.split.whole_ms) + " at one endpoint, " + millis(d.split.split_ms) + " at two" : "") : "",
    d.eligible > d.candidates.length && d.candidates.length ? "the best " + d.candidates.length + " of " + d.eligible + " candidates" : ""];
  inner.append(make("div", "facts", facts.filter(Boolean).join(" · ")));
  if (d.candidates.some((c) => costOf(c) > 0)) inner.append(bars(d));
  if (d.conversation) {
    const b = make("button", "small", "Show this conversation turn by turn");
    b.type = "button";
    b.addEventListener("click", () => { follow(d.conversation); $("way").hidden = false; $("way").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }); $("conversation").focus({ preventScroll: true }); });
    inner.append(b);
  }
  td.append(inner);
  tr.append(td);
  return tr;
}

function decisionRow(d) {
  const tr = make("tr", "one" + (opened === d.number ? " open" : "")), cell = (x, cls) => { const td = make("td", cls); td.append(x); return td; };
  const id = make("button", "id", d.request);
  id.type = "button";
  id.dataset.number = d.number;
  id.title = d.request;
  id.setAttribute("aria-expanded", opened === d.number);
  const found = d.observed.cached_tokens, off = found == null ? 0 : Math.abs(found - d.predicted.cached_tokens) / Math.max(1, d.observed.prompt_tokens);
  const took = d.observed.ttft_ms, late = took != null && d.predicted.ttft_ms != null && took > 1.5 * d.predicted.ttft_ms + 20;
  const where = make("span", "", brief(d.endpoint || "none", 24));
  where.title = d.endpoint || "";
  if (d.leg) where.append(" ", make("span", "chip role", d.leg));
  if (d.outcome !== "ok") where.append(" ", make("span", "chip " + (d.outcome.startsWith("client") ? "" : "down"), d.outcome.replaceAll("_", " ")));
  const reason = make("span", "chip", d.reason.replaceAll("_", " "));
  if (d.first_turn) reason.title = "first turn";
  tr.append(cell(clock(d.at)), cell(id), cell(where), cell(reason),
    cell(tokens(d.observed.prompt_tokens ?? (d.predicted.prompt_tokens || null)), "num"),
    cell(d.class === "turn" ? tokens(d.predicted.cached_tokens) : "–", "num"), cell(tokens(found), "num" + (off > 0.05 ? " late" : "")),
    cell(millis(d.predicted.ttft_ms), "num"), cell(millis(took), "num" + (late ? " late" : "")), cell(millis(d.regret_ms), "num"),
    cell(mini(d)));
  tr.addEventListener("click", () => {
    opened = opened === d.number ? null : d.number;
    drawn = "";
    showDecisions();
    $("decisions").querySelector(`[data-number="${d.number}"]`)?.focus();
  });
  return tr;
}

function showDecisions() {
  const words = $("wanted").value.toLowerCase().split(/\s+/).filter(Boolean);
  const match = (d) => { const t = [d.request, d.endpoint, d.pool, d.reason, d.outcome, d.conversation, d.leg, d.code, d.limit, d.tenant, d.split && d.split.why, d.first_turn ? "first" : ""].join(" ").toLowerCase(); return words.every((w) => t.includes(w)); };
  const found = decisions.filter(match).slice(0, words.length ? 200 : 25), state = found.map((d) => d.number).join() + "/" + opened;
  if (state === drawn) return; // nothing new: what a reader points at stays
  drawn = state;
  $("decisions").replaceChildren(...found.flatMap((d) => opened === d.number ? [decisionRow(d), story(d)] : [decisionRow(d)]));
}

// showNewest takes in the decisions that have ended since; those that a reader looks at stay.
function showNewest(a) {
  kept = a.kept;
  $("why").hidden = false;
  if (!asked && !held && opened == null) {
    decisions = a.decisions.concat(decisions.filter((d) => d.number < (a.decisions.at(-1)?.number ?? Infinity))).slice(0, 500);
    $("decided").textContent = "the newest of " + count(kept) + " kept";
    showDecisions();
  }
  travel(a.decisions);
}

// showAsked shows the one request that the address names.
async function showAsked() {
  $("hold").hidden = true;
  const r = await fetch("/admin/decisions?last=25&request=" + encodeURIComponent(asked), { headers: headers() });
  if (!r.ok) return;
  const a = await r.json();
  decisions = a.decisions;
  opened = decisions.length ? decisions[0].number : null;
  $("why").hidden = false;
  $("decided").textContent = "request " + asked + (decisions.length ? "" : " is not among the " + count(a.kept) + " kept");
  showDecisions();
}

$("legend").append(...terms.map((t) => { const s = make("span"); s.append(make("i", "t-" + t), t); s.title = meaning[t]; return s; }));
{ const s = make("span"); s.append(make("i", "mark"), "first token observed"); $("legend").append(s); }
$("hold").addEventListener("click", () => { held = !held; $("hold").setAttribute("aria-pressed", held); $("hold").textContent = held ? "Go on" : "Pause"; });
$("wanted").addEventListener("input", showDecisions);
