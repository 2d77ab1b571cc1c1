// Requests to the API, and the stream that says what changed.

import { parameter } from "./address.js";

/** The server answered with an error. Its text is a sentence. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** There is no server, or it did not respond in time. */
export class Unreachable extends Error {}

/** Returns the document of a view at the moment that is shown: `items`, and `continue`. Parameters without a value are omitted. */
export async function load(view, parameters = {}) {
  const at = view === "events" ? "" : parameter("at");
  const query = new URLSearchParams(Object.entries({ ...parameters, at }).filter(([, value]) => value));
  const options = { headers: { accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(15000) };
  let response, text;
  try {
    response = await fetch(`api/v1/${view}?${query}`, options);
    text = await response.text();
  } catch (error) {
    throw new Unreachable(error.message);
  }
  if (!response.ok) throw new Refused(text.trim() || `HTTP status ${response.status}`, response.status);
  return JSON.parse(text);
}

/** Returns the items of a document by their sections. Those without one are in `rows`. */
export function sections({ items }) {
  return Object.fromEntries(Map.groupBy(items, ({ section }) => section ?? "rows"));
}

/** Milliseconds before a new attempt to open a stream that the server has refused: it has too many. */
const RETRY = 10000;

let source, timer;

/** Opens the stream while the page is visible. `on` has a function for each message. The browser itself connects again after an end. */
export function follow(on) {
  source?.close();
  clearTimeout(timer);
  if (document.hidden) return;
  source = new EventSource("api/v1/events");
  for (const type of ["table", "change", "reset"]) {
    source.addEventListener(type, ({ data }) => on[type](JSON.parse(data)));
  }
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) timer = setTimeout(() => follow(on), RETRY);
    on.error();
  });
}

/** Returns whether the stream is open. */
export const isFollowing = () => source?.readyState === EventSource.OPEN;
