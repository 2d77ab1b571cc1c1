// The first sentence: is anything wrong, where, and since when. Below it, a line for each cause.

import * as address from "./address.js";
import { load } from "./server.js";
import { announce, button, byId, element, icon, link, replace, separated, setIcon } from "./dom.js";
import * as model from "./model.js";
import { manual, problemRow, serviceAddress, subjectLink } from "./problem.js";
import { colorOf, count, counted, shapeOfColor, shortened, since, timeOf, upper, worst } from "./words.js";

/** Lines that are shown before the reader asks for all: fewer in a narrow window, where the map must stay visible. */
const SHOWN = matchMedia("(max-width: 640px)").matches ? 2 : 4;
/** Services that an unfolded line lists. */
const LISTED = 100;
/** Characters of a subject that are shown. The tooltip has the rest. */
const LONGEST = 40;

let isWhole = false;
let lostSince;
let spoken;
/** The problems of the unfolded line, with the address that they were loaded from. */
let unfolded = {};

/** Shows the state of the server, or that there is no connection to it. */
export function show(connection, refusal) {
  if (connection === "lost") lostSince ??= new Date();
  else lostSince = undefined;
  const head = model.headOf();
  const level = lostSince ? "failing" : levelOf(head);
  byId("headline").className = level;
  setIcon(byId("level"), shapeOfColor(level), level);
  replace(byId("sentence"), ...sentence(head, refusal));
  replace(byId("where"), ...(head ? where(head, level) : []));
  const text = byId("sentence").textContent;
  if (spoken !== undefined && spoken !== text) announce("state", text);
  spoken = text;
  document.title = head ? `${level === "fine" ? "" : `${text} – `}${head.cluster} – global-dns` : "global-dns";
  showCauses(head);
}

/** Returns the worst level of everything that the page shows. */
function levelOf(head) {
  if (!head) return "idle";
  const causes = head.attention.map(({ level }) => colorOf(level)).filter((color) => color !== "idle");
  const counts = model.countsByLevel();
  const services = Object.keys(counts).filter((level) => counts[level] > 0);
  const server = model.isSilent() ? "failing" : head.state === "ready" ? "fine" : "attention";
  return worst([head.level, server, ...services, ...causes]);
}

// === Sentence ===

function sentence(head, refusal) {
  if (refusal) return [upper(refusal)];
  if (lostSince) return [head ? `Disconnected since ${timeOf(lostSince)}: this is the last known state` : "Cannot reach the server"];
  if (!head) return ["Loading"];
  if (head.state === "loading") return ["No answers yet: SERVFAIL for every name"];
  const clauses = [];
  if (head.state !== "ready") clauses.push([`State: ${head.state}`]);
  const troubles = troubleOf(head);
  if (troubles.length) clauses.push(troubles);
  if (!clauses.length) clauses.push([model.all().length ? "All names are answered" : "No services yet"]);
  return clauses.flatMap((clause, index) => (index ? ["; ", ...clause] : clause));
}

/** Says how many services are in trouble, each number with a link to them. */
function troubleOf(head) {
  const { failing, attention } = model.countsByLevel();
  const to = (state) => address.addressOf("services", { state });
  const verb = (number, one, many) => (number === 1 ? one : many);
  const parts = [];
  if (failing) parts.push(link(to("failing"), `${counted(failing, "service")} ${verb(failing, "fails", "fail")}`));
  if (attention) {
    const noun = failing ? count(attention) : counted(attention, "service");
    parts.push(failing ? ", " : "", link(to("attention"), `${noun} ${verb(attention, "needs", "need")} attention`));
  }
  const others = head.attention.length + (head.moreAttention ?? 0);
  if (!parts.length && (others || head.level !== "fine") && head.state === "ready") {
    const text = others ? `${counted(others, "problem")} ${verb(others, "needs", "need")} attention` : "Problems need attention";
    if (head.level === "fine" && model.all().length) parts.push("All names are answered; ");
    parts.push(link(address.addressOf("problems"), text));
  }
  return parts;
}

/** Says where the worst trouble is, how many other causes there are, and since when. */
function where(head, level) {
  if (level === "fine") {
    const clusters = model.clusters().filter(({ name }) => name).length;
    return [`${counted(model.all().length, "service")} in ${counted(clusters, "cluster")}`];
  }
  const isOfServer = head.state !== "ready";
  // A warning can be the cause of names that fail.
  const isWorst = (cause) => colorOf(cause.level) === level || (level === "failing" && cause.failing > 0);
  const worstCauses = head.attention.filter((cause) => isOfServer || isWorst(cause));
  const causes = worstCauses.length ? worstCauses : head.attention;
  const distinct = (causes) => [...new Map(causes.map((cause) => [textOf(cause), cause])).values()];
  const named = distinct(causes).slice(0, 2);
  const rest = distinct(head.attention).length - named.length + (head.moreAttention ?? 0);
  const links = named.flatMap((cause, index) => [index ? ", " : "", placeLink(cause)]);
  if (rest) links.push(" and ", link(address.addressOf("problems"), `${count(rest)} more`));
  const dated = causes.filter((cause) => cause.since).sort((one, other) => one.since.localeCompare(other.since));
  const oldest = since((isOfServer ? head : dated[0]) ?? {});
  if (links.length && oldest) links.push(" ");
  if (oldest) links.push(link(address.addressOf("changes"), oldest));
  return links;
}

