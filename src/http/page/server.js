// Requests to the API. Keeps the page up to date while it is visible: loads the summary once, and then follows the stream of
// changes; or loads the moment of the past that the address names.

import * as address from "./address.js";
import * as model from "./model.js";

// === Requests ===

/** The server answered with an error. Its text is a sentence. */
export class Refused extends Error {}

/** There is no server, or it did not respond in time. */
export class Unreachable extends Error {}

/** The tag of the summary that is shown. */
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
  return { ...JSON.parse(text), tag: response.headers.get("etag") };
}

/** What is always of now, and says itself of which time it is. */
const TIMELESS = ["events", "status"];

/** Returns the JSON document of a path below /api/v1/, of the moment that is shown. Parameters without a value are omitted. */
export function load(path, parameters = {}, headers = {}) {
  const at = TIMELESS.includes(path) ? "" : address.parameter("at");
  const query = new URLSearchParams(Object.entries({ ...parameters, at }).filter(([, value]) => value));
  return request(query.size ? `${path}?${query}` : path, headers);
}

/**
 * Opens the stream of the changes that follow an event and a table, as a summary names them. Returns it when it is open, or
 * undefined if it cannot be opened. `on` has a function for each event of the server, and `lost` for the end of a stream that
 * was open.
 *
 * The browser would reconnect by itself, but not after every error, and without loading what the page missed.
 */
function follow(after, tables, on) {
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

// === Up to date ===

/** Milliseconds before a new attempt to connect: at first, and at most. */
const RETRY = [200, 5000];
/** Milliseconds between two requests of the summary if the server gives no stream, and requests before a new attempt. */
const POLL = 5000;
const POLLS = 6;
/** Milliseconds between two moments of the past, however fast the reader drags. */
const SPACING = 500;

let stream;
/** Increases with each attempt to connect, so that an older one ends. */
let attempt = 0;
let on;

/**
 * Starts. `listeners` has functions for a new summary (`loaded`), for changed services (`update`), for a change of answers
 * (`change`), for the end of an attempt to open the stream (`followed`), for a moment that cannot be shown (`unknown`), and for
 * the loss of the connection (`lost`).
 */
export function start(listeners) {
  on = listeners;
  // A hidden page keeps no connection: a browser has only six for each server.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : restart()));
  if (!document.hidden) restart();
}

function disconnect() {
  attempt += 1;
  stream?.close();
  stream = undefined;
}

/** Shows the moment of the address: the past, or what changes from now on. */
export function restart() {
  if (!address.isPast()) return connect();
  disconnect();
  if (!isLoadingPast) showPast();
}

let isLoadingPast = false;

/** Loads moments of the past, one after the other, until the one of the last attempt is shown. */
async function showPast() {
  isLoadingPast = true;
  for (let shown; shown !== attempt && address.isPast() && !document.hidden; ) {
    const own = attempt;
    try {
      // While the reader drags, a moment that is not the last one is shown, too.
      await refresh(address.isPast, true);
      shown = own;
    } catch (error) {
      report(error);
      // The page forgets what it shows, so that the next summary must be a whole one.
      if (error instanceof Refused) [shown, tag] = [own, undefined];
      if (address.isPast()) on[shown === own ? "unknown" : "lost"](error);
    }
    await pause(shown === own ? SPACING : RETRY[1]);
  }
  isLoadingPast = false;
}

/** Loads everything and opens the stream. Tries until it succeeds or a later call takes over. */
async function connect() {
  disconnect();
  const own = attempt;
  for (let wait = RETRY[0]; own === attempt; wait = Math.min(wait * 2, RETRY[1])) {
    try {
      await refresh(() => own === attempt, true);
      if (own !== attempt) return;
      const { lastEvent, tables } = model.headOf();
      const opened = await follow(lastEvent, tables, listenersOf(own));
      if (own !== attempt) return opened?.close();
      stream = opened;
      on.followed(Boolean(stream));
      if (!stream) await poll(own);
      return;
    } catch (error) {
      report(error);
      if (own === attempt) on.lost();
    }
    await pause(wait);
  }
}

/**
 * Loads the summary, and shows it if it is still wanted then. The first one of a connection is new for the page, whether it has
 * changed or not.
 */
async function refresh(isWanted, isFirst = false) {
  const loaded = await load("summary", {}, tag ? { "if-none-match": tag } : {});
  if (!isWanted()) return;
  if (loaded) {
    const { tag: newest, ...summary } = loaded;
    tag = newest;
    model.replaceAll(summary);
  }
  if (loaded || isFirst) on.loaded();
}

function apply(update) {
  // The next summary must be a whole one, because this update changes the last one.
  if (!model.isKnown(update)) tag = undefined;
  on.update(model.update(update));
}

function listenersOf(own) {
  const isCurrent = (action) => (data) => own === attempt && action(data);
  return {
    change: isCurrent(on.change),
    summary: isCurrent(apply),
    reset: isCurrent(connect),
    lost: isCurrent(() => stream && connect()),
  };
}

/** Without a stream, asks for the summary now and then, and after a while tries again to open a stream. */
async function poll(own) {
  for (let round = 0; round < POLLS; round += 1) {
    await pause(POLL);
    if (own !== attempt) return;
    await refresh(() => own === attempt);
  }
  connect();
}

/** Other errors than those of the server are mistakes of this page. */
function report(error) {
  if (!(error instanceof Refused || error instanceof Unreachable)) console.error(error);
}
