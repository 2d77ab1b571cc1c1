// The map: a row for each service, a column for each cluster. Only the visible rows are in the document.

import * as address from "./address.js";
import { announce, button, byId, element, icon, link, replace, setIcon, setText } from "./dom.js";
import { isFiltered, matching } from "./filters.js";
import * as model from "./model.js";
import { serviceAddress } from "./problem.js";
import { STATES, colorOfState, count, counted, isTrouble, labelOf, rank, shapeOfColor, shapeOfState, sinceWords, timeOf } from "./words.js";

/** Rows above and below the visible ones, so that a fast scroll shows no gap. */
const MARGIN = 8;
/** Columns of clusters at most. */
const MOST_COLUMNS = 40;
/** How long a changed row is marked, in milliseconds. */
const MARKED = 2500;
/** Pixels of the column of kinds. */
const KIND = 150;

const scroll = byId("scroll");
const map = byId("map");

/** The rows that match the filters: those in trouble first. */
let shown = [];
let columns = [];
/** Clusters without a column. */
let hidden = 0;
/** The label of each column's cluster. */
let labels = new Map();
/** What the heads show, to make them again only if it changed. */
let headsMark;
/** Key of the row that the keyboard is at, and of the row whose answer is open. */
let active, open;
/** Rows in the document: their elements and the index of the first one. */
let rows = [];
let first = 0;
let spare = [];
let before, after;
/** Height of a row and width of a cluster's column, in pixels. */
let height = 34;
let cellWidth = 0;

// === Start ===

export function start() {
  const body = map.tBodies[0];
  [before, after] = [0, 1].map(() => element("tr", { class: "space", "aria-hidden": "true" }, element("td")));
  body.append(before, after);
  scroll.addEventListener("scroll", render, { passive: true });
  new ResizeObserver(() => {
    showColumns();
    render();
  }).observe(byId("services"));
  scroll.addEventListener("keydown", moveByKey);
  body.addEventListener("click", openByClick);
  body.addEventListener("focusin", ({ target }) => (active = keyAt(target)));
  byId("legend").append(...STATES.toReversed().map((state) => element("li", {}, icon(shapeOfState(state), state === "alive" ? "fine" : "idle"), labelOf(state))));
}

// === Data ===

/** Shows the services that match the filters. `isByReader` says that the reader changed a filter. */
export function show(isByReader = false) {
  const wasOpen = open;
  const anchor = shown[Math.floor(scroll.scrollTop / height)]?.key;
  const offset = scroll.scrollTop % height;
  const groups = [[], [], []];
  for (const row of matching()) groups[2 - rank(model.levelOf(row))].push(row);
  shown = groups.flat();
  open = model.rowOfName(address.parameter("name"))?.key;
  map.setAttribute("aria-rowcount", shown.length + 1);
  showBlank();
  showColumns();
  if (isByReader) {
    scroll.scrollTop = 0;
    announce("count", counted(shown.length, "service"));
  } else if (scroll.scrollTop > 0) {
    // Rows that come or go above the visible ones do not move these.
    const index = shown.findIndex(({ key }) => key === anchor);
    if (index >= 0) scroll.scrollTop = index * height + offset;
  }
  if (open && open !== wasOpen) reveal(shown.findIndex(({ key }) => key === open));
  if (!shown.some(({ key }) => key === active)) active = shown[0]?.key;
  render();
  rows.forEach((row, index) => fill(row, first + index));
}

/** Returns how many services are shown, of how many. */
export const countText = () => `${shown.length < model.all().length ? `${count(shown.length)} of ` : ""}${count(model.all().length)}`;

function showBlank() {
  const isEmpty = shown.length === 0;
  const isLeft = isEmpty && scroll.contains(document.activeElement);
  scroll.hidden = isEmpty;
  byId("legend").hidden = isEmpty;
  byId("blank").hidden = !isEmpty;
  const parts = isEmpty ? describeBlank() : [];
  const text = parts.map((part) => part.textContent).join("");
  // The same text keeps the focus of its button.
  if (text !== byId("blank").textContent) byId("blank").replaceChildren(...parts);
  if (isLeft) byId("blank").querySelector("button:last-child")?.focus();
}

