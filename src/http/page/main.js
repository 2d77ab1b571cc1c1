// Starts the page, loads what the address names, and loads it again when the server says that it has changed.

import { go, here, inZone, isPast, moment, parameter, serviceOf, setSuffixes, start as startAddress, suffix } from "./address.js";
import * as answer from "./answer.js";
import { Refused, Unreachable, follow, isFollowing, load, sections } from "./api.js";
import * as changes from "./changes.js";
import * as cluster from "./cluster.js";
import { announce, byId, element, link, replace, setOptions, setText } from "./dom.js";
import * as problems from "./problem.js";
import * as table from "./table.js";
import { ZONE, colorOfImpact, count, counted, exactTime, timeOf, upper, withTimes } from "./words.js";

/** Milliseconds between two loads, however often something changes, and until the problems of the server are loaded again. */
const SPACING = 1000;
const POLL = 10000;
/** Seconds of silence of a watch after which the page says of when the answers are: the API server may hang. */
const SILENCE = 15;

let status;
let causes = [];
/** The version of the current table, as the stream has told. */
let version;
/** Since when there is no connection, and why the moment of the address cannot be shown. */
let lostSince, refusal;
/** What must be loaded again. */
const PLACE = { rows: true, answer: true };
const ALL = { ...PLACE, changes: true };
const stale = { ...ALL };
let [timer, isLoading, last] = [undefined, false, -SPACING];

/** Loads what is stale, at once or when the spacing is over. */
function request(parts = {}, isUrgent = false) {
  Object.assign(stale, parts);
  if (isUrgent) last = -SPACING;
  if (isLoading || document.hidden) return;
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, last + SPACING - performance.now()));
}

async function refresh() {
  isLoading = true;
  last = performance.now();
  const wanted = { ...stale };
  const place = here({});
  Object.assign(stale, { rows: false, answer: false, changes: false });
  try {
    const isFirst = !status;
    // A search may contain the zone, which the status names.
    if (isFirst) await showStatus();
    const loaded = await Promise.allSettled([isFirst || showStatus(), wanted.changes && changes.refresh(), wanted.rows && table.refresh(version)]);
    for (const { reason } of loaded) if (reason) throw reason;
    [lostSince, refusal] = [undefined, undefined];
    if (wanted.answer || stale.answer) await (parameter("name") ? answer.refresh() : openCluster() && cluster.refresh());
    stale.answer = false;
  } catch (error) {
    Object.assign(stale, wanted);
    if (error instanceof Refused) showRefusal(error);
    else if (error instanceof Unreachable) lostSince ??= new Date();
    else console.error(error);
  }
  isLoading = false;
  show();
  // Meanwhile, the reader has gone to another place, or the server has changed. What failed waits for the next interval.
  const isNewer = !isPast() && version > status?.tables;
  if (here({}) !== place) request(PLACE, true);
  else if (!lostSince && !refusal && (stale.rows || stale.answer || isNewer)) request(isNewer ? PLACE : {});
}

/** Loads the state of the server and the causes of its problems. */
async function showStatus() {
  const [found, list] = await Promise.all([load("status"), load("problems", { limit: 1 })]);
  [status] = found.items;
  setSuffixes(status.nameSuffixes, status.ownSuffix);
  for (const part of [table, changes, answer]) part.showStatus(status);
  const before = JSON.stringify(causes);
  causes = problems.showCauses(sections(list).causes ?? []);
  if (before !== JSON.stringify(causes)) stale.answer = true;
}

/** The server does not know the moment of the address, or a filter is none. */
function showRefusal({ message }) {
  [lostSince, refusal] = [undefined, upper(message)];
  table.forget();
  causes = problems.showCauses([]);
}

/** Returns the sentence, and what follows it. */
function sentences() {
  if (refusal) return [element("span", {}, ...withTimes(refusal))];
  if (lostSince) return [status ? `Disconnected since ${timeOf(lostSince)}: this is the last known state` : "Cannot reach the server"];
  if (!status) return ["Loading"];
  const source = sentenceOfSource();
  if (status.state === "loading") return [source ?? "No answers yet: there is no complete table"];
  const { ok, attention, failing } = status.services;
  const verb = (number, one, many) => (number === 1 ? one : many);
  const to = (state, text) => link(here({ state, cluster: "", namespace: "", q: "" }), text);
  const troubled = [
    failing && to("failing", `${counted(failing, "service")} ${verb(failing, "fails", "fail")}`),
    attention && to("attention", `${failing ? count(attention) : counted(attention, "service")} ${verb(attention, "needs", "need")} attention`),
  ].filter(Boolean);
  const all = counted(ok + attention + failing, "service");
  const ofServices = troubled.flatMap((part, index) => (index ? [", ", part] : [part]));
  if (source) return [source, ...(ofServices.length ? ofServices : [all])];
  if (ofServices.length) return [element("span", {}, ...ofServices), all];
  if (status.level !== "ok") return [`${counted(causes.length, "problem")} ${verb(causes.length, "needs", "need")} attention`, `All names are answered; ${all}`];
  return [ok ? `All names are answered${asOf()}` : "No services yet", all];
}

/** Says of when the answers are, if the API server has been silent for a while. It may hang. */
function asOf() {
  const heard = new Date(Date.parse(status.time) - status.age * 1000);
  return isPast() || status.age < SILENCE ? "" : `, as of ${exactTime(heard)}`;
}

