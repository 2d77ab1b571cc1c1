// The map: a row for each service, a column for each cluster. Only the visible rows are in the document.

import { addressOf, announce, byId, element, icon, setIcon, setText } from "./dom.js";
import { count, counted, isAlive, isTrouble, labelOf, shapeOf, stateNames, worst } from "./words.js";

/** Rows above and below the visible ones, so that a fast scroll shows no gap. */
const MARGIN = 8;
/** How long a changed row is marked, in milliseconds. */
const MARKED = 2500;
/** Text of a column for addresses that belong to no one cluster. */
const SHARED = "shared";

let nameOf;
let services = [];
let shown = [];
let columns = [];
let hasFailover = false;
/** Services of the last table, by key, with a text that changes with the row. */
let previous = new Map();
/** Index of the row that the keyboard is at, and key of the row that is open. */
let active = 0;
let open;
/** Rows in the document: their elements and the index of the first one. */
let rows = [];
let first = 0;
let spare = [];
let before, after;

const scroll = byId("scroll");
const filters = { search: byId("search"), namespace: byId("by-namespace"), state: byId("by-state"), kind: byId("by-kind") };

// === Start ===

/** Prepares the map. `toName` returns the DNS name of a service. */
export function start(toName) {
  nameOf = toName;
  const body = byId("map").tBodies[0];
  [before, after] = [0, 1].map(() => element("tr", { class: "space", "aria-hidden": "true" }, element("td")));
  body.append(before, after);
  scroll.addEventListener("scroll", render, { passive: true });
  new ResizeObserver(measure).observe(scroll);
  scroll.addEventListener("keydown", moveByKey);
  body.addEventListener("click", openByClick);
  body.addEventListener("focusin", (event) => (active = indexOf(event.target)));
  for (const input of Object.values(filters)) input.addEventListener("input", () => filter(true));
  const option = (value, text) => element("option", { value }, text);
  filters.state.append(option("", "State"), option("trouble", "Needs attention"));
  filters.state.append(...stateNames.toReversed().map((state) => option(state, labelOf(state))));
  const sample = (state) => element("li", {}, icon(state), labelOf(state));
  byId("legend").append(...stateNames.toReversed().map(sample));
}

// === Data ===

/** Shows the services of `/api/v1/table`. `cluster` is the name of this cluster; its column comes first. */
export function showServices(list, cluster) {
  const now = performance.now();
  const isFirst = previous.size === 0;
  const current = new Map();
  const clusters = new Set();
  services = list.map((service) => {
    const row = rowOf(service, clusters);
    const old = previous.get(row.key);
    if (old?.mark === row.mark) row.changed = old.changed;
    else row.changed = isFirst ? undefined : now;
    current.set(row.key, row);
    return row;
  });
  previous = current;
  setColumns([...clusters].sort((one, other) => rank(one, cluster) - rank(other, cluster) || (one < other ? -1 : 1)), cluster);
  setOptions(filters.namespace, "Namespace", services.map((row) => row.namespace));
  setOptions(filters.kind, "Kind", services.map((row) => row.kind));
  filter(false);
}

const rank = (name, own) => (name === own ? 0 : name === "" ? 2 : 1);

function rowOf(service, clusters) {
  const cells = new Map();
  const states = new Set();
  for (const { cluster, state } of service.endpoints) {
    let cell = cells.get(cluster);
    if (!cell) cells.set(cluster, (cell = { alive: 0, known: 0, states: new Map() }));
    cell.known += 1;
    if (isAlive(state)) cell.alive += 1;
    cell.states.set(state, (cell.states.get(state) ?? 0) + 1);
    states.add(state);
  }
  for (const cluster of service.awaited ?? []) {
    if (cells.has(cluster)) continue;
    cells.set(cluster, { alive: 0, known: 0, states: new Map([["awaited", 1]]) });
    states.add("awaited");
  }
  let mark = `${service.kind} ${service.failover?.step}`;
  for (const [cluster, cell] of cells) {
    clusters.add(cluster);
    cell.state = worst(cell.states);
    mark += ` ${cluster} ${cell.alive}/${cell.known} ${cell.state}`;
  }
  const { namespace, service: name, kind, failover } = service;
  return { key: `${namespace}/${name}`, text: `${name}.${namespace}`, namespace, name, kind, failover, cells, states, mark };
}