/** Describes why the map is empty. */
function describeBlank() {
  const head = model.headOf();
  const text = (title, ...sentences) => [element("h2", {}, title), ...sentences.map((text) => element("p", {}, text))];
  if (!head) return document.body.dataset.link === "lost" ? text("Cannot reach the server", "Trying again.") : text("Loading");
  if (head.state === "loading") return text("Waiting for the first complete table", "Until then, every query is answered with SERVFAIL.");
  if (!isFiltered()) {
    return text("No services yet", "A service appears as soon as a link mirrors it into this cluster.", "If one is missing, type its name above.");
  }
  const search = address.parameter("q").trim();
  const parts = text("No service matches");
  if (search && !/\s/.test(search)) {
    parts.push(button({}, () => address.go(address.here({ name: search })), `Explain ${search}`));
  }
  return [...parts, button({ class: "plain" }, () => address.go("#/"), "Clear the filters")];
}

// === Columns ===

/** Returns the clusters that have a column: the chosen one is always among them. */
function clustersOfColumns() {
  const all = model.clustersByTrouble();
  const chosen = all.findIndex(({ name }) => name === address.parameter("cluster"));
  if (chosen >= MOST_COLUMNS) all.splice(1, 0, ...all.splice(chosen, 1));
  hidden = Math.max(0, all.length - MOST_COLUMNS);
  return all.slice(0, MOST_COLUMNS);
}

function showColumns() {
  if (!model.headOf() || !scroll.clientWidth) return;
  const hadRest = hidden > 0;
  const clusters = clustersOfColumns();
  const style = getComputedStyle(scroll);
  height = parseFloat(style.getPropertyValue("--row"));
  const fixed = parseFloat(style.getPropertyValue("--fixed"));
  const font = `600 13px ${style.fontFamily}`;
  let plan = layout(clusters, scroll.clientWidth - fixed, font);
  // The kind is the least important column. Without it, names may fit.
  const isDense = plan.isTurned;
  if (isDense) plan = layout(clusters, scroll.clientWidth - fixed + KIND, font);
  const mark = JSON.stringify([clusters, hidden, plan, address.parameter("cluster"), address.currentView()]);
  if (mark === headsMark) return;
  headsMark = mark;
  const names = clusters.map(({ name }) => name);
  if (names.join() !== columns.join() || hadRest !== hidden > 0 || !rows.length) {
    drop(rows.length, 0);
    spare = [];
  }
  columns = names;
  labels = new Map(names.map((name, index) => [name, plan.labels[index]]));
  const title = (text, css) => element("th", { scope: "col", class: css }, text);
  const titles = [title("Service", "service"), title("Answer", "result"), title("Kind", "kind"), title("Clusters", "trouble")];
  const heads = clusters.map((cluster, index) => headOf(cluster, plan.labels[index]));
  if (hidden) heads.push(headOfRest(hidden));
  replace(map.tHead, element("tr", { "aria-rowindex": 1 }, ...titles, ...heads));
  map.querySelector("colgroup").replaceChildren(...[...titles, ...heads].map(({ className }) => element("col", { class: className })));
  cellWidth = plan.width;
  map.classList.toggle("dense", isDense);
  map.classList.toggle("turned", plan.isTurned);
  map.classList.toggle("narrow", plan.width < 100);
  map.style.setProperty("--cell", `${plan.width}px`);
  map.style.setProperty("--head", `${plan.height ?? 34}px`);
  map.style.setProperty("--clusters", heads.length);
}

// === Heads: names of clusters, as short and as upright as the width permits, and the states of their links ===

