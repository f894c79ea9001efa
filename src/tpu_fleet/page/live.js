const state = document.getElementById("live");
const source = new EventSource("events");
const all = (root, what) => [...root.querySelectorAll(what)];
const REGIONS = "main [role=region]";
const now = (one) => document.getElementById(one.id);
let pointer = null;
addEventListener("pointermove", (event) => { pointer = event; }, { passive: true });
document.documentElement.addEventListener("pointerleave", () => { pointer = null; });

// Returns why the page must not change at this moment, or "".
function busy() {
  if (document.activeElement?.closest("main") && document.activeElement.matches(":focus-visible")) {
    return "waits while the keyboard is in the page";
  }
  const chosen = getSelection();
  return chosen.isCollapsed || !chosen.anchorNode.parentElement?.closest("main") ? "" : "waits while text is selected";
}

// Cards and rows stay in the order in which the page was opened; new ones come first.
function keepOrder(fresh) {
  for (const list of ["#all-runs tbody > tr", "article.run", ".rows > .row"]) {
    const order = all(document, list).map((one) => one.id);
    const found = all(fresh, list);
    if (!found.length) continue;
    const end = found.at(-1).nextSibling;
    const parent = found[0].parentNode;
    found.sort((one, other) => order.indexOf(one.id) - order.indexOf(other.id));
    found.forEach((one) => parent.insertBefore(one, end));
  }
}

// Returns what must stay where it is: what is under the pointer, or nearest to the top of the window.
function inView() {
  const under = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY)?.closest("main [id]");
  if (under) return under;
  const shown = all(document, "main [id]").filter((one) => one.getClientRects().length);
  const top = (one) => one.getBoundingClientRect().top;
  return shown.find((one) => top(one) >= 0 && top(one) < innerHeight) ?? shown.findLast((one) => top(one) < 0);
}

function replace(fresh) {
  all(fresh, "details[id]").forEach((one) => { if (now(one)) one.open = now(one).open; });
  keepOrder(fresh);
  // What needs a person may become less; what is below it stays where it is.
  const needs = fresh.querySelector(".needs");
  if (needs) needs.style.minHeight = `${document.querySelector(".needs")?.offsetHeight ?? 0}px`;
  const held = inView();
  const before = held?.getBoundingClientRect().top;
  const focused = document.activeElement?.closest("main details[id]")?.id;
  const name = (one) => one.getAttribute("aria-label");
  const places = new Map(all(document, REGIONS).map((one) => [name(one), { top: one.scrollTop, left: one.scrollLeft }]));
  for (const part of ["main", "footer", "title", "#seen-at", "nav"]) {
    const other = fresh.querySelector(part);
    const old = document.querySelector(part);
    if (other && (part === "main" || !old?.contains(document.activeElement))) old?.replaceWith(other);
  }
  ages();
  all(document, REGIONS).forEach((one) => one.scrollTo({ ...places.get(name(one)), behavior: "instant" }));
  if (focused) document.getElementById(focused)?.querySelector("summary").focus({ preventScroll: true });
  const after = held && now(held);
  if (after) scrollBy({ top: after.getBoundingClientRect().top - before, behavior: "instant" });
}

source.onopen = () => { state.textContent = "live"; state.className = "live"; };
source.onerror = () => { state.textContent = "not connected"; state.className = "live off"; };
source.onmessage = async () => {
  const answer = await fetch("", { cache: "no-store" });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const why = busy();
  if (!why) replace(fresh);
  state.textContent = why || "live";
};
