// Tells screen readers what changed: politely, and at most one announcement every five seconds.

import { byId } from "./dom.js";

/** Milliseconds between two announcements. */
const INTERVAL = 5000;
/** Milliseconds in which sentences that follow each other become one announcement. */
const SETTLE = 400;
/** The last sentence of each topic that was not announced yet. */
const waiting = new Map();
let timer;
let last = -INTERVAL;

/** Announces a sentence. A later one about the same topic takes its place. */
export function announce(topic, sentence) {
  waiting.set(topic, sentence);
  timer ??= setTimeout(speak, Math.max(SETTLE, last + INTERVAL - performance.now()));
}

function speak() {
  byId("announce").textContent = [...waiting.values()].join(". ");
  waiting.clear();
  last = performance.now();
  timer = undefined;
}
