// The heads of the map's columns: names of clusters, as short and as upright as the width permits, and the states of their links.

import * as address from "./address.js";
import { element, icon, link } from "./dom.js";
import { TROUBLED_LINKS } from "./model.js";
import { count, counted, sinceWords } from "./words.js";

/** Pixels: the narrowest and the widest column of a cluster, the space in it around its name, and the longest turned name. */
const NARROW = 62;
const WIDE = 150;
const SPACE = 22;
const LONGEST = 230;
/** A prefix that is not longer is not worth an ellipsis. */
const SHORT_PREFIX = 3;

/** Addresses that belong to no one cluster. */
export const labelOfCluster = (name) => name || "shared";

const context = document.createElement("canvas").getContext("2d");

/**
 * Returns how the columns are set: their width, the label of each cluster, and whether the labels are turned and how high the
 * heads are then.
 */
export function layout(clusters, available, font) {
  context.font = font;
  const width = Math.min(WIDE, Math.max(NARROW, Math.floor(available / Math.max(1, clusters.length))));
  const longest = (labels) => Math.max(0, ...labels.map((label) => context.measureText(label).width));
  const full = clusters.map(({ name }) => labelOfCluster(name));
  if (longest(full) <= width - SPACE) return { width, labels: full, isTurned: false };
  const short = withoutPrefix(full);
  const length = longest(short);
  if (length <= width - SPACE) return { width, labels: short, isTurned: false };
  return { width, labels: short, isTurned: true, height: Math.ceil(Math.min(LONGEST, length + SPACE) * Math.SQRT1_2) + 30 };
}

/** Removes what the names of most clusters start with, up to a separator. The cluster of the server may be named differently. */
function withoutPrefix(names) {
  const prefix = commonPrefix(names) || commonPrefix(names.slice(1));
  if (prefix.length <= SHORT_PREFIX) return names;
  return names.map((name) => (name.startsWith(prefix) && name !== prefix ? `…${name.slice(prefix.length)}` : name));
}

function commonPrefix([first, ...others]) {
  if (!others.length) return "";
  let length = 0;
  while (length < first.length && others.every((name) => name[length] === first[length])) length += 1;
  return first.slice(0, length).replace(/[^-._]*$/, "");
}

/** Returns the head of a cluster's column: a link that shows only the services of this cluster. */
export function headOf({ name, isOwn, link: state, since }, label) {
  const isTroubled = TROUBLED_LINKS.has(state);
  const filtered = address.currentView() === "services" && address.parameter("cluster");
  const hint = isOwn ? "this cluster" : state;
  const tip = `${name ? `Cluster ${name}` : "Addresses of no one cluster"}${hint ? `: ${hint}${sinceWords(since)}` : ""}`;
  const parts = [element("span", {}, label)];
  if (isOwn) parts.push(element("small", {}, "here"));
  if (isTroubled) parts.push(element("small", { class: "attention" }, icon("attention"), ` ${state}`));
  const to = address.addressOf("services", { cluster: filtered === name ? "" : name });
  const inside = name ? link(to, ...parts) : element("span", { tabindex: 0 }, ...parts);
  inside.dataset.tip = tip;
  // The address of the link changes when it is followed.
  inside.dataset.focus = `cluster ${name}`;
  return element("th", { scope: "col", class: "cell", abbr: labelOfCluster(name) }, inside);
}

/** Returns the head after the last column if some clusters have none. */
export function headOfRest(number) {
  const tip = `${counted(number, "cluster")} without a column. Choose one in the filters to see it.`;
  return element("th", { scope: "col", class: "cell rest" }, element("span", { tabindex: 0, "data-tip": tip, "data-focus": "rest" }, `+${count(number)} more`));
}
