// How results of a search are ordered: headings that are what was searched for, then pages of the documentation, those
// of the reference first, then source files. Sphinx's own order puts a page whose long title has the word beside the
// heading that is the word, and sorts the others by name. The other numbers are Sphinx's.
var Scorer = {
  score: ([page, , , , score, , kind]) => {
    if (kind === "title") return 2 * score;
    if (page.startsWith("source/")) return score - 10;
    return page.startsWith("reference/") ? score + 1 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
