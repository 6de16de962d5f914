"use strict";
// The provider's page. It asks anew every few seconds.

const SECONDS = 3;
const STATES = ["uploading", "queued", "running", "succeeded", "failed", "cancelled"];

const ENDED = ["succeeded", "failed", "cancelled"];
const SCOPES = { all: "train and predict", train: "train", predict: "predict" };
const DAYS = { "": "never", 1: "1 day", 7: "7 days", 30: "30 days", 90: "90 days", 365: "365 days" };
// What an empty cell of a job means.
const NOT_YET = { uploading: "examples are still uploaded", queued: "waits for a trainer", running: "begins", cancelled: "ended before its first step", failed: "ended before its first step", succeeded: "not measured" };

const ORIGINS = { tenant: "set for this tenant", all: "as for all", default: "as for all (default)" };

let shown = "overview";
let turn = 0;
let chosen = "";
let sure = ""; // the change that was asked for once, and is made if it is asked for again
// Of what is shown a page at a time: where the pages before began, and where the next begins.
const pages = { job: { begins: [""], next: "" }, tenant: { begins: [""], next: "" } };

function patch(old, made) {
  // In place, so that nothing flickers and what is focused or selected stays so.
  if (old.nodeName !== made.nodeName) return old.replaceWith(made);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return undefined;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const there = [...old.childNodes];
  [...made.childNodes].forEach((each, at) => (at < there.length ? patch(there[at], each) : old.append(each)));
  for (const each of there.slice(made.childNodes.length)) if (each.parentNode === old) each.remove();
  return undefined;
}

function fill(id, ...children) {
  const made = $(id).cloneNode(false);
  made.append(...children);
  patch($(id), made);
}

function lasted(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)}\u00a0${unit}`;
  }
  return `${Math.max(0, Math.round(seconds))}\u00a0s`;
}

const query = (asked) => new URLSearchParams(Object.entries(asked).filter(([, value]) => value)).toString();
const pairs = (found) => found.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
const time = (told) => told.replace("T", " ").replace("+00:00", " UTC");
const here = (kind) => pages[kind].begins.at(-1);

function paged(kind, following) {
  pages[kind].next = following;
  $(`${kind}back`).disabled = pages[kind].begins.length < 2;
  $(`${kind}next`).disabled = !following;
}

const failing = (told) => element("span", { className: "problem" }, told);
const empty = (told) => element("span", { className: "told" }, told);

function twice(key, label, about) {
  // A change that cannot be taken back asks once more.
  const asked = sure === key;
  const button = element("button", { type: "button", value: key, className: asked ? "problem" : "" }, asked ? `Really ${label.toLowerCase()}?` : label);
  button.setAttribute("aria-label", `${button.textContent} ${about}`);
  return button;
}

function state(job) {
  const shown = job.state === "failed" ? failing(job.state) : job.state;
  if (ENDED.includes(job.state)) return shown;
  return element("span", { className: "choice" }, shown, twice(`job ${job.id}`, "Cancel", `job ${job.id} of ${job.tenant}`));
}

function figure(name, value) {
  if (value === undefined) return empty("not counted here");
  return name === "memory_bytes" ? `${Math.round(value / 1e6)} MB` : number(value);
}

function glance(told) {
  const counts = Object.entries(told.jobs).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`);
  const lines = [["jobs", counts.join(", ") || "none"], ["trainers with a job", told.trainers]];
  if (told.jobs.queued) lines.push(["the oldest in the queue waits for", lasted(told.oldest_queued_seconds)]);
  if (told.expired_leases) lines.push(["leases that have ended", told.expired_leases]);
  return lines;
}

