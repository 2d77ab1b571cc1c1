// The words, shapes and colors of levels, states and events, and the formats of numbers and times.

import { moment as shownMoment } from "./address.js";
import { element, setText } from "./dom.js";

// === Levels ===

/** Levels of services and of the whole page, the best first. They are names of shapes and colors, too. */
const LEVELS = ["fine", "attention", "failing"];
const OF_PROBLEMS = { error: "failing", warning: "attention", note: "idle" };

/** A newer server may have levels that this page does not know. They need attention. */
const known = (level) => (LEVELS.includes(level) ? level : "attention");
export const rank = (level) => LEVELS.indexOf(known(level));
export const worst = (levels) => LEVELS[Math.max(0, ...levels.map(rank))];
/** Returns the color of a problem's level. */
export const colorOf = (level) => OF_PROBLEMS[level] ?? "attention";
export const shapeOfColor = (color) => (color === "idle" ? "note" : color);
export const PROBLEM_LEVELS = [["error", "Error"], ["warning", "Warning"], ["note", "Note"]];

// === States of endpoints ===

/** The states of endpoints and of cells, the worst first. */
export const STATES = ["down", "expected", "not-ready", "omitted", "standby", "alive"];
const TROUBLE = new Set(["down", "expected", "not-ready"]);

export const isTrouble = (state) => TROUBLE.has(state) || !STATES.includes(state);
export const shapeOfState = (state) => (STATES.includes(state) ? state : "other");
export const labelOf = (state) => state.replaceAll("-", " ");

/** Returns the color of a cell or an endpoint. It is never worse than that of its service, and fine only if it is returned. */
export function colorOfState(state, isReturned, level) {
  if (isTrouble(state)) return level === "fine" ? "idle" : level;
  return isReturned && level !== "failing" ? "fine" : "idle";
}

// === Results ===

export const colorOfResult = (result) => ({ NOERROR: "fine", NODATA: "idle", NXDOMAIN: "attention", REFUSED: "attention" })[result] ?? "failing";

// === Changes ===

const CHANGES = {
  joined: ["plus", "fine"],
  grew: ["plus", "fine"],
  left: ["minus", "attention"],
  shrank: ["minus", "idle"],
  down: ["down", "attention"],
  up: ["alive", "fine"],
  linked: ["alive", "fine"],
  unlinked: ["down", "attention"],
  frozen: ["down", "attention"],
  step: ["change", "attention"],
  failing: ["change", "attention"],
  address: ["change", "idle"],
  kind: ["change", "idle"],
  order: ["change", "idle"],
  gate: ["change", "idle"],
  ttl: ["change", "idle"],
  "gateway-down": ["change", "idle"],
  "short-name": ["change", "idle"],
};
/** Returns the shape and the color of a change. */
export const styleOfChange = (kind) => CHANGES[kind] ?? ["note", "idle"];

// === Numbers and times ===

const integer = new Intl.NumberFormat("en");
const format = (options) => new Intl.DateTimeFormat("en", { hourCycle: "h23", ...options });
const minutes = format({ hour: "2-digit", minute: "2-digit" });
const seconds = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const monthDay = format({ month: "short", day: "numeric" });
const full = format({ dateStyle: "full", timeStyle: "long" });
const longDay = format({ dateStyle: "full" });
/** Each of these knows the short names of other time zones, and has "GMT+1" for the rest. */
const ZONE_LOCALES = ["en-US", "en-GB", "en-AU", "en-IN"];

export const natural = new Intl.Collator("en", { numeric: true }).compare;
export const count = (number) => integer.format(number);
/** Returns a number with its noun: "1 service", "2 services". */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const shortened = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);
export const upper = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
export const dayOf = (moment) => longDay.format(moment);
export const secondsOf = (moment) => seconds.format(moment);

/** Returns the short name of the time zone: "CET". */
export function zoneName() {
  const parts = ZONE_LOCALES.flatMap((locale) => new Intl.DateTimeFormat(locale, { timeZoneName: "short" }).formatToParts());
  const names = parts.filter(({ type }) => type === "timeZoneName").map(({ value }) => value);
  return names.find((name) => !/\d/.test(name)) ?? names[0];
}

/** Returns a time as short as it is unmistakable: that of another day has its date. */
export function timeOf(time, clock = minutes) {
  const moment = new Date(time);
  if (isNaN(moment)) return String(time);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? clock.format(moment) : `${monthDay.format(moment)}, ${clock.format(moment)}`;
}

/** Returns a time to the second. */
export const exactTime = (moment) => timeOf(moment, seconds);

function duration(moment) {
  const passed = (shownMoment() - moment) / 60000;
  if (passed < 1) return "just now";
  if (passed < 120) return `${Math.floor(passed)} min`;
  return passed < 2880 ? `${Math.floor(passed / 60)} h` : `${Math.floor(passed / 1440)} d`;
}

/** Returns "since 03:11 (13 min)" of a fact, or "before 03:11" if the server found it when it started. */
function sinceText({ since, isOlder }) {
  if (isOlder) return `before ${timeOf(since)}`;
  const moment = new Date(since);
  return `since ${timeOf(since)}${isNaN(moment) ? "" : ` (${duration(moment)})`}`;
}

/** Returns a time as an element, with the whole date as its tooltip. `text` is what it shows of the time. */
export function timeElement(time, text) {
  const moment = new Date(time);
  return element("time", { datetime: time, title: isNaN(moment) ? undefined : full.format(moment) }, text);
}

/** Returns the same as an element, or undefined. */
export const since = (fact) => (fact.since ? timeElement(fact.since, sinceText(fact)) : undefined);
/** The same as a text, for tooltips. */
export const sinceWords = (fact) => (fact.since ? ` ${sinceText(fact)}` : "");

/** Writes the durations again, which grow. */
export function refreshTimes() {
  for (const node of document.querySelectorAll("time")) {
    if (node.textContent.startsWith("since ")) setText(node, sinceText({ since: node.dateTime }));
  }
}
