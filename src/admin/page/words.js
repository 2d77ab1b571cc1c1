// The words and shapes of states, kinds and events, and the formats of numbers and times.

/** Each state of an endpoint: its name on the page, and why it is or is not in the answer. The worst state is first. */
const STATES = new Map([
  ["gateway-down", ["gateway down", "Its gateway is down."]],
  ["unlinked", ["unlinked", "No Link names its cluster."]],
  ["awaited", ["awaited", "The service waits for an endpoint of this cluster."]],
  ["last-resort", ["last resort", "Returned although its gateway is down, because no gateway is up."]],
  ["not-ready", ["not ready", "The pod is not ready."]],
  ["other-kind", ["excluded", "Another kind answers the name. Only names of its cluster return it."]],
  ["standby", ["standby", "An earlier step of the failover order answers."]],
  ["answered", ["alive", "Returned."]],
]);
/** States whose endpoints work, whether they are returned or not. */
const ALIVE = new Set(["answered", "standby", "other-kind"]);
/** States of a service that needs attention. */
const TROUBLE = ["gateway-down", "unlinked", "awaited", "last-resort", "not-ready"];

export const stateNames = [...STATES.keys()];
export const isAlive = (state) => ALIVE.has(state);
export const isReturned = (state) => state === "answered" || state === "last-resort";
export const isTrouble = (states) => TROUBLE.some((state) => states.has(state));
/** A newer server may have states that this page does not know. They get the shape of excluded endpoints. */
export const shapeOf = (state) => (STATES.has(state) ? state : "other-kind");
export const labelOf = (state) => STATES.get(state)?.[0] ?? state;
export const reasonOf = (state) => STATES.get(state)?.[1] ?? "";
export const worst = (states) => stateNames.find((state) => states.has(state)) ?? [...states][0];

const EVENTS = new Map([
  ["cluster-joined", ["plus", "good"]],
  ["cluster-left", ["minus", "bad"]],
  ["link-changed", ["warning", "fair"]],
  ["service-added", ["plus", "good"]],
  ["service-removed", ["minus", "bad"]],
  ["endpoint-added", ["plus", "good"]],
  ["endpoint-removed", ["minus", "plain"]],
  ["endpoint-changed", ["change", "plain"]],
  ["gateway-down", ["gateway-down", "bad"]],
  ["gateway-up", ["answered", "good"]],
  ["failover", ["change", "fair"]],
  ["list-held", ["warning", "fair"]],
  ["table-stale", ["not-ready", "fair"]],
]);
/** Returns the shape of an event and the class of its color. */
export const eventStyle = (kind) => EVENTS.get(kind) ?? ["note", "plain"];

export const SERVER_STATES = new Map([
  ["ready", ["answered", "Ready"]],
  ["loading", ["awaited", "Loading"]],
  ["stale", ["not-ready", "Stale"]],
  ["expired", ["gateway-down", "Expired"]],
  ["connecting", ["awaited", "Connecting"]],
  ["lost", ["gateway-down", "Disconnected"]],
]);

const integer = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });

export const count = (number) => integer.format(number);
/** Returns a number with its noun: "1 service", "2 services". */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const timeOf = (moment) => clock.format(moment);
export const dayOf = (moment) => date.format(moment);

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}
