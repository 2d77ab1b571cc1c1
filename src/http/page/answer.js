// The answer to one name: what dig would print, the endpoint behind each record, what is not returned and why, and what changed.

import * as address from "./address.js";
import { Refused, load } from "./server.js";
import { changeList } from "./changes.js";
import { announce, button, byId, element, icon, link, replace, separated } from "./dom.js";
import * as model from "./model.js";
import { answerAddress, problemGroups, suffix } from "./problem.js";
import { colorOfResult, colorOfState, count, counted, isTrouble, labelOf, shapeOfColor, shapeOfState, since, timeElement, timeOf, upper } from "./words.js";

/** Changes that are not folded. */
const CHANGES = 8;

const pane = byId("explanation");
/** The name that is shown, the last response, and the number of the last request. */
let name;
let shownText;
let request = 0;
/** The parts that the reader has opened or closed. */
const folds = new Map();

/** Loads and shows the answer to a name. */
export async function show(wanted) {
  if (wanted !== name) {
    name = wanted;
    shownText = undefined;
    folds.clear();
    byId("answer-title").textContent = wanted;
    pane.replaceChildren(element("p", { class: "soft" }, "Loading"));
    pane.scrollTop = 0;
  }
  const own = ++request;
  let explanation, refusal;
  try {
    explanation = await load("explain", { name: wanted });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    refusal = error.message;
  }
  if (own !== request || wanted !== name) return;
  const text = JSON.stringify([explanation, refusal, model.rowOfName(wanted)?.mark, suffix()]);
  if (text === shownText) return;
  const isUpdate = shownText !== undefined;
  shownText = text;
  replace(pane, ...(refusal ? [element("p", {}, refusal)] : parts(explanation)));
  announce("answer", refusal ?? `${name}${isUpdate ? " changed" : ""}: ${outcome(explanation).result}`);
}

/** Forgets the name that is shown. */
export function hide() {
  name = undefined;
  ignoreResponse();
}

/** Does not show the response to the last request. */
export const ignoreResponse = () => (request += 1);

/** Returns the answer that stands for the name: the first with data. */
const outcome = ({ answers }) => answers.find(({ result }) => result === "NOERROR") ?? answers[0] ?? { result: "" };

// === Parts ===

function parts(explanation) {
  const { problems = [], history = [], notes = [], nearest = [], names = [], endpoints = [] } = explanation;
  const row = model.rowOfName(explanation.name);
  const [serious, minor] = [false, true].map((isNote) => problems.filter(({ level }) => (level === "note") === isNote));
  const remarks = [...problemGroups(minor, row?.key), list(notes.map(upper))].filter(Boolean);
  return [
    verdict(explanation, row),
    section("Problems", serious.length, serious.length ? element("div", {}, ...problemGroups(serious, row?.key)) : undefined),
    section("Names that return this address", names.length, list(names.map((one) => nameLink(one.name)))),
    section("Nearest names", 0, list(nearest.map((near) => nameLink(near)))),
    records(explanation),
    ...notReturned(endpoints.filter((endpoint) => !endpoint.returned)),
    historyOf(history, row),
    section("Notes", 0, remarks.length ? element("div", {}, ...remarks) : undefined),
  ].filter(Boolean);
}

function section(title, number, content) {
  if (!content) return undefined;
  const hint = number > 1 ? element("small", {}, count(number)) : undefined;
  return element("div", { class: "part" }, element("h3", {}, title, " ", hint ?? ""), content);
}

const list = (items) => (items.length ? element("ul", {}, ...items.map((item) => element("li", {}, item))) : undefined);

const nameLink = (target) => link(answerAddress(target), target.replace(/\.$/, ""));

const ttlText = (ttl, before = "") => (Number.isInteger(ttl) ? `${before}TTL ${ttl} s` : "");

/** Returns what is wrong with the returned endpoints if none of them is alive. */
function troubleOf(endpoints) {
  const states = endpoints.filter(({ returned }) => returned).map(({ state }) => state);
  if (!states.length || !states.every(isTrouble)) return undefined;
  return `only endpoints that are ${states.every((state) => state === "down") ? "down" : "down or not ready"}`;
}

