// Recent changes of the answers, the newest first.

import { addressOf, announce, byId, element, icon } from "./dom.js";
import { count, dayOf, eventStyle, timeOf } from "./words.js";

/** As many as the server keeps. */
const LIMIT = 1000;
let nameOf;
let total = 0;
let lastId;
let unread = [];
let timer;

/** Prepares the list. `toName` returns the DNS name of a service. */
export function start(toName) {
  nameOf = toName;
  byId("quiet").append(
    element("h3", {}, "Nothing has changed yet"),
    element("p", {}, "Each change of an answer appears here: a new cluster, a new endpoint, a gateway that is down."),
  );
}

/** Shows all events, the oldest first. */
export function replace(events) {
  byId("events").replaceChildren();
  total = 0;
  lastId = undefined;
  for (const event of events.slice(-LIMIT)) insert(event);
  refresh();
}

/** Shows a new event above the others. */
export function add(event) {
  if (event.id <= lastId) return;
  insert(event).classList.add("new");
  const list = byId("events");
  while (total > LIMIT) {
    const day = list.lastElementChild;
    const items = day.querySelector("ol");
    items.lastElementChild.remove();
    if (!items.firstElementChild) day.remove();
    total -= 1;
  }
  refresh();
  unread.push(event.text);
  clearTimeout(timer);
  timer = setTimeout(() => {
    announce(unread.length === 1 ? unread[0] : `${count(unread.length)} changes`);
    unread = [];
  }, 600);
}

function refresh() {
  byId("quiet").hidden = total > 0;
  byId("happened-count").textContent = total ? count(total) : "";
}

function insert(event) {
  const moment = new Date(event.time);
  const [shape, color] = eventStyle(event.kind);
  const isNamed = event.namespace && event.service;
  const text = isNamed
    ? element("a", { href: addressOf(nameOf(event.service, event.namespace)) }, event.text)
    : element("span", {}, event.text);
  const time = element("time", { datetime: event.time }, timeOf(moment));
  const item = element("li", { class: color }, time, icon(shape), text);
  dayList(moment).prepend(item);
  total += 1;
  lastId = event.id;
  return item;
}

/** Returns the list of a day, and adds it above the others if it is new. */
function dayList(moment) {
  const list = byId("events");
  const day = dayOf(moment);
  if (list.firstElementChild?.firstChild.textContent !== day) {
    list.prepend(element("li", { class: "day" }, element("h3", {}, day), element("ol")));
  }
  return list.firstElementChild.lastChild;
}
