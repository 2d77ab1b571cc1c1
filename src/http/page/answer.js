// The answer to one name: what dig would print, the endpoint behind each record, problems, what is not returned and why, last changes.

import { answerAddress, serviceOf, withoutZone } from "./address.js";
import { Refused, load, sections } from "./api.js";
import { changeList } from "./changes.js";
import { announce, button, byId, command, element, link, marked, replace, separated } from "./dom.js";
import { problemSections } from "./problem.js";
import { colorOfImpact, colorOfResult, colorOfState, count, counted, isTrouble, labelOf, natural, since, upper, withTimes } from "./words.js";

/** Records and endpoints of the first page, and of each further one. */
const LIMIT = 50;
/** Endpoints in the document at most. */
const MOST = 150;

const pane = byId("content");
/** The name that is shown, its document as sections, and `continue` of its endpoints. */
let name = "";
let found = {};
let next;
let servers = [];
let announced;
/** The parts that the reader has opened or closed. */
const folds = new Map();

/** Takes over the addresses of the server. */
export const showStatus = (status) => (servers = status.servers);

/** Opens the answer to a name, which is shown when it is loaded, or closes it. */
export function open(wanted) {
  if (wanted === name) return;
  name = wanted;
  found = {};
  folds.clear();
  replace(pane, element("p", { class: "soft" }, "Loading"));
  pane.scrollTop = 0;
}

/** Loads and shows the answer to the name. A response of another name is not shown. */
export async function refresh() {
  const wanted = name;
  let document;
  try {
    document = await load("explain", { name, limit: LIMIT });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (wanted === name) replace(pane, element("p", {}, upper(error.message)));
    return;
  }
  if (wanted !== name) return;
  const later = found.endpoints?.slice(LIMIT) ?? [];
  found = sections(document);
  // Further endpoints stay as they were loaded.
  if (later.length && found.endpoints) found.endpoints.push(...later);
  else next = document.continue;
  replace(pane, ...parts());
  const text = `${name}: ${outcome().result}`;
  if (text !== announced) announce(text);
  announced = text;
}

/** Appends a page of endpoints. If there are too many, it takes the place of the oldest behind the first page. */
async function showMore() {
  const wanted = name;
  const document = await load("explain", { name, limit: LIMIT, continue: next }).catch(() => undefined);
  if (wanted !== name) return;
  const { endpoints } = found;
  if (!document) {
    // The table of these pages is not known any more.
    endpoints.length = LIMIT;
    return refresh();
  }
  endpoints.splice(LIMIT, endpoints.length < MOST ? 0 : LIMIT);
  endpoints.push(...sections(document).endpoints);
  next = document.continue;
  replace(pane, ...parts());
}

/** Returns the answer that stands for the name: the first with data. */
const outcome = () => found.answers.find(({ result }) => result === "NOERROR") ?? found.answers[0];

function parts() {
  const { problems = [], endpoints = [], events = [] } = found;
  const own = serviceOf(found.rows[0].name);
  const [serious, minor] = [false, true].map((isNote) => problems.filter(({ level }) => (level === "note") === isNote));
  return [
    verdict(),
    part("Nearest names", links(found["nearest names that exist"])),
    part("Answer", records(endpoints)),
    part("Problems", serious.length && problemSections(serious, own)),
    ...endpointParts(endpoints),
    part("Last changes", events.length && [changeList(events, own)]),
    part("Notes", minor.length && problemSections(minor, own)),
  ];
}

function part(title, content) {
  return content ? element("div", { class: "part" }, element("h3", {}, title), ...content) : undefined;
}

const nameLink = (target) => link(answerAddress(target), target.replace(/\.$/, ""));
const links = (lines) => lines && [element("ul", {}, ...lines.map(({ text }) => element("li", {}, nameLink(text))))];

/** The result in one line, and a command that asks for it. */
function verdict() {
  const { result, ttl } = outcome();
  const { name: full, reading } = found.rows[0];
  const returned = (found.endpoints ?? []).filter((endpoint) => endpoint.returned);
  const isDead = returned.length > 0 && returned.every(({ state }) => isTrouble(state));
  const isTroubled = found.problems?.some(({ level }) => level !== "note");
  const [{ service, namespace, state, answer, failover } = {}] = found.service ?? [];
  const ofName = result !== "NOERROR" ? colorOfResult(result) : isDead ? "failing" : isTroubled ? "attention" : "ok";
  // The state of a service is that of its own name.
  const color = result === answer && withoutZone(full) === `${service}.${namespace}` ? colorOfImpact(state) : ofName;
  const order = failover && `order ${failover.order}, step ${failover.step} of ${failover.steps.length} answers`;
  const facts = [Number.isInteger(ttl) && `TTL ${ttl} s`, commonPorts(), order].filter(Boolean).join(" · ");
  return element(
    "div",
    { class: "verdict" },
    element("p", {}, ...separated(element("b", {}, marked(color, color, result)), isDead && element("b", { class: color }, "no returned endpoint is alive"), element("span", {}, ...withTimes(upper(reading))))),
    ...(facts ? [element("p", { class: "soft" }, facts)] : []),
    element("p", { class: "dig" }, command(digLine(full, servers[0]))),
  );
}

