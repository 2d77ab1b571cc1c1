// Requests to the API, and the stream of its changes.

import * as address from "./address.js";

/** The server answered with an error. Its text is a sentence. */
export class Refused extends Error {}

/** There is no server, or it did not respond in time. */
export class Unreachable extends Error {}

/** The tag of the last summary. */
let tag;

async function request(path, headers = {}) {
  const options = { headers: { accept: "application/json", ...headers }, cache: "no-store", signal: AbortSignal.timeout(15000) };
  let response, text;
  try {
    response = await fetch(`api/v1/${path}`, options);
    text = await response.text();
  } catch (error) {
    throw new Unreachable(error.message);
  }
  if (response.status === 304) return undefined;
  if (!response.ok) throw new Refused(text.trim() || `HTTP status ${response.status}`);
  if (path.startsWith("summary")) tag = response.headers.get("etag");
  return JSON.parse(text);
}

/** What is always of now, and says itself of which time it is. */
const TIMELESS = ["events", "history"];

/** Returns the JSON document of a path below /api/v1/, of the moment that is shown. Parameters without a value are omitted. */
export function load(path, parameters = {}, headers = {}) {
  const at = TIMELESS.includes(path) ? "" : address.parameter("at");
  const query = new URLSearchParams(Object.entries({ ...parameters, at }).filter(([, value]) => value));
  return request(query.size ? `${path}?${query}` : path, headers);
}

/** Returns the summary, or undefined if it is still the one that was loaded last. */
export const loadSummary = () => load("summary", {}, tag ? { "if-none-match": tag } : {});

/** Makes the next summary a whole one, because an update has changed the last one. */
export const forgetTag = () => (tag = undefined);

/**
 * Opens the stream of the changes that follow an event and a table, as a summary names them. Returns it when it is open, or
 * undefined if it cannot be opened. `on` has a function for each event of the server, and `lost` for the end of a stream that
 * was open.
 *
 * The browser would reconnect by itself, but not after every error, and without loading what the page missed.
 */
export function follow(after, tables, on) {
  const source = new EventSource(`api/v1/events?after=${after}&tables=${tables}`);
  source.addEventListener("change", (message) => on.change(JSON.parse(message.data)));
  source.addEventListener("summary", (message) => on.summary(JSON.parse(message.data)));
  source.addEventListener("reset", () => on.reset());
  return new Promise((resolve) => {
    source.onopen = () => resolve(source);
    source.onerror = () => {
      source.close();
      resolve();
      on.lost();
    };
  });
}

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
