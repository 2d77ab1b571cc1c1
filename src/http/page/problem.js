// Problems: their subjects with links to what they concern, their sentences, and what to do. The view of all of them, which the
// server filters, page by page.

import * as address from "./address.js";
import { load } from "./server.js";
import { byId, element, icon, link, replace, separated } from "./dom.js";
import * as model from "./model.js";
import { colorOf, count, shapeOfColor, since } from "./words.js";

/** Returns the zone in which the page names services: the one of the address, or the first one. */
export function suffix() {
  const suffixes = model.headOf()?.nameSuffixes ?? [];
  const chosen = address.parameter("zone");
  return suffixes.includes(chosen) ? chosen : (suffixes[0] ?? "");
}

/** Returns the address of the answer to a name, in the current view. */
export const answerAddress = (name) => address.here({ name: name.replace(/\.$/, "") });

/** Returns the address of the answer to the name of a service, `namespace/service`. */
export function serviceAddress(key) {
  const [namespace, service] = key.split("/");
  return answerAddress(model.nameOf({ namespace, service }, suffix()));
}

/** Returns the link of what a problem concerns: the services of its cluster, the answer of its service, or its kind. */
export function subjectLink({ kind, subject, service, cluster, services }, text = subject || kind) {
  if (service && subject !== cluster) return link(serviceAddress(service), text);
  if (cluster && services !== 0) return link(address.addressOf("services", { cluster, state: "trouble" }), text);
  return link(address.addressOf("problems", { kind, cluster }), text);
}

/** Returns the section of the manual, which may be hosted anywhere. */
export const manual = ({ anchor }) => element("span", { class: "soft" }, "Manual: ", element("code", {}, anchor));

/** Returns one problem of a group. `own` is the service that everything around is about. */
export function problemRow(problem, own) {
  const { subject, service, cluster, detail } = problem;
  // Most details name the cluster.
  const where = cluster && cluster !== subject && !detail.includes(cluster) ? [`cluster ${cluster}:`] : [];
  const of = service && service !== subject && service !== own ? [link(serviceAddress(service), service)] : [];
  const parts = [
    subject && subject !== own ? subjectLink(problem) : undefined,
    element("span", {}, ...separated([...of, ...where, detail])),
    since(problem),
  ];
  return element("li", {}, ...separated(parts));
}

/** Returns a list for each kind of problem: what is wrong and what to do once, and below it what is affected. */
export function problemGroups(problems, own) {
  const groups = Map.groupBy(problems, ({ kind, level }) => `${kind} ${level}`);
  return [...groups.values()].map((group) => {
    const [{ level, sentence, hint }] = group;
    const color = colorOf(level);
    return element(
      "section",
      { class: "group" },
      icon(shapeOfColor(color), color),
      element("h3", {}, `${sentence} (${level})`),
      element("ul", { class: "rows" }, ...group.map((problem) => problemRow(problem, own))),
      element("p", { class: "soft" }, `What to do: ${hint}. `, manual(group[0])),
    );
  });
}

// === View ===

/** Problems on one page. */
const LIMIT = 100;

let request = 0;
let shown = [];

/** Returns the kinds and services that the filters of this view offer. */
export function known() {
  const causes = model.headOf()?.attention ?? [];
  const both = [...causes, ...shown];
  return { kinds: both.map(({ kind }) => kind), services: both.map(({ service }) => service).filter(Boolean) };
}

/** Does not show the response to the last request. */
export const ignoreResponse = () => (request += 1);

/** Loads and shows the page of problems that the address names. */
export async function show() {
  const own = ++request;
  const offset = Number(address.parameter("offset")) || 0;
  const names = ["kind", "level", "cluster", "service"];
  const filters = Object.fromEntries(names.map((name) => [name, address.parameter(name)]));
  const { problems, total } = await load("problems", { ...filters, offset, limit: LIMIT });
  if (own !== request) return;
  shown = problems;
  const none = Object.values(filters).some(Boolean) ? "No problem matches the filters" : "No problems";
  const blank = element("div", { class: "blank" }, element("h2", {}, none));
  replace(byId("problem-list"), ...(problems.length ? problemGroups(problems) : [blank]));
  replace(byId("pages"), ...pages(offset, problems.length, total));
}

function pages(offset, number, total) {
  if (total <= LIMIT && !offset) return [];
  const to = (start) => address.here({ offset: start > 0 ? String(start) : "" });
  const parts = [element("span", {}, `${count(Math.min(offset + 1, total))} to ${count(offset + number)} of ${count(total)}`)];
  if (offset > 0) parts.unshift(link(to(offset - LIMIT), "Previous"));
  if (offset + number < total) parts.push(link(to(offset + LIMIT), "Next"));
  return parts;
}
