// One stream of events feeds the page. It is read with fetch, since an EventSource cannot send the token.
let waiting = false;

const heard = {
  fleet(e) {
    seenAt = e.at;
    if (e.names) {
      order = e.names;
      learnDomain(order);
      for (const n of fleet.keys()) if (!order.includes(n)) { fleet.delete(n); rows.delete(n); looks.delete(n); }
    }
    for (const one of e.endpoints || []) fleet.set(one.name, one);
    stats = e.stats;
    waitingTurns = e.held || [];
    note("", stats.served, seenAt);
    for (const one of fleet.values()) note(one.name, one.served, seenAt);
    if (e.troubles) showTroubles(e.troubles);
    if (waiting) return;
    waiting = true; // one drawing for all looks that come before the next frame; none while the tab is hidden
    requestAnimationFrame(() => {
      waiting = false;
      $("main").hidden = false;
      $("links").hidden = "Authorization" in headers(); // a link cannot carry the token
      showAbout();
      showTotals();
      showFleet();
      showAliases();
      showHeld();
      if (!charts.length) draw();
    });
  },
  history: showHistory,
  decisions: showNewest,
  replicas: showReplicas,
  shadow() { $("beside-none").hidden = true; $("beside-none").dataset.on = "yes"; },
};

async function listen() {
  let pause = 2000;
  try {
    const r = await fetch("/admin/stream", { headers: headers() });
    if (r.status === 401) {
      $("wrong").textContent = sessionStorage.getItem("warmpath-token") ? "That was not the token." : "";
      sessionStorage.removeItem("warmpath-token");
      $("login").hidden = false;
      $("main").hidden = $("links").hidden = true;
      $("ready").textContent = "locked";
      $("token").focus();
      return; // the form begins anew
    }
    if (!r.ok) throw new Error((await r.json()).error.message);
    document.body.classList.remove("stale");
    $("beside-none").hidden = !!$("beside-none").dataset.on;
    if (asked && !decisions.length) showAsked();
    past = [];
    order = [];
    const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const timeout = setTimeout(() => reader.cancel().catch(() => {}), 15000); // a look comes every second
      const { value, done } = await reader.read().finally(() => clearTimeout(timeout));
      if (done) break;
      buffer += value;
      for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
        const [name, body] = buffer.slice(0, end).split("\n");
        const act = heard[name.slice(7)];
        if (act) act(JSON.parse(body.slice(6)));
      }
    }
    pause = 500;
  } catch (e) {
    $("ready").title = e.message;
  }
  if (!document.body.classList.contains("stale") && seenAt) {
    showTroubles([{ severity: "bad", what: "The router gives no answer since " + clock(Date.now()) + ". What this page shows is older.", do: "See whether its process runs, and read its log. The page tries again by itself." }]);
  }
  document.body.classList.add("stale");
  $("ready").textContent = "no answer";
  $("ready").className = "chip down";
  setTimeout(listen, pause);
}

$("login").addEventListener("submit", (ev) => {
  ev.preventDefault();
  sessionStorage.setItem("warmpath-token", $("token").value);
  $("token").value = "";
  $("login").hidden = true;
  listen();
});
listen();