const views = {
  // Each asks for what it shows, and gives what shows it.
  overview: async () => {
    const [told, asked] = await Promise.all([ask("/api/overview"), ask("/api/processes")]);
    return () => {
      $("about").textContent = `at the provider's, ${told.version}`;
      fill("glance", ...pairs(glance(told)));
      fill("running", table(["job", "trainer", "lease", "step", "examples a second", "attempts"],
        told.running.map((each) => [each.job, each.trainer.slice(0, 8), each.lease_seconds > 0 ? lasted(each.lease_seconds) : failing("ended"),
          each.steps ? `${each.step}/${each.steps}` : empty("begins"), number(each.examples_per_second), each.attempts]),
        "Nothing is in training.", [4, 5]));
      fill("health", table(["address", "health"], asked.health.map((each) => [each.address, each.error ? failing(`${each.state}: ${each.fix}`) : each.serving ? each.state : failing(each.state)]),
        "Nobody is asked for health: `sotto-cloud ui --health HOST:PORT`, as often as is wanted."));
      const known = [...new Set(asked.metrics.flatMap(Object.keys))].filter((name) => !["address", "state", "role", "error", "fix"].includes(name));
      fill("metrics", table(["metrics", "role", ...known.map((name) => (name === "memory_bytes" ? "memory" : name.replaceAll("_", " ")))],
        asked.metrics.map((each) => [each.address, each.role || failing(each.error ? `${each.state}: ${each.fix}` : each.state),
          ...known.map((name) => figure(name, each[name]))]),
        "Nobody is asked for metrics: `sotto-cloud ui --metrics HOST:PORT`.", known.map((_, at) => at + 2)));
    };
  },
  jobs: async () => {
    const asked = { tenant: $("jobtenant").value, state: $("jobstate").value, page: here("job") };
    const told = await ask(`/api/jobs?${query(asked)}`);
    return () => {
      paged("job", told.next);
      fill("joblist", table(["id", "tenant", "adapter", "state", "method", "level", "accuracy", "examples", "age", "progress"],
        told.jobs.map((each) => [each.id, each.tenant, each.adapter || empty("deleted"), state(each), each.method, each.level || empty("in the clear"),
          each.accuracy || empty(ENDED.includes(each.state) ? "not measured" : "not yet"), number(each.examples), lasted(each.age_seconds),
          [each.progress, each.message].filter(Boolean).join("; ") || empty(NOT_YET[each.state])]),
        "No such jobs.", [6, 7]));
    };
  },
  tenants: async () => {
    const asked = { begins: $("tenantbegins").value, page: here("tenant") };
    const name = chosen;
    const [told, one] = await Promise.all([ask(`/api/tenants?${query(asked)}`), name ? ask(`/api/tenant?${query({ tenant: name })}`) : null]);
    return () => {
      paged("tenant", told.next);
      fill("tenantlist", table(["tenant", "since", "state", "devices let in", "next to end", "jobs"],
        told.tenants.map((each) => [
          element("button", { type: "button", value: each.name, ariaPressed: String(each.name === name) }, each.name),
          time(each.created), each.state === "disabled" ? failing(each.state) : each.state, each.tokens, time(each.next_end) || "never", each.jobs]),
        "No such tenants: `sotto-cloud enroll TENANT` adds one.", [3, 5]));
      fill("devices", ...(one ? devices(name, one) : [element("p", { className: "told" }, "Choose a tenant for its devices and limits.")]));
    };
  },
  acts: async () => {
    const told = await ask(`/api/acts?${query({ tenant: $("acttenant").value })}`);
    return () => fill("actlist", table(["when", "who", "what", "tenant", "detail"],
      told.acts.map((each) => [time(each.done), each.who, each.what, each.tenant || empty("all tenants"), each.detail || empty("nothing more")]), "Nothing is noted."));
  },
};

function devices(name, one) {
  const known = Object.keys(one.limits);
  const select = $("limitform").elements.limit;
  if (!select.options.length) select.append(...known.map((each) => element("option", { value: each }, each.replaceAll("_", " "))));
  const limits = Object.entries(one.limits).map(([limit, told]) => [limit.replaceAll("_", " "), `${told.value.toLocaleString("en")} ${told.unit}, ${ORIGINS[told.origin]}`]);
  const more = one.more ? [element("p", { className: "told" }, `${one.more} older ones: \`sotto-cloud tokens list ${name}\``)] : [];
  return [
    element("h3", {}, `Devices of ${name}`),
    table(["number", "name", "scope", "state", "since", "ends"],
      one.tokens.map((each) => [each.number, each.name, each.scope,
        each.state === "valid" ? element("span", { className: "choice" }, each.state, twice(`token ${each.number}`, "Revoke", `${each.name} of ${name}`)) : each.state,
        time(each.created), time(each.ends) || "never"]),
      "None has a token.", [0]),
    ...more,
    element("h3", {}, `Limits of ${name}`),
    element("dl", {}, ...pairs(limits)),
  ];
}