/** Pixels: the narrowest and the widest column of a cluster, the space in it around its name, and the longest turned name. */
const NARROW = 62;
const WIDE = 150;
const SPACE = 22;
const LONGEST = 230;
/** A prefix that is not longer is not worth an ellipsis. */
const SHORT_PREFIX = 3;

/** Addresses that belong to no one cluster. */
const labelOfCluster = (name) => name || "shared";

const context = document.createElement("canvas").getContext("2d");

/**
 * Returns how the columns are set: their width, the label of each cluster, and whether the labels are turned and how high the
 * heads are then.
 */
function layout(clusters, available, font) {
  context.font = font;
  const width = Math.min(WIDE, Math.max(NARROW, Math.floor(available / Math.max(1, clusters.length))));
  const longest = (labels) => Math.max(0, ...labels.map((label) => context.measureText(label).width));
  const full = clusters.map(({ name }) => labelOfCluster(name));
  if (longest(full) <= width - SPACE) return { width, labels: full, isTurned: false };
  const short = withoutPrefix(full);
  const length = longest(short);
  if (length <= width - SPACE) return { width, labels: short, isTurned: false };
  return { width, labels: short, isTurned: true, height: Math.ceil(Math.min(LONGEST, length + SPACE) * Math.SQRT1_2) + 30 };
}

/** Removes what the names of most clusters start with, up to a separator. The cluster of the server may be named differently. */
function withoutPrefix(names) {
  const prefix = commonPrefix(names) || commonPrefix(names.slice(1));
  if (prefix.length <= SHORT_PREFIX) return names;
  return names.map((name) => (name.startsWith(prefix) && name !== prefix ? `…${name.slice(prefix.length)}` : name));
}

function commonPrefix([first, ...others]) {
  if (!others.length) return "";
  let length = 0;
  while (length < first.length && others.every((name) => name[length] === first[length])) length += 1;
  return first.slice(0, length).replace(/[^-._]*$/, "");
}

/** Returns the head of a cluster's column: a link that shows only the services of this cluster. */
function headOf(cluster, label) {
  const { name, isOwn, link: state } = cluster;
  const isTroubled = model.TROUBLED_LINKS.has(state);
  const filtered = address.currentView() === "services" && address.parameter("cluster");
  const hint = isOwn ? "this cluster" : state;
  const tip = `${name ? `Cluster ${name}` : "Addresses of no one cluster"}${hint ? `: ${hint}${sinceWords(cluster)}` : ""}`;
  const parts = [element("span", {}, label)];
  if (isOwn) parts.push(element("small", {}, "here"));
  if (isTroubled) parts.push(element("small", { class: "attention" }, icon("attention"), ` ${state}`));
  const to = address.addressOf("services", { cluster: filtered === name ? "" : name });
  const inside = name ? link(to, ...parts) : element("span", { tabindex: 0 }, ...parts);
  inside.dataset.tip = tip;
  // The address of the link changes when it is followed.
  inside.dataset.focus = `cluster ${name}`;
  return element("th", { scope: "col", class: "cell", abbr: labelOfCluster(name) }, inside);
}

/** Returns the head after the last column if some clusters have none. */
function headOfRest(number) {
  const tip = `${counted(number, "cluster")} without a column. Choose one in the filters to see it.`;
  return element("th", { scope: "col", class: "cell rest" }, element("span", { tabindex: 0, "data-tip": tip, "data-focus": "rest" }, `+${count(number)} more`));
}

// === Rows ===

/** Puts the visible rows into the document. Rows that stay visible are not touched, so they keep the focus. */
function render() {
  const from = Math.max(0, Math.min(Math.floor(scroll.scrollTop / height) - MARGIN, shown.length - 1));
  const to = Math.min(shown.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / height) + MARGIN);
  drop(Math.max(0, Math.min(rows.length, from - first)), Math.max(0, Math.min(rows.length, first + rows.length - to)));
  if (rows.length === 0) first = from;
  while (first > from) {
    const row = take(--first);
    rows.unshift(row);
    before.after(row);
  }
  while (first + rows.length < to) {
    const row = take(first + rows.length);
    rows.push(row);
    after.before(row);
  }
  // The turned heads of the first columns reach over the head of the services, unless the columns are scrolled.
  map.classList.toggle("scrolled", scroll.scrollLeft > 0);
  before.style.height = `${first * height}px`;
  after.style.height = `${Math.max(0, shown.length - first - rows.length) * height}px`;
}

