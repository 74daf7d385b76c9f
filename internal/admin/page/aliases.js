// The models of each alias beside each other: what a canary has come to, and what the order of an alias has passed over.
const besides = new Map(); // alias and model -> its row

function besideRow(alias, model) {
  const key = alias + "\n" + model;
  let r = besides.get(key);
  if (r) return r;
  const tr = make("tr"), name = make("th", "", alias), cells = Array.from({ length: 10 }, (_, i) => make("td", i === 0 || i === 1 || i === 6 ? "" : "num"));
  name.scope = "row";
  const hit = meter("hit");
  cells[0].textContent = model;
  cells[6].append(hit.box);
  tr.append(name, ...cells);
  r = {
    tr,
    update(m, last) {
      const s = m.served || {}, n = s.requests || 0;
      set(cells[1], m.share != null ? percent(m.share) + " of new conversations" : m.overflow_seconds == null ? "as the policy chooses"
        : last ? "what those before cannot take" : m.overflow_seconds > 0 ? "in order, while a prompt waits up to " + span(m.overflow_seconds) : "in order, however long it waits");
      set(cells[2], count(n));
      set(cells[3], count(s.failed || 0) + (s.failed ? " (" + percent(s.failed / n) + ")" : ""));
      set(cells[4], seconds(s.ttft_p50_seconds));
      set(cells[5], seconds(s.ttft_p90_seconds));
      hit.update([s.hit_rate], percent(s.hit_rate));
      set(cells[7], count(s.prompt_tokens || 0));
      set(cells[8], count(s.output_tokens || 0));
      set(cells[9], m.overflow_seconds == null ? "–" : count(m.passed || 0));
    },
  };
  besides.set(key, r);
  return r;
}

function showAliases() {
  const all = stats.aliases || [];
  $("aliases").hidden = !all.length;
  const rows = all.flatMap((a) => a.models.map((m, i) => {
    const r = besideRow(a.alias, m.model);
    r.update(m, i === a.models.length - 1);
    return r.tr;
  }));
  const body = $("alias-rows");
  if (rows.length !== body.children.length || rows.some((tr, i) => tr !== body.children[i])) {
    body.replaceChildren(...rows);
    besides.forEach((r, key) => { if (!rows.includes(r.tr)) besides.delete(key); });
  }
}
