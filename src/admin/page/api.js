// Requests to the API, and the stream of its changes.

/** The server answered with an error. Its text is a sentence. */
export class Refused extends Error {}

/** There is no server, or it did not respond in time. */
export class Unreachable extends Error {}

/** Returns the JSON document of a path below /api/v1/. */
export async function load(path) {
  const options = { headers: { accept: "application/json" }, signal: AbortSignal.timeout(15000) };
  let response, text;
  try {
    response = await fetch(`api/v1/${path}`, options);
    text = await response.text();
  } catch (error) {
    throw new Unreachable(error.message);
  }
  if (!response.ok) throw new Refused(text.trim() || `HTTP status ${response.status}`);
  return JSON.parse(text);
}

/**
 * Opens the stream of changes after the event `after`. Returns it when it is open, or undefined if it cannot be opened.
 * `on` has a function for each event of the server, and `lost` for the end of a stream that was open.
 *
 * The browser would reconnect by itself, but not after every error, and without loading what the page missed.
 */
export function follow(after, on) {
  const query = after === undefined ? "" : `?after=${encodeURIComponent(after)}`;
  const source = new EventSource(`api/v1/events${query}`);
  source.addEventListener("change", (message) => on.change(JSON.parse(message.data)));
  source.addEventListener("table", (message) => on.table(JSON.parse(message.data).generation));
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
