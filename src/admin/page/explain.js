// The explanation of one name.

import { Refused, load } from "./api.js";
import { addressOf, announce, byId, element, icon } from "./dom.js";
import { counted, isReturned, labelOf, reasonOf, shapeOf } from "./words.js";

const pane = byId("explanation");
/** The name that is shown, the last response, and the number of the last request. */
let name;
let shownText;
let request = 0;

/** Shows a name. `context` has the ends of names, and a function that returns the row of a service in the map. */
export async function show(wanted, context) {
  if (wanted !== name) {
    name = wanted;
    shownText = undefined;
    showTitle(wanted);
    pane.replaceChildren(element("p", {}, "Asking the server"));
    pane.scrollTop = 0;
  }
  const own = ++request;
  let explanation, problem;
  try {
    explanation = await load(`explain?name=${encodeURIComponent(wanted)}`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    problem = error.message;
  }
  if (own !== request || wanted !== name) return;
  const text = JSON.stringify([explanation, problem, context.service(wanted)?.mark]);
  if (text === shownText) return;
  const isUpdate = shownText !== undefined;
  shownText = text;
  const focus = document.activeElement.dataset?.focus;
  pane.replaceChildren(...(problem ? refusal(problem) : parts(explanation, context)));
  if (focus && isUpdate) [...pane.querySelectorAll("[data-focus]")].find((node) => node.dataset.focus === focus)?.focus();
  announce(problem ?? `${name}: ${isUpdate ? "changed, " : ""}${outcome(explanation)}`);
}

/** Forgets the name that is shown. */
export function hide() {
  name = undefined;
  request += 1;
}

function showTitle(text) {
  byId("name-title").textContent = text;
  document.querySelector("#ask input").value = text;
}

const refusal = (problem) => [element("div", { class: "blank" }, element("h3", {}, "Not a name"), element("p", {}, problem))];

/** Returns the result of the whole name: data if one type has data. */
function outcome({ answers }) {
  return (answers.find(({ result }) => result === "NOERROR") ?? answers[0])?.result ?? "";
}

// === Parts ===

function parts(explanation, context) {
  const service = context.service(explanation.name);
  const { endpoints } = explanation;
  const returned = endpoints.filter(({ state }) => isReturned(state));
  const omitted = endpoints.filter(({ state }) => !isReturned(state));
  return [
    summary(explanation, service, context),
    list("Notes", explanation.notes, (note) => [note], "notes"),
    list("Nearest names", explanation.nearest, (near) => [nameLink(near)]),
    failover(service?.failover),
    answers(explanation),
    endpointList("Returned endpoints", returned),
    endpointList("Left out", omitted, true),
    list("Problems", explanation.problems, ({ sentence, subject, detail, hint, anchor }) => [
      element("code", {}, subject),
      element("p", {}, element("b", {}, sentence), detail && `: ${detail}`),
      element("p", { class: "fine" }, `${hint} `, element("code", {}, anchor)),
    ]),
  ].filter((part) => part !== undefined);
}

function summary(explanation, service, { suffixes }) {
  const result = outcome(explanation);
  const line = digLine(explanation);
  const copy = element("button", { type: "button", "data-focus": "copy", "aria-label": "Copy the dig command" }, "Copy");
  copy.addEventListener("click", () => copyText(line, copy));
  const bare = explanation.name.replace(/\.$/, "");
  const isOutside = result === "REFUSED" && suffixes.length > 0 && !bare.endsWith(".arpa");
  return element(
    "div",
    { class: "summary" },
    element(
      "p",
      {},
      element("b", { class: `result ${result}` }, result),
      service && element("span", { class: "tag" }, service.kind),
      " ",
      sentence(explanation.reading),
    ),
    isOutside ? element("p", {}, "Did you mean ", nameLink(`${bare}.${suffixes[0]}`), "?") : undefined,
    element("div", { class: "copy" }, element("code", {}, line), copy),
  );
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Returns a command that asks for the name. A link to this page can contain any name, so it is quoted for the shell. */
function digLine({ name, answers }) {
  const type = (answers.find(({ result }) => result === "NOERROR") ?? answers[0])?.rtype ?? "A";
  const isPlain = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(name);
  const quoted = isPlain ? name : `-q '${name.replaceAll("'", "'\\''")}' -t`;
  return `dig +noall +answer ${quoted} ${type}`;
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
  announce(result);
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function failover(order) {
  if (!order) return undefined;
  const steps = order.steps.map(({ clusters, state }, index) => {
    const isNow = index + 1 === order.step;
    const name = clusters === "*" ? "all others" : clusters;
    return element("li", isNow ? { class: "now", "aria-current": "step" } : {}, `${name} (${state})`);
  });
  return section("Failover", `step ${order.step} of ${order.steps.length}`, element("ol", { class: "steps" }, ...steps));
}

function answers({ answers }) {
  const rows = answers.map(({ rtype, result, ttl, records }) => {
    const head = [element("b", {}, rtype), element("span", { class: `result ${result}` }, result)];
    if (ttl !== null && ttl !== undefined) head.push(element("span", { class: "ttl" }, `TTL ${ttl} s`));
    if (records.length > 1) head.push(element("span", { class: "ttl" }, counted(records.length, "record")));
    const data = records.map((record) => element("li", {}, ...recordData(rtype, dataOf(record))));
    return element("li", {}, element("p", { class: "head" }, ...head), data.length ? element("ol", {}, ...data) : undefined);
  });
  return section("Answers", undefined, element("ul", { class: "answers" }, ...rows));
}

/** Returns the data of a record: an object, or its type and data as a text. */
const dataOf = (record) => record.data ?? record.slice(record.indexOf("\t") + 1);

/** The target of an SRV record is a name that can be explained, too. */
function recordData(rtype, data) {
  if (rtype !== "SRV") return [data];
  const [priority, weight, port, target] = data.split(/\s+/);
  return [element("span", { class: "srv" }, `${priority} ${weight} `, element("b", {}, port)), " ", nameLink(target)];
}

const nameLink = (target, name = target.replace(/\.$/, "")) =>
  element("a", { href: addressOf(name), "data-focus": name }, name);

function endpointList(title, endpoints, isOmitted = false) {
  const clusters = Map.groupBy(endpoints, ({ cluster }) => cluster);
  const groups = [...clusters].map(([cluster, own]) => [
    element("h4", {}, cluster || "shared by all clusters"),
    element("ul", { class: "endpoints" }, ...own.map((endpoint) => endpointRow(endpoint, isOmitted))),
  ]);
  return endpoints.length ? section(title, String(endpoints.length), ...groups.flat()) : undefined;
}

function endpointRow({ hostname, addresses, ports, state, object }, isOmitted) {
  const port = ({ name, port, protocol }) => `${name ? `${name} ` : ""}${port}${protocol === "TCP" ? "" : ` ${protocol}`}`;
  const isPlain = state === "answered";
  return element(
    "li",
    {},
    icon(shapeOf(state)),
    element(
      "div",
      {},
      element("p", {}, hostname ? element("b", {}, hostname) : undefined, " ", element("code", {}, addresses.join(" ")), " ",
        element("span", { class: isPlain ? "unseen" : `state ${shapeOf(state)}` }, labelOf(state))),
      isOmitted || !isPlain ? element("p", { class: "why" }, reasonOf(state)) : undefined,
      element("p", { class: "fine" }, ports.map(port).join(", "), " ", element("code", {}, object)),
    ),
  );
}

function list(title, items, describe, css = "items") {
  if (!items?.length) return undefined;
  const rows = items.map((item) => element("li", {}, ...describe(item)));
  return section(title, items.length > 1 ? String(items.length) : undefined, element("ul", { class: css }, ...rows));
}

function section(title, hint, ...content) {
  return element("div", { class: "part" }, element("h3", {}, title, hint && element("small", {}, ` ${hint}`)), ...content);
}
