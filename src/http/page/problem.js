// Problems: the causes above everything, and the problems of one name. Each has its section: what is wrong, why, and what to do.

import { clusterAddress, go, here, parameter, serviceAddress } from "./address.js";
import { load, sections } from "./api.js";
import { byId, command, element, link, marked, replace, separated } from "./dom.js";
import { colorOf, count, counted, natural, since, sinceText, upper, withCommands, withTimes } from "./words.js";

/** Problems that an open line lists. */
const LISTED = 20;

let causes = [];
/** The problems of the open line, and their cause as a text. */
let affected = {};

const idOf = ({ kind, subject }) => `${kind}/${subject}`;

/** Returns what to do, and the command that prints the section of the manual. An effect has no remedy of its own. */
function whatToDo({ kind, hint, cause }) {
  const remedy = hint ? [element("b", {}, "What to do: "), ...withCommands(hint)] : [element("b", {}, "Its cause: "), sentenceOf(cause)];
  return element("div", {}, element("p", {}, ...remedy), element("p", { class: "soft" }, "More: ", command(`global-dns explain --kind ${kind}`)));
}

/** Returns one of several problems of a kind. `own` is the service that everything around is about. */
function problemRow({ subject, service, detail, ...age }, own) {
  const name = service && service !== own ? link(serviceAddress(service), service) : undefined;
  const other = subject === service || subject === own ? undefined : subject;
  return element("li", {}, ...separated(name, other, detail && element("span", {}, ...withCommands(detail)), since(age)));
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
      ...[...new Map(group.map((problem) => [problem.hint, problem])).values()].map(whatToDo),
    );
  });
}

/** That the source cannot be read: the first line of the page says it, and its effects come before other causes. */
const SOURCE = "source-unavailable";

/** Takes over the causes, in the order of the server: what matters most first, effects below their causes. Returns them. */
export function showCauses(known) {
  const order = ({ kind, cause }) => (kind === SOURCE ? 0 : cause === SOURCE ? 1 : 2);
  causes = known.toSorted((one, other) => order(one) - order(other));
  show();
  return causes;
}

/** Returns the cause that the source cannot be read, but not while its first list is under way. */
export const causeOfSource = () => causes.find(({ kind, detail }) => kind === SOURCE && detail !== "not listed yet");

/** Returns the sentence of a kind of problem, if a cause has it. */
const sentenceOf = (kind) => causes.find((cause) => cause.kind === kind)?.sentence ?? upper((kind ?? "").replaceAll("-", " "));

/** Shows the causes, one of them with its section if the address names it. */
export function show() {
  byId("causes").hidden = !causes.length;
  replace(byId("causes"), ...causes.map((cause) => line(cause, idOf(cause) === parameter("open"))));
}

function line(cause, isOpen) {
  const color = colorOf(cause.level);
  // The first line of the page has said the rest.
  const isTold = cause === causeOfSource();
  const facts = isTold ? [] : separated(cause.subject && element("b", {}, cause.subject), cause.sentence, since(cause), ...numbers(cause));
  const detail = cause.detail && element("span", { class: "detail" }, ...withTimes(isTold ? upper(cause.detail) : cause.detail));
  const summary = element("summary", { "data-focus": idOf(cause) }, marked(color, color, ...facts, detail));
  summary.addEventListener("click", (event) => {
    event.preventDefault();
    go(here({ open: isOpen ? "" : idOf(cause) }), true);
  });
  const content = isOpen ? [element("div", { class: "section" }, ...details(cause))] : [];
  return element("li", { class: cause.cause && "effect" }, element("details", isOpen ? { open: "" } : {}, summary, ...content));
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
  const sorted = items.toSorted((one, other) => natural(one.service ?? "", other.service ?? ""));
  const rows = sorted.map((problem) => problemRow({ ...problem, since: sinceText(problem) === sinceText(cause) ? "" : problem.since }, cause.subject));
  const list = rows.length ? element("ul", { class: "affected" }, ...rows) : undefined;
  const { cluster, services } = cause;
  const filter = cluster && services ? link(clusterAddress(cluster), `Show cluster ${cluster} and its services`) : undefined;
  return [
    cause.detail && !rows.length ? element("p", {}, ...withCommands(upper(cause.detail))) : undefined,
    ...(rows.length === 1 ? [list, whatToDo(cause)] : [whatToDo(cause), list]),
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
