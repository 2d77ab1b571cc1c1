// The words, shapes and colors of levels, states and changes, and the formats of numbers and times.

import { moment as shownMoment } from "./address.js";
import { command, element } from "./dom.js";

const COLORS = ["ok", "attention", "failing"];
/** Returns the color of a state, which is a shape, too. A newer server may have states that this page does not know. */
export const colorOfImpact = (state) => (COLORS.includes(state) ? state : "attention");
const OF_LEVELS = { error: "failing", warning: "attention", note: "idle" };
/** Returns the color of a problem's level. */
export const colorOf = (level) => OF_LEVELS[level] ?? "attention";

/** Returns whether a state of an endpoint or of a cell is trouble: down, not ready, expected. */
export const isTrouble = (state) => !["alive", "standby", "omitted"].includes(state);
export const labelOf = (state) => state.replaceAll("-", " ");

/** Returns the color of a state in a service. It is never worse than that of the service, and fine only if it is returned. */
export function colorOfState(state, isReturned, service) {
  if (isTrouble(state)) return service === "ok" ? "idle" : service;
  return isReturned && service !== "failing" ? "ok" : "idle";
}

export const colorOfResult = (result) => ({ NOERROR: "ok", NODATA: "idle", NXDOMAIN: "attention", REFUSED: "attention" })[result] ?? "failing";

const CHANGES = {
  joined: ["plus", "ok"],
  grew: ["plus", "ok"],
  shrank: ["minus", "idle"],
  left: ["minus", "attention"],
  up: ["alive", "ok"],
  linked: ["alive", "ok"],
};
const TROUBLES = { down: "attention", unlinked: "attention", frozen: "attention", failing: "failing" };
/** Returns the color of a change that is trouble. A name that answers again is none. */
export const troubleOf = ({ kind, after }) => (kind === "failing" && !after ? undefined : TROUBLES[kind]);
/** Returns the shape and the color of a change. */
export const styleOfChange = (change) => (troubleOf(change) ? ["down", troubleOf(change)] : (CHANGES[change.kind] ?? ["change", "idle"]));

// === Numbers and times ===

const format = (options) => new Intl.DateTimeFormat("en", { hourCycle: "h23", ...options });
const minutes = format({ hour: "2-digit", minute: "2-digit" });
const seconds = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const monthDay = format({ month: "short", day: "numeric" });
const wholeDate = format({ dateStyle: "medium" });
const full = format({ dateStyle: "full", timeStyle: "long" });

export const natural = new Intl.Collator("en", { numeric: true }).compare;
export const count = (number) => new Intl.NumberFormat("en").format(number);
/** Returns a number with its noun: "1 service", "2 services". */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const upper = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** The short name of the time zone: "EST" or "GMT+1". */
export const ZONE = format({ timeZoneName: "short" }).formatToParts().find(({ type }) => type === "timeZoneName").value;

/** Returns a time as short as it is unmistakable: that of another day has its date, that of another year also the year. */
export function timeOf(time, clock = minutes) {
  const moment = new Date(time);
  if (isNaN(moment)) return String(time);
  const now = new Date();
  const date = moment.getFullYear() === now.getFullYear() ? monthDay : wholeDate;
  return moment.toDateString() === now.toDateString() ? clock.format(moment) : `${date.format(moment)}, ${clock.format(moment)}`;
}

/** Returns a time to the second. */
export const exactTime = (moment) => timeOf(moment, seconds);

function duration(moment) {
  const passed = (shownMoment() - moment) / 60000;
  if (passed < 1) return "just now";
  if (passed < 120) return `${Math.floor(passed)} min`;
  return passed < 2880 ? `${Math.floor(passed / 60)} h` : `${Math.floor(passed / 1440)} d`;
}

/** Returns how long a fact has held, "13 min", or an empty text. */
export const durationText = ({ since, isOlder }) => (since && !isOlder ? duration(new Date(since)) : "");

/** Returns "since 03:11 (13 min)" of a fact, "before 03:11" if the server found it when it started, or an empty text. */
export function sinceText({ since, isOlder }) {
  if (!since) return "";
  if (isOlder) return `before ${timeOf(since)}`;
  const moment = new Date(since);
  return `since ${timeOf(since)}${isNaN(moment) ? "" : ` (${duration(moment)})`}`;
}

/** Returns a time as an element, with the whole date as its tooltip. `text` is what it shows of the time. */
export function timeElement(time, text = timeOf(time)) {
  const moment = new Date(time);
  return element("time", { datetime: time, title: isNaN(moment) ? undefined : full.format(moment) }, text);
}

/** What somebody wrote, or a time as the server writes it. A time without seconds is an example. */
const TIMES = /(?<!\w)'[^']*'|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
/** A command in a sentence, up to what the sentence says of it. */
const COMMANDS = /\b(?:kubectl|linkerd|global-dns) [a-z].*?(?=;|, |: |\)| shows |$)/g;

/** Returns the parts of a text: those that match, as `make` shows them, and those between. */
function split(text, pattern, make, between = (part) => [part]) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(pattern)) {
    parts.push(...between(text.slice(end, index)), make(found));
    end = index + found.length;
  }
  return [...parts, ...between(text.slice(end))].filter(Boolean);
}

/** Returns a sentence of the server as parts, with the times of the reader. Quotations and examples stay as they are. */
export const withTimes = (text) => split(text, TIMES, (found) => (found.startsWith("'") ? found : timeElement(found, exactTime(new Date(found)))));

/** Returns a sentence as parts, with times of the reader, and commands that can be copied. */
export const withCommands = (text) => split(text, COMMANDS, command, withTimes);

/** Returns since when a fact holds as an element, or undefined. */
export const since = (fact) => (fact.since ? timeElement(fact.since, sinceText(fact)) : undefined);
