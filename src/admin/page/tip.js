// Tooltips of elements with `data-tip`, for the mouse and for the keyboard.

import { byId } from "./dom.js";

/** Pixels between a tooltip and its element, and the edge of the window. */
const GAP = 6;

const tip = byId("tip");

export function start() {
  for (const type of ["pointerover", "focusin"]) {
    addEventListener(type, ({ target }) => show(target instanceof Element ? target.closest("[data-tip]") : undefined));
  }
  for (const type of ["focusout", "scroll", "pointerdown"]) addEventListener(type, () => show(), { capture: true, passive: true });
  addEventListener("keydown", ({ key }) => key === "Escape" && show());
}

function show(element) {
  tip.hidden = !element;
  if (!element) return;
  tip.textContent = element.dataset.tip;
  const [box, own] = [element.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.min(box.left, innerWidth - own.width - GAP);
  const isBelow = box.bottom + GAP + own.height < innerHeight;
  tip.style.left = `${Math.max(GAP, left)}px`;
  tip.style.top = `${isBelow ? box.bottom + GAP : box.top - GAP - own.height}px`;
}
