"use strict";
const state = document.getElementById("live");
const source = new EventSource("events");
source.onopen = () => { state.textContent = "live"; state.className = "live"; };
source.onerror = () => { state.textContent = "not connected"; state.className = "live off"; };
source.onmessage = async () => {
  const answer = await fetch("", { cache: "no-store" });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const open = new Map();
  const key = (one) => one.querySelector("summary").textContent.replace(/\d+/g, "") + "|" + (one.closest("article")?.querySelector("h3").textContent ?? "");
  document.querySelectorAll("details").forEach((one) => open.set(key(one), one.open));
  fresh.querySelectorAll("details").forEach((one) => { if (open.has(key(one))) one.open = open.get(key(one)); });
  // What somebody reads by keyboard stays where it is.
  if (document.activeElement?.closest("main")) {
    state.textContent = "waits while the keyboard is in the page";
    return;
  }
  state.textContent = "live";
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  document.querySelector("footer").replaceWith(fresh.querySelector("footer"));
  document.querySelector("#seen time")?.replaceWith(fresh.querySelector("#seen time"));
};
