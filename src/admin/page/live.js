// Keeps the page up to date while it is visible: loads the summary once, and then follows the stream of changes.

import * as address from "./address.js";
import { Refused, Unreachable, follow, forgetTag, loadSummary, pause } from "./api.js";
import * as model from "./model.js";

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
  if (!address.isPast()) connect();
  else if (!isLoadingPast) showPast();
}

let isLoadingPast = false;

/** Loads moments of the past, one after the other, until the one of the address is shown. */
async function showPast() {
  disconnect();
  isLoadingPast = true;
  for (let shown; address.isPast() && address.parameter("at") !== shown && !document.hidden; ) {
    shown = address.parameter("at");
    const own = attempt;
    try {
      await refresh(own, true);
    } catch (error) {
      report(error);
      if (own === attempt && address.isPast()) on.unknown(error);
    }
    await pause(SPACING);
  }
  isLoadingPast = false;
}

/** Loads everything and opens the stream. Tries until it succeeds or a later call takes over. */
async function connect() {
  disconnect();
  const own = attempt;
  for (let wait = RETRY[0]; own === attempt; wait = Math.min(wait * 2, RETRY[1])) {
    try {
      await refresh(own, true);
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

/** Loads the summary. The first one of a connection is new for the page, whether it has changed or not. */
async function refresh(own, isFirst = false) {
  const summary = await loadSummary();
  if (own !== attempt) return;
  if (summary) model.replaceAll(summary);
  if (summary || isFirst) on.loaded();
}

function apply(update) {
  if (!model.isKnown(update)) forgetTag();
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
    await refresh(own);
  }
  connect();
}

/** Other errors than those of the server are mistakes of this page. */
function report(error) {
  if (!(error instanceof Refused || error instanceof Unreachable)) console.error(error);
}
