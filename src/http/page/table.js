// The services × clusters: one page of rows, those with trouble first, as the server orders them.

import { clusterAddress, go, here, parameter, serviceAddress, serviceOf, suffix, withoutZone } from "./address.js";
import { load, sections } from "./api.js";
import { announce, byId, button, element, link, marked, replace, separated, setOptions } from "./dom.js";
import { colorOfState, count, counted, durationText, isTrouble, labelOf, natural, sinceText } from "./words.js";

/** Rows of a page, and columns of clusters: more would be more elements than a browser handles at once. */
const LIMIT = 80;
const MOST_CLUSTERS = 15;
/** Clusters that a row on a phone names. */
const NAMED = 3;
/** Pixels that a name of 13 px takes for each character, a column with a turned name, and all other columns. */
const CHARACTER = 7.5;
const TURNED = 58;
const FIXED = { alone: 480, besideAnswer: 290 };

/** The rows, the clusters and the numbers of services that the server has told. */
let rows = [];
let clusters = [];
let more = 0;
let services = {};
/** `continue` of this page, and of those before it. Its first part is the version of the table, which a reload replaces. */
let pages = [""];
let next;
/** The filters of these rows, and the number of the last request. */
let filters;
let request = 0;

/** Shows the clusters and the numbers of services of the status. */
export function showStatus(status) {
  clusters = status.clusters;
  more = status.moreClusters;
  services = status.services;
}

const keyOf = ({ namespace, service }) => `${namespace}/${service}`;

/** Returns whether rows change with these services. On the first page, any service may come. */
export const concerns = (keys) => pages.length === 1 || rows.some((row) => keys.includes(keyOf(row)));

/** Returns what the server searches: a text without the zone. It has no upper case in its names. */
function searched(search = parameter("q")) {
  const text = search.trim().toLowerCase();
  return withoutZone(text) ?? text;
}

/** Loads the rows of this page, or the first page if the filters are new. `version` is that of the current table. */
export async function refresh(version) {
  const wanted = { namespace: parameter("namespace"), cluster: parameter("cluster"), state: parameter("state"), text: searched() };
  const mark = JSON.stringify([wanted, parameter("at")]);
  if (mark !== filters) pages = [""];
  const [place] = pages.slice(-1);
  const current = version && !parameter("at") ? place.replace(/^\d+/, version) : place;
  const own = ++request;
  let document;
  try {
    document = await load("table", { ...wanted, limit: LIMIT, continue: current });
  } catch (error) {
    // The table of this page is not known any more.
    if (error.status !== 410 || !place) throw error;
    pages = [""];
    return refresh();
  }
  if (own !== request) return;
  rows = sections(document).services ?? [];
  next = document.continue;
  if (filters !== undefined && mark !== filters) announce(`${counted(rows.length, "service")}${next ? " and more" : ""}`);
  filters = mark;
}

/** Forgets the rows. */
export const forget = () => ([rows, next] = [[], undefined]);

export function show() {
  const known = knownClusters();
  const room = byId("services").clientWidth - FIXED[parameter("name") || parameter("show") ? "besideAnswer" : "alone"];
  // What has no room is counted, so that nothing is cut.
  const columns = columnsOf(known, Math.min(MOST_CLUSTERS, Math.max(3, Math.floor(room / TURNED) - 1)));
  const hidden = Math.max(known.length - columns.length, more);
  const length = Math.max(0, ...columns.map(({ name }) => name.length));
  const isTurned = columns.length * Math.max(110, length * CHARACTER + 30) > room;
  const open = serviceOf(parameter("name"));
  byId("map").classList.toggle("turned", isTurned);
  byId("scroll").hidden = !rows.length;
  replace(byId("map").tHead.rows[0], ...heads(columns, hidden));
  replace(byId("map").tBodies[0], ...rows.map((row) => rowOf(row, columns, hidden, keyOf(row) === open)));
  showPages();
  showFilters(known);
}

/** Returns the clusters that the server or a row names, this one first, those of no cluster last. */
function knownClusters() {
  const known = new Map(clusters.map((cluster) => [cluster.name, cluster]));
  for (const { cluster } of rows.flatMap((row) => row.clusters)) if (!known.has(cluster)) known.set(cluster, { name: cluster });
  const rank = ({ name, isOwn }) => (isOwn ? 0 : name ? 1 : 2);
  return [...known.values()].sort((one, other) => rank(one) - rank(other) || natural(one.name, other.name));
}