/** Removes rows from the start and the end of those in the document. */
function drop(fromStart, fromEnd) {
  const dropped = [...rows.splice(0, fromStart), ...rows.splice(Math.max(0, rows.length - fromEnd), fromEnd)];
  first += fromStart;
  for (const row of dropped) {
    // The focus must not leave the map because of a scroll.
    if (row.contains(document.activeElement)) scroll.focus({ preventScroll: true });
    row.remove();
    spare.push(row);
  }
}

function take(index) {
  const row = spare.pop() ?? blankRow();
  fill(row, index);
  return row;
}

function blankRow() {
  const cell = () => element("td", { class: "cell", tabindex: -1 }, icon("alive"), element("span"), element("span", { class: "unseen" }));
  return element(
    "tr",
    {},
    element("th", { scope: "row", class: "service" }, icon("fine"), element("a", {}, element("b"), element("i"))),
    element("td", { class: "result" }),
    element("td", { class: "kind" }),
    element("td", { class: "trouble" }, element("div")),
    ...columns.map(cell),
    hidden ? element("td", { class: "rest" }) : undefined,
  );
}

function fill(row, index) {
  const service = shown[index];
  const level = model.levelOf(service);
  const isOpen = service.key === open;
  // A row that shows the same already is not touched.
  const mark = `${index} ${service.mark} ${level} ${isOpen} ${service.key === active} ${cellWidth} ${serviceAddress(service.key)}`;
  if (row.mark === mark) return;
  row.mark = mark;
  row.setAttribute("aria-rowindex", index + 2);
  row.className = `${level} ${isOpen ? "open" : ""} ${performance.now() - service.changed < MARKED ? "changed" : ""}`;
  const [head, result, kind, trouble, ...cells] = row.children;
  const [shape, link] = head.children;
  setIcon(shape, level, level);
  link.setAttribute("href", serviceAddress(service.key));
  link.tabIndex = service.key === active ? 0 : -1;
  if (isOpen) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  setText(link.firstChild, service.service);
  setText(link.lastChild, `.${service.namespace}`);
  setText(result, resultOf(service));
  result.classList.toggle("failed", level === "failing");
  setText(kind, kindOf(service));
  kind.dataset.tip = kind.textContent;
  fillTrouble(trouble, service, level);
  columns.forEach((cluster, column) => fillCell(cells[column], cluster, service.cells.get(cluster), level));
}

function kindOf({ kind, failover }) {
  return failover ? `${kind}, step ${failover.step} of ${failover.steps}` : kind;
}

/** Returns what a query for the name gets: how many of the endpoints, or why none. */
function resultOf({ result, returned, endpoints }) {
  if (model.isSilent()) return "SERVFAIL";
  return result === "NOERROR" ? `${count(returned)} of ${count(endpoints)}` : result;
}

/** Names the first cluster in trouble and counts the others, for windows that are too narrow for a column of each cluster. */
function fillTrouble(node, service, level) {
  const [cell, ...others] = [...service.cells.values()].filter(({ state }) => isTrouble(state));
  if (!cell) {
    const text = level === "fine" ? counted(service.cells.size, "cluster") : resultOf(service);
    return node.firstChild.replaceChildren(element("span", { class: level === "fine" ? "soft" : level }, text));
  }
  const text = cell.endpoints ? `${cell.alive}/${cell.endpoints} ${labelOf(cell.state)}` : labelOf(cell.state);
  const name = labels.get(cell.cluster) ?? labelOfCluster(cell.cluster);
  const parts = [icon(shapeOfState(cell.state), colorOfState(cell.state, false, level)), element("span", { class: "name" }, name), " "];
  if (others.length) parts.push(element("small", {}, `+${others.length}`), " ");
  node.firstChild.replaceChildren(...parts, element("span", { class: "words" }, text));
}

