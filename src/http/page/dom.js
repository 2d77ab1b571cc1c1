// Builds elements, and tells screen readers what changed. Texts of the API become text nodes and never markup.

export const byId = (id) => document.getElementById(id);

/** Returns an element with attributes and children. Undefined children and attributes are omitted. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined));
  return node;
}

/** Returns a link to a place of this page. */
export const link = (href, ...children) => element("a", { href, "data-focus": href }, ...children);

/** Returns a button that runs `action`. */
export function button(text, action, attributes = {}) {
  const node = element("button", { type: "button", "data-focus": text, ...attributes }, text);
  node.addEventListener("click", action);
  return node;
}

/** Returns a command with a button that copies it. If the browser forbids that, the command is selected for the keyboard. */
export function command(text) {
  const code = element("code", {}, text);
  const copy = async () => {
    getSelection().selectAllChildren(code);
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    node.textContent = "Copied";
    announce("Copied");
  };
  const node = button("Copy", copy, { "data-focus": `copy ${text}`, title: `Copy ${text}` });
  return element("span", { class: "command" }, code, " ", node);
}

/** Returns a text with a shape before it, in a color. The text says the same as the shape. */
export const marked = (shape, color, ...children) => element("span", { class: `mark s-${shape} ${color}` }, ...children);

/** Puts spaces between parts, so that they are words for every reader. Undefined parts are omitted. */
export const separated = (...parts) => parts.filter(Boolean).flatMap((part) => [part, " "]);

/** Sets a text, unless it is already set, so that selections stay. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Makes `children` the children of a node. Those that are there already stay, and so does the focus. */
export function replace(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  const before = [...parent.childNodes];
  const after = [...element("div", {}, ...children.filter(Boolean)).childNodes];
  after.forEach((child, index) => {
    if (!before[index]) parent.append(child);
    else if (!before[index].isEqualNode(child)) before[index].replaceWith(child);
  });
  before.slice(after.length).forEach((child) => child.remove());
  if (focused && !parent.contains(document.activeElement)) {
    [...parent.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused)?.focus({ preventScroll: true });
  }
}

/** Sets the options of a list: pairs of a value and its text. */
export function setOptions(list, options, chosen = "") {
  // A link may name a value that does not exist any more. It must be visible that it filters.
  const all = options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]];
  replace(list, ...all.map(([value, label]) => element("option", { value }, label)));
  if (list.value !== chosen) list.value = chosen;
}

/** Milliseconds between two announcements, and when the last one was. */
const INTERVAL = 5000;
let last = -INTERVAL;
let waiting = [];

/** Announces a sentence politely. Those that wait for the interval become one announcement. */
export function announce(sentence) {
  if (waiting.push(sentence) > 1) return;
  const speak = () => {
    byId("announce").textContent = waiting.slice(-3).join(". ");
    [waiting, last] = [[], performance.now()];
  };
  setTimeout(speak, Math.max(400, last + INTERVAL - performance.now()));
}