/** Returns whether nobody maintains the mirrors of a cluster. */
const isLost = ({ link: state }) => Boolean(state) && !["linked", "unknown"].includes(state);

/** Returns the clusters with a column. If there are too many: this one, that of the filter, and those with trouble. */
function columnsOf(known, most) {
  const cells = rows.filter(({ state }) => state !== "ok").flatMap((row) => row.clusters.filter(({ state }) => isTrouble(state)));
  const troubled = new Set([parameter("cluster"), ...cells.map(({ cluster }) => cluster)]);
  const [first, rest] = [true, false].map((isFirst) => known.filter((one) => (one.isOwn || isLost(one) || troubled.has(one.name)) === isFirst));
  const chosen = new Set([...first, ...rest].slice(0, most));
  return known.filter((cluster) => chosen.has(cluster));
}

/** Addresses that belong to no one cluster. */
const nameOf = (cluster) => cluster || "federated";

function heads(columns, hidden) {
  const head = (css, ...children) => element("th", { scope: "col", class: css }, ...children);
  const all = columns.map((cluster) => head("cell", headOf(cluster)));
  if (hidden) all.push(head("cell", element("span", { title: "Choose a cluster in the filter to see it" }, `+${count(hidden)} more`)));
  return [head("service", "Service ", element("small", {}, `.${suffix().replace(/\.$/, "")}`)), head("result", "Answer"), head("kind", "Kind"), head("clusters", "Clusters"), ...all, head("problem", "Problem")];
}

/** Returns the head of a cluster's column: a link to its page, or back to all clusters, and the state of its Links. */
function headOf({ name, isOwn, link: state, isMirrored, ...age }) {
  const isTroubled = !isOwn && isLost({ link: state });
  const hint = isOwn ? "here" : isMirrored === false ? `${state}, nothing mirrored` : state;
  const label = isTroubled ? marked("attention", "attention", nameOf(name)) : nameOf(name);
  const small = hint ? [" ", element("small", {}, isTroubled ? `${hint} ${durationText(age)}` : hint)] : [];
  const isOpen = parameter("cluster") === name && parameter("show") === "cluster" && !parameter("name");
  const to = isOpen ? here({ cluster: "", show: "" }) : clusterAddress(name);
  const head = name ? link(to, label, ...small) : element("span", {}, label);
  head.title = `${nameOf(name)} ${hint ?? ""} ${sinceText(age)}`.trim();
  head.dataset.focus = `cluster ${name}`;
  return head;
}

function rowOf(service, columns, hidden, isOpen) {
  const { namespace, service: name, state, answer, kind, failover, sentence, missingClusters } = service;
  const cells = new Map(service.clusters.map((cell) => [cell.cluster, cell]));
  const label = element("a", { href: serviceAddress(keyOf(service)), "data-focus": keyOf(service), "aria-current": isOpen ? "true" : undefined }, `${name}.${namespace}`);
  const troubled = service.clusters.filter((cell) => isTrouble(cell.state));
  const named = troubled.slice(0, NAMED).map((cell) => `${nameOf(cell.cluster)} ${textOf(cell)}`);
  if (troubled.length > NAMED) named.push(`${count(troubled.length - NAMED)} more`);
  const words = named.join(", ") || counted(service.clusters.length, "cluster");
  const isUnanswered = state === "failing" || (answer !== "NOERROR" && state !== "ok");
  const why = missingClusters ? `${sentence}: ${missingClusters.join(", ")}` : (sentence ?? "");
  return element(
    "tr",
    { class: state, "data-key": keyOf(service) },
    element("th", { scope: "row", class: `mark s-${state} ${state}` }, label),
    element("td", { class: isUnanswered ? `result ${state}` : "result" }, answer === "NOERROR" ? `${count(service.returned)} of ${count(service.endpoints)}` : answer),
    element("td", { class: "kind" }, failover ? `${kind}, step ${failover.step} of ${failover.steps.length}` : kind),
    element("td", { class: "clusters", title: words }, words),
    ...columns.map((cluster) => cellOf(cells.get(cluster.name), state)),
    hidden ? element("td", { class: "cell" }) : undefined,
    element("td", { class: "problem", title: why }, why),
  );
}

const numbersOf = ({ alive, endpoints }) => (endpoints ? `${count(alive)}/${count(endpoints)}` : "");
/** Returns how many endpoints are alive, and the state unless all are. */
const textOf = (cell) => [numbersOf(cell), cell.state === "alive" ? "" : labelOf(cell.state)].filter(Boolean).join(" ");