/** The result, in a color that is never better than the state of the service. A name with endpoints is answered, even if none is alive. */
function badge(result, row, trouble) {
  const answered = trouble ? "attention" : row ? model.levelOf(row) : "fine";
  const color = result === "NOERROR" ? answered : colorOfResult(result);
  return element("span", { class: `badge ${color}` }, icon(shapeOfColor(color), color), result);
}

/** The result in one line, and a command that asks for it. */
function verdict(explanation, row) {
  const { result, ttl } = outcome(explanation);
  const bare = explanation.name.replace(/\.$/, "");
  const trouble = result === "NOERROR" ? troubleOf(explanation.endpoints) : undefined;
  const remark = trouble && element("span", { class: "state attention" }, trouble);
  const isOutside = result === "REFUSED" && suffix() && !bare.endsWith(".arpa");
  const facts = [row?.kind, ttlText(ttl), commonPorts(explanation.endpoints)];
  if (row?.failover) facts.push(`failover step ${row.failover.step} of ${row.failover.steps}`);
  const lines = [
    element("p", {}, ...separated([badge(result, row, trouble), remark, element("span", {}, upper(explanation.reading))])),
    element("p", { class: "soft" }, facts.filter(Boolean).join(" · ")),
  ].filter(Boolean);
  const last = explanation.history?.[0];
  if (last) lines.push(element("p", {}, "Last change: ", timeElement(last.time, timeOf(last.time)), " ", last.text));
  if (isOutside) lines.push(element("p", {}, "Did you mean ", nameLink(`${bare}.${suffix()}`), "?"));
  return element("div", { class: "verdict" }, ...lines, command(digLine(explanation, model.headOf()?.servers?.[0])));
}

/**
 * Returns a command that asks `server`, an address with a port, for an explained name. A link to this page can contain any
 * name, so it is quoted for the shell.
 */
function digLine({ name, answers }, server = "") {
  const data = answers.find(({ result }) => result === "NOERROR");
  const type = (data ?? answers[0])?.rtype ?? "A";
  const isPlain = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(name);
  const quoted = isPlain ? name : `-q '${name.replaceAll("'", "'\\''")}' -t`;
  const [, address, port] = /^\[?([0-9a-f.:]+?)\]?:(\d+)$/i.exec(server) ?? [];
  const at = address ? `@${address} ${port === "53" ? "" : `-p ${port} `}` : "";
  // Without an answer, its status is of interest.
  return `dig ${at}${data ? "+noall +answer " : ""}${quoted} ${type}`;
}

function command(line) {
  const copy = button({ "data-focus": "copy", "aria-label": "Copy the dig command" }, () => copyText(line, copy), "Copy");
  return element("div", { class: "copy" }, element("code", {}, line), copy);
}

async function copyText(text, button) {
  let result = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard needs a secure context, such as localhost. The text is selected instead.
    getSelection().selectAllChildren(button.previousSibling);
    result = "Selected";
  }
  button.textContent = result;
  announce("copy", result);
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

// === Records ===

/** The answers of all types. Types without records and with the same result share a line. */
function records({ answers, endpoints, reading }) {
  const withRecords = answers.filter(({ records }) => records.length);
  const empty = Map.groupBy(answers.filter(({ records }) => !records.length), ({ result, reason }) => JSON.stringify([result, reason]));
  const blocks = withRecords.map((answer, index) => recordBlock(answer, endpoints, index === 0));
  const lines = [...empty].map(([key, group]) => {
    const [result, reason] = JSON.parse(key);
    const types = group.map(({ rtype }) => rtype).join(", ");
    const color = colorOfResult(result);
    return element("p", { class: "empty" }, element("b", {}, types), " ", element("span", { class: color }, result), " ", reason && !reading.includes(reason) ? upper(reason) : "");
  });
  return section("Answer", 0, element("div", { class: "records" }, ...blocks, ...lines));
}

