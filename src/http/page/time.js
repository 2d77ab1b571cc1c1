// The time bar: the changes of the open service, or of all, and where trouble began. Its slider chooses the moment that the page shows,
// which the address names.

import * as address from "./address.js";
import { all } from "./changes.js";
import { rowOfName } from "./model.js";
import { load } from "./server.js";
import { announce, byId, setText } from "./dom.js";
import { exactTime, timeOf, zoneName } from "./words.js";

/** Milliseconds that the bar can show, by their name in the address. The second one is the default. */
const SPANS = { "15m": 900000, "1h": 3600000, "24h": 86400000 };
/** Milliseconds between two places in the address while the reader drags: browsers limit their number. */
const DRAG = 300;
/** Pixels within which a mark attracts the pointer. */
const NEAR = 4;

const track = byId("track");
let marks = { events: [] };
/** Milliseconds by which the clock of the server is ahead. */
let skew = 0;
/** The place of the pointer while the reader drags, in milliseconds since the epoch; infinite: now. */
let dragged;
let timer;
let request = 0;

const now = () => Date.now() + skew;
const parse = (time) => Date.parse(time);
const spanName = () => (SPANS[address.parameter("span")] ? address.parameter("span") : Object.keys(SPANS).find((name) => name !== "15m" && SPANS[name] > now() - address.moment()) ?? "24h");
const span = () => SPANS[spanName()];
/** The moment that is shown. */
const chosen = () => Math.min(dragged ?? (address.isPast() ? address.moment().getTime() : Infinity), now());
const textOfChosen = () => ((dragged === undefined ? address.isPast() : dragged < Infinity) ? `${exactTime(chosen())} ${zoneName()}` : "now");

/** Goes to a moment of the history, or back to now if it is not over. */
function go(moment, isSmallStep = true) {
  const at = moment < now() ? new Date(Math.max(moment, parse(marks.start) || 0)).toISOString() : "";
  address.go(address.here({ at, open: "" }), isSmallStep);
  announce("time", `Shows ${textOfChosen()}`);
}

/** Loads the marks. */
export async function refresh() {
  const own = ++request;
  const [status, events] = await Promise.all([load("status"), all()]);
  if (own !== request) return;
  marks = { start: status.historyStart, events };
  skew = parse(status.time) - Date.now();
  show();
}

/** Returns the changes of the open service, or all, the newest first. */
function shownChanges() {
  const row = rowOfName(address.parameter("name"));
  return marks.events.filter(({ services }) => !row || services?.includes(row.key));
}

const TROUBLE = { down: "attention", unlinked: "attention", frozen: "attention", failing: "failing" };
/** Returns the level of a change: a name that answers again is no trouble. */
const levelOf = ({ kind, after }) => (kind === "failing" && !after ? undefined : TROUBLE[kind]);

/** Shows the marks and the moment. */
export function show() {
  const end = now();
  const start = end - span();
  const place = (time) => Math.max(0, (1000 * ((typeof time === "number" ? time : parse(time)) - start)) / span());
  const box = (from, to) => `M${from.toFixed(1)} 0V10H${Math.max(to, from + 1.5).toFixed(1)}V0z`;
  const boxesOf = (events) => events.map(({ time }) => box(place(time), 0));
  const troubleOf = (level) => boxesOf(marks.events.filter((event) => levelOf(event) === level));
  const paths = {
    unknown: [box(-1, place(marks.start ?? start))],
    changes: boxesOf(shownChanges()),
    attention: troubleOf("attention"),
    failing: troubleOf("failing"),
  };
  for (const [name, parts] of Object.entries(paths)) track.querySelector(`.t-${name}`).setAttribute("d", parts.join(""));
  byId("cursor").style.left = `${Math.min(100, place(chosen()) / 10)}%`;
  setText(byId("start"), timeOf(start));
  setText(byId("moment"), textOfChosen());
  track.setAttribute("aria-valuemin", Math.round(-span() / 1000));
  track.setAttribute("aria-valuenow", Math.round(Math.max(-span(), chosen() - end) / 1000));
  track.setAttribute("aria-valuetext", textOfChosen());
  for (const button of byId("spans").children) button.setAttribute("aria-pressed", button.dataset.span === spanName());
}

/**
 * Returns the moment of a pointer, which is infinite at the end of the bar. The nearest change attracts it, so that what is shown
 * is the answer after the change.
 */
function momentAt({ clientX }) {
  const box = track.getBoundingClientRect();
  const end = now();
  const moment = end - span() * (1 - Math.min(1, Math.max(0, (clientX - box.left) / box.width)));
  const distance = (time) => Math.abs(time - moment);
  const near = shownChanges().map(({ time }) => parse(time)).reduce((one, other) => (distance(other) < distance(one) ? other : one), end);
  if (distance(near) >= (NEAR * span()) / box.width) return moment;
  return near === end ? Infinity : near;
}

function drag(event) {
  dragged = momentAt(event);
  timer ??= setTimeout(drop, DRAG);
  show();
}

function drop() {
  clearTimeout(timer);
  timer = undefined;
  if (dragged !== undefined) go(dragged);
}

function moveByKey(event) {
  const at = chosen();
  const times = shownChanges().map(({ time }) => parse(time)).toReversed();
  const step = span() / 60;
  const targets = {
    ArrowLeft: () => at - step,
    ArrowDown: () => at - step,
    ArrowRight: () => at + step,
    ArrowUp: () => at + step,
    PageDown: () => times.findLast((time) => time < at) ?? at,
    PageUp: () => times.find((time) => time > at) ?? Infinity,
    Home: () => now() - span(),
    End: () => Infinity,
  };
  if (!targets[event.key]) return;
  event.preventDefault();
  go(targets[event.key]());
}

export function start() {
  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    track.setPointerCapture(event.pointerId);
    drag(event);
  });
  track.addEventListener("pointermove", (event) => track.hasPointerCapture(event.pointerId) && drag(event));
  track.addEventListener("lostpointercapture", () => {
    drop();
    dragged = undefined;
    show();
  });
  track.addEventListener("keydown", moveByKey);
  byId("spans").addEventListener("click", ({ target }) => target.dataset.span && address.go(address.here({ span: target.dataset.span }), true));
  byId("back").addEventListener("click", () => go(Infinity, false));
}
