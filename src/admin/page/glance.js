// The first glance: state of the server, figures, queries per second, problems.

import { announce, byId, element, icon, setText } from "./dom.js";
import { SERVER_STATES, count, duration } from "./words.js";

/** Samples of the sparkline, one for each second. */
const SAMPLES = 90;
const samples = [];
/** Counter of queries and time of the last status. */
let last;
let shownState;
let shownProblems = "[]";

/** Shows `/api/v1/status`. */
export function showStatus(status) {
  setText(byId("cluster"), status.cluster);
  setText(byId("version"), status.version);
  setText(byId("zones"), status.zones.join(" "));
  setText(byId("generation"), status.generation === null ? "–" : count(status.generation));
  byId("generation").title = status.serial ? `Serial ${status.serial}` : "";
  setText(byId("age"), status.generation === null ? "–" : duration(status.tableAgeSeconds));
  showRate(status.queries);
  showProblems(status.problemRows);
  document.title = `${status.problemRows.length ? `(${status.problemRows.length}) ` : ""}${status.cluster} – global-dns`;
}

/** Shows the state of the server, or of the connection to it. */
export function showState(state) {
  if (state === shownState) return;
  const [shape, label] = SERVER_STATES.get(state) ?? ["note", state];
  byId("state").replaceChildren(icon(shape), label);
  if (shownState !== undefined) announce(`State: ${label}`);
  shownState = state;
}

function showRate(queries) {
  const now = performance.now();
  // A counter that decreased belongs to a new process.
  const rate = last && queries >= last.queries ? ((queries - last.queries) * 1000) / (now - last.now) : undefined;
  last = { queries, now };
  if (rate === undefined) return;
  samples.push(rate);
  samples.splice(0, samples.length - SAMPLES);
  setText(byId("rate"), rate > 0 && rate < 10 ? rate.toFixed(1) : count(Math.round(rate)));
  const top = Math.max(1, ...samples);
  const x = (index) => (120 - (samples.length - 1 - index) * (120 / (SAMPLES - 1))).toFixed(1);
  const line = samples.map((sample, index) => `${x(index)} ${(22.5 - (21 * sample) / top).toFixed(1)}`).join("L");
  const [area, stroke] = byId("spark").children;
  stroke.setAttribute("d", `M${line}`);
  area.setAttribute("d", `M${x(0)} 24L${line}L120 24z`);
}

/** Shows a line for each problem: its text, what to do, and the section of the manual, which may be hosted anywhere. */
export function showProblems(problems) {
  const text = JSON.stringify(problems);
  if (text === shownProblems) return;
  shownProblems = text;
  const section = byId("problems");
  section.hidden = problems.length === 0;
  const row = ({ text, hint, anchor }) =>
    element("li", {}, icon("warning"), element("span", {}, text, hint && element("small", {}, ` ${hint} `, element("code", {}, anchor))));
  section.firstChild.replaceChildren(...problems.map(row));
  announce(problems.length ? `Problems: ${problems.map(({ text }) => text).join("; ")}` : "No problems");
}