/** The records of one type. The first type is unfolded, because the others repeat its endpoints. */
function recordBlock({ rtype, ttl, records }, endpoints, isFirst) {
  const title = element("b", {}, rtype, " ", element("span", { class: "soft" }, `${counted(records.length, "record")}${ttlText(ttl, ", ")}`));
  const rows = element("ul", { class: "endpoints" }, ...records.map((record) => recordRow(record, endpoints)));
  return foldable(`records ${rtype}`, title, rows, isFirst);
}

function recordRow(record, endpoints) {
  const data = element("code", {}, ...recordData(record));
  return endpointRow(endpoints[record.endpoint], data, true, record.type !== "SRV" && !commonPorts(endpoints));
}

/** The target of an SRV record is a name that can be explained, too. */
function recordData({ type, data }) {
  const words = data.split(/\s+/);
  if (type !== "SRV") return [data];
  return [`${words.slice(0, 3).join(" ")} `, nameLink(words[3] ?? "")];
}

// === Endpoints ===

const portsOf = ({ ports }) =>
  ports.map(({ name, port, protocol }) => `${name ? `${name} ` : ""}${port}${protocol === "TCP" ? "" : ` ${protocol}`}`).join(", ");

/** Returns the ports of all endpoints, if they have the same. */
function commonPorts(endpoints) {
  const all = new Set(endpoints.map(portsOf));
  return all.size === 1 ? [...all][0] : "";
}

/** One endpoint. Its ports are shown only if those of others differ. */
function endpointRow(endpoint, data, isReturned, hasOwnPorts) {
  if (!endpoint) return element("li", {}, icon("note", "idle"), element("p", {}, data));
  const { hostname, cluster, state, why, object } = endpoint;
  const color = colorOfState(state, isReturned, isReturned ? "attention" : "fine");
  const isPlain = isReturned && state === "alive";
  const parts = [
    data,
    element("b", {}, [hostname, cluster || "no one cluster"].filter(Boolean).join(" · ")),
    isPlain ? undefined : element("span", { class: `state ${color}` }, labelOf(state)),
    isPlain ? undefined : since(endpoint),
    element("span", { class: "soft" }, element("code", {}, object), hasOwnPorts ? ` ${portsOf(endpoint)}` : ""),
  ];
  const reason = isReturned && why ? element("p", {}, upper(why)) : undefined;
  return element("li", {}, icon(shapeOfState(state), color), element("div", {}, element("p", {}, ...separated(parts)), reason));
}

/** Endpoints that are not in the answer, by the reason. */
function notReturned(endpoints) {
  if (!endpoints.length) return [];
  const groups = Map.groupBy(endpoints, ({ why, state }) => why ?? labelOf(state));
  const content = [...groups].map(([why, group]) => {
    const rows = group.map((endpoint) => endpointRow(endpoint, element("code", {}, endpoint.addresses.join(" ")), false, !commonPorts(endpoints)));
    return element("div", {}, element("h4", {}, `${upper(why)} (${count(group.length)})`), element("ul", { class: "endpoints" }, ...rows));
  });
  return [section("Not returned", endpoints.length, element("div", { class: "groups" }, ...content))];
}

// === History ===

function historyOf(history, row) {
  if (!history.length) return undefined;
  const older = history.slice(CHANGES);
  const rest = older.length ? foldable("history", `${count(older.length)} older`, changeList(older, timeOf), false) : undefined;
  const all = row && element("p", {}, link(address.addressOf("changes", { service: row.key }), "Open in Recent changes"));
  return section("History", 0, element("div", {}, ...[changeList(history.slice(0, CHANGES), timeOf), rest, all].filter(Boolean)));
}

/** A part that can be folded, and stays as the reader left it when the answer changes. */
function foldable(key, title, content, isOpen) {
  const details = element("details", {}, element("summary", { "data-focus": key }, title), content);
  details.open = folds.get(key) ?? isOpen;
  details.addEventListener("toggle", () => folds.set(key, details.open));
  return details;
}
