// Problems: the causes above everything, and the problems of one name. Each has its section: what is wrong, why, and what to do.

import { go, here, parameter, serviceAddress } from "./address.js";
import { load, sections } from "./api.js";
import { byId, element, link, marked, replace, separated } from "./dom.js";
import { colorOf, count, counted, since, sinceText, upper } from "./words.js";

/** Problems that an open line lists. */
const LISTED = 20;

let causes = [];
/** The problems of the open line, and their cause as a text. */
let affected = {};

const idOf = ({ kind, subject }) => `${kind}/${subject}`;

/** Returns what to do. The manual may be anywhere, so its section is only named. */
const whatToDo = ({ hint, anchor }) =>
  element("p", {}, element("b", {}, "What to do: "), `${hint}. `, element("span", { class: "soft" }, "Manual: ", element("code", {}, anchor)));

/** Returns one of several problems of a kind. `own` is the service that everything around is about. */
function problemRow({ subject, service, detail, ...age }, own) {
  const name = service && service !== own ? link(serviceAddress(service), service) : undefined;
  const other = subject === service || subject === own ? undefined : subject;
  return element("li", {}, ...separated(name, other, detail && element("span", {}, detail), since(age)));
}

/** Returns a section for each kind of problem: what is wrong, in which cases and why, and what to do. */
export function problemSections(problems, own) {
  return [...Map.groupBy(problems, ({ kind }) => kind).values()].map((group) => {
    const [{ level, sentence }] = group;
    return element(
      "section",
      {},
      element("h4", {}, marked(colorOf(level), colorOf(level), `${sentence} (${level})`)),
      element("ul", {}, ...group.map((problem) => problemRow(problem, own))),
      // Each problem has its own names in what to do; the names differ only between services.
      ...[...new Map(group.filter(({ hint }) => hint).map((problem) => [problem.hint, problem])).values()].map(whatToDo),
    );
  });
}

/** Takes over the causes, and shows them: errors before warnings. Returns them in this order. */
export function showCauses(known) {
  const order = ({ level }) => (level === "error" ? 0 : 1);
  causes = known.toSorted((one, other) => order(one) - order(other));
  show();
  return causes;
}

/** Returns the sentence of a kind of problem, if a cause has it. */
export const sentenceOf = (kind) => causes.find((cause) => cause.kind === kind)?.sentence ?? upper((kind ?? "").replaceAll("-", " "));

/** Shows the causes, one of them with its section if the address names it. */
export function show() {
  byId("causes").hidden = !causes.length;
  replace(byId("causes"), ...causes.map((cause) => line(cause, idOf(cause) === parameter("open"))));
}

function line(cause, isOpen) {
  const color = colorOf(cause.level);
  const facts = separated(cause.subject && element("b", {}, cause.subject), cause.sentence, since(cause), ...numbers(cause));
  const detail = cause.detail && element("span", { class: "detail" }, cause.detail);
  const summary = element("summary", { "data-focus": idOf(cause) }, marked(color, color, ...facts, detail));
  summary.addEventListener("click", (event) => {
    event.preventDefault();
    go(here({ open: isOpen ? "" : idOf(cause) }), true);
  });
  const content = isOpen ? [element("div", { class: "section" }, ...details(cause))] : [];
  return element("li", {}, element("details", isOpen ? { open: "" } : {}, summary, ...content));
}

/** Returns how many it affects, or the one. */
function numbers({ services, endpoints, failing, count: total, service, subject }) {
  const of = (number, noun) => (number > 0 ? counted(number, noun) : undefined);
  const counts = [service ? undefined : of(services, "service"), of(endpoints, "endpoint")].filter(Boolean);
  if (!counts.length && !service) counts.push(total > 1 ? counted(total, "problem") : "");
  const one = service && service !== subject ? service : "";
  const fails = failing > 0 && `${service ? one : counted(failing, "service")} ${failing === 1 ? "fails" : "fail"}`;
  return [element("span", { class: "number" }, [fails ? "" : one, ...counts].filter(Boolean).join(", ")), fails && element("b", { class: "failing" }, fails)];
}

/** Returns the section of an open line: why, what to do, and what the cause affects. */
function details(cause) {
  const key = JSON.stringify(cause);
  if (affected.key !== key) loadAffected(cause, key);
  const { items = [], next, failure } = affected;
  const rows = items.map((problem) => problemRow({ ...problem, since: sinceText(problem) === sinceText(cause) ? "" : problem.since }, cause.subject));
  const { cluster, services } = cause;
  const filter = cluster && services ? link(here({ cluster, state: "", q: "", open: "" }), `Show the services of ${cluster}`) : undefined;
  return [
    cause.detail && !rows.length ? element("p", {}, upper(cause.detail)) : undefined,
    whatToDo(cause),
    rows.length ? element("ul", { class: "affected" }, ...rows) : undefined,
    next || failure ? element("p", { class: "soft" }, failure ?? `And ${count(cause.count - items.length)} more.`) : undefined,
    filter && element("p", {}, filter),
  ];
}

/** Loads the problems of a cause. Those of another one are not shown meanwhile. */
async function loadAffected({ kind, cluster, service }, key) {
  affected = { key, items: affected.kind === kind && affected.cluster === cluster ? affected.items : [], kind, cluster };
  const [namespace] = service?.split("/") ?? [];
  let found;
  try {
    const document = await load("problems", { kind, cluster, namespace, text: service, limit: LISTED });
    found = { items: sections(document).problems, next: document.continue };
  } catch (error) {
    found = { failure: error.message };
  }
  if (affected.key !== key) return;
  affected = { ...affected, ...found };
  show();
}
