/* How the search orders what it finds: pages for people first, then the reference, then the changelog. */
"use strict";

const searchedFor = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
const WEIGHTS = [
  [/^CHANGELOG/, -30],
  [/^docs\/(internals\/|errors|commands)/, -8],
  [/^(collection|local_cloud|CODE_OF_CONDUCT|CONTRIBUTING)/, -15],
  [/^docs\/(install|before-you-start|first-training|log-in|tutorial)/, 14],
  [/^(docs|index)/, 8],
];

var Scorer = {
  score: ([page, title, anchor, , score]) => {
    const [, weight] = WEIGHTS.find(([pattern]) => pattern.test(page)) || [null, 0];
    const words = title.toLowerCase();
    const named = searchedFor.length > 0 && searchedFor.every((word) => words.includes(word));
    // A page whose file has the name of what is searched for is about nothing else.
    const own = page.split("/").pop() === searchedFor.join("-");
    return score + weight + (named ? 20 : 0) + (own && !anchor ? 60 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