function fillCell(node, cluster, cell, level) {
  const [shape, number, words] = node.children;
  node.className = "cell";
  if (!cell) {
    node.classList.add("none");
    delete node.dataset.tip;
    setText(number, "");
    return setText(words, "no endpoint");
  }
  const color = colorOfState(cell.state, cell.returned > 0, level);
  if (isTrouble(cell.state)) node.classList.add(`in-${color}`);
  setIcon(shape, shapeOfState(cell.state), color);
  setText(number, cell.endpoints ? `${cell.alive}/${cell.endpoints}` : wordOf(cell));
  const counts = cell.endpoints ? `; ${cell.alive} of ${counted(cell.endpoints, "endpoint")} alive, ${cell.returned} returned` : "";
  const text = `${labelOf(cell.state)}${cell.state === "alive" ? "" : sinceWords(cell)}${counts}`;
  setText(words, ` ${text}`);
  node.dataset.tip = `${labelOfCluster(cluster)}: ${text}`;
}

/** Returns the state of a cluster without endpoints, as long as the column permits. */
function wordOf({ state, since }) {
  const words = since ? [`${labelOf(state)} ${timeOf(since)}`, labelOf(state)] : [labelOf(state)];
  return words.find((word) => 30 + 8 * word.length <= cellWidth) ?? "";
}

// === Keyboard and mouse ===

const keyAt = (node) => shown[Number(node.closest("tr").getAttribute("aria-rowindex")) - 2]?.key;
const indexOfActive = () => Math.max(0, shown.findIndex(({ key }) => key === active));

/** Moves the focus to a row, and to one of its cells. The first one is the link. */
export function focusRow(index = indexOfActive(), column = 0) {
  if (shown.length === 0) return byId("search").focus();
  const at = Math.max(0, Math.min(index, shown.length - 1));
  active = shown[at].key;
  reveal(at);
  render();
  rows.forEach((row, index) => fill(row, first + index));
  const row = rows[at - first];
  const target = column ? row?.querySelectorAll(".cell")[column - 1] : row?.querySelector("a");
  target?.focus({ preventScroll: !column });
}

/** Scrolls as little as it takes to make a row visible. */
function reveal(index) {
  if (index < 0) return;
  const bottom = (index + 1) * height + map.tHead.offsetHeight - scroll.clientHeight;
  if (index * height < scroll.scrollTop) scroll.scrollTop = index * height;
  else if (bottom > scroll.scrollTop) scroll.scrollTop = bottom;
}

function moveByKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("thead")) return;
  const page = Math.max(1, Math.floor(scroll.clientHeight / height) - 2);
  const isInRow = event.target !== scroll;
  const steps = { ArrowDown: isInRow ? 1 : 0, ArrowUp: isInRow ? -1 : 0, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const sides = { ArrowLeft: -1, ArrowRight: 1 };
  const row = isInRow && event.target.closest("tr");
  const column = row ? [...row.querySelectorAll(".cell")].indexOf(event.target.closest(".cell")) + 1 : 0;
  if (event.key in steps) focusRow(indexOfActive() + steps[event.key], column);
  else if (row && event.key in sides) focusRow(indexOfActive(), Math.max(0, Math.min(columns.length, column + sides[event.key])));
  else if (row && column && event.key === "Enter") row.querySelector("a").click();
  else return;
  event.preventDefault();
}

function openByClick(event) {
  const row = event.target.closest("tr");
  const isSelecting = !getSelection().isCollapsed;
  if (!row || row.classList.contains("space") || isSelecting || event.target.closest("a")) return;
  active = keyAt(row);
  row.querySelector("a").click();
}
