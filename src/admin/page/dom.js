// Builds elements. Texts of the API become text nodes and never markup.

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

/** Returns a shape of the sprite in the document. Its meaning is always written next to it. */
export function icon(shape) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "use"));
  setIcon(svg, shape);
  return svg;
}

export function setIcon(svg, shape) {
  svg.setAttribute("class", `icon ${shape}`);
  svg.firstChild.setAttribute("href", `#i-${shape}`);
}

/** Sets a text, unless it is already set, so that selections stay. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Returns the address of the explanation of a name. */
export const addressOf = (name) => `#/name/${encodeURIComponent(name)}`;

let silence;
/** Announces a sentence to screen readers. Sentences that follow each other quickly are announced once. */
export function announce(sentence) {
  clearTimeout(silence);
  silence = setTimeout(() => (byId("announce").textContent = sentence), 400);
}
