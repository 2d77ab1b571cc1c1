// Starts the page, and shows what the address bar names.

import * as address from "./address.js";
import * as answer from "./answer.js";
import * as changes from "./changes.js";
import { byId, setOptions, setText, startTips } from "./dom.js";
import * as filters from "./filters.js";
import * as headline from "./headline.js";
import * as map from "./map.js";
import * as model from "./model.js";
import * as problems from "./problem.js";
import { Refused, Unreachable, restart, start } from "./server.js";
import * as time from "./time.js";
import { count, exactTime, refreshTimes, secondsOf, zoneName } from "./words.js";

/** Milliseconds between two requests of the same details, however often they change. */
const SPACING = 2000;

/** `connecting`, `live`, `polling` if the server gives no stream, `past` if it shows another moment, or `lost`. */
let connection = "connecting";
/** Why the moment of the address cannot be shown. */
let refusal;
const isConnected = () => !["connecting", "lost"].includes(connection);
const zone = zoneName();
/** If the window is as narrow, the answer covers everything else. */
const isNarrow = matchMedia("(max-width: 960px)");

// === Details: what is loaded only while it is open ===

/**
 * Returns a function that runs `action` now, or after the spacing if it has just run. A request that fails is repeated. Its
 * `cancel` ends the wait.
 */
function spaced(action) {
  let timer;
  let last = -SPACING;
  const run = () => {
    if (document.hidden) return;
    last = performance.now();
    action().catch((error) => {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
      timer = setTimeout(run, 2 * SPACING);
    });
  };
  const request = (isUrgent) => {
    if (isUrgent) last = -SPACING;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(0, last + SPACING - performance.now()));
  };
  return Object.assign(request, { cancel: () => clearTimeout(timer) });
}

const refreshAnswer = spaced(async () => {
  const name = address.parameter("name");
  if (name) await answer.show(name);
});

const refreshView = spaced(async () => {
  const view = { problems, changes }[address.currentView()];
  if (!view) return;
  await view.show();
  showFilters();
});

const refreshTime = spaced(time.refresh);

// === What is shown ===

function showFilters() {
  filters.show({ problems, changes }[address.currentView()]?.known() ?? {});
}

function showHead() {
  const head = model.headOf();
  headline.show(connection, refusal);
  showClock();
  byId("past").hidden = !address.isPast();
  setText(byId("past-text"), `Shows ${exactTime(address.moment())} ${zone}, not now.`);
  document.body.dataset.link = connection;
  setText(byId("link"), { live: "Live", polling: "Every 5 s", past: "Past", lost: "Disconnected" }[connection] ?? "Connecting");
  if (!head) return;
  setText(byId("cluster"), head.cluster);
  byId("cluster").title = `global-dns ${head.version}`;
  setText(byId("replica"), head.replica ?? "–");
  const suffixes = head.nameSuffixes;
  byId("by-zone").hidden = suffixes.length < 2;
  byId("zone").hidden = suffixes.length > 1;
  setText(byId("zone"), suffixes[0] ?? head.zones.join(" "));
  setOptions(byId("by-zone"), suffixes.map((suffix) => [suffix, suffix]), address.parameter("zone") || suffixes[0]);
  const problems = Object.values(head.problems).reduce((sum, number) => sum + number, 0);
  setText(byId("problems-count"), problems ? count(problems) : "");
}

/** Shows the place that the address names. `isByReader` says that the reader has just gone there. */
function show(isByReader) {
  const view = address.currentView();
  const name = address.parameter("name");
  document.body.dataset.view = view;
  document.body.classList.toggle("with-answer", Boolean(name));
  byId("answer").hidden = !name;
  for (const part of document.querySelectorAll("header, #headline > :not(.sentence), main > :not(#answer)")) part.inert = Boolean(name) && isNarrow.matches;
  if (!name) answer.hide();
  byId("close").href = address.here({ name: "" });
  for (const tab of document.querySelectorAll("nav a")) {
    tab.href = address.lastAddressOf(tab.dataset.to);
    if (tab.dataset.to === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  showHead();
  map.show(isByReader);
  setText(byId("services-count"), model.headOf() ? map.countText() : "");
  showFilters();
}

/** The parts of the place that were shown last, to know what the reader changed. */
let shownName = address.parameter("name");
let shownTime = address.parameter("at");
let shownView;
let shownMarks;

/** Between now and the past, details follow their summary: what was requested before is of another time. */
function forgetRequests() {
  for (const refresh of [refreshAnswer, refreshView]) refresh.cancel();
  for (const details of [answer, problems]) details.ignoreResponse();
}

function navigate() {
  const name = address.parameter("name");
  const at = address.parameter("at");
  const marks = name + address.parameter("span");
  const place = address.here({ name: "", open: "", at: "", span: "" });
  if (at !== shownTime) {
    if (Boolean(at) !== Boolean(shownTime)) forgetRequests();
    shownTime = at;
    restart();
  }
  if (marks !== shownMarks) refreshTime(true);
  shownMarks = marks;
  time.show();
  const isNewView = place !== shownView;
  show(isNewView && isConnected());
  if (isNewView && isConnected()) refreshView(true);
  if (name !== shownName) {
    refreshAnswer(true);
    if (name) byId("answer-title").focus({ preventScroll: true });
    else if (address.currentView() === "services") map.focusRow();
    else document.querySelector("nav [aria-current]").focus();
  }
  [shownName, shownView] = [name, place];
}

// === Start ===

time.start();

address.start(navigate);
filters.start();
map.start();
startTips();
byId("by-zone").addEventListener("change", ({ target }) => address.go(address.here({ zone: target.value })));
addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, select");
  if (event.key === "Escape" && !isTyping) address.go(address.here({ name: "" }));
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  byId("search").focus();
  byId("search").select();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  address.go(address.lastAddressOf("services"));
  map.focusRow();
});
isNarrow.addEventListener("change", () => show(false));

const showClock = () => setText(byId("clock"), `${secondsOf(address.moment())} ${zone}`);
setInterval(showClock, 1000);
setInterval(refreshTimes, 15000);
setInterval(() => document.hidden || time.show(), 5000);
setInterval(refreshTime, 60000);

showClock();
navigate();
start({
  loaded() {
    const isPast = address.isPast();
    if (isPast) connection = "past";
    else if (connection !== "polling") connection = "live";
    refusal = undefined;
    show(false);
    if (!isPast) changes.forget();
    refreshAnswer(isPast);
    refreshView(isPast);
    refreshTime();
  },
  unknown({ message }) {
    [connection, refusal] = ["past", message];
    model.forget();
    show(false);
    refreshAnswer(true);
  },
  followed(hasStream) {
    connection = hasStream ? "live" : "polling";
    showHead();
  },
  update(changed) {
    show(false);
    refreshTime();
    const row = model.rowOfName(address.parameter("name"));
    if (!row || changed.has(row.key) || changed.size === 0) refreshAnswer();
    if (address.currentView() === "problems") refreshView();
  },
  change(event) {
    changes.add(event);
    const row = model.rowOfName(address.parameter("name"));
    if (!row || !event.services || event.services.includes(row.key)) refreshAnswer();
    if (address.currentView() === "changes") refreshView();
  },
  lost() {
    connection = "lost";
    show(false);
  },
});
