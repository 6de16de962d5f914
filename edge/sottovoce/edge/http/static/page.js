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
    const look = { className: piece.became + (piece.kept ? " kept" : ""), title: piece.hides ?? "" };
    line.append(marked ? element("mark", look, piece.text) : piece.text);
  }
  return line;
}

function card(trial) {
  const title = element("h3", {}, `${trial.level}, ${trial.policy}`);
  if (trial.refused) return element("div", { className: "card" }, title, element("p", {}, `not allowed here: ${trial.refused}`));
  const about = element("p", { className: "told" }, overview.policies[trial.policy] ?? "");
  const told = `The strongest attacker guesses ${hundred(trial.guessed)} words with noise; a release costs ${number(trial.charge)} eta, ${number(trial.eta)} a word.`;
  return element("div", { className: "card" }, title, about, element("p", { className: "told" }, told),
    element("ol", {}, ...trial.draws.map(drawn)), ...wordChoices(trial));
}

const MOST_CHOICES = 200;

function wordChoices(trial) {
  // Each different word once, with one click to change what becomes of it.
  const seen = new Map();
  for (const piece of trial.draws[0]) {
    const key = piece.typed.toLowerCase();
    if (/[\p{L}\p{N}]/u.test(key) && !seen.has(key)) seen.set(key, piece);
  }
  const words = [...seen.values()].slice(0, MOST_CHOICES);
  const list = (heading, found, line) => (found.length
    ? [element("details", { open: found.length < 30 }, element("summary", {}, `${heading}: ${found.length}`), element("ul", { className: "choices" }, ...found.map(line)))] : []);
  const allow = (word) => (trial.policy === "personal" ? [change(word, "allow", "Always allow")] : []);
  return [
    ...list("Replaced", words.filter((each) => each.became === "draw"),
      (each) => element("li", {}, element("span", {}, `${each.typed} (${each.hides})`), ...(each.hides === "listed" ? [] : [...allow(each.typed), change(each.typed, "hide", "Always hide")]))),
    ...list("Gets noise", words.filter((each) => each.became === "noise"), (each) => element("li", {}, element("span", {}, each.typed), change(each.typed, "hide", "Always hide"))),
    ...list("Passes", words.filter((each) => each.became === "pass"), (each) => element("li", {}, element("span", {}, each.typed), change(each.typed, "hide", "Always hide"))),
  ];
}

function change(word, to, label) {
  const button = element("button", { type: "button" }, label);
  button.setAttribute("aria-label", `${label}: ${word}`);
  button.addEventListener("click", () => changeWord(word, to).catch(failed));
  return button;
}

const CHANGED = { hide: "is always hidden", allow: "passes under personal, unless it is also hidden", none: "is in neither list" };

async function changeWord(word, to) {
  showWords(await ask("/api/words/change", { word, to }));
  if ($("tried").childElementCount && $("text").value) await tryText();
  // The clicked button is gone, so the focus goes to what happened.
  $("said").textContent = `"${word}" ${CHANGED[to]}, from the next text on.`;
  $("said").focus();
  fail("");
}

function showWords(told) {
  const list = (heading, own, fixed) => (own.length + fixed.length
    ? [element("h3", {}, heading), element("ul", { className: "choices" },
      ...own.map((each) => element("li", {}, element("span", {}, each), change(each, "none", "Remove"))),
      ...fixed.map((each) => element("li", {}, element("span", {}, `${each} (in the configuration)`))))] : []);
  $("words").replaceChildren(...list("Always hidden", told.hide, [...told.fixed.hide, ...told.fixed.patterns]), ...list("Always allowed", told.allow, told.fixed.allow));
}

function showWaiting(told) {
  const letLeave = (each) => {
    const button = element("button", { type: "button" }, "Let it leave");
    button.setAttribute("aria-label", `Let it leave: ${each.texts.at(-1)}`);
    button.addEventListener("click", async () => {
      try {
        showWaiting(await ask("/api/waiting/allow", { id: each.id }));
      } catch (error) {
        failed(error);
      }
    });
    return button;
  };
  const cards = told.waiting.map((each) => element("div", { className: "card" },
    element("p", { className: "told" }, `${new Date(1000 * each.time).toLocaleTimeString()}: ${each.app || "a program of yours"}`),
    ...each.texts.filter(Boolean).map((text) => element("p", { className: "text" }, text)),
    each.allowed ? element("p", {}, "allowed: it leaves when it is sent again") : letLeave(each)));
  const empty = told.asks ? "Nothing waits." : "Nothing waits. With `sotto config set chat.ask_first true` the first message of a conversation does.";
  $("waiting").replaceChildren(...(cards.length ? cards : [element("p", { className: "told" }, empty)]));
}

async function tryText() {
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
    const shown = ([mechanism, levels]) => [
      element("h3", {}, mechanism + (mechanism === overview.mechanism ? " (in use)" : "")),
      table(["level", "eta", "replaced", "guessed"],
        levels.map((each) => [each.name + (each.name === overview.level ? " (default)" : ""), number(each.eta), hundred(each.replaced), hundred(each.guessed)]),
        "none", [1, 2, 3]),
      ...levels.map((each) => element("p", { className: "told" },
        `${each.name}: An attacker who trained a model on similar text recovers about ${hundred(each.guessed)} protected words.`)),
    ];
    const all = Object.entries(overview.levels);
    const used = all.filter(([mechanism]) => mechanism === overview.mechanism).flatMap(shown);
    const others = all.filter(([mechanism]) => mechanism !== overview.mechanism);
    const more = others.length ? [element("details", {}, element("summary", {}, `Other mechanisms: ${others.length}`), ...others.flatMap(shown))] : [];
    $("leveltable").replaceChildren(...(all.length ? [...used, ...more] : [overview.missing]));
  },
  adapters: async () => {
    overview = await ask("/api/overview");
    $("adaptertable").replaceChildren(table(["name", "state", "examples", "right on texts held out", "corrections kept", "message"],
      overview.adapters.map((each) => [each.name, each.state === "failed" ? element("span", { className: "problem" }, each.state) : each.state,
      `${each.uploaded}/${each.examples}`, each.accuracy ? hundred(each.accuracy) : "not measured yet", each.corrections, each.message || "nothing to report"]),
      "none: `sotto customize NAME --input FILE` trains one", [4]));
  },
  left: async () => {
    showWaiting(await ask("/api/waiting"));
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
      const lines = [element("h3", { className: each.result === "FAIL" ? "problem" : "" }, `${each.result} ${each.check}`), element("p", {}, each.detail)];
      if (each.fix) lines.push(element("p", { className: "problem" }, `fix: ${each.fix}`));
      return element("div", { className: "card" }, ...lines);
    }));
  },
};

async function begin() {
  tabs((name) => views[name]());
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    tryText().catch(failed);
  });
  $("wordform").addEventListener("submit", (event) => {
    event.preventDefault();
    changeWord($("word").value, event.submitter?.value || "hide").then(() => { $("word").value = ""; }).catch(failed);
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  });
  await enter();
  overview = await ask("/api/overview");
  $("about").textContent = `${overview.version}, bundle ${overview.bundle || "none"}, ${overview.cloud ? `cloud ${overview.cloud}` : "no cloud"}`;
  choices($("level"), (overview.levels[overview.mechanism] ?? []).map((each) => each.name), overview.level, "all levels");
  choices($("policy"), Object.keys(overview.policies), overview.policy, "all policies");
  showWords(await ask("/api/words"));
  document.body.dataset.ready = "yes";
}

begin().catch(failed);
