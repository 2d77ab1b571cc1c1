// The place that the hash of the address names: filters, the name whose answer is open, the time. A link shows the same to everybody.
//
//     #state=failing&cluster=east    #q=db&name=db.prod.global&at=2026-11-24T03:12:00Z

let parameters = new URLSearchParams();
let listener = () => undefined;

const read = () => (parameters = new URLSearchParams(location.hash.slice(1)));
const format = (place) => `#${place.toString().replaceAll("%2F", "/")}`;

/** Returns a parameter of the place, or an empty text. */
export const parameter = (name) => parameters.get(name) ?? "";

/** Returns whether the place is one of the past, and the moment that is shown. */
export const isPast = () => parameter("at") !== "";
export const moment = () => (isPast() ? new Date(parameter("at")) : new Date());

/** Returns the address of this place with some changes. An empty value removes a parameter. */
export function here(changes) {
  const changed = new URLSearchParams(parameters);
  for (const [name, value] of Object.entries(changes)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  return format(changed);
}

/** Goes to an address. Small steps, such as a letter of a search, do not become steps of the browser's history. */
export function go(address, isSmallStep = false) {
  if (address === format(parameters)) return;
  history[isSmallStep ? "replaceState" : "pushState"](null, "", address);
  read();
  listener();
}

/** Starts to follow the address. `change` is called when it names another place. */
export function start(change) {
  listener = change;
  addEventListener("hashchange", () => {
    read();
    listener();
  });
  read();
}

let suffixes = [];
let ownSuffix = "";

/** Sets what follows the namespace in names, for each zone of the server, and in the zone of all clusters. */
export const setSuffixes = (known, own) => ([suffixes, ownSuffix] = [known, own]);

/** Returns the suffix of the zone in which the page names services: the one of the address, or that of all clusters. */
export const suffix = () => (suffixes.includes(parameter("zone")) ? parameter("zone") : ownSuffix);

/** Returns the address of the answer to a name. */
export const answerAddress = (name) => here({ name: name.replace(/\.$/, ""), show: "" });

/** Returns the address of the answer to the name of a service, `namespace/service`. */
export const serviceAddress = (key) => answerAddress(`${key.split("/").reverse().join(".")}.${suffix()}`);

/** Returns a name without the zone, or undefined if it is in none. */
export function withoutZone(name) {
  const text = `${name.toLowerCase().replace(/\.$/, "")}.`;
  const [longest] = suffixes.filter((one) => text.endsWith(`.${one}`)).sort((one, other) => other.length - one.length);
  return longest && text.slice(0, -longest.length - 1);
}

/** Returns the same name in another zone. A name outside of the zones stays as it is. */
export const inZone = (name, zone) => (withoutZone(name) ? `${withoutZone(name)}.${zone}`.replace(/\.$/, "") : name);

/** Returns the address of the page of a cluster, beside its services. */
export const clusterAddress = (cluster) => here({ cluster, show: "cluster", name: "", state: "", q: "", open: "" });

/** Returns the service that a name with a namespace belongs to, `namespace/service`, or undefined. */
export function serviceOf(name) {
  const [service, namespace] = (withoutZone(name) ?? "").split(".").slice(-2);
  return namespace && `${namespace}/${service}`;
}
