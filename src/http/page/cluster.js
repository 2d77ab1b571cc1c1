// The page of a cluster: the state of its Links, the liveness that its mirrors show, its services, and those that it lacks.

import { parameter, serviceAddress } from "./address.js";
import { Refused, load, sections } from "./api.js";
import { command, element, link, marked, separated } from "./dom.js";
import { colorOfState, count, counted, isTrouble, labelOf, natural, since, upper, withCommands } from "./words.js";

/** What each state of a cluster's Links means. */
const LINKS = {
  linked: "a Link names it",
  frozen: "a Link names it, and its mirror controller has stopped: mirrors and their liveness stay as they were",
  missing: "no Link names it any more; its endpoints still count",
  unlinked: "no Link names it; its endpoints are down",
  unknown: "whether a Link names it is not known",
};

/** The cluster that was loaded, its document, or why there is none. */
let name = "";
let found, refusal;

/** Loads the cluster of the address. A response for another one is not shown. */
export async function refresh() {
  const wanted = parameter("cluster");
  let detail, error;
  try {
    [detail] = sections(await load("status", { cluster: wanted })).clusters;
  } catch (failure) {
    if (!(failure instanceof Refused)) throw failure;
    error = failure.message;
  }
  if (wanted === parameter("cluster")) [name, found, refusal] = [wanted, detail, error];
}

/** Returns what is shown of a cluster. */
export function parts(wanted) {
  if (wanted !== name) return [element("p", { class: "soft" }, "Loading")];
  if (!found) return [element("p", {}, ...withCommands(upper(refusal ?? "")))];
  const { services, serviceCount, lacking, lackingCount } = found;
  return [
    verdict(),
    part(`Services (${count(serviceCount)})`, services.map(serviceRow), serviceCount),
    part(`Services that other linked clusters have and this one lacks (${count(lackingCount)})`, lacking.toSorted(natural).map((key) => element("li", {}, link(serviceAddress(key), key))), lackingCount),
    element("p", { class: "soft" }, "As text: ", command(`global-dns table --cluster ${name} -o wide`)),
  ];
}

/** The state of its Links, and of its endpoints. */
function verdict() {
  const { isOwn, link: state, isMirrored, detail, endpoints, ...age } = found;
  const color = state === "linked" || isOwn ? "ok" : state && state !== "unknown" ? "attention" : "idle";
  const text = isOwn ? "This cluster" : state ? `${upper(state)}: ${LINKS[state] ?? "a newer server knows what it means"}` : "The objects do not say whether it is linked";
  const numbers = Object.entries(endpoints).map(([one, number]) => marked(one, isTrouble(one) ? "attention" : "ok", `${counted(number, "endpoint")} ${labelOf(one)}`));
  return element(
    "div",
    { class: "verdict" },
    element("p", {}, element("b", {}, marked(color, color, text)), isMirrored === false ? ", nothing mirrored" : ""),
    detail ? element("p", {}, ...withCommands(upper(detail)), " ", since(age) ?? "") : undefined,
    element("p", { class: "states" }, ...separated(...numbers)),
  );
}

function serviceRow({ service, state, alive, endpoints, returned, ...age }) {
  const color = colorOfState(state, returned > 0, "attention");
  const numbers = endpoints ? `${count(alive)} of ${count(endpoints)} alive` : "";
  return element("li", {}, ...separated(link(serviceAddress(service), service), marked(state, color, numbers || labelOf(state)), numbers && isTrouble(state) && labelOf(state), since(age)));
}

function part(title, rows, total) {
  if (!total) return undefined;
  const rest = total - rows.length;
  return element("div", { class: "part" }, element("h3", {}, title), element("ul", {}, ...rows, ...(rest ? [element("li", { class: "soft" }, `And ${count(rest)} more.`)] : [])));
}