// === Causes ===

/** Returns what names a cause: its subject, or its sentence if it concerns no single thing. */
const textOf = ({ subject, sentence }) => subject || sentence;

/** Returns the link of a cause. A list of names would hide what follows, so only its start is shown. */
function placeLink(cause) {
  const text = textOf(cause);
  const node = subjectLink(cause, shortened(text, LONGEST));
  if (text.length > LONGEST) node.dataset.tip = text;
  return node;
}

const idOf = ({ kind, subject }) => `${kind}/${subject}`;

function showCauses(head) {
  const causes = head?.attention ?? [];
  const more = head?.moreAttention ?? 0;
  const open = address.parameter("open");
  const shown = isWhole || causes.slice(SHOWN).some((cause) => idOf(cause) === open) ? causes : causes.slice(0, SHOWN);
  const lines = shown.map((cause) => line(cause, idOf(cause) === open));
  if (causes.length > shown.length || isWhole) {
    const text = isWhole ? "Show fewer" : `Show ${count(causes.length + more - shown.length)} more`;
    lines.push(element("li", { class: "rest" }, button({ class: "plain", "data-focus": "rest" }, toggleWhole, text)));
  }
  if (more && isWhole) lines.push(element("li", { class: "rest" }, link(address.addressOf("problems"), `${count(more)} more in Problems`)));
  byId("attention").hidden = !lines.length;
  replace(byId("attention"), ...lines);
}

function toggleWhole() {
  isWhole = !isWhole;
  showCauses(model.headOf());
}

function line(cause, isOpen) {
  const color = colorOf(cause.level);
  const toggle = () => address.go(address.here({ open: isOpen ? "" : idOf(cause) }), true);
  const label = `Details: ${cause.subject} ${cause.sentence}`;
  const fold = button(
    { class: "fold", "aria-expanded": String(isOpen), "aria-label": label, "data-focus": `fold ${idOf(cause)}` },
    toggle,
    icon("fold"),
  );
  const hasService = cause.service && !textOf(cause).includes(cause.service);
  const sentence = cause.subject && `${cause.sentence}${hasService ? ":" : ""}`;
  const service = hasService && link(serviceAddress(cause.service), cause.service);
  const facts = [placeLink(cause), sentence, service, since(cause), ...numbers(cause)];
  const detail = cause.detail && element("span", { class: "detail" }, cause.detail);
  return element(
    "li",
    {},
    element("div", { class: "cause" }, fold, icon(shapeOfColor(color), color), element("p", {}, ...separated(facts), detail)),
    isOpen ? element("div", { class: "unfolded" }, ...details(cause)) : undefined,
  );
}

function numbers({ services, endpoints, failing, count: total, service }) {
  const of = (number, noun) => (number > 0 ? counted(number, noun) : undefined);
  // Services that fail are counted below.
  const affected = [service || services === failing ? undefined : of(services, "service"), of(endpoints, "endpoint")].filter(Boolean);
  if (!affected.length && !failing && total > 1) affected.push(counted(total, "problem"));
  const facts = affected.length ? [element("span", { class: "number" }, affected.join(", "))] : [];
  if (failing > 0 && !service) facts.push(element("b", { class: "failing" }, `${counted(failing, "service")} ${failing === 1 ? "fails" : "fail"}`));
  return facts;
}

/** Returns what an unfolded line says: what to do, and the services that the cause affects. */
function details(cause) {
  const filters = { kind: cause.kind, cluster: cause.cluster, service: cause.service };
  const key = JSON.stringify(filters);
  if (unfolded.key !== key) unfolded = { key };
  if (!unfolded.isLoading && unfolded.head !== JSON.stringify(cause)) loadDetails(cause, filters, key);
  const list = unfolded.problems?.map((problem) => problemRow({ ...problem, since: problem.since === cause.since ? undefined : problem.since }));
  const rest = (unfolded.total ?? 0) - LISTED;
  const all = link(address.addressOf("problems", filters), rest > 0 ? `${count(rest)} more in Problems` : "Open in Problems");
  return [
    cause.detail ? element("p", {}, upper(cause.detail)) : undefined,
    element("p", {}, element("b", {}, "What to do: "), `${cause.hint}. `, manual(cause)),
    list ? element("ul", { class: "rows affected" }, ...list) : element("p", { class: "soft" }, unfolded.failure ?? "Loading"),
    element("p", {}, all),
  ].filter(Boolean);
}

async function loadDetails(cause, filters, key) {
  unfolded.isLoading = true;
  let found = {};
  try {
    found = await load("problems", { ...filters, limit: LISTED });
  } catch (error) {
    found = { failure: error.message };
  }
  if (unfolded.key !== key) return;
  unfolded = { key, head: JSON.stringify(cause), ...found };
  showCauses(model.headOf());
}
