"use strict";
// What the scripts of both pages share. All that is shown is put in as text, never as markup; the
// policy that comes with the page forbids the rest.

const $ = (id) => document.getElementById(id);
let session = null;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.map((each) => (each instanceof Node ? each : String(each))));
  return made;
}

function fail(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

async function ask(path, body, secret = session) {
  const options = { method: body === undefined ? "GET" : "POST", cache: "no-store", credentials: "omit" };
  options.headers = { Authorization: `Bearer ${secret}` };
  if (body) options.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error(`nobody answers: is \`${document.body.dataset.serves}\` running?`);
  }
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error.message);
  return told;
}

async function enter() {
  // The link is good once. What it is changed for stays in this tab, and outlives a reload.
  const link = location.hash.slice(1);
  if (/^[\w-]{40,}$/.test(link)) {
    history.replaceState(null, "", location.pathname);
    session = (await ask("/api/session", null, link)).session;
    sessionStorage.setItem("session", session);
  } else {
    session = sessionStorage.getItem("session");
  }
  if (!session) throw new Error(`this page needs a link: run \`${document.body.dataset.opens}\``);
}

function table(headings, rows, empty, numbers = []) {
  if (!rows.length) return element("p", { className: "told" }, empty);
  // On a narrow screen the style shows a row as a block, and each value behind its heading. The
  // roles keep what a screen reader says of a table.
  const kind = (at) => (numbers.includes(at) ? "number" : "");
  const head = element("tr", { role: "row" }, ...headings.map((each, at) => element("th", { scope: "col", className: kind(at) }, each)));
  const cell = (value, at) => {
    const made = element("td", { role: "cell", className: kind(at) }, value === "" ? element("span", { className: "told" }, "none") : value);
    if (/\S{25}/.test(made.textContent)) made.classList.add("breaks");
    made.dataset.heading = headings[at];
    return made;
  };
  const lines = rows.map((row) => element("tr", { role: "row" }, ...row.map(cell)));
  return element("table", { role: "table", className: headings.length > 8 ? "many" : "few" },
    element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...lines));
}

const number = (value) => value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });

function failed(error) {
  fail(error.message);
}

function tabs(open) {
  // One panel is shown at a time; what `open` is given its name for fills it.
  const all = [...document.querySelectorAll("[role=tab]")];
  const panel = (tab) => tab.getAttribute("aria-controls");

  function choose(chosen) {
    for (const tab of all) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      $(panel(tab)).hidden = tab !== chosen;
    }
    fail("");
    return open(panel(chosen)).catch(failed);
  }

  function keys(event) {
    const at = all.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const chosen = all[(to + all.length) % all.length];
    chosen.focus();
    choose(chosen);
  }

  for (const tab of all) tab.addEventListener("click", () => choose(tab));
  document.querySelector("nav").addEventListener("keydown", keys);
}
