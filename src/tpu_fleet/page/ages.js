"use strict";
// Ages grow, and a page that is no longer written says so. Without this script the page has the
// ages of the time at which it was written, and says that.
const OLD = 900;
const seconds = (one) => Math.max(0, Date.now() / 1000 - Date.parse(one.dateTime) / 1000);

// As `long` of tpu-fleet formats a duration.
function long(all) {
  for (const [size, name, smaller, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 0, ""]]) {
    if (all < size) continue;
    const rest = smaller ? Math.floor((all % size) / smaller) : 0;
    return `${Math.floor(all / size)} ${name}${rest ? ` ${rest} ${small}` : ""}`;
  }
  return `${Math.floor(all)} s`;
}

function ages() {
  for (const one of document.querySelectorAll("time.age")) {
    const text = long(seconds(one));
    if (one.textContent !== text) one.textContent = text;
  }
  document.body.classList.add("counted");
  const written = document.querySelector("#written time");
  const stale = document.getElementById("stale");
  stale.hidden = seconds(written) < OLD;
  if (!stale.hidden) stale.textContent = `This page is ${long(seconds(written))} old, and was not written again. Runs and costs may have changed since.`;
}

// A link to a run opens its card.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const card = target?.closest("details");
  if (card && !card.open) { card.open = true; target.scrollIntoView(); }
}

ages();
open();
setInterval(ages, 5000);
addEventListener("hashchange", open);
