"use strict";
// The device's own page.

let overview = null;

const hundred = (share) => `${Math.round(100 * share)} of 100`;

function choices(select, names, chosen, all) {
  select.replaceChildren(...[...names, all].map((name) => element("option", { value: name === all ? "" : name }, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

function drawn(pieces) {
  const line = element("li", { className: "text" });
  for (const piece of pieces) {
    const marked = piece.became === "noise" || piece.became === "draw";
    line.append(marked ? element("mark", { className: piece.became + (piece.kept ? " kept" : "") }, piece.text) : piece.text);
  }
  return line;
}

function card(trial) {
  const title = element("h3", {}, `${trial.level}, ${trial.policy}`);
  if (trial.refused) return element("div", { className: "card" }, title, element("p", {}, `not allowed here: ${trial.refused}`));
  const about = element("p", { className: "told" }, overview.policies[trial.policy] ?? "");
  const told = `The strongest attacker guesses ${hundred(trial.guessed)} words with noise; a release costs ${number(trial.charge)} eta, ${number(trial.eta)} a word.`;
  return element("div", { className: "card" }, title, about, element("p", { className: "told" }, told), element("ol", {}, ...trial.draws.map(drawn)));
}

async function tryText(event) {
  event.preventDefault();
  const box = $("tried");
  box.setAttribute("aria-busy", "true");
  try {
    const wanted = { text: $("text").value, level: $("level").value, policy: $("policy").value, draws: 5 };
    box.replaceChildren(...(await ask("/api/try", wanted)).map(card));
    fail("");
  } finally {
    box.setAttribute("aria-busy", "false");
  }
}

const views = {
  try: async () => {},
  ledger: async () => {
    const told = await ask("/api/ledger");
    $("spent").replaceChildren(...told.lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    $("warning").textContent = told.warning;
    $("warning").hidden = !told.warning;
    const rows = (sums) => sums.map(([name, spent, texts]) => [name, number(spent), texts]);
    $("days").replaceChildren(table(["day", "eta spent", "texts"], rows(told.days), "nothing yet", [1, 2]));
    $("purposes").replaceChildren(table(["for", "eta spent", "texts"], rows(told.purposes), "nothing yet", [1, 2]));
    $("meaning").textContent = told.meaning;
  },
  levels: async () => {
    const tables = Object.entries(overview.levels).flatMap(([mechanism, levels]) => [
      element("h3", {}, mechanism + (mechanism === overview.mechanism ? " (in use)" : "")),
      table(["level", "eta", "replaced", "guessed"],
        levels.map((each) => [each.name + (each.name === overview.level ? " (default)" : ""), number(each.eta), hundred(each.replaced), hundred(each.guessed)]),
        "none", [1, 2, 3]),
    ]);
    $("leveltable").replaceChildren(...(tables.length ? tables : ["no bundle: run `sotto pull HOST:PORT`"]));
  },
  adapters: async () => {
    overview = await ask("/api/overview");
    $("adaptertable").replaceChildren(table(["name", "state", "examples", "right on texts held out", "corrections kept", "told"],
      overview.adapters.map((each) => [each.name, each.state, `${each.uploaded}/${each.examples}`, each.accuracy ? hundred(each.accuracy) : "", each.corrections, each.message]),
      "none: `sotto customize NAME --input FILE` trains one", [4]));
  },
  left: async () => {
    const told = await ask("/api/record");
    const list = told.left.map((each) => {
      const when = new Date(1000 * each.time).toLocaleTimeString();
      const what = [each.kind, each.name, each.to ? `to ${each.to}` : "to an app of this device", each.note].filter(Boolean).join(", ");
      return element("div", { className: "card" }, element("p", { className: "told" }, `${when}: ${what}`), element("p", { className: "text" }, each.text));
    });
    const empty = told.on ? "Nothing left."
      : "Nothing is recorded. With record = true under [ui] in the configuration the agent keeps what left for an hour, in memory alone.";
    $("leftlist").replaceChildren(...(list.length ? list : [element("p", { className: "told" }, empty)]));
  },
  doctor: async () => {
    $("findings").replaceChildren(element("p", { className: "told" }, "looking ..."));
    const found = await ask("/api/doctor");
    $("findings").replaceChildren(...found.map((each) => {
      const lines = [element("h3", {}, `${each.result} ${each.check}`), element("p", {}, each.detail)];
      if (each.fix) lines.push(element("p", { className: "problem" }, `fix: ${each.fix}`));
      return element("div", { className: "card" }, ...lines);
    }));
  },
};

async function begin() {
  tabs((name) => views[name]());
  $("form").addEventListener("submit", (event) => tryText(event).catch(failed));
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  });
  await enter();
  overview = await ask("/api/overview");
  $("about").textContent = `${overview.version}, bundle ${overview.bundle || "none"}, ${overview.cloud ? `cloud ${overview.cloud}` : "no cloud"}`;
  choices($("level"), (overview.levels[overview.mechanism] ?? []).map((each) => each.name), overview.level, "all levels");
  choices($("policy"), Object.keys(overview.policies), overview.policy, "all policies");
  document.body.dataset.ready = "yes";
}

begin().catch(failed);