/** Returns a command that asks `server`, an address with a port. A link can contain any name, so it is quoted for the shell. */
function digLine(name, server = "") {
  const { rtype = "A", result } = outcome();
  const isPlain = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(name);
  const quoted = isPlain ? name : `-q '${name.replaceAll("'", "'\\''")}' -t`;
  const [, address, port] = /^\[?([0-9a-f.:]+?)\]?:(\d+)$/i.exec(server) ?? [];
  const at = address ? `@${address} ${port === "53" ? "" : `-p ${port} `}` : "";
  // Without an answer, its status is of interest.
  return `dig ${at}${result === "NOERROR" ? "+noall +answer " : ""}${quoted} ${rtype}`;
}

/** The answers of all types. The first one with records is unfolded, because the others repeat its endpoints. */
function records(endpoints) {
  const [filled, empty] = [true, false].map((has) => found.answers.filter(({ count }) => count > 0 === has));
  const lines = empty.map(({ rtype, result, reason }) =>
    element("p", {}, ...separated(element("b", {}, rtype), element("span", { class: colorOfResult(result) }, result), reason && element("span", {}, ...withTimes(upper(reason))))),
  );
  return [...filled.map((answer, index) => recordsOf(answer, endpoints, index === 0)), ...lines];
}

/** Compares endpoints as people sort names: db-2 comes before db-10. */
const byName = (one, other) => natural(one?.cluster ?? "", other?.cluster ?? "") || natural(one?.hostname ?? "", other?.hostname ?? "");

function recordsOf({ rtype, ttl, records, count: total, overUdp, overTcp }, endpoints, isFirst) {
  const short = [overTcp < total && `${count(overTcp)} of ${count(total)} over TCP, TC`, overUdp < total && `${count(overUdp)} over UDP, TC`];
  const facts = [counted(total, "record"), `TTL ${ttl} s`, ...short].filter(Boolean).join(" · ");
  const sorted = records.toSorted((one, other) => byName(endpoints[one.endpoint], endpoints[other.endpoint]));
  const rows = sorted.map((record) => endpointRow(endpoints[record.endpoint], recordData(record), true));
  if (total > records.length) rows.push(element("li", { class: "soft" }, `And ${count(total - records.length)} more.`));
  return foldable(rtype, [element("b", {}, rtype), " ", element("span", { class: "soft" }, facts)], rows, isFirst);
}

/** The target of an SRV record is a name that can be explained, too. */
function recordData({ type, data }) {
  const words = data.split(/\s+/);
  return type === "SRV" ? element("code", {}, `${words.slice(0, 3).join(" ")} `, nameLink(words[3] ?? "")) : element("code", {}, data);
}

const portsOf = ({ ports }) =>
  ports.map(({ name, port, protocol }) => `${name ? `${name} ` : ""}${port}${protocol === "TCP" ? "" : ` ${protocol}`}`).join(", ");

/** Returns the ports of all endpoints, if they have the same. */
function commonPorts() {
  const all = new Set((found.endpoints ?? []).map(portsOf));
  return all.size === 1 ? [...all][0] : "";
}

/** One endpoint. Its ports are shown only if those of others differ. */
function endpointRow(endpoint, data, isReturned) {
  if (!endpoint) return element("li", {}, data);
  const { hostname, cluster, state, why, object } = endpoint;
  const color = colorOfState(state, isReturned, isReturned ? "attention" : "ok");
  const isPlain = isReturned && state === "alive";
  const place = marked(state, color, [hostname, cluster || "federated"].filter(Boolean).join(" · "));
  const ports = commonPorts() ? "" : ` ${portsOf(endpoint)}`;
  const facts = isPlain ? [] : [element("b", { class: color }, labelOf(state)), since(endpoint)];
  const reason = isReturned && why && element("span", {}, ...withTimes(upper(why)));
  return element("li", {}, ...separated(data, place, ...facts, element("code", { class: "soft" }, `${object}${ports}`), reason));
}

/** Endpoints that are not in the answer, by the reason, and those behind the first page. */
function endpointParts(endpoints) {
  const row = (endpoint, isReturned) => endpointRow(endpoint, element("code", {}, endpoint.addresses.join(" ")), isReturned);
  const left = Map.groupBy(endpoints.filter(({ returned }) => !returned), ({ why, state }) => why ?? labelOf(state));
  const groups = [...left].map(([why, group]) => {
    const rows = group.toSorted(byName).map((endpoint) => row(endpoint, false));
    return element("div", {}, element("h4", {}, ...withTimes(upper(why)), ` (${count(rows.length)}${next ? " so far" : ""})`), element("ul", {}, ...rows));
  });
  // The records show the first ones already.
  const later = endpoints.slice(LIMIT).filter(({ returned }) => returned);
  const rows = later.map((endpoint) => row(endpoint, true));
  const more = next ? [element("p", {}, button("Show more endpoints", showMore))] : [];
  return [
    part("Not returned", groups.length && groups),
    part("Endpoints", (rows.length || more.length) && [element("ul", {}, ...rows), ...more]),
  ];
}

/** A part that can be folded, and stays as the reader left it when the answer changes. */
function foldable(key, title, rows, isOpen) {
  const open = folds.get(key) ?? isOpen ? { open: "" } : {};
  const details = element("details", open, element("summary", { "data-focus": key }, ...title), element("ul", {}, ...rows));
  details.addEventListener("toggle", () => folds.set(key, details.open));
  return details;
}
