// Starts the page, keeps it up to date, and shows what the address bar names.

import { Refused, Unreachable, follow, load, pause } from "./api.js";
import { addressOf, byId, element, icon, setText } from "./dom.js";
import * as events from "./events.js";
import * as explain from "./explain.js";
import { showProblems, showState, showStatus } from "./glance.js";
import * as map from "./map.js";
import { count, timeOf } from "./words.js";

/** Milliseconds between two requests of the status. */
const INTERVAL = 1000;
/** Milliseconds before a new attempt to connect: at first, and at most. */
const RETRY = [200, 2000];

let status;
let hasTable = false;
let lastResponse;
let stream;
/** Increases with each attempt to connect, so that an older one ends. */
let attempt = 0;

// === Names ===

const suffixes = () => status?.nameSuffixes ?? [];

/** Returns the name of a service in the first zone, without the final dot. */
function nameOf(service, namespace) {
  return `${service}.${namespace}.${suffixes()[0] ?? ""}`.replace(/\.$/, "");
}

/** Returns the service that a name belongs to, if the map has it. */
function serviceOfName(name) {
  const text = `${name.toLowerCase().replace(/\.$/, "")}.`;
  const matches = suffixes().filter((suffix) => text.endsWith(`.${suffix}`));
  if (!matches.length) return undefined;
  const longest = Math.max(...matches.map((suffix) => suffix.length));
  const [service, namespace] = text.slice(0, -longest - 1).split(".").slice(-2);
  return map.serviceOf(`${namespace}/${service}`);
}

// === What is shown ===

function setLink(link) {
  document.body.dataset.link = link;
  showState(link === "live" ? status.state : link);
  if (link === "lost" && status) {
    const text = `Disconnected since ${timeOf(lastResponse)}. This is the last known state.`;
    showProblems([{ text }, ...status.problemRows]);
  }
  map.setBlank(describeBlank);
}

async function refreshStatus() {
  status = await load("status");
  lastResponse = new Date();
  showStatus(status);
  setLink("live");
}

/** Describes why the map is empty. */
function describeBlank(isFiltered) {
  const text = (shape, title, ...sentences) => [icon(shape), element("h3", {}, title), ...sentences.map((text) => element("p", {}, text))];
  const link = document.body.dataset.link;
  if (link === "lost" && !hasTable) return text("gateway-down", "Cannot reach the server", "Trying again.");
  if (link === "connecting" || (status?.state !== "loading" && !hasTable)) return text("awaited", "Loading");
  if (status?.state === "loading") {
    return text("awaited", "Waiting for the first complete table", "Until then, every query is answered with SERVFAIL.");
  }
  if (isFiltered) {
    const button = element("button", { type: "button" }, "Clear the filters");
    button.addEventListener("click", map.clearFilters);
    return [...text("other-kind", "No service matches"), button];
  }
  return text(
    "other-kind",
    "No services yet",
    "A service appears as soon as a link mirrors it into this cluster.",
    "If one is missing, ask about its name above.",
  );
}

let loading, isOutdated;
/** Generation of the table that is shown, and the newest one that the server has named. */
let shown, newest;

/** Loads the table, and loads it again if it changed in the meantime. A large table is loaded less often. */
function refreshTable() {
  isOutdated = true;
  loading ??= (async () => {
    try {
      while (isOutdated) {
        isOutdated = false;
        const began = performance.now();
        const table = await load("table");
        showTable(table);
        if (shown === newest) isOutdated = false;
        await refreshExplanation();
        const took = performance.now() - began;
        if (took > 100) await pause(2 * took);
      }
    } finally {
      loading = undefined;
    }
  })();
  return loading;
}

function showTable(table) {
  shown = table.generation;
  hasTable = shown > 0;
  map.showServices(table.services, status.cluster);
  const [alive, known] = map.totals();
  setText(byId("alive"), hasTable ? `${count(alive)} of ${count(known)}` : "–");
}

// === Connection ===

/** Connects and loads everything. Tries until it succeeds or a later call takes over. */
async function connect() {
  const own = ++attempt;
  stream?.close();
  stream = undefined;
  for (let wait = RETRY[0]; own === attempt; wait = Math.min(wait * 2, RETRY[1])) {
    try {
      await refreshStatus();
      const past = (await load("events")).events;
      events.replace(past);
      const opened = await follow(past.at(-1)?.id, listeners(own));
      if (own !== attempt) return opened?.close();
      stream = opened;
      // A stream without a start can miss an event between these requests.
      if (past.length === 0) events.replace((await load("events")).events);
      await refreshTable();
      return poll(own);
    } catch (error) {
      report(error);
      if (own === attempt) setLink("lost");
    }
    await pause(wait);
  }
}

function listeners(own) {
  const isCurrent = (action) => (data) => own === attempt && action(data);
  return {
    change: isCurrent(events.add),
    table: isCurrent((generation) => {
      newest = generation;
      refreshTable().catch(reconnect);
    }),
    reset: isCurrent(connect),
    lost: isCurrent(() => stream && connect()),
  };
}

function reconnect(error) {
  report(error);
  connect();
}

/** Other errors than those of the server are mistakes of this page. */
function report(error) {
  if (!(error instanceof Refused || error instanceof Unreachable)) console.error(error);
}

/** Loads the status every second. Without a stream, it also shows changes, and tries to open one now and then. */
async function poll(own) {
  for (let seconds = 1; ; seconds += 1) {
    await pause(INTERVAL);
    if (own !== attempt) return;
    try {
      await refreshStatus();
      if (!stream && seconds % 10 === 0) return connect();
      if ((status.generation ?? 0) !== shown) await refreshTable();
    } catch (error) {
      if (own === attempt) reconnect(error);
      return;
    }
  }
}

// === Address bar ===

function route() {
  const hash = location.hash;
  let name = "";
  if (hash.startsWith("#/name/")) {
    try {
      name = decodeURIComponent(hash.slice("#/name/".length));
    } catch {
      // Not an address that this page makes.
    }
  }
  return name ? { view: "name", name } : { view: hash === "#/events" ? "events" : "services" };
}

const context = { service: serviceOfName, get suffixes() { return suffixes(); } };

async function refreshExplanation() {
  const { name } = route();
  map.setOpen(name && serviceOfName(name)?.key);
  if (!name) return;
  // Without a table, the server explains nothing.
  if (hasTable) await explain.show(name, context);
  else setText(byId("explanation"), "Waiting for the first complete table");
}

function navigate() {
  const { view, name } = route();
  document.body.dataset.view = view;
  byId("name").hidden = view !== "name";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.to === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "name") byId("name-title").textContent = name;
  else explain.hide();
  refreshExplanation().catch(reconnect);
}

function close() {
  if (route().view !== "name") return;
  location.hash = "#/";
  navigate();
  map.focusRow();
}

// === Start ===

events.start(nameOf);
map.start(nameOf);
addEventListener("hashchange", () => {
  navigate();
  if (route().view === "name") byId("name-title").focus({ preventScroll: true });
});
addEventListener("keydown", (event) => event.key === "Escape" && close());
byId("close").addEventListener("click", (event) => {
  event.preventDefault();
  close();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  map.focusRow();
});
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = byId("question").value.trim();
  if (!question) return;
  if (location.hash === addressOf(question)) navigate();
  else location.hash = addressOf(question);
});
// A hidden page keeps no connection: a browser has only six for each server.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    attempt += 1;
    stream?.close();
  } else {
    connect();
  }
});
navigate();
setLink("connecting");
connect();
