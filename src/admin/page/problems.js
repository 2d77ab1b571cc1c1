// The view of all problems, page by page. The server filters them.

import * as address from "./address.js";
import { load } from "./api.js";
import { byId, element, link, replace } from "./dom.js";
import * as model from "./model.js";
import { problemGroups } from "./problem.js";
import { count } from "./words.js";

/** Problems on one page. */
const LIMIT = 100;

let request = 0;
let shown = [];

/** Returns the kinds and services that the filters of this view offer. */
export function known() {
  const causes = model.headOf()?.attention ?? [];
  const both = [...causes, ...shown];
  return { kinds: both.map(({ kind }) => kind), services: both.map(({ service }) => service).filter(Boolean) };
}

/** Loads and shows the page of problems that the address names. */
export async function show() {
  const own = ++request;
  const offset = Number(address.parameter("offset")) || 0;
  const names = ["kind", "level", "cluster", "service"];
  const filters = Object.fromEntries(names.map((name) => [name, address.parameter(name)]));
  const { problems, total } = await load("problems", { ...filters, offset, limit: LIMIT });
  if (own !== request) return;
  shown = problems;
  const none = Object.values(filters).some(Boolean) ? "No problem matches the filters" : "No problems";
  const blank = element("div", { class: "blank" }, element("h2", {}, none));
  replace(byId("problem-list"), ...(problems.length ? problemGroups(problems) : [blank]));
  replace(byId("pages"), ...pages(offset, problems.length, total));
}

function pages(offset, number, total) {
  if (total <= LIMIT && !offset) return [];
  const to = (start) => address.here({ offset: start > 0 ? String(start) : "" });
  const parts = [element("span", {}, `${count(Math.min(offset + 1, total))} to ${count(offset + number)} of ${count(total)}`)];
  if (offset > 0) parts.unshift(link(to(offset - LIMIT), "Previous"));
  if (offset + number < total) parts.push(link(to(offset + LIMIT), "Next"));
  return parts;
}