/** Returns the service of a key, `namespace/service`. */
export const serviceOf = (key) => previous.get(key);

/** Returns the numbers of living and known endpoints. */
export function totals() {
  let [alive, known] = [0, 0];
  for (const { cells } of services) {
    for (const cell of cells.values()) [alive, known] = [alive + cell.alive, known + cell.known];
  }
  return [alive, known];
}

function setOptions(select, all, values) {
  const wanted = [...new Set(values)].sort();
  const now = [...select.options].slice(1).map((option) => option.value);
  if (select.options.length && wanted.join() === now.join()) return;
  const chosen = select.value;
  select.replaceChildren(element("option", { value: "" }, all), ...wanted.map((value) => element("option", { value }, value)));
  select.value = wanted.includes(chosen) ? chosen : "";
}

function setColumns(wanted, cluster) {
  const withFailover = services.some((row) => row.failover);
  if (wanted.join() === columns.join() && withFailover === hasFailover && byId("map").tHead.rows.length) return;
  [columns, hasFailover] = [wanted, withFailover];
  const head = (text, css, hint) =>
    element("th", { scope: "col", class: css }, element("span", {}, text), hint && element("small", {}, hint));
  const titles = [head("Service", "service"), head("Kind", "kind")];
  if (hasFailover) titles.push(head("Failover", "failover"));
  for (const name of columns) titles.push(head(name || SHARED, "cell", name === cluster ? "here" : undefined));
  const map = byId("map");
  map.tHead.replaceChildren(element("tr", { "aria-rowindex": 1 }, ...titles));
  map.querySelector("colgroup").replaceChildren(...titles.map((title) => element("col", { class: title.className })));
  map.style.setProperty("--clusters", columns.length);
  map.classList.toggle("with-failover", hasFailover);
  drop(rows.length, 0);
  spare = [];
}

// === Filters ===

function filter(isByUser) {
  const words = filters.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const [namespace, state, kind] = [filters.namespace.value, filters.state.value, filters.kind.value];
  const isShown = (row) =>
    (!namespace || row.namespace === namespace) &&
    (!kind || row.kind === kind) &&
    (!state || (state === "trouble" ? isTrouble(row.states) : row.states.has(state))) &&
    words.every((word) => row.text.includes(word));
  const isFiltered = words.length > 0 || namespace || state || kind;
  shown = isFiltered ? services.filter(isShown) : services;
  const text = isFiltered ? `${count(shown.length)} of ${count(services.length)}` : count(services.length);
  setText(byId("count"), services.length ? text : "");
  byId("map").setAttribute("aria-rowcount", shown.length + 1);
  if (isByUser) {
    [scroll.scrollTop, active] = [0, 0];
    announce(counted(shown.length, "service"));
  }
  active = Math.max(0, Math.min(active, shown.length - 1));
  showBlank();
  render();
  rows.forEach((row, index) => fill(row, first + index));
}

export function clearFilters() {
  for (const input of Object.values(filters)) input.value = "";
  filter(true);
}

let blank = () => undefined;
/** Sets the function that returns what to show instead of an empty map. */
export function setBlank(describe) {
  blank = describe;
  showBlank();
}

function showBlank() {
  const isEmpty = shown.length === 0;
  scroll.hidden = isEmpty;
  byId("blank").hidden = !isEmpty;
  byId("services").classList.toggle("is-empty", services.length === 0);
  const parts = (isEmpty && blank(services.length > 0)) || [];
  const text = parts.map((part) => part.textContent).join("");
  // The same text keeps the focus of its button.
  if (text !== byId("blank").textContent) byId("blank").replaceChildren(...parts);
}

