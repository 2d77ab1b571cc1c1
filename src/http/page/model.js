// What the page knows: the head of the summary, and a row for each service in their natural order.

import { isTrouble, natural, rank, worst } from "./words.js";

/** States of links in which nothing new comes from their cluster. */
export const TROUBLED_LINKS = new Set(["frozen", "unlinked"]);
/** Results of names that are answered. */
const ANSWERED = new Set(["NOERROR", "NODATA"]);

let head;
/** Rows by their key, `namespace/service`. */
let rows = new Map();
/** The same rows in natural order. */
let ordered = [];

/** Returns the head of the summary, or undefined before it was loaded. */
export const headOf = () => head;
export const row = (key) => rows.get(key);
export const all = () => ordered;

/** Takes over a whole summary. Rows that did not change stay the same objects. */
export function replaceAll({ services, ...rest }) {
  head = rest;
  const before = rows;
  rows = new Map();
  for (const service of services) add(service, before);
  sort();
}

/** Forgets everything. */
export function forget() {
  head = undefined;
  rows = new Map();
  ordered = [];
}

/** Takes over the changes of an update. Returns the keys of the services that changed. */
export function update({ tables, services, removed, head: next = head }) {
  head = { ...next, tables };
  const size = rows.size;
  for (const key of removed) rows.delete(key);
  for (const service of services) add(service, rows);
  if (removed.length || rows.size !== size) sort();
  else if (services.length) ordered = ordered.map(({ key }) => rows.get(key));
  return new Set([...removed, ...services.map(keyOf)]);
}

/** Returns whether an update only repeats what is known, as the first one of a stream does. */
export function isKnown({ services, removed, head: next = head }) {
  return !services.length && !removed.length && JSON.stringify(next) === JSON.stringify(head);
}

const keyOf = ({ namespace, service }) => `${namespace}/${service}`;

function add(service, before) {
  const key = keyOf(service);
  const mark = JSON.stringify(service);
  const old = before.get(key);
  if (old?.mark === mark) return rows.set(key, old);
  const cells = new Map(service.cells.map((cell) => [cell.cluster, cell]));
  const changed = before.size ? performance.now() : undefined;
  rows.set(key, { ...service, key, mark, cells, changed, text: `${service.service}.${service.namespace}` });
}

function sort() {
  ordered = [...rows.values()].sort((one, other) => natural(one.service, other.service) || natural(one.namespace, other.namespace));
}

/** Returns whether the server answers no name at all, whatever the rows say. */
export const isSilent = () => head?.state === "loading";

/** Returns the level of a row. A name that is not answered is never fine. */
export const levelOf = (row) => (isSilent() ? "failing" : worst([row.level, ANSWERED.has(row.result) ? "fine" : "attention"]));

/** Returns the number of services of each level. */
export function countsByLevel() {
  const counts = { fine: 0, attention: 0, failing: 0 };
  for (const row of ordered) counts[levelOf(row)] += 1;
  return counts;
}

/** The natural order of clusters. Addresses of no one cluster are last. */
const orderOfClusters = ({ name: one }, { name: other }) => (one === "") - (other === "") || natural(one, other);

/** Returns the clusters, this one first. Addresses of no one cluster have a column of their own, the last one. */
export function clusters() {
  const known = new Map(head.clusters.map((cluster) => [cluster.name, cluster]));
  const others = new Set();
  for (const { cells } of ordered) {
    for (const name of cells.keys()) if (!known.has(name)) others.add(name);
  }
  const rest = [...others].map((name) => ({ name })).sort(orderOfClusters);
  return [...known.values(), ...rest];
}

/**
 * Returns the clusters in the order of the map's columns: this one, those in trouble with the worst first, and the others.
 */
export function clustersByTrouble() {
  const ranks = new Map();
  const note = (name, level) => ranks.set(name, Math.max(ranks.get(name) ?? 0, rank(level)));
  for (const { name, link } of head.clusters) if (TROUBLED_LINKS.has(link)) note(name, "attention");
  for (const row of ordered) {
    const level = levelOf(row);
    if (level === "fine") continue;
    for (const { cluster, state } of row.cells.values()) if (isTrouble(state)) note(cluster, level);
  }
  const rankOf = ({ name, isOwn }) => (isOwn ? Infinity : (ranks.get(name) ?? 0));
  const order = (one, other) => Number(rankOf(one) < rankOf(other)) - Number(rankOf(one) > rankOf(other)) || orderOfClusters(one, other);
  return clusters().sort(order);
}

// === Names ===

/** Returns the name of a service in a zone, without the final dot. */
export function nameOf({ service, namespace }, suffix) {
  return `${service}.${namespace}.${suffix}`.replace(/\.$/, "");
}

/** Returns the row of the service that a name belongs to, if there is one. */
export function rowOfName(name) {
  const text = `${name.toLowerCase().replace(/\.$/, "")}.`;
  const matches = (head?.nameSuffixes ?? []).filter((suffix) => text.endsWith(`.${suffix}`));
  if (!matches.length) return undefined;
  const longest = Math.max(...matches.map((suffix) => suffix.length));
  const [service, namespace] = text.slice(0, -longest - 1).split(".").slice(-2);
  return rows.get(`${namespace}/${service}`);
}