async function look() {
  const mine = ++turn;
  try {
    const show = await views[shown]();
    if (mine !== turn) return; // something else was asked for meanwhile
    show();
    fail("");
  } catch (error) {
    if (mine === turn) failed(error);
  }
}

async function again() {
  if (!document.hidden) await look();
  setTimeout(again, 1000 * SECONDS);
}

async function change(path, fields, told) {
  sure = "";
  const answer = await ask(path, fields);
  await look();
  say(told);
  return answer;
}

function say(told, refused = false) {
  // A button that was pressed may be gone, so the focus goes to what happened. A refusal stays
  // until the next change, as what is shown anew every few seconds clears other errors.
  $("said").textContent = told;
  $("said").className = refused ? "problem" : "";
  $("said").focus();
}

const refused = (error) => say(error.message, true);

function pressed(event) {
  const [kind, which] = (event.target.closest("button")?.value ?? "").split(" ");
  if (!which) return;
  const key = `${kind} ${which}`;
  const asked = sure === key;
  sure = asked ? "" : key;
  const changed = { job: () => change("/api/jobs/cancel", { id: which }, `Job ${which} is cancelled. A running one ends within a step.`),
    token: () => change("/api/tokens/revoke", { tenant: chosen, number: which }, `Token ${which} of ${chosen} is revoked.`) };
  (asked ? changed[kind]() : look()).catch(refused);
}

function hide() {
  $("made").hidden = true;
  $("made").querySelector("code").textContent = "";
}

function choose(name) {
  chosen = name;
  hide();
  for (const each of document.querySelectorAll(".chosen")) each.textContent = name;
  $("change").hidden = !name;
  return look();
}

function forms() {
  const options = (form, name, found) => $(form).elements[name].append(...found.map(([value, told]) => element("option", { value }, told)));
  options("tokenform", "scope", Object.entries(SCOPES));
  options("tokenform", "days", Object.entries(DAYS).sort(([one], [other]) => one - other));
  const fields = (form) => ({ tenant: chosen, ...Object.fromEntries(new FormData(form)) });
  $("tokenform").addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = fields(event.target);
    try {
      const { token } = await change("/api/tokens/new", given, `${given.name} of ${given.tenant} has a token.`);
      if (chosen !== given.tenant) return;
      $("made").querySelector("code").textContent = token;
      $("made").hidden = false;
      event.target.reset();
    } catch (error) {
      refused(error);
    }
  });
  $("limitform").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = fields(event.target);
    const told = given.value ? `is ${given.value}` : "is as for all";
    change("/api/limits/set", given, `The limit ${given.limit.replaceAll("_", " ")} of ${given.tenant} ${told}.`)
      .then(() => { event.target.elements.value.value = ""; }).catch(refused);
  });
  $("hide").addEventListener("click", hide);
  for (const id of ["joblist", "devices"]) $(id).addEventListener("click", pressed);
}

function turns(kind) {
  const { begins } = pages[kind];
  $(`${kind}back`).addEventListener("click", () => { begins.pop(); look(); });
  $(`${kind}next`).addEventListener("click", () => { begins.push(pages[kind].next); look(); });
}

function filters(id, kind) {
  $(id).addEventListener("input", () => {
    if (kind) pages[kind].begins.length = 1;
    look();
  });
}

async function begin() {
  tabs((name) => {
    shown = name;
    sure = "";
    $("said").textContent = "";
    return look();
  });
  $("jobstate").append(element("option", { value: "" }, "all"), ...STATES.map((name) => element("option", { value: name }, name)));
  for (const [id, kind] of [["jobtenant", "job"], ["jobstate", "job"], ["tenantbegins", "tenant"], ["acttenant", ""]]) filters(id, kind);
  for (const kind of ["job", "tenant"]) turns(kind);
  $("tenantlist").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(button.value);
  });
  forms();
  await enter();
  await look();
  document.body.dataset.ready = "yes";
  setTimeout(again, 1000 * SECONDS);
}

begin().catch(failed);