// === Rows ===

/** Height of a row in pixels, as the style of the page defines it for the width of the window. */
let height = 34;

function measure() {
  height = parseFloat(getComputedStyle(scroll).getPropertyValue("--row"));
  render();
}

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
  const link = element("a", {}, element("b"), element("i"));
  const row = element("tr", {}, element("th", { scope: "row", class: "service" }, link, element("small")), element("td", { class: "kind" }));
  if (hasFailover) row.append(element("td", { class: "failover" }));
  const cell = () => element("td", { class: "cell" }, icon("answered"), element("span"), element("span", { class: "unseen" }));
  row.append(...columns.map(cell));
  return row;
}

function fill(row, index) {
  const service = shown[index];
  row.setAttribute("aria-rowindex", index + 2);
  row.classList.toggle("open", service.key === open);
  row.classList.toggle("changed", performance.now() - service.changed < MARKED);
  const [head, kind, ...rest] = row.children;
  const [link, small] = head.children;
  link.setAttribute("href", addressOf(nameOf(service.name, service.namespace)));
  link.tabIndex = index === active ? 0 : -1;
  if (service.key === open) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  setText(link.firstChild, service.name);
  setText(link.lastChild, `.${service.namespace}`);
  const step = service.failover ? `step ${service.failover.step} of ${service.failover.steps.length}` : "";
  setText(small, step ? `${service.kind}, ${step}` : service.kind);
  setText(kind, service.kind);
  if (hasFailover) setText(rest.shift(), step);
  columns.forEach((cluster, column) => fillCell(rest[column], service.cells.get(cluster)));
}

function fillCell(node, cell) {
  const [shape, number, words] = node.children;
  node.classList.toggle("none", !cell);
  if (!cell) {
    node.removeAttribute("title");
    setText(number, "");
    return setText(words, "no endpoint");
  }
  const parts = [...cell.states].map(([state, number]) => `${number} ${labelOf(state)}`);
  setIcon(shape, shapeOf(cell.state));
  setText(number, cell.known ? `${cell.alive}/${cell.known}` : "");
  setText(words, ` ${parts.join(", ")}`);
  node.title = parts.join(", ");
}

// === Keyboard and mouse ===

const indexOf = (node) => Number(node.closest("tr").getAttribute("aria-rowindex")) - 2;

/** Moves the focus to a row. */
export function focusRow(index = active) {
  if (shown.length === 0) return byId("search").focus();
  active = Math.max(0, Math.min(index, shown.length - 1));
  const head = byId("map").tHead.offsetHeight;
  const bottom = (active + 1) * height + head - scroll.clientHeight;
  if (active * height < scroll.scrollTop) scroll.scrollTop = active * height;
  else if (bottom > scroll.scrollTop) scroll.scrollTop = bottom;
  render();
  rows.forEach((row, at) => (row.querySelector("a").tabIndex = first + at === active ? 0 : -1));
  rows[active - first]?.querySelector("a").focus({ preventScroll: true });
}

function moveByKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor(scroll.clientHeight / height) - 2);
  const isInRow = event.target !== scroll;
  const steps = { ArrowDown: isInRow ? 1 : 0, ArrowUp: isInRow ? -1 : 0, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (!(event.key in steps)) return;
  event.preventDefault();
  focusRow(active + steps[event.key]);
}

function openByClick(event) {
  const row = event.target.closest("tr");
  const isSelecting = !getSelection().isCollapsed;
  if (row?.classList.contains("space") || isSelecting || event.target.closest("a")) return;
  if (!row) return;
  active = indexOf(row);
  row.querySelector("a").click();
}

/** Marks the row of the name that is explained. */
export function setOpen(key) {
  if (key === open) return;
  open = key;
  rows.forEach((row, index) => fill(row, first + index));
}