function cellOf(cell, service) {
  if (!cell) return element("td", { class: "cell soft" }, "–");
  const { cluster, state, alive, endpoints, returned } = cell;
  const color = colorOfState(state, returned > 0, service);
  const tip = `${nameOf(cluster)}: ${count(alive)} of ${counted(endpoints, "endpoint")} alive, ${count(returned)} returned; ${labelOf(state)} ${sinceText(cell)}`;
  return element("td", { class: `cell mark s-${state} ${color}${isTrouble(state) ? " trouble" : ""}`, title: tip }, ...separated(numbersOf(cell), state !== "alive" && element("span", { class: "word" }, labelOf(state))));
}

// === Pages and filters ===

function showPages() {
  const first = (pages.length - 1) * LIMIT;
  const total = (services.ok ?? 0) + (services.attention ?? 0) + (services.failing ?? 0);
  const all = isFiltered() ? "" : ` of ${count(total)}`;
  const turn = (change) => () => {
    change();
    turned();
  };
  const text = rows.length ? `Services ${count(first + 1)} to ${count(first + rows.length)}${all}` : "";
  replace(
    byId("pages"),
    element("span", {}, text),
    pages.length > 1 ? button("Previous", turn(() => pages.pop())) : undefined,
    next ? button("Next", turn(() => pages.push(next))) : undefined,
  );
  const search = parameter("q").trim();
  const blank = [
    element("h2", {}, isFiltered() ? "No service matches" : "No services yet"),
    isFiltered() ? undefined : element("p", {}, "A service appears as soon as a link mirrors it into this cluster. If one is missing, type its name above."),
    search && !/\s/.test(search) ? button(`Explain ${search}`, () => go(here({ name: search, show: "" }))) : undefined,
    isFiltered() ? button("Clear the filters", () => go(cleared())) : undefined,
  ];
  replace(byId("blank"), ...(rows.length || filters === undefined ? [] : blank));
}

const FILTERS = ["namespace", "cluster", "state", "q"];
const isFiltered = () => FILTERS.some((name) => parameter(name));
/** Returns the address without filters. */
const cleared = () => here(Object.fromEntries(FILTERS.map((name) => [name, ""])));

function showFilters(known) {
  const names = known.map(({ name }) => name).filter(Boolean).sort(natural);
  const namespaces = new Set(rows.map(({ namespace }) => namespace));
  const option = (name) => [name, name];
  setOptions(byId("cluster"), [["", "Cluster"], ...names.map(option)], parameter("cluster"));
  setOptions(byId("state"), [["", "State"], ["failing", "Failing"], ["attention", "Needs attention"], ["ok", "Fine"]], parameter("state"));
  replace(byId("namespaces"), ...[...namespaces].sort(natural).map((value) => element("option", { value })));
  for (const id of ["namespace", "search"]) {
    const value = parameter(id === "search" ? "q" : id);
    if (document.activeElement !== byId(id) && byId(id).value !== value) byId(id).value = value;
  }
  byId("clear").hidden = !isFiltered();
  byId("clear").href = cleared();
}

/** Milliseconds after the last letter before the server searches. */
const TYPING = 250;
let timer, turned;

/** Starts the filters and the search. `onTurned` is called when the reader wants another page. */
export function start(onTurned) {
  turned = onTurned;
  const filter = (changes) => go(here(changes), true);
  for (const id of ["namespace", "cluster", "state"]) {
    byId(id).addEventListener("change", ({ target }) => filter({ [id]: target.value.trim() }));
  }
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("search").addEventListener("input", ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(() => filter({ q: target.value }), TYPING);
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    const text = byId("search").value.trim();
    const meant = rows.find(({ service, namespace }) => `${service}.${namespace}` === searched(text)) ?? (rows.length === 1 && parameter("q") === text ? rows[0] : undefined);
    if (text) go(meant ? serviceAddress(keyOf(meant)) : here({ name: text, show: "" }));
  });
  byId("map").tBodies[0].addEventListener("click", ({ target }) => {
    if (!target.closest("a") && !getSelection().toString()) go(target.closest("tr").querySelector("a").getAttribute("href"));
  });
}

/** Moves the focus to the row whose answer was open, or to the first one. */
export function focusRow(key) {
  const all = [...byId("map").tBodies[0].rows];
  (all.find((row) => row.dataset.key === key) ?? all[0])?.querySelector("a").focus();
}
