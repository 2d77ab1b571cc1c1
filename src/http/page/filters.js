// The filters of the views, which are kept in the address bar; these inputs only show and change it. The search box filters the
// services while the reader types, and explains any name on Enter.

import * as address from "./address.js";
import { byId, setOptions } from "./dom.js";
import { focusRow } from "./map.js";
import * as model from "./model.js";
import { serviceAddress } from "./problem.js";
import { PROBLEM_LEVELS, STATES, isTrouble, labelOf, natural, upper } from "./words.js";

/** The filters of services, in the address bar and as inputs. */
const OF_SERVICES = ["q", "namespace", "cluster", "state", "kind"];
const OF_VIEWS = { services: OF_SERVICES, problems: ["level", "kind", "cluster", "service"], changes: ["service"] };
/** Values of the filter of states that are no states of endpoints. */
const OF_STATES = [["attention", "Needs attention"], ["failing", "Failing"], ["trouble", "In trouble"]];

export function start() {
  startSearch();
  for (const form of document.querySelectorAll(".filters")) {
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", ({ target }) => address.go(address.here({ [target.dataset.filter]: target.value, offset: "" })));
  }
}

export const isFiltered = () => OF_VIEWS[address.currentView()].some((name) => address.parameter(name));

/** Returns the services that match the filters of the address, in their natural order. */
export function matching() {
  if (address.currentView() !== "services" || !isFiltered()) return model.all();
  const [search, namespace, cluster, state, kind] = OF_SERVICES.map(address.parameter);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const suffixes = model.headOf()?.nameSuffixes ?? [];
  const hasState = (row) => {
    const cells = cluster ? [row.cells.get(cluster)].filter(Boolean) : [...row.cells.values()];
    if (cluster && !cells.length) return false;
    const level = model.levelOf(row);
    if (state === "failing" || state === "attention") return level === state;
    if (state === "trouble") return level !== "fine" && (!cluster || cells.some((cell) => isTrouble(cell.state)));
    return !state || cells.some((cell) => cell.state === state);
  };
  const hasWords = (row) => words.every((word) => row.text.includes(word) || suffixes.some((suffix) => isPartOf(word, row, suffix)));
  return model.all().filter((row) => (!namespace || row.namespace === namespace) && (!kind || row.kind === kind) && hasState(row) && hasWords(row));
}

/** Returns whether a word is a part of the whole name of a service, with or without the final dot. */
const isPartOf = (word, row, suffix) => word.includes(".") && `${row.text}.${suffix}`.includes(word);

/** Shows the filters of the current view. `known` has the kinds of problems and the services that a view knows about. */
export function show({ kinds = [], services = [] }) {
  const view = address.currentView();
  const values = (list) => [...new Set(list)].sort(natural).map((value) => [value, value]);
  const clusters = model.headOf() ? model.clusters().map(({ name }) => name).filter(Boolean) : [];
  const options = {
    services: {
      namespace: () => [["", "Namespace"], ...values(model.all().map((row) => row.namespace))],
      cluster: () => [["", "Cluster"], ...clusters.map((name) => [name, name])],
      state: () => [["", "State"], ...OF_STATES, ...STATES.map((state) => [state, upper(labelOf(state))])],
      kind: () => [["", "Kind"], ...values(model.all().map((row) => row.kind))],
    },
    problems: {
      level: () => [["", "Level"], ...PROBLEM_LEVELS],
      kind: () => [["", "Kind"], ...values(kinds)],
      cluster: () => [["", "Cluster"], ...clusters.map((name) => [name, name])],
      service: () => [["", "Service"], ...values(services)],
    },
    changes: { service: () => [["", "Service"], ...values(services)] },
  };
  for (const form of document.querySelectorAll(".filters")) {
    form.hidden = form.dataset.for !== view;
    if (form.hidden) continue;
    for (const select of form.elements) {
      setOptions(select, options[view][select.dataset.filter](), address.parameter(select.dataset.filter));
      select.classList.toggle("set", select.value !== "");
    }
  }
  byId("clear").hidden = !isFiltered();
  byId("clear").href = address.addressOf(view);
  if (document.activeElement !== byId("search")) byId("search").value = address.parameter("q");
}

// === Search ===

const input = byId("search");

function startSearch() {
  input.addEventListener("input", () => {
    const isHere = address.currentView() === "services";
    address.go(isHere ? address.here({ q: input.value }) : address.addressOf("services", { q: input.value }), isHere);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") focusRow();
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    openName(input.value.trim());
  });
}

function clear() {
  input.value = "";
  if (address.currentView() === "services") address.go(address.here({ q: "" }), true);
  input.blur();
}

/** Opens the answer of the service that is meant, or else of the name as it was typed. */
function openName(text) {
  if (!text) return focusRow();
  const rows = matching();
  const meant = rows.find((row) => row.text === text.toLowerCase()) ?? (rows.length === 1 ? rows[0] : undefined);
  // A text that matches no service is a name only, and must not hide the services.
  address.go(meant ? serviceAddress(meant.key) : address.here({ name: text, q: rows.length ? input.value : "" }));
}
