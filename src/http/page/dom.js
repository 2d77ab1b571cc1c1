// Builds elements, shows tooltips, and tells screen readers what changed. Texts of the API become text nodes and never markup.

const SVG = "http://www.w3.org/2000/svg";

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
export function button(attributes, action, ...children) {
  const node = element("button", { type: "button", ...attributes }, ...children);
  node.addEventListener("click", action);
  return node;
}

/** Returns a shape of the sprite in the document. Its meaning is always written next to it. */
export function icon(shape, color = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "use"));
  setIcon(svg, shape, color);
  return svg;
}

export function setIcon(svg, shape, color = "") {
  svg.setAttribute("class", `icon ${color}`);
  svg.firstChild.setAttribute("href", `#i-${shape}`);
}

/** Sets a text, unless it is already set, so that selections stay. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the children of a node if they differ. The focus stays on the link or button that was there before. */
export function replace(node, ...children) {
  const fresh = node.cloneNode(false);
  fresh.append(...children);
  if (fresh.isEqualNode(node)) return;
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  node.replaceChildren(...fresh.childNodes);
  if (focused) [...node.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused)?.focus();
}

/** Puts spaces between parts, so that they are words for every reader. Undefined parts are omitted. */
export const separated = (parts) => parts.filter(Boolean).flatMap((part) => [part, " "]);

/** Sets the options of a list: pairs of a value and its text. The first one stands for no choice. */
export function setOptions(select, options, chosen) {
  const text = JSON.stringify(options);
  if (select.dataset.options !== text) {
    select.dataset.options = text;
    select.replaceChildren(...options.map(([value, label]) => element("option", { value }, label)));
  }
  // A link may name a value that does not exist any more. It must be visible that it filters.
  if (chosen && !options.some(([value]) => value === chosen)) select.append(element("option", { value: chosen }, chosen));
  if (select.value !== chosen) select.value = chosen;
}

// === Announcements: politely, and at most one every five seconds ===

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

// === Tooltips of elements with `data-tip`, for the mouse and for the keyboard ===

/** Pixels between a tooltip and its element, and the edge of the window. */
const GAP = 6;

const tip = byId("tip");

export function startTips() {
  for (const type of ["pointerover", "focusin"]) {
    addEventListener(type, ({ target }) => showTip(target instanceof Element ? target.closest("[data-tip]") : undefined));
  }
  for (const type of ["focusout", "scroll", "pointerdown"]) addEventListener(type, () => showTip(), { capture: true, passive: true });
  addEventListener("keydown", ({ key }) => key === "Escape" && showTip());
}

function showTip(element) {
  tip.hidden = !element;
  if (!element) return;
  tip.textContent = element.dataset.tip;
  const [box, own] = [element.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.min(box.left, innerWidth - own.width - GAP);
  const isBelow = box.bottom + GAP + own.height < innerHeight;
  tip.style.left = `${Math.max(GAP, left)}px`;
  tip.style.top = `${isBelow ? box.bottom + GAP : box.top - GAP - own.height}px`;
}
