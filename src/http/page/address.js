// The place that the address bar names: a view, its filters, and the name whose answer is open. A link shows the same to everybody.
//
//     #/?state=attention&cluster=east    #/problems?kind=gateway-down    #/changes?service=prod/db&name=db.prod.global

const VIEWS = ["services", "problems", "changes"];
/** What stays when the view changes. */
const SHARED = ["name", "zone", "open", "at", "span"];

let view, parameters;
/** The last filters of each view, so that its tab leads back to them. */
const lastOf = {};
let listener = () => undefined;

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  view = VIEWS.includes(path) ? path : VIEWS[0];
  parameters = new URLSearchParams(query);
  lastOf[view] = parameters;
}

/** Starts to follow the address bar. `change` is called when it names another place. */
export function start(change) {
  listener = change;
  addEventListener("hashchange", () => {
    read();
    listener();
  });
}

export const currentView = () => view;
/** Returns a parameter of the place, or an empty text. */
export const parameter = (name) => parameters.get(name) ?? "";

/** Returns whether the place is one of the past. A time that cannot be read is shown as such by the server. */
export const isPast = () => parameter("at") !== "";
/** Returns the moment that is shown. */
export const moment = () => (isPast() ? new Date(parameter("at")) : new Date());

function format(view, parameters) {
  const query = parameters.toString().replaceAll("%2F", "/");
  return `#/${view === VIEWS[0] ? "" : view}${query && "?"}${query}`;
}

/** Returns the address of this place with some changes. An empty value removes a parameter. */
export function here(changes) {
  const changed = new URLSearchParams(parameters);
  for (const [name, value] of Object.entries(changes)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  return format(view, changed);
}

/** Returns the address of a view with these filters. What is shared by all views stays, unless the filters change it. */
export function addressOf(view, filters = {}) {
  const shared = SHARED.map((name) => [name, parameter(name)]);
  const all = Object.entries({ ...Object.fromEntries(shared), ...filters });
  return format(view, new URLSearchParams(all.filter(([, value]) => value)));
}

/** Returns the address of a view with its last filters. */
export function lastAddressOf(view) {
  const filters = [...(lastOf[view] ?? [])].filter(([name]) => !SHARED.includes(name));
  return addressOf(view, Object.fromEntries(filters));
}

/** Goes to an address. Small steps, such as a letter of a search, do not become steps of the browser's history. */
export function go(address, isSmallStep = false) {
  if (address === format(view, parameters)) return;
  history[isSmallStep ? "replaceState" : "pushState"](null, "", address);
  read();
  listener();
}

read();