/** Says that the answers are old, if the source cannot be read. One dead API server is one sentence. */
function sentenceOfSource() {
  const cause = problems.causeOfSource();
  if (!cause) return undefined;
  const isWhole = !cause.subject || status.watches.every((watch) => cause.subject.includes(watch)) || / more$/.test(cause.subject);
  const source = isWhole ? "the API server" : cause.subject;
  const effect = status.state === "loading" ? "there are no answers yet" : "the answers are those of then";
  return `Cannot read ${source} since ${timeOf(cause.since)}; ${effect}`;
}

function levelOf() {
  if (refusal) return "attention";
  return lostSince || status?.state === "loading" ? "failing" : status ? colorOfImpact(status.level) : "idle";
}

/** Says what was answered within the last hour and is not any more. */
const gone = () => (isPast() ? [] : (status?.gone ?? [])).map(({ namespace, since, what }) => `; gone since ${timeOf(since)} of ${namespace}: ${what}`).join("");

let spoken;

function showHeadline() {
  const level = levelOf();
  const [sentence, ...rest] = sentences();
  byId("headline").className = level;
  byId("sentence").className = `mark s-${level === "idle" ? "note" : level}`;
  replace(byId("sentence"), sentence);
  replace(byId("rest"), ...rest, gone());
  const text = byId("sentence").textContent.replace(/, as of .*/, "");
  if (spoken !== undefined && spoken !== text) announce(text);
  spoken = text;
  document.title = status ? `${level === "ok" ? "" : `${text} – `}${status.cluster} – global-dns` : "global-dns";
}

function showHeader() {
  const connection = lostSince ? "lost" : !status ? "connecting" : isPast() ? "past" : isFollowing() ? "live" : "polling";
  document.body.dataset.connection = connection;
  setText(byId("connection"), { connecting: "Connecting", lost: "Disconnected", past: "Past", live: "Live", polling: "Every 10 s" }[connection]);
  byId("past").hidden = !isPast();
  setText(byId("past-text"), `Shows ${exactTime(moment())} ${ZONE}, not now.`);
  showClock();
  if (!status) return;
  setText(byId("own-cluster"), status.cluster);
  byId("own-cluster").title = `global-dns ${status.version}`;
  setText(byId("replica"), status.replica || "–");
  setOptions(byId("zone"), status.nameSuffixes.map((one) => [one, one]), suffix());
}

const showClock = () => setText(byId("clock"), `${exactTime(moment())} ${ZONE}`);

/** If the window is as narrow, the answer covers everything else. */
const isNarrow = matchMedia("(max-width: 960px)");

function show() {
  showHeader();
  showHeadline();
  problems.show();
  if (status) table.show();
  changes.showBar();
  showAside();
}

/** Returns the cluster whose page is open, or an empty text. */
const openCluster = () => (parameter("show") === "cluster" && !parameter("name") ? parameter("cluster") : "");

/** Shows the answer of the name of the address, a cluster, or the last changes. */
function showAside() {
  const name = parameter("name");
  const shownCluster = openCluster();
  const isOpen = Boolean(name || parameter("show"));
  document.body.classList.toggle("with-aside", isOpen);
  byId("aside").hidden = !isOpen;
  for (const part of document.querySelectorAll("header, #past, #rest, #causes, #services")) part.inert = isOpen && isNarrow.matches;
  setText(byId("title"), name || (shownCluster ? `Cluster ${shownCluster}` : "Recent changes"));
  byId("close").href = here({ name: "", show: "", cluster: shownCluster ? "" : parameter("cluster") });
  byId("to-changes").href = here({ show: "changes", name: "" });
  answer.open(name);
  if (isOpen && !name) replace(byId("content"), ...(shownCluster ? cluster.parts(shownCluster) : [changes.recent()]));
}

let [shownName, shownTime] = ["", ""];

/** Shows the place that the address names now. */
function navigate() {
  const name = parameter("name");
  if (parameter("at") !== shownTime) version = undefined;
  shownTime = parameter("at");
  show();
  request(PLACE, true);
  if (name === shownName) return;
  if (name) byId("title").focus({ preventScroll: true });
  else table.focusRow(serviceOf(shownName));
  shownName = name;
}

function startKeys() {
  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, select");
    if (event.key === "Escape" && !isTyping) go(here({ name: "", show: "" }));
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    byId("search").select();
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    table.focusRow();
  });
}

const onMessage = {
  table({ version: newest, services }) {
    version = newest;
    showHeader();
    // The first message says what the page is about to load.
    if (isPast() || (!services && status?.tables === newest) || !status) return;
    const own = serviceOf(parameter("name"));
    const isStale = { rows: !services || table.concerns(services), answer: !services || !own || services.includes(own) };
    request({ rows: stale.rows || isStale.rows, answer: stale.answer || isStale.answer });
  },
  change(event) {
    changes.add(event);
    changes.showBar();
    showAside();
  },
  reset: () => request(ALL),
  error: () => request(),
};

startAddress(navigate);
changes.startBar();
table.start(() => request({ rows: true }, true));
startKeys();
byId("zone").addEventListener("change", ({ target }) => go(here({ zone: target.value, name: inZone(parameter("name"), target.value) })));
isNarrow.addEventListener("change", showAside);
document.addEventListener("visibilitychange", () => {
  follow(onMessage);
  request(ALL, true);
});
setInterval(showClock, 1000);
setInterval(() => (isPast() && !lostSince ? undefined : request(isFollowing() ? {} : ALL)), POLL);
follow(onMessage);
navigate();
