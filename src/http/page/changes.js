// Recent changes of answers, the newest first, with a heading for each day.

import * as address from "./address.js";
import { load } from "./server.js";
import { byId, element, icon, link, replace } from "./dom.js";
import { serviceAddress } from "./problem.js";
import { dayOf, secondsOf, styleOfChange, timeElement } from "./words.js";

/** As many as the server keeps. */
const LIMIT = 1000;

/** The changes, the newest first. They are loaded when they are needed. */
let events;

/** The request for them, while it goes on. */
let loading;

/** The changes that arrived since all were forgotten, the oldest first: those that are loaded may lack some. */
let arrived = [];

const servicesOf = ({ services }) => services ?? [];

/** Returns the services that the filter of this view offers. */
export const known = () => ({ services: (events ?? []).flatMap(servicesOf) });

/** Returns all changes, the newest first, and loads them first if nothing is known. */
export async function all() {
  if (events) return events;
  loading ??= loadAll().finally(() => (loading = undefined));
  return loading;
}

async function loadAll() {
  const before = arrived;
  const loaded = (await load("events")).events.toReversed();
  if (before !== arrived) return loadAll(); // forgotten in between
  events = loaded;
  arrived.forEach(insert);
  return events;
}

/** Shows the changes that match the filter. */
export async function show() {
  const changes = await all();
  const wanted = address.parameter("service");
  const matching = changes.filter((event) => (!wanted || servicesOf(event).includes(wanted)) && new Date(event.time) <= address.moment());
  const blank = element(
    "li",
    { class: "blank" },
    element("h2", {}, wanted ? `No recent change of ${wanted}` : "Nothing has changed yet"),
    element("p", {}, "A change of an answer is a new cluster, a new endpoint, or a gateway that is down. Each process knows its own."),
  );
  const days = Map.groupBy(matching, ({ time }) => dayOf(new Date(time)));
  const groups = [...days].map(([day, list]) => element("li", { class: "day" }, element("h2", {}, day), changeList(list)));
  replace(byId("change-list"), ...(groups.length ? groups : [blank]));
}

/** Adds a new change. */
export function add(event) {
  arrived.push(event);
  if (arrived.length > LIMIT) arrived.shift();
  if (events) insert(event);
}

function insert(event) {
  if (!events.some(({ id }) => id === event.id)) events = [event, ...events].slice(0, LIMIT);
}

/** Forgets the changes, because some may be missing. */
export function forget() {
  events = undefined;
  arrived = [];
}

/** Returns a list of changes. `describe` returns what it shows of the time of one. */
export function changeList(list, describe = (time) => secondsOf(new Date(time))) {
  return element("ol", { class: "changes" }, ...list.map((event) => item(event, describe)));
}

function item(event, describe) {
  const [shape, color] = styleOfChange(event.kind);
  const [service, other] = servicesOf(event);
  const text = service && !other ? link(serviceAddress(service), event.text) : element("span", {}, event.text);
  return element("li", {}, timeElement(event.time, describe(event.time)), icon(shape, color), element("div", {}, text));
}
