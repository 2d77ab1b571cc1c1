// The last changes of answers, and the time bar that is drawn from them. Its slider chooses the moment that the page shows.

import { go, here, isPast, moment, parameter, serviceAddress, serviceOf } from "./address.js";
import { load } from "./api.js";
import { byId, element, link, marked, setText } from "./dom.js";
import { ZONE, exactTime, styleOfChange, timeElement, timeOf, troubleOf, withTimes } from "./words.js";

/** Changes that the page keeps. */
const KEPT = 200;

/** The changes, the newest first. */
let events = [];
/** Milliseconds by which the clock of the server is ahead, and when its history begins. */
let skew = 0;
let start = "";

/** Loads the last changes. */
export async function refresh() {
  events = (await load("events", { limit: KEPT })).items.toReversed();
}

/** Adds a new change. */
export function add(event) {
  if (!events.some(({ id }) => id === event.id)) events = [event, ...events].slice(0, KEPT);
}

/** Takes over the times of the status. */
export function showStatus({ historyStart, time }) {
  start = historyStart;
  skew = isPast() ? skew : Date.parse(time) - Date.now();
}

/** Returns a list of changes. `own` is the service that everything around is about. */
export function changeList(list, own) {
  const item = ({ time, text, services = [], ...change }) => {
    const [service, other] = services;
    const sentence = withTimes(text);
    const target = service && !other && service !== own ? [link(serviceAddress(service), ...sentence)] : sentence;
    return element("li", {}, timeElement(time, exactTime(time)), " ", marked(...styleOfChange(change), ...target));
  };
  return element("ol", { class: "changes" }, ...list.map(item));
}

/** Returns the list of all changes until the moment that is shown. */
export function recent() {
  const list = events.filter(({ time }) => new Date(time) <= moment());
  return list.length ? changeList(list) : element("p", {}, "Nothing has changed. Each process knows its own changes.");
}

// === The time bar ===

/** Milliseconds that the bar can show, by their name in the address. */
const SPANS = { "1h": 3600000, "24h": 86400000 };
/** Places of the slider. A change that is nearer than half of one attracts it, so that what is shown is the answer after the change. */
const STEPS = 240;
/** Milliseconds between two places in the address while the reader drags: browsers limit their number. */
const DRAG = 300;

const slider = byId("slider");
let timer;

const now = () => Date.now() + skew;
const parse = ({ time }) => Date.parse(time);
const spanName = () => (SPANS[parameter("span")] ? parameter("span") : now() - moment() > SPANS["1h"] ? "24h" : "1h");
const span = () => SPANS[spanName()];

/** Returns the changes of the open service, or all, the newest first. */
function shownChanges() {
  const own = serviceOf(parameter("name"));
  return events.filter(({ services }) => !own || services?.includes(own));
}

/** Shows the marks and the moment. */
export function showBar() {
  const end = now();
  const place = (time) => Math.min(1000, Math.max(0, (1000 * (time - end + span())) / span()));
  const box = (from, to) => `M${from.toFixed(1)} 0V10H${Math.max(to, from + 1.5).toFixed(1)}V0z`;
  const boxesOf = (list) => list.map(parse).filter((time) => time > end - span()).map((time) => box(place(time), 0));
  const paths = {
    unknown: [box(0, place(Date.parse(start)) || 0)],
    changes: boxesOf(shownChanges()),
    attention: boxesOf(events.filter((event) => troubleOf(event) === "attention")),
    failing: boxesOf(events.filter((event) => troubleOf(event) === "failing")),
  };
  for (const [name, parts] of Object.entries(paths)) document.querySelector(`.t-${name}`).setAttribute("d", parts.join(""));
  setText(byId("start"), timeOf(end - span()));
  for (const button of byId("spans").children) button.setAttribute("aria-pressed", button.dataset.span === spanName());
  const text = isPast() ? `${exactTime(moment())} ${ZONE}` : "now";
  setText(byId("moment"), text);
  slider.setAttribute("aria-valuetext", text);
  Object.assign(slider, { min: -span() / 1000, step: span() / STEPS / 1000 });
  if (timer === undefined) slider.value = isPast() ? (moment() - end) / 1000 : 0;
}

/** Goes to the moment of the slider, or back to now if it is at the end. */
function choose() {
  timer = undefined;
  const chosen = now() + slider.value * 1000;
  const near = shownChanges().map(parse).find((time) => Math.abs(time - chosen) < span() / STEPS);
  const at = Number(slider.value) < 0 ? new Date(near ?? Math.max(chosen, Date.parse(start) || 0)).toISOString() : "";
  go(here({ at, open: "" }), true);
}

export function startBar() {
  slider.addEventListener("input", () => (timer ??= setTimeout(choose, DRAG)));
  byId("spans").addEventListener("click", ({ target }) => target.dataset.span && go(here({ span: target.dataset.span }), true));
  byId("back").addEventListener("click", () => go(here({ at: "", open: "" })));
}
