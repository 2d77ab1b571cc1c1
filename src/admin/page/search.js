// The search box: filters the services while the reader types, and explains any name on Enter.

import * as address from "./address.js";
import { byId } from "./dom.js";
import { matching } from "./filters.js";
import { focusRow } from "./map.js";
import { serviceAddress } from "./problem.js";

const input = byId("search");

export function start() {
  input.addEventListener("input", () => {
    const isHere = address.currentView() === "services";
    address.go(isHere ? address.here({ q: input.value }) : address.addressOf("services", { q: input.value }), isHere);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") focusRow();
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    open(input.value.trim());
  });
}

function clear() {
  input.value = "";
  if (address.currentView() === "services") address.go(address.here({ q: "" }), true);
  input.blur();
}

/** Opens the answer of the service that is meant, or else of the name as it was typed. */
function open(text) {
  if (!text) return focusRow();
  const rows = matching();
  const meant = rows.find((row) => row.text === text.toLowerCase()) ?? (rows.length === 1 ? rows[0] : undefined);
  // A text that matches no service is a name only, and must not hide the services.
  address.go(meant ? serviceAddress(meant.key) : address.here({ name: text, q: rows.length ? input.value : "" }));
}
